"""Laws that hold for every protocol."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from halocline.compat.features import features
from halocline.compat.findings import protocol_findings
from halocline.compat.normal_form import required_closure
from halocline.compat.protocol import Protocol
from halocline.errors import IncompatibleError

KNOWN = sorted(features("delta"))
UNKNOWN = ["glow", "shiny"]

legacy = st.builds(Protocol.delta, st.integers(1, 2), st.integers(1, 6))


@st.composite
def listed(draw):
    """A protocol with lists, closed under requirements, at any numbers that allow them."""
    names = required_closure("delta", draw(st.sets(st.sampled_from(KNOWN), max_size=6)))
    for_writers = draw(st.sets(st.sampled_from(UNKNOWN)))
    for_readers = draw(st.sets(st.sampled_from(sorted(for_writers)))) if for_writers else set()
    lowest = Protocol.of("delta", names | for_writers, unknown_for_readers=for_readers).denormalised()
    if not draw(st.booleans()):
        return lowest
    wide = {name for name in names if features("delta")[name].kind == "reader-writer"} | for_readers
    return Protocol.delta(3, 7, wide, names | for_writers)


protocols = legacy | listed()
normal = protocols.map(Protocol.simplest)
names = st.sampled_from(KNOWN)


@given(protocols)
def test_normal_form_of_normal_form_is_itself(protocol):
    assert protocol.normalised().normalised() == protocol.normalised()
    assert protocol.simplest().simplest() == protocol.simplest()


@given(protocols)
def test_every_form_supports_the_same_features(protocol):
    forms = [protocol.normalised(), protocol.denormalised(), protocol.simplest(), protocol.denormalised().normalised()]
    assert {each.features for each in forms} == {protocol.features}


@given(protocols)
def test_every_form_is_valid_and_keeps_what_readers_were_told(protocol):
    for form in (protocol.normalised(), protocol.denormalised(), protocol.simplest()):
        assert not [each for each in protocol_findings(form.to_action()) if each.fatal]
        assert form.unknown_for_readers == protocol.unknown_for_readers


@given(protocols, protocols)
def test_one_normal_form_per_feature_set(one, other):
    same = one.features == other.features and one.unknown_for_readers == other.unknown_for_readers
    assert (one.simplest() == other.simplest()) is same


@given(protocols)
def test_normal_form_never_has_higher_numbers_than_the_features_were_written_with(protocol):
    assume(protocol.has_lists)
    assert protocol.normalised().reader <= protocol.reader
    assert protocol.normalised().writer <= protocol.writer


@given(protocols, protocols)
def test_merging_is_commutative_and_keeps_everything(one, other):
    assert one.merged(other) == other.merged(one)
    assert one.merged(other).features >= one.features | other.features


@given(protocols)
def test_merging_with_itself_adds_nothing(protocol):
    assert protocol.merged(protocol).features == protocol.features


@given(normal, normal, normal)
def test_merging_normal_forms_is_associative_and_exactly_the_union(one, other, third):
    left, right = one.merged(other).merged(third), one.merged(other.merged(third))
    assert left == right == one.merged(other, third)
    assert left.features == one.features | other.features | third.features


@given(protocols, names)
def test_a_protocol_with_a_feature_supports_it_and_all_it_had(protocol, name):
    try:
        after = protocol.with_feature(name)
    except IncompatibleError:
        assert not protocol.supports(name) or not protocol.features >= features("delta")[name].requires
        return
    assert after.features == protocol.features | required_closure("delta", [name])
    assert (after.reader, after.writer) == (protocol.reader, protocol.writer)
    assert after.with_feature(name) == after


@given(normal, names)
def test_upgrading_supports_the_feature_and_all_it_had(protocol, name):
    after = protocol.upgraded(name)
    assert after.features == protocol.features | required_closure("delta", [name])
    assert protocol.can_upgrade_to(after)
    assert not [each for each in protocol_findings(after.to_action()) if each.fatal]


@given(protocols, protocols, protocols)
def test_upgrading_is_a_partial_order_over_feature_sets(one, other, third):
    assert one.can_upgrade_to(one)
    if one.can_upgrade_to(other) and other.can_upgrade_to(third):
        assert one.can_upgrade_to(third)
    if one.can_upgrade_to(other) and other.can_upgrade_to(one):
        assert one.features == other.features


@given(normal, names, st.booleans())
def test_dropping_is_the_way_back_from_upgrading(protocol, name, protect):
    record = features("delta")[name]
    assume(record.drop is not None and not protocol.supports(name) and not record.drop.only_with_truncation)
    assume(record.requires <= protocol.features)
    raised = protocol.upgraded(name)
    lowered = raised.without_feature(name, protect_history=protect)
    assert raised.can_downgrade_to(lowered, name)
    if not protect or not record.drop.barrier:
        assert lowered == protocol


@given(protocols)
def test_text_and_actions_read_back_as_the_same_protocol(protocol):
    assert Protocol.parse(str(protocol)) == protocol
    assert Protocol.from_action(protocol.to_action()) == protocol
    assert hash(Protocol.parse(str(protocol))) == hash(protocol)


@given(st.integers(0, 10) | st.integers(0, 99))
def test_text_of_hudi_protocols_reads_back(version):
    assert Protocol.parse(str(Protocol.hudi(version))) == Protocol.hudi(version)


@given(
    st.dictionaries(
        st.sampled_from(["minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures", "other"]),
        st.none()
        | st.booleans()
        | st.integers(-2, 9)
        | st.text(max_size=3)
        | st.lists(st.sampled_from([*KNOWN, *UNKNOWN, "", " a", 7, None]), max_size=4),
    )
)
def test_any_action_can_be_read_leniently_and_repaired_to_a_valid_one(action):
    protocol, findings = Protocol.read_leniently(action)
    assume(protocol.defined)
    repaired = protocol.repaired()
    assert protocol.features <= repaired.features
    assert not [each for each in protocol_findings(repaired.to_action()) if each.fatal], findings


@given(protocols, st.sampled_from(["read", "write"]))
def test_more_known_use_never_requires_less_than_none(protocol, operation):
    nothing = protocol.requires(operation, frozenset())
    assert nothing <= protocol.requires(operation, protocol.features)
    assert nothing <= protocol.requires(operation)
    assert protocol.requires("read") <= protocol.requires("write")


@pytest.mark.parametrize("format", ["index", "hudi"])
@given(data=st.data())
def test_ladders_only_climb(format, data):
    numbers = st.integers(1, 4) if format == "index" else st.integers(0, 10)
    make = Protocol.index if format == "index" else lambda low, high: Protocol.hudi(max(low, high))
    one, other = (make(data.draw(numbers), data.draw(numbers)) for _ in range(2))
    assert one.merged(other).features == one.features | other.features or format == "index"
    assert one.can_upgrade_to(one.merged(other))
    assert one.normalised() == one == one.denormalised()

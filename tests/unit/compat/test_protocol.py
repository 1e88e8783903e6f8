"""Protocols as values: what they mean, how they are written down, and their algebra."""

import pickle

import pytest

from halocline.compat.findings import protocol_findings
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.verdict import check
from halocline.errors import IncompatibleError, InputError, MalformedError, NotFoundError

V2 = ["appendOnly", "invariants"]
V4 = [*V2, "changeDataFeed", "checkConstraints", "generatedColumns"]


# ---------------------------------------------------------------- what it means


@pytest.mark.parametrize(
    ("text", "implied"),
    [
        ("(1,1)", []),
        ("(1,2)", V2),
        ("(1,3)", [*V2, "checkConstraints"]),
        ("(1,4)", V4),
        ("(1,5)", V4),
        ("(2,4)", V4),
        ("(2,5)", [*V4, "columnMapping"]),
        ("(1,6)", [*V4, "identityColumns"]),
        ("(2,6)", [*V4, "columnMapping", "identityColumns"]),
        ("(1,7|W: rowTracking)", []),
        ("(3,7)", []),
    ],
)
def test_numbers_imply_exactly_the_legacy_features_up_to_them(text, implied):
    assert sorted(Protocol.parse(text).implied) == sorted(implied)


def test_features_are_implied_or_listed_and_unknown_names_are_kept():
    protocol = Protocol.parse("(3,7|R: shiny|W: appendOnly,shiny,glow)")
    assert protocol.features == {"appendOnly", "shiny", "glow"}
    assert protocol.unknown_features == {"shiny", "glow"}
    assert protocol.supports("shiny")
    assert not protocol.supports("invariants")


def test_an_alias_means_the_feature_but_stays_as_it_was_written():
    protocol = Protocol.parse("(3,7|R: timestampWithoutTimezone|W: timestampWithoutTimezone)")
    assert protocol.features == {"timestampNtz"}
    assert protocol.supports("timestampNtz")
    assert protocol.supports("timestampWithoutTimezone")
    assert protocol.to_action()["readerFeatures"] == ["timestampWithoutTimezone"]
    assert "timestampWithoutTimezone" in protocol.requires("read"), "clients compare the name that is listed"
    assert str(protocol.normalised()) == "(3,7|R: timestampNtz|W: timestampNtz)"


def test_enabled_is_supported_and_switched_on():
    metadata = TableMetadata({"delta.appendOnly": "true", "delta.enableDeletionVectors": "true"})
    assert Protocol.delta(1, 2).enabled(metadata) == {"appendOnly"}
    assert Protocol.delta(1, 2).upgraded("deletionVectors").enabled(metadata) == {"appendOnly", "deletionVectors"}


def test_an_unknown_feature_counts_as_enabled():
    assert Protocol.delta(1, 7, None, ["glow"]).enabled(TableMetadata()) == {"glow"}


# ---------------------------------------------------------------- what it requires


@pytest.mark.parametrize(
    ("text", "operation", "tokens"),
    [
        ("(1,2)", "read", ["reader 1"]),
        ("(1,4)", "write", ["reader 1", "writer 4"]),
        ("(2,5)", "read", ["reader 2", "columnMapping"]),
        ("(2,5)", "write.append", ["reader 2", "writer 5", "columnMapping"]),
        ("(2,7|W: appendOnly,columnMapping)", "read.changes", ["reader 2", "columnMapping"]),
        ("(1,7|W: rowTracking,domainMetadata)", "read", ["reader 1"]),
        ("(1,7|W: rowTracking,domainMetadata)", "write", ["reader 1", "writer 7", "rowTracking", "domainMetadata"]),
        ("(3,7|R: deletionVectors|W: deletionVectors,invariants)", "read", ["reader 3", "deletionVectors"]),
        ("(3,7|R: shiny|W: shiny)", "read", ["reader 3", "shiny"]),
        ("hudi(9)", "read", ["table version 9"]),
        ("hudi(6)", "write", ["table version 6"]),
        ("index(4,4)", "read", ["reader 4"]),
        ("index(4,4|R: parquetSplit|W: parquetSplit)", "write", ["reader 4", "writer 4", "parquetSplit"]),
    ],
)
def test_required_tokens_are_the_numbers_and_what_is_listed_or_certainly_in_use(text, operation, tokens):
    assert Protocol.parse(text).requires(operation) == frozenset(tokens)


@pytest.mark.parametrize(
    ("text", "operation", "enabled", "tokens"),
    [
        ("(1,4)", "write", {"changeDataFeed"}, ["reader 1", "writer 4", "changeDataFeed"]),
        ("(1,4)", "read", {"changeDataFeed"}, ["reader 1"]),
        ("(2,5)", "read", set(), ["reader 2"]),
        ("(2,5)", "read", {"columnMapping"}, ["reader 2", "columnMapping"]),
        ("(2,7|W: columnMapping)", "read", set(), ["reader 2"]),
        ("(3,7|R: deletionVectors|W: deletionVectors)", "read", set(), ["reader 3", "deletionVectors"]),
        ("hudi(6)", "write", {"changeDataCapture"}, ["table version 6", "changeDataCapture"]),
    ],
)
def test_required_tokens_with_known_use_count_implied_features_that_are_used(text, operation, enabled, tokens):
    assert Protocol.parse(text).requires(operation, frozenset(enabled)) == frozenset(tokens)


def test_a_feature_that_readers_were_not_told_of_is_still_required_of_them():
    protocol, _ = Protocol.read_leniently(
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["columnMapping"]}
    )
    assert "columnMapping" in protocol.requires("read")


def test_an_operation_that_does_not_exist_is_refused():
    with pytest.raises(InputError, match="no operation"):
        Protocol.delta(1, 2).requires("ponder")


# ---------------------------------------------------------------- normal form


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("(3,7|R: |W: rowTracking,domainMetadata)", "(1,7|W: domainMetadata,rowTracking)"),
        ("(3,7|R: |W: appendOnly,invariants)", "(1,2)"),
        ("(3,7)", "(1,1)"),
        ("(1,7|W: appendOnly)", "(1,7|W: appendOnly)"),
        ("(3,7|R: columnMapping|W: columnMapping)", "(2,7|W: columnMapping)"),
        ("(2,7|W: " + ",".join([*V4, "columnMapping"]) + ")", "(2,5)"),
        ("(1,7|W: " + ",".join([*V4, "identityColumns"]) + ")", "(1,6)"),
        ("(3,7|R: shiny|W: shiny,glow)", "(3,7|R: shiny|W: glow,shiny)"),
        ("(3,7|R: |W: glow)", "(1,7|W: glow)"),
        ("(2,3)", "(2,3)"),
        ("(99,7|R: |W: appendOnly,invariants)", "(99,7|R:|W: appendOnly,invariants)"),
    ],
)
def test_normal_form_has_the_lowest_numbers(text, normal):
    assert str(Protocol.parse(text).normalised()) == normal


@pytest.mark.parametrize(
    ("text", "denormal"),
    [
        ("(1,1)", "(1,7|W:)"),
        ("(1,2)", "(1,7|W: appendOnly,invariants)"),
        ("(2,3)", "(1,7|W: appendOnly,checkConstraints,invariants)"),
        ("(2,5)", "(2,7|W: " + ",".join(sorted([*V4, "columnMapping"])) + ")"),
        ("(1,7|W: rowTracking)", "(1,7|W: rowTracking)"),
    ],
)
def test_denormal_form_spells_the_numbers_out(text, denormal):
    assert str(Protocol.parse(text).denormalised()) == denormal


@pytest.mark.parametrize(
    ("text", "simplest"), [("(2,3)", "(1,3)"), ("(1,5)", "(1,4)"), ("(2,1)", "(1,1)"), ("(2,6)", "(2,6)")]
)
def test_odd_pairs_become_the_pair_they_mean(text, simplest):
    assert str(Protocol.parse(text).simplest()) == simplest


# ---------------------------------------------------------------- sums


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        ("(1,2)", "(1,4)", "(1,4)"),
        ("(1,6)", "(2,5)", "(2,6)"),
        ("(1,2)", "(1,7|W: changeDataFeed)", "(1,7|W: appendOnly,changeDataFeed,invariants)"),
        ("(1,2)", "(1,7|W: checkConstraints)", "(1,3)"),
        ("(1,4)", "(2,7|W: columnMapping)", "(2,5)"),
        ("(1,2)", "(3,7|R: shiny|W: shiny)", "(3,7|R: shiny|W: appendOnly,invariants,shiny)"),
        ("(1,1)", "(3,7)", "(1,1)"),
        ("(1,5)", "(2,1)", "(2,5)"),
        ("(1,2)", "(99,7|R: |W:)", "(99,7|R:|W: appendOnly,invariants)"),
        ("hudi(6)", "hudi(8)", "hudi(8)"),
        ("index(2,3|W: optimizeWrite)", "index(3,3)", "index(3,3|W: optimizeWrite)"),
    ],
)
def test_merged_protocols_support_what_any_of_them_does(one, other, merged):
    assert str(Protocol.parse(one).merged(Protocol.parse(other))) == merged
    assert str(Protocol.parse(other).merged(Protocol.parse(one))) == merged


def test_protocols_of_two_formats_cannot_be_merged():
    with pytest.raises(InputError, match="different formats"):
        Protocol.delta(1, 2).merged(Protocol.hudi(6))


@pytest.mark.parametrize(
    ("text", "name", "result"),
    [
        ("(3,7)", "rowTracking", "(3,7|R:|W: domainMetadata,rowTracking)"),
        ("(3,7)", "deletionVectors", "(3,7|R: deletionVectors|W: deletionVectors)"),
        ("(2,7|W:)", "columnMapping", "(2,7|W: columnMapping)"),
        ("(3,7)", "columnMapping", "(3,7|R: columnMapping|W: columnMapping)"),
        ("(1,4)", "changeDataFeed", "(1,4)"),
        ("(1,2)", "APPENDONLY", "(1,2)"),
    ],
)
def test_a_feature_goes_into_the_lists_that_the_numbers_have(text, name, result):
    assert str(Protocol.parse(text).with_feature(name)) == result


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("(1,2)", "changeDataFeed"),
        ("(1,2)", "rowTracking"),
        ("(1,7|W:)", "columnMapping"),
        ("(2,7|W:)", "deletionVectors"),
    ],
)
def test_a_feature_that_the_numbers_have_no_room_for_is_refused(text, name):
    with pytest.raises(IncompatibleError) as caught:
        Protocol.parse(text).with_feature(name)
    assert caught.value.condition == "PROTOCOL_TOO_LOW"
    assert caught.value.sides["protocol"] == text


def test_a_feature_that_nobody_knows_is_not_added_since_its_list_is_not_known():
    with pytest.raises(NotFoundError) as caught:
        Protocol.delta(3, 7).with_feature("shiny")
    assert caught.value.condition == "FEATURE_UNKNOWN"


@pytest.mark.parametrize(
    ("text", "names", "result"),
    [
        ("(1,2)", ["deletionVectors"], "(3,7|R: deletionVectors|W: appendOnly,deletionVectors,invariants)"),
        ("(1,2)", ["checkConstraints"], "(1,3)"),
        ("(1,4)", ["columnMapping"], "(2,5)"),
        ("index(1,1)", ["skippedFiles"], "index(2,2)"),
        ("index(2,2)", ["avroState"], "index(4,4)"),
        ("index(4,4)", ["optimizeWrite"], "index(4,4|W: optimizeWrite)"),
        ("hudi(6)", ["completionTime"], "hudi(8)"),
    ],
)
def test_upgrading_raises_the_numbers_only_as_far_as_needed(text, names, result):
    assert str(Protocol.parse(text).upgraded(*names)) == result


# ---------------------------------------------------------------- dropping


@pytest.mark.parametrize(
    ("text", "name", "protect", "result"),
    [
        ("(1,3)", "checkConstraints", False, "(1,2)"),
        ("(1,3)", "checkConstraints", True, "(1,2)"),
        ("(1,4)", "checkConstraints", False, "(1,7|W: appendOnly,changeDataFeed,generatedColumns,invariants)"),
        ("(2,5)", "columnMapping", False, "(1,4)"),
        ("(2,5)", "columnMapping", True, "(1,7|W: " + ",".join(sorted([*V4, "checkpointProtection"])) + ")"),
        (
            "(3,7|R: deletionVectors,shiny|W: deletionVectors,shiny)",
            "deletionVectors",
            False,
            "(3,7|R: shiny|W: shiny)",
        ),
        ("(1,7|W: checkpointProtection,appendOnly,invariants)", "checkpointProtection", False, "(1,2)"),
    ],
)
def test_dropping_gives_the_rest_in_normal_form(text, name, protect, result):
    before = Protocol.parse(text)
    after = before.without_feature(name, protect_history=protect)
    assert str(after) == result
    assert before.can_downgrade_to(after, name)


@pytest.mark.parametrize(
    ("text", "name", "condition"),
    [
        ("(1,2)", "deletionVectors", "FEATURE_NOT_DROPPABLE"),
        ("(1,2)", "appendOnly", "FEATURE_NOT_DROPPABLE"),
        ("(99,7|R: deletionVectors|W: deletionVectors)", "deletionVectors", "FEATURE_NOT_DROPPABLE"),
        ("(1,7|W: glow)", "glow", "FEATURE_NOT_DROPPABLE"),
        ("(1,7|W: domainMetadata,rowTracking)", "domainMetadata", "FEATURE_DEPENDENCY"),
    ],
)
def test_a_feature_that_cannot_be_dropped_is_refused_with_the_next_step(text, name, condition):
    with pytest.raises(InputError) as caught:
        Protocol.parse(text).without_feature(name)
    assert caught.value.condition == condition
    assert caught.value.next_step


def test_history_protection_is_dropped_only_with_the_history():
    protocol = Protocol.delta(1, 7, None, ["checkpointProtection"])
    with pytest.raises(InputError, match="truncating"):
        protocol.without_feature("checkpointProtection", protect_history=True)
    assert str(protocol.without_feature("checkpointProtection")) == "(1,1)"


# ---------------------------------------------------------------- transitions


def test_an_upgrade_keeps_every_feature_whatever_the_numbers_say():
    assert Protocol.parse("(1,2)").can_upgrade_to(Protocol.parse("(1,7|W: appendOnly,invariants)"))
    assert Protocol.parse("(2,3)").can_upgrade_to(Protocol.parse("(1,4)")), "the reader number falls, no feature does"
    assert not Protocol.parse("(1,2)").can_upgrade_to(Protocol.parse("(3,7|R: deletionVectors|W: deletionVectors)"))
    assert not Protocol.parse("hudi(1)").can_upgrade_to(Protocol.parse("(1,1)"))


@pytest.mark.parametrize(
    ("before", "after", "dropped", "allowed"),
    [
        ("(2,5)", "(1,4)", "columnMapping", True),
        ("(2,5)", "(1,3)", "columnMapping", False),
        ("(2,5)", "(2,5)", "columnMapping", False),
        ("(1,3)", "(1,7|W: appendOnly,checkpointProtection,invariants)", "checkConstraints", True),
        ("(1,3)", "(1,7|W: appendOnly,domainMetadata,invariants)", "checkConstraints", False),
        ("(1,2)", "(1,2)", "checkConstraints", False),
    ],
)
def test_a_downgrade_loses_exactly_the_dropped_feature(before, after, dropped, allowed):
    assert Protocol.parse(before).can_downgrade_to(Protocol.parse(after), dropped) is allowed


# ---------------------------------------------------------------- as text and as an action


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("(1,2)", "(1,2)"),
        (" ( 3 , 7 | W: b , a | R : a ) ", "(3,7|R: a|W: a,b)"),
        ("delta(1,2)", "(1,2)"),
        ("(3,7)", "(3,7|R:|W:)"),
        ("hudi(8)", "hudi(8)"),
        ("index(4,4)", "index(4,4)"),
    ],
)
def test_text_is_read_and_printed_in_one_form(text, shown):
    assert str(Protocol.parse(text)) == shown
    assert repr(Protocol.parse(text)) == f"Protocol.parse({shown!r})"


@pytest.mark.parametrize(
    "text", ["", "1,2", "(1)", "(1,2,3)", "(a,b)", "(1,-2)", "(1,2|X: a)", "(1,7|W: a|W: b)", "iceberg(2)", "(١,٢)"]
)
def test_text_that_is_no_protocol_is_one_clear_error(text):
    with pytest.raises(InputError, match="is no protocol"):
        Protocol.parse(text)


@pytest.mark.parametrize("text", ["(1,2)", "(1,7|W: a,b)", "(3,7|R: a|W: a,b)", "(3,7)", "index(2,2)"])
def test_an_action_reads_back_as_the_same_protocol(text):
    protocol = Protocol.parse(text)
    assert Protocol.from_action(protocol.to_action(), protocol.format) == protocol


def _action(reader, writer, for_readers=None, for_writers=None):
    return {
        "minReaderVersion": reader,
        "minWriterVersion": writer,
        "readerFeatures": for_readers,
        "writerFeatures": for_writers,
    }


MALFORMED = [
    (_action(3, 7), {"LIST_MISSING"}, "(3,7)"),
    (_action(3, 7, [], None), {"LIST_MISSING"}, "(3,7|R:)"),
    (_action(1, 2, None, ["appendOnly"]), {"LIST_NOT_ALLOWED"}, "(1,2|W: appendOnly)"),
    (_action(1, 2, []), {"LIST_NOT_ALLOWED"}, "(1,2|R:)"),
    (_action(1, 7, ["deletionVectors"], ["deletionVectors"]), {"LIST_NOT_ALLOWED"}, None),
    (_action(3, 4, ["deletionVectors"]), {"WRITER_VERSION_TOO_LOW", "NOT_FOR_WRITERS"}, None),
    (_action(3, 7, ["deletionVectors"], ["appendOnly"]), {"NOT_FOR_WRITERS"}, None),
    (_action(3, 7, ["appendOnly"], ["appendOnly"]), {"NOT_FOR_READERS"}, None),
    (_action(3, 7, [], ["deletionVectors"]), {"READERS_NOT_TOLD"}, None),
    (_action(1, 7, None, ["deletionVectors"]), {"READER_VERSION_TOO_LOW"}, None),
    (_action(1, 7, None, ["columnMapping"]), {"READER_VERSION_TOO_LOW"}, None),
    (_action(1, 7, None, ["glow", "glow"]), {"DUPLICATE_NAME"}, "(1,7|W: glow)"),
    (_action(1, 7, None, ["glow", 7]), {"NOT_A_NAME"}, "(1,7|W: glow)"),
    (_action(1, 7, None, ["", "glow"]), {"NOT_A_NAME"}, "(1,7|W: glow)"),
    (_action(1, 7, None, "glow"), {"LIST_NOT_A_LIST", "LIST_MISSING"}, "(1,7)"),
    (_action("1", 2), {"VERSION_NOT_A_NUMBER"}, "(1,2)"),
    (_action(True, 2), {"VERSION_NOT_A_NUMBER"}, "(1,2)"),
    (_action(1.5, 2), {"VERSION_NOT_A_NUMBER"}, "(1,2)"),
    (_action(0, 2), {"VERSION_TOO_LOW"}, "(0,2)"),
    (_action(1, -1), {"VERSION_TOO_LOW"}, "(1,-1)"),
    ({"readerVersion": 1, "writerVersion": 2}, {"VERSION_MISSING"}, "(1,1)"),
    ({}, {"VERSION_MISSING"}, "(1,1)"),
]


@pytest.mark.parametrize(
    ("action", "codes", "kept"), MALFORMED, ids=lambda each: str(sorted(each) if isinstance(each, set) else each)[:60]
)
def test_a_protocol_that_contradicts_itself_is_refused_but_kept_with_its_findings(action, codes, kept):
    with pytest.raises(MalformedError) as caught:
        Protocol.from_action(action)
    assert caught.value.condition == "MALFORMED_PROTOCOL"
    assert caught.value.next_step
    protocol, findings = Protocol.read_leniently(action)
    assert {each.code for each in findings if each.fatal} == codes
    assert findings == protocol_findings(action)
    if kept is not None:
        assert str(protocol) == kept


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (_action(3, 7, [], []), None),
        (_action(3, 7, [], ["columnMapping"]), "READERS_NOT_TOLD"),
        (_action(1, 5), "ODD_PAIR"),
        (_action(2, 2), "ODD_PAIR"),
        (_action(99, 7, [], []), "VERSION_UNKNOWN"),
        (_action(1, 7, None, ["rowTracking"]), "REQUIREMENT_MISSING"),
        (_action(1, 7, None, ["glow"]), "UNKNOWN_NAME"),
        (_action(3, 7, ["timestampWithoutTimezone"], ["timestampWithoutTimezone"]), "ALIAS"),
        (_action(1, 2), None),
    ],
)
def test_an_odd_protocol_is_read_and_the_oddity_told(action, code):
    Protocol.from_action(action)
    assert {each.code for each in protocol_findings(action)} == ({code} if code else set())


@pytest.mark.parametrize(
    ("action", "repaired"),
    [
        (_action(3, 7), "(1,1)"),
        (_action(1, 2, None, ["rowTracking"]), "(1,7|W: appendOnly,domainMetadata,invariants,rowTracking)"),
        (
            _action(3, 4, ["deletionVectors"]),
            "(3,7|R: deletionVectors|W: " + ",".join(sorted([*V4, "deletionVectors"])) + ")",
        ),
        (_action(1, 7, None, ["deletionVectors"]), "(3,7|R: deletionVectors|W: deletionVectors)"),
        (_action(3, 7, ["shiny"], []), "(3,7|R: shiny|W: shiny)"),
        (_action(0, 2), "(1,2)"),
    ],
)
def test_a_repaired_protocol_is_valid_and_loses_no_feature(action, repaired):
    protocol, _ = Protocol.read_leniently(action)
    assert str(protocol.repaired()) == repaired
    assert protocol.features <= protocol.repaired().features
    assert not [each for each in protocol_findings(protocol.repaired().to_action()) if each.fatal]


@pytest.mark.parametrize(
    ("reader", "writer", "for_writers"), [(0, 2, None), (1, 2, ["appendOnly"]), (3, 4, None), (1, 7, ["a,b"])]
)
def test_made_by_hand_a_protocol_must_be_valid_too(reader, writer, for_writers):
    with pytest.raises(MalformedError):
        Protocol.delta(reader, writer, None, for_writers)


def test_an_index_protocol_may_list_features_on_top_of_its_numbers_or_none():
    assert Protocol.index(4, 4).features >= {"avroState", "multiPartCheckpoint", "footerOffsets"}
    assert Protocol.from_action({"minReaderVersion": 4, "minWriterVersion": 4, "readerFeatures": None}, "index") == (
        Protocol.index(4, 4)
    )


def test_a_hudi_table_has_one_version():
    assert Protocol.hudi(8).reader == Protocol.hudi(8).writer == 8
    with pytest.raises(MalformedError, match="table version"):
        Protocol.parse("hudi(6,8)")
    with pytest.raises(MalformedError):
        Protocol.hudi(-1)


def test_a_protocol_travels_to_another_process_without_what_is_cached():
    protocol = Protocol.parse("(3,7|R: a|W: a,b)")
    fresh = pickle.dumps(protocol)
    hash(protocol), str(protocol), protocol.requires("write")
    assert pickle.dumps(protocol) == fresh
    assert pickle.loads(fresh) == protocol


def test_protocols_are_values():
    one, other = Protocol.parse("(3,7|R: a|W: a,b)"), Protocol.parse("(3,7|W: b,a|R: a)")
    assert one == other
    assert len({one, other, Protocol.delta(1, 2)}) == 2
    assert Protocol.delta(1, 2) != Protocol.index(1, 2)
    assert one != "(3,7|R: a|W: a,b)"
    with pytest.raises(AttributeError):
        one.reader = 1  # type: ignore[misc]


@pytest.mark.parametrize("numbers", [(1, 99), (99, 99), (99, 7), (99, 2), (3, 99)], ids=str)
def test_version_numbers_beyond_the_known_ones_are_refused_and_not_called_damage(numbers):
    lists = {"writerFeatures": []} if numbers[1] == 7 else {}
    lists |= {"readerFeatures": []} if numbers[0] == 3 else {}
    protocol = Protocol.from_action({"minReaderVersion": numbers[0], "minWriterVersion": numbers[1], **lists})
    with pytest.raises(IncompatibleError) as caught:
        check("halocline@0.1.0", protocol, "write", subject="lake/orders")
    assert caught.value.condition == "WRITER_TOO_OLD"
    assert "99" in str(caught.value)

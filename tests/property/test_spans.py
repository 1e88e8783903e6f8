"""Sets of spans against the model they stand for: the plain question, version by version."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from halocline.spans import Span, SpanSet
from halocline.versions import LOWEST, Version

# Small enough that bounds meet, touch and repeat; every kind of neighbour is among them.
TEXTS = """
    0-dev 0.0-SNAPSHOT 0 0.1 0.9.9 1-dev 1.0rc1 1.0 1.0-amzn-0 1.0.1 1.2 1.10
    2.0-SNAPSHOT 2.0 2.0-databricks-1 3 479 260205.0.0
"""
UNIVERSE = sorted(map(Version.parse, TEXTS.split()))
UNKNOWN = [Version.parse(text) for text in ("", "latest", "1.0-")]

bounds = st.sampled_from(UNIVERSE)


@st.composite
def spans(draw):
    since, until = draw(bounds), draw(st.none() | bounds)
    if until is not None and until <= since:
        since, until = (until, since) if until < since else (since, None)
    return Span(since, until)


span_lists = st.lists(spans(), max_size=6)
span_sets = span_lists.map(SpanSet)


def members(spans):
    """The model: a version is in if one of the spans says so."""
    return {
        version
        for version in UNIVERSE
        if any(span.since <= version and (span.until is None or version < span.until) for span in spans)
    }


@given(span_lists)
def test_a_set_holds_what_its_spans_hold(spans):
    assert {version for version in UNIVERSE if version in SpanSet(spans)} == members(spans)
    assert not any(version in SpanSet(spans) for version in UNKNOWN)


@given(span_sets, span_sets)
def test_the_operations_are_those_of_sets(one, other):
    everything = set(UNIVERSE)
    assert members(one | other) == members(one) | members(other)
    assert members(one & other) == members(one) & members(other)
    assert members(one - other) == members(one) - members(other)
    assert members(one.complement()) == everything - members(one)


@given(spans(), spans())
def test_two_spans_meet_where_both_are(one, other):
    both = one & other
    assert members([both] if both else []) == members([one]) & members([other])


@given(span_lists, st.randoms())
def test_the_normal_form_is_disjoint_sorted_and_apart(spans, random):
    found = SpanSet(spans).spans
    for left, right in pairwise(found):
        assert left.until is not None
        assert left.until < right.since
    shuffled = random.sample(spans, len(spans))
    assert SpanSet(shuffled).spans == found
    assert SpanSet(found).spans == found


@given(span_sets, span_sets)
def test_sets_are_equal_exactly_when_their_members_are(one, other):
    # Every bound is in the universe, so two sets that differ anywhere differ in it.
    assert (one == other) == (members(one) == members(other))
    if one == other:
        assert hash(one) == hash(other)
        assert str(one) == str(other)
    assert bool(one) == bool(members(one))


@given(span_sets, span_sets, span_sets)
def test_the_laws_of_set_algebra_hold(a, b, c):
    nothing, everything = SpanSet(), SpanSet.everything()
    assert a | b == b | a
    assert a & b == b & a
    assert (a | b) | c == a | (b | c)
    assert (a & b) & c == a & (b & c)
    assert a & (b | c) == (a & b) | (a & c)
    assert a | (b & c) == (a | b) & (a | c)
    assert (a | b).complement() == a.complement() & b.complement()
    assert (a & b).complement() == a.complement() | b.complement()
    assert a.complement().complement() == a
    assert a | a.complement() == everything
    assert a & a.complement() == nothing
    assert a - b == a & b.complement()
    assert a - a == nothing
    assert (a | nothing, a & everything, a & nothing, a | everything) == (a, a, nothing, everything)


@given(span_sets, bounds)
def test_the_first_member_from_a_version_is_the_smallest(spans, version):
    expected = min((other for other in members(spans) if other >= version), default=None)
    assert spans.first_from(version) == expected


@given(span_sets)
def test_membership_changes_at_every_boundary(spans):
    for boundary in spans.boundaries:
        below = [version for version in UNIVERSE if version < boundary]
        if boundary == LOWEST:
            assert boundary in spans
        else:
            assert (below[-1] in spans) != (boundary in spans)


@given(span_sets)
def test_a_set_is_written_and_read_back(spans):
    assert SpanSet.parse(*(str(span) for span in spans)) == spans

"""Intervals of versions, by example; the algebra is in the property tests."""

import time

import pytest

from halocline.errors import MalformedError
from halocline.spans import Span, SpanSet
from halocline.versions import LOWEST, Version


def v(text):
    return Version.parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.4.0", Span(v("1.4.0"))),
        ("[1.3.3, 1.6.0)", Span(v("1.3.3"), v("1.6.0"))),
        ("[1.3.3,1.6.0)", Span(v("1.3.3"), v("1.6.0"))),
        ("  [ 1.3.3 , 1.6.0 )  ", Span(v("1.3.3"), v("1.6.0"))),
        ("[1.3.3, ∞)", Span(v("1.3.3"))),
        ("[1.3.3, inf)", Span(v("1.3.3"))),
        ("[1.3.3, -)", Span(v("1.3.3"))),
        ("[1.3.3, )", Span(v("1.3.3"))),
        ("[1.3.3,)", Span(v("1.3.3"))),
        ("[-∞, 1.0)", Span(LOWEST, v("1.0"))),
        ("[4.0.0rc1, 4.0.0)", Span(v("4.0.0rc1"), v("4.0.0"))),
    ],
)
def test_a_span_is_read_and_written_back(text, expected):
    span = Span.parse(text)
    assert span == expected
    assert Span.parse(str(span)) == span


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latest", "not a version"),
        ("", "not a version"),
        ("[1.0, soon)", "not a version"),
        ("[x, 1.0)", "not a version"),
        ("[1.0, 2.0]", "not a version"),
        ("(1.0, 2.0)", "not a version"),
        ("[1.0)", "not a version"),
        ("[1.0, 2.0, 3.0)", "not a version"),
        ("[2.0, 1.0)", "empty"),
        ("[1.0, 1.0.0)", "empty"),
        ("[1.0, 1.0rc1)", "empty"),
    ],
)
def test_a_span_that_is_none_is_malformed(text, message):
    with pytest.raises(MalformedError, match=message):
        Span.parse(text)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        *((text, True) for text in ("1.3.3", "1.3.3-amzn-0", "1.5", "1.6.0rc1")),
        *((text, False) for text in ("1.3.2", "1.3.3rc1", "1.6.0", "1.6.0-amzn-0", "2", "latest", "")),
    ],
)
def test_a_span_holds_its_beginning_and_not_its_end(version, expected):
    assert (v(version) in Span.parse("[1.3.3, 1.6.0)")) is expected
    assert (v(version) in SpanSet.parse("[1.3.3, 1.6.0)")) is expected


def test_an_unknown_version_is_in_no_set_whatever():
    for text in ("latest", "", "${version}"):
        assert v(text) not in SpanSet.everything()
        assert v(text) not in SpanSet.everything().complement()
        assert v(text) not in SpanSet()


def test_everything_holds_every_known_version_even_builds_of_zero():
    for text in ("0-dev", "0.0.0-SNAPSHOT", "0", "0.0.1", "479", "260205.0.0"):
        assert v(text) in SpanSet.everything()
    assert not SpanSet.everything().complement()
    assert SpanSet().complement() == SpanSet.everything()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], "∅"),
        (["1.0"], "[1.0, ∞)"),
        (["[1.0, 2.0)", "[2.0, 3.0)"], "[1.0, 3.0)"),
        (["[2.0, 3.0)", "[1.0, 2.5)"], "[1.0, 3.0)"),
        (["[1.0, 2.0)", "3.0", "[5.0, 6.0)"], "[1.0, 2.0) ∪ [3.0, ∞)"),
        (["[1.0, 9.0)", "[2.0, 3.0)"], "[1.0, 9.0)"),
        (["[1.0, 2.0)", "[1.0.0, 2.0.0)"], "[1.0, 2.0)"),
    ],
)
def test_a_set_is_in_normal_form(texts, expected):
    assert str(SpanSet.parse(*texts)) == expected
    assert SpanSet.parse(*reversed(texts)) == SpanSet.parse(*texts)


def test_sets_with_the_same_members_are_equal_and_hash_alike():
    one, other = SpanSet.parse("[1.0, 1.5)", "[1.5, 2)"), SpanSet.parse("[1.0.0, 2.0)")
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    ("version", "first"),
    [
        ("1.0", "1.3.3"),
        ("1.3.3", "1.3.3"),
        ("1.4", "1.4"),
        ("1.6.0", "1.6.3"),
        ("1.6.3", "1.6.3"),
        ("9", "9"),
        ("latest", "1.3.3"),
    ],
)
def test_support_with_a_hole_has_a_first_member_from_every_version(version, first):
    reads = SpanSet.parse("[1.3.3, 1.6.0)", "1.6.3")
    assert reads.first_from(v(version)) == v(first)


def test_after_the_last_member_there_is_no_first():
    ended = SpanSet.parse("[1.0, 2.0)")
    assert ended.first_from(v("2.0")) is None
    assert SpanSet().first_from(v("1")) is None


@pytest.mark.parametrize("text", ["[1," + " " * 100_000, "[" + " " * 100_000, "[1" * 50_000, "[1, " + "2" * 100_000])
def test_hostile_text_is_refused_in_bounded_time(text):
    begun = time.process_time()
    with pytest.raises(MalformedError):
        Span.parse(text)
    assert time.process_time() - begun < 0.5

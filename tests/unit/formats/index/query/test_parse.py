"""The query language as text: what each form means, and that nothing is taken for a literal by mistake."""

import pytest

from halocline.errors import InputError
from halocline.formats.index.query.parse import parse
from halocline.formats.index.query.tree import (
    AllOf,
    Everything,
    Fuzzy,
    NoneOf,
    OneOf,
    Pattern,
    Present,
    RangeOf,
    SomeOf,
    Word,
)

A, B, C = Word("a"), Word("b"), Word("c")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", A),
        ("  a  ", A),
        ("a b", SomeOf((A, B))),
        ("a OR b", SomeOf((A, B))),
        ("a AND b", AllOf((A, B))),
        ("a AND b OR c", SomeOf((AllOf((A, B)), C))),
        ("a OR b AND c", SomeOf((A, AllOf((B, C))))),
        ("(a OR b) AND c", AllOf((SomeOf((A, B)), C))),
        ("((a))", A),
        ("NOT a", NoneOf(A)),
        ("-a", NoneOf(A)),
        ("a NOT b", AllOf((A, NoneOf(B)))),
        ("a AND NOT b", AllOf((A, NoneOf(B)))),
        ("a -b", AllOf((A, NoneOf(B)))),
        ("+a b", A),
        ("+a +b -c", AllOf((A, B, NoneOf(C)))),
        ("a b -c", AllOf((SomeOf((A, B)), NoneOf(C)))),
        ("NOT (a b)", NoneOf(SomeOf((A, B)))),
        ("android ORacle", SomeOf((Word("android"), Word("ORacle")))),
        ("and or not", SomeOf((Word("and"), Word("or"), Word("not")))),
        ("a-b", Word("a-b")),
        ("x:a", Word("a", "x")),
        ("x:y:z", Word("y:z", "x")),
        ("x:http://a AND b", AllOf((Word("http://a", "x"), B))),
        ("x.y:a", Word("a", "x.y")),
        ("x: a", Word("a", "x")),
        (r"odd\ name\::a", Word("a", "odd name:")),
        ("x:(a OR b)", SomeOf((Word("a", "x"), Word("b", "x")))),
        ("x:(a AND y:b)", AllOf((Word("a", "x"), Word("b", "y")))),
        ("x:(a b -c)", AllOf((SomeOf((Word("a", "x"), Word("b", "x"))), NoneOf(Word("c", "x"))))),
        ('"a b"', Word("a b", quoted=True)),
        ('"a b"~3', Word("a b", quoted=True, slop=3)),
        ('"a b"*', Word("a b", quoted=True, goes_on=True)),
        ('x:"a: (b"', Word("a: (b", "x", quoted=True)),
        (r'"a \"b\" \\"', Word('a "b" \\', quoted=True)),
        ('"AND"', Word("AND", quoted=True)),
        (r"\AND", Word("AND")),
        ("pre*", Pattern((("pre", False), ("*", True)))),
        ("te?t", Pattern((("te", False), ("?", True), ("t", False)))),
        ("*x*", Pattern((("*", True), ("x", False), ("*", True)))),
        (r"a\*b", Word("a*b")),
        (r"a\*b*", Pattern((("a*b", False), ("*", True)))),
        ("term~1", Fuzzy("term", 1)),
        ("term~", Fuzzy("term", 2)),
        ("x:term~2", Fuzzy("term", 2, "x")),
        ("x:[1 TO 5]", RangeOf("1", "5", True, True, "x")),
        ("x:{1 TO 5]", RangeOf("1", "5", False, True, "x")),
        ("x:[* TO 5}", RangeOf(None, "5", True, False, "x")),
        ("x:[2024-01-01T10:30:00Z TO *]", RangeOf("2024-01-01T10:30:00Z", None, True, True, "x")),
        ('x:["a b" TO "*"]', RangeOf("a b", "*", True, True, "x")),
        ("x:>5", RangeOf("5", None, False, True, "x")),
        ("x:>=-5", RangeOf("-5", None, True, True, "x")),
        ("x:< 5", RangeOf(None, "5", True, False, "x")),
        ("x:<=10:30", RangeOf(None, "10:30", True, True, "x")),
        ('x:IN [a "b c" 3]', OneOf(("a", "b c", "3"), "x")),
        ("x:IN[a]", OneOf(("a",), "x")),
        ("x:INSIDE", Word("INSIDE", "x")),
        ("*", Everything()),
        ("x:*", Present("x")),
        ("-x:*", NoneOf(Present("x"))),
        ("zeit größer", SomeOf((Word("zeit"), Word("größer")))),
    ],
)
def test_each_form_means_one_thing(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "missing"),
        ("   ", "missing"),
        ("()", "missing"),
        ("a AND", "missing"),
        ("OR a", "missing"),
        ("a AND AND b", "missing"),
        ("a b AND c", "say AND or OR"),
        ("a AND b NOT c", "say AND or OR"),
        ("(a", "not closed"),
        ("a)", "bracket too many"),
        ('"a', "not closed"),
        ("x:", "nothing follows"),
        (":a", "stands where"),
        ("a*:b", "no column"),
        ("[1 TO 2]", "needs a column"),
        ("x:[1 2]", "low TO high"),
        ("x:[1 TO 2", "not closed"),
        ("x:[* TO *]", "has no end"),
        ("x:[a* TO b]", "wildcard"),
        ("x:>", "value is missing"),
        ("x:>*", "needs a value"),
        ("x:IN a", "after IN"),
        ("x:IN []", "no values"),
        ("x:IN [a", "not closed|missing"),
        ("a~3", "up to 2"),
        ("a~x", "number"),
        ("a*~1", "cannot be fuzzy"),
        ("a^2", "weights"),
        ("a\\", "backslash"),
        ("NOT", "nothing follows"),
        ("(" * 200 + "a" + ")" * 200, "deeply"),
        ("a " * 100_000, "longer"),
    ],
)
def test_what_is_not_understood_is_an_error_that_shows_the_place(text, match):
    with pytest.raises(InputError, match=match) as refused:
        parse(text)
    assert refused.value.condition == "QUERY_INVALID"

"""Queries at random: any text is understood or refused, and any tree finds what the rows have."""

from __future__ import annotations

import json
import random
import re
from contextlib import suppress
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.splits import build

from halocline.errors import InputError
from halocline.formats.index.pruning import may_match
from halocline.formats.index.query.bind import SearchedColumns, bind
from halocline.formats.index.query.parse import parse
from halocline.formats.index.search import Search, count_split, few_in_split, search_split
from halocline.formats.index.split.analyzers import words as analyzed
from halocline.formats.index.split.cache import IndexCache
from halocline.formats.index.split.fields import OPTIONS_KEY
from halocline.schema.types import Field, Primitive, Struct
from halocline.storage.memory import MemoryStore

COLUMNS = Struct([Field("n", Primitive("long")), Field("s", Primitive("string")), Field("t", Primitive("string"))])
OPTIONS = {"t": {"type": "text"}}
KNOWN = SearchedColumns.of(COLUMNS, {OPTIONS_KEY: json.dumps(OPTIONS)})
WORDS = ("ab", "abc", "b", "ca")


def rows(chance: random.Random) -> list[dict]:
    return [
        {
            "n": chance.choice((None, *range(7))),
            "s": chance.choice((None, "", *WORDS)),
            "t": chance.choice((None, *[" ".join(chance.choices(WORDS, k=count)) for count in (0, 1, 2, 3, 5, 8)])),
        }
        for _ in range(100)
    ]


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    """Random documents, each table with a split of its own."""
    cache, found = IndexCache(str(tmp_path_factory.mktemp("cache"))), []
    for seed in range(4):
        store, documents = MemoryStore(), rows(random.Random(seed))
        split = build(store, documents, columns=COLUMNS, options=OPTIONS).added("a.split.parquet", {}, 1)
        found.append((store, split, documents, cache))
    return found


def test_any_text_is_understood_or_refused():
    @settings(max_examples=400, deadline=None)
    @given(st.text(alphabet=st.sampled_from(list('ab n:s t*?~"()[]{}<>=+-\\TOANDRI.15\n')), max_size=40))
    def check(text):
        with suppress(InputError):
            bind(parse(text), KNOWN)

    check()


def words(row) -> list[str]:
    return (row["t"] or "").split()


def in_row(row, wanted, slop) -> bool:
    """Whether words stand in their order, with no more than some others in between."""
    text, count = words(row), len(wanted)
    return any(
        [text[at] for at in places] == wanted and places[-1] - places[0] < count + slop
        for places in combinations(range(len(text)), count)
    )


def differ(one: str, other: str) -> int:
    """How many letters have to be put in, taken out, replaced or swapped with their neighbour."""
    rows = [list(range(len(other) + 1))]
    for at, letter in enumerate(one, 1):
        row = [at]
        for to, wanted in enumerate(other, 1):
            least = min(rows[-1][to] + 1, row[-1] + 1, rows[-1][to - 1] + (letter != wanted))
            if at > 1 and to > 1 and letter == other[to - 2] and one[at - 2] == wanted:
                least = min(least, rows[-2][to - 2] + 1)
            row.append(least)
        rows.append(row)
    return rows[-1][-1]


def fits(pattern: str, word: str) -> bool:
    return re.fullmatch(pattern.replace("?", ".").replace("*", ".*"), word) is not None


def phrase(given):
    wanted, slop = given
    return f't:"{" ".join(wanted)}"' + (f"~{slop}" if slop else ""), lambda row: in_row(row, wanted, slop)


def going_on(given):
    *begin, last = given

    def has(row):
        text, count = words(row), len(given)
        return any(
            text[at : at + count - 1] == begin and text[at + count - 1].startswith(last)
            for at in range(len(text) - count + 1)
        )

    return f't:"{" ".join(given)}"*', has


def nearly(given):
    word, distance = given
    return f"t:{word}~{distance}", lambda row: any(differ(word, each) <= distance for each in words(row))


def among(given):
    listed = " ".join(map(str, given))
    return f"n:IN [{listed}]", lambda row: row["n"] in given


NUMBERS = st.integers(-1, 8)
WORD = st.sampled_from(WORDS)
PATTERNS = st.text("abc?*", min_size=2, max_size=4).filter(lambda text: {*"?*"} & {*text} and {*"abc"} & {*text})
LEAVES = st.one_of(
    st.tuples(st.lists(WORD, min_size=2, max_size=4), st.integers(0, 3)).map(phrase),
    st.lists(WORD, min_size=2, max_size=3).map(going_on),
    st.lists(NUMBERS, min_size=1, max_size=4).map(among),
    st.tuples(st.text("abc", min_size=2, max_size=4), st.integers(1, 2)).map(nearly),
    PATTERNS.map(lambda text: (f"t:{text}", lambda row: any(fits(text, each) for each in words(row)))),
    PATTERNS.map(lambda text: (f"s:{text}", lambda row: row["s"] is not None and fits(text, row["s"]))),
    NUMBERS.map(lambda n: (f"n:{n}", lambda row: row["n"] == n)),
    st.tuples(NUMBERS, NUMBERS).map(
        lambda pair: (
            f"n:[{pair[0]} TO {pair[1]}}}",
            lambda row: row["n"] is not None and pair[0] <= row["n"] < pair[1],
        )
    ),
    st.sampled_from(WORDS).map(lambda word: (f"s:{word}", lambda row: row["s"] == word)),
    st.sampled_from(WORDS).map(lambda word: (f"s:>{word}", lambda row: row["s"] is not None and row["s"] > word)),
    st.sampled_from(WORDS).map(lambda word: (f"s:{word}*", lambda row: (row["s"] or "").startswith(word))),
    st.sampled_from(WORDS).map(lambda word: (f"t:{word}", lambda row: word in (row["t"] or "").split())),
    st.sampled_from(WORDS).map(
        lambda word: (f"t:*{word[-1]}", lambda row: any(each.endswith(word[-1]) for each in (row["t"] or "").split()))
    ),
    st.just(("s:*", lambda row: row["s"] is not None)),
    st.just(("*", lambda row: True)),
)


def both(pair):
    (one, first), (other, second) = pair
    return f"({one} AND {other})", lambda row: first(row) and second(row)


def either(pair):
    (one, first), (other, second) = pair
    return f"({one} OR {other})", lambda row: first(row) or second(row)


def without(leaf):
    return f"(NOT {leaf[0]})", lambda row: not leaf[1](row)


TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.tuples(inner, inner).map(both), st.tuples(inner, inner).map(either), inner.map(without)),
    max_leaves=6,
)


def test_any_tree_finds_what_the_rows_have(lakes):
    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(TREES, st.sampled_from(lakes))
    def check(tree, lake):
        (text, predicate), (store, split, documents, cache) = tree, lake
        search = Search(text, bind(parse(text), KNOWN))
        expected = [number for number, row in enumerate(documents) if predicate(row)]
        assert search_split(store, split, search, cache=cache).rows.tolist() == expected, text
        assert count_split(store, split, search, cache=cache) == len(expected), text
        assert few_in_split(store, split, search, 10, cache=cache).count == len(expected), text
        assert may_match(search.query, split) or not expected, text

    check()


LETTERS = "aäÄbßıİΣσς\u0301日𝒜é"
"""Letters of one to four bytes: capitals, one whose small form is two characters, one with two small forms, a mark."""


@pytest.fixture(scope="module")
def foreign():
    """Random texts in letters that are more than one byte."""
    chance, store = random.Random(5), MemoryStore()
    made = ["".join(chance.choices(LETTERS, k=chance.randint(1, 6))) for _ in range(150)]
    documents = [
        {"n": number, "s": chance.choice(made), "t": " ".join(chance.choices(made, k=3))} for number in range(150)
    ]
    split = build(store, documents, columns=COLUMNS, options=OPTIONS).added("a.split.parquet", {}, 1)
    return store, split, documents


def test_words_that_differ_by_letters_are_found_however_many_bytes_a_letter_has(foreign, tmp_path):
    store, split, documents = foreign
    cache, asked = IndexCache(str(tmp_path)), []

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.sampled_from("st"), st.text(LETTERS, min_size=1, max_size=5), st.integers(1, 2))
    def check(column, word, distance):
        looked_for = [word] if column == "s" else analyzed("text", word)
        text = f"{column}:{word}~{distance}"
        if len(looked_for) != 1 or (column == "t" and "\u0301" in word):  # the mark ends a word, and is in none
            with pytest.raises(InputError, match="not one word"):
                bind(parse(text), KNOWN)
            return
        expected = [
            number
            for number, row in enumerate(documents)
            if any(
                differ(looked_for[0], each) <= distance
                for each in ([row["s"]] if column == "s" else analyzed("text", row["t"]))
            )
        ]
        search = Search(text, bind(parse(text), KNOWN))
        assert search_split(store, split, search, cache=cache).rows.tolist() == expected, ascii(text)
        assert may_match(search.query, split) or not expected, ascii(text)
        asked.append(len(expected))

    check()
    assert max(asked) > 0, "something was found"

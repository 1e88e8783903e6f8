"""Queries at random: any text is understood or refused, and any tree finds what the rows have."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.splits import build

from halocline.errors import InputError
from halocline.formats.index.pruning import may_match
from halocline.formats.index.query.bind import SearchedColumns, bind
from halocline.formats.index.query.parse import parse
from halocline.formats.index.search import Search, count_split, search_split
from halocline.formats.index.split.cache import IndexCache
from halocline.formats.index.split.fields import OPTIONS_KEY
from halocline.schema.types import Field, Primitive, Struct
from halocline.storage.memory import MemoryStore

COLUMNS = Struct([Field("n", Primitive("long")), Field("s", Primitive("string")), Field("t", Primitive("string"))])
OPTIONS = {"t": {"type": "text"}}
KNOWN = SearchedColumns.of(COLUMNS, {OPTIONS_KEY: json.dumps(OPTIONS)})
WORDS = ("ab", "abc", "b", "ca")
ROWS = [
    {
        "n": number % 7 if number % 5 else None,
        "s": (None, "", *WORDS)[number % 6],
        "t": None if number % 11 == 0 else " ".join(WORDS[(number >> bit) % 4] for bit in range(number % 4)),
    }
    for number in range(120)
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    store = MemoryStore()
    split = build(store, ROWS, columns=COLUMNS, options=OPTIONS).added("a.split.parquet", {}, 1)
    return store, split, IndexCache(str(tmp_path_factory.mktemp("cache")))


def test_any_text_is_understood_or_refused():
    @settings(max_examples=400, deadline=None)
    @given(st.text(alphabet=st.sampled_from(list('ab n:s t*?~"()[]{}<>=+-\\TOANDRI.15\n')), max_size=40))
    def check(text):
        with suppress(InputError):
            bind(parse(text), KNOWN)

    check()


NUMBERS = st.integers(-1, 8)
LEAVES = st.one_of(
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


def test_any_tree_finds_what_the_rows_have(lake):
    store, split, cache = lake

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(TREES)
    def check(tree):
        text, predicate = tree
        search = Search(text, bind(parse(text), KNOWN))
        expected = [number for number, row in enumerate(ROWS) if predicate(row)]
        assert search_split(store, split, search, cache=cache).rows.tolist() == expected, text
        assert count_split(store, split, search, cache=cache) == len(expected), text
        assert may_match(search.query, split) or not expected, text

    check()

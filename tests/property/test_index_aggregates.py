"""Any rows in any splits: aggregates are those of the rows, whatever was deleted and however the splits were cut."""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.index_tables import delete, table_of

from halocline.formats.index.aggregate.partial import partial_of
from halocline.formats.index.aggregate.request import (
    Aggregation,
    Avg,
    Count,
    HistogramBuckets,
    Max,
    Min,
    Sum,
    TermBuckets,
)
from halocline.formats.index.aggregate.run import aggregate_table, finished
from halocline.formats.index.search import Search
from halocline.schema.arrow import arrow_schema
from halocline.schema.types import Field, Primitive, Struct

COLUMNS = Struct(
    [
        Field("s", Primitive("string")),
        Field("n", Primitive("integer")),
        Field("x", Primitive("double")),
        Field("d", Primitive("decimal(20,3)")),
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "s": st.none() | st.sampled_from(["", "a", "b", "ü" * 40]),
        "n": st.none() | st.integers(-(2**31), 2**31 - 1),
        "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "d": st.none() | st.decimals(-(10**16), 10**16, places=3),
    }
)
SPLITS = st.lists(st.lists(ROWS, min_size=1, max_size=6), min_size=1, max_size=3)
METRICS = {
    "rows": Count(),
    "values": Count("x"),
    "n": Sum("n"),
    "x": Sum("x"),
    "mean": Avg("x"),
    "d": Sum("d"),
    "least": Min("x"),
    "greatest": Max("d"),
    "first": Min("s"),
}


def some(rows, column):
    return [each[column] for each in rows if each[column] is not None]


def rounded(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def expected(rows):
    doubles = list(map(Fraction, some(rows, "x")))
    return {
        "rows": len(rows),
        "values": len(doubles),
        "n": sum(some(rows, "n")) if some(rows, "n") else None,
        "x": rounded(sum(doubles, Fraction())) if doubles else None,
        "mean": rounded(sum(doubles, Fraction()) / len(doubles)) if doubles else None,
        "d": sum(some(rows, "d"), Decimal(0)) if some(rows, "d") else None,
        "least": min(some(rows, "x"), default=None),
        "greatest": max(some(rows, "d"), default=None),
        "first": min(some(rows, "s"), default=None),
    }


GROUPED = Aggregation.of(COLUMNS, METRICS, {"k": TermBuckets("s"), "h": HistogramBuckets("n", 1000)})


def grouped(rows):
    groups = defaultdict(list)
    for each in rows:
        groups[each["s"], None if each["n"] is None else each["n"] // 1000 * 1000].append(each)
    return {key: expected(group) for key, group in groups.items()}


def by_key(found):
    return {(each.pop("k"), each.pop("h")): each for each in found.to_pylist()}


def test_partials_of_any_pieces_are_the_aggregate_of_the_whole():
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(SPLITS)
    def check(splits):
        pieces = [pa.Table.from_pylist(rows, arrow_schema(COLUMNS.fields)) for rows in splits]
        rows = [each for some in splits for each in some]
        assert by_key(finished(GROUPED, [partial_of(GROUPED, each) for each in pieces])) == grouped(rows)
        whole = Aggregation.of(COLUMNS, METRICS)
        assert finished(whole, [partial_of(whole, each) for each in pieces]).to_pylist() == [expected(rows)]

    check()


def test_any_aggregate_is_that_of_the_rows_that_are_left():
    @settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(SPLITS, st.data())
    def check(splits, data):
        table = table_of(*splits, columns=COLUMNS, options={})
        gone = {
            path: data.draw(st.sets(st.integers(0, len(rows) - 1)))
            for path, rows in zip(table.files, splits, strict=True)
        }
        live = [
            each
            for rows, numbers in zip(splits, gone.values(), strict=True)
            for number, each in enumerate(rows)
            if number not in numbers
        ]
        table = delete(table, gone) if any(gone.values()) else table
        request = Aggregation.of(COLUMNS, METRICS)
        assert aggregate_table(table, request).rows.to_pylist() == [expected(live)]
        positive = [each for each in live if each["n"] is not None and each["n"] > 0]
        search = Search.of(table, "n:>0")
        assert aggregate_table(table, request, search).rows.to_pylist() == [expected(positive)]
        assert by_key(aggregate_table(table, GROUPED).rows) == grouped(live)

    check()

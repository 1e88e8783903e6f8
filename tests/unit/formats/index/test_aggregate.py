"""Aggregates against the same question asked of the rows in plain Python, with fractions in place of doubles."""

import math
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from tests.support.index_tables import append, delete, table_of
from tests.support.splits import row

from halocline.errors import InputError, NotFoundError
from halocline.formats.index.aggregate.request import (
    Aggregation,
    Avg,
    Count,
    DateBuckets,
    HistogramBuckets,
    Max,
    Min,
    RangeBuckets,
    Sum,
    TermBuckets,
)
from halocline.formats.index.aggregate.run import aggregate_split, aggregate_table, finished, from_log
from halocline.formats.index.search import Search
from halocline.formats.index.split.reader import OpenedSplit
from halocline.schema.types import Field, Primitive, Struct
from halocline.storage.memory import MemoryStore

COUNT = 200
ODD = [
    row(900, **dict.fromkeys(("level", "latency", "price", "day", "at", "ok", "huge"))),
    row(901, latency=float("nan"), price=Decimal("-0.01")),
    row(902, latency=-0.0, huge=Decimal(10) ** 37),
    row(903, latency=1e300, level=""),
    row(904, latency=-1e300, huge=-(Decimal(10) ** 37)),
    row(905, latency=0.1, at=datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), day=date(1969, 12, 31)),
]
SPLITS = [[row(n) for n in range(COUNT)], [row(n) for n in range(COUNT, 2 * COUNT)], ODD]
ROWS = [each for rows in SPLITS for each in rows]


@pytest.fixture(scope="module")
def table():
    return table_of(*SPLITS)


def asked(snapshot, metrics, by=None):
    return Aggregation.of(snapshot.schema, metrics, by)


def result(snapshot, metrics, by=None, query=None):
    search = None if query is None else Search.of(snapshot, query)
    return aggregate_table(snapshot, asked(snapshot, metrics, by), search)


def rows_of(found):
    return found.rows.to_pylist()


def model(rows, key, metric):
    """What plain Python says, group by group."""
    groups = defaultdict(list)
    for each in rows:
        groups[key(each)].append(each)
    return {name: metric(some) for name, some in groups.items()}


def values(rows, column):
    return [each[column] for each in rows if each[column] is not None]


def exact(numbers):
    """The sum of doubles without a rounding error, rounded once."""
    if any(math.isnan(each) for each in numbers):
        return math.nan
    return float(sum(map(Fraction, numbers)))


def same(found, expected):
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(found, float) and math.isnan(found)
    return found == expected and type(found) is type(expected)


NAMED = {"low": range(50), "middle": range(50, 300), "odd": range(900, 1000)}
BUCKETS = {
    "level": (TermBuckets("level"), lambda each: each["level"]),
    "ok": (TermBuckets("ok"), lambda each: each["ok"]),
    "day": (TermBuckets("day"), lambda each: each["day"]),
    "steps of ids": (HistogramBuckets("id", 7, 3), lambda each: (each["id"] - 3) // 7 * 7 + 3),
    "steps of prices": (
        HistogramBuckets("price", Decimal("0.25")),
        lambda each: None if each["price"] is None else each["price"] // Decimal("0.25") * Decimal("0.25")
        - (Decimal("0.25") if each["price"] < 0 else 0),
    ),
    "hours": (
        DateBuckets("at", "second", 10),
        lambda each: None
        if each["at"] is None
        else datetime.fromtimestamp(math.floor(each["at"].timestamp()) // 10 * 10, UTC),
    ),
    "weeks": (
        DateBuckets("day", "week"),
        lambda each: None if each["day"] is None else each["day"] - timedelta(days=each["day"].weekday()),
    ),
    "months": (
        DateBuckets("at", "month"),
        lambda each: None
        if each["at"] is None
        else each["at"].replace(day=1, hour=0, minute=0, second=0, microsecond=0),
    ),
    "ranges": (
        RangeBuckets("id", {"low": (None, 50), "middle": (50, 300), "odd": (900, None)}),
        lambda each: next((name for name, ids in NAMED.items() if each["id"] in ids), None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BUCKETS)
def test_groups_and_counts_are_those_of_the_rows(table, name):
    bucket, key = BUCKETS[name]
    found = rows_of(result(table, {"n": Count(), "ids": Sum("id")}, {"key": bucket}))
    expected = model(ROWS, key, lambda some: (len(some), sum(values(some, "id"))))
    assert {each["key"]: (each["n"], each["ids"]) for each in found} == expected
    keys = [each["key"] for each in found if each["key"] is not None]
    assert keys == sorted(keys), "groups are in order"


METRICS = {
    "sum of longs": (Sum("id"), lambda some: sum(values(some, "id"))),
    "sum of decimals": (Sum("price"), lambda some: sum(values(some, "price"), Decimal("0.00"))),
    "sum of doubles": (Sum("latency"), lambda some: exact(values(some, "latency"))),
    "average of longs": (Avg("id"), lambda some: float(Fraction(sum(values(some, "id")), len(some)))),
    "least text": (Min("message"), lambda some: min(values(some, "message"))),
    "greatest text": (Max("trace"), lambda some: max(values(some, "trace"))),
    "least moment": (Min("at"), lambda some: min(values(some, "at"), default=None)),
    "greatest day": (Max("day"), lambda some: max(values(some, "day"), default=None)),
    "greatest decimal": (Max("huge"), lambda some: max(values(some, "huge"), default=None)),
    "least truth": (Min("ok"), lambda some: min(values(some, "ok"), default=None)),
    "values": (Count("price"), lambda some: len(values(some, "price"))),
    "values of structs": (Count("user"), lambda some: len(values(some, "user"))),
}


@pytest.mark.parametrize("query", [None, "level:ERROR OR id:>=900", "message:request"])
@pytest.mark.parametrize("name", METRICS)
def test_metrics_are_those_of_the_rows(table, name, query):
    metric, expected = METRICS[name]
    chosen = [
        each for each in ROWS if query != "level:ERROR OR id:>=900" or each["level"] == "ERROR" or each["id"] >= 900
    ]
    (whole,) = rows_of(result(table, {"m": metric}, query=query))
    assert same(whole["m"], expected(chosen)), (whole, expected(chosen))
    by_level = rows_of(result(table, {"m": metric}, {"level": TermBuckets("level")}, query))
    for each in by_level:
        group = [one for one in chosen if one["level"] == each["level"]]
        if values(group, metric.column):
            assert same(each["m"], expected(group)), each


def test_doubles_add_up_whatever_their_order_and_size():
    numbers = [1e308, 1.0, -1e308, 1e-320, 0.1, 0.2, 0.3, -0.0, 3.5]
    columns = Struct([Field("x", Primitive("double")), Field("k", Primitive("long"))])
    for turn in range(3):
        turned = numbers[turn:] + numbers[:turn]
        rows = [{"x": each, "k": 1} for each in turned]
        table = table_of(rows[:4], rows[4:], columns=columns, options={})
        (found,) = rows_of(result(table, {"total": Sum("x"), "mean": Avg("x")}))
        assert found["total"] == exact(numbers)
        assert found["mean"] == float(sum(map(Fraction, numbers)) / len(numbers))


@pytest.mark.parametrize(
    ("numbers", "total", "least", "greatest"),
    [
        ([1.0, math.inf], math.inf, 1.0, math.inf),
        ([math.inf, -math.inf], math.nan, -math.inf, math.inf),
        ([math.nan, 2.0], math.nan, 2.0, math.nan),
        ([1e308, 1e308], math.inf, 1e308, 1e308),
        ([None, None], None, None, None),
    ],
)
def test_odd_doubles_are_told_as_they_are(numbers, total, least, greatest):
    table = table_of([{"x": each} for each in numbers], columns=Struct([Field("x", Primitive("double"))]), options={})
    (found,) = rows_of(result(table, {"total": Sum("x"), "least": Min("x"), "greatest": Max("x")}))
    assert same(found["total"], total)
    assert same(found["least"], least)
    assert same(found["greatest"], greatest)


def test_both_zeros_and_every_nan_are_one_group_each():
    rows = [{"x": each} for each in (0.0, -0.0, math.nan, -math.nan, 1.0, None)]
    table = table_of(rows[:3], rows[3:], columns=Struct([Field("x", Primitive("double"))]), options={})
    found = rows_of(result(table, {"n": Count()}, {"x": TermBuckets("x")}))
    assert [(str(each["x"]), each["n"]) for each in found] == [("0.0", 2), ("1.0", 1), ("nan", 2), ("None", 1)]


@pytest.mark.parametrize("interval", [0.1, 0.3, 1e-9, 7.0])
def test_a_double_lies_between_the_beginning_of_its_group_and_the_next(interval):
    numbers = [n * 0.1 for n in range(-20, 20)] + [0.30000000000000004, 1e15]
    table = table_of([{"x": each} for each in numbers], columns=Struct([Field("x", Primitive("double"))]), options={})
    found = rows_of(result(table, {"low": Min("x"), "high": Max("x")}, {"start": HistogramBuckets("x", interval)}))
    assert len(found) > 1
    for each in found:
        steps = round(each["start"] / interval)
        assert each["start"] <= each["low"] <= each["high"]
        assert each["high"] < (steps + 1) * interval or (steps + 1) * interval == each["start"]


def test_decimals_have_a_mean_of_four_more_digits_rounded_half_up():
    (found,) = rows_of(result(table_of(SPLITS[0]), {"mean": Avg("price")}, query="id:<3"))
    assert found["mean"] == Decimal("0.010000")
    (found,) = rows_of(result(table_of(SPLITS[0]), {"mean": Avg("price")}, query="id:<4"))
    assert found["mean"] == Decimal("0.015000")


@pytest.mark.parametrize(("kind", "number"), [("long", 2**63 - 1), ("decimal(38,0)", Decimal("9" * 38))])
def test_a_sum_that_its_type_cannot_hold_is_refused_and_its_mean_is_not(kind, number):
    table = table_of([{"x": number}, {"x": number}], columns=Struct([Field("x", Primitive(kind))]), options={})
    with pytest.raises(InputError, match="too large") as refused:
        result(table, {"total": Sum("x")})
    assert refused.value.condition == "AGGREGATE_OVERFLOW"
    (found,) = rows_of(result(table, {"greatest": Max("x"), "n": Count("x")}))
    assert found == {"greatest": number, "n": 2}


def test_nothing_found_is_one_row_without_groups_and_none_with(table):
    metrics = {"n": Count(), "total": Sum("id"), "mean": Avg("latency"), "least": Min("level")}
    assert rows_of(result(table, metrics, query="message:zebra")) == [
        {"n": 0, "total": None, "mean": None, "least": None}
    ]
    assert rows_of(result(table, metrics, {"level": TermBuckets("level")}, "message:zebra")) == []


# ------------------------------------------------------------------ the log


def without_splits(snapshot):
    """The table with all of its splits gone: what is answered all the same comes from the log."""
    for path in snapshot.files:
        snapshot.store.delete(path)
    return snapshot


def test_counts_and_bounds_come_from_the_log_and_no_split_is_opened():
    table = without_splits(table_of(*SPLITS[:2]))
    metrics = {
        "n": Count(),
        "low": Min("id"),
        "at": Max("at"),
        "price": Max("price"),
        "ok": Min("ok"),
        "day": Max("day"),
    }
    found = result(table, metrics)
    rows = ROWS[: 2 * COUNT]
    assert rows_of(found) == [
        {
            "n": len(rows),
            "low": 0,
            "at": max(values(rows, "at")),
            "price": max(values(rows, "price")),
            "ok": False,
            "day": max(values(rows, "day")),
        }
    ]
    assert (found.asked, found.from_log) == (0, 2)


def test_what_the_log_cannot_know_is_read(table):
    long = table_of([row(1, level="x" * 40)], [row(2, level="y")])
    assert rows_of(result(long, {"least": Min("level")})) == [{"least": "x" * 40}]
    found = result(table, {"low": Min("latency")})
    assert (found.from_log, found.asked) == (2, 1), "the split with a NaN has no bounds"
    assert rows_of(found) == [{"low": -1e300}]


def test_deleted_rows_do_not_count_and_bounds_of_masked_splits_are_not_believed():
    table = table_of(*SPLITS[:2])
    after = delete(table, {next(iter(table.files)): [0, 1, 7]})
    found = result(after, {"n": Count(), "low": Min("id"), "high": Max("id"), "total": Sum("id")})
    assert rows_of(found) == [{"n": 397, "low": 2, "high": 399, "total": sum(range(400)) - 8}]
    counted = result(after, {"n": Count()})
    assert (counted.asked, rows_of(counted)) == (0, [{"n": 397}])
    groups = rows_of(result(after, {"n": Count()}, {"level": TermBuckets("level")}, "id:<9"))
    assert {each["level"]: each["n"] for each in groups} == {"INFO": 2, "WARN": 1, "ERROR": 3}


def test_partition_columns_are_grouped_by_without_opening_a_split():
    columns = Struct([Field("zone", Primitive("string")), Field("n", Primitive("long"))])
    parts = [[{"zone": zone, "n": n} for n in range(3)] for zone in ("a", "b", None, "a")]
    table = without_splits(table_of(*parts, columns=columns, options={}, partition="zone"))
    found = result(table, {"n": Count(), "zones": Count("zone"), "high": Max("n")}, {"zone": TermBuckets("zone")})
    assert rows_of(found) == [
        {"zone": "a", "n": 6, "zones": 6, "high": 2},
        {"zone": "b", "n": 3, "zones": 3, "high": 2},
        {"zone": None, "n": 3, "zones": 0, "high": 2},
    ]
    assert rows_of(result(table, {"n": Count()}, query="zone:a")) == [{"n": 6}]


def test_partials_merge_in_any_order_and_grouping_to_the_same_result(table):
    request = asked(
        table, {"n": Count(), "total": Sum("latency"), "high": Max("price")}, {"level": TermBuckets("level")}
    )
    known, splits = from_log(request, None, table.files.values())
    partials = [known.partial, *(aggregate_split(table.store, each, request).partial for each in splits)]
    expected = finished(request, partials)
    assert len(expected) == 5
    for order in ([3, 1, 0, 2], [2, 3, 1, 0]):
        some = [partials[at] for at in order]
        assert str(finished(request, some).to_pylist()) == str(expected.to_pylist())
    sent = pa.ipc.open_stream(_sent(partials[1])).read_all()
    assert sent.equals(partials[1]), "a partial survives the way to another process"


def _sent(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


# ------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("metrics", "by", "error", "match"),
    [
        ({}, None, InputError, "nothing to work out"),
        ({"n": Sum("level")}, None, InputError, "has no numbers"),
        ({"n": Max("user")}, None, InputError, "can only be counted"),
        ({"n": Max("raw")}, None, InputError, "can only be counted"),
        ({"n": Count()}, {"n": TermBuckets("level")}, InputError, "two columns"),
        ({"n": Count()}, {"k": TermBuckets("tags")}, InputError, "can only be counted"),
        ({"n": Count()}, {"k": HistogramBuckets("id", 0)}, InputError, "above zero"),
        ({"n": Count()}, {"k": HistogramBuckets("id", 0.5)}, InputError, "no value of a column"),
        ({"n": Count()}, {"k": HistogramBuckets("price", Decimal("0.001"))}, InputError, "no value of a column"),
        ({"n": Count()}, {"k": DateBuckets("at", "fortnight")}, InputError, "no unit"),
        ({"n": Count()}, {"k": DateBuckets("id", "day")}, InputError, "has no times"),
        ({"n": Count()}, {"k": RangeBuckets("id", {})}, InputError, "no ranges"),
        ({"n": Count()}, {"k": RangeBuckets("id", {"a": (0, 5), "b": (4, 9)})}, InputError, "overlap"),
        ({"n": Count()}, {"k": RangeBuckets("id", {"a": (5, 5)})}, InputError, "empty"),
        ({"n": Count("lvel")}, None, NotFoundError, "lvel"),
    ],
)
def test_what_cannot_be_worked_out_is_refused_with_the_reason(table, metrics, by, error, match):
    with pytest.raises(error, match=match):
        asked(table, metrics, by)


def test_a_damaged_index_is_told_and_does_not_change_the_result():
    store = MemoryStore()
    table = table_of(SPLITS[0], store=store)
    append(table, SPLITS[1])
    table = table.newest()
    path = next(iter(table.files))
    whole = rows_of(result(table, {"total": Sum("id")}, query="message:request"))
    split = table.files[path]
    with OpenedSplit(store, path) as opened:
        blob = opened.layout.blobs[0]
    data = bytearray(store.get(path))
    data[blob.offset + blob.length // 2] ^= 0xFF
    store.put(path, bytes(data))
    found = result(table, {"total": Sum("id")}, query="message:request")
    assert rows_of(found) == whole
    assert list(found.damaged) == [split.path]

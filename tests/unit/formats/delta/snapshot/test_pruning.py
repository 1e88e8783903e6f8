import json
from typing import Any

import pyarrow as pa
import pytest
from tests.support.log_builder import ADD, LogBuilder, schema_of, written

from halocline.errors import InputError
from halocline.formats.delta.actions.action import Add, Metadata, ProtocolAction
from halocline.formats.delta.snapshot.snapshot import Snapshot


def kept(
    where: str, *files: Add, partitions: tuple[str, ...] = (), timezone: str | None = None, **types: Any
) -> list[str]:
    """The paths that remain of files in the tail of a table."""
    metadata = Metadata("1", schema_of(**types), partition_columns=partitions)
    features = ["timestampNtz"] if "timestamp_ntz" in types.values() else []
    log = LogBuilder().create(*files, protocol=ProtocolAction(3, 7, features, features), metadata=metadata)
    return sorted(Snapshot.load(log.store).files(where, timezone=timezone)["path"].to_pylist())


def file(path: str, low: Any = None, high: Any = None, nulls: int | None = 0, rows: int = 10, **more: Any) -> Add:
    """A file with statistics of a column `c`."""
    stats: dict[str, Any] = {"numRecords": rows, **more}
    stats |= {"minValues": {"c": low}, "maxValues": {"c": high}} if low is not None else {}
    stats |= {"nullCount": {"c": nulls}} if nulls is not None else {}
    return Add(path, {}, 1, 1, True, stats=json.dumps(stats))


def part(path: str, value: str | None) -> Add:
    return Add(path, {"p": value}, 1, 1, True)


NUMBERS = (file("a", 1, 5), file("b", 6, 9), file("n", nulls=10), file("u", nulls=None))


@pytest.mark.parametrize(
    ("where", "paths"),
    [
        ("c = 5", "au"),
        ("c = 7", "bu"),
        ("c = 5.5", ""),
        ("c < 6", "au"),
        ("c <= 6", "abu"),
        ("c > 5", "bu"),
        ("c >= 5.5", "bu"),
        ("c > 9", "u"),
        ("c IN (2, 3)", "au"),
        ("c IN (100)", "u"),
        ("c BETWEEN 5 AND 6", "abu"),
        ("c NOT BETWEEN 0 AND 10", "u"),
        ("c != 5", "abu"),
        ("c IS NULL", "nu"),
        ("c IS NOT NULL", "abu"),
        ("c <=> NULL", "nu"),
        ("c = '7'", "bu"),
        ("c = 'x'", "abu"),
        ("c = 99999999999999999999999", "abu"),
        ("c = 5 AND c = 7", "u"),
        ("c = 5 OR c = 7", "abu"),
        ("c = NULL", ""),
        ("abs(c) = 5", "abnu"),
    ],
)
def test_whole_numbers(where, paths):
    assert kept(where, *NUMBERS, c="long") == sorted(paths)


def test_every_value_equal_rules_out_not_equal():
    assert kept("c != 5", file("a", 5, 5), file("b", 5, 6), c="long") == ["b"]


@pytest.mark.parametrize(("where", "paths"), [("c > 100", "ab"), ("c < 0", ""), ("c = 7", "b"), ("c != 1.5", "ab")])
def test_a_greatest_float_proves_nothing_about_greater(where, paths):
    assert kept(where, file("a", 1.5, 1.5), file("b", 6, 9.5), c="double") == list(paths)


def test_single_precision_is_compared_exactly():
    assert kept("c = 0.10000000149011612D", file("a", 0.1, 0.1), c="float") == ["a"]


@pytest.mark.parametrize(
    ("where", "paths"),
    [("c = 1.23", "a"), ("c = 1.235", ""), ("c < 1.2301", "a"), ("c > 12345678901234567.88", "b"), ("c = 1.5D", "ab")],
)
def test_decimals_keep_all_their_digits(where, paths):
    stats = '{"numRecords":1,"minValues":{"c":12345678901234567.89},"maxValues":{"c":12345678901234567.89}}'
    exact = Add("b", {}, 1, 1, True, stats=stats)
    assert kept(where, file("a", 1.23, 1.23), exact, c="decimal(30,2)") == list(paths)


LONG = "x" * 32


@pytest.mark.parametrize(
    ("where", "paths"),
    [
        ("c = 'b'", "a"),
        ("c > 'd'", "b"),
        ("c LIKE 'b%'", "a"),
        ("c LIKE 'xx%'", "b"),
        ("c LIKE 'zz%'", ""),
        (f"c > '{LONG}'", "b"),
        (f"c = '{LONG}more'", "b"),
        (f"c != '{LONG}'", "ab"),
        ("c = 7", "ab"),
    ],
)
def test_cut_text_still_bounds_what_was_cut(where, paths):
    assert kept(where, file("a", "a", "cc"), file("b", LONG, LONG), c="string") == list(paths)


@pytest.mark.parametrize(
    ("where", "timezone", "paths"),
    [
        ("c > TIMESTAMP '2024-01-01 00:00:00.0005Z'", None, "a"),
        ("c > TIMESTAMP '2024-01-01 00:00:00.002Z'", None, ""),
        ("c = TIMESTAMP '2024-01-01 05:00:00'", None, "a"),
        ("c = TIMESTAMP '2024-01-01 05:00:00'", "UTC", ""),
        ("c = TIMESTAMP '2024-01-01 05:30:00'", "Asia/Kolkata", "a"),
        ("c = '2024-01-01T00:00:00Z'", None, "a"),
        ("c > TIMESTAMP '2024-01-05 00:00:00'", None, ""),
        ("c > TIMESTAMP 'tomorrow'", None, "a"),
    ],
)
def test_timestamps_lose_digits_and_zones(where, timezone, paths):
    stamp = "2024-01-01T00:00:00.000Z"
    assert kept(where, file("a", stamp, stamp), c="timestamp", timezone=timezone) == list(paths)


@pytest.mark.parametrize("stamp", ["2024-01-01T00:00:00.000", "2024-01-01T00:00:00.000Z", "2024-01-01"])
def test_timestamps_without_zone_are_taken_as_they_stand(stamp):
    found = file("a", stamp, stamp)
    assert kept("c = TIMESTAMP_NTZ '2024-01-01 00:00:00'", found, c="timestamp_ntz") == ["a"]
    assert kept("c > TIMESTAMP_NTZ '2024-01-01 00:00:01'", found, c="timestamp_ntz") == []
    assert kept("c > '2024-01-01 00:00:01'", found, c="timestamp_ntz") == []


@pytest.mark.parametrize(
    ("where", "paths"), [("c = '2024-01-02'", "a"), ("c > DATE '2024-01-03'", ""), ("c = 'x'", "a")]
)
def test_dates(where, paths):
    assert kept(where, file("a", "2024-01-01", "2024-01-03"), c="date") == list(paths)


@pytest.mark.parametrize(
    ("type", "value", "where", "matches"),
    [
        ("string", "x", "p = 'x'", True),
        ("string", "x", "p != 'x'", False),
        ("string", "x", "p > 'x'", False),
        ("integer", "7", "p = 7", True),
        ("integer", "7", "p IN (1, 2)", False),
        ("integer", "seven", "p = 7", True),
        ("boolean", "true", "p", True),
        ("boolean", "true", "NOT p", False),
        ("boolean", "true", "p = false", False),
        ("date", "2024-01-02", "p >= '2024-01-02'", True),
        ("date", "2024-01-02", "p > '2024-01-02'", False),
        ("double", "1.5", "p > 2", False),
        ("double", "0.1", "p > 0.1", False),
        ("float", "0.1", "p > 0.1", True),
        ("float", "0.1", "p < 0.05", False),
        ("double", "NaN", "p > 2", True),
        ("decimal(5,2)", "1.50", "p = 1.5", True),
        ("decimal(5,2)", "1.50", "p = 2.5", False),
        ("timestamp", "2024-01-02 00:00:00", "p > '2024-01-02T17:00:00Z'", True),
        ("timestamp", "2024-01-02 00:00:00", "p > '2024-01-02T19:00:00Z'", False),
        ("timestamp", "2024-01-02T00:00:00.000000Z", "p > '2024-01-02T01:00:00Z'", False),
        ("timestamp_ntz", "2024-01-02 00:00:00.5", "p > '2024-01-02 00:00:00.6'", False),
        ("binary", "\x01", "p IS NULL", False),
        ("binary", "\x01", "p IS NOT NULL", True),
        ("integer", None, "p IS NULL", True),
        ("integer", "", "p IS NULL", True),
        ("integer", None, "p IS NOT NULL", False),
        ("integer", "", "p = 0", False),
        ("integer", None, "p != 0", False),
        ("integer", "0", "p IS NULL", False),
    ],
)
def test_partition_values_are_exact(type, value, where, matches):
    assert (kept(where, part("a", value), partitions=("p",), p=type, c="long") == ["a"]) is matches


def test_a_file_without_the_partition_value_is_kept():
    nothing = Add("a", {}, 1, 1, True)
    for where in ("p = 1", "p IS NULL", "p IS NOT NULL"):
        assert kept(where, nothing, partitions=("p",), p="integer", c="long") == ["a"], where


@pytest.mark.parametrize(
    "stats",
    [
        None,
        "",
        "{",
        "[]",
        '{"minValues":7}',
        '{"numRecords":"x"}',
        '{"minValues":{"c":"x"},"maxValues":{"c":[]}}',
        "[" * 9999,
    ],
)
def test_statistics_that_cannot_be_read_prove_nothing(stats):
    assert kept("c = 5", Add("a", {}, 1, 1, True, stats=stats), c="long") == ["a"]


def test_numbers_that_do_not_fit_prove_nothing():
    huge = file("a", 10**40, 10**41)
    assert kept("c = 5", huge, c="long") == ["a"]
    assert kept("c = 5", huge, c="decimal(5,2)") == ["a"]


def test_loose_bounds_still_bound():
    loose = file("a", 1, 5, nulls=3, tightBounds=False)
    assert kept("c = 7", loose, c="long") == []
    assert kept("c IS NULL", loose, c="long") == ["a"]
    assert kept("c IS NOT NULL", loose, c="long") == ["a"]


def test_nested_columns_and_mapped_names():
    def mapped(name, id, type):
        metadata = {"delta.columnMapping.id": id, "delta.columnMapping.physicalName": f"col-{id}"}
        return {"name": name, "type": type, "nullable": True, "metadata": metadata}

    point = mapped("point", 1, {"type": "struct", "fields": [mapped("x", 2, "long")]})
    schema = json.dumps({"type": "struct", "fields": [point, mapped("p", 3, "string")]})
    metadata = Metadata("1", schema, partition_columns=("p",), configuration={"delta.columnMapping.mode": "name"})
    adds = [
        Add(
            path,
            {"col-3": path},
            1,
            1,
            True,
            stats=json.dumps(
                {"numRecords": 1, "minValues": {"col-1": {"col-2": x}}, "maxValues": {"col-1": {"col-2": x}}}
            ),
        )
        for path, x in (("a", 1), ("b", 2))
    ]
    snapshot = Snapshot.load(LogBuilder().create(*adds, protocol=ProtocolAction(2, 5), metadata=metadata).store)
    assert snapshot.files("point.x = 2")["path"].to_pylist() == ["b"]
    assert snapshot.files("p = 'a'")["path"].to_pylist() == ["a"]
    assert snapshot.files("point IS NULL").num_rows == 2
    with pytest.raises(InputError, match="COLUMN_NOT_FOUND"):
        snapshot.files("`col-3` = 'a'")


BOUNDS = pa.struct([("c", pa.int32()), ("t", pa.timestamp("us", "UTC")), ("s", pa.string()), ("f", pa.float32())])
COUNTS = pa.struct([("c", pa.int64()), ("t", pa.int64()), ("s", pa.int64()), ("f", pa.int64())])
PARSED = pa.struct([("numRecords", pa.int64()), ("minValues", BOUNDS), ("maxValues", BOUNDS), ("nullCount", COUNTS)])


@pytest.mark.parametrize(
    ("where", "paths"),
    [
        ("c = 5", "au"),
        ("c > 5", "bu"),
        ("c IS NULL", "u"),
        ("s LIKE 'q%'", "bu"),
        ("t > TIMESTAMP '1970-01-01T00:00:00.0005Z'", "abu"),
        ("t > TIMESTAMP '1970-01-01T00:00:00.0015Z'", "bu"),
        ("f < 0", "u"),
        ("f > 100", "abu"),
        ("p = 'x'", "au"),
        ("p = 'x' AND c = 7", "u"),
        ("missing = 3", "abu"),
    ],
)
def test_typed_statistics_of_a_checkpoint(where, paths):
    def row(path, low, high, at, s, p):
        values = [{"c": v, "t": at, "s": s, "f": 1.5} for v in (low, high)]
        counts = {"c": 0, "t": 0, "s": 0, "f": 0}
        parsed = {"numRecords": 5, "minValues": values[0], "maxValues": values[1], "nullCount": counts}
        return {"add": {"path": path, "size": 1, "partitionValues": [("p", p)], "stats_parsed": parsed}}

    unknown = {"add": {"path": "u", "size": 1, "partitionValues": [("p", "x")], "stats_parsed": None}}
    rows = [row("a", 1, 5, 0, "a", "x"), row("b", 6, 9, 10**6, "qq", "y"), unknown]
    kind = pa.struct([*[field for field in ADD if field.name != "stats"], pa.field("stats_parsed", PARSED)])
    data = written(pa.Table.from_pylist(rows, schema=pa.schema([("add", kind)])))
    types = {"c": "integer", "t": "timestamp", "s": "string", "f": "float", "p": "string", "missing": "long"}
    metadata = Metadata("1", schema_of(**types), partition_columns=("p",))
    log = LogBuilder().put(f"{0:020d}.checkpoint.parquet", data).commit(ProtocolAction(1, 2), metadata, version=1)
    found = Snapshot.load(log.store).files(where, columns=["size"])
    assert sorted(found["path"].to_pylist()) == sorted(paths)
    assert found.column_names == ["path", "size"]


def test_text_statistics_of_a_checkpoint():
    log = LogBuilder().checkpoint(0, file("a", 1, 5), file("b", 6, 9))
    log.commit(ProtocolAction(1, 2), Metadata("1", schema_of(c="long")), version=1)
    assert Snapshot.load(log.store).files("c = 7", columns=[])["path"].to_pylist() == ["b"]


def test_an_unknown_time_zone_is_an_error():
    with pytest.raises(InputError, match="no time zone 'Mars'"):
        kept("c = TIMESTAMP '2024-01-01 00:00:00'", timezone="Mars", c="timestamp")


@pytest.mark.parametrize(
    ("type", "bound", "where", "paths"),
    [
        ("decimal(20,4)", "1234567890123456.8", "c = 1234567890123456.7891", "f"),
        ("decimal(20,4)", "1234567890123456.8", "c < 1234567890123456.7892", "f"),
        ("decimal(20,4)", "1234567890123456.8", "c > 1234567890123456.8001", "f"),
        ("decimal(20,4)", "1234567890123456.8", "c > 1234567890123458", ""),
        ("decimal(18,1)", "1e+17", "c = 99999999999999999.9", "f"),
        ("decimal(38,0)", "9223372036854775807", "c > 99999999999999999999", "f"),
        ("decimal(38,0)", "-9223372036854775808", "c < -99999999999999999999", "f"),
        ("decimal(15,2)", "1234567890123.45", "c > 1234567890123.45", ""),
        ("decimal(15,2)", "1234567890123.45", "c = 1234567890123.45", "f"),
    ],
)
def test_decimal_bounds_rounded_by_their_writer_keep_files_with_rows_beside_them(type, bound, where, paths):
    stats = f'{{"numRecords":1,"minValues":{{"c":{bound}}},"maxValues":{{"c":{bound}}},"nullCount":{{"c":0}}}}'
    rounded = Add("f", {}, 1, 1, True, stats=stats)
    assert kept(where, rounded, c=type) == list(paths), f"{type} within {bound}"

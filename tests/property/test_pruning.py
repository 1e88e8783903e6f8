"""Pruning never drops a file that holds a matching row, whatever the predicate, the values and the statistics.

Rows and predicates are made up; another engine says which files hold a match. Statistics are as loose as the format
allows: text is cut, timestamps lose their microseconds, not-a-number is passed over, bounds may be wide.
"""

from __future__ import annotations

import io
import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from halocline.compat.protocol import Protocol
from halocline.formats.delta.actions.action import Add, Metadata
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.log import live_files
from halocline.formats.delta.log.checkpoint_write import write_checkpoint
from halocline.formats.delta.snapshot import pruning
from halocline.formats.delta.snapshot.pruning import StatsPruner
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.delta.stats.predicate import Predicate
from halocline.schema.json_edge import dump
from halocline.storage import open_store
from halocline.table import Table

CUT = 3
ZONES = ["UTC", "America/Los_Angeles", "Asia/Kolkata", "Pacific/Apia"]
EPOCH = datetime(2024, 3, 10)


@dataclass(frozen=True)
class Kind:
    type: str
    sql: str
    values: st.SearchStrategy[Any]
    literal: Any
    stat: Any


def _moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def _cut_time(value: datetime) -> str:
    return value.isoformat(timespec="milliseconds")


texts = st.text("abc\u00e9", max_size=5)
moments = st.integers(-200_000_000_000, 200_000_000_000).map(_moment)
KINDS = {
    "i": Kind("long", "BIGINT", st.integers(-5, 5) | st.sampled_from([2**63 - 1, -(2**63)]), str, lambda v: v),
    "n": Kind("integer", "INTEGER", st.integers(-3, 3), str, lambda v: v),
    "f": Kind("float", "FLOAT", st.sampled_from([-1.5, 0.0, 0.1, 0.3, 2.5, math.nan, math.inf]), repr, lambda v: v),
    "d": Kind("double", "DOUBLE", st.sampled_from([-1.5, -0.0, 0.1, 0.25, 3.5, math.nan]), repr, lambda v: v),
    "m": Kind("decimal(10,2)", "DECIMAL(10,2)", st.integers(-300, 300).map(lambda v: Decimal(v) / 100), str, float),
    "s": Kind("string", "VARCHAR", texts, lambda v: f"'{v}'", lambda v: v[:CUT]),
    "t": Kind(
        "date", "DATE", st.integers(-3, 3).map(lambda d: date(2024, 3, 10) + timedelta(d)), lambda v: f"DATE '{v}'", str
    ),
    "ts": Kind("timestamp", "TIMESTAMPTZ", moments, lambda v: f"TIMESTAMP '{v}'", lambda v: _cut_time(v) + "Z"),
    "tn": Kind("timestamp_ntz", "TIMESTAMP", moments, lambda v: f"TIMESTAMP_NTZ '{v}'", _cut_time),
    "b": Kind("boolean", "BOOLEAN", st.booleans(), str, lambda v: v),
}
SCHEMA = Schema.parse(
    json.dumps({"type": "struct", "fields": [{"name": name, "type": kind.type} for name, kind in KINDS.items()]})
)


@st.composite
def predicates(draw: Any, depth: int = 3) -> str:
    if depth and draw(st.booleans()):
        left, right = draw(predicates(depth - 1)), draw(predicates(depth - 1))
        return draw(st.sampled_from([f"({left} AND {right})", f"({left} OR {right})", f"NOT {left}", f"NOT ({right})"]))
    name = draw(st.sampled_from(sorted(KINDS)))
    kind = KINDS[name]
    literal = draw(kind.values.filter(lambda v: not (isinstance(v, float) and not math.isfinite(v))).map(kind.literal))
    other = draw(kind.values.filter(lambda v: not (isinstance(v, float) and not math.isfinite(v))).map(kind.literal))
    if name in ("i", "n") and draw(st.booleans()):
        literal = draw(st.sampled_from(["1.5", "-0.5", "2.0", "1e0", "99999999999999999999"]))
    if name == "m" and draw(st.booleans()):
        literal = draw(st.sampled_from(["1.234", "-0.005", "7", "123456789012"]))
    operator = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
    forms = [
        f"{name} {operator} {literal}",
        f"{literal} {operator} {name}",
        f"{name} IS NULL",
        f"{name} IS NOT NULL",
        f"{name} IN ({literal}, {other})",
        f"{name} NOT IN ({literal}, NULL)",
        f"{name} NOT IN ({literal}, {other})",
        f"{name} BETWEEN {literal} AND {other}",
        f"{name} NOT BETWEEN {literal} AND {other}",
        f"{name} IS NOT DISTINCT FROM {literal}",
        f"NOT ({name} IS NOT DISTINCT FROM {literal})",
        f"{name} = NULL",
    ]
    if name == "s":
        prefix = draw(st.text("abc", max_size=4))
        forms += [f"s LIKE '{prefix}%'", f"s NOT LIKE '{prefix}%'", f"s LIKE '{prefix}'", f"s LIKE '%{prefix}'"]
    if name == "b":
        forms = ["b", "NOT b", "b IS NULL", f"b = {literal}", f"b != {literal}"]
    return draw(st.sampled_from(forms))


rows = st.fixed_dictionaries({name: st.none() | kind.values for name, kind in KINDS.items()})


@st.composite
def files(draw: Any, partition: str) -> tuple[list[dict[str, Any]], Add]:
    """Rows, and the action that adds them as a file."""
    content = draw(st.lists(rows, min_size=1, max_size=3))
    # Empty text is null in a partition.
    shared = draw(st.none() | KINDS[partition].values.filter(lambda value: value != ""))
    for row in content:
        row[partition] = shared
    stats: dict[str, Any] = {"numRecords": len(content), "minValues": {}, "maxValues": {}, "nullCount": {}}
    for name, kind in KINDS.items():
        if name == partition or draw(st.integers(0, 9)) == 0:
            continue
        present = [row[name] for row in content if row[name] is not None]
        stats["nullCount"][name] = len(content) - len(present)
        known = [value for value in present if not (isinstance(value, float) and not math.isfinite(value))]
        infinite = any(isinstance(value, float) and math.isinf(value) for value in present)
        if known and name != "b" and not infinite:
            stats["minValues"][name] = kind.stat(min(known))
            stats["maxValues"][name] = kind.stat(max(known))
    if draw(st.booleans()):
        stats["tightBounds"] = False
    return content, Add("f", {partition: _partition_text(shared)}, 1, 1, True, stats=json.dumps(stats))


def _partition_text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _matching(contents: list[list[dict[str, Any]]], predicate: str, zone: str) -> set[int]:
    """Which files hold a matching row, as another engine sees it."""
    connection = _engine()
    connection.execute(f"SET TimeZone = '{zone}'")
    columns = ", ".join(f"{name} {kind.sql}" for name, kind in KINDS.items())
    connection.execute(f"CREATE OR REPLACE TABLE rows (file INTEGER, {columns})")
    data = [
        [number, *(_value(name, row[name]) for name in KINDS)]
        for number, content in enumerate(contents)
        for row in content
    ]
    connection.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * (len(KINDS) + 1))})", data)
    # A zoneless literal is in the session's zone in Spark; the other engine calls that type by another name.
    text = (
        predicate.replace("TIMESTAMP_NTZ '", "#'").replace("TIMESTAMP '", "TIMESTAMPTZ '").replace("#'", "TIMESTAMP '")
    )
    return {number for (number,) in connection.execute(f"SELECT DISTINCT file FROM rows WHERE {text}").fetchall()}


@lru_cache
def _engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def _value(name: str, value: Any) -> Any:
    return value.replace(tzinfo=UTC) if name == "ts" and value else value


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    st.sampled_from(["i", "s", "t", "tn", "m", "d", "b"]).flatmap(
        lambda partition: st.tuples(st.just(partition), st.lists(files(partition), min_size=1, max_size=3))
    ),
    predicates(),
    st.sampled_from(ZONES),
    st.booleans(),
)
def test_files_with_a_matching_row_are_kept(table, predicate, zone, zone_is_known):
    partition, made = table
    cut = {"delta.dataSkippingStringPrefixLength": str(CUT)}
    metadata = Metadata("1", dump(SCHEMA.struct), partition_columns=(partition,), configuration=cut)
    configuration = TableConfiguration(Protocol.delta(1, 2), metadata)
    parsed = Predicate.parse(predicate, SCHEMA)
    pruner = StatsPruner.of(predicate, configuration, timezone=zone if zone_is_known else None)
    batch = live_files.from_adds([add for _, add in made], ("path", "partition_values", "stats"))
    keep = pruner.keep({"path": batch["path"], "partitionValues": batch["partition_values"], "stats": batch["stats"]})
    kept = set(range(len(made))) if keep is None else {n for n, each in enumerate(keep.to_pylist()) if each}
    matching = _matching([content for content, _ in made], predicate, zone)
    note(f"{predicate}\n{parsed.test}\n{[add.stats for _, add in made]}")
    assert matching <= kept, f"dropped {matching - kept} although they hold a row of: {predicate}"
    assert keep is None or (keep.null_count == 0 and keep.type == pa.bool_())


# ---- typed partition values of a checkpoint

TEXTS_ONLY = {"delta.checkpoint.writeStatsAsStruct": "false"}
TYPED = {"delta.checkpoint.writeStatsAsStruct": "true"}
TABLES = {
    "typed": TYPED,
    "mapped": {**TYPED, "delta.columnMapping.mode": "name"},
    "with holes": TYPED,
    "texts only": TEXTS_ONLY,
}
VALUES = {
    "i": [-5, 0, 3, 2**63 - 1],
    "n": [-3, 0, 2],
    "f": [-1.5, 0.0, 2.5],
    "d": [0.25, 3.5],
    "m": [Decimal("1.23"), Decimal("-0.50")],
    "s": ["a", "", "abc", "b%20 =/c", "\u00e9"],
    "t": [date(2024, 3, 8), date(2024, 3, 10)],
    "ts": [_moment(0).replace(tzinfo=UTC), _moment(90_000_000).replace(tzinfo=UTC)],
    "tn": [_moment(0), _moment(5)],
    "b": [True, False],
}


@lru_cache
def partitioned(table: str) -> Snapshot:
    """A table partitioned by a column of every kind, most of its files in a checkpoint and some behind it."""
    types = {"long": pa.int64(), "integer": pa.int32(), "float": pa.float32(), "double": pa.float64()}
    types |= {"decimal(10,2)": pa.decimal128(10, 2), "string": pa.string(), "date": pa.date32(), "boolean": pa.bool_()}
    types |= {"timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us")}
    schema = pa.schema([(name, types[kind.type]) for name, kind in KINDS.items()] + [("x", pa.int64())])

    def some(start: int, end: int) -> pa.Table:
        names = enumerate(VALUES.items())
        picked = {
            name: [[None, *values][(row * (at + 3) // 2) % (len(values) + 1)] for row in range(start, end)]
            for at, (name, values) in names
        }
        return pa.table({**picked, "x": list(range(start, end))}, schema)

    store = open_store(f"memory://typed-{table.replace(' ', '-')}")
    made = Table.create(store.root, some(0, 30), partition_by=list(KINDS), properties=TABLES[table])
    write_checkpoint(store, 0)
    if table == "with holes":
        path = f"_delta_log/{0:020}.checkpoint.parquet"
        store.put(path, _with_holes(store.get(path)))
    made.append_arrow(some(30, 36))
    return Snapshot.load(store)


def _with_holes(checkpoint: bytes) -> bytes:
    """Every third file lacks its typed values, as a writer leaves what it cannot read."""
    content = pq.read_table(io.BytesIO(checkpoint))
    add = content["add"].combine_chunks()
    at = add.type.get_field_index("partitionValues_parsed")
    children = [add.field(number) for number in range(add.type.num_fields)]
    there = pa.array([row % 3 != 0 for row in range(len(add))])
    children[at] = pc.if_else(there, children[at], pa.scalar(None, children[at].type))
    holed = pa.StructArray.from_arrays(children, fields=list(add.type), mask=pc.is_null(add))
    sink = io.BytesIO()
    pq.write_table(content.set_column(content.schema.get_field_index("add"), content.schema.field("add"), holed), sink)
    return sink.getvalue()


@pytest.mark.parametrize("table", TABLES)
@given(where=predicates(), zone=st.sampled_from(ZONES))
@settings(max_examples=60, deadline=None)
def test_typed_partition_values_keep_the_files_that_their_texts_keep(table, where, zone):
    snapshot = partitioned(table)
    found = snapshot.files(where, ["path"], timezone=zone)["path"].to_pylist()
    with mock.patch.object(pruning, "_AS_TYPED", ()):
        expected = snapshot.files(where, ["path"], timezone=zone)["path"].to_pylist()
    assert found == expected


@pytest.mark.parametrize(
    ("table", "where", "is_typed"),
    [
        ("typed", "i = 3", True),
        ("typed", "s = 'a' AND n < 2 OR t IS NULL", True),
        ("mapped", "b", True),
        ("typed", "i = 3 AND ts > TIMESTAMP '2024-03-10'", False),
        ("typed", "m = 1.23", False),
        ("texts only", "i = 3", False),
    ],
)
def test_typed_partition_values_are_read_where_they_mean_the_same_to_everybody(table, where, is_typed):
    snapshot = partitioned(table)
    checkpoint = snapshot.replay.checkpoint
    names = StatsPruner.of(where, snapshot.configuration).columns(checkpoint)
    assert all(name.startswith("partitionValues_parsed.") for name in names) is is_typed, names
    assert is_typed or names == ["partitionValues"]

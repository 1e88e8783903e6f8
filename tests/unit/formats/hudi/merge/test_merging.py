"""Merging all keys at once gives what merging one entry after the other gives, by every rule."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import given, settings
from hypothesis import strategies as st

from halocline.errors import MalformedError
from halocline.formats.hudi.blocks.content import encode_avro_rows
from halocline.formats.hudi.blocks.deletes import DeletedKey, encode_deletes
from halocline.formats.hudi.blocks.frame import BlockType, HeaderKey, LogBlock, encode_block, read_blocks
from halocline.formats.hudi.merge.log_state import read_log_state
from halocline.formats.hudi.merge.merged_rows import BaseMerge
from halocline.formats.hudi.merge.rules import DeleteMarker, Dialect, Filling, MergeRule, Ordering
from halocline.formats.hudi.record_keys import KeyColumns

OLD, NEW = Dialect.BEFORE_1, Dialect.FROM_1
EVENT, COMMIT = Ordering.EVENT_TIME, Ordering.COMMIT_TIME
RULES = {
    "overwrite 0.x": MergeRule(OLD, ("ts",), EVENT, COMMIT),
    "overwrite 0.x without ordering": MergeRule(OLD, (), COMMIT, COMMIT),
    "default 0.x": MergeRule(OLD, ("ts",), EVENT, EVENT),
    "non-defaults 0.x": MergeRule(OLD, ("ts",), EVENT, COMMIT, Filling.NONE, Filling.DEFAULTS),
    "partial update 0.x": MergeRule(OLD, ("ts",), EVENT, EVENT, Filling.NULLS, Filling.NULLS),
    "partial update 1.x": MergeRule(OLD, ("ts",), EVENT, EVENT, Filling.NULLS, Filling.NULLS, deletes_win=True),
    "event time 1.x": MergeRule(NEW, ("ts",), EVENT, EVENT),
    "event time 1.x by two fields": MergeRule(NEW, ("ts", "a"), EVENT, EVENT),
    "commit time 1.x": MergeRule(NEW, ("ts",), COMMIT, COMMIT),
    "event time 1.x, defaults": MergeRule(NEW, ("ts",), EVENT, EVENT, Filling.DEFAULTS, Filling.DEFAULTS),
    "commit time 1.x, defaults": MergeRule(NEW, ("ts",), COMMIT, COMMIT, Filling.DEFAULTS, Filling.DEFAULTS),
    "event time 1.x, unavailable": MergeRule(NEW, ("ts",), EVENT, EVENT, Filling.UNAVAILABLE, Filling.UNAVAILABLE),
}
META = ("_hoodie_commit_time", "_hoodie_record_key")
FIELDS = {
    "_hoodie_commit_time": "string",
    "_hoodie_record_key": "string",
    "ts": "long",
    "a": "long",
    "b": "string",
    "_hoodie_is_deleted": "boolean",
}
SCHEMA = pa.schema(
    [(name, {"string": pa.string(), "long": pa.int64(), "boolean": pa.bool_()}[type]) for name, type in FIELDS.items()]
)
DEFAULTS = {"a": 7}
UNAVAILABLE = "__debezium_unavailable_value"


@dataclass
class Version:
    """A version of a row, in the plain model."""

    values: dict[str, Any] = field(default_factory=dict)
    deleted: bool = False
    from_block: bool = False
    natural: bool = False
    ordering: tuple[int, ...] = ()


def order_of(row: dict[str, Any], rule: MergeRule) -> tuple[int, ...]:
    return tuple(-(10**9) if row.get(name) is None else row[name] for name in rule.ordering_fields)


def is_own(name: str, value: Any, filling: Filling) -> bool:
    match filling:
        case Filling.NULLS:
            return value is not None
        case Filling.DEFAULTS:
            return value != DEFAULTS.get(name)
        case Filling.UNAVAILABLE:
            return value != UNAVAILABLE
    return True


def filled(high: dict, low: dict, filling: Filling) -> dict:
    names = set(high) | set(low)
    return {
        name: high[name] if name in high and (name not in low or is_own(name, high[name], filling)) else low[name]
        for name in names
    }


def in_logs(state: Version | None, new: Version, rule: MergeRule) -> Version:
    """One entry after the other, as releases of Hudi do it."""
    if state is None:
        return new
    wins = rule.in_logs is COMMIT or new.natural or state.natural or new.ordering >= state.ordering
    if rule.dialect is OLD and state.from_block and not new.deleted:
        wins = True
    if new.deleted or state.deleted:
        return new if wins else state
    low, high = (state, new) if wins else (new, state)
    values = filled(high.values, low.values, rule.filling_in_logs)
    if not wins and rule.dialect is OLD and rule.filling_in_logs is Filling.NULLS:
        values |= {name: new.values[name] for name in META}
    return Version(values, ordering=high.ordering)


def with_base(base: dict[str, Any], state: Version, rule: MergeRule) -> dict[str, Any] | None:
    wins = rule.with_base is COMMIT or not rule.ordering_fields or state.ordering >= order_of(base, rule)
    if state.deleted:
        gone = wins or state.natural or (rule.dialect is OLD and state.from_block)
        return None if gone else base
    high, low = (state.values, base) if wins else (base, state.values)
    partial = set(state.values) != set(FIELDS)
    if rule.filling_with_base is Filling.NONE and not partial:
        return high
    values = filled(high, low, rule.filling_with_base)
    if not wins and rule.dialect is OLD and rule.filling_with_base is Filling.NULLS:
        values |= {name: state.values[name] for name in META}
    return values


def avro_block(rows: list[dict[str, Any]], columns: tuple[str, ...], partial: bool) -> LogBlock:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": name, "type": ["null", FIELDS[name]], "default": None} for name in columns],
    }
    encoded = []
    for row in rows:
        out = io.BytesIO()
        schemaless_writer(out, parse_schema(json.loads(json.dumps(schema))), {name: row[name] for name in columns})
        encoded.append(out.getvalue())
    # A block that merges others has rows of several instants.
    header = {HeaderKey.SCHEMA: json.dumps(schema), HeaderKey.COMPACTED_BLOCK_TIMES: "1,2,3"}
    header |= {HeaderKey.IS_PARTIAL: "true"} if partial else {}
    (block,) = read_blocks(encode_block(BlockType.AVRO_DATA, header, encode_avro_rows(encoded)), "f.log")
    return block


def delete_block(keys: list[DeletedKey]) -> LogBlock:
    (block,) = read_blocks(encode_block(BlockType.DELETE, {}, encode_deletes(keys)), "f.log")
    return block


KEY = st.sampled_from("pqr")
TS = st.none() | st.integers(1, 4)
ROW = st.fixed_dictionaries(
    {
        "_hoodie_commit_time": st.sampled_from(["1", "2", "3"]),
        "_hoodie_record_key": KEY,
        "ts": TS,
        "a": st.none() | st.sampled_from([6, 7]),
        "b": st.none() | st.sampled_from(["x", UNAVAILABLE]),
        "_hoodie_is_deleted": st.sampled_from([None, None, False, True]),
    }
)
COLUMNS = st.sampled_from(
    [tuple(FIELDS), tuple(FIELDS), (*META, "ts", "a"), (*META, "ts", "b", "_hoodie_is_deleted"), (*META, "ts")]
)
ROWS = st.tuples(st.just("rows"), COLUMNS, st.lists(ROW, min_size=1, max_size=3))
DELETES = st.tuples(st.just("deletes"), KEY, st.none() | st.integers(1, 4))


def as_version(row: dict[str, Any], columns: tuple[str, ...], rule: MergeRule) -> Version:
    values = {name: row[name] for name in columns}
    deleted = bool(values.get("_hoodie_is_deleted"))
    unordered = all(values.get(name) is None for name in rule.ordering_fields)
    return Version(values, deleted, natural=deleted and unordered, ordering=order_of(values, rule))


def as_delete(ordering: int | None, rule: MergeRule) -> tuple[Version, Any]:
    if ordering is None or not rule.ordering_fields or rule.deletes_win:
        return Version(deleted=True, from_block=True, natural=True), ordering
    full = (ordering, *([3] * (len(rule.ordering_fields) - 1)))
    stored = full if len(full) > 1 else ordering
    return Version(deleted=True, from_block=True, ordering=full), stored


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=60)
@given(
    steps=st.lists(ROWS | DELETES, max_size=7),
    base=st.lists(ROW, max_size=3, unique_by=lambda row: row["_hoodie_record_key"]),
)
def test_all_at_once_is_as_one_after_the_other(name, steps, base):
    rule, blocks, state = RULES[name], [], {}
    for step in steps:
        if step[0] == "deletes":
            version, stored = as_delete(step[2], rule)
            blocks.append(delete_block([DeletedKey(step[1], "", stored)]))
            state[step[1]] = in_logs(state.get(step[1]), version, rule)
            continue
        columns = step[1]
        blocks.append(avro_block(step[2], columns, partial=columns != tuple(FIELDS)))
        for row in step[2]:
            key = row["_hoodie_record_key"]
            state[key] = in_logs(state.get(key), as_version(row, columns, rule), rule)
    expected = []
    for row in base:
        version = state.pop(row["_hoodie_record_key"], None)
        merged = row if version is None else with_base(row, version, rule)
        expected += [] if merged is None else [merged]
    expected += [version.values for version in state.values() if not version.deleted]

    keys = KeyColumns(("_hoodie_record_key",))
    found = read_log_state(blocks, SCHEMA, rule, keys, DEFAULTS)
    batches = [pa.Table.from_pylist(base[:2], SCHEMA), pa.Table.from_pylist(base[2:], SCHEMA)]
    rows = [row for table in BaseMerge(found, rule, keys, DEFAULTS).rows(batches) for row in table.to_pylist()]

    def shown(row: dict[str, Any]) -> str:
        return repr([(name, row.get(name)) for name in FIELDS])

    assert sorted(map(shown, rows)) == sorted(map(shown, expected))


def merged(rule: MergeRule, blocks: list[LogBlock], base: list[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = KeyColumns(("_hoodie_record_key",))
    state = read_log_state(blocks, SCHEMA, rule, keys, {})
    tables = BaseMerge(state, rule, keys).rows([pa.Table.from_pylist(base, SCHEMA)])
    return [row for table in tables for row in table.to_pylist()]


def row(key: str, ts: int | None, b: str = "x") -> dict[str, Any]:
    return dict.fromkeys(FIELDS) | {"_hoodie_record_key": key, "ts": ts, "b": b}


def test_of_duplicates_in_the_base_file_the_first_is_merged():
    rule = RULES["event time 1.x"]
    found = merged(
        rule, [avro_block([row("p", 5, "new")], tuple(FIELDS), False)], [row("p", 1, "one"), row("p", 2, "two")]
    )
    assert sorted(each["b"] for each in found) == ["new", "two"]


@pytest.mark.parametrize(("column", "value"), [("b", "D"), ("a", "3")])
def test_a_column_may_mark_deletes(column, value):
    rule = MergeRule(NEW, ("ts",), EVENT, EVENT, marker=DeleteMarker(column, value))
    marked = {**row("p", 5), column: int(value) if column == "a" else value}
    assert merged(rule, [avro_block([marked], tuple(FIELDS), False)], [row("p", 1), row("q", 1)]) == [row("q", 1)]


def test_a_slice_without_a_base_file_is_what_its_logs_say():
    rule = RULES["event time 1.x"]
    keys = KeyColumns(("_hoodie_record_key",))
    state = read_log_state(
        [avro_block([row("p", 1), row("q", 1)], tuple(FIELDS), False), delete_block([DeletedKey("q")])],
        SCHEMA,
        rule,
        keys,
        {},
    )
    assert [
        each["_hoodie_record_key"] for table in BaseMerge(state, rule, keys).rows([]) for each in table.to_pylist()
    ] == ["p"]


def test_a_row_of_a_log_file_without_a_key_is_told():
    block = avro_block([row("p", 1), {**row("q", 1), "_hoodie_record_key": None}], tuple(FIELDS), False)
    with pytest.raises(MalformedError, match="is damaged") as caught:
        read_log_state([block], SCHEMA, RULES["event time 1.x"], KeyColumns(("_hoodie_record_key",)), {})
    assert caught.value.sides["found"] == "1 of 2 rows without one"

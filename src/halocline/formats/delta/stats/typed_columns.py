"""Statistics and partition values as typed columns, for checkpoints.

The log keeps a file's statistics as JSON text and its partition values as a map of texts. A checkpoint may carry both
again as structs, `stats_parsed` and `partitionValues_parsed`, so that engines skip files without parsing. Their fields
follow the table's schema by physical names: bounds for types that have an order, null counts for all, and only for the
columns that the table keeps statistics on.

The text is parsed by Arrow in one go. A batch that Arrow refuses is parsed value by value, and what cannot be read
there is null: a reader then knows less about that file, never something wrong.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as paj

from halocline.formats.delta.configuration.properties import TableProperties
from halocline.formats.delta.configuration.schema import Column, Schema
from halocline.schema import arrow
from halocline.schema.types import DataType, Path, Primitive, decimal_of

_UNBOUNDED: Final = frozenset({"boolean", "binary"})
"""The primitive types that have no bounds."""

_BLOCK: Final = 1 << 30


def stats_type(schema: Schema, properties: TableProperties, partitions: Iterable[str], *, vectors: bool) -> Any:
    """The type of `stats_parsed`."""
    kept = indexed_columns(schema, {name.lower() for name in partitions}, properties)
    ordered = (each for each in kept if _has_arrow_type(each.type) and each.type.name not in _UNBOUNDED)
    bounds = _nested({each.physical: arrow.arrow_type(each.type) for each in ordered})
    counts = _nested(dict.fromkeys((each.physical for each in kept), pa.int64()))
    fields: list[tuple[str, pa.DataType]] = [("numRecords", pa.int64())]
    if bounds is not None:
        fields += [("minValues", bounds), ("maxValues", bounds)]
    if counts is not None:
        fields.append(("nullCount", counts))
    if vectors:
        fields.append(("tightBounds", pa.bool_()))
    return pa.struct(fields)


def partition_type(columns: Sequence[Column]) -> Any:
    """The type of `partitionValues_parsed`; None for a table without partitions."""
    if not columns:
        return None
    types = [arrow.arrow_type(each.type) if _has_arrow_type(each.type) else pa.string() for each in columns]
    return pa.struct([(column.physical[0], type) for column, type in zip(columns, types, strict=True)])


def _has_arrow_type(type: DataType) -> bool:
    return isinstance(type, Primitive) and (type.name in arrow.PRIMITIVES or decimal_of(type) is not None)


def parsed_stats(stats: pa.Array, type: Any) -> pa.Array:
    """The statistics as structs, null where there is no text.

    Example:
        >>> type = pa.struct({"numRecords": pa.int64(), "minValues": pa.struct({"day": pa.date32()})})
        >>> parsed_stats(pa.array(['{"numRecords":2,"minValues":{"day":"2024-01-31"}}', None]), type).to_pylist()
        [{'numRecords': 2, 'minValues': {'day': datetime.date(2024, 1, 31)}}, None]
    """
    missing = pc.is_null(stats)
    try:
        structs = _parsed_at_once(pc.fill_null(stats, "{}"), type)
    except (pa.ArrowException, ValueError):
        rows = [None if text is None else _loaded(text) for text in stats.to_pylist()]
        structs = _array([row if isinstance(row, dict) else None for row in rows], type)
    return pa.StructArray.from_arrays(structs.flatten(), fields=list(type), mask=missing) if len(structs) else structs


def parsed_partition_values(values: pa.Array, type: Any) -> pa.Array:
    """The partition values as structs; null or empty text is null.

    Example:
        >>> maps = pa.array([[("n", "7")], [("n", None)]], pa.map_(pa.string(), pa.string()))
        >>> parsed_partition_values(maps, pa.struct({"n": pa.int32()})).to_pylist()
        [{'n': 7}, {'n': None}]
    """
    children = []
    for field in type:
        texts = pc.map_lookup(values, field.name, "first") if len(values) else pa.array([], pa.string())
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        children.append(_cast(texts, field.type))
    return pa.StructArray.from_arrays(children, fields=list(type))


# ---------------------------------------------------------------------- which columns


def indexed_columns(schema: Schema, skipped: Collection[str], properties: TableProperties) -> list[Column]:
    """The columns that the table keeps statistics on: fields of structs at any depth that are no structs themselves."""
    leaves: list[Column] = []
    structs: set[Path] = {()}
    for column in schema.walk():
        if column.path[0].lower() in skipped or column.path[:-1] not in structs:
            continue
        if column.field.struct is not None:
            structs.add(column.path)
        else:
            leaves.append(column)
    named = properties.get("delta.dataSkippingStatsColumns")
    if named is not None:
        wanted = {tuple(step.strip().strip("`").lower() for step in each.split(".")) for each in named.split(",")}
        lengths = range(1, max(map(len, wanted)) + 1)
        return [each for each in leaves if any(_folded(each.path[:length]) in wanted for length in lengths)]
    return leaves if properties.indexed_columns < 0 else leaves[: properties.indexed_columns]


def _folded(path: Path) -> Path:
    return tuple(step.lower() for step in path)


def _nested(types: Mapping[Path, pa.DataType]) -> Any:
    """The struct that holds columns of these paths and types; None if there are none."""
    inner: dict[str, dict[Path, pa.DataType]] = {}
    for (first, *rest), type in types.items():
        inner.setdefault(first, {})[tuple(rest)] = type
    fields = [(name, below[()] if () in below else _nested(below)) for name, below in inner.items()]
    return pa.struct(fields) if fields else None


# ---------------------------------------------------------------------- text to values


def _parsed_at_once(texts: pa.Array, type: Any) -> pa.Array:
    if not len(texts):
        return pa.array([], type)
    lines = pc.binary_join_element_wise(texts, "\n", "")
    options = paj.ParseOptions(
        explicit_schema=pa.schema([_as_text(field) for field in type]),
        unexpected_field_behavior="ignore",
        newlines_in_values=True,
    )
    # Offsets of a sliced array do not begin at 0; the join has made a fresh one.
    source = pa.BufferReader(lines.buffers()[2])
    table = paj.read_json(source, paj.ReadOptions(block_size=_BLOCK, use_threads=False), options).combine_chunks()
    if len(table) != len(texts):
        raise ValueError("a text held more or less than one object")
    columns = [_from_text(table[field.name].chunk(0), field.type) for field in type]
    return pa.StructArray.from_arrays(columns, fields=list(type))


def _as_text(field: Any) -> Any:
    """What to let Arrow read: text where it writes a type otherwise than statistics do."""
    type = field.type
    if pa.types.is_struct(type):
        return pa.field(field.name, pa.struct([_as_text(inner) for inner in type]))
    return pa.field(field.name, pa.string() if pa.types.is_temporal(type) else type)


def _from_text(array: pa.Array, type: Any) -> pa.Array:
    if pa.types.is_struct(type):
        inner = [_from_text(child, field.type) for child, field in zip(array.flatten(), type, strict=True)]
        return pa.StructArray.from_arrays(inner, fields=list(type), mask=pc.is_null(array))
    return array if array.type == type else array.cast(type)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None


def _array(values: Sequence[Any], type: Any) -> pa.Array:
    if pa.types.is_struct(type):
        children = [
            _array([value.get(field.name) if isinstance(value, dict) else None for value in values], field.type)
            for field in type
        ]
        mask = pa.array([not isinstance(value, dict) for value in values], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(type), mask=mask)
    return _cast(pa.array([_text(value) for value in values], pa.string()), type)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)


def _cast(texts: pa.Array, type: Any) -> pa.Array:
    """Values out of texts; null where a text is none of the type."""
    meant = type
    if not (pa.types.is_string(type) or pa.types.is_binary(type)):
        texts = pc.utf8_trim_whitespace(texts)
    if pa.types.is_date(type):
        texts = pc.utf8_slice_codeunits(texts, 0, 10)
    if pa.types.is_timestamp(type):
        # A time without a zone is in UTC, and one with a zone is told in UTC where the column has none.
        meant = pa.timestamp("us", "UTC")
        texts = pc.replace_substring_regex(texts, r"^(\d{4}-\d{2}-\d{2})$", r"\1 00:00")
        texts = pc.replace_substring_regex(texts, r"([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)$", r"\1Z")
    try:
        return texts.cast(meant).cast(type)
    except pa.ArrowException:
        if len(texts) == 1:
            return pa.nulls(1, type)
        return pa.concat_arrays([_cast(texts.slice(at, 1), type) for at in range(len(texts))])

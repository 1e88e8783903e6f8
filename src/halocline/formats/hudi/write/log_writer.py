"""Log files: rows and deletes of one write to one file group, as Avro and delete blocks.

A key that is new to the table belongs into a base file: the indexes of Apache Hudi look for keys there, would not find
one that is only in a log file, and would insert its row a second time. Only a table that finds its rows by the hash of
their keys (a bucket index) may have them in log files alone.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
from fastavro import parse_schema as prepare
from fastavro import schemaless_writer

from halocline.formats.hudi.avro.types import nullable, parse_schema
from halocline.formats.hudi.blocks.content import encode_avro_rows
from halocline.formats.hudi.blocks.deletes import DeletedKey, encode_deletes
from halocline.formats.hudi.blocks.frame import BlockType, HeaderKey, encode_block
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.table_schema import META_COLUMNS
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.formats.hudi.write.log_files import put_log_file
from halocline.storage.base import Store

_DIGITS: Final = Context(prec=38)
"""As many digits as a decimal may have; Python's own arithmetic keeps 28."""


def write_log_file(
    store: Store,
    rows: pa.Table | None,
    deletes: Sequence[DeletedKey],
    *,
    schema: str,
    slice: FileSlice,
    layout: int,
    token: str,
    instant: str,
    inserted: int = 0,
    tells_slice: bool = False,
) -> WriteStat:
    """Writes a log file, and says what it wrote.

    Args:
        store: Where the table lies.
        rows: The rows, with the meta columns if the table has them; None for deletes alone.
        deletes: The keys to delete.
        schema: The table's schema as Avro's JSON, without the meta columns.
        slice: The slice that it continues; one without files for a new file group.
        layout: The layout of the timeline, which decides the name.
        token: The attempt.
        instant: The instant that writes it.
        inserted: How many of the rows have keys that are new to the table; see above.
        tells_slice: Whether to say which files the slice consists of, as in layout 1; readers of changes look there.
    """
    named = slice.instant if layout == 1 else instant
    same = [each.version for each in slice.logs if each.instant == named]
    data = encode_log(rows, deletes, schema, instant)
    path, version = put_log_file(
        store,
        data,
        partition=slice.partition,
        file_id=slice.file_id,
        named=named,
        version=max(same, default=0) + 1,
        token=token,
        marked_by=instant,
    )
    count = 0 if rows is None else rows.num_rows
    tells_slice = tells_slice or layout == 1
    kept = [_name(each.path) for each in slice.logs if layout > 1 or each.instant == named] if tells_slice else []
    return WriteStat(
        file_id=slice.file_id,
        path=path,
        prev_commit=slice.instant if tells_slice else named,
        num_writes=count,
        num_inserts=inserted,
        num_update_writes=count - inserted,
        num_deletes=len(deletes),
        total_write_bytes=len(data),
        file_size_in_bytes=len(data),
        partition_path=slice.partition,
        log_version=version,
        log_offset=0,
        base_file=_name(slice.base.path) if slice.base and tells_slice else "",
        log_files=[*kept, _name(path)],
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def encode_log(rows: pa.Table | None, deletes: Sequence[DeletedKey], schema: str, instant: str) -> bytes:
    """The content of a log file: a block of rows, and one of deletes, where there are any."""
    meta = rows is None or META_COLUMNS[0] in rows.schema.names
    text = with_meta_fields(schema) if meta else schema
    header = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: text}
    blocks = []
    if rows is not None and rows.num_rows:
        blocks.append(encode_block(BlockType.AVRO_DATA, header, encode_avro_rows(encoded_rows(rows, text))))
    if deletes:
        blocks.append(encode_block(BlockType.DELETE, header, encode_deletes(deletes)))
    return b"".join(blocks)


def with_meta_fields(schema: str) -> str:
    """A table's schema with the meta columns in front.

    Example:
        >>> len(json.loads(with_meta_fields('{"type": "record", "name": "r", "fields": []}'))["fields"])
        5
    """
    parsed = json.loads(schema)
    meta = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_COLUMNS]
    return json.dumps({**parsed, "fields": [*meta, *parsed["fields"]]}, separators=(",", ":"))


def encoded_rows(rows: pa.Table, schema: str) -> list[bytes]:
    """Rows in Avro's binary form, each by itself, with the columns of a schema."""
    ready = prepare(json.loads(schema))
    types = {each["name"]: each["type"] for each in parse_schema(schema, "the rows to write")["fields"]}
    encoded = []
    for row in rows.to_pylist(maps_as_pydicts="strict"):
        out = io.BytesIO()
        schemaless_writer(out, ready, {name: _value(row.get(name), type) for name, type in types.items()})
        encoded.append(out.getvalue())
    return encoded


def _value(value: Any, type: Any) -> Any:
    """A value with the digits that its type has: the encoder takes a decimal at its own scale."""
    inner = nullable(type).type
    if value is None or not isinstance(inner, dict):
        return value
    match inner["type"]:
        case "record":
            return {each["name"]: _value(value.get(each["name"]), each["type"]) for each in inner["fields"]}
        case "array":
            return [_value(each, inner["items"]) for each in value]
        case "map":
            return {key: _value(each, inner["values"]) for key, each in value.items()}
    if not isinstance(value, Decimal):
        return value
    return value.quantize(Decimal(1).scaleb(-inner.get("scale", 0)), context=_DIGITS)

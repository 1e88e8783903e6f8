"""What data blocks hold: rows, in Avro or in Parquet."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from halocline.errors import MalformedError, UnsupportedError
from halocline.formats.hudi.avro.columns import decode_rows
from halocline.formats.hudi.avro.types import parse_schema
from halocline.formats.hudi.blocks.frame import BlockType, HeaderKey, LogBlock

ROWS: Final = frozenset({BlockType.AVRO_DATA, BlockType.PARQUET_DATA, BlockType.HFILE_DATA})
"""The types of blocks that hold rows of the table."""

AVRO_VERSION: Final = 3
"""The version that stands at the beginning of the content of Avro data blocks and delete blocks."""

_AVRO_VERSIONS: Final = frozenset({1, 2, 3})
_HEAD: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">i")


def rows_of(block: LogBlock, columns: Collection[str] | None = None) -> pa.Table:
    """The rows of a data block, with the columns that stand in it.

    Args:
        block: The block.
        columns: The columns to give, as far as it has them; all if not given, or if it has none of them.

    Raises:
        MalformedError: The content does not fit its schema, or is damaged.
        UnsupportedError: The rows are in a form that this release does not read.
    """
    match block.type:
        case BlockType.AVRO_DATA | BlockType.CHANGE_DATA:
            return _avro_rows(block, columns)
        case BlockType.PARQUET_DATA:
            return _parquet_rows(block, columns)
    raise UnsupportedError(
        f"{block} cannot be read",
        sides={"file": f"{block.type.name} block", "halocline reads": "AVRO_DATA, PARQUET_DATA, DELETE and COMMAND"},
        next_step="Compact the table, or write its logs with hoodie.logfile.data.block.format=avro.",
    )


def encode_avro_rows(records: list[bytes]) -> bytes:
    """The content of an Avro data block, from rows that are encoded already.

    Example:
        >>> encode_avro_rows([b"ab"]).hex()
        '0000000300000001000000026162'
    """
    pieces = [_HEAD.pack(AVRO_VERSION, len(records))]
    for record in records:
        pieces += (_LENGTH.pack(len(record)), record)
    return b"".join(pieces)


def _avro_rows(block: LogBlock, columns: Collection[str] | None) -> pa.Table:
    schema = parse_schema(block.header.get(HeaderKey.SCHEMA, ""), str(block))
    content = block.content
    if len(content) < _HEAD.size:
        raise block.malformed("a version and a number of rows", f"{len(content)} bytes")
    version, count = _HEAD.unpack_from(content)
    if version not in _AVRO_VERSIONS:
        raise UnsupportedError(
            f"{block} has content version {version}, which this release does not know",
            sides={
                "file": f"content version {version}",
                "halocline reads": ", ".join(map(str, sorted(_AVRO_VERSIONS))),
            },
            next_step="Compact the table with the writer that made it.",
        )
    starts, ends = _extents(block, count)
    try:
        return decode_rows(schema, content, starts, ends, columns)
    except MalformedError as error:
        raise block.malformed("rows of the schema in its header", error.message) from error


def _extents(block: LogBlock, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each row begins and ends: a length stands in front of it."""
    content, at = block.content, _HEAD.size
    if not 0 <= count <= len(content) // _LENGTH.size:
        raise block.malformed("as many rows as it has room for", f"{count} rows in {len(content)} bytes")
    starts, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    size, unpack, width = len(content), _LENGTH.unpack_from, _LENGTH.size
    for row in range(count):
        if at + width > size:
            raise block.malformed(f"{count} rows", f"{row} rows in {size} bytes")
        starts[row] = at + width
        at += width + unpack(content, at)[0]
        ends[row] = at
    if at != size or (count and bool((ends < starts).any())):
        raise block.malformed(f"rows of {size} bytes together", f"rows of {at} bytes")
    return starts, ends


def _parquet_rows(block: LogBlock, columns: Collection[str] | None) -> pa.Table:
    try:
        file = pq.ParquetFile(pa.BufferReader(block.content))
        return file.read([name for name in file.schema_arrow.names if columns is None or name in columns] or None)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise block.malformed("a Parquet file", str(error)) from error

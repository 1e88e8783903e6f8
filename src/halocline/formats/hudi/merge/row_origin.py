"""What the rows of a log block say of themselves, against where they lie.

Blocks have no checksum, so a changed bit in a value goes unnoticed. In a key, or in what says where a row belongs, it
would take one row for another. These are there twice: each row names its instant, its partition and its file group, as
the block's header and the path of its file do, and its key is made of its own key fields.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.hudi.blocks.frame import HeaderKey, LogBlock
from halocline.formats.hudi.names import parse_data_file
from halocline.formats.hudi.record_keys import RECORD_KEY, KeyColumns
from halocline.formats.hudi.table_schema import META_COLUMNS

_TIME, _, _, _PARTITION, _FILE = META_COLUMNS


def origin_columns(keys: KeyColumns) -> tuple[str, ...]:
    """The columns that `check_origin` looks at."""
    return (*META_COLUMNS, *keys.made_of) if RECORD_KEY in keys.names else ()


def check_origin(block: LogBlock, rows: pa.Table, keys: KeyColumns) -> None:
    """Refuses rows that belong elsewhere.

    Args:
        block: The block that they are from.
        rows: The rows, with those of `origin_columns` that they have.
        keys: Where their keys stand.

    Raises:
        MalformedError: One does.
    """
    if RECORD_KEY not in keys.names:
        return
    lacking = [each for each in keys.made_of if "." not in each and each not in rows.schema.names]
    if lacking and not block.is_partial:
        raise block.malformed(f"the key field {lacking[0]}", f"columns {', '.join(rows.schema.names)}")
    for name in META_COLUMNS:
        if name in rows.schema.names and not pa.types.is_string(rows.schema.field(name).type):
            raise block.malformed(f"text as {name} of each row", str(rows.schema.field(name).type))
    for name, agrees, expected in _compared(block, rows, keys):
        row = agrees.index(pa.scalar(False)).as_py()
        if row >= 0:
            raise block.malformed(f"{expected} as {name} of each row", f"{rows[name][row].as_py()!r} in row {row}")


def _compared(block: LogBlock, rows: pa.Table, keys: KeyColumns) -> Iterator[tuple[str, pa.ChunkedArray, str]]:
    """Of each column, whether the value of each row is what it should be, and what that is."""
    names, file = rows.schema.names, parse_data_file(block.path)
    if _TIME in names and HeaderKey.COMPACTED_BLOCK_TIMES not in block.header:
        yield _TIME, pc.equal(rows[_TIME], block.instant), block.instant
    if file is not None and _PARTITION in names:
        yield _PARTITION, pc.equal(rows[_PARTITION], file.partition), repr(file.partition)
    if file is not None and _FILE in names:
        yield _FILE, pc.starts_with(rows[_FILE], file.file_id), file.file_id
    fields = [rows.schema.field(each).type for each in keys.made_of if each in names]
    if fields and len(fields) == len(keys.made_of) and RECORD_KEY in names and all(map(_is_spelt_alike, fields)):
        yield RECORD_KEY, _made_of_fields(rows, keys.made_of), f"a key made of {', '.join(keys.made_of)}"


def _made_of_fields(rows: pa.Table, fields: tuple[str, ...]) -> pa.ChunkedArray:
    stored = rows[RECORD_KEY]
    named = pc.equal(stored, KeyColumns(fields, named=True).of(rows))
    # One field stands alone, or with its name: releases differ.
    return named if len(fields) > 1 else pc.or_(named, pc.equal(stored, KeyColumns(fields).of(rows)))


def _is_spelt_alike(type: pa.DataType) -> bool:
    """Whether every writer spells such a value the same way in a key."""
    return bool(pa.types.is_string(type) or pa.types.is_integer(type) or pa.types.is_boolean(type))

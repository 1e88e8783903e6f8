"""Values of a column as an index takes them, a batch at a time.

What a field cannot take becomes None and is counted: the row is in the split, and its value is not in the index.
Doubles have one zero, and NaN is no value of theirs. Strings inside JSON that look like dates stay strings: the library
would make dates of them, whole seconds. Decimals are doubles inside JSON, and what tells them apart is in the rows; see
`halocline.formats.index.query.json_numbers`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.index.split.fields import LONGEST_STRING, FieldKind, IndexField


def indexed_values(field: IndexField, column: pa.Array) -> tuple[list[Any], int]:
    """What the index takes of each row, and how many values it cannot take.

    Example:
        >>> field = IndexField("at", 0, FieldKind.DATE)
        >>> indexed_values(field, pa.array([0, None], pa.date32()))
        ([0, None], 0)
    """
    if not field.repeated:
        return _CONVERTERS[field.kind](field, column)
    values, dropped = _CONVERTERS[field.kind](field, column.values)
    offsets = column.offsets.to_pylist()
    rows = [[each for each in values[start:end] if each is not None] or None for start, end in pairwise(offsets)]
    # What lies under a null belongs to no row.
    return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)], dropped


def hashed(text: str) -> int:
    """The 64 bits that stand for a string."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _whole(field: IndexField, column: pa.Array) -> tuple[list[Any], int]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz))
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return column.cast(pa.int64()).to_pylist(), 0


def _float(field: IndexField, column: pa.Array) -> tuple[list[Any], int]:
    values = pc.add(column.cast(pa.float64()), 0.0)
    return pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values).to_pylist(), 0


def _decimal(field: IndexField, column: pa.Array) -> tuple[list[Any], int]:
    # A decimal of up to eighteen digits is the lower half of the sixteen bytes that Arrow has for it.
    column = column.cast(pa.decimal128(38, field.scale))
    if not len(column):
        return [], 0
    halves = np.frombuffer(column.buffers()[1], dtype=np.int64)[::2]
    whole = halves[column.offset : column.offset + len(column)]
    return pa.array(whole, mask=column.is_null().to_numpy(zero_copy_only=False)).to_pylist(), 0


def _string(field: IndexField, column: pa.Array) -> tuple[list[Any], int]:
    column = column.cast(pa.large_string())
    longest = pc.max(pc.binary_length(column)).as_py() or 0
    values = column.to_pylist()
    if field.hashed:
        return [None if each is None else hashed(each) for each in values], 0
    if longest <= LONGEST_STRING:
        return values, 0
    fits = [None if each is None or len(each.encode()) > LONGEST_STRING else each for each in values]
    return fits, fits.count(None) - values.count(None)


def _text(field: IndexField, column: pa.Array) -> tuple[list[Any], int]:
    return column.to_pylist(), 0


def _ip(field: IndexField, column: pa.Array) -> tuple[list[Any], int]:
    values = column.to_pylist()
    known: dict[str, str | None] = {}
    for each in values:
        if each is not None and each not in known:
            known[each] = _address(each)
    found = [None if each is None else known[each] for each in values]
    return found, found.count(None) - values.count(None)


def _address(text: str) -> str | None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return None
    return None if "%" in text else text


def _json(field: IndexField, column: pa.Array) -> tuple[list[Any], int]:
    # A list of objects is several values of one row.
    pairs = pa.types.is_map(column.type)
    rows = (None if each is None else _plain(dict(each) if pairs else each) for each in column.to_pylist())
    return [each or None for each in rows], 0


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items() if each is not None}
        case list():
            pairs = bool(value) and all(isinstance(each, tuple) and len(each) == 2 for each in value)
            return _plain(dict(value)) if pairs else [_plain(each) for each in value if each is not None]
        case str():
            return f"{value} " if value[:4].isdigit() else value
        case datetime() | date():
            return f"{value.isoformat()} "
        case Decimal():
            return float(value)
        case bytes():
            return value.hex()
        case float() if value != value:
            return "NaN"
    return value


_Converter = Callable[[IndexField, pa.Array], tuple[list[Any], int]]
_CONVERTERS: Final[Mapping[FieldKind, _Converter]] = {
    FieldKind.STRING: _string,
    FieldKind.TEXT: _text,
    FieldKind.IP: _ip,
    FieldKind.INTEGER: _whole,
    FieldKind.BOOLEAN: _whole,
    FieldKind.DATE: _whole,
    FieldKind.TIMESTAMP: _whole,
    FieldKind.FLOAT: _float,
    FieldKind.DECIMAL: _decimal,
    FieldKind.JSON: _json,
}

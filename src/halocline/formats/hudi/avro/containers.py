"""Object container files with one record, which is how the timeline stores what it says."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

from fastavro import parse_schema, reader, writer
from fastavro.schema import SchemaParseException, UnknownType

from halocline.errors import MalformedError

MAGIC: Final = b"Obj\x01"
"""How such a file begins."""

_SYNC: Final = 16
_DAMAGE: Final = (
    ValueError,
    EOFError,
    KeyError,
    IndexError,
    TypeError,
    OverflowError,
    MemoryError,
    RecursionError,
    AttributeError,
    SchemaParseException,
    UnknownType,
)
"""What the decoder raises on bytes that are no container."""


def read_record(data: bytes) -> tuple[str, dict[str, Any]]:
    """The full name of the record's type, and the record.

    Raises:
        MalformedError: The bytes are no container, or hold another number of records.

    Example:
        >>> schema = {"type": "record", "name": "a.b", "fields": [{"name": "x", "type": "int"}]}
        >>> read_record(write_record(schema, {"x": 1}))
        ('a.b', {'x': 1})
    """
    try:
        found = reader(io.BytesIO(data))
        records = list(found)
        schema: Any = found.writer_schema
    except _DAMAGE as error:
        raise MalformedError(f"{type(error).__name__}: {error}") from error
    if len(records) != 1 or not isinstance(records[0], dict):
        raise MalformedError(f"{len(records)} records instead of one")
    return schema["name"], records[0]


def write_record(schema: Mapping[str, Any], record: Mapping[str, Any], sync: bytes = bytes(_SYNC)) -> bytes:
    """A container with that record, not compressed.

    Args:
        schema: The schema of the record.
        record: The record.
        sync: The mark between blocks: sixteen bytes, the same for the same content unless given.
    """
    out = io.BytesIO()
    writer(out, parse_schema(dict(schema)), [record], codec="null", sync_marker=sync)
    return out.getvalue()

"""Object container files with one record, which is how the timeline stores what it says."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastavro import parse_schema, reader, schemaless_reader, schemaless_writer, writer
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
    known = next((each for each in _READ if data.startswith(each.header)), None)
    if known is not None and (record := known.record(data)) is not None:
        return known.name, record
    try:
        found = reader(io.BytesIO(data))
        records = list(found)
        schema: Any = found.writer_schema
    except _DAMAGE as error:
        raise MalformedError(f"{type(error).__name__}: {error}") from error
    if len(records) != 1 or not isinstance(records[0], dict):
        raise MalformedError(f"{len(records)} records instead of one")
    if known is None and found.codec == "null":
        header = data[: data.index(b"\0" + data[-_SYNC:]) + 1]  # ends with the end of a map
        _READ.append(_Beginning(header, schema["name"], parse_schema(schema)))
        del _READ[:-_BEGINNINGS]
    return schema["name"], records[0]


@dataclass(frozen=True, slots=True)
class _Beginning:
    """How containers of one schema begin, up to the mark between blocks."""

    header: bytes
    name: str
    schema: Any

    def record(self, data: bytes) -> dict[str, Any] | None:
        """The one record of a container that begins so; None if it is not just that."""
        start = len(self.header) + _SYNC
        sync, body = data[start - _SYNC : start], data[start:-_SYNC]
        source = io.BytesIO(body)
        try:
            if data[-_SYNC:] != sync or _number(source) != 1 or _number(source) != len(body) - source.tell():
                return None
            record = schemaless_reader(source, self.schema, None)
        except _DAMAGE:
            return None  # the decoder of whole containers says what is the matter
        return record if isinstance(record, dict) and source.tell() == len(body) else None


_BEGINNINGS: Final = 8
_READ: list[_Beginning] = []
"""Preparing a schema takes longer than reading a record with it, and the files of a timeline have few."""


def write_record(schema: Mapping[str, Any], record: Mapping[str, Any], sync: bytes = bytes(_SYNC)) -> bytes:
    """A container with that record, not compressed.

    Args:
        schema: The schema of the record.
        record: The record.
        sync: The mark between blocks: sixteen bytes, the same for the same content unless given.
    """
    header, ready = _prepared(schema)
    out = io.BytesIO()
    schemaless_writer(out, ready, record)
    body = out.getvalue()
    return b"".join((header, sync, _long(1), _long(len(body)), body, sync))


_PREPARED: dict[int, tuple[Mapping[str, Any], bytes, Any]] = {}
"""By the identity of a schema, which is kept with it: how its containers begin, and what encodes its records."""


def _prepared(schema: Mapping[str, Any]) -> tuple[bytes, Any]:
    """Preparing a schema takes longer than writing a record with it, and there are few."""
    found = _PREPARED.get(id(schema))
    if found is None:
        ready, out = parse_schema(dict(schema)), io.BytesIO()
        writer(out, ready, [], codec="null", sync_marker=bytes(_SYNC))
        found = _PREPARED[id(schema)] = schema, out.getvalue()[:-_SYNC], ready
    return found[1:]


def _number(source: io.BytesIO) -> int:
    """A number as Avro writes it."""
    value = shift = 0
    while True:
        (byte,) = source.read(1)
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)


def _long(value: int) -> bytes:
    """A number as Avro writes it: seven bits to a byte, the least ones first."""
    left, out = value << 1, bytearray()
    while left > 0x7F:
        out.append((left & 0x7F) | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)

"""Delete blocks: which keys are deleted, and as of when.

A key comes with an *ordering value*. Where rows are ordered by event time, a delete with a smaller value than the row's
loses. The number 0 stands for none: such a delete takes whatever was written before it.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from fastavro import parse_schema, schemaless_reader, schemaless_writer

from halocline.errors import UnsupportedError
from halocline.formats.hudi.blocks.content import AVRO_VERSION
from halocline.formats.hudi.blocks.frame import LogBlock

NAMESPACE: Final = "org.apache.hudi.avro.model"
_HEAD: Final = struct.Struct(">ii")


def _wrapper(name: str, value: Any) -> dict[str, Any]:
    return {"type": "record", "name": f"{name}Wrapper", "fields": [{"name": "value", "type": value}]}


_WRAPPERS: Final[dict[str, dict[str, Any]]] = {
    each["name"]: each
    for each in (
        _wrapper("Boolean", "boolean"),
        _wrapper("Int", "int"),
        _wrapper("Long", "long"),
        _wrapper("Float", "float"),
        _wrapper("Double", "double"),
        _wrapper("Bytes", "bytes"),
        _wrapper("String", "string"),
        _wrapper("Date", {"type": "int"}),
        _wrapper("Decimal", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}),
        _wrapper("TimeMicros", {"type": "long"}),
        _wrapper("TimestampMicros", {"type": "long"}),
    )
}
"""The types of ordering values, in their order. Dates and times are read as the numbers they are stored as."""

_NAMES: Final = [f"{NAMESPACE}.{name}" for name in _WRAPPERS]
_SEVERAL: Final = {
    "type": "record",
    "name": "ArrayWrapper",
    "fields": [
        {
            "name": "wrappedValues",
            "type": ["null", {"type": "array", "items": ["null", *_NAMES, _wrapper("LocalDate", "int")]}],
        }
    ],
}
"""The values of several ordering fields, from table version 9 on."""

_LIST: Final = {
    "type": "record",
    "name": "HoodieDeleteRecordList",
    "namespace": NAMESPACE,
    "fields": [
        {
            "name": "deleteRecordList",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "HoodieDeleteRecord",
                    "fields": [
                        {"name": "recordKey", "type": ["null", "string"]},
                        {"name": "partitionPath", "type": ["null", "string"]},
                        {"name": "orderingVal", "type": ["null", *_WRAPPERS.values(), _SEVERAL]},
                    ],
                },
            },
        }
    ],
}
_SCHEMA: Final = parse_schema(_LIST)

_DAMAGE: Final = (ValueError, EOFError, KeyError, IndexError, TypeError, OverflowError, MemoryError)


@dataclass(frozen=True, slots=True)
class DeletedKey:
    """A key that a delete block names.

    Attributes:
        key: The record key.
        partition: The partition path; None if the block does not say.
        ordering: As of when, as the number or text that is stored, a tuple for several ordering fields; None for a
            delete that takes whatever was written before it.
    """

    key: str
    partition: str | None = None
    ordering: Any = None


def deleted_keys(block: LogBlock) -> list[DeletedKey]:
    """The keys of a delete block.

    Raises:
        MalformedError: The content is damaged.
        UnsupportedError: It is of a version older than Avro, or later than this release knows.
    """
    content = block.content
    if len(content) < _HEAD.size:
        raise block.malformed("a version and a length", f"{len(content)} bytes")
    version, length = _HEAD.unpack_from(content)
    if version != AVRO_VERSION:
        raise UnsupportedError(
            f"{block} has content version {version}",
            sides={"file": f"content version {version}", "halocline reads": f"version {AVRO_VERSION}, which is Avro"},
            next_step="Compact the table with the release that wrote it.",
        )
    if length != len(content) - _HEAD.size:
        raise block.malformed(f"{length} bytes of keys", f"{len(content) - _HEAD.size} bytes")
    source = io.BytesIO(content[_HEAD.size :])
    try:
        found: Any = schemaless_reader(source, _SCHEMA, None, return_record_name=True)
    except _DAMAGE as error:
        raise block.malformed("a list of deleted keys", f"{type(error).__name__}: {error}") from error
    if source.tell() != length:
        raise block.malformed(f"{length} bytes of keys", f"{source.tell()} bytes")
    return [_key(each) for each in found["deleteRecordList"]]


def encode_deletes(keys: Iterable[DeletedKey]) -> bytes:
    """The content of a delete block.

    Example:
        >>> encode_deletes([DeletedKey("k003", "eu")]).hex()
        '000000030000000e0202086b30303302046575040000'
    """
    records = [
        {"recordKey": each.key, "partitionPath": each.partition, "orderingVal": _wrapped(each.ordering)}
        for each in keys
    ]
    out = io.BytesIO()
    schemaless_writer(out, _SCHEMA, {"deleteRecordList": records})
    return _HEAD.pack(AVRO_VERSION, out.tell()) + out.getvalue()


def _key(record: dict[str, Any]) -> DeletedKey:
    return DeletedKey(record["recordKey"], record["partitionPath"], _unwrapped(record["orderingVal"]))


def _unwrapped(wrapped: tuple[str, dict[str, Any]] | None) -> Any:
    if wrapped is None:
        return None
    name, record = wrapped[0].removeprefix(f"{NAMESPACE}."), wrapped[1]
    if name == _SEVERAL["name"]:
        return tuple(None if each is None else each[1]["value"] for each in record["wrappedValues"] or ())
    # Only the whole number 0 of 32 bits stands for no ordering; an event time of 0 is a longer number.
    return None if name == "IntWrapper" and record["value"] == 0 else record["value"]


def _wrapped(ordering: Any) -> tuple[str, dict[str, Any]]:
    """The value in the record that its type asks for; no ordering is the number 0, which older readers need."""
    match ordering:
        case None:
            name, ordering = "Int", 0
        case bool():
            name = "Boolean"
        case int():
            name = "Long"
        case float():
            name = "Double"
        case bytes():
            name = "Bytes"
        case Decimal():
            name = "Decimal"
        case tuple():
            return f"{NAMESPACE}.ArrayWrapper", {
                "wrappedValues": [None if each is None else _wrapped(each) for each in ordering]
            }
        case _:
            name = "String"
    return f"{NAMESPACE}.{name}Wrapper", {"value": ordering}

"""Avro container files, whole: the records in them, whatever way their blocks are compressed.

The blocks are taken apart here and not by the Avro library, which needs another library for zstandard. Arrow has it.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader

from halocline.formats.log.damage import malformed

_HEADER: Final = parse_schema(
    {
        "type": "record",
        "name": "header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
        ],
    }
)
_MAGIC: Final = b"Obj\x01"
_MOST: Final = 2 * 1024**3


def _zstandard(block: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as inflating:
        return bytes(inflating.read(_MOST))


_CODECS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": lambda block: block,
    "deflate": lambda block: zlib.decompress(block, -15),
    "zstandard": _zstandard,
}


def read_container(data: bytes, name: str) -> list[dict[str, Any]]:
    """The records of a container.

    Raises:
        MalformedError: The bytes are no container, are cut off, or are compressed in a way that is not known.
    """
    source = io.BytesIO(data)
    try:
        if data[:4] != _MAGIC:
            raise malformed(name, "is no Avro container")
        header: Any = schemaless_reader(source, _HEADER, None)
        codec = header["meta"].get("avro.codec", b"null").decode()
        if codec not in _CODECS:
            raise malformed(name, f"is compressed with {codec}, and {', '.join(_CODECS)} are known")
        schema = parse_schema(json.loads(header["meta"]["avro.schema"]))
        records: list[dict[str, Any]] = []
        while source.tell() < len(data):
            count: Any = schemaless_reader(source, "long", None)
            block: Any = schemaless_reader(source, "bytes", None)
            if source.read(16) != header["sync"]:
                raise malformed(name, "has a block that does not end where it should")
            inside = io.BytesIO(_CODECS[codec](block))
            records += (schemaless_reader(inside, schema, None) for _ in range(count))  # type: ignore[misc]
            if inside.read(1):
                raise malformed(name, "has a block with more in it than it says")
    except (
        pa.ArrowException,
        zlib.error,
        OSError,
        ValueError,
        EOFError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        OverflowError,
        MemoryError,
        RecursionError,
    ) as error:
        raise malformed(name, f"cannot be read: {type(error).__name__}: {error}") from error
    return records

"""Splits of a log table, and of one with every type."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from halocline.formats.index.split.fields import OPTIONS_KEY, IndexField, fields_of
from halocline.formats.index.split.file import BuiltSplit
from halocline.formats.index.split.writer import SplitWriter
from halocline.schema.arrow import arrow_schema
from halocline.schema.types import Array, Field, Map, Primitive, Struct
from halocline.storage.memory import MemoryStore

COLUMNS = Struct(
    [
        Field("id", Primitive("long")),
        Field("level", Primitive("string")),
        Field("message", Primitive("string")),
        Field("trace", Primitive("string")),
        Field("client", Primitive("string")),
        Field("latency", Primitive("double")),
        Field("ok", Primitive("boolean")),
        Field("day", Primitive("date")),
        Field("at", Primitive("timestamp")),
        Field("price", Primitive("decimal(12,2)")),
        Field("tags", Array(Primitive("string"))),
        Field("user", Struct([Field("name", Primitive("string")), Field("age", Primitive("integer"))])),
        Field("labels", Map(Primitive("string"), Primitive("string"))),
        Field("raw", Primitive("binary")),
        Field("huge", Primitive("decimal(38,0)")),
    ]
)
OPTIONS: dict[str, dict[str, Any]] = {
    "message": {"type": "text"},
    "trace": {"hashed": True},
    "client": {"type": "ip"},
}
START = datetime(2024, 1, 1, tzinfo=UTC)


def fields(options: Mapping[str, Mapping[str, Any]] = OPTIONS, columns: Struct = COLUMNS) -> tuple[IndexField, ...]:
    return fields_of(columns, {OPTIONS_KEY: json.dumps(options)})


def row(number: int, **more: Any) -> dict[str, Any]:
    """A row whose every value follows from its number."""
    values = {
        "id": number,
        "level": ("INFO", "WARN", "ERROR")[number % 3],
        "message": f"Request {number} to /api/v{number % 5} took {number % 97} ms",
        "trace": f"trace-{number:08d}",
        "client": f"10.0.{number // 256 % 256}.{number % 256}",
        "latency": number / 4,
        "ok": number % 2 == 0,
        "day": date(2024, 1, 1) + timedelta(days=number % 10),
        "at": START + timedelta(milliseconds=100 * number, microseconds=number % 7),
        "price": Decimal(number) / 100,
        "tags": [f"t{number % 4}", "all"],
        "user": {"name": f"User {number % 6}", "age": number % 50},
        "labels": [("zone", f"z{number % 3}")],
        "raw": bytes([number % 256]),
        "huge": Decimal(10) ** 30 + number,
    }
    return values | more


def batches(rows: Sequence[Mapping[str, Any]], columns: Struct = COLUMNS, size: int = 1000) -> list[pa.RecordBatch]:
    schema = arrow_schema(columns.fields)
    return [
        pa.RecordBatch.from_pylist(list(rows[start : start + size]), schema=schema)
        for start in range(0, len(rows), size)
    ]


def build(
    store: MemoryStore,
    rows: Sequence[Mapping[str, Any]],
    *,
    path: str = "a.split.parquet",
    options: Mapping[str, Mapping[str, Any]] = OPTIONS,
    columns: Struct = COLUMNS,
    **more: Any,
) -> BuiltSplit:
    """Writes a split through the real writer and puts it into a store."""
    sink = pa.BufferOutputStream()
    with SplitWriter(sink, arrow_schema(columns.fields), fields(options, columns), **more) as writer:
        for batch in batches(rows, columns):
            writer.write(batch)
        built = writer.close()
    store.put(path, sink.getvalue().to_pybytes())
    return built


def look_into(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """Lets the library look into a folder at the worst time: just when it has been emptied and is to be removed."""
    rmdir = os.rmdir

    def removed_late(path: str, **options: Any) -> None:
        with contextlib.suppress(OSError), open(os.path.join(folder, ".tantivy-meta.lock"), "wb"):
            pass
        rmdir(path, **options)

    monkeypatch.setattr(os, "rmdir", removed_late)

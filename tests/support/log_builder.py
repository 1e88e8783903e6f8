"""Builds logs by hand in a memory store: commits out of actions, and every kind of checkpoint out of rows."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from halocline.formats.delta.actions.action import (
    Action,
    Add,
    CheckpointMetadata,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Metadata,
    ProtocolAction,
    Remove,
    Sidecar,
    Txn,
    encode_commit,
)
from halocline.formats.log.names import DELTA
from halocline.storage.base import Store
from halocline.storage.memory import MemoryStore

TEXTS = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", TEXTS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", TEXTS),
        ("deletionVector", VECTOR),
        ("baseRowId", pa.int64()),
    ]
)
REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("deletionVector", VECTOR),
    ]
)
PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", TEXTS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", TEXTS),
        ("createdTime", pa.int64()),
    ]
)
TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
DOMAIN = pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())])
SIDECAR = pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])
MARK = pa.struct([("version", pa.int64())])
MAPS = ("partitionValues", "tags", "configuration")
COLUMNS: dict[type, tuple[str, pa.DataType]] = {
    Add: ("add", ADD),
    Remove: ("remove", REMOVE),
    ProtocolAction: ("protocol", PROTOCOL),
    Metadata: ("metaData", METADATA),
    Txn: ("txn", TXN),
    DomainMetadata: ("domainMetadata", DOMAIN),
    Sidecar: ("sidecar", SIDECAR),
    CheckpointMetadata: ("checkpointMetadata", MARK),
}


def schema_of(**types: Any) -> str:
    """The schema text of columns by name."""
    fields = [{"name": name, "type": type, "nullable": True, "metadata": {}} for name, type in types.items()]
    return json.dumps({"type": "struct", "fields": fields})


def table(**configuration: str) -> Metadata:
    return Metadata(
        "table", schema_of(id="long", day="string"), partition_columns=("day",), configuration=configuration
    )


def add(path: str, day: str | None = "1", stats: dict[str, Any] | None = None, **more: Any) -> Add:
    text = None if stats is None else json.dumps(stats)
    return Add(path, {"day": day}, 100, 5, True, stats=text, **more)


def vector(id: str = "v", offset: int | None = 1) -> DeletionVector:
    return DeletionVector(storage_type="u", path_or_inline_dv=id, offset=offset, size_in_bytes=34, cardinality=1)


class LogBuilder:
    """A table whose log is written action by action."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = MemoryStore() if store is None else store
        self.version = -1

    def commit(self, *actions: Action, version: int | None = None) -> LogBuilder:
        self.version = self.version + 1 if version is None else version
        self.store.put(DELTA.commit_path(self.version), encode_commit(actions))
        return self

    def create(self, *actions: Action, protocol: ProtocolAction | None = None, metadata: Metadata | None = None) -> Any:
        first = CommitInfo({"operation": "CREATE TABLE", "timestamp": 1})
        return self.commit(first, protocol or ProtocolAction(1, 2), metadata or table(), *actions)

    def put(self, name: str, data: bytes) -> LogBuilder:
        self.store.put(f"{DELTA.folder}/{name}", data)
        return self

    def pointer(self, **content: Any) -> LogBuilder:
        return self.put("_last_checkpoint", json.dumps(content).encode())

    def checkpoint(self, version: int, *actions: Action, suffix: str = "checkpoint.parquet") -> LogBuilder:
        return self.put(f"{version:020d}.{suffix}", parquet_of(actions))


def parquet_of(actions: Sequence[Action], *, types: dict[type, tuple[str, pa.DataType]] | None = None) -> bytes:
    """A Parquet file with one row per action."""
    columns = COLUMNS if types is None else types
    used = {type(action): columns[type(action)] for action in actions}
    rows = [{columns[type(action)][0]: _row(action)} for action in actions]
    schema = pa.schema([pa.field(name, kind) for name, kind in used.values()])
    return written(pa.Table.from_pylist(rows, schema=schema))


def written(data: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(data, sink, **options)
    return sink.getvalue()


def _row(action: Action) -> dict[str, Any]:
    row = action.to_json() if isinstance(action, Metadata) else msgspec.to_builtins(action)
    maps = {key: list(value.items()) for key, value in row.items() if isinstance(value, dict) and key in MAPS}
    format = {"format": {"provider": "parquet", "options": []}} if isinstance(action, Metadata) else {}
    return row | maps | format

"""Logs of index tables, file by file, as each release of IndexTables4Spark spells them."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro

from halocline.formats.log.names import INDEX
from halocline.storage.memory import MemoryStore

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (("id", "long"), ("message", "string"))
        ],
    }
)
STATE_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "io.indextables.state.StateManifest",
    "fields": [
        {"name": "formatVersion", "type": "int"},
        {"name": "stateVersion", "type": "long"},
        {
            "name": "manifests",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "ManifestInfo",
                    "fields": [{"name": "path", "type": "string"}, {"name": "numEntries", "type": "long"}],
                },
            },
        },
        {"name": "tombstones", "type": {"type": "array", "items": "string"}},
        {"name": "schemaRegistry", "type": {"type": "map", "values": "string"}},
        {"name": "protocolVersion", "type": "int"},
        {"name": "metadata", "type": ["null", "string"]},
    ],
}
ENTRY_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "io.indextables.state.FileEntry",
    "fields": [
        {"name": "path", "type": "string"},
        {"name": "partitionValues", "type": {"type": "map", "values": "string"}},
        {"name": "size", "type": "long"},
        {"name": "modificationTime", "type": "long"},
        {"name": "dataChange", "type": "boolean"},
        {"name": "numRecords", "type": ["null", "long"]},
        {"name": "docMappingRef", "type": ["null", "string"]},
    ],
}


def protocol(reader: int, writer: int, **lists: list[str] | None) -> dict[str, Any]:
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **lists}}


def metadata(**more: Any) -> dict[str, Any]:
    body = {"id": "1", "name": None, "format": {"provider": "indextables", "options": {}}, "schemaString": SCHEMA}
    return {"metaData": {**body, "partitionColumns": [], "configuration": {}, "createdTime": 1, **more}}


def add(path: str, **more: Any) -> dict[str, Any]:
    body = {"path": path, "partitionValues": {}, "size": 10, "modificationTime": 1, "dataChange": True}
    return {"add": {**body, "numRecords": 1, **more}}


def remove(path: str) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": 5, "dataChange": True}}


def skip(path: str, key: str = "mergeskip", **more: Any) -> dict[str, Any]:
    return {key: {"path": path, "skipTimestamp": 5, "reason": "damaged", "operation": "merge", **more}}


def text(*actions: Mapping[str, Any]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in actions)


ENCODINGS = {
    "plain": lambda data: data,
    "gzip": gzip.compress,
    "marked gzip": lambda data: b"\x01\x01" + gzip.compress(data),
}


class IndexLog:
    """A log that is put together file by file."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = MemoryStore() if store is None else store

    def commit(self, version: int, *actions: Mapping[str, Any], encoding: str = "plain") -> IndexLog:
        self.store.put(INDEX.commit_path(version), ENCODINGS[encoding](text(*actions)))
        return self

    def checkpoint(self, version: int, *actions: Mapping[str, Any], encoding: str = "plain") -> IndexLog:
        self.store.put(f"{INDEX.prefix(version)}.checkpoint.json", ENCODINGS[encoding](text(*actions)))
        return self.pointing(version)

    def checkpoint_in_parts(self, version: int, *parts: Sequence[Mapping[str, Any]]) -> IndexLog:
        names = []
        for number, part in enumerate(parts, 1):
            names.append(f"{version:020d}.checkpoint.0123456789ab.{number:05d}.json")
            self.store.put(f"{INDEX.folder}/{names[-1]}", ENCODINGS["marked gzip"](text(*part)))
        listed = {
            "version": version,
            "checkpointId": "0123456789ab",
            "parts": names,
            "createdTime": 1,
            "format": "json",
        }
        self.store.put(f"{INDEX.prefix(version)}.checkpoint.json", json.dumps(listed).encode())
        return self.pointing(version)

    def state(
        self,
        version: int,
        manifests: Mapping[str, Sequence[Mapping[str, Any]]],
        *,
        tombstones: Sequence[str] = (),
        registry: Mapping[str, str] | None = None,
        number: int = 4,
        metadata: str | None = None,
        codec: str = "deflate",
    ) -> IndexLog:
        folder = f"{INDEX.folder}/state-v{version:020d}"
        for path, entries in manifests.items():
            within = INDEX.folder if path.startswith("manifests/") else folder
            rows = [{"numRecords": None, "docMappingRef": None, **each} for each in entries]
            self.store.put(f"{within}/{path}", container(ENTRY_SCHEMA, rows, codec))
        record = {
            "formatVersion": 1,
            "stateVersion": version,
            "manifests": [{"path": path, "numEntries": len(entries)} for path, entries in manifests.items()],
            "tombstones": list(tombstones),
            "schemaRegistry": dict(registry or {}),
            "protocolVersion": number,
            "metadata": metadata,
        }
        self.store.put(f"{folder}/_manifest.avro", container(STATE_SCHEMA, [record], codec))
        return self.pointing(version)

    def pointing(self, version: int) -> IndexLog:
        content = {"version": version, "size": 1, "numFiles": 1, "createdTime": 1, "parts": None, "checkpointId": None}
        self.store.put(INDEX.pointer_path, json.dumps(content).encode())
        return self


def container(schema: dict[str, Any], records: list[dict[str, Any]], codec: str = "deflate") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec=codec)
    return out.getvalue()


def entry(path: str, **more: Any) -> dict[str, Any]:
    return dict(add(path, **more)["add"])

"""Small copy-on-write Hudi tables of any table version: four properties, one completed commit, one Parquet file."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .delta_tables import PLAIN_TABLE, ROWS
from .hudi_kinds import HudiCase

_INSTANT, _COMPLETION = "20240101000000000", "20240101000001000"
_FILE_ID = "4a5c2a90-6a0a-4a0c-9b1e-0c9c3f1d2e3f-0"
_FILE = f"{_FILE_ID}_0-1-0_{_INSTANT}.parquet"
VERSIONS = (4, 5, 6, 7, 8, 9, 10)


def plain_cases() -> list[HudiCase]:
    """One table for each table version."""
    rows = [tuple(map(str, row)) for row in ROWS]
    return [
        HudiCase(f"table version {version}", _builder(version), rows, columns=("id", "value")) for version in VERSIONS
    ]


def _builder(version: int) -> Any:
    return lambda folder: build(folder, version)


def build(folder: Path, version: int) -> None:
    """Writes the table. From version 8 on the timeline has a folder of its own and commits are Avro."""
    layout = 2 if version >= 8 else 1
    meta = folder / ".hoodie"
    timeline = meta / "timeline" if layout == 2 else meta
    timeline.mkdir(parents=True)
    properties = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": version,
        "hoodie.timeline.layout.version": layout,
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.base.file.format": "PARQUET",
        # The first releases of hudi-rs have no defaults for these.
        "hoodie.table.partition.fields": "",
        "hoodie.table.precombine.field": "id",
        "hoodie.table.checksum": zlib.crc32(b".t"),
        "hoodie.populate.meta.fields": "true",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.datasource.write.hive_style_partitioning": "false",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    }
    (meta / "hoodie.properties").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    size = _write_data(folder)
    stat = {"fileId": _FILE_ID, "path": _FILE, "prevCommit": "null", "numWrites": 3, "fileSizeInBytes": size}
    schema = json.dumps(
        {
            "type": "record",
            "name": "t",
            "fields": [{"name": "id", "type": ["null", "long"]}, {"name": "value", "type": ["null", "string"]}],
        }
    )
    if layout == 1:
        body = {
            "partitionToWriteStats": {"": [stat]},
            "compacted": False,
            "extraMetadata": {"schema": schema},
            "operationType": "BULK_INSERT",
        }
        for state in (".commit.requested", ".inflight"):
            (timeline / f"{_INSTANT}{state}").touch()
        (timeline / f"{_INSTANT}.commit").write_text(json.dumps(body))
    else:
        for state in (".commit.requested", ".inflight"):
            (timeline / f"{_INSTANT}{state}").touch()
        (timeline / f"{_INSTANT}_{_COMPLETION}.commit").write_bytes(_avro_commit(stat, schema))


def _write_data(folder: Path) -> int:
    keys = [str(value) for value in PLAIN_TABLE["id"].to_pylist()]
    count = len(keys)
    meta = {
        "_hoodie_commit_time": [_INSTANT] * count,
        "_hoodie_commit_seqno": [f"{_INSTANT}_0_{at}" for at in range(count)],
        "_hoodie_record_key": keys,
        "_hoodie_partition_path": [""] * count,
        "_hoodie_file_name": [_FILE] * count,
    }
    columns = {**meta, "id": PLAIN_TABLE["id"], "value": PLAIN_TABLE["value"]}
    pq.write_table(pa.table(columns), folder / _FILE)
    return (folder / _FILE).stat().st_size


def _avro_commit(stat: dict[str, Any], table_schema: str) -> bytes:
    """An Avro object container with one commit record, as much of it as readers need."""
    nullable = ["null", "string"]
    stat_fields = [("fileId", nullable), ("path", nullable), ("prevCommit", nullable)]
    stat_fields += [(name, ["null", "long"]) for name in ("numWrites", "fileSizeInBytes")]
    stat_schema = {
        "type": "record",
        "name": "HoodieWriteStat",
        "fields": [{"name": name, "type": type, "default": None} for name, type in stat_fields],
    }
    stats_type = ["null", {"type": "map", "values": {"type": "array", "items": stat_schema}}]
    schema = {
        "type": "record",
        "name": "HoodieCommitMetadata",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            {"name": "partitionToWriteStats", "type": stats_type, "default": None},
            {"name": "compacted", "type": ["null", "boolean"], "default": None},
            {"name": "extraMetadata", "type": ["null", {"type": "map", "values": "string"}], "default": None},
            {"name": "version", "type": ["int", "null"], "default": 1},
            {"name": "operationType", "type": nullable, "default": None},
        ],
    }
    some, none = _long(1), _long(0)
    text = b"".join(some + _text(str(stat[name])) for name in ("fileId", "path", "prevCommit"))
    numbers = b"".join(some + _long(stat[name]) for name in ("numWrites", "fileSizeInBytes"))
    stats = some + _long(1) + _text("") + _long(1) + text + numbers + none + none
    extra = some + _long(1) + _text("schema") + _text(table_schema) + none
    record = stats + some + b"\x00" + extra + none + _long(1) + some + _text("BULK_INSERT")
    sync = bytes(range(16))
    header = b"Obj\x01" + _long(2) + _text("avro.schema") + _text(json.dumps(schema))
    header += _text("avro.codec") + _text("null") + none + sync
    return header + _long(1) + _long(len(record)) + record + sync


def _long(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while True:
        bits, number = number & 0x7F, number >> 7
        out.append(bits | (0x80 if number else 0))
        if not number:
            return bytes(out)


def _text(value: str) -> bytes:
    data = value.encode()
    return _long(len(data)) + data

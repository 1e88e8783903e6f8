"""Small Delta tables, written action by action, one for each thing a client may or may not understand.

Neither Halocline nor a Delta client writes anything here: the tables are made of JSON, Parquet and the bytes that the
specification asks for, so that neither side of the comparison is judged by itself.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from halocline.compat.protocol import Protocol
from halocline.compat.terms import Terms

ROWS = [(1, "a"), (2, "b"), (3, "c")]
_TIME = 1_700_000_000_000
_MAGIC = 1681511377
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


@dataclass(frozen=True)
class Case:
    """One table and what to do with it.

    Args:
        name: Short, unique, and what the report calls it.
        protocol: The table's protocol, as Halocline writes it.
        enabled: The features that are really in use.
        build: Writes the table into an empty folder.
        rows: What a right reader returns, columns in the order of `columns`.
        columns: The columns compared.
        row: A row to append, by column name.
        bad_row: A row that a right writer refuses; None if there is no such row.
        short_row: A row with a column left out, which a right writer refuses or fills in.
        must_refuse: The operations that are wrong whatever comes out, because nobody can know what the table asks for.
        untold: The operations of which it tells nothing, although they can be done.
        by_catalog: Whether the table belongs to a catalog, while the trial goes by its path.
        promised: Checks what the commit of an append must contain; returns what is missing.
    """

    name: str
    protocol: str
    build: Callable[[Path], None]
    enabled: frozenset[str] = frozenset()
    rows: Sequence[tuple[Any, ...]] = field(default_factory=lambda: ROWS)
    columns: tuple[str, ...] = ("id", "value")
    row: Mapping[str, Any] = field(default_factory=lambda: {"id": 10, "value": "z"})
    bad_row: Mapping[str, Any] | None = None
    short_row: Mapping[str, Any] | None = None
    must_refuse: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    by_catalog: bool = False
    promised: Callable[[list[dict[str, Any]], pa.Table], str] = lambda actions, rows: ""

    @property
    def terms(self) -> Terms:
        """What the table asks of those who use it."""
        return Terms(Protocol.parse(self.protocol), self.enabled)

    def tried_by(self, operation: str) -> bool:
        """Whether the operation tells anything here: changing rows is tried where something is in use."""
        if operation == "read.changes":
            return "changeDataFeed" in self.enabled
        if operation == "read.filter":
            return self.name.startswith("several pages")
        if operation == "write.delete.all":
            return self.name.startswith(("(1,2) unused", "vector in a"))
        if operation in self.untold:
            return False
        if operation not in ("write.delete", "write.merge", "write.optimize"):
            return True
        # A merge that inserts nothing, as this one, says nothing about rows that need a number.
        if "identityColumns" in self.enabled and operation == "write.merge":
            return False
        in_use = bool(self.enabled) or self.name in ("(1,2) unused", "deletionVectors listed", "several pages, (1,2)")
        return (
            in_use
            and not self.name.startswith("mixed")
            and ("appendOnly" not in self.enabled or operation == "write.optimize")
        )

    def asked(self, operation: str) -> str:
        """What knowledge is asked for this operation of a client that knows catalogs."""
        return f"{operation.partition('.')[0]}.path" if self.by_catalog else operation


def protocol_action(text: str) -> dict[str, Any]:
    """`(3,7|R: a|W: a,b)` as the body of a protocol action."""
    numbers, *lists = text.strip("()").split("|")
    reader, writer = (int(number) for number in numbers.split(","))
    action: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
    for each in lists:
        side, _, names = each.partition(":")
        key = "readerFeatures" if side.strip() == "R" else "writerFeatures"
        action[key] = [name.strip() for name in names.split(",") if name.strip()]
    if reader == 3:
        action.setdefault("readerFeatures", [])
    if writer == 7:
        action.setdefault("writerFeatures", [])
    return action


def field_json(name: str, type: str, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": True, "metadata": dict(metadata or {})}


PLAIN = [field_json("id", "long"), field_json("value", "string")]
PLAIN_TABLE = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "value": ["a", "b", "c"]})


@dataclass
class Builder:
    """Writes one table. Every part can be replaced."""

    protocol: str
    fields: list[dict[str, Any]] = field(default_factory=lambda: list(PLAIN))
    data: pa.Table = field(default_factory=lambda: PLAIN_TABLE)
    configuration: dict[str, str] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
    add: dict[str, Any] = field(default_factory=dict)
    commit_info: dict[str, Any] = field(default_factory=dict)
    deleted: Sequence[int] = ()
    inline_vector: bool = False
    partition: dict[str, str] = field(default_factory=dict)
    """The values of the columns that the table is partitioned by."""
    paged: bool = False
    """Whether its file has a page for every few rows, and an index of them."""

    def __call__(self, folder: Path) -> None:
        log = folder / "_delta_log"
        log.mkdir(parents=True)
        pages: dict[str, Any] = {"data_page_size": 1, "write_batch_size": 10, "write_page_index": True}
        pq.write_table(self.data, folder / "part-0.parquet", **(pages if self.paged else {}))
        _write_lines(log / f"{0:020}.json", self.first_commit(folder))

    def first_commit(self, folder: Path) -> list[dict[str, Any]]:
        info = {"timestamp": _TIME, "operation": "CREATE TABLE", "operationParameters": {}, **self.commit_info}
        actions: list[dict[str, Any]] = [
            {"commitInfo": info},
            {"protocol": protocol_action(self.protocol)},
            {"metaData": self.metadata()},
        ]
        domains = self.domains.items()
        actions += [{"domainMetadata": {"domain": k, "configuration": v, "removed": False}} for k, v in domains]
        return [*actions, {"add": self.add_action(folder)}]

    def metadata(self) -> dict[str, Any]:
        return {
            "id": "11111111-2222-3333-4444-555555555555",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": self.fields}),
            "partitionColumns": list(self.partition),
            "configuration": self.configuration,
            "createdTime": _TIME,
        }

    def stats(self) -> str:
        """Old clients need all four parts, and only columns of these two types can be summed up in them here."""
        plain = [
            name for name in self.data.column_names if self.data[name].type in (pa.int64(), pa.int32(), pa.string())
        ]
        return json.dumps(
            {
                "numRecords": self.data.num_rows,
                "minValues": {name: min(self.data[name].to_pylist()) for name in plain},
                "maxValues": {name: max(self.data[name].to_pylist()) for name in plain},
                "nullCount": dict.fromkeys(plain, 0),
            }
        )

    def add_action(self, folder: Path) -> dict[str, Any]:
        action = {
            "path": "part-0.parquet",
            "partitionValues": self.partition,
            "size": (folder / "part-0.parquet").stat().st_size,
            "modificationTime": _TIME,
            "dataChange": True,
            "stats": self.stats(),
            **self.add,
        }
        if self.deleted:
            action["deletionVector"] = _vector(folder, self.deleted, self.inline_vector)
        return action


def v2_checkpoint(builder: Builder) -> Callable[[Path], None]:
    """The same table at version 1, known only through a V2 checkpoint with a sidecar."""

    def build(folder: Path) -> None:
        builder(folder)
        log = folder / "_delta_log"
        protocol, metadata = protocol_action(builder.protocol), builder.metadata()
        add = builder.add_action(folder)
        sidecar = "016ae953-37a9-438e-8683-9a9a4a79a395.parquet"
        (log / "_sidecars").mkdir()
        add_type = pa.struct(
            [
                ("path", pa.string()),
                ("partitionValues", pa.map_(pa.string(), pa.string())),
                ("size", pa.int64()),
                ("modificationTime", pa.int64()),
                ("dataChange", pa.bool_()),
                ("stats", pa.string()),
            ]
        )
        remove_type = pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())])
        entry = {key: add[key] for key in ("path", "size", "modificationTime", "dataChange", "stats")}
        entry["partitionValues"] = []
        table = pa.table({"add": pa.array([entry], add_type), "remove": pa.array([None], remove_type)})
        pq.write_table(table, log / "_sidecars" / sidecar)
        size = (log / "_sidecars" / sidecar).stat().st_size
        name = f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
        _write_lines(
            log / name,
            [
                {"checkpointMetadata": {"version": 1, "tags": {}}},
                {"protocol": protocol},
                {"metaData": metadata},
                {"sidecar": {"path": sidecar, "sizeInBytes": size, "modificationTime": _TIME, "tags": {}}},
            ],
        )
        (log / "_last_checkpoint").write_text(json.dumps({"version": 1, "size": 4}))
        (log / f"{0:020}.json").unlink()
        _write_lines(log / f"{1:020}.json", [{"commitInfo": {"timestamp": _TIME, "operation": "OPTIMIZE"}}])
        _write_lines(log / f"{2:020}.json", [{"commitInfo": {"timestamp": _TIME + 1, "operation": "OPTIMIZE"}}])

    return build


def mapped(mode: str) -> tuple[list[dict[str, Any]], pa.Table, dict[str, str]]:
    """Fields, data and properties of a column-mapped table."""
    names = {"id": "col-1111", "value": "col-2222"}
    fields = [
        field_json(name, type, {"delta.columnMapping.id": at, "delta.columnMapping.physicalName": names[name]})
        for at, (name, type) in enumerate((("id", "long"), ("value", "string")), start=1)
    ]
    schema = pa.schema(
        [
            pa.field("col-1111", pa.int64(), metadata={"PARQUET:field_id": "1"}),
            pa.field("col-2222", pa.string(), metadata={"PARQUET:field_id": "2"}),
        ]
    )
    data = PLAIN_TABLE.rename_columns(["col-1111", "col-2222"]).cast(schema)
    return fields, data, {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "2"}


def _write_lines(path: Path, actions: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))


def _vector(folder: Path, positions: Sequence[int], inline: bool) -> dict[str, Any]:
    bitmap = BitMap(positions).serialize()
    body = struct.pack("<iQI", _MAGIC, 1, 0) + bitmap
    if inline:
        padded = body + b"\0" * (-len(body) % 4)
        return {
            "storageType": "i",
            "pathOrInlineDv": _z85(padded),
            "sizeInBytes": len(body),
            "cardinality": len(positions),
        }
    name = uuid.UUID("61d16c75-6994-46b7-a15b-8b538852e50e")
    framed = struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    (folder / f"deletion_vector_{name}.bin").write_bytes(b"\x01" + framed)
    return {
        "storageType": "u",
        "pathOrInlineDv": _z85(name.bytes),
        "offset": 1,
        "sizeInBytes": len(body),
        "cardinality": len(positions),
    }


def _z85(data: bytes) -> str:
    text = ""
    for at in range(0, len(data), 4):
        number = int.from_bytes(data[at : at + 4], "big")
        digits = ""
        for _ in range(5):
            number, digit = divmod(number, 85)
            digits = _Z85[digit] + digits
        text += digits
    return text

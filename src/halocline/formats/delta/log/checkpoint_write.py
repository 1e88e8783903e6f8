"""Writing checkpoints: the whole state of a version, so that readers need not replay the log.

A *classic* checkpoint is one Parquet file whose name says no more than the version. A *V2* checkpoint, for tables with
`delta.checkpointPolicy=v2`, is a top file with an id in its name and sidecars that hold the files; sidecars appear
first, so whoever sees the top file can read all of it. Now and then the top file is also left under the classic name,
so that a client too old for V2 finds the protocol and can refuse by name.

The *pointer* `_last_checkpoint` is moved last. A crash at any point leaves files that nobody refers to, never a
checkpoint that cannot be read. A checkpoint holds nothing that the log does not say: losing one costs time only.
Every page carries a checksum, so that a damaged one is noticed where it is read. However many files a table has, a
checkpoint is written in the memory of some of them: rows stream through, and a large file grows on disk.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from halocline.compat.terms import Terms
from halocline.formats.delta.actions.action import Action, CheckpointMetadata, DomainMetadata, Sidecar, Txn
from halocline.formats.delta.actions.protocol import action_of
from halocline.formats.delta.configuration.properties import TableProperties
from halocline.formats.delta.log import checkpoint_schema
from halocline.formats.delta.log.checkpoint_rows import CheckpointRows
from halocline.formats.delta.log.checksum import Summary
from halocline.formats.delta.log.header import header_of
from halocline.formats.delta.log.replay import KnownVersion, Replay
from halocline.formats.log.names import DELTA
from halocline.formats.log.pointer import Pointer, encode_pointer, read_pointer
from halocline.storage.base import Store

SIDECAR_ROWS: Final = 65_536
"""About how many files one sidecar holds."""
CLASSIC_EVERY: Final = 10
"""How many V2 checkpoints there are to one that also has the classic name."""
FILES_PER_INTERVAL: Final = 5_000
"""How many live files make checkpoints twice as rare, thrice, and so on."""
RAREST: Final = 10
"""How many times rarer at the most: whoever opens the table reads the commits since."""
_IN_MEMORY: Final = 64 * 1024 * 1024
"""Up to which size a file waits in memory for its end; it is then stored at once."""
_GROUP: Final = 8192
"""Pieces with fewer rows than this share a row group: each costs something, however few rows it has."""
_CHUNK: Final = 8 * 1024 * 1024
_INLINE_ACTIONS: Final = 30
"""Up to how many actions the pointer repeats from a V2 checkpoint."""


@dataclass(frozen=True)
class WrittenCheckpoint:
    """A checkpoint that was written.

    Attributes:
        path: Its file, or the top file of a V2 one.
        actions: How many actions it holds, sidecars included.
        size: How long it is, sidecars included.
        summary: What it says of its version, without what only the commit knows.
    """

    path: str
    actions: int
    size: int
    summary: Summary


def is_due(version: int, properties: TableProperties, files: int = 0) -> bool:
    """Whether a checkpoint is to be written after the commit of a version.

    A checkpoint costs what the live files cost, so a table that does not say how often it wants one gets it less
    often the more files it has, up to `RAREST` times: the share of a commit does not grow with the table.

    Example:
        >>> [version for version in range(1, 41) if is_due(version, TableProperties({}), files=12_000)]
        [20, 40]
    """
    interval = properties.checkpoint_interval
    if "delta.checkpointInterval" not in properties:
        interval *= min(max(files // FILES_PER_INTERVAL, 1), RAREST)
    return version > 0 and version % interval == 0


def write_checkpoint(
    store: Store,
    version: int,
    *,
    now_ms: int | None = None,
    check_access: Callable[[Terms], None] | None = None,
    known: KnownVersion | None = None,
) -> WrittenCheckpoint:
    """Writes the checkpoint of a version and moves the pointer to it; an earlier version that is known saves time."""
    present = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    replay = Replay.open(store, version, known=known)
    header = header_of(replay)
    if header.protocol_action is not None and check_access is not None:
        check_access(Terms.of(header.protocol, header.facts))

    def write() -> tuple[WrittenCheckpoint, dict[str, Any]]:
        rows = CheckpointRows(replay, present)
        return _write_v2(store, version, rows, present) if is_v2(rows) else (_write_classic(store, version, rows), {})

    written, more = replay.reading(write)
    _move_pointer(store, version, written, more)
    return written


def is_v2(rows: CheckpointRows) -> bool:
    """Whether the table asks for V2 checkpoints and supports them."""
    return rows.properties.checkpoint_policy == "v2" and rows.header.protocol.supports("v2Checkpoint")


def classic_path(version: int) -> str:
    """Where a checkpoint under the classic name lies."""
    return f"{DELTA.prefix(version)}.checkpoint.parquet"


# ---------------------------------------------------------------------- one file


def _write_classic(store: Store, version: int, rows: CheckpointRows) -> WrittenCheckpoint:
    schema = checkpoint_schema.schema_of(checkpoint_schema.CLASSIC, rows.form.type)
    file = _Spool(schema)
    for column, structs in _file_rows(rows):
        file.write(checkpoint_schema.rows_of(column, structs, schema))
    others = rows.others
    file.write(checkpoint_schema.other_rows(others, schema))
    size = file.store(store, classic_path(version))
    return _written(classic_path(version), len(others), size, rows)


# ---------------------------------------------------------------------- a top file and sidecars


def _write_v2(
    store: Store, version: int, rows: CheckpointRows, now_ms: int
) -> tuple[WrittenCheckpoint, dict[str, Any]]:
    sidecars = tuple(_write_sidecars(store, rows, now_ms))
    others = rows.others
    mark = CheckpointMetadata(
        version,
        {
            "sidecarNumActions": str(rows.table_size.files + rows.removes_written),
            "sidecarSizeInBytes": str(sum(each.size_in_bytes for each in sidecars)),
            "numOfAddFiles": str(rows.table_size.files),
        },
    )
    schema = checkpoint_schema.schema_of(checkpoint_schema.TOP, rows.form.type)
    file = _Spool(schema)
    file.write(checkpoint_schema.other_rows((mark, *sidecars, *others), schema))
    path = f"{DELTA.prefix(version)}.checkpoint.{uuid.uuid4()}.parquet"
    is_also_classic = version % (rows.properties.checkpoint_interval * CLASSIC_EVERY) == 0
    top = file.store(store, path, *([classic_path(version)] if is_also_classic else []))
    size = top + sum(each.size_in_bytes for each in sidecars)
    written = _written(path, len(others) + len(sidecars) + 1, size, rows)
    return written, {"v2Checkpoint": _described(path, top, now_ms, (*others, mark), sidecars)}


def _write_sidecars(store: Store, rows: CheckpointRows, now_ms: int) -> Iterator[Sidecar]:
    schema = checkpoint_schema.schema_of(checkpoint_schema.SIDECAR, rows.form.type)
    file = _Spool(schema)
    for column, structs in _file_rows(rows):
        file.write(checkpoint_schema.rows_of(column, structs, schema))
        if file.rows >= SIDECAR_ROWS:
            yield _put_sidecar(store, file, now_ms)
            file = _Spool(schema)
    if file.rows:
        yield _put_sidecar(store, file, now_ms)


def _put_sidecar(store: Store, file: _Spool, now_ms: int) -> Sidecar:
    name = f"{uuid.uuid4()}.parquet"
    return Sidecar(name, file.store(store, f"{DELTA.folder}/_sidecars/{name}"), now_ms)


def _described(
    path: str, size: int, now_ms: int, actions: tuple[Action, ...], sidecars: tuple[Sidecar, ...]
) -> dict[str, Any]:
    """What the pointer says of a V2 checkpoint; little enough that reading it stays cheap."""
    described: dict[str, Any] = {"path": path.rpartition("/")[2], "sizeInBytes": size, "modificationTime": now_ms}
    if len(actions) <= _INLINE_ACTIONS:
        described["nonFileActions"] = [checkpoint_schema.json_of(each) for each in actions]
    if len(sidecars) <= _INLINE_ACTIONS:
        described["sidecarFiles"] = [checkpoint_schema.json_of(each)["sidecar"] for each in sidecars]
    return described


# ---------------------------------------------------------------------- shared


def _file_rows(rows: CheckpointRows) -> Iterator[tuple[str, Any]]:
    for structs in rows.adds():
        yield "add", structs
    for structs in rows.removes():
        yield "remove", structs


def _written(path: str, others: int, size: int, rows: CheckpointRows) -> WrittenCheckpoint:
    txns = {each.app_id: each for each in rows.others if isinstance(each, Txn)}
    domains = {each.domain: each for each in rows.others if isinstance(each, DomainMetadata)}
    summary = Summary(rows.table_size, action_of(rows.header.protocol), rows.header.metadata, txns, domains)
    return WrittenCheckpoint(path, others + rows.table_size.files + rows.removes_written, size, summary)


def _move_pointer(store: Store, version: int, written: WrittenCheckpoint, more: Mapping[str, Any]) -> None:
    """Points to the checkpoint, unless the pointer is further already. Two writers may cross: it is only a hint."""
    present = read_pointer(store, DELTA)
    if present is not None and present.version > version:
        return
    files = written.summary.table_size.files
    pointer = Pointer(version=version, size=written.actions, size_in_bytes=written.size, num_of_add_files=files)
    store.put(DELTA.pointer_path, encode_pointer(pointer, more))


class _Spool:
    """A Parquet file that grows a row group at a time: in memory while it is small, then on this machine's disk.

    No store writes an object piece by piece and shows it whole at the end, so a large one waits here for its end.
    """

    def __init__(self, schema: Any) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 closed where it is stored
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="snappy",
            use_dictionary=checkpoint_schema.repeating_columns(schema),
            store_schema=False,
            write_page_checksum=True,
        )
        self._waiting: list[Any] = []
        self.rows = 0

    def write(self, batch: Any) -> None:
        self._waiting.append(batch)
        self.rows += len(batch)
        if sum(map(len, self._waiting)) >= _GROUP:
            self._write_group()

    def _write_group(self) -> None:
        if any(map(len, self._waiting)):
            self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting = []

    def store(self, store: Store, *paths: str) -> int:
        """Ends the file and puts it into a store; gives its length."""
        self._write_group()
        self._writer.close()
        with self._file as file:
            size = int(file.tell())
            for path in paths:
                file.seek(0)
                if size <= _IN_MEMORY:
                    store.put(path, file.read())
                else:
                    store.put_chunks(path, iter(partial(file.read, _CHUNK), b""))
        return size

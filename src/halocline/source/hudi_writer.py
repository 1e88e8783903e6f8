"""Rows added to a Hudi table through the data source: tasks write new file groups, and one commit makes them count.

Keys are not looked for, since no join can be made where this runs; `Table.upsert` does that. Spark plans, writes and
commits in processes of their own, so the heartbeat of the write names none of them: it is renewed by the tasks, and a
write that nobody works on any more is taken back some minutes later by the next writer.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from halocline.errors import HaloclineError, UnsupportedError
from halocline.formats.hudi.evolution import fit_table
from halocline.formats.hudi.partition_paths import partition_paths
from halocline.formats.hudi.record_keys import KeyColumns, written_key_columns
from halocline.formats.hudi.table_schema import META_COLUMNS
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.formats.hudi.write.group_writer import GroupWriter, WriteTarget
from halocline.formats.hudi.write.heartbeat import beat_once, beating, stop_beating
from halocline.formats.hudi.write.rollback import roll_back
from halocline.formats.hudi.write.transaction import HudiWrite
from halocline.schema.types import Struct
from halocline.source.hudi import opened
from halocline.source.options import SourceOptions
from halocline.spark.scan.packing import packed
from halocline.table.hudi.columns import fitting_columns
from halocline.table.hudi.write import stored_key
from halocline.table.hudi.writing import begun, completed, ready

if TYPE_CHECKING:
    from halocline.table.hudi.opened import HudiOpened

_BUFFER_ROWS = 500_000


class StatsMessage(WriterCommitMessage):
    """What one task wrote."""

    def __init__(self, stats: Sequence[bytes]) -> None:
        self.stats = list(stats)


@dataclass
class HudiWriter(DataSourceArrowWriter):
    """Adds the rows of one batch as one write, or nothing."""

    asked: SourceOptions
    write_: HudiWrite
    writer: GroupWriter
    columns: pa.Schema
    keys: KeyColumns

    @staticmethod
    def open(asked: SourceOptions, schema: Struct, *, overwrite: bool) -> HudiWriter:
        """Begins a write behind the gate, once it is known that the rows fit.

        Raises:
            IncompatibleError: The release that acts may not write the table.
            SchemaError: The columns do not fit.
            UnsupportedError: Rows are to be replaced.
        """
        if overwrite:
            raise UnsupportedError(
                "the data source only adds rows to a Hudi table",
                sides={"mode": "overwrite", "possible": "append"},
                next_step="Use Table.overwrite, or Table.insert_overwrite for the partitions of the rows.",
            )
        table = opened(asked)
        snapshot = ready(table)
        columns, text = fitting_columns(snapshot, schema, None)
        keys = written_key_columns(snapshot.config, stored_key(snapshot))
        running = begun(table, snapshot, "INSERT", columns, text, replaces=False)
        beat_once(table.store, running.write.time)
        plain = pa.schema([each.with_nullable(True) for each in columns if each.name not in META_COLUMNS])
        return HudiWriter(asked, running.write, running.writer(unique=False), plain, keys)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task into file groups of its own."""
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        numbers = (0, 0, 0) if context is None else (context.partitionId(), context.stageId(), context.taskAttemptId())
        stats: list[bytes] = []
        with beating(self.writer.store, self.write_.time, own=False):
            for held in packed((each for each in iterator if each.num_rows), lambda each: each.num_rows, _BUFFER_ROWS):
                stats += self._groups(pa.Table.from_batches(held), "-".join(map(str, numbers)), numbers[0])
        return StatsMessage(stats)

    def _groups(self, rows: pa.Table, token: str, task: int) -> Iterator[bytes]:
        fitted = fit_table(rows, self.columns, self.writer.config.name)
        paths = pa.array(partition_paths(fitted, self.writer.config), pa.string())
        keys = self.keys.of(fitted)
        for path in paths.unique().to_pylist():
            chosen = pa.compute.equal(paths, path)
            self.write_.prepare_partition(path)
            target = WriteTarget(path, f"{uuid.uuid4()}-0")
            nothing = pa.array([], pa.string())
            stat = self.writer.write(target, fitted.filter(chosen), keys.filter(chosen), nothing, token, task)
            if stat is not None:
                yield msgspec.json.encode(stat)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Makes what was written count."""
        stats = [
            msgspec.json.decode(each, type=WriteStat)
            for message in messages
            if isinstance(message, StatsMessage)
            for each in message.stats
        ]
        table: HudiOpened = opened(self.asked)
        with table.operation("write"):
            table.snapshot("write")
            completed(table, self.write_, stats, self.writer.schema)
        stop_beating(table.store, self.write_.time)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Takes the write back."""
        store = self.writer.store
        with contextlib.suppress(HaloclineError):
            roll_back(store, self.writer.config, self.write_.instant)
            stop_beating(store, self.write_.time)

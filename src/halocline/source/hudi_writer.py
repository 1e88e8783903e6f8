"""Rows added to a Hudi table through the data source: tasks write new file groups, and one commit makes them count.

Each attempt of a task makes file groups of its own, which are put aside until it is known which attempt counts
(`halocline.formats.hudi.write.files_aside`).

Keys are not looked for, since no join can be made where this runs; `Table.upsert` does that. In a table with a bucket
index nothing has to be looked for, and rows are merged when the write is committed (`halocline.source.hudi_staging`).
Spark plans, writes and commits in processes of their own, so the heartbeat of the write names none of them: it is
renewed by the tasks, and a write that nobody works on any more is taken back some minutes later by the next writer.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from halocline.errors import HaloclineError, UnsupportedError
from halocline.formats.hudi.buckets import BucketIndex, bucket_index
from halocline.formats.hudi.evolution import fit_table
from halocline.formats.hudi.partition_paths import partition_paths
from halocline.formats.hudi.record_keys import KeyColumns, stored_key, written_key_columns
from halocline.formats.hudi.table_schema import META_COLUMNS
from halocline.formats.hudi.timeline.instant import order
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.formats.hudi.write.files_aside import forget_aside, move_into_place
from halocline.formats.hudi.write.group_writer import GroupWriter, WriteTarget
from halocline.formats.hudi.write.heartbeat import beat_once, beating, stop_beating
from halocline.formats.hudi.write.transaction import HudiWrite
from halocline.formats.log.commit import is_refused
from halocline.schema.types import Struct
from halocline.source.hudi_staging import StagedRows, place_rows, stage_rows
from halocline.source.options import SourceOptions
from halocline.spark.scan.packing import packed
from halocline.spark.write.hudi_rows import attempt
from halocline.table.hudi.columns import fitting_columns
from halocline.table.hudi.opened import HudiOpened
from halocline.table.hudi.writing import action_of, beginning, completed, group_writer, ready, take_back

if TYPE_CHECKING:
    from halocline.formats.hudi.snapshot import HudiSnapshot
    from halocline.formats.hudi.write.stream_batch import StreamBatch

_BUFFER_ROWS = 500_000


class StatsMessage(WriterCommitMessage):
    """What one task wrote, and for which write."""

    def __init__(
        self, stats: Sequence[bytes], write: HudiWrite | None = None, staged: Sequence[StagedRows] = ()
    ) -> None:
        self.stats = list(stats)
        self.write = write
        self.staged = list(staged)


@dataclass(frozen=True)
class HudiRowSink:
    """What puts rows into new file groups: a small value that can travel to where the rows are.

    Attributes:
        asked: What the source was asked for.
        writer: What writes file groups, for no instant yet.
        columns: The columns of the rows.
        keys: What their keys are made of.
        index: The bucket index of the table, if it has one.
    """

    asked: SourceOptions
    writer: GroupWriter
    columns: pa.Schema
    keys: KeyColumns
    index: BucketIndex | None = None

    @staticmethod
    def open(asked: SourceOptions, schema: Struct, *, overwrite: bool) -> tuple[HudiRowSink, HudiSnapshot]:
        """Finds the table behind the gate, and checks that the rows fit.

        Raises:
            IncompatibleError: The release that acts may not write the table.
            SchemaError: The columns do not fit.
            UnsupportedError: Rows are to be replaced, or placed in a way that is not written here.
        """
        if overwrite:
            raise UnsupportedError(
                "the data source only adds rows to a Hudi table",
                sides={"mode": "overwrite", "possible": "append"},
                next_step="Use Table.overwrite, or Table.insert_overwrite for the partitions of the rows.",
            )
        table = asked.opened(HudiOpened)
        snapshot = ready(table)
        index = bucket_index(snapshot, asked.settings.hudi_buckets)
        columns, text = fitting_columns(snapshot, schema, None)
        plain = pa.schema([each.with_nullable(True) for each in columns if each.name not in META_COLUMNS])
        writer = group_writer(table, snapshot, columns, text, "", unique=index is not None)
        keys = written_key_columns(snapshot.config, stored_key(snapshot))
        return HudiRowSink(asked, writer, plain, keys, index), snapshot

    def write(self, write: HudiWrite, batches: Iterator[pa.RecordBatch]) -> StatsMessage:
        """Writes the rows of one task into file groups of its own, or puts them aside for those of their buckets."""
        numbers = attempt()
        stats: list[bytes] = []
        staged: list[StagedRows] = []
        with beating(self.writer.store, write.time, own=False):
            for held in packed((each for each in batches if each.num_rows), lambda each: each.num_rows, _BUFFER_ROWS):
                rows = fit_table(pa.Table.from_batches(held), self.columns, self.writer.config.name)
                keys, paths = self.keys.made(rows), pa.array(partition_paths(rows, self.writer.config), pa.string())
                if self.index is not None:
                    staged += stage_rows(self.writer.store, write.time, rows, keys, paths, self.index)
                else:
                    stats += self._groups(write, rows, keys, paths, numbers)
        return StatsMessage(stats, write, staged)

    def _groups(
        self, write: HudiWrite, rows: pa.Table, keys: pa.Array, paths: pa.Array, attempt: tuple[int, int, int]
    ) -> Iterator[bytes]:
        writer, nothing = replace(self.writer, instant=write.time, aside=True), pa.array([], pa.string())
        for path in paths.unique().to_pylist():
            chosen = pa.compute.equal(paths, path)
            write.prepare_partition(path)
            target, token = WriteTarget(path, f"{uuid.uuid4()}-0"), "-".join(map(str, attempt))
            stat = writer.write(target, rows.filter(chosen), keys.filter(chosen), nothing, token, attempt[0])
            if stat is not None:
                yield msgspec.json.encode(stat)

    def commit(
        self, write: HudiWrite, messages: Sequence[WriterCommitMessage | None], batch: StreamBatch | None = None
    ) -> None:
        """Makes what was written count; a batch of a stream that the table has already is taken back."""
        try:
            self._commit(write, messages, batch)
        except HaloclineError as error:
            if is_refused(error):
                self.abort(write)
            raise

    def _commit(
        self, write: HudiWrite, messages: Sequence[WriterCommitMessage | None], batch: StreamBatch | None
    ) -> None:
        table = self.asked.opened(HudiOpened)
        with table.operation("write"):
            snapshot, stats = table.snapshot("write"), stats_of(messages)
            with beating(table.store, write.time, own=False):
                move_into_place(table.store, write.time, [each.path for each in stats if each.path])
            if staged := [each for message in messages if isinstance(message, StatsMessage) for each in message.staged]:
                # What began before it is merged with; what began after it, and was faster, would be put behind it.
                before = (each.time for each in snapshot.timeline.writes if order(each.time) < order(write.time))
                write = replace(write, seen=frozenset(before))
                writer = replace(self.writer, instant=write.time)
                with beating(table.store, write.time, own=False):
                    stats += place_rows(snapshot, write, writer, staged)
            completed(table, write, stats, self.writer.schema, batch=batch)
        stop_beating(table.store, write.time)
        self._forget(write)

    def abort(self, write: HudiWrite) -> None:
        """Takes a write back, unless it has been completed."""
        with contextlib.suppress(HaloclineError):
            take_back(self.writer.store, write)
            stop_beating(self.writer.store, write.time)
            self._forget(write)

    def _forget(self, write: HudiWrite) -> None:
        """Deletes what was put aside for this write, and for others that died or came too late.

        What is left of it is seen by nobody, and does not make a failure of a write that has been completed.
        """
        with contextlib.suppress(HaloclineError):
            forget_aside(write.store)


@dataclass
class HudiWriter(DataSourceArrowWriter):
    """Adds the rows of one batch as one write, or nothing."""

    sink: HudiRowSink
    begun: HudiWrite

    @staticmethod
    def open(asked: SourceOptions, schema: Struct, *, overwrite: bool) -> HudiWriter:
        """Begins a write behind the gate, once it is known that the rows fit; see `HudiRowSink.open`."""
        sink, snapshot = HudiRowSink.open(asked, schema, overwrite=overwrite)
        store, action = sink.writer.store, action_of(snapshot)
        with beginning(store, snapshot.config, action, "INSERT", snapshot.timeline) as write:
            beat_once(store, write.time)
        return HudiWriter(sink, write)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task."""
        return self.sink.write(self.begun, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Makes what was written count."""
        self.sink.commit(self.begun, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Takes the write back if a task failed; if none did, `commit` has seen to it."""
        if None in messages:
            self.sink.abort(self.begun)


def stats_of(messages: Sequence[WriterCommitMessage | None]) -> list[WriteStat]:
    """What all tasks wrote."""
    told = (message.stats for message in messages if isinstance(message, StatsMessage))
    return [msgspec.json.decode(each, type=WriteStat) for stats in told for each in stats]

"""Rows added to an index table, or put in place of others, through the data source, in batches and as a stream.

Tasks build splits that nobody knows yet, and one commit makes them count. The commit is the operation of the fleet: it
opens the table anew, which must still be what the rows were fitted to. Each micro-batch of a stream is one version that
also records the query and the number of the batch, so that one which Spark repeats is found and skipped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from halocline.errors import ConflictError, ConstraintError, HaloclineError
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.stats.row_filter import RowFilter
from halocline.formats.index.delete import deletions
from halocline.formats.index.log.actions import IndexAction, IndexMetadata, SplitAdd, SplitRemove
from halocline.formats.index.rows import numbered_rows
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.log.commit import is_refused
from halocline.schema.json_edge import parse
from halocline.schema.types import Struct
from halocline.source.options import PartitionOverwrite, SourceOptions, check_replacing
from halocline.source.replacement import check_rows
from halocline.source.stream import ArrowStreamWriter, arrow_batches, check_identity, identity
from halocline.spark.scan.split_frames import kept_splits
from halocline.spark.types import input_schema
from halocline.spark.write.split_rows import SplitSink
from halocline.table.index.columns import table_columns
from halocline.table.index.opened import IndexOpened
from halocline.table.index.request import SplitWrite
from halocline.table.index.write import Txn, check_upgrade, is_done, marks, rows_in


class SplitsMessage(WriterCommitMessage):
    """What one task wrote, or which rule its rows break."""

    def __init__(self, splits: Sequence[bytes], refusal: ConstraintError | None = None) -> None:
        self.splits = list(splits)
        self.refusal = refusal


@dataclass(frozen=True)
class SplitBatch:
    """A write that has been checked and is under way; a value that Spark takes to its tasks and back.

    Attributes:
        asked: The options.
        sink: What builds splits.
        metadata: What the table was when the rows were fitted to it.
        after: What it is going to be; the same unless its columns change.
        request: What the write does with the rows.
        condition: Which rows are replaced, if not all.
    """

    asked: SourceOptions
    sink: SplitSink
    metadata: IndexMetadata
    after: IndexMetadata
    request: SplitWrite
    condition: RowFilter | None = None

    @staticmethod
    def begun(asked: SourceOptions, schema: Struct, *, replaces: bool) -> SplitBatch:
        """Begins a write behind the gate, once it is known that the rows fit."""
        request = _request(asked, replaces)
        table = asked.opened(IndexOpened)
        snapshot = table.snapshot(request.operation)
        check_upgrade(table, snapshot)
        columns = input_schema.declared(schema)
        before = snapshot.metadata
        after = request.metadata(snapshot, table_columns(schema) if request.schema_mode else snapshot.schema)
        condition = None
        if request.where is not None:
            condition = RowFilter.parse(request.where, Schema.of(parse(after.schema_string)), asked.zone)
        sink = SplitSink.of(table.store, after, columns, most_rows=asked.max_records)
        return SplitBatch(asked, sink, before, after, request, condition)

    def write(self, batches: Iterator[pa.RecordBatch]) -> SplitsMessage:
        """Writes the rows of one task into splits that nobody knows yet."""
        if self.condition is not None:
            condition = self.condition
            batches = (check_rows(batch, condition, ()) for batch in batches)
        try:
            return SplitsMessage([msgspec.json.encode(each) for each in self.sink.write_unsorted(batches)])
        except ConstraintError as error:
            return SplitsMessage([], error)

    def commit(
        self, messages: Sequence[WriterCommitMessage | None], operation: str, txn: Txn | None, **said: Any
    ) -> None:
        """Makes the splits part of the table, unless what was to be written is in it already.

        Raises:
            ConflictError: The table is another one by now.
            ConstraintError: Rows break a rule.
        """
        try:
            self._commit(messages, operation, txn, said)
        except HaloclineError as error:
            if is_refused(error):
                self.discard([each.path for each in splits_in(messages)])
            raise

    def _commit(
        self, messages: Sequence[WriterCommitMessage | None], operation: str, txn: Txn | None, said: Mapping[str, Any]
    ) -> None:
        for each in messages:
            if isinstance(each, SplitsMessage) and each.refusal is not None:
                raise each.refusal
        splits = splits_in(messages)
        table = self.asked.opened(IndexOpened)
        with table.operation("write"):
            snapshot = table.snapshot(self.request.operation)
            if is_done(snapshot, txn):
                self.discard([each.path for each in splits])
                return
            found = _described(snapshot.metadata)
            if found not in (_described(self.metadata), _described(self.after)):
                raise ConflictError(
                    f"the metadata of {table.url} changed while rows were written; nothing was committed",
                    condition="CONCURRENT_METADATA_CHANGE",
                    sides={"found": f"version {snapshot.version}", "expected": "the columns and properties of before"},
                    next_step="Run the write again.",
                )
            now_ms = table.clock()
            gone = self.request.gone(snapshot, splits, lambda _: self._matching(snapshot, now_ms), now_ms)
            grown = [self.after] if found != _described(self.after) else []
            actions: list[IndexAction] = [*grown, *gone, *splits, *marks(txn, now_ms)]
            replaced = self.condition is not None
            transaction = table.transaction(snapshot, reads_all=self.request.replaces, may_gain=replaced)
            table.commit(transaction, actions, operation, **said, numOutputRows=rows_in(splits))

    def _matching(self, snapshot: IndexSnapshot, now_ms: int) -> list[SplitAdd | SplitRemove]:
        """What takes out the rows that meet the condition; the rows are read here, where Spark commits."""
        condition = self.condition
        assert condition is not None, "only asked for where rows are replaced by a condition"
        splits = kept_splits(snapshot, snapshot.files.values(), condition.text, self.asked.zone)
        spoken_of = {column.path[0].lower() for column in condition.columns}
        columns = [each for each in snapshot.schema.fields if each.name.lower() in spoken_of]
        found: dict[str, list[int]] = {}
        for split in splits:
            for numbers, rows in numbered_rows(snapshot.store, split, columns):
                met = condition.mask(rows)
                found.setdefault(split.path, []).extend(numbers[met.to_numpy(zero_copy_only=False)].tolist())
        return deletions(snapshot, found, now_ms=now_ms)

    def discard(self, paths: Sequence[str]) -> None:
        """Deletes what was written, unless it is in the table, or nobody can tell."""
        with contextlib.suppress(HaloclineError, OSError):
            live = self.asked.opened(IndexOpened).snapshot().files
            if live.keys().isdisjoint(paths):
                self.sink.store.delete_many(paths)


class IndexWriter(DataSourceArrowWriter):
    """Writes the rows of one batch as one version, or nothing."""

    def __init__(self, batch: SplitBatch, txn: Txn | None) -> None:
        self._batch = batch
        self._txn = txn

    @staticmethod
    def open(asked: SourceOptions, schema: Struct, *, overwrite: bool) -> IndexWriter:
        """Finds the table and checks that the rows fit."""
        return IndexWriter(SplitBatch.begun(asked, schema, replaces=overwrite), asked.txn)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task."""
        return self._batch.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Makes the splits part of the table."""
        self._batch.commit(messages, "WRITE", self._txn, **self._batch.request.parameters)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deletes the splits if a task failed; if none did, `commit` has seen to them."""
        if None in messages:
            self._batch.discard(self._batch.sink.orphans())


class IndexStreamWriter(ArrowStreamWriter):  # type: ignore[misc]
    """Adds micro-batches to a table, each once."""

    def __init__(self, asked: SourceOptions, schema: Struct) -> None:
        self._asked = asked
        self._schema = schema
        self._batch = SplitBatch.begun(asked, schema, replaces=False)

    @staticmethod
    def open(asked: SourceOptions, schema: Struct, *, overwrite: bool) -> IndexStreamWriter:
        """Finds the table and checks that the rows fit."""
        check_identity(asked, overwrite=overwrite)
        return IndexStreamWriter(asked, schema)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Writes the rows of one task into splits that nobody knows yet."""
        return self._batch.write(arrow_batches(iterator, self._schema))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Makes the splits part of the table, unless this batch is in it already."""
        app_id = identity(self._asked)
        if not any(isinstance(each, SplitsMessage) and (each.splits or each.refusal) for each in messages):
            return
        said = {"outputMode": "Append", "queryId": app_id, "epochId": str(batchId)}
        self._batch.commit(messages, "STREAMING UPDATE", (app_id, batchId), **said)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Deletes the splits of the batch if a task failed; if none did, `commit` has seen to them."""
        if None in messages:
            self._batch.discard([each.path for each in splits_in(messages)])


def splits_in(messages: Sequence[WriterCommitMessage | None]) -> list[SplitAdd]:
    """The splits that tasks wrote."""
    told = (each for each in messages if isinstance(each, SplitsMessage))
    return [msgspec.json.decode(split, type=SplitAdd) for each in told for split in each.splits]


def _request(asked: SourceOptions, replaces: bool) -> SplitWrite:
    """What the write is asked to do."""
    check_replacing(asked, overwrite=replaces)
    return SplitWrite(
        replaces,
        asked.replace_where,
        asked.partition_overwrite is PartitionOverwrite.DYNAMIC,
        "overwrite" if asked.overwrite_schema else "merge" if asked.merge_schema else None,
        asked.partition_by if asked.overwrite_schema and asked.partition_by else None,
    )


def _described(metadata: IndexMetadata) -> tuple[object, ...]:
    return metadata.schema_string, metadata.partition_columns, dict(metadata.configuration)

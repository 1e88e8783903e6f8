"""Rows added to an index table, or put in place of all others, through the data source, in batches and as a stream.

Tasks build splits that nobody knows yet, and one commit makes them count. The commit is the operation of the fleet: it
opens the table anew, which must still be what the rows were fitted to. Each micro-batch of a stream is one version that
also records the query and the number of the batch, so that one which Spark repeats is found and skipped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from halocline.errors import ConflictError, ConstraintError, HaloclineError, InputError
from halocline.formats.index.delete import removal
from halocline.formats.index.log.actions import IndexAction, IndexMetadata, SplitAdd
from halocline.schema.types import Struct
from halocline.source.index import opened
from halocline.source.options import SourceOptions
from halocline.source.stream import ArrowStreamWriter, arrow_batches, check_identity, identity
from halocline.spark.types import input_schema
from halocline.spark.write.split_rows import SplitSink
from halocline.table.index.write import Txn, check_upgrade, is_done, marks


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
        replaces: Whether the rows come in place of all others.
    """

    asked: SourceOptions
    sink: SplitSink
    metadata: IndexMetadata
    replaces: bool

    @staticmethod
    def begun(asked: SourceOptions, schema: Struct, *, replaces: bool) -> SplitBatch:
        """Begins a write behind the gate, once it is known that the rows fit."""
        table = opened(asked)
        snapshot = table.snapshot("write" if replaces else "write.append")
        check_upgrade(table, snapshot)
        columns = input_schema.declared(schema)
        sink = SplitSink.of(table.store, snapshot.metadata, columns, most_rows=asked.max_records)
        return SplitBatch(asked, sink, snapshot.metadata, replaces)

    def write(self, batches: Iterator[pa.RecordBatch]) -> SplitsMessage:
        """Writes the rows of one task into splits that nobody knows yet."""
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
        for each in messages:
            if isinstance(each, SplitsMessage) and each.refusal is not None:
                raise each.refusal
        splits = splits_in(messages)
        table = opened(self.asked)
        with table.operation("write"):
            snapshot = table.snapshot("write" if self.replaces else "write.append")
            if is_done(snapshot, txn):
                self.discard([each.path for each in splits])
                return
            if _described(snapshot.metadata) != _described(self.metadata):
                raise ConflictError(
                    f"the metadata of {table.url} changed while rows were written; nothing was committed",
                    condition="CONCURRENT_METADATA_CHANGE",
                    sides={"found": f"version {snapshot.version}", "expected": "the columns and properties of before"},
                    next_step="Run the write again.",
                )
            now_ms = table.clock()
            gone = [removal(each, now_ms) for each in snapshot.files.values()] if self.replaces else []
            actions: list[IndexAction] = [*gone, *splits, *marks(txn, now_ms)]
            transaction = table.transaction(snapshot, reads_all=self.replaces)
            rows = sum(each.num_records or 0 for each in splits)
            table.commit(transaction, actions, operation, **said, numOutputRows=rows)

    def discard(self, paths: Sequence[str]) -> None:
        """Deletes what was written, unless it is in the table, or nobody can tell."""
        with contextlib.suppress(HaloclineError, OSError):
            live = opened(self.asked).snapshot().files
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
        if (asked.txn_version is None) != (asked.txn_app_id is None):
            raise InputError(
                "an application and its version go together",
                sides={"txnAppId": str(asked.txn_app_id), "txnVersion": str(asked.txn_version)},
                next_step="Give both, or neither.",
            )
        txn = None if asked.txn_app_id is None or asked.txn_version is None else (asked.txn_app_id, asked.txn_version)
        return IndexWriter(SplitBatch.begun(asked, schema, replaces=overwrite), txn)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task."""
        return self._batch.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Makes the splits part of the table."""
        self._batch.commit(messages, "WRITE", self._txn, mode="Overwrite" if self._batch.replaces else "Append")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deletes the splits, unless they made it into the table."""
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
        """Deletes the splits of the batch, unless they made it into the table."""
        self._batch.discard([each.path for each in splits_in(messages)])


def splits_in(messages: Sequence[WriterCommitMessage | None]) -> list[SplitAdd]:
    """The splits that tasks wrote."""
    told = (each for each in messages if isinstance(each, SplitsMessage))
    return [msgspec.json.decode(split, type=SplitAdd) for each in told for split in each.splits]


def _described(metadata: IndexMetadata) -> tuple[object, ...]:
    return metadata.schema_string, metadata.partition_columns, dict(metadata.configuration)

"""Streams of a Delta table: what is added to it, micro-batch by micro-batch, and micro-batches added to it, each once.

Reading, the position of a stream lies in the query's checkpoint (see `halocline.source.stream_log`), and so does where
its first micro-batch began (see `halocline.source.stream_offsets`); the files between two positions are always the
same, so a query that is stopped and started again neither loses nor repeats a row.

Writing, each micro-batch is one version of the table that also records the query's id and the number of the batch. A
batch that Spark repeats after a crash is found in the table and skipped. The id lies in the query's checkpoint, so it
is another one if the checkpoint is started anew; `txnAppId` names it by hand.

The limits: Spark before 4.2 does not ask a source for part of what there is, so `maxFilesPerTrigger` needs 4.2. Only
append mode writes. Files of tasks that were killed stay until vacuum.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyspark.sql.datasource as spark_source
from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, InputPartition, WriterCommitMessage

from halocline.errors import HaloclineError, InputError, UnsupportedError
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.snapshot.change_feed import OPERATION as CHANGES
from halocline.formats.log.commit import is_refused
from halocline.schema.types import Struct
from halocline.source.delta import FilePartition, FilesMessage, files_of, written
from halocline.source.options import LATEST, SourceOptions
from halocline.source.read_limits import ReadAllAvailable, ReadMaxFiles, SupportsTriggerAvailableNow
from halocline.source.stream_log import OPERATION, Position, StreamLog
from halocline.source.stream_offsets import Offset, StreamOffsets, beginning_is_lost
from halocline.source.stream_start import check_time
from halocline.source.writer import RowSink
from halocline.spark.scan.file_rows import FileRows, tasks
from halocline.spark.scan.packing import packed
from halocline.spark.types.columns import struct_of
from halocline.storage import open_store
from halocline.table.delta.opened import Opened
from halocline.table.delta.read import first_version_from

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_MOST_FILES = 1000
_ROWS = 10_000

ArrowStreamWriter: Any = getattr(spark_source, "DataSourceStreamArrowWriter", DataSourceStreamWriter)
"""What takes batches, where Spark hands them over."""


class DeltaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is added to a Delta table."""

    def __init__(self, asked: SourceOptions, schema: StructType, version: int | None) -> None:
        columns = asked.snapshot(CHANGES if asked.change_feed else OPERATION, version=version)
        self._asked = asked
        self._rows = FileRows.of(columns, struct_of(schema), zone=asked.zone, changes=asked.change_feed)
        self._log: StreamLog | None = StreamLog(columns, asked)
        self._last: int | None = None
        self._offsets = StreamOffsets(identity=("tableId",), order=("version", "index"))

    def __getstate__(self) -> dict[str, Any]:
        # Workers only read files.
        return {**self.__dict__, "_log": None}

    @property
    def _walked(self) -> StreamLog:
        assert self._log is not None, "workers do not walk the log"
        return self._log

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins."""
        return self._offsets.initial(self._first)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """How far the next micro-batch may go."""
        if start is None and (self._asked.most_files is not None or self._asked.most_bytes is not None):
            raise UnsupportedError(
                "this Spark does not limit micro-batches of a Python source",
                sides={"asked for": "maxFilesPerTrigger or maxBytesPerTrigger", "needed": "Spark 4.2 or later"},
                next_step="Leave the option out, or upgrade PySpark.",
            )
        takes_all = start is None or (ReadAllAvailable is not None and isinstance(limit, ReadAllAvailable))
        return self._offsets.planned(start, self._first, partial(self._reached, takes_all=takes_all))

    def getDefaultReadLimit(self) -> Any:
        """What a micro-batch takes at most."""
        return ReadMaxFiles(self._most_files)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """How far the table has come, for progress reports."""
        log = self._walked
        return Position(log.newest() + 1, -1, False, log.table).to_dict()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes how far the query goes before it ends."""
        self._last = self._walked.newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The files of a micro-batch, in parts of similar size."""
        begins = self._offsets.beginning(start, end, self._planned_before)
        return [FilePartition(part) for part in tasks(self._walked.files(Position.parse(begins), Position.parse(end)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return self._rows.read(partition.files if isinstance(partition, FilePartition) else [])

    def commit(self, end: dict[str, Any]) -> None:
        """Forgets versions that are done."""
        self._walked.forget(Position.parse(end))

    @property
    def _most_files(self) -> int:
        return self._asked.most_files or _MOST_FILES

    def _first(self) -> dict[str, Any]:
        """Where a query that begins now begins."""
        asked, log = self._asked, self._walked
        if asked.starting_timestamp is not None:
            opened = asked.opened(Opened)
            newest = opened.snapshot(OPERATION)
            first = first_version_from(newest, opened.milliseconds(asked.starting_timestamp))
            check_time(asked.starting_timestamp, first, newest.version, newest.store.root)
            return log.at_version(first).to_dict()
        if asked.starting_version == LATEST:
            return log.at_version(log.newest() + 1).to_dict()
        if asked.starting_version is not None:
            return log.at_version(int(asked.starting_version)).to_dict()
        return log.at_snapshot().to_dict()

    def _reached(self, begins: dict[str, Any] | None, *, takes_all: bool) -> dict[str, Any]:
        """How far a micro-batch may go that begins at a position; as far as the table if it is not known where."""
        log = self._walked
        if begins is None:
            return Position(log.newest() + 1, -1, False, log.table).to_dict()
        last = log.newest() if self._last is None else self._last
        limits = (None, None) if takes_all else (self._most_files, self._asked.most_bytes)
        return log.advanced(Position.parse(begins), last, *limits).to_dict()

    def _planned_before(self, start: Offset, end: Offset) -> dict[str, Any]:
        """Where a first micro-batch begins whose end does not say it; see `StreamOffsets.beginning`."""
        asked, last = self._asked, Position.parse(end)
        if asked.starting_version == LATEST:
            raise beginning_is_lost(self._walked.columns.store.root, "startingVersion", start, end)
        if asked.starting_version is not None or asked.starting_timestamp is not None:
            return dict(start)
        # It began with the rows of a version. Those of the last one that is whole in it are the same and what came.
        return Position(last.version - (not last.is_starting), -1, True, last.table).to_dict()


class DeltaStreamWriter(ArrowStreamWriter):  # type: ignore[misc]
    """Adds micro-batches to a Delta table, or puts each in place of all rows, once."""

    def __init__(self, sink: RowSink, schema: Struct, asked: SourceOptions) -> None:
        self._sink = sink
        self._schema = schema
        self._asked = asked

    @staticmethod
    def open(asked: SourceOptions, schema: Struct, *, overwrite: bool) -> DeltaStreamWriter:
        """Finds the table and checks that the rows fit."""
        check_identity(asked)
        return DeltaStreamWriter(RowSink.open(asked, schema, overwrite=overwrite, is_stream=True), schema, asked)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Writes the rows of one task into files that nobody knows yet."""
        return FilesMessage.of(self._sink, arrow_batches(iterator, self._schema))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Makes the files part of the table, unless this batch is in it already."""
        try:
            files = files_of(messages)
            app_id = identity(self._asked)
            replaces = self._sink.request.replacement is not None
            if not files and not self._sink.is_new and not replaces:
                return
            mode = "Complete" if replaces else "Append"
            parameters = {"outputMode": mode, "queryId": app_id, "epochId": str(batchId)}
            self._sink.commit(files, CommitDescription("STREAMING UPDATE", parameters, txn=(app_id, batchId)))
        except HaloclineError as error:
            if is_refused(error):
                self._sink.discard([file.path for file in written(messages)])
            raise

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Deletes the files if a task failed; if none did, `commit` has seen to them."""
        if None in messages:
            self._sink.discard([file.path for file in written(messages)])


def check_identity(asked: SourceOptions, *, overwrite: bool = False) -> None:
    """Refuses a stream that replaces rows, or whose batches could not be told from those of others.

    Raises:
        InputError: It has neither a name nor a checkpoint.
        UnsupportedError: It replaces rows.
    """
    if overwrite:
        raise UnsupportedError(
            "a stream only adds rows to a table",
            sides={"output mode": "complete", "possible": "append"},
            next_step='Use outputMode("append"), or foreachBatch with Table.overwrite.',
        )
    if asked.txn_app_id is None and asked.checkpoint is None:
        raise InputError(
            "the stream cannot be told apart from others",
            sides={"checkpointLocation": "not given as an option", "txnAppId": "not given"},
            next_step='Give .option("checkpointLocation", ...), or name the query with txnAppId.',
        )


def identity(asked: SourceOptions) -> str:
    """The name of the stream, or the id of the query that its checkpoint belongs to, which Spark keeps in it."""
    if asked.txn_app_id is not None:
        return asked.txn_app_id
    checkpoint = str(asked.checkpoint)
    try:
        return str(json.loads(open_store(checkpoint).get("metadata"))["id"])
    except (HaloclineError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            "the id of the query cannot be read from its checkpoint",
            sides={"checkpoint": checkpoint, "found": str(error).splitlines()[0][:200]},
            next_step="Name the query with txnAppId, and keep the name as long as the checkpoint.",
        ) from None


def arrow_batches(rows: Iterator[Any], schema: Struct) -> Iterator[pa.RecordBatch]:
    """What Spark hands over as batches: they are, or, before Spark 4.1, rows."""
    if ArrowStreamWriter is not DataSourceStreamWriter:
        yield from rows
        return
    import pyarrow as pa

    from halocline.schema.arrow import arrow_schema

    arrow = arrow_schema(schema.fields)
    for held in packed((row.asDict(recursive=True) for row in rows), lambda _: 1, _ROWS):
        yield pa.RecordBatch.from_pylist(held, arrow)

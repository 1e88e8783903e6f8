"""Delta tables through the data source: the rows of a version, or the changes of several, and batches written.

Streams of them are in `halocline.source.stream`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from halocline.errors import ConstraintError, HaloclineError
from halocline.formats.delta.snapshot.change_feed import OPERATION, ChangeFile, changes, column_source
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.commit import is_refused
from halocline.schema.types import Struct
from halocline.source.options import LATEST, OF_HUDI, OF_SEARCHES, Door, SourceOptions, names_for
from halocline.source.writer import RowSink
from halocline.spark.scan.file_rows import FileRows, live_files, shown_schema, tasks
from halocline.spark.types.columns import struct_of
from halocline.spark.write.arrow_write import WrittenFile
from halocline.table.delta.opened import Opened
from halocline.table.delta.read import first_version_from

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


OPTIONS: Final = frozenset(names_for(Door)) - OF_HUDI - OF_SEARCHES


def columns(asked: SourceOptions) -> tuple[Struct, int]:
    """The columns that are shown, and the version that they are of."""
    end = _end(asked)
    return shown_schema(_column_source(asked, end), changes=asked.change_feed), end.version


class FilePartition(InputPartition):
    """The files of one task."""

    def __init__(self, files: Sequence[ChangeFile]) -> None:
        super().__init__(None)
        self.files = list(files)


class DeltaReader(DataSourceReader):
    """Reads a version of a table, or the changes of several."""

    def __init__(self, asked: SourceOptions, schema: StructType, version: int | None) -> None:
        self._asked = asked.of_rows_or_changes()
        self._end = _end(asked, version)
        columns = _column_source(asked, self._end)
        self._rows = FileRows.of(columns, struct_of(schema), zone=asked.zone, changes=asked.change_feed)

    def __getstate__(self) -> dict[str, Any]:
        # Workers read files; what they need of the snapshot is in the rows already.
        return {"_rows": self._rows}

    def partitions(self) -> Sequence[InputPartition]:
        """The files, in parts of similar size."""
        end = self._end
        files = changes(end, _first(self._asked, end)) if self._asked.change_feed else live_files(end)
        return [FilePartition(part) for part in tasks(files)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return self._rows.read(partition.files if isinstance(partition, FilePartition) else [])


class FilesMessage(WriterCommitMessage):
    """What one task wrote, or which rule its rows break.

    A task that fails is tried again and fills Spark's log with stack traces, so a refusal is told rather than raised.
    """

    def __init__(self, files: Sequence[WrittenFile], refusal: ConstraintError | None = None) -> None:
        self.files = list(files)
        self.refusal = refusal

    @staticmethod
    def of(sink: RowSink, batches: Iterator[pa.RecordBatch]) -> FilesMessage:
        """Writes the rows of one task into files that nobody knows yet."""
        try:
            return FilesMessage(sink.write(batches))
        except ConstraintError as error:
            return FilesMessage([], error)


class DeltaWriter(DataSourceArrowWriter):
    """Writes the rows of one batch as one version, or nothing."""

    def __init__(self, asked: SourceOptions, schema: Struct, *, overwrite: bool) -> None:
        self._sink = RowSink.open(asked, schema, overwrite=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task into files that nobody knows yet."""
        return FilesMessage.of(self._sink, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Makes the files part of the table, or deletes them if they surely are not."""
        try:
            files = files_of(messages)
            self._sink.discard_others(files)
            self._sink.commit_batch(files)
        except HaloclineError as error:
            if is_refused(error):
                self._sink.discard_folder()
            raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deletes the files if a task failed; if none did, `commit` has seen to them."""
        if None in messages:
            self._sink.discard_folder()


def files_of(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenFile]:
    """All files of the tasks that succeeded.

    Raises:
        ConstraintError: Rows of one of them break a rule.
    """
    for message in messages:
        if isinstance(message, FilesMessage) and message.refusal is not None:
            raise message.refusal
    return written(messages)


def written(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenFile]:
    """The same, whether or not others break a rule."""
    return [file for message in messages if isinstance(message, FilesMessage) for file in message.files]


def _end(asked: SourceOptions, version: int | None = None) -> Snapshot:
    """The version to read; the last one of a range of changes."""
    if asked.change_feed and version is None:
        return asked.snapshot(OPERATION, version=asked.ending_version, timestamp=asked.ending_timestamp)
    return asked.snapshot(OPERATION if asked.change_feed else "read", **asked.at(version))


def _column_source(asked: SourceOptions, end: Snapshot) -> Snapshot:
    """The version whose columns are shown."""
    return column_source(end, asked.snapshot(OPERATION)) if asked.change_feed else end


def _first(asked: SourceOptions, end: Snapshot) -> int:
    """The first version of a range of changes."""
    if asked.starting_timestamp is not None:
        return first_version_from(end, asked.opened(Opened, end.store).milliseconds(asked.starting_timestamp))
    if asked.starting_version == LATEST:
        return end.version
    return int(asked.starting_version or 0)

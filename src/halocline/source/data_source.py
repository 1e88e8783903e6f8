"""Tables as a Spark data source: `spark.read.format("halocline")`, `df.write.format("halocline")`, and streams of both.

The source is a convenience for notebooks, SQL and streaming. It reads through Python workers, and Spark tells it
neither which columns nor which rows a query wants: `Table.to_df` reads the same rows natively and many times faster. A
DataFrame stands for the version that was the newest when it was analysed: made, on classic Spark; run, on Connect.

Spark finds the source by itself when Halocline is installed where Spark runs, through the module `pyspark_halocline`.
Where it does not, `register(spark)` makes it known to a session.

What Spark runs of a source, it runs outside of the session: settings are taken from options, or from those that the
session had when the source was registered, and no SQL can be evaluated. Tables whose rules need SQL are written with
`Table.append`.
"""

from __future__ import annotations

import importlib.util
import os
import site
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from halocline.errors import ConstraintError, SchemaError, UnsupportedError
from halocline.formats.base import TableFormat, formats_at
from halocline.formats.delta.snapshot.change_feed import OPERATION, ChangeFile, changes, column_source
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.schema import Struct
from halocline.schema.visitor import nullable
from halocline.source import hudi, index
from halocline.source.hudi_writer import HudiWriter
from halocline.source.options import LATEST, Door, SourceOptions
from halocline.source.search_function import register_search
from halocline.source.writer import RowSink
from halocline.spark.scan.file_rows import FileRows, live_files, shown_schema, tasks
from halocline.spark.session.session import is_connect, remembered
from halocline.spark.session.settings import Settings
from halocline.spark.session.worker_python import check_worker_python
from halocline.spark.types.columns import spark_schema, struct_of
from halocline.spark.write.arrow_write import WrittenFile
from halocline.table.delta.read import first_version_from

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

NAME = "halocline"


def register(spark: SparkSession, settings: Settings | None = None) -> None:
    """Makes the source known to a session, with settings that hold unless options say otherwise.

    The table function `halocline_search` comes with it; see `halocline.source.search_function`.

    Args:
        spark: The session.
        settings: The settings; those that the session has now if not given.

    Raises:
        UnsupportedError: Spark's workers run a Python that does not find Halocline.

    Example:
        >>> register(spark)  # doctest: +SKIP
        >>> spark.read.format("halocline").load("lake/orders").show()  # doctest: +SKIP
    """
    check_worker_python(spark)
    given = (settings or Settings.read(spark=spark)).given()
    registered: list[dict[str, str]] = remembered(spark, "data source", list)
    searching: list[dict[str, str]] = remembered(spark, "search function", list)
    if given not in searching:
        register_search(spark, given)
        searching[:] = [given]
    if given in registered or (not (given or registered or is_connect(spark)) and _is_installed()):
        return
    # A class of its own carries the settings to the processes in which Spark runs the source.
    source = type(HaloclineSource.__name__, (HaloclineSource,), {"session_settings": given})
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        # Spark 4.0 keeps the source that it found by itself, which reads no settings of a session.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        if given:
            raise UnsupportedError(
                "this release of Spark cannot give settings of a session to a data source that it found by itself",
                sides={"settings": ", ".join(sorted(given)), "Spark": spark.version},
                next_step="give them as options of the read or write, or use a later release of Spark",
            ) from None
    registered[:] = [given]


def _is_installed() -> bool:
    """Whether every Python process finds the source by itself; Spark warns of sources that replace one it found."""
    found = importlib.util.find_spec("pyspark_halocline")
    everywhere = [*site.getsitepackages(), site.getusersitepackages(), *os.environ.get("PYTHONPATH", "").split(":")]
    places = {os.path.realpath(place) for place in everywhere if place}
    return found is not None and os.path.realpath(os.path.dirname(os.path.dirname(found.origin or ""))) in places


class HaloclineSource(DataSource):
    """The data source. Spark makes it; see `halocline.source.options` for its options.

    Attributes:
        session_settings: The settings that hold unless options say otherwise.
    """

    session_settings: ClassVar[Mapping[str, str]] = {}

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        session = {name.lower(): value for name, value in self.session_settings.items()}
        self._asked = SourceOptions.read({**session, **options})
        self._version: int | None = None

    @cached_property
    def _format(self) -> TableFormat:
        """The format of the table; that of new ones if there is none yet."""
        found = formats_at(self._asked.store())
        format = found[0] if len(found) == 1 else TableFormat.DELTA
        self._asked.of_format(format)
        return format

    @classmethod
    def name(cls) -> str:
        """What comes after `format`."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the version that is read, which is fixed from here on."""
        asked = self._asked.through(Door.READ, Door.STREAM_READ)
        if self._format is TableFormat.HUDI:
            snapshot = hudi.end_of(asked)
            self._version = None if asked.follow else snapshot.version
            return cast(StructType, spark_schema(hudi.shown_columns(asked, snapshot).fields))
        if self._format is TableFormat.INDEX:
            version = index.end_of(asked)
            self._version = version.version
            return cast(StructType, spark_schema(nullable(version.schema).fields))
        end = _end(asked)
        self._version = None if asked.follow else end.version
        shown = shown_schema(_column_source(self._asked, end), changes=self._asked.change_feed)
        return cast(StructType, spark_schema(shown.fields))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the rows of one version, or the changes of several."""
        asked = self._asked.through(Door.READ)
        if asked.follow:
            return FollowingReader(self._format, asked, schema)
        if self._format is TableFormat.HUDI:
            return hudi.HudiReader(asked, schema, self._version)
        if self._format is TableFormat.INDEX:
            return index.IndexReader(asked, schema, self._version)
        return TableReader(asked.of_rows_or_changes(), schema, self._version)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Appends rows, or puts them in place of all others."""
        asked = self._asked.through(Door.WRITE)
        if self._format is TableFormat.HUDI:
            return HudiWriter.open(asked, struct_of(schema), overwrite=overwrite)
        if self._format is TableFormat.INDEX:
            from halocline.source.index_writer import IndexWriter

            return IndexWriter.open(asked, struct_of(schema), overwrite=overwrite)
        return TableWriter(RowSink.open(asked, struct_of(schema), overwrite=overwrite))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Reads what is added to the table, version by version."""
        from halocline.source.stream import TableStreamReader

        asked = self._asked.through(Door.STREAM_READ)
        if self._format is TableFormat.HUDI:
            return hudi.HudiStreamReader(asked, schema)
        if self._format is TableFormat.INDEX:
            return index.IndexStreamReader(asked, schema)
        return TableStreamReader(asked, schema, self._version)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Appends micro-batches, each once."""
        from halocline.source.hudi_stream import HudiStreamWriter
        from halocline.source.stream import TableStreamWriter

        asked = self._asked.through(Door.STREAM_WRITE)
        if self._format is TableFormat.HUDI:
            return cast(DataSourceStreamWriter, HudiStreamWriter.open(asked, struct_of(schema), overwrite=overwrite))
        if self._format is TableFormat.INDEX:
            from halocline.source.index_writer import IndexStreamWriter

            return cast(DataSourceStreamWriter, IndexStreamWriter.open(asked, struct_of(schema), overwrite=overwrite))
        return TableStreamWriter.open(asked, struct_of(schema), overwrite=overwrite)


class FilePartition(InputPartition):
    """The files of one task."""

    def __init__(self, files: Sequence[ChangeFile]) -> None:
        super().__init__(None)
        self.files = list(files)


class TableReader(DataSourceReader):
    """Reads a version of a table, or the changes of several."""

    def __init__(self, asked: SourceOptions, schema: StructType, version: int | None) -> None:
        self._asked = asked
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


class FollowingReader(DataSourceReader):
    """Reads the version that is the newest when a query runs.

    Spark plans a source once for all queries on a view, so the version cannot be chosen there. One task reads it, since
    several might each find another version to be the newest.
    """

    def __init__(self, format: TableFormat, asked: SourceOptions, schema: StructType) -> None:
        self._format, self._asked, self._schema = format, asked, schema

    def partitions(self) -> Sequence[InputPartition]:
        """One task, once it is known that the table may be read."""
        self._now(self._asked)
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the moment. A worker opens no channel to a fleet; the planning has told it of the use."""
        reader = self._now(replace(self._asked, settings=replace(self._asked.settings, fleet="")))
        return (batch for part in reader.partitions() for batch in reader.read(part))

    def _now(self, asked: SourceOptions) -> TableReader | hudi.HudiReader:
        columns = struct_of(self._schema)
        if self._format is TableFormat.HUDI:
            _check_columns(asked.path, hudi.shown_columns(asked, hudi.end_of(asked)), columns)
            return hudi.HudiReader(asked, self._schema, None)
        end = _end(asked)
        _check_columns(asked.path, shown_schema(end), columns)
        return TableReader(asked, self._schema, end.version)


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


class TableWriter(DataSourceArrowWriter):
    """Writes the rows of one batch as one version, or nothing."""

    def __init__(self, sink: RowSink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task into files that nobody knows yet."""
        return FilesMessage.of(self._sink, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Makes the files part of the table."""
        files = files_of(messages)
        self._sink.discard_others(files)
        self._sink.commit_batch(files)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deletes the files, unless they made it into the table."""
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
    if asked.change_feed:
        if version is None:
            return asked.snapshot(OPERATION, version=asked.ending_version, timestamp=asked.ending_timestamp)
        return asked.snapshot(OPERATION, version=version)
    if version is None:
        return asked.snapshot("read", version=asked.version, timestamp=asked.timestamp)
    return asked.snapshot("read", version=version)


def _check_columns(table: str, now: Struct, schema: Struct) -> None:
    """Makes sure that the newest version still has the columns that a query was made for."""
    for field in schema.fields:
        found = now.get(field.name)
        if found is None or found.type != field.type:
            raise SchemaError(
                f"the columns of {table} have changed since its view was made",
                sides={
                    "view": f"{field.name} {field.type}",
                    "table": "no such column" if found is None else str(found.type),
                },
                next_step="Register the view again.",
            )


def _column_source(asked: SourceOptions, end: Snapshot) -> Snapshot:
    """The version whose columns are shown."""
    return column_source(end, asked.snapshot(OPERATION)) if asked.change_feed else end


def _first(asked: SourceOptions, end: Snapshot) -> int:
    """The first version of a range of changes."""
    if asked.starting_timestamp is not None:
        return first_version_from(end, asked.opened(end.store).milliseconds(asked.starting_timestamp))
    if asked.starting_version == LATEST:
        return end.version
    return int(asked.starting_version or 0)

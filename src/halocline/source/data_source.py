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
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from halocline.errors import SchemaError, UnsupportedError
from halocline.formats.base import TableFormat, formats_at
from halocline.schema import Struct
from halocline.source import delta, hudi, index
from halocline.source.delta import DeltaReader, DeltaWriter
from halocline.source.format_source import FormatSource
from halocline.source.hudi import HudiReader, HudiStreamReader
from halocline.source.hudi_stream import HudiStreamWriter
from halocline.source.hudi_writer import HudiWriter
from halocline.source.index import IndexReader, IndexStreamReader
from halocline.source.index_writer import IndexStreamWriter, IndexWriter
from halocline.source.options import Door, SourceOptions
from halocline.source.search_function import register_search
from halocline.source.stream import DeltaStreamReader, DeltaStreamWriter
from halocline.spark.session.session import check_running, is_connect, remembered
from halocline.spark.session.settings import Settings
from halocline.spark.session.worker_python import check_worker_python
from halocline.spark.types.columns import spark_schema, struct_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES: Final[Mapping[TableFormat, FormatSource]] = {
    TableFormat.DELTA: FormatSource(
        delta.OPTIONS, delta.columns, DeltaReader, DeltaWriter, DeltaStreamReader, DeltaStreamWriter.open
    ),
    TableFormat.HUDI: FormatSource(
        hudi.OPTIONS, hudi.columns, HudiReader, HudiWriter.open, HudiStreamReader, HudiStreamWriter.open
    ),
    TableFormat.INDEX: FormatSource(
        index.OPTIONS, index.columns, IndexReader, IndexWriter.open, IndexStreamReader, IndexStreamWriter.open
    ),
}

NAME = "halocline"


def register(spark: SparkSession, settings: Settings | None = None) -> None:
    """Makes the source known to a session, with settings that hold unless options say otherwise.

    The table function `halocline_search` comes with it; see `halocline.source.search_function`.

    Args:
        spark: The session.
        settings: The settings; those that the session has now if not given.

    Example:
        >>> register(spark)  # doctest: +SKIP
        >>> spark.read.format("halocline").load("lake/orders").show()  # doctest: +SKIP
    """
    check_running(spark)
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
    def _source(self) -> FormatSource:
        """What the format of the table offers; that of new ones if there is none yet."""
        found = formats_at(self._asked.store())
        format = found[0] if len(found) == 1 else TableFormat.DELTA
        source = SOURCES[format]
        self._asked.known_to(format, source.options)
        return source

    @classmethod
    def name(cls) -> str:
        """What comes after `format`."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the version that is read, which is fixed from here on."""
        asked = self._asked.through(Door.READ, Door.STREAM_READ)
        columns, version = self._source.columns(asked)
        self._version = None if asked.follow else version
        return cast(StructType, spark_schema(columns.fields))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the rows of one version, or the changes of several."""
        asked = self._asked.through(Door.READ)
        if asked.follow:
            return FollowingReader(self._source, asked, schema)
        return self._source.reader(asked, schema, self._version)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Appends rows, or puts them in place of all others."""
        return self._source.writer(self._asked.through(Door.WRITE), struct_of(schema), overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Reads what is added to the table, version by version."""
        return self._source.stream_reader(self._asked.through(Door.STREAM_READ), schema, self._version)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Appends micro-batches, each once."""
        asked = self._asked.through(Door.STREAM_WRITE)
        return self._source.stream_writer(asked, struct_of(schema), overwrite=overwrite)


class FollowingReader(DataSourceReader):
    """Reads the version that is the newest when a query runs.

    Spark plans a source once for all queries on a view, so the version cannot be chosen there. One task reads it, since
    several might each find another version to be the newest.
    """

    def __init__(self, source: FormatSource, asked: SourceOptions, schema: StructType) -> None:
        self._source, self._asked, self._schema = source, asked, schema

    def partitions(self) -> Sequence[InputPartition]:
        """One task, once it is known that the table may be read."""
        self._now(self._asked)
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of the moment. A worker opens no channel to a fleet; the planning has told it of the use."""
        reader = self._now(replace(self._asked, settings=replace(self._asked.settings, fleet="")))
        return (batch for part in reader.partitions() for batch in reader.read(part))

    def _now(self, asked: SourceOptions) -> DataSourceReader:
        columns, version = self._source.columns(asked)
        _check_columns(asked.path, columns, struct_of(self._schema))
        return self._source.reader(asked, self._schema, version)


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

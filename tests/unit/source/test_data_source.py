"""The data source without Spark: what it does for the tables of every format, in the way that Spark asks it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import IntegerType, StructType
from tests.support.hudi_tables import HudiTableMaker
from tests.support.hudi_tables import rows as hudi_rows
from tests.support.index_tables import table_of

from halocline.errors import InputError, SchemaError
from halocline.formats.base import TableFormat
from halocline.formats.hudi.configuration import TableType
from halocline.schema.types import Field, Primitive, Struct
from halocline.source.data_source import SOURCES, HaloclineSource
from halocline.source.options import SourceOptions
from halocline.source.writer import RowSink
from halocline.storage import open_store


def delta_table(path: Path) -> pa.RecordBatch:
    """Four rows, and two more for later."""
    columns = Struct([Field("id", Primitive("long"))])
    sink = RowSink.open(SourceOptions.read({"path": str(path)}), columns, overwrite=False)
    sink.commit_batch(sink.write(iter([pa.record_batch({"id": range(4)})])))
    return pa.record_batch({"id": [7, 8]})


def hudi_table(path: Path) -> pa.RecordBatch:
    """The same, of Hudi."""
    HudiTableMaker.create(open_store(path), 8, TableType.COPY_ON_WRITE).upsert(range(4), 100, "a")
    return hudi_rows([7, 8], 200, "b").to_batches()[0]


def index_table(path: Path) -> pa.RecordBatch:
    """The same, of an index table."""
    rows = [{"id": number} for number in range(4)]
    table_of(rows, columns=Struct([Field("id", Primitive("long"))]), options={}, store=open_store(path))
    return pa.record_batch({"id": [7, 8]})


TABLES = {TableFormat.DELTA: delta_table, TableFormat.HUDI: hudi_table, TableFormat.INDEX: index_table}


def source(path: Path, **options: str) -> HaloclineSource:
    return HaloclineSource({"path": str(path), **options})


def sent(what):
    """The same in another process, as Spark sends it there."""
    return pickle.loads(cloudpickle.dumps(what))


def read(reader, *between) -> int:
    """How many rows tasks read."""
    parts = sent(reader.partitions(*between))
    worker = sent(reader)
    return sum(batch.num_rows for part in parts for batch in worker.read(part))


def counted(path: Path, **options: str) -> int:
    asked = source(path, **options)
    return read(asked.reader(asked.schema()))


def test_every_format_has_its_readers_and_writers():
    assert set(SOURCES) == set(TABLES) == set(TableFormat)


@pytest.mark.parametrize("format", TABLES, ids=str)
def test_rows_are_read_written_and_streamed_through_one_source(format, tmp_path):
    more = TABLES[format](tmp_path)
    assert counted(tmp_path) == 4
    schema = StructType([field for field in source(tmp_path).schema() if field.name in more.schema.names])
    stream = source(tmp_path).streamReader(schema)
    start = stream.initialOffset()
    first = stream.latestOffset(start)
    assert read(stream, start, first) == 4, "a stream begins with what is there"
    writer = source(tmp_path).writer(schema, overwrite=False)
    writer.commit([sent(writer).write(iter([more]))])
    assert counted(tmp_path) == 6
    last = stream.latestOffset(first)
    assert read(stream, first, last) == 2, "and goes on with what is added"
    assert stream.latestOffset(last) == last
    with pytest.raises(InputError, match="an option for writing"):
        source(tmp_path, txnAppId="app").schema()


@pytest.mark.parametrize("format", TABLES, ids=str)
def test_what_follows_its_table_reads_the_newest_version_or_says_that_columns_are_gone(format, tmp_path):
    more = TABLES[format](tmp_path)
    following = source(tmp_path, follow="true")
    schema = following.schema()
    reader = following.reader(schema)
    assert read(reader) == 4
    writer = source(tmp_path).writer(
        StructType([field for field in schema if field.name in more.schema.names]), overwrite=False
    )
    writer.commit([writer.write(iter([more]))])
    assert read(reader) == 6
    with pytest.raises(SchemaError, match="have changed since its view was made"):
        following.reader(schema.add("gone", IntegerType())).partitions()


@pytest.mark.parametrize(
    ("format", "option"),
    [(TableFormat.DELTA, "query"), (TableFormat.HUDI, "maxFilesPerTrigger"), (TableFormat.INDEX, "readChangeFeed")],
    ids=str,
)
def test_options_that_mean_nothing_for_a_format_are_refused_by_name(format, option, tmp_path):
    TABLES[format](tmp_path)
    value = {"query": "snapshot", "maxFilesPerTrigger": "1", "readChangeFeed": "true"}[option]
    with pytest.raises(InputError, match=f"{option} means nothing for a"):
        source(tmp_path, **{option: value}).schema()

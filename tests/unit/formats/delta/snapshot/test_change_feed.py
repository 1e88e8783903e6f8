"""Ranges of changes whose columns differ: what cannot be shown by those of the last version is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from halocline.errors import HaloclineError
from halocline.source.data_source import HaloclineSource
from halocline.table import Table

FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def path(tmp_path):
    """A table with a row of each of two versions."""
    path = str(tmp_path / "t")
    table = Table.create(path, pa.table({"id": [1], "v": ["a"]}), partition_by=["v"], properties=FEED)
    table.append_arrow(pa.table({"id": [2], "v": ["b"]}))
    return path


def overwrite(path, rows, **options):
    """Gives the table other columns."""
    types = {pa.int64(): LongType(), pa.string(): StringType()}
    schema = StructType([StructField(each.name, types[each.type]) for each in rows.schema])
    writer = HaloclineSource({"path": path, "overwriteschema": "true", **options}).writer(schema, overwrite=True)
    writer.commit([writer.write(iter(rows.to_batches()))])


def feed(path, first, last):
    options = {"path": path, "readchangefeed": "true", "startingversion": str(first), "endingversion": str(last)}
    source = HaloclineSource(options)
    reader = source.reader(source.schema())
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    return sorted((row["id"], row.get("v"), row["_change_type"]) for row in rows)


@pytest.mark.parametrize(
    ("rows", "options", "told"),
    [
        ({"id": [3], "v": ["c"]}, {"partitionby": "id"}, "partition column"),
        ({"id": ["3"], "v": ["c"]}, {}, "id became string"),
    ],
    ids=["partition", "type"],
)
@pytest.mark.parametrize("first", [0, 1, 2])
def test_changes_of_files_that_do_not_hold_what_is_shown_are_refused(path, rows, options, told, first):
    """Also those of the version that changes the columns: it takes files away that the ones of before were put into."""
    overwrite(path, pa.table(rows), **options)
    with pytest.raises(HaloclineError, match=told) as caught:
        feed(path, first, 2)
    assert caught.value.condition == "CHANGE_FEED_SCHEMA_CHANGED"
    assert feed(path, 0, 1) == [(1, "a", "insert"), (2, "b", "insert")]


def test_rows_that_an_overwrite_takes_away_are_shown_by_the_columns_that_stay(tmp_path):
    path = str(tmp_path / "t")
    Table.create(path, pa.table({"id": [1], "v": ["a"]}), properties=FEED)
    overwrite(path, pa.table({"id": [3]}))
    assert feed(path, 1, 1) == [(1, None, "delete"), (3, None, "insert")]

"""Conditions in sessions that read quotes in SQL text in a way of their own."""

from __future__ import annotations

import pytest

import halocline as hc
from halocline import Table
from halocline.errors import InputError
from halocline.spark.session.session import settings

pytestmark = [pytest.mark.connect, pytest.mark.filterwarnings("ignore:The SQL config 'spark.sql.parser")]

COLUMNS = "id INT, s STRING, name STRING"
ROWS = [(1, "a\\bc", "z"), (2, "it's", "name"), (3, "its", "k")]
BACKSLASHES = {"spark.sql.parser.escapedStringLiterals": "true"}
QUOTES = {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "true"}
READINGS = [
    pytest.param(BACKSLASHES, r"s = 'a\bc'", id="backslashes"),
    pytest.param(QUOTES, "\"name\" = 'z'", id="names of text"),
    pytest.param(QUOTES, '"id" < 2', id="names of numbers"),
]
DELTA = {
    "plain": {},
    "vectors": {"properties": {"delta.enableDeletionVectors": "true"}},
    "partitions": {"partition_by": ["s", "name"]},
}
KINDS = {**DELTA, "index": {"format": "index"}}


@pytest.fixture
def filled(tmp_path, spark):
    def made(kind):
        table = Table.create(tmp_path / "t", COLUMNS, spark, **KINDS[kind])
        for row in ROWS:
            table.append(spark.createDataFrame([row], COLUMNS).coalesce(1))
        return table

    return made


def ids(df):
    return sorted(row.id for row in df.select("id").collect())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("session", "where"), READINGS)
def test_rows_are_those_that_the_session_means(session, where, kind, filled, spark):
    table = filled(kind)
    with settings(spark, session):
        assert ids(table.to_df(where=where)) == [1]
        assert ids(hc.sql(spark, f"SELECT id FROM {table.format}.`{table.url}` WHERE {where}")) == [1]
        table.delete(where)
    assert ids(table.to_df()) == [2, 3]


@pytest.mark.parametrize("kind", DELTA)
@pytest.mark.parametrize(("session", "where"), READINGS)
def test_changes_take_the_rows_that_the_session_means(session, where, kind, filled, spark):
    table = filled(kind)
    source = spark.createDataFrame([(-8, *ROWS[0][1:])], "new INT, its STRING, called STRING")
    with settings(spark, session):
        table.update({"id": "-id"}, where)
        assert ids(table.to_df()) == [-1, 2, 3]
        table.merge(source, f"s = its AND {where}").when_matched_update(set={"id": "new"}).execute()
        assert ids(table.to_df()) == [-8, 2, 3]
        table.overwrite(spark.createDataFrame([(-9, *ROWS[0][1:])], COLUMNS), where=where)
    assert ids(table.to_df()) == [-9, 2, 3]


def test_compaction_takes_the_partitions_that_the_session_means(filled, spark):
    table = filled("partitions")
    table.append(spark.createDataFrame([(4, *ROWS[0][1:])], COLUMNS).coalesce(1))
    with settings(spark, BACKSLASHES):
        with pytest.raises(InputError, match="speaks of more than partitions"):
            table.optimize().where(r"s = 'a\bc' AND id = 1").execute_compaction()
        done = table.optimize().where(r"s = 'a\bc'").execute_compaction()
    assert done.metrics["numRemovedFiles"] == 2


@pytest.mark.parametrize(("session", "where"), READINGS)
def test_searches_find_the_rows_that_the_session_means(session, where, filled, spark):
    table = filled("index")
    with settings(spark, session):
        assert ids(table.search("id:[1 TO 3]", where=where)) == [1]
        assert "it alone understands" in str(table.explain_search("id:[1 TO 3]", where=where))


@pytest.mark.parametrize(("session", "where"), READINGS)
@pytest.mark.parametrize("by", ["s", "name", "id"])
def test_hudi_tables_show_the_rows_that_the_session_means(by, session, where, tmp_path, spark):
    key = "name" if by == "id" else "id"
    table = Table.create(tmp_path / "t", COLUMNS, spark, format="hudi", keys=key, partition_by=by)
    table.append(spark.createDataFrame(ROWS, COLUMNS))
    with settings(spark, session):
        assert ids(table.to_df(where=where)) == [1]


def test_text_that_every_session_reads_alike_leaves_files_out(filled, tmp_path, spark):
    table = filled("plain")
    for path in table.snapshot().files("id < 3", ["path"])["path"].to_pylist():
        (tmp_path / "t" / path).unlink()
    with settings(spark, BACKSLASHES | QUOTES):
        assert ids(table.to_df(where="s = 'its'")) == [3]

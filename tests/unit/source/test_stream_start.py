"""A stream begins at a time that the table has come to, and says what its log has lost."""

from __future__ import annotations

import pytest
from tests.support.columns import field

from halocline.errors import NotFoundError
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.formats.index.transaction import IndexTransaction
from halocline.formats.log.names import INDEX
from halocline.schema import Struct
from halocline.source.index import IndexStreamReader
from halocline.source.options import SourceOptions
from halocline.source.stream import DeltaStreamReader
from halocline.source.stream_start import commit_bytes
from halocline.spark.types.columns import spark_schema
from halocline.storage import open_store

COLUMNS = Struct([field("id", "long")])
READERS = {"delta": DeltaStreamReader, "index": IndexStreamReader}


def reader(path, kind, **options):
    store = open_store(str(path))
    if kind == "delta":
        Transaction.create(store).commit((), "CREATE TABLE", configuration=new_table(COLUMNS, (), {}))
    else:
        IndexTransaction.create(store, COLUMNS).commit([], "CREATE TABLE")
    asked = SourceOptions.read({"path": str(path), **options})
    return READERS[kind](asked, spark_schema(COLUMNS.fields), None)


@pytest.mark.parametrize("kind", READERS)
def test_a_stream_from_a_time_to_come_is_refused_rather_than_begun_too_early(tmp_path, kind):
    with pytest.raises(NotFoundError, match="2999-01-01") as caught:
        reader(tmp_path, kind, startingtimestamp="2999-01-01").initialOffset()
    assert caught.value.condition == "VERSION_NOT_FOUND"
    assert "startingVersion latest" in str(caught.value)


@pytest.mark.parametrize("kind", READERS)
def test_a_stream_from_a_time_before_the_table_begins_with_its_first_version(tmp_path, kind):
    begins = reader(tmp_path, kind, startingtimestamp="2001-01-01").initialOffset()
    assert begins["version"] == {"delta": 0, "index": -1}[kind], "a Delta stream is at a version, the other before it"


def test_a_commit_that_the_log_has_lost_is_named_with_what_to_do(tmp_path):
    store = open_store(str(tmp_path))
    with pytest.raises(NotFoundError, match="no longer holds version 1") as caught:
        commit_bytes(store, INDEX.commit_path(1), 1)
    assert caught.value.condition == "VERSION_NOT_FOUND"
    assert "new checkpoint" in str(caught.value)

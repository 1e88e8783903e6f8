"""Writers of index tables through the data source that change columns at once: one lands, the other is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.index_tables import rows_of, table_of
from tests.support.late_answers import LateAnswers

from halocline.errors import ConflictError, UnavailableError
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.schema.types import Field, Primitive, Struct
from halocline.source.index_writer import IndexWriter, SplitBatch
from halocline.source.options import SourceOptions
from halocline.storage import open_store

ID = Field("id", Primitive("long"))


@pytest.fixture
def path(tmp_path):
    table_of([{"id": 0}, {"id": 1}], columns=Struct([ID]), options={}, store=open_store(tmp_path))
    return tmp_path


class Writer:
    """One writer of rows with a column of its own, or with none."""

    def __init__(self, path, first: int, column: str = "", type: str = "string", **options: str) -> None:
        extra = [Field(column, Primitive(type))] if column else []
        told = {"path": str(path), **({"mergeSchema": "true"} if column else {}), **options}
        self.batch = SplitBatch.begun(SourceOptions.read(told), Struct([ID, *extra]), replaces=False)
        values = {"string": ["x", "y"], "long": [7, 8]}
        rows = {"id": [first, first + 1], **({column: values[type]} if column else {})}
        self.message = self.batch.write(iter([pa.record_batch(rows)]))

    def commit(self) -> None:
        self.batch.commit([self.message], "WRITE", None)


def state(path):
    snapshot = IndexSnapshot.load(open_store(path))
    files = [meta.path for meta in snapshot.store.list() if meta.path.endswith(".parquet")]
    assert sorted(files) == sorted(snapshot.files), "a refused write leaves no split behind"
    return list(snapshot.schema.names), sorted(rows_of(snapshot, "id"))


@pytest.mark.parametrize(("column", "type"), [("code", "string"), ("note", "long")])
def test_of_two_who_add_columns_at_once_the_second_is_refused_and_lands_when_it_begins_again(path, column, type):
    one, other = Writer(path, 10, "note"), Writer(path, 20, column, type)
    one.commit()
    with pytest.raises(ConflictError, match="changed while rows were written"):
        other.commit()
    assert state(path) == (["id", "note"], [0, 1, 10, 11])
    if column == "code":
        Writer(path, 20, column, type).commit()
        assert state(path) == (["id", "note", "code"], [0, 1, 10, 11, 20, 21])


def test_two_who_add_the_same_column_both_land(path):
    one, other = Writer(path, 10, "note"), Writer(path, 20, "note")
    one.commit()
    other.commit()
    assert state(path) == (["id", "note"], [0, 1, 10, 11, 20, 21])


def test_rows_of_before_do_not_land_on_columns_of_after_and_the_other_way_round_they_do(path):
    plain, grown = Writer(path, 10), Writer(path, 20, "note")
    grown.commit()
    with pytest.raises(ConflictError):
        plain.commit()
    assert state(path) == (["id", "note"], [0, 1, 20, 21])
    plain, grown = Writer(path, 30), Writer(path, 40, "code")
    plain.commit()
    grown.commit()
    assert state(path) == (["id", "note", "code"], [0, 1, 20, 21, 30, 31, 40, 41])


def test_splits_stay_if_nobody_knows_whether_they_were_committed(path, monkeypatch):
    writer = Writer(path, 10)
    late = LateAnswers(monkeypatch, lambda name: name.endswith(".json"))
    with pytest.raises(UnavailableError, match="may still take effect"):
        writer.commit()
    IndexWriter(writer.batch, None).abort([writer.message])  # as Spark does when a commit raises
    late.arrive()
    assert state(path) == (["id"], [0, 1, 10, 11])

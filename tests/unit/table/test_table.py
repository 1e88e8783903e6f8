"""One door to tables of every format: the class of the format, its verbs, and how often the log is read."""

from __future__ import annotations

import copy

import polars
import pyarrow as pa
import pytest
from tests.support.columns import schema

from halocline.errors import InputError, MissingVerbError, NotFoundError, UnsupportedError
from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage import open_store
from halocline.storage.memory import MemoryStore
from halocline.table import DeltaLakeTable, Table


@pytest.fixture
def url(request) -> str:
    """A table with one file."""
    url = f"memory://{request.node.name}/orders"
    Transaction.create(open_store(url)).commit((), "CREATE TABLE", configuration=new_table(schema("id")))
    append(url, "a.parquet")
    return url


def append(url: str, name: str) -> None:
    snapshot = Snapshot.load(open_store(url))
    Transaction(snapshot).commit([Add(name, {}, 9, 1, True)], "WRITE")


@pytest.fixture
def fetched(monkeypatch) -> list[str]:
    """The objects that were read, one after the other."""
    seen: list[str] = []
    real = MemoryStore.fetch

    def fetch(store, path):
        seen.append(path)
        return real(store, path)

    monkeypatch.setattr(MemoryStore, "fetch", fetch)
    return seen


def test_a_path_gives_the_class_of_its_format(url):
    table = Table.for_path(url)
    assert isinstance(table, DeltaLakeTable)
    assert type(DeltaLakeTable.for_path(url)) is type(table)
    assert repr(table) == f"DeltaLakeTable('{url}')"


def test_a_format_without_a_class_is_refused_by_name(tmp_path):
    with pytest.raises(InputError, match="parquet") as refused:
        Table.create(tmp_path / "new", "id BIGINT", format="parquet")
    assert refused.value.sides["known"] == "delta, hudi, index"


def test_a_verb_that_the_format_lacks_names_the_nearest_one(url):
    table = Table.for_path(url)
    with pytest.raises(UnsupportedError, match="delta tables have no 'optimise'") as refused:
        table.optimise()
    assert refused.value.next_step == "Use optimize."
    with pytest.raises(MissingVerbError) as refused:
        table.xyzzy()
    assert "optimize" in refused.value.next_step


def test_looking_for_an_attribute_that_is_missing_is_no_surprise_to_python(url):
    table = Table.for_path(url)
    assert not hasattr(table, "optimise")
    assert not hasattr(table, "_repr_markdown_")
    assert copy.copy(table).url == url


def test_verbs_show_the_signature_and_the_words_of_their_function():
    from inspect import signature

    assert list(signature(DeltaLakeTable.delete).parameters) == ["table", "where", "target_alias"]
    assert "Deletes the rows" in DeltaLakeTable.delete.__doc__


def test_opening_and_the_first_verb_read_the_log_once(url, fetched):
    table = Table.for_path(url)
    assert fetched
    fetched.clear()
    assert table.snapshot("write").version == 1
    assert [path[-6:] for path in fetched] == ["2.json", "1.json"], "a newer version, and whether its own is there"
    table.snapshot()
    assert fetched, "later calls look again"


def test_a_version_committed_after_opening_is_seen_by_the_first_verb(url):
    table = Table.for_path(url)
    append(url, "b.parquet")
    assert table.snapshot().version == 2
    append(url, "c.parquet")
    assert table.snapshot().version == 3


def test_the_snapshot_of_the_opening_is_checked_again_for_the_verb(url):
    table = Table.for_path(url, release="deltalake@1.0.2")
    assert table.snapshot("write").operation == "write"


@pytest.mark.parametrize("ask", [lambda t: t.can("trino@426"), lambda t: t.features(), lambda t: t.protocol])
def test_what_is_said_of_a_table_comes_from_one_version(url, fetched, ask):
    table = Table.for_path(url)
    fetched.clear()
    ask(table)
    assert len(fetched) == len(set(fetched)), f"read twice: {fetched}"


def test_every_way_to_a_table_knows_its_options(url):
    assert Table.is_table(url, {"halocline.scan.mode": "paths", "aws_region": "eu"})
    assert Table.for_path(url, options={"AWS_REGION": "eu"}).snapshot().terms == Table.for_path(url).terms
    for ask in (Table.is_table, lambda url, given: Table.for_path(url, options=given)):
        with pytest.raises(InputError, match="no option versionAsOff"):
            ask(url, {"versionAsOff": "0"})
        with pytest.raises(InputError, match="is not a setting"):
            ask(url, {"halocline.scan.mod": "paths"})


def test_no_table_is_not_found(tmp_path):
    with pytest.raises(NotFoundError, match="no table"):
        Table.for_path(tmp_path)
    assert not Table.is_table(tmp_path)


@pytest.mark.parametrize("rows", [pa.table({"id": [1]}), pa.record_batch({"id": [1]}), polars.DataFrame({"id": [1]})])
@pytest.mark.parametrize("declared", [{"format": "hudi", "keys": "id"}, {"format": "index"}], ids=["hudi", "index"])
def test_rows_that_only_spark_writes_are_refused_with_what_writes_them(tmp_path, rows, declared):
    with pytest.raises(InputError, match=r"Spark is needed to write rows of (Hudi|index) tables"):
        Table.create(tmp_path / "t", rows, **declared)
    assert not (tmp_path / "t").exists()
    assert Table.create(tmp_path / "t", pa.schema({"id": pa.int64()}), **declared).to_arrow().read_all().num_rows == 0

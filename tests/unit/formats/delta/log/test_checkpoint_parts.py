"""Which columns of a checkpoint are read where only some files are asked for."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.log_builder import LogBuilder, ProtocolAction, add, parquet_of, table, written

from halocline.errors import MalformedError
from halocline.formats.delta.actions.action import Remove
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.parquet_object import ParquetObject

PER_GROUP = 4


def stats(number: int) -> dict:
    return {"numRecords": 1, "minValues": {"id": number}, "maxValues": {"id": number}, "nullCount": {"id": 0}}


def rows(files: int) -> pa.Table:
    adds = [add(f"f{number}.parquet", stats=stats(number)) for number in range(files)]
    return pq.read_table(io.BytesIO(parquet_of([ProtocolAction(1, 2), table(), *adds])))


def checkpointed(content: pa.Table) -> LogBuilder:
    log = LogBuilder().create()
    return log.put(f"{0:020d}.checkpoint.parquet", written(content, row_group_size=PER_GROUP))


@pytest.fixture
def read(monkeypatch) -> list[tuple[str, int]]:
    """The columns that are read, each with the number of its row group."""
    found: list[tuple[str, int]] = []
    batches = ParquetObject.batches

    def recorded(self, columns, groups=None, **more):
        found.extend((column, group) for column in columns for group in (groups or range(self.groups)))
        return batches(self, columns, groups, **more)

    monkeypatch.setattr(ParquetObject, "batches", recorded)
    return found


def test_paths_are_read_only_where_a_file_is_asked_for(read):
    log = checkpointed(rows(18))
    files = Snapshot.load(log.store).files("id = 7", ["path", "size"])
    assert files["path"].to_pylist() == ["f7.parquet"]
    assert {group for column, group in read if column == "add.path"} == {2}


def test_files_that_a_filter_keeps_are_the_same_as_without_one(read):
    log = checkpointed(rows(18))
    everything = Snapshot.load(log.store).files()
    chosen = Snapshot.load(log.store).files("id BETWEEN 3 AND 12")
    assert chosen.to_pylist() == everything.slice(3, 10).to_pylist()


def test_a_tail_hides_files_that_a_filter_would_keep():
    log = checkpointed(rows(18))
    log.commit(Remove("f7.parquet", 9))
    assert Snapshot.load(log.store).files("id BETWEEN 6 AND 8", ["path"])["path"].to_pylist() == [
        "f6.parquet",
        "f8.parquet",
    ]


def test_a_file_that_is_missing_is_noticed_in_a_group_that_is_not_asked_for():
    log = checkpointed(rows(18).slice(0, 19)).pointer(version=0, size=20, numOfAddFiles=18)
    log.store.delete(f"_delta_log/{0:020d}.json")
    with pytest.raises(MalformedError, match="17 live files"):
        Snapshot.load(log.store).files("id = 7", ["path"])


def test_a_kept_row_without_a_path_is_damage():
    content = rows(6)
    column = content["add"].combine_chunks()
    paths = pa.array([None if text == "f3.parquet" else text for text in column.field("path").to_pylist()])
    children = [paths if field.name == "path" else column.field(field.name) for field in column.type]
    damaged = pa.StructArray.from_arrays(children, fields=list(column.type), mask=column.is_null())
    log = checkpointed(content.set_column(content.schema.get_field_index("add"), "add", damaged))
    log.store.delete(f"_delta_log/{0:020d}.json")
    with pytest.raises(MalformedError, match="without a path"):
        Snapshot.load(log.store).files("id = 3", ["path"])

"""Files of a checkpoint, listed by workers: the same as those that this process lists."""

import pickle

import pyarrow as pa
import pytest
from tests.support.log_builder import LogBuilder, ProtocolAction, add, parquet_of, table, vector

from halocline.errors import MalformedError
from halocline.formats.delta.actions.action import Remove
from halocline.formats.delta.log import listing
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage import open_store

FILES = 12


def stats(number: int) -> dict:
    return {"numRecords": 1, "minValues": {"id": number}, "maxValues": {"id": number}, "nullCount": {"id": 0}}


def part(number: int) -> str:
    return f"{0:020d}.checkpoint.{number:010d}.{3:010d}.parquet"


@pytest.fixture
def log(tmp_path) -> LogBuilder:
    """A checkpoint in three parts, and a commit that takes a file away and brings one back without its vector."""
    adds = [add(f"f{n}.parquet", stats=stats(n), deletion_vector=vector(str(n)) if n == 9 else None) for n in range(12)]
    log = LogBuilder(open_store(str(tmp_path))).create(*adds)
    for number in range(3):
        first = [ProtocolAction(1, 2), table()] if number == 0 else []
        log.put(part(number + 1), parquet_of([*first, *adds[number * 4 : number * 4 + 4]]))
    return log.commit(Remove("f2.parquet", 9), add("new.parquet", stats=stats(5)))


class Elsewhere:
    """Runs what it is given as another process would: only what can be pickled arrives."""

    def __init__(self) -> None:
        self.items: list = []

    def __call__(self, function, items):
        self.items += items
        there = pickle.loads(pickle.dumps(function))
        return [there(pickle.loads(pickle.dumps(item))) for item in items]


@pytest.mark.parametrize("where", [None, "id = 5", "id BETWEEN 1 AND 9", "id < 0", "day = '1' AND id > 7"])
@pytest.mark.parametrize("columns", [None, ["path", "size", "deletion_vector"]])
def test_workers_list_what_this_process_lists(log, where, columns):
    workers = Elsewhere()
    ours = Snapshot.load(log.store).files(where, columns)
    theirs = Snapshot.load(log.store, workers=workers).files(where, columns)
    assert theirs.to_pylist() == ours.to_pylist()
    assert theirs.schema == ours.schema
    assert len(workers.items) == 3


def test_large_file_is_divided_by_row_groups(log, monkeypatch):
    monkeypatch.setattr(listing, "_SHARE_ROWS", 1)
    workers = Elsewhere()
    assert Snapshot.load(log.store, workers=workers).files().num_rows == FILES
    assert len(workers.items) == len(set(workers.items)) == 3


def test_damage_that_a_worker_meets_gives_way_to_the_commits(log):
    damaged = f"_delta_log/{part(2)}"
    data = bytearray(log.store.get(damaged))
    data[4:60] = bytes(56)
    log.store.put(damaged, bytes(data))
    assert Snapshot.load(log.store, workers=Elsewhere()).files().num_rows == FILES


def test_damage_that_a_worker_meets_is_named_where_nothing_else_leads_there(log):
    damaged = f"_delta_log/{part(2)}"
    data = bytearray(log.store.get(damaged))
    data[4:60] = bytes(56)
    log.store.put(damaged, bytes(data))
    log.store.delete(f"_delta_log/{0:020d}.json")
    with pytest.raises(MalformedError, match="cannot be read"):
        Snapshot.load(log.store, workers=Elsewhere()).files()


def test_files_that_workers_miss_are_noticed(log):
    log.store.delete(f"_delta_log/{0:020d}.json")
    log.pointer(version=0, size=99, parts=3, numOfAddFiles=13)
    with pytest.raises(MalformedError, match="12 live files"):
        Snapshot.load(log.store, workers=Elsewhere()).files("id = 5", ["path"])


def test_worker_needs_nothing_but_the_message(log):
    snapshot = Snapshot.load(log.store)
    work = pickle.loads(pickle.dumps(snapshot.pruner("id = 5")))
    kept = work.keep({"stats": pa.array(['{"numRecords":1,"minValues":{"id":7},"maxValues":{"id":9}}'])})
    assert kept.to_pylist() == [False]

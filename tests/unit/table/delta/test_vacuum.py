import math
import os

import pytest
from tests.support import columns
from tests.support.columns import field

from halocline.errors import InputError
from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.actions.deletion_vectors import write_file
from halocline.formats.delta.commit.transaction import Transaction, system_clock
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.formats.delta.log.file_actions import removes_from
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage import open_store
from halocline.table.delta.opened import Opened
from halocline.table.delta.vacuum import vacuum_files

DAY_MS = 86_400_000


class Lake:
    def __init__(self, folder):
        self.folder = folder
        self.store = open_store(str(folder))
        schema = columns.schema(field("id", "long"), field("_p", "string"))
        state = new_table(schema, ("_p",), {"delta.enableDeletionVectors": "true"})
        Transaction.create(self.store).commit((), "CREATE TABLE", configuration=state)

    def put(self, path, *, days=30, content=b"0123456789"):
        self.store.put(path, content)
        self.age(path, days)

    def age(self, path, days):
        then = system_clock() / 1000 - days * 86_400
        os.utime(self.folder / path, (then, then))

    def add(self, path, vector=None, days=30):
        self.put(path, days=days)
        add = Add(path, {"_p": "x"}, 10, 1, True, stats='{"numRecords":9}', deletion_vector=vector)
        self.commit([add])

    def remove(self, path, days):
        files = Snapshot.load(self.store).files()
        chosen = files.filter([each == path for each in files["path"].to_pylist()])
        when = system_clock() - days * DAY_MS
        self.commit(removes_from(chosen, timestamp_ms=when, data_change=True))

    def commit(self, actions):
        Transaction(Snapshot.load(self.store)).commit(actions, "WRITE")

    def vacuum(self, *arguments, **named):
        return vacuum_files(Opened(self.store), *arguments, **named)

    def operations(self):
        last = Snapshot.load(self.store).version
        return [Snapshot.load(self.store, version=version).commit_info for version in range(last + 1)]


@pytest.fixture
def lake(tmp_path):
    lake = Lake(tmp_path / "table")
    vector = write_file(lake.store, [[1, 2]], prefix="ab")[0]
    lake.age(next(meta.path for meta in lake.store.list("ab")), 30)
    lake.add("_p=x/live 1.parquet", vector)
    lake.add("gone-long-ago.parquet")
    lake.remove("gone-long-ago.parquet", days=8)
    lake.add("gone-lately.parquet")
    lake.remove("gone-lately.parquet", days=6)
    lake.put("orphan.parquet")
    lake.put(".orphan.parquet.crc")
    lake.put("_p=x/.live 1.parquet.crc")
    lake.put("young-orphan.parquet", days=1)
    lake.put("_change_data/old.parquet")
    lake.put("_change_data/young.parquet", days=2)
    lake.put("_mine/notes.txt")
    lake.put(".hidden/notes.txt")
    lake.put("deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin")
    return lake


UNNEEDED = (
    "_change_data/old.parquet",
    "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin",
    "gone-long-ago.parquet",
    "orphan.parquet",
)


def test_looking_finds_what_nobody_needs_and_touches_nothing(lake):
    before = [meta.path for meta in lake.store.list()]
    found = lake.vacuum()
    assert tuple(meta.path for meta in found.files) == UNNEEDED
    assert (found.bytes, found.deleted) == (40, False)
    assert [meta.path for meta in lake.store.list()] == before


def test_deleting_leaves_live_young_and_hidden_files_and_records_itself(lake):
    lake.vacuum(dry_run=False)
    left = {meta.path for meta in lake.store.list() if not meta.path.startswith("_delta_log")}
    assert left == {
        "_p=x/live 1.parquet",
        "_p=x/.live 1.parquet.crc",
        "gone-lately.parquet",
        "young-orphan.parquet",
        "_change_data/young.parquet",
        "_mine/notes.txt",
        ".hidden/notes.txt",
        "ab/deletion_vector_" + next(meta.path for meta in lake.store.list("ab")).partition("vector_")[2],
    }
    start, end = (info.values for info in lake.operations()[-2:])
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    assert start["operationMetrics"] == {"numFilesToDelete": "4", "sizeOfDataToDelete": "40"}
    assert start["operationParameters"] == {"retentionCheckEnabled": True, "defaultRetentionMillis": 7 * DAY_MS}
    assert end["operationParameters"] == {"status": "COMPLETED"}
    assert end["operationMetrics"]["numDeletedFiles"] == "4"


def test_shorter_retention_than_promised_is_refused_unless_forced(lake):
    with pytest.raises(InputError) as caught:
        lake.vacuum(24, dry_run=False)
    assert caught.value.condition == "RETENTION_TOO_SHORT"
    forced = {meta.path for meta in lake.vacuum(0, enforce_retention=False).files}
    assert {"gone-lately.parquet", "young-orphan.parquet"} <= forced
    assert "_p=x/live 1.parquet" not in forced


@pytest.mark.parametrize("hours", [-1, math.inf, 2**62])
def test_time_that_no_file_can_be_kept_for_is_refused(lake, hours):
    with pytest.raises(InputError, match="files cannot be kept for"):
        lake.vacuum(hours, enforce_retention=False)

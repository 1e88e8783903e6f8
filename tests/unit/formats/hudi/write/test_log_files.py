"""Log files of several writes at once: a name that is taken stays with whoever has it."""

from __future__ import annotations

import pytest
from tests.support.hudi_tables import HudiTableMaker, rows, shown

from halocline.errors import ConflictError
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.formats.hudi.write import rollback
from halocline.formats.hudi.write.base_writer import with_meta_columns
from halocline.formats.hudi.write.log_writer import write_log_file
from halocline.formats.hudi.write.markers import marked_files
from halocline.formats.hudi.write.rollback import roll_back
from halocline.formats.hudi.write.transaction import HudiWrite
from halocline.storage.memory import MemoryStore


@pytest.fixture
def table() -> HudiTableMaker:
    found = HudiTableMaker.create(MemoryStore(), 6, TableType.MERGE_ON_READ)
    found.upsert(range(4), 100, "a")
    return found


def begun(table: HudiTableMaker, *tags: str) -> list[tuple[HudiWrite, WriteStat]]:
    """Writes of one row that saw the same slice, by drivers that name their attempts alike."""
    (slice,) = (each for each in table.snapshot.slices if each.partition == "eu")
    found = []
    for tag in tags:
        write, new = table.begin(), rows([1], 200, tag)
        marked = with_meta_columns(new, new["id"].combine_chunks(), "eu", slice.file_id, write.time)
        options = {"schema": table.schema, "slice": slice, "layout": 1, "token": "0-5-7", "instant": write.time}
        found.append((write, write_log_file(table.store, marked, [], **options)))
    return found


def test_two_writes_of_one_slice_do_not_replace_the_log_files_of_each_other(table):
    (first, kept), (second, lost) = begun(table, "first", "second")
    assert kept.path != lost.path
    assert [path for path, _ in marked_files(table.store, second.time)] == [lost.path]
    first.complete([kept], schema=table.schema)
    with pytest.raises(ConflictError):
        second.complete([lost], schema=table.schema)
    roll_back(table.store, table.config, second.instant)
    assert ("k1", 200, "first1") in shown(table.snapshot.read())


def test_two_writes_that_are_taken_back_at_once_have_a_command_each(table, monkeypatch):
    before = shown(table.snapshot.read())
    (first, _), (second, _) = begun(table, "first", "second")
    real = rollback.encode_block

    def meanwhile(*given):
        monkeypatch.setattr(rollback, "encode_block", real)
        roll_back(table.store, table.config, second.instant)
        return real(*given)

    monkeypatch.setattr(rollback, "encode_block", meanwhile)
    roll_back(table.store, table.config, first.instant)
    logs = [table.store.get(log.path) for slice in table.snapshot.slices for log in slice.logs]
    for write in (first, second):
        assert sum(write.time.encode() in each for each in logs) == 2, "its rows, and what takes them back"
    assert shown(table.snapshot.read()) == before


def test_a_file_that_is_put_again_since_the_answer_was_lost_is_one_file_with_its_marker(table, monkeypatch):
    put = table.store.put_if_absent

    def answer_lost(path, data):
        etag = put(path, data)
        return put(path, data) if ".log." in path else etag

    monkeypatch.setattr(table.store, "put_if_absent", answer_lost)
    ((write, stat),) = begun(table, "only")
    monkeypatch.undo()
    assert [path for path, _ in marked_files(table.store, write.time)] == [stat.path]
    write.complete([stat], schema=table.schema)
    assert ("k1", 200, "only1") in shown(table.snapshot.read())

"""Attempts of tasks that lost, and are done with their files before the write is completed or long after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hudi import HudiReadOptions, HudiTableBuilder
from tests.support.hudi_tables import COLUMNS, HudiTableMaker, rows, shown

from halocline.errors import ConflictError, HaloclineError
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.maintain.cleaning import clean
from halocline.formats.hudi.slices import data_files
from halocline.formats.hudi.write import rollback
from halocline.formats.hudi.write.files_aside import move_into_place, path_aside
from halocline.schema.arrow import struct_of_arrow
from halocline.source.hudi_writer import HudiWriter, stats_of
from halocline.source.options import SourceOptions
from halocline.storage import open_store
from halocline.table import HudiTable

KINDS = [(6, TableType.COPY_ON_WRITE), (8, TableType.MERGE_ON_READ), (9, TableType.COPY_ON_WRITE)]


def begun(path: Path) -> HudiWriter:
    return HudiWriter.open(SourceOptions.read({"path": str(path)}), struct_of_arrow(COLUMNS), overwrite=False)


def written(writer: HudiWriter, *tasks) -> list:
    """What tasks with these rows tell."""
    return [writer.write(iter(each.to_batches())) for each in tasks]


def named_by_commits(maker: HudiTableMaker) -> list[str]:
    """The files that completed writes name."""
    commits = maker.snapshot.timeline.metadata_of_writes()
    return sorted(stat.path for _, commit in commits for _, stat in commit.stats)


def read_by_hudi_rs(path: Path) -> list[tuple[str, int, str]]:
    return shown(HudiTableBuilder.from_base_uri(str(path)).build().read(HudiReadOptions()))


@pytest.mark.parametrize("is_late", [False, True], ids=["before the commit", "after the commit"])
@pytest.mark.parametrize(("version", "type"), KINDS)
def test_an_attempt_that_lost_leaves_no_row_wherever_readers_list_files(tmp_path, version, type, is_late):
    maker = HudiTableMaker.create(open_store(tmp_path), version, type)
    writer, lost = begun(tmp_path), rows(range(4), 100, "a").to_batches()
    told = written(writer, rows(range(4), 100, "a"))
    if not is_late:
        writer.write(iter(lost))
    writer.commit(told)
    if is_late:
        writer.write(iter(lost))
    found = [each.path for each in data_files(maker.store)]
    assert sorted(found) == named_by_commits(maker)
    expected = [(f"k{each}", 100, f"a{each}") for each in range(4)]
    assert shown(maker.snapshot.read()) == expected
    assert read_by_hudi_rs(tmp_path) == expected
    again = begun(tmp_path)
    again.commit(written(again, rows([9], 100, "a")))
    assert list(maker.store.list(".hoodie/.aux")) == [], "what came too late goes with the next write"


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_a_writer_that_dies_while_it_moves_files_into_place_leaves_none_that_counts(tmp_path, version, type):
    maker = HudiTableMaker.create(open_store(tmp_path), version, type)
    writer = begun(tmp_path)
    stats = stats_of(written(writer, rows(range(4), 100, "a")))
    time = writer.begun.time
    move_into_place(maker.store, time, [stats[0].path])
    assert maker.snapshot.slices == ()
    maker.store.delete_many([meta.path for meta in maker.store.list(".hoodie/.heartbeat")])
    other = begun(tmp_path)  # as the next write does, for which the first one is dead
    other.commit(written(other, rows([9], 100, "a")))
    assert shown(maker.snapshot.read()) == [("k9", 100, "a9")]
    assert list(maker.store.list(".hoodie/.aux")) == []
    with pytest.raises(HaloclineError, match="taken back"):
        writer.commit(written(writer, rows(range(4), 100, "a")))
    assert shown(maker.snapshot.read()) == [("k9", 100, "a9")]


def taken_for_dead(maker: HudiTableMaker, path: Path) -> HudiWriter:
    """The next writer, which takes back what no heartbeat tells of."""
    maker.store.delete_many([meta.path for meta in maker.store.list(".hoodie/.heartbeat")])
    return begun(path)


@pytest.mark.parametrize(("version", "type"), [(6, TableType.COPY_ON_WRITE), (9, TableType.COPY_ON_WRITE)])
@pytest.mark.parametrize("goes", ["archive", "clean and archive"])
def test_a_file_that_comes_after_its_write_was_taken_back_never_counts(tmp_path, version, type, goes):
    maker = HudiTableMaker.create(open_store(tmp_path), version, type)
    maker.upsert([7], 100, "a")
    writer = begun(tmp_path)
    stats = stats_of(written(writer, rows(range(4), 100, "a")))
    late = {stat.path: maker.store.get(path_aside(writer.begun.time, stat.path)) for stat in stats if stat.path}
    for number in (8, 9):
        other = taken_for_dead(maker, tmp_path)
        other.commit(written(other, rows([number], 100, "a")))
    for path, data in late.items():  # as by a copy that was under way, of a process that is killed right after it
        maker.store.put(path, data)
    expected = [(f"k{each}", 100, f"a{each}") for each in (7, 8, 9)]
    assert shown(maker.snapshot.read()) == expected
    if goes != "archive":
        clean(maker.store, keep=1)
        assert not late.keys() & {each.path for each in data_files(maker.store)}
    assert archive(maker.store, keep=1, at_most=1)
    assert shown(maker.snapshot.read()) == expected
    assert read_by_hudi_rs(tmp_path) == expected


def test_a_writer_that_is_taken_for_dead_moves_no_file_to_where_has_been_looked(tmp_path, monkeypatch):
    maker = HudiTableMaker.create(open_store(tmp_path), 6, TableType.COPY_ON_WRITE)
    writer = begun(tmp_path)
    paths = [stat.path for stat in stats_of(written(writer, rows(range(4), 100, "a"))) if stat.path]
    real, tried = rollback.data_files, []

    def looked_for(store):
        found = list(real(store))
        with pytest.raises(ConflictError, match="taken back"):
            move_into_place(maker.store, writer.begun.time, paths)
        tried.append(len(found))
        return iter(found)

    monkeypatch.setattr(rollback, "data_files", looked_for)
    other = taken_for_dead(maker, tmp_path)
    assert tried
    assert list(real(maker.store)) == []
    other.commit(written(other, rows([9], 100, "a")))
    assert shown(maker.snapshot.read()) == [("k9", 100, "a9")]


def test_a_write_that_a_move_has_overtaken_leaves_the_files_of_later_writes_where_they_are(tmp_path):
    maker = HudiTableMaker.create(open_store(tmp_path), 6, TableType.COPY_ON_WRITE)
    maker.upsert([1], 100, "a")
    overtaken = begun(tmp_path)
    lost = written(overtaken, rows([2], 100, "a"))
    maker.store.delete_many([meta.path for meta in maker.store.list(".hoodie/.heartbeat")])
    HudiTable.for_path(str(tmp_path)).upgrade(8)
    later = begun(tmp_path)
    told = written(later, rows([3], 100, "a"))
    with pytest.raises(ConflictError, match="taken back"):
        overtaken.commit(lost)
    later.commit(told)
    assert shown(maker.snapshot.read()) == [("k1", 100, "a1"), ("k3", 100, "a3")]

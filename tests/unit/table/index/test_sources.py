"""A companion is bound to the very table that it was made of, and shows every write that was completed there."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.hudi_tables import KINDS, HudiTableMaker, rows
from tests.support.index_tables import rows_of

from halocline import Table
from halocline.errors import ConflictError, InputError, NotFoundError
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.maintain.cleaning import CleaningPolicy, clean
from halocline.formats.hudi.maintain.clustering import cluster
from halocline.formats.hudi.maintain.compaction import compact
from halocline.formats.hudi.move.engine import apply_move
from halocline.formats.hudi.move.planning import plan_move
from halocline.formats.hudi.timeline.instant import RESTORE, HudiInstant, InstantState, file_name
from halocline.formats.hudi.write.times import next_time
from halocline.formats.index.companion.identity import MARK_KEY, Companion, check_identity
from halocline.formats.index.companion.sync import sync_companion
from halocline.formats.index.maintain.lint import lint
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.transaction import IndexTransaction
from halocline.storage import open_store
from halocline.storage.base import Store
from halocline.table.index.companion import build_index, fresh_companion, sync_index
from halocline.table.index.sources import source_at

FIELDS = {"name": {"type": "text"}}


@pytest.fixture
def store(tmp_path) -> Store:
    """Where the companion lies."""
    return open_store(str(tmp_path / "companion"))


def hudi_table(tmp_path, version: int, type: TableType, **options) -> HudiTableMaker:
    return HudiTableMaker.create(open_store(str(tmp_path / "source")), version, type, **options)


def companion_of(table: HudiTableMaker, store: Store) -> IndexSnapshot:
    return build_index(table.store, store, ["id", "name"], fields=FIELDS)


def names(snapshot: IndexSnapshot) -> list[str]:
    return sorted(rows_of(snapshot, "name"))


def true_names(table: HudiTableMaker) -> list[str]:
    return sorted(row["name"] for batch in table.snapshot.read(["name"]) for row in batch.to_pylist())


def is_stale(store: Store) -> bool:
    try:
        fresh_companion(store)
    except ConflictError as error:
        return error.condition == "COMPANION_STALE"
    return False


def check_is_bound(table: HudiTableMaker, store: Store, when: str) -> None:
    """The companion still belongs to the table, and shows its rows once it is brought up to date."""
    check_identity(IndexSnapshot.load(store), source_at(table.store))
    sync_index(store)
    assert names(fresh_companion(store)) == true_names(table), when


def restored(table: HudiTableMaker, time: str) -> None:
    """Leaves a table as Apache Hudi's restore to an instant does: later writes and their files are gone."""
    timeline = table.snapshot.timeline
    config = table.snapshot.config
    for write in timeline.writes:
        if write.time > time:
            paths = [stat.path for _, stat in timeline.commit_metadata(write).stats if stat.path]
            states = [meta.path for meta in table.store.list(config.timeline_folder)]
            inside = [path for path in states if path.startswith(f"{config.timeline_folder}/{write.time}")]
            table.store.delete_many([*inside, *paths])
    now = next_time(timeline)
    done = HudiInstant(now, RESTORE, InstantState.COMPLETED, now if config.layout > 1 else None)
    table.store.put(f"{config.timeline_folder}/{file_name(done)}", b"")


# ---------------------------------------------------------------------- which writes it shows


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_a_write_that_is_completed_after_a_later_one_makes_a_companion_stale(tmp_path, store, version, type):
    table = hudi_table(tmp_path, version, type)
    table.upsert([1], 100, "first")
    slow = table.begin()
    stats = table.write(slow, rows([2, 1], 101, "slow"))
    table.upsert([4], 102, "fast")
    companion_of(table, store)
    assert not is_stale(store)
    slow.complete(stats, schema=table.schema)
    with pytest.raises(ConflictError, match="without all of its writes"):
        fresh_companion(store)
    assert names(sync_index(store)) == true_names(table)
    assert "slow2" in true_names(table)
    assert not is_stale(store)


@pytest.mark.parametrize("version", [6, 8])
def test_rows_in_a_log_file_that_counted_for_nobody_are_indexed_once_they_count(tmp_path, store, version):
    table = hudi_table(tmp_path, version, TableType.MERGE_ON_READ)
    table.upsert(range(4), 100, "a")
    table.upsert([1], 110, "b")
    slow = table.begin()
    stats = table.write(slow, rows([0, 2], 120, "slow"))
    companion_of(table, store)
    assert names(fresh_companion(store)) == ["a0", "a2", "a3", "b1"]
    kept = set(IndexSnapshot.load(store).files)
    slow.complete(stats, schema=table.schema)
    after = sync_index(store)
    assert names(after) == true_names(table) == ["a3", "b1", "slow0", "slow2"]
    assert len(kept & set(after.files)) == 1, "the other partition stays as it is"


def test_a_write_that_begins_while_files_are_listed_is_not_taken_for_indexed(tmp_path, store):
    table = hudi_table(tmp_path, 6, TableType.MERGE_ON_READ)
    table.upsert(range(4), 100, "a")
    table.upsert([0], 110, "b")
    companion_of(table, store)
    table.upsert([3], 120, "c")
    slow = []

    def load():
        """A write begins, and has its files there, between the look at the timeline and the listing."""
        source = source_at(table.store)
        if not slow:
            write = table.begin()
            slow.append((write, table.write(write, rows([0], 130, "slow"))))
        return source

    sync_companion(IndexSnapshot.load(store), load)
    assert names(IndexSnapshot.load(store)) == ["a1", "a2", "b0", "c3"]
    write, stats = slow[0]
    write.complete(stats, schema=table.schema)
    assert is_stale(store)
    assert names(sync_index(store)) == true_names(table) == ["a1", "a2", "c3", "slow0"]


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_archiving_and_cleaning_alone_leave_a_companion_fresh(tmp_path, store, version, type):
    table = hudi_table(tmp_path, version, type)
    for number in range(6):
        table.upsert([number % 3], 100 + number, f"u{number}-")
    if type is TableType.MERGE_ON_READ:
        compact(table.store)
    companion_of(table, store)
    assert archive(table.store, keep=1, at_most=2)
    assert clean(table.store, policy=CleaningPolicy.VERSIONS, keep=1) is not None
    assert not is_stale(store)
    assert names(fresh_companion(store)) == true_names(table)


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_a_restore_makes_a_companion_stale_and_it_follows(tmp_path, store, version, type):
    table = hudi_table(tmp_path, version, type)
    first = table.upsert(range(3), 100, "a")
    table.upsert([1], 110, "b")
    companion_of(table, store)
    assert names(fresh_companion(store)) == ["a0", "a2", "b1"]
    restored(table, first)
    assert is_stale(store)
    check_is_bound(table, store, "restored")
    assert names(IndexSnapshot.load(store)) == ["a0", "a1", "a2"]


def test_a_delta_table_that_was_restored_from_a_copy_does_not_pass_for_what_it_was(tmp_path, store):
    table = delta_table(tmp_path / "source")
    shutil.copytree(tmp_path / "source", tmp_path / "copy")
    table.append_arrow(delta_rows(2, "one"))
    build_index(table.store, store, ["id", "name"], fields=FIELDS)
    shutil.rmtree(tmp_path / "source")
    shutil.copytree(tmp_path / "copy", tmp_path / "source")
    Table.for_path(tmp_path / "source").append_arrow(delta_rows(2, "other"))
    assert source_at(table.store).version == Companion.of(IndexSnapshot.load(store)).version
    assert is_stale(store)
    assert names(sync_index(store)) == ["old", "other"]


# ---------------------------------------------------------------------- which table it belongs to


@pytest.mark.parametrize(
    ("version", "type"), [(6, TableType.MERGE_ON_READ), (8, TableType.COPY_ON_WRITE), (9, TableType.MERGE_ON_READ)]
)
def test_a_hudi_table_stays_the_same_through_moves_archiving_cleaning_and_clustering(tmp_path, store, version, type):
    table = hudi_table(tmp_path, version, type)
    for number in range(4):
        table.upsert([number % 3], 100 + number, f"u{number}-")
    companion_of(table, store)
    first = Companion.of(IndexSnapshot.load(store)).mark
    for number, stop in enumerate([each for each in (6, 8, 9, 8, 6) if each != version]):
        if source_at(table.store).snapshot.config.version == stop:
            continue
        apply_move(table.store, plan_move(table.store, stop), grace_s=0)
        table = HudiTableMaker(table.store, table.snapshot.config, table.schema)
        assert table.config.version == stop
        check_is_bound(table, store, f"moved to {stop}")
        for times in range(4):
            table.upsert([times], 200 + 10 * number + times, f"w{number}-")
        if type is TableType.MERGE_ON_READ:
            compact(table.store)
        check_is_bound(table, store, f"written at {stop}")
        table.upsert([1], 900 + number, "x")
        archive(table.store, keep=1, at_most=1)
        clean(table.store, policy=CleaningPolicy.VERSIONS, keep=1)
        check_is_bound(table, store, f"archived and cleaned at {stop}")
    cluster(table.store)
    check_is_bound(table, store, "clustered")
    assert source_at(table.store).is_same(first, lambda: ()), "its first writes are in the history"


@pytest.mark.parametrize(("version", "type"), KINDS)
def test_a_companion_does_not_answer_for_a_hudi_table_that_was_made_anew(tmp_path, store, version, type):
    table = hudi_table(tmp_path, version, type)
    table.upsert([1], 100, "secret")
    companion_of(table, store)
    shutil.rmtree(tmp_path / "source")
    with pytest.raises(NotFoundError):
        fresh_companion(store)
    table = hudi_table(tmp_path, version, type)
    table.upsert([1], 100, "new")
    check_is_refused_until_rebuilt(store, ["new1"])


def test_a_companion_does_not_answer_for_a_delta_table_that_was_made_anew(tmp_path, store):
    table = delta_table(tmp_path / "source")
    build_index(table.store, store, ["id", "name"], fields=FIELDS)
    shutil.rmtree(tmp_path / "source")
    delta_table(tmp_path / "source", "new")
    check_is_refused_until_rebuilt(store, ["new"])


def test_a_companion_does_not_answer_for_a_table_of_another_format_at_the_same_place(tmp_path, store):
    table = delta_table(tmp_path / "source")
    build_index(table.store, store, ["name"], fields=FIELDS)
    shutil.rmtree(tmp_path / "source")
    hudi_table(tmp_path, 9, TableType.COPY_ON_WRITE).upsert([1], 100, "new")
    check_is_refused_until_rebuilt(store, ["new1"])


def check_is_refused_until_rebuilt(store: Store, expected: list[str]) -> None:
    made = IndexSnapshot.load(store)
    doors = {
        "fresh": lambda: fresh_companion(store),
        "stale": lambda: fresh_companion(store, stale="allow"),
        "sync": lambda: sync_index(store),
        "rows": lambda: Table.for_path(store.root).to_arrow(),
        "a version": lambda: Table.for_path(store.root).to_arrow(version=made.version),
        "terminal": lambda: Table.for_path(store.root).opened.to_read(version=made.version, stale="allow"),
    }
    for door, use in doors.items():
        with pytest.raises(InputError) as refused:
            use()
        assert refused.value.condition == "COMPANION_SOURCE_REPLACED", door
        assert "sync(rebuild=True)" in refused.value.next_step
    assert Table.for_path(store.root).sync(rebuild=True) == made.version + 1
    assert names(fresh_companion(store)) == expected
    assert sync_index(store).version == made.version + 1


def bootstrapped(tmp_path, number: int, text: str) -> HudiTableMaker:
    """A table whose only write has the time that Apache Hudi gives to every full bootstrap."""
    table = hudi_table(tmp_path, 6, TableType.COPY_ON_WRITE)
    write = replace(table.begin(), instant=HudiInstant("00000000000002", "commit", InstantState.INFLIGHT))
    table.store.put(f".hoodie/{file_name(write.instant)}", b"")
    write.complete(table.write(write, rows([number], 100, text)), schema=table.schema)
    for meta in table.store.list(".hoodie"):
        if meta.path.rpartition("/")[2].startswith("20"):
            table.store.delete(meta.path)
    return table


def test_a_bootstrapped_table_is_known_by_its_files_until_it_is_written(tmp_path, store):
    table = bootstrapped(tmp_path, 1, "a")
    companion_of(table, store)
    assert names(fresh_companion(store)) == ["a1"]
    shutil.rmtree(tmp_path / "source")
    table = bootstrapped(tmp_path, 2, "b")
    check_is_refused_until_rebuilt(store, ["b2"])
    table.upsert([3], 200, "c")
    check_is_bound(table, store, "written")


def test_a_table_whose_history_was_deleted_is_known_by_the_files_that_are_left(tmp_path, store):
    table = hudi_table(tmp_path, 6, TableType.COPY_ON_WRITE)
    table.upsert([0, 1], 100, "a")
    companion_of(table, store)
    for number in range(5):
        table.upsert([1], 200 + number, "b")
    assert archive(table.store, keep=1, at_most=1)
    for meta in list(table.store.list(".hoodie/archived")):
        table.store.delete(meta.path)
    assert list(table.snapshot.timeline.history()) == []
    check_is_bound(table, store, "the file of k0 is still there")


# ---------------------------------------------------------------------- companions of before


def unbound(store: Store) -> IndexSnapshot:
    """A companion as releases made it that kept no mark."""
    snapshot = IndexSnapshot.load(store, operation="write")
    properties = {key: value for key, value in snapshot.metadata.configuration.items() if key != MARK_KEY}
    IndexTransaction(snapshot).commit([replace(snapshot.metadata, configuration=properties)], "SET")
    return IndexSnapshot.load(store)


def test_a_companion_without_an_identity_is_found_by_lint_and_refused_until_it_is_rebuilt(tmp_path, store):
    table = hudi_table(tmp_path, 8, TableType.COPY_ON_WRITE)
    table.upsert([1], 100, "a")
    companion_of(table, store)
    assert [each.code for each in lint(store).findings] == []
    before = unbound(store)
    (finding,) = lint(store).findings
    assert (finding.code, finding.by_hand, finding.safe) == ("COMPANION_UNBOUND", "sync(rebuild=True)", False)
    for use in (lambda: fresh_companion(store, stale="allow"), lambda: sync_index(store)):
        with pytest.raises(InputError) as refused:
            use()
        assert refused.value.condition == "COMPANION_UNBOUND"
    after = sync_index(store, rebuild=True)
    assert set(after.files).isdisjoint(before.files)
    assert names(fresh_companion(store)) == ["a1"]
    assert lint(store).findings == ()


def delta_rows(number: int, text: str) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64()), "name": [text]})


def delta_table(path: Path, text: str = "old") -> Table:
    return Table.create(path, delta_rows(1, text))

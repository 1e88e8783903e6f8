"""What a write to a Hudi table does around its rows, without a JVM: the fleet, the lock, and others that write."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from itertools import chain, repeat

import pyarrow as pa
import pytest
from tests.support.hudi_groups import write_rows
from tests.support.hudi_tables import HudiTableMaker, rows, shown
from tests.support.late_answers import LateAnswers

from halocline.errors import ConflictError, IncompatibleError, InputError, UnavailableError
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.maintain.clustering import schedule_clustering
from halocline.formats.hudi.maintain.compaction import run_compaction, schedule_compaction
from halocline.formats.hudi.maintain.locks import FileSystemLock
from halocline.formats.hudi.maintain.running import in_turn
from halocline.formats.hudi.properties import properties
from halocline.formats.hudi.write.heartbeat import take_back_failed
from halocline.storage import open_store
from halocline.table import HudiTable, Table, gatekeeper
from halocline.table.gatekeeper import Alone
from halocline.table.hudi import writing
from halocline.table.hudi.writing import table_lock


class Fleet(Alone):
    """A gatekeeper that notes operations, and whose lease may run out."""

    def __init__(self, leased: bool = True) -> None:
        self.operations: list[str] = []
        self.leased = leased

    @contextmanager
    def operation(self, name):
        self.operations.append(name)
        yield self

    def may_commit(self):
        return self.leased

    def gate(self, ladder, level):
        return True

    def level(self, ladder):
        return 9


def made(request, version: int = 8, type: TableType = TableType.COPY_ON_WRITE) -> tuple[HudiTableMaker, HudiTable]:
    name = request.node.name.replace("[", "-").replace("]", "")
    maker = HudiTableMaker.create(open_store(f"memory://{name}/orders"), version, type)
    maker.upsert(range(4), 100, "a")
    return maker, HudiTable.for_path(f"memory://{name}/orders")


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_write_is_an_operation_of_the_fleet_and_leaves_neither_lock_nor_heartbeat(request, version):
    maker, table = made(request, version)
    with gatekeeper.acting(Fleet()) as fleet:
        instant = table.delete_partition("eu")
    assert fleet.operations == ["delete_partition"]
    assert table.version == instant
    assert shown(maker.snapshot.read()) == [("k0", 100, "a0"), ("k2", 100, "a2")]
    left = [meta.path for meta in maker.store.list() if "heartbeat" in meta.path or meta.path.endswith("lock")]
    assert left == []
    assert int(properties(maker.store)["hoodie.table.version"]) == version


def test_a_write_whose_lease_has_run_out_is_taken_back(request):
    maker, table = made(request)
    with gatekeeper.acting(Fleet(leased=False)), pytest.raises(ConflictError, match="lease") as refused:
        table.delete_partition("eu")
    assert refused.value.condition == "INCARNATION_ENDED"
    assert len(shown(maker.snapshot.read())) == 4
    assert maker.snapshot.timeline.pending == frozenset()


def test_a_table_that_was_moved_meanwhile_is_not_written_at_the_old_version(request, monkeypatch):
    maker, table = made(request, 8)
    versions = chain(("8",), repeat("9"))  # when it begins, and from then on
    monkeypatch.setattr(writing, "properties", lambda store: {"hoodie.table.version": next(versions)})
    with pytest.raises(ConflictError, match="moved to version 9"):
        table.delete_partition("eu")
    assert len(shown(maker.snapshot.read())) == 4


def test_a_partition_that_is_not_there_is_refused_by_name(request):
    _, table = made(request)
    with pytest.raises(InputError, match="no partition 'us'") as refused:
        table.delete_partition(["eu", "us"])
    before = table.version
    with pytest.raises(InputError, match="no partition is named"):
        table.delete_partition([])
    assert table.version == before, "no empty replace commit"
    assert refused.value.sides["partitions"] == "ap, eu"


def test_a_partition_that_is_about_to_be_clustered_is_not_deleted(request):
    maker, table = made(request)
    maker.upsert([4, 5], 200, "b")
    planned = schedule_clustering(maker.store)
    with pytest.raises(ConflictError, match="about to be clustered"):
        table.delete_partition("eu")
    assert maker.snapshot.timeline.pending == {planned.time}, "the write was taken back"
    table.cancel_clustering(planned.time)
    table.delete_partition("eu")
    assert {row[0] for row in shown(maker.snapshot.read())} == {"k0", "k2", "k4"}


def test_a_release_that_may_not_write_does_not(request):
    maker, table = made(request)
    with pytest.raises(IncompatibleError):
        Table.for_path(table.url, release="hudi-rs@0.5.0").delete_partition("eu")
    assert maker.snapshot.timeline.pending == frozenset()


def test_a_write_that_has_just_begun_is_not_taken_for_one_that_died(request, monkeypatch):
    maker, table = made(request)
    taken: list[str] = []
    other = threading.Thread(
        target=lambda: taken.extend(take_back_failed(maker.store, maker.config, table_lock(maker.store)))
    )
    real = writing.beating

    def late(store, instant):
        other.start()
        other.join(0.3)  # it looks while the write is requested and has no heartbeat yet
        return real(store, instant)

    monkeypatch.setattr(writing, "beating", late)
    instant = table.delete_partition("eu")
    other.join()
    assert taken == []
    assert table.version == instant


@pytest.mark.parametrize("service", ["clean", "archive", "compact"])
def test_services_wait_for_whoever_holds_the_lock(request, monkeypatch, service):
    maker, table = made(request, type=TableType.MERGE_ON_READ if service == "compact" else TableType.COPY_ON_WRITE)
    for number in range(3):
        maker.upsert([1], 200 + number, "b")
    monkeypatch.setattr(writing, "_LOCK_WAIT_S", 0.1)
    run = {
        "clean": lambda: table.clean(keep=1),
        "archive": lambda: table.archive(keep=1, at_most=1),
        "compact": table.compact,
    }[service]
    files = {meta.path for meta in maker.store.list()}
    with FileSystemLock(maker.store), pytest.raises(UnavailableError, match="another writer holds the lock"):
        run()
    assert {meta.path for meta in maker.store.list()} == files
    assert run()


@pytest.mark.parametrize("version", [6, 8])
def test_a_write_goes_on_behind_a_compaction_that_is_planned_as_it_begins(request, monkeypatch, version):
    maker, table = made(request, version, TableType.MERGE_ON_READ)
    maker.upsert([1], 200, "b")
    real, planned = writing.ready, []

    def meanwhile(opened):
        found = real(opened)
        planned.append(schedule_compaction(maker.store))
        return found

    monkeypatch.setattr(writing, "ready", meanwhile)
    write_rows(table.opened, "UPSERT", [1], 300, "c")
    run_compaction(maker.store, planned[0].time)
    assert ("k1", 300, "c1") in shown(maker.snapshot.read())


@pytest.mark.parametrize("version", [6, 8])
def test_a_write_stays_if_nobody_knows_whether_it_was_completed(tmp_path, monkeypatch, version):
    maker = HudiTableMaker.create(open_store(tmp_path), version, TableType.COPY_ON_WRITE)
    maker.upsert(range(4), 100, "a")
    table = HudiTable.for_path(tmp_path)
    late = LateAnswers(monkeypatch, lambda path: path.endswith(".commit"))
    with pytest.raises(UnavailableError, match="no answer"):
        write_rows(table.opened, "UPSERT", [1], 300, "c")
    late.arrive()
    assert ("k1", 300, "c1") in shown(maker.snapshot.read())


def grown(maker: HudiTableMaker, *names: str) -> tuple[pa.Schema, str]:
    """The columns of a table and more, as a write that lets it grow has them."""
    columns, said = maker.snapshot.schema.columns, json.loads(maker.schema)
    for name in names:
        columns = columns.append(pa.field(name, pa.int64()))
        said["fields"].append({"name": name, "type": ["null", "long"], "default": None})
    return columns, json.dumps(said)


@pytest.mark.parametrize("version", [6, 8])
def test_a_column_that_comes_while_a_write_is_under_way_stays(request, version):
    maker, table = made(request, version)
    with writing.writing(table.opened, "INSERT") as slow:
        with writing.writing(table.opened, "INSERT", *grown(maker, "more")) as fast:
            fast.complete([])
        slow.complete([])
    assert maker.snapshot.schema.columns.names[-1] == "more"


def test_of_two_writes_that_add_different_columns_the_later_one_is_refused(request):
    maker, table = made(request)

    def overtaken() -> None:
        with writing.writing(table.opened, "INSERT", *grown(maker, "mine")) as slow:
            with writing.writing(table.opened, "INSERT", *grown(maker, "theirs")) as fast:
                fast.complete([])
            slow.complete([])

    with pytest.raises(ConflictError, match="columns") as refused:
        overtaken()
    assert refused.value.condition == "CONCURRENT_METADATA_CHANGE"
    assert maker.snapshot.schema.columns.names[-1] == "theirs"
    assert maker.snapshot.timeline.pending == frozenset()


@pytest.mark.parametrize("version", [6, 8])
def test_a_column_that_comes_while_a_compaction_runs_stays(request, version):
    maker, table = made(request, version, TableType.MERGE_ON_READ)
    maker.upsert([1], 200, "b")

    def slow(work, parts):
        with writing.writing(table.opened, "INSERT", *grown(maker, "more")) as fast:
            fast.complete([])
        return in_turn(work, parts)

    requested = schedule_compaction(maker.store)
    run_compaction(maker.store, requested.time, runner=slow)
    assert maker.snapshot.schema.columns.names[-1] == "more"


def test_writes_that_died_are_taken_back_first(request):
    maker, table = made(request, 6, TableType.MERGE_ON_READ)
    failed = maker.begin()
    maker.write(failed, rows([2, 8], 200, "lost"), deletes=[0])
    table.delete_partition("eu")
    assert shown(maker.snapshot.read()) == [("k0", 100, "a0"), ("k2", 100, "a2")]
    assert [each.action for each in table.history()][:2] == ["replacecommit", "rollback"]


@pytest.mark.parametrize("version", [6, 8])
def test_a_write_that_is_interrupted_when_it_is_completed_is_not_taken_back(request, monkeypatch, version):
    maker, table = made(request, version)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("halocline.formats.hudi.write.transaction.delete_markers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        table.delete_partition("eu")
    assert maker.snapshot.timeline.pending == frozenset()
    assert [each.action for each in maker.snapshot.timeline.instants if each.action == "rollback"] == []
    assert shown(maker.snapshot.read()) == [("k0", 100, "a0"), ("k2", 100, "a2")]

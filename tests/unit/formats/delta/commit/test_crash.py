"""A crash at every storage operation of a commit: the table reads as before or as after, and the next commit works."""

from __future__ import annotations

import time
from functools import cache

import pytest
from tests.support.columns import field, schema
from tests.support.commit_builders import add, remove
from tests.support.faulty_store import WRITES, CrashError, FaultyStore

from halocline.formats.delta.actions.action import encode_commit
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.formats.delta.log.checkpoint_write import write_checkpoint
from halocline.formats.delta.log.checksum import read_summary
from halocline.formats.delta.maintain.vacuum import vacuum
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA
from halocline.formats.log.segment import list_files, readable_versions
from halocline.storage.memory import MemoryStore

DAYS_60 = 60 * 86_400_000


def far_future() -> int:
    """Sixty days ahead, so that everything before the newest checkpoint is past its retention."""
    return int(time.time() * 1000) + DAYS_60


def copied(store: MemoryStore) -> MemoryStore:
    other = MemoryStore()
    for meta in store.list():
        other.put(meta.path, store.get(meta.path))
    return other


@cache
def table(versions: int, policy: str = "classic", garbage: bool = False) -> MemoryStore:
    """A table with a checkpoint at every fourth version; to be copied, never changed."""
    store = MemoryStore()
    settings = {"delta.checkpointInterval": "4", "delta.checkpointPolicy": policy}
    state = new_table(schema("id", field("name", "string")), (), settings)
    Transaction.create(store).commit((), "CREATE TABLE", configuration=state)
    for version in range(1, versions):
        store.put(f"{version}", b"rows")
        Transaction(Snapshot.load(store)).commit([add(f"{version}")], "WRITE")
    for name in ("old/a", "old/b") if garbage else ():
        store.put(name, b"1")
    return store


def update(store) -> None:
    Transaction(Snapshot.load(store), clock=far_future).commit([remove("1"), add("new")], "UPDATE")


def late_append(store) -> None:
    transaction = Transaction(Snapshot.load(store), clock=far_future)
    theirs = DELTA.commit_path(transaction.read_version + 1)
    store.inner.put_if_absent(theirs, encode_commit([add("theirs")]))
    transaction.commit([add("new")], "WRITE")


def vacuumed(store) -> None:
    vacuum(Snapshot.load(store), dry_run=False, clock=far_future)


def state_of(store, version: int | None = None) -> tuple[int, tuple[str, ...]]:
    snapshot = Snapshot.load(store, version=version)
    return snapshot.version, tuple(sorted(snapshot.files()["path"].to_pylist()))


def assert_sound(store, allowed) -> None:
    """One of the allowed states, whole, and ready for the next commit."""
    found = state_of(store)
    assert found in allowed, f"found {found}, allowed are {allowed}"
    assert readable_versions(list_files(store, DELTA))[-1] == found[0]
    summary = read_summary(store, found[0])
    if summary is not None:
        assert (summary.table_size.files, summary.table_size.bytes) == Snapshot.load(store).totals
    Transaction(Snapshot.load(store)).commit([add("next")], "WRITE")
    assert state_of(store) == (found[0] + 1, tuple(sorted((*found[1], "next"))))


SCENARIOS = {
    "checkpoint and cleanup": (lambda: table(8), update),
    "v2 checkpoint": (lambda: table(8, "v2"), update),
    "no checkpoint due": (lambda: table(6), update),
    "somebody else first": (lambda: table(6), late_append),
    "vacuum": (lambda: table(6, garbage=True), vacuumed),
}
WITH_CHECKPOINT = ("checkpoint and cleanup", "v2 checkpoint")


def walk(scenario: str):
    """Runs a scenario once to count its operations: how it starts, what was done, and the states on its way."""
    build, act = SCENARIOS[scenario]
    counted = FaultyStore(copied(build()))
    act(counted)
    before, after = state_of(build()), state_of(counted.inner)
    on_the_way = [state_of(counted.inner, version) for version in range(before[0] + 1, after[0])]
    return build(), act, counted, [before, *on_the_way, after]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_crash_after_any_operation_leaves_the_table_before_or_after(scenario):
    start, act, counted, allowed = walk(scenario)
    assert counted.operations
    for operation in counted.operations:
        store = copied(start)
        with pytest.raises(CrashError, match=f"after operation {operation.number}:"):
            act(FaultyStore(store).crash_after(operation.number))
        assert_sound(store, allowed)
    if scenario in WITH_CHECKPOINT:
        done = {(operation.name, operation.path.rpartition(".")[2]) for operation in counted.operations}
        assert {("put_if_absent", "json"), ("put", "parquet"), ("put_if_absent", "crc"), ("delete", "json")} <= done


@pytest.mark.parametrize("scenario", WITH_CHECKPOINT)
def test_crash_within_any_overwrite_leaves_the_table_before_or_after(scenario):
    start, act, counted, allowed = walk(scenario)
    overwrites = [operation for operation in counted.operations if operation.name == "put"]
    assert len(overwrites) >= 2, "a checkpoint and the pointer"
    for operation in overwrites:
        for keep in (0, 7):
            store = copied(start)
            with pytest.raises(CrashError, match="within"):
                act(FaultyStore(store).tear(operation.number, keep=keep))
            assert_sound(store, allowed)


@pytest.mark.parametrize("scenario", WITH_CHECKPOINT)
def test_store_that_fails_after_the_commit_does_not_fail_it(scenario):
    start, _, counted, _ = walk(scenario)
    landed = next(each.number for each in counted.operations if each.name == "put_if_absent")
    faulty = FaultyStore(copied(start)).transient(landed + 1, times=1000)
    transaction = Transaction(Snapshot.load(faulty), clock=far_future)
    assert transaction.commit([add("new")], "WRITE") == 8
    assert [problem.partition(":")[0] for problem in transaction.outcome.problems] == [
        "counting its files",
        "its checkpoint",
    ]
    assert_sound(faulty.inner, [state_of(faulty.inner)])


@pytest.mark.parametrize("scenario", WITH_CHECKPOINT)
def test_lost_answer_at_any_write_does_no_harm(scenario):
    start, act, counted, allowed = walk(scenario)
    for operation in counted.operations:
        if operation.name in WRITES:
            faulty = FaultyStore(copied(start)).lose_answer(operation.number)
            act(faulty)
            assert_sound(faulty.inner, allowed[-1:])


def test_checkpoint_that_a_crash_prevented_can_be_written_later():
    start, act, counted, _ = walk("checkpoint and cleanup")
    put = next(each.number for each in counted.operations if each.name == "put")
    store = copied(start)
    with pytest.raises(CrashError):
        act(FaultyStore(store).crash_before(put))
    expected = state_of(store)
    assert write_checkpoint(store, 8).summary.table_size.files == len(expected[1])
    for version in range(9):
        store.delete(DELTA.commit_path(version))
    assert state_of(store) == expected

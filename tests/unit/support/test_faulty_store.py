"""Faults strike where they were set, and only there."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.faulty_store import WRITES, CrashError, Fault, FaultKind, FaultyStore

from halocline.errors import UnavailableError
from halocline.storage import AlreadyExistsError, MemoryStore


@pytest.fixture
def inner():
    store = MemoryStore()
    store.put("old", b"old")
    return store


def test_without_faults_it_is_the_inner_store(inner):
    store = FaultyStore(inner)
    etag = store.put_if_absent("new", b"1")
    store.put_if_match("new", b"2", etag)
    assert store.get("new") == inner.get("new") == b"2"
    assert store.get_range("new", 0, 1) == b"2"
    assert store.fetch("new") == inner.fetch("new")
    assert list(store.list()) == list(inner.list())
    assert store.exists("old")
    store.delete("old")
    assert not inner.exists("old")
    assert (store.root, store.address("x")) == (inner.root, inner.address("x"))


def test_every_operation_is_counted_and_named(inner):
    store = FaultyStore(inner)
    store.put("a", b"")
    list(store.list("folder"))
    list(store.get_many(["a", "old"]))
    store.delete_many(["a"])
    assert [(each.number, each.name, each.path) for each in store.operations] == [
        (1, "put", "a"),
        (2, "list", "folder"),
        (3, "get", "a"),
        (4, "get", "old"),
        (5, "delete", "a"),
    ]
    assert store.count == 5


def test_a_crash_cannot_be_handled_as_an_exception(inner):
    store = FaultyStore(inner).crash_before(1)
    with pytest.raises(CrashError, match="before operation 1: put a"), contextlib.suppress(Exception):
        store.put("a", b"")
    assert not issubclass(CrashError, Exception)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_crash_before_or_after_an_operation_keeps_all_that_came_first(inner, number):
    for crash, kept in (("crash_before", number - 1), ("crash_after", number)):
        space = MemoryStore()
        store = getattr(FaultyStore(space), crash)(number)
        with pytest.raises(CrashError):
            list(map(store.put, "abc", [b"", b"", b""]))
        assert [meta.path for meta in space.list()] == list("abc")[:kept], crash


def test_after_a_crash_nothing_works_any_more(inner):
    store = FaultyStore(inner).crash_after(1)
    with pytest.raises(CrashError):
        store.get("old")
    for operation in (lambda: store.put("a", b""), lambda: store.list(), lambda: store.delete("old")):
        with pytest.raises(CrashError, match="after operation 1"):
            operation()
    assert [meta.path for meta in inner.list()] == ["old"]


def test_a_crash_after_a_failed_operation_is_a_crash(inner):
    with pytest.raises(CrashError):
        FaultyStore(inner).crash_after(1).put_if_absent("old", b"")


def test_a_torn_put_leaves_its_first_bytes(inner):
    store = FaultyStore(inner).tear(2, keep=3)
    store.get("old")
    with pytest.raises(CrashError, match="within operation 2"):
        store.put("a", b"123456")
    assert inner.get("a") == b"123"


def test_a_torn_conditional_write_leaves_nothing(inner):
    with pytest.raises(CrashError):
        FaultyStore(inner).tear(1, keep=3).put_if_absent("a", b"123456")
    assert not inner.exists("a")


def test_a_transient_error_does_nothing_and_passes(inner):
    store = FaultyStore(inner).transient(1, times=2)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            store.put("a", b"")
        assert not inner.exists("a")
    store.put("a", b"")
    assert inner.exists("a")


def test_a_lost_answer_did_the_work(inner):
    store = FaultyStore(inner).lose_answer(1, on=WRITES)
    store.get("old")
    with pytest.raises(UnavailableError, match="no answer came"):
        store.put_if_absent("a", b"mine")
    assert inner.get("a") == b"mine"
    with pytest.raises(AlreadyExistsError):
        store.put_if_absent("a", b"mine")


def test_a_fault_on_writes_counts_writes_only(inner):
    store = FaultyStore(inner).crash_after(2, on=WRITES)
    store.put("a", b"")
    store.get("a")
    list(store.list())
    with pytest.raises(CrashError, match="after operation 4: delete a"):
        store.delete("a")


def test_a_delay_delays(inner):
    store = FaultyStore(inner).delay(1, 0.05)
    begun = time.monotonic()
    store.get("old")
    assert time.monotonic() - begun >= 0.05


def test_a_stale_listing_shows_neither_new_nor_deleted(inner):
    inner.put("log/1", b"")
    store = FaultyStore(inner).stale_listing(1, times=2)
    store.put("log/2", b"")
    store.delete("log/1")
    assert [meta.path for meta in store.list()] == ["log/1", "old"]
    assert [meta.path for meta in store.list("log", start_after="log/0")] == ["log/1"]
    assert [meta.path for meta in store.list()] == ["log/2", "old"]
    assert store.exists("log/2")


def test_a_plan_may_be_given_as_a_whole(inner):
    store = FaultyStore(inner, [Fault(FaultKind.TRANSIENT, at=1), Fault(FaultKind.CRASH_AFTER, at=2)])
    with pytest.raises(UnavailableError):
        store.get("old")
    with pytest.raises(CrashError):
        store.get("old")


def test_counting_holds_among_threads(inner):
    store = FaultyStore(inner)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.put(f"a/{number}", b""), range(200)))
    assert sorted(each.number for each in store.operations) == list(range(1, 201))


def test_walking_every_crash_finds_the_one_that_hurts(inner):
    """The use it is made for: a move in two steps, in the safe order and in the other one."""

    def safe(store):
        store.put("new", store.get("old"))
        store.delete("old")

    def unsafe(store):
        data = store.get("old")
        store.delete("old")
        store.put("new", data)

    def survives(procedure):
        counted = FaultyStore(_with_old())
        procedure(counted)
        for number in range(1, counted.count + 1):
            store = _with_old()
            with contextlib.suppress(CrashError):
                procedure(FaultyStore(store).crash_after(number))
            if not (store.exists("old") or store.exists("new")):
                return False
        return True

    assert survives(safe)
    assert not survives(unsafe)


def _with_old():
    store = MemoryStore()
    store.put("old", b"old")
    return store

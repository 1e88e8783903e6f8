"""What is particular to memory: sharing by name, and exclusion between threads."""

import pickle
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from halocline.errors import ConflictError, UnsupportedError
from halocline.storage import AlreadyExistsError, MemoryStore, open_store

THREADS = 8


@pytest.fixture
def _hasty_threads():
    """Switches threads so often that an unguarded step is caught."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_stores_of_one_name_share_their_objects():
    name = uuid.uuid4().hex
    open_store(f"memory://{name}/lake").put("orders/a", b"1")
    assert open_store(f"memory://{name}").get("lake/orders/a") == b"1"
    assert [meta.path for meta in MemoryStore(name, "lake/orders").list()] == ["a"]


def test_stores_without_a_name_share_nothing():
    MemoryStore().put("a", b"1")
    assert list(MemoryStore().list()) == []
    assert list(open_store("memory://").list()) == []


def test_a_listing_is_of_one_moment():
    store = MemoryStore()
    store.put("a", b"")
    store.put("b", b"")
    listing = store.list()
    assert next(listing).path == "a"
    store.put("c", b"")
    store.delete("b")
    assert [meta.path for meta in listing] == ["b"]


def test_the_bytes_are_the_stores_own():
    store = MemoryStore()
    data = bytearray(b"one")
    store.put("a", data)
    data[:] = b"two"
    assert store.get("a") == b"one"


@pytest.mark.usefixtures("_hasty_threads")
def test_threads_that_race_for_a_name_have_one_winner_each_round():
    store, barrier = MemoryStore(), threading.Barrier(THREADS)

    def contend(me):
        won = []
        for number in range(100):
            barrier.wait()
            try:
                store.put_if_absent(f"log/{number}", b"%d" % me)
                won.append(number)
            except AlreadyExistsError:
                continue
        return won

    with ThreadPoolExecutor(THREADS) as pool:
        wins = list(pool.map(contend, range(THREADS)))
    assert sorted(number for won in wins for number in won) == list(range(100))
    assert all(store.get(f"log/{number}") == b"%d" % me for me, won in enumerate(wins) for number in won)


@pytest.mark.usefixtures("_hasty_threads")
def test_threads_that_count_by_compare_and_swap_lose_no_increment():
    store = MemoryStore()
    store.put("counter", b"0")

    def count(_):
        for _ in range(50):
            while True:
                data, meta = store.fetch("counter")
                try:
                    store.put_if_match("counter", b"%d" % (int(data) + 1), meta.etag)
                    break
                except ConflictError:
                    continue

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(count, range(THREADS)))
    assert store.get("counter") == b"%d" % (50 * THREADS)


def test_a_store_cannot_be_sent_to_another_process():
    with pytest.raises(UnsupportedError, match="lives in one process"):
        pickle.dumps(MemoryStore("shared"))

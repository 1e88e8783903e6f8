"""Unpacked indexes are kept, shared, and leave when there are too many."""

import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.faulty_store import FaultyStore
from tests.support.splits import build, look_into, row

from halocline.errors import MalformedError
from halocline.formats.index.split.cache import IndexCache
from halocline.formats.index.split.reader import OpenedSplit
from halocline.storage.memory import MemoryStore

PATH = "a.split.parquet"
DAY_S = 24 * 3600


def entries(cache: IndexCache) -> list[str]:
    return sorted(os.listdir(cache.folder))


def fill(folder: str) -> None:
    with open(os.path.join(folder, "x"), "wb") as file:
        file.write(bytes(10))


def test_an_index_is_unpacked_once(tmp_path):
    store = FaultyStore(MemoryStore())
    build(store, [row(number) for number in range(10)])
    cache = pickle.loads(pickle.dumps(IndexCache(str(tmp_path / "cache"))))
    reads = []
    for _ in range(3):
        before = store.count
        with OpenedSplit(store, PATH, cache=cache) as opened:
            assert opened.searcher.num_docs == 10
        reads.append(sum(call.name == "get_range" for call in store.operations[before:]))
    assert reads[0] > reads[1] == reads[2]
    assert len(entries(cache)) == 1
    cache.clear()
    assert not os.path.exists(cache.folder)


def test_indexes_that_are_still_open_somewhere_are_removed_for_good(tmp_path, monkeypatch):
    cache = IndexCache(str(tmp_path / "cache"), most_bytes=0)
    look_into(monkeypatch, cache.unpacked("old", fill))
    cache.unpacked("new", fill)
    assert entries(cache) == ["new"], "room was made"
    look_into(monkeypatch, cache.unpacked("new", fill))
    cache.clear()
    assert not os.path.exists(cache.folder)


def test_what_a_killed_process_has_half_unpacked_goes_once_it_is_old(tmp_path):
    cache = IndexCache(str(tmp_path))
    for name, age_s in (("old", 2 * DAY_S), ("fresh", 0)):
        half = tmp_path / f".unpacking-{name}"
        half.mkdir()
        os.utime(half, (time.time() - age_s,) * 2)
    cache.unpacked("a", fill)
    assert entries(cache) == [".unpacking-fresh", "a"]


def test_a_split_that_is_written_anew_is_another_one(tmp_path):
    store, cache = MemoryStore(), IndexCache(str(tmp_path))
    for count in (3, 5):
        build(store, [row(number) for number in range(count)])
        with OpenedSplit(store, PATH, cache=cache) as opened:
            assert opened.searcher.num_docs == count
    assert len(entries(cache)) == 2


def test_what_was_used_the_longest_ago_goes_first(tmp_path):
    cache = IndexCache(str(tmp_path), most_bytes=25)
    for number, key in enumerate("ab"):
        os.utime(cache.unpacked(key, fill), ns=(number, number))
    cache.unpacked("a", fill)
    cache.unpacked("c", fill)
    assert entries(cache) == ["a", "c"]


def test_a_damaged_split_leaves_nothing_in_the_cache(tmp_path):
    store, cache = MemoryStore(), IndexCache(str(tmp_path))
    built = build(store, [row(1)])
    data, place = store.get(PATH), built.layout.blobs[-1].offset
    store.put(PATH, data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    with pytest.raises(MalformedError), OpenedSplit(store, PATH, cache=cache) as opened:
        _ = opened.searcher
    assert entries(cache) == []


def test_many_at_once_share_one_index(tmp_path):
    store, cache = MemoryStore(), IndexCache(str(tmp_path))
    build(store, [row(number) for number in range(50)])

    def count(_: int) -> int:
        with OpenedSplit(store, PATH, cache=cache) as opened:
            return opened.searcher.num_docs

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(count, range(16))) == {50}
    assert len(entries(cache)) == 1

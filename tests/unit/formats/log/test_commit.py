"""The commit loop: one file per version, every winner looked at, lost answers found again."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import pytest
from tests.support.faulty_store import FaultyStore

from halocline.errors import ConflictError, UnavailableError
from halocline.formats.log.commit import Landed, Winner, is_refused, land
from halocline.formats.log.fence import fenced
from halocline.storage.memory import MemoryStore


def path(version: int) -> str:
    return f"log/{version:020d}.json"


@dataclass(frozen=True)
class Note:
    """A proposal that carries a name and remembers the winners it was rebased on."""

    name: str
    seen: tuple[str, ...] = ()
    gives_way_to: str | None = None

    def encode(self, version: int) -> bytes:
        return f"{self.name}@{version}".encode()

    def is_own(self, winner: Winner) -> bool:
        return winner.data.decode().partition("@")[0] == self.name

    def rebased(self, winner: Winner) -> Note:
        name = winner.data.decode().partition("@")[0]
        if name == self.gives_way_to:
            raise ConflictError(f"gave way to {name}")
        return replace(self, seen=(*self.seen, name))


def commit(store, note: Note, version: int = 0, **options) -> Landed[Note]:
    return land(store, note, version, path=path, wait=lambda seconds: None, **options)


def test_free_version_is_taken_at_once():
    store = MemoryStore()
    assert commit(store, Note("a")) == Landed(0, Note("a"), 0)
    assert store.get(path(0)) == b"a@0"


def test_taken_versions_are_looked_at_in_order_before_the_first_free_one():
    store = MemoryStore()
    for name in ("a", "b", "c"):
        commit(store, Note(name))
    landed = commit(store, Note("d"))
    assert (landed.version, landed.losses, landed.proposal.seen) == (3, 3, ("a", "b", "c"))
    assert store.get(path(3)) == b"d@3"


def test_contradicting_winner_stops_the_proposal_and_writes_nothing():
    store = MemoryStore()
    commit(store, Note("a"))
    with pytest.raises(ConflictError, match="gave way to a"):
        commit(store, Note("b", gives_way_to="a"))
    assert [meta.path for meta in store.list()] == [path(0)]


@pytest.mark.parametrize("lost_at", [1], ids=["the put itself"])
def test_lost_answer_is_found_by_reading_the_version(lost_at):
    store = FaultyStore(MemoryStore()).lose_answer(lost_at, on=["put_if_absent"])
    landed = commit(store, Note("a"))
    assert (landed.version, landed.losses) == (0, 0)
    assert [meta.path for meta in store.inner.list()] == [path(0)]


def test_lost_answer_behind_a_winner_is_not_mistaken_for_success():
    inner = MemoryStore()
    commit(inner, Note("a"))
    landed = commit(FaultyStore(inner).lose_answer(1, on=["put_if_absent"]), Note("b"))
    assert (landed.version, landed.proposal.seen) == (1, ("a",))
    assert inner.get(path(1)) == b"b@1"


def test_lost_answer_and_silence_afterwards_still_land_once():
    # The put takes effect, its answer is lost, and so is the first look; the second put finds the name taken.
    store = FaultyStore(MemoryStore()).lose_answer(1, on=["put_if_absent"]).transient(1, on=["fetch"])
    landed = commit(store, Note("a"))
    assert (landed.version, landed.losses) == (0, 0)
    assert [meta.path for meta in store.inner.list()] == [path(0)]


def test_transient_refusals_are_tried_again():
    store = FaultyStore(MemoryStore()).transient(1, times=2, on=["put_if_absent"])
    assert commit(store, Note("a")).version == 0


def test_store_that_never_answers_raises_and_says_the_outcome_is_unknown():
    store = FaultyStore(MemoryStore()).transient(1, times=100)
    with pytest.raises(UnavailableError, match="committing version 0") as caught:
        commit(store, Note("a"))
    assert "unknown" in caught.value.sides["outcome"]


def test_racing_threads_each_land_once_without_gaps():
    store = MemoryStore()
    landed: list[int] = []

    def work(name: str) -> None:
        version = 0
        for number in range(25):
            done = commit(store, Note(f"{name}{number}"), version)
            landed.append(done.version)
            version = done.version + 1

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = [store.get(path(version)).decode().partition("@")[0] for version in range(200)]
    assert sorted(landed) == list(range(200))
    assert len(set(names)) == 200


def test_a_version_that_is_free_because_the_log_was_truncated_is_not_taken():
    store = MemoryStore()
    for name in ("a", "b", "c", "d"):
        commit(store, Note(name))
    for version in (0, 1, 2):
        store.delete(path(version))
    with pytest.raises(ConflictError, match="gone on to version 3"):
        commit(store, Note("late"), version=2)
    assert not store.exists(path(2)), "nobody would read it"


@pytest.mark.parametrize("present", [(), ("a",)])
def test_a_version_far_behind_the_end_of_the_log_is_not_taken(present):
    store = MemoryStore()
    for name in present:
        commit(store, Note(name))
    with pytest.raises(ConflictError, match="is not the one that was read"):
        commit(store, Note("late"), version=6)
    assert not store.exists(path(6)), "it would leave a gap, and nobody could read the table"


@pytest.mark.parametrize("name", [f"{5:020d}.checkpoint.parquet", f"state-v{5:020d}/_manifest.avro"])
def test_a_log_that_begins_with_a_checkpoint_alone_takes_its_next_version(name):
    store = MemoryStore()
    store.put(f"log/{name}", b"")
    assert commit(store, Note("next"), version=6).version == 6


def test_what_stands_in_front_is_asked_before_each_attempt_and_its_refusal_writes_nothing():
    store, asked = MemoryStore(), []

    def check() -> None:
        asked.append(store.exists(path(0)))
        if asked[-1]:
            raise ConflictError("somebody has taken over", condition="ROLLOUT_RUNNING")

    class Overtaken(MemoryStore):
        def put_if_absent(self, name: str, data: bytes) -> str:
            if not store.exists(path(0)):
                store.put(path(0), b"other@0")
            return store.put_if_absent(name, data)

        def fetch(self, name: str):
            return store.fetch(name)

        def head(self, name: str):
            return store.head(name)

    with fenced(check), pytest.raises(ConflictError, match="taken over"):
        commit(Overtaken(), Note("a"))
    assert asked == [False, True], "the version was taken between the question and the put"
    assert [meta.path for meta in store.list()] == [path(0)]


def test_a_refusal_after_an_attempt_without_an_answer_says_that_the_outcome_is_unknown():
    store, asked = FaultyStore(MemoryStore()).transient(1, times=2), []

    def check() -> None:
        asked.append(1)
        if len(asked) > 1:
            raise ConflictError("somebody has taken over", condition="ROLLOUT_RUNNING")

    with fenced(check), pytest.raises(UnavailableError, match="somebody has taken over") as caught:
        commit(store, Note("a"))
    assert "unknown" in caught.value.sides["outcome"]
    assert not is_refused(caught.value), "the files of the commit stay"

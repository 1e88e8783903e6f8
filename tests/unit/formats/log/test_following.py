"""What follows a known version is the same by names as by a listing, or is left to the listing."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.reached import Reached

from halocline.errors import MalformedError
from halocline.formats.delta.commit.log_cleanup import expired_files
from halocline.formats.log.following import following
from halocline.formats.log.names import DELTA
from halocline.formats.log.segment import complete_checkpoints, find_segment, list_files
from halocline.storage.local import LocalStore

reached = Reached()

KINDS = ("classic", "parts", "v2")


class Log:
    """A log on disk that lives: it is appended to, checkpointed, cleaned up, and made anew."""

    def __init__(self, folder: Path) -> None:
        self.store = LocalStore(folder, sync=False)
        self.version = -1
        self.append()

    def append(self, checksum: bool = True) -> None:
        self.version += 1
        self.store.put_if_absent(DELTA.commit_path(self.version), uuid.uuid4().bytes)
        if checksum:
            self.store.put(f"{DELTA.prefix(self.version)}.crc", b"{}")

    def checkpoint(self, kind: str = "classic", pointed: bool = True) -> None:
        prefix, told = f"{DELTA.prefix(self.version)}.checkpoint", {"version": self.version, "size": 1}
        if kind == "parts":
            names = [f"{prefix}.{part:010d}.{2:010d}.parquet" for part in (1, 2)]
            told["parts"] = 2
        elif kind == "v2":
            names = [f"{prefix}.{uuid.uuid4()}.json"]
            told["v2Checkpoint"] = {"path": names[0].rpartition("/")[2]}
        else:
            names = [f"{prefix}.parquet"]
        for name in names:
            self.store.put(name, b"PAR1")
        if pointed:
            self.store.put(DELTA.pointer_path, json.dumps(told).encode())

    def clean(self) -> None:
        files = list_files(self.store, DELTA)
        checkpoints = complete_checkpoints(files)
        if checkpoints:
            self.store.delete_many(file.path for file in expired_files(files, checkpoints[-1].version))

    def begin_again(self) -> None:
        self.store.delete_many([meta.path for meta in self.store.list()])
        newest, self.version = self.version, -1
        for _ in range(newest + 1):
            self.append()


@st.composite
def lives(draw: st.DrawFn) -> list[tuple[str, object]]:
    step = st.one_of(
        st.tuples(st.just("append"), st.booleans()),
        st.tuples(st.just("append"), st.booleans()),
        st.tuples(st.just("checkpoint"), st.sampled_from(KINDS)),
        st.tuples(st.just("hidden checkpoint"), st.sampled_from(KINDS)),
        st.tuples(st.just("clean"), st.none()),
        st.tuples(st.just("begin again"), st.none()),
        st.tuples(st.just("tear pointer"), st.none()),
        st.tuples(st.just("look"), st.none()),
    )
    return draw(st.lists(step, min_size=5, max_size=25))


@reached.at_least(compared=30, alike=10)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(life=lives())
def test_by_names_the_same_version_is_found_as_by_a_listing(life, tmp_path_factory):
    log = Log(tmp_path_factory.mktemp("log"))
    known = [find_segment(log.store, DELTA)]
    acts: dict[str, Callable[[object], None]] = {
        "append": lambda given: log.append(bool(given)),
        "checkpoint": lambda kind: log.checkpoint(str(kind)),
        "hidden checkpoint": lambda kind: log.checkpoint(str(kind), pointed=False),
        "clean": lambda _: log.clean(),
        "begin again": lambda _: log.begin_again(),
        "tear pointer": lambda _: log.store.put(DELTA.pointer_path, b'{"version":'),
        "look": lambda _: known.append(find_segment(log.store, DELTA)),
    }
    for name, given_ in life:
        acts[name](given_)
        listed = find_segment(log.store, DELTA)
        for before in known[-3:]:
            found = following(log.store, DELTA, before)
            if found is None:
                continue
            reached("compared")
            assert (found.version, found.last_commit) == (listed.version, listed.last_commit)
            every = {entry.path: entry for entry in list_files(log.store, DELTA)}
            start = -1 if found.checkpoint is None else found.checkpoint.version
            assert [each.version for each in found.commits] == list(range(start + 1, found.version + 1))
            for entry in (*found.commits, *(found.checkpoint.files if found.checkpoint else ())):
                assert every.get(entry.path) == entry, f"{entry.name} is not in the log"
            if found.checkpoint == listed.checkpoint:
                reached("alike")
                assert found.checksum == listed.checksum
                assert found.commits == listed.commits


@pytest.mark.parametrize("kind", KINDS)
def test_appends_and_checkpoints_are_followed_without_a_listing(kind, tmp_path, monkeypatch):
    log = Log(tmp_path)
    known = find_segment(log.store, DELTA)
    monkeypatch.setattr(LocalStore, "list", lambda *_, **__: pytest.fail("the folder was listed"))
    for _ in range(30):
        log.append()
        if log.version % 10 == 0:
            log.checkpoint(kind)
        known = following(log.store, DELTA, known)
        assert known is not None
        assert known.version == log.version
    assert known.checkpoint is not None
    assert (known.checkpoint.version, known.commits) == (30, ())
    monkeypatch.undo()
    listed = find_segment(log.store, DELTA)
    assert (known.checkpoint, known.checkpoint_commit, known.checksums) == (
        listed.checkpoint,
        listed.checkpoint_commit,
        listed.checksums,
    )


def test_a_version_in_between_is_followed_as_well(tmp_path):
    log = Log(tmp_path)
    known = find_segment(log.store, DELTA)
    for _ in range(5):
        log.append()
    found = following(log.store, DELTA, known, 3)
    assert found == find_segment(log.store, DELTA, 3)
    assert following(log.store, DELTA, found, 2) is None
    assert following(log.store, DELTA, found, 9) is None


def test_a_lost_commit_is_left_to_the_listing_which_names_it(tmp_path):
    log = Log(tmp_path)
    known = find_segment(log.store, DELTA)
    for _ in range(3):
        log.append()
    log.store.delete(DELTA.commit_path(2))
    assert following(log.store, DELTA, known) is None
    with pytest.raises(MalformedError, match="version 2 is missing"):
        find_segment(log.store, DELTA)


def test_a_log_that_was_cleaned_up_behind_the_known_version_is_left_to_the_listing(tmp_path):
    log = Log(tmp_path)
    known = find_segment(log.store, DELTA)
    for _ in range(5):
        log.append()
    log.checkpoint()
    log.clean()
    assert following(log.store, DELTA, known) is None
    assert find_segment(log.store, DELTA).version == 5


class InterruptedStore(LocalStore):
    """A store in which something happens when an object is asked for the n-th time."""

    act: Callable[[], None]
    left = 0

    def head(self, path):
        self.left -= 1
        if self.left == 0:
            self.act()
        return super().head(path)


@pytest.mark.parametrize("happens", ["commits", "clean-up", "checkpoint and clean-up", "half a clean-up"])
def test_whatever_others_do_meanwhile_no_older_version_is_found(happens, tmp_path):
    """The n-th question is interrupted, for every n there is."""
    for moment in range(1, 60):
        log = Log(tmp_path / str(moment))
        log.append()
        known = find_segment(log.store, DELTA)
        for _ in range(12):
            log.append()
        if happens.endswith("clean-up") and not happens.startswith("checkpoint"):
            log.checkpoint(pointed=False)
            log.append()

        def act(log: Log = log) -> None:
            if happens == "half a clean-up":  # commits from the oldest on; the checkpoint has not been pointed to
                log.store.delete_many(map(DELTA.commit_path, range(log.version - 1)))
                return
            if happens != "clean-up":
                log.append()
            if happens.startswith("checkpoint"):
                log.checkpoint()
            if happens.endswith("clean-up"):
                log.clean()

        newest = log.version
        store = InterruptedStore(tmp_path / str(moment), sync=False)
        store.act, store.left = act, moment
        found = following(store, DELTA, known)
        assert found is None or newest <= found.version <= log.version, f"interrupted at question {moment}"
        asked = moment - store.left
        if asked < moment:
            break
    assert moment > 5, "too few questions were interrupted"


def test_a_clean_up_in_any_order_hides_no_version_that_a_checkpoint_leads_to(tmp_path):
    """Other clients delete what has expired in one request, whose order nobody knows."""
    log = Log(tmp_path)
    log.append()
    known = find_segment(log.store, DELTA)
    for _ in range(9):
        log.append()
    log.checkpoint()
    log.store.delete_many(map(DELTA.commit_path, range(known.version + 1, log.version)))
    found = following(log.store, DELTA, known) or find_segment(log.store, DELTA)
    assert found.version == log.version, "an older version than the pointer names"


def test_a_compaction_that_is_gone_is_not_taken_for_its_commits(tmp_path):
    log = Log(tmp_path)
    for _ in range(5):
        log.append()
    compaction = f"{DELTA.prefix(1)}.{4:020d}.compacted.json"
    log.store.put(compaction, b"{}")
    known = find_segment(log.store, DELTA)
    assert [each.path for each in known.compactions] == [compaction]
    log.append()
    kept = following(log.store, DELTA, known)
    assert kept is not None
    assert kept.compactions == known.compactions
    log.store.delete(compaction)
    found = following(log.store, DELTA, known) or find_segment(log.store, DELTA)
    assert (found.version, found.compactions) == (6, ())

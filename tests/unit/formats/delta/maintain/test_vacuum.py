"""Vacuum: nothing that anybody needs is deleted, and nothing by accident."""

from __future__ import annotations

import os
import warnings
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.columns import field, schema
from tests.support.commit_builders import add, metadata, remove
from tests.support.faulty_store import FaultyStore

from halocline.errors import IncompatibleError, InputError, NotFoundError, UnavailableError, UnsupportedError
from halocline.formats.delta.actions.action import Cdc, ProtocolAction, encode_commit
from halocline.formats.delta.actions.deletion_vectors import file_path, write_file
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.formats.delta.log.checkpoint_write import write_checkpoint
from halocline.formats.delta.maintain.removed_files import MARK, read_mark, write_mark
from halocline.formats.delta.maintain.vacuum import is_hidden, vacuum
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA
from halocline.storage.local import LocalStore
from halocline.storage.memory import MemoryStore

HOUR = 3_600_000
WEEK = 7 * 24 * HOUR


def created(store, configuration=None, partitions=()) -> None:
    columns = schema("id", *(field(name, "string") for name in partitions))
    Transaction.create(store).commit((), "CREATE TABLE", configuration=new_table(columns, partitions, configuration))


def commit(store, *actions, operation="WRITE") -> None:
    Transaction(Snapshot.load(store)).commit(actions, operation)


def later(hours: float):
    """A clock that is so many hours ahead."""
    import time

    return lambda: int(time.time() * 1000 + hours * HOUR)


def found(store, **options) -> list[str]:
    return [meta.path for meta in vacuum(Snapshot.load(store), **options).files]


@pytest.fixture
def store():
    store = MemoryStore()
    created(store, {"delta.enableDeletionVectors": "true"})
    return store


def test_a_table_older_than_protocols_is_cleaned_as_it_was_opened():
    store = MemoryStore()
    store.put(DELTA.commit_path(0), encode_commit([metadata(), add("live")]))
    for name in ("live", "never committed"):
        store.put(name, b"data")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # every look at such a table warns
        snapshot = Snapshot.load(store, legacy_protocol=True, operation="write")
        vacuum(snapshot, dry_run=False, clock=later(24 * 7 + 1))
    assert "never committed" not in {meta.path for meta in store.list("")}
    assert store.get("live") == b"data"


def test_only_files_that_nobody_needs_are_found(store):
    for name in (
        "live",
        "removed now",
        "removed long ago",
        "never committed",
        "_hidden/x",
        ".hidden",
        "_change_data/c",
    ):
        store.put(name, b"data")
    commit(store, add("live"), add("removed%20now"), add("removed%20long%20ago"))
    now = later(0)()
    gone = [remove("removed%20now"), remove("removed%20long%20ago")]
    gone = [type(gone[0])(each.path, at, True, True, {}, 100) for each, at in zip(gone, (now + WEEK, 5), strict=True)]
    commit(store, *gone, operation="DELETE")
    assert found(store, clock=later(24 * 7 + 1)) == ["_change_data/c", "never committed", "removed long ago"]


def test_young_files_stay_whatever_the_log_says(store):
    store.put("just written", b"data")
    assert found(store, clock=later(24 * 7 - 1)) == []
    assert found(store, clock=later(24 * 7 + 1)) == ["just written"]


def test_vector_files_are_needed_as_long_as_their_data_files(store):
    vectors = [write_file(store, [[1, 2]])[0] for _ in range(3)]
    live, removed, orphan = (file_path(store, each) for each in vectors)
    for name in "ab":
        store.put(name, b"data")
    commit(store, add("a", deletion_vector=vectors[0]), add("b", deletion_vector=vectors[1]))
    future = later(24 * 30)()
    tombstone = remove("b", deletion_vector=vectors[1])
    commit(store, type(tombstone)("b", future, True, True, {}, 100, deletion_vector=vectors[1]), operation="DELETE")
    paths = found(store, clock=lambda: future + HOUR)
    assert paths == [orphan]
    assert found(store, clock=lambda: future + WEEK + HOUR) == sorted(["b", removed, orphan])
    assert live not in paths


def test_dry_run_is_the_default_and_deletes_nothing(store):
    store.put("old", b"12345")
    result = vacuum(Snapshot.load(store), clock=later(24 * 8))
    assert (result.deleted, result.bytes) == (False, 5)
    assert store.exists("old")
    assert Snapshot.load(store).version == 0


def test_deleting_is_recorded_at_its_beginning_and_end(store):
    store.put("old/a", b"12345")
    store.put("old/b", b"1")
    result = vacuum(Snapshot.load(store), dry_run=False, clock=later(24 * 8))
    assert result.deleted
    assert not store.exists("old/a")
    start, end = (Snapshot.load(store, version=version).commit_info.values for version in (1, 2))
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    assert start["operationParameters"] == {"retentionCheckEnabled": True, "defaultRetentionMillis": WEEK}
    assert start["operationMetrics"] == {"numFilesToDelete": "2", "sizeOfDataToDelete": "6"}
    assert end["operationParameters"] == {"status": "COMPLETED"}
    assert end["operationMetrics"] == {"numDeletedFiles": "2", "numVacuumedDirectories": "1"}
    assert start["isolationLevel"] == "SnapshotIsolation"


def test_failure_is_recorded_and_raised(store):
    store.put("old", b"1")
    faulty = FaultyStore(store).transient(1, on=["delete"])
    with pytest.raises(UnavailableError):
        vacuum(Snapshot.load(faulty), dry_run=False, clock=later(24 * 8))
    assert Snapshot.load(store).commit_info.values["operationParameters"] == {"status": "FAILED"}


@pytest.mark.parametrize("retention_ms", [0, WEEK - 1], ids=["nothing", "a bit less"])
def test_shorter_retention_than_promised_needs_to_be_allowed(store, retention_ms):
    with pytest.raises(InputError) as caught:
        vacuum(Snapshot.load(store), retention_ms=retention_ms)
    assert caught.value.condition == "RETENTION_TOO_SHORT"
    assert caught.value.sides["table"].endswith("168 h")
    store.put("new", b"1")
    assert found(store, retention_ms=retention_ms, allow_short_retention=True, clock=later(24 * 7)) == ["new"]


def test_longer_retention_is_always_fine(store):
    store.put("old", b"1")
    assert found(store, retention_ms=2 * WEEK, clock=later(24 * 8)) == []


def test_retention_of_the_table_counts():
    store = MemoryStore()
    created(store, {"delta.deletedFileRetentionDuration": "interval 1 hour"})
    store.put("old", b"1")
    assert found(store, clock=later(2)) == ["old"]


def test_file_brought_back_meanwhile_is_spared(store):
    store.put("old", b"1")
    stale = Snapshot.load(store)
    commit(store, add("old"))
    result = vacuum(stale, dry_run=False, clock=later(24 * 8))
    assert result.files == ()
    assert store.exists("old")


def test_gate_is_the_one_for_writing():
    store = MemoryStore()
    protocol = ProtocolAction(3, 7, ["vacuumProtocolCheck"], ["vacuumProtocolCheck", "shiny"])
    store.put(DELTA.commit_path(0), encode_commit([protocol, metadata()]))
    store.put("old", b"1")
    with pytest.raises(IncompatibleError, match="shiny"):
        vacuum(Snapshot.load(store), clock=later(24 * 8))


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("_delta_log/0.json", True),
        ("_temporary/x/part", True),
        ("a/_temporary/x/part", True),
        (f"{'0a' * 16}/_temporary/0/_temporary/attempt_1/_day=1/part", False),
        (f"{'0a' * 16}/_temporary/0/task_1/part", False),
        (f"{'0a' * 16}/_temporary/0/_temporary/attempt_1/.part.crc", True),
        (f"{'0a' * 16}/_other/part", True),
        (".part.crc", True),
        ("a/.b/c", True),
        ("_day=1/part", False),
        ("_other=1/part", True),
        ("_change_data/day=1/cdc", False),
        ("part", False),
    ],
)
def test_hidden_names_are_not_data(path, hidden):
    assert is_hidden(path, ("_day=",)) is hidden


def test_what_killed_writers_left_behind_goes_with_the_rest(tmp_path):
    store = LocalStore(tmp_path)
    created(store)
    task = f"{'0a' * 16}/_temporary/0/_temporary/attempt_1/part.parquet"
    store.put(task, b"1")
    half, lock = (tmp_path / "a" / f".~halocline-0a{end}" for end in (".tmp", ".lock"))
    half.parent.mkdir()
    for file in (half, lock, tmp_path / "a" / ".theirs.tmp"):
        file.write_bytes(b"1")
    options = {"allow_short_retention": True, "retention_ms": 0}
    assert vacuum(Snapshot.load(store), dry_run=False, clock=later(12), **options).files[0].path == task
    assert half.exists(), "a writer that is at work may have it open"
    vacuum(Snapshot.load(store), clock=later(24 * 8))
    assert half.exists(), "a dry run deletes nothing"
    vacuum(Snapshot.load(store), dry_run=False, clock=later(24 * 8))
    assert not half.exists()
    assert {file.name for file in half.parent.iterdir()} == {lock.name, ".theirs.tmp"}


def test_absolute_paths_below_the_root_are_needed_and_others_are_left_alone(tmp_path):
    outside = tmp_path / "elsewhere" / "x.parquet"
    outside.parent.mkdir()
    outside.write_bytes(b"1")
    store = LocalStore(tmp_path / "a table")
    created(store)
    for name in ("inside", "relative", "nobody's"):
        store.put(name, b"1")
    commit(store, add(f"file://{tmp_path}/a%20table/inside"), add("relative"), add(f"file://{outside}"))
    vacuum(Snapshot.load(store), dry_run=False, clock=later(24 * 8))
    assert sorted(name for name in os.listdir(store.folder) if not name.startswith(("_", "."))) == [
        "inside",
        "relative",
    ]
    assert outside.exists()


# ---------------------------------------------------------------------- paths spelt otherwise than the listing


def vacuumed(store) -> list[str]:
    """What a real vacuum leaves of a local table, a week later."""
    vacuum(Snapshot.load(store), dry_run=False, clock=later(24 * 8))
    found = sorted(meta.path for meta in store.list() if not meta.path.startswith("_delta_log/"))
    return found


@pytest.mark.parametrize(
    "spelt",
    [
        "./b",
        "a//b",
        "a/../b",
        "a/./b",
        "%2E/b",
        "{root}/./b",
        "{root}//b",
        "file:{root}/b",
        "file://{root}/b",
        "file://localhost{root}/b",
        "file:{root}/x/../b",
    ],
)
def test_live_file_is_kept_however_the_log_spells_it(tmp_path, spelt):
    store = LocalStore(tmp_path / "t")
    created(store)
    name = "a/b" if spelt in ("a//b", "a/./b") else "b"
    store.put(name, b"1")
    store.put("a/orphan", b"1")
    commit(store, add(spelt.format(root=tmp_path / "t")))
    assert vacuumed(store) == [name]


def test_recently_removed_file_is_kept_however_the_remove_spells_it(store):
    store.put("b", b"1")
    commit(store, add("b"))
    gone = type(remove("b"))("./b", later(24 * 7)(), True, True, {}, 100)
    commit(store, gone, operation="DELETE")
    assert Snapshot.load(store).files().num_rows == 0
    assert found(store, clock=later(24 * 7 + 1)) == []


def test_live_vector_file_is_kept_however_the_log_spells_it(tmp_path):
    store = LocalStore(tmp_path / "t")
    created(store, {"delta.enableDeletionVectors": "true"})
    (stored,) = write_file(store, [[1]])
    name = file_path(store, stored)
    spelt = msgspec.structs.replace(stored, storage_type="p", path_or_inline_dv=f"file:{tmp_path}/x/../t//{name}")
    store.put("a", b"1")
    commit(store, add("a", deletion_vector=spelt))
    assert vacuumed(store) == sorted(["a", name])


def test_table_behind_a_link_keeps_its_absolute_paths(tmp_path):
    store = LocalStore(tmp_path / "data" / "t")
    created(store)
    store.put("b", b"1")
    store.put("orphan", b"1")
    commit(store, add(f"file:{tmp_path}/data/t/b"))
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert vacuumed(LocalStore(tmp_path / "link" / "t")) == ["b"]


def test_links_are_not_followed_and_stay(tmp_path):
    other = LocalStore(tmp_path / "other")
    created(other)
    other.put("x", b"1")
    store = LocalStore(tmp_path / "t")
    created(store)
    store.put("b", b"1")
    (tmp_path / "t" / "linked").symlink_to(tmp_path / "other")
    (tmp_path / "t" / "file").symlink_to(tmp_path / "other" / "x")
    (tmp_path / "t" / "nowhere").symlink_to(tmp_path / "gone")
    commit(store, add("b"))
    vacuumed(store)
    assert other.exists("x")
    assert other.exists(DELTA.commit_path(0))
    assert sorted(os.listdir(tmp_path / "t")) == ["_delta_log", "b", "file", "linked", "nowhere"]


def test_live_file_behind_a_link_is_kept(tmp_path):
    store = LocalStore(tmp_path / "t")
    created(store)
    store.put("real/b", b"1")
    (tmp_path / "t" / "linked").symlink_to(tmp_path / "t" / "real")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "c").write_bytes(b"1")
    (tmp_path / "t" / "away").symlink_to(outside)
    commit(store, add("linked/b"), add("away/c"))
    vacuumed(store)
    assert store.exists("real/b")
    assert (outside / "c").exists()


@pytest.mark.parametrize(
    "log", ["_delta_log/00000000000000000000.json", ".hoodie/hoodie.properties", "_transaction_log/x"]
)
def test_table_inside_a_table_stays_whole(store, log):
    for name in ("live", "orphan", "inner/part", f"inner/{log}", "inner/day=1/part", "innermost"):
        store.put(name, b"1")
    commit(store, add("live"))
    assert found(store, clock=later(24 * 8)) == ["innermost", "orphan"]


def test_table_whose_log_is_a_link_stays_whole(tmp_path):
    store = LocalStore(tmp_path / "t")
    created(store)
    (tmp_path / "log").mkdir()
    store.put("inner/part", b"1")
    (tmp_path / "t" / "inner" / "_delta_log").symlink_to(tmp_path / "log")
    assert vacuumed(store) == ["inner/part"]


def test_table_of_two_formats_is_refused(store):
    store.put(".hoodie/hoodie.properties", b"")
    store.put("base-file", b"1")
    with pytest.raises(UnsupportedError, match="another format"):
        vacuum(Snapshot.load(store), dry_run=False, clock=later(24 * 8))
    assert store.exists("base-file")


def test_metadata_of_iceberg_is_not_data(store):
    store.put("metadata/v1.metadata.json", b"{}")
    store.put("x/metadata/part", b"1")
    assert found(store, clock=later(24 * 8)) == ["x/metadata/part"]


@pytest.mark.parametrize("dry_run", [True, False])
def test_nothing_is_deleted_while_a_live_file_is_missing(store, dry_run):
    store.put("orphan", b"1")
    commit(store, add("live"), add("memory://elsewhere/x"))
    with pytest.raises(NotFoundError) as caught:
        vacuum(Snapshot.load(store), dry_run=dry_run, clock=later(24 * 8))
    assert caught.value.condition == "DATA_FILES_MISSING"
    assert caught.value.sides["log"] == "live"
    assert store.exists("orphan")
    assert Snapshot.load(store).version == 1


SEGMENTS = st.sampled_from(["a", "b", "day=1", "x y", "é", "50%", "c:d"])
NAMES = st.lists(st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join), min_size=1, max_size=4, unique=True)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=NAMES, seed=st.randoms(use_true_random=False))
def test_no_spelling_of_a_live_path_gets_its_file_deleted(tmp_path_factory, names, seed):
    folder = tmp_path_factory.mktemp("lake")
    store = LocalStore(folder / "t", sync=False)
    created(store)
    # A name cannot be a file and a folder at once.
    names = [f"{name}.f" for name in names]
    for name in names:
        store.put(name, b"1")
        store.put(f"{name}.orphan", b"1")
    commit(store, *(add(respelt(name, folder / "t", seed)) for name in names))
    assert vacuumed(store) == sorted(names)


def respelt(name: str, root, random) -> str:
    """One of the many ways in which a log may name a file."""
    segments: list[str] = []
    for segment in name.split("/"):
        segments += random.choice([[], ["."], [""], ["other", ".."], [".", "", "a b", "..", "."]]) if segments else []
        segments.append(segment)
    path = quote("/".join(segments), safe="/=:")
    start = random.choice(["", "./", f"{root}/", f"file:{root}/", f"file://{root}//", f"file://localhost{root}/./"])
    return start + path


# ---------------------------------------------------------------------- lite: by the log


@pytest.fixture
def changed(store):
    """Files in every state: live, removed with its vector, removed and back again, changes, and left by a failure."""
    vector = write_file(store, [[1, 2]])[0]
    for name in ("live", "gone", "back", "left over", "_change_data/c"):
        store.put(name, b"data")
    commit(store, add("live"), add("gone", deletion_vector=vector), add("back"))
    commit(store, remove("gone", deletion_vector=vector), remove("back"), operation="DELETE")
    commit(store, add("back"), Cdc("_change_data/c", {}, 4), operation="RESTORE")
    return store, file_path(store, vector)


def test_lite_vacuum_finds_what_commits_removed_and_nothing_else(changed):
    store, vector = changed
    assert found(store, lite=True, clock=later(24 * 8)) == sorted(["_change_data/c", vector, "gone"])
    assert found(store, lite=True, clock=later(24 * 6)) == [], "younger than the retention"


def test_lite_vacuum_deletes_and_the_next_one_begins_behind_it(changed):
    store, _ = changed
    vacuum(Snapshot.load(store), lite=True, dry_run=False, clock=later(24 * 8))
    assert (store.exists("gone"), store.exists("left over"), store.exists("live"), store.exists("back")) == (
        False,
        True,
        True,
        True,
    )
    assert msgspec.json.decode(store.get(MARK)) == {"latestCommitVersionOutsideOfRetentionWindow": 3}
    assert found(store, lite=True, clock=later(24 * 8)) == []
    commit(store, remove("live"), operation="DELETE")
    assert found(store, lite=True, clock=later(24 * 8)) == ["live"]


def test_lite_vacuum_never_deletes_outside_the_table_hidden_names_or_through_links(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"1")
    store = LocalStore(tmp_path / "t")
    created(store)
    (tmp_path / "t" / "away").symlink_to(outside)
    names = [f"file://{outside}/x", "away/x", "_hidden/x", "plain"]
    for name in ("_hidden/x", "plain"):
        store.put(name, b"1")
    commit(store, *map(add, names))
    commit(store, *map(remove, names), operation="DELETE")
    assert found(store, lite=True, clock=later(24 * 8)) == ["plain"]
    vacuum(Snapshot.load(store), lite=True, dry_run=False, clock=later(24 * 8))
    assert (outside / "x").exists()
    assert (store.exists("_hidden/x"), store.exists("plain")) == (True, False)


def test_lite_vacuum_keeps_the_file_to_which_a_live_link_leads(tmp_path):
    store = LocalStore(tmp_path / "t")
    created(store)
    store.put("real/b", b"1")
    (tmp_path / "t" / "linked").symlink_to(tmp_path / "t" / "real")
    commit(store, add("linked/b"), add("real/b"))
    commit(store, remove("real/b"), operation="DELETE")
    assert found(store, lite=True, clock=later(24 * 8)) == []


def test_lite_vacuum_is_refused_where_commits_are_gone_until_a_full_one_has_run(changed):
    store, _ = changed
    write_checkpoint(store, 3)
    for version in (0, 1):
        store.delete(DELTA.commit_path(version))
    with pytest.raises(UnsupportedError) as caught:
        found(store, lite=True, clock=later(24 * 8))
    assert caught.value.condition == "VACUUM_LITE_IMPOSSIBLE"
    assert caught.value.sides == {"needed": "commits 0 to 3", "missing": "0 to 1"}
    assert found(store, lite=True, clock=later(24 * 6)) == [], "nothing is old enough, so nothing has to be known"
    vacuum(Snapshot.load(store), dry_run=False, clock=later(24 * 8))
    assert not store.exists("gone")
    commit(store, remove("live"), operation="DELETE")
    assert found(store, lite=True, clock=later(24 * 8)) == ["live"]


@pytest.mark.parametrize("mark", [b"", b"{}", b'{"latestCommitVersionOutsideOfRetentionWindow": 99}', b"[1"])
def test_a_mark_that_says_nothing_makes_a_lite_vacuum_begin_at_the_first_commit(changed, mark):
    store, vector = changed
    store.put(MARK, mark)
    assert found(store, lite=True, clock=later(24 * 8)) == sorted(["_change_data/c", vector, "gone"])


def test_the_mark_never_goes_back(store):
    write_mark(store, 7)
    write_mark(store, 5)
    write_mark(store, None)
    assert read_mark(store) == 7


def test_lite_vacuum_goes_by_the_times_that_commits_carry():
    store = MemoryStore()
    created(store, {"delta.enableInCommitTimestamps": "true"})
    store.put("gone", b"1")
    commit(store, add("gone"))
    commit(store, remove("gone"), operation="DELETE")
    own = Snapshot.load(store).commit_info.values["inCommitTimestamp"]
    assert found(store, lite=True, retention_ms=WEEK, clock=lambda: own + WEEK) == ["gone"]
    assert found(store, lite=True, retention_ms=WEEK, clock=lambda: own + WEEK - 1) == []

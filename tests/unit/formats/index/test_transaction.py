"""Commits of index tables: what others did meanwhile, what a crash leaves, and what is no commit."""

import contextlib

import pytest
from tests.support.faulty_store import CrashError, FaultyStore
from tests.support.index_logs import IndexLog, add, metadata, protocol, remove

from halocline.errors import AlreadyExistsError, ConflictError, IncompatibleError, InputError
from halocline.formats.index.log.actions import IndexMetadata, SplitAdd, SplitRemove, SplitSkip
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.transaction import IndexTransaction
from halocline.formats.log.names import INDEX
from halocline.schema.json_edge import parse
from halocline.storage.memory import MemoryStore


def split(name: str) -> SplitAdd:
    return SplitAdd(f"{name}.split.parquet", {}, 10, 1, True, num_records=1)


def start(store: MemoryStore | None = None) -> IndexLog:
    return IndexLog(store).commit(0, protocol(1, 1), metadata()).commit(1, add("a.split"), add("b.split"))


def transaction(store, **options) -> IndexTransaction:
    return IndexTransaction(IndexSnapshot.load(store, operation="write"), **options)


def commit(store, *actions, **options) -> int:
    return transaction(store, **options).commit(actions, "TEST")


def test_appends_of_several_writers_all_land():
    store = start().store
    ours, theirs = transaction(store), transaction(store)
    assert theirs.commit([split("x")], "WRITE") == 2
    assert ours.commit([split("y")], "WRITE") == 3
    assert {"x.split.parquet", "y.split.parquet"} <= IndexSnapshot.load(store).files.keys()


def test_a_protocol_that_was_raised_meanwhile_is_not_recorded_twice_and_not_lowered():
    store = start().store
    ours, theirs = transaction(store), transaction(store)
    theirs.commit([split("x")], "WRITE")
    ours.commit([SplitSkip("a.split", 1, "damaged", "merge")], "MERGE")
    assert b'"protocol"' not in store.get(INDEX.commit_path(3))
    assert IndexSnapshot.load(store).protocol.writer == 5


def test_a_protocol_that_was_raised_beyond_us_stops_the_commit():
    log = start()
    ours = transaction(log.store)
    log.commit(2, protocol(999, 999))
    with pytest.raises(IncompatibleError):
        ours.commit([split("x")], "WRITE")
    assert IndexReplay.open(log.store).version == 2


@pytest.mark.parametrize(
    ("theirs", "options", "condition"),
    [
        ([remove("a.split")], {}, "CONCURRENT_DELETE_DELETE"),
        ([metadata(name="other")], {}, "CONCURRENT_METADATA_CHANGE"),
        ([add("new.split")], {"reads_all": True}, "CONCURRENT_APPEND"),
        ([remove("b.split")], {"reads_all": True}, "CONCURRENT_DELETE_READ"),
        ([remove("b.split")], {}, None),
        ([add("new.split")], {}, None),
    ],
)
def test_a_commit_gives_way_to_what_contradicts_it(theirs, options, condition):
    log = start()
    ours = transaction(log.store, **options)
    log.commit(2, *theirs)
    if condition is None:
        assert ours.commit([SplitRemove("a.split")], "DELETE") == 3
        return
    with pytest.raises(ConflictError) as lost:
        ours.commit([SplitRemove("a.split")], "DELETE")
    assert lost.value.condition == condition


@pytest.mark.parametrize(
    "actions",
    [
        [split("x"), split("x")],
        [SplitAdd("a.split", {}, 1, 1, True)],
        [SplitRemove("zzz.split")],
        [split("x"), SplitRemove("x.split.parquet")],
    ],
)
def test_what_cannot_be_one_commit_is_refused(actions):
    store = start().store
    with pytest.raises(InputError) as refused:
        commit(store, *actions)
    assert refused.value.condition == "COMMIT_INVALID"
    assert IndexReplay.open(store).version == 1


def test_metadata_is_replaced_by_a_commit():
    store = start().store
    before = IndexSnapshot.load(store).metadata
    commit(store, IndexMetadata(before.id, before.schema_string, configuration={"a": "b"}))
    assert IndexSnapshot.load(store).metadata.configuration == {"a": "b"}


def test_a_table_is_created_once():
    store, columns = MemoryStore(), parse(metadata()["metaData"]["schemaString"])
    first, second = (IndexTransaction.create(store, columns) for _ in range(2))
    first.commit([], "CREATE TABLE")
    with pytest.raises((ConflictError, AlreadyExistsError)):
        second.commit([], "CREATE TABLE")


@pytest.mark.parametrize("partitions", [["nothing"], ["id", "message"]])
def test_a_table_is_partitioned_by_some_of_its_columns(partitions):
    with pytest.raises(InputError, match="cannot be partitioned"):
        IndexTransaction.create(
            MemoryStore(), parse(metadata()["metaData"]["schemaString"]), partition_columns=partitions
        )


def test_every_tenth_commit_leaves_a_checkpoint():
    store = start().store
    for number in range(2, 22):
        commit(store, split(f"s{number}"))
    replay = IndexReplay.open(store)
    assert (replay.version, replay.segment.checkpoint.version) == (21, 20)
    assert len(replay.state.files) == 22
    assert len(IndexSnapshot.load(store, version=7).files) == 8, "the commits are kept"


def test_a_crash_at_any_point_leaves_the_table_before_or_after():
    counted = FaultyStore(start().store)
    for _ in range(9):
        commit(counted, split(f"s{counted.count}"))
    for number in range(1, counted.count + 1):
        store = start().store
        faulty = FaultyStore(store).crash_after(number)
        done = 0
        with contextlib.suppress(CrashError):
            for _ in range(9):
                commit(faulty, split(f"s{done}"))
                done += 1
        found = len(IndexSnapshot.load(store).files) - 2
        assert found in (done, done + 1), f"after operation {number}"


def test_an_answer_that_was_lost_is_found_again():
    store = start().store
    faulty = FaultyStore(store).lose_answer(1, on=["put_if_absent"])
    assert commit(faulty, split("x")) == 2
    assert IndexReplay.open(store).version == 2


@pytest.mark.parametrize(("id", "lands"), [("1", True), ("2", False)])
def test_a_commit_does_not_land_in_a_table_that_was_made_anew_in_the_same_place(id, lands):
    store = start().store
    ours = transaction(store)
    for each in list(store.list()):
        store.delete(each.path)
    IndexLog(store).commit(0, protocol(1, 1), metadata(id=id)).commit(1, add("a.split"), add("b.split"))
    if lands:
        assert ours.commit([split("x")], "WRITE") == 2
    else:
        with pytest.raises(ConflictError, match="is not the one that was read"):
            ours.commit([split("x")], "WRITE")
        assert not store.exists(INDEX.commit_path(2))

"""Companion indexes: they show one version of their source, cost what changed, and do not answer for another."""

from itertools import count

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType
from tests.support.arrow_rows import written
from tests.support.faulty_store import WRITES, CrashError, FaultyStore
from tests.support.hudi_tables import HudiTableMaker
from tests.support.index_tables import rows_of, table_of
from tests.support.log_builder import LogBuilder, schema_of

from halocline import Table
from halocline.cli import main
from halocline.errors import AlreadyExistsError, ConflictError, InputError, NotFoundError, UnsupportedError
from halocline.formats.base import formats_at
from halocline.formats.delta.actions.action import Metadata, ProtocolAction, Remove
from halocline.formats.delta.actions.deletion_vectors import write_file
from halocline.formats.hudi.configuration import TableType
from halocline.formats.index.companion.changes import companion_changes
from halocline.formats.index.companion.identity import Companion
from halocline.formats.index.companion.sync import commit_companion, sync_companion
from halocline.formats.index.merge.group import MergeTarget, merge_group
from halocline.formats.index.merge.run import commit_merged, merge_splits
from halocline.formats.index.search import Search, search_table
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.source import search_function
from halocline.source.data_source import HaloclineSource
from halocline.storage import open_store
from halocline.storage.memory import MemoryStore
from halocline.table.index.companion import build_index, fresh_companion, sync_index
from halocline.table.index.sources import source_at

FIELDS = {"text": {"type": "text"}}
VECTORS = ProtocolAction(3, 7, ["deletionVectors"], ["deletionVectors"])


def texts(ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {each} of {each % 3}" for each in ids]})


@pytest.fixture
def source(tmp_path):
    """A Delta table with deletion vectors, of two files with ten rows each."""
    log = LogBuilder(open_store(str(tmp_path / "source")))
    metadata = Metadata("1", schema_of(id="long", text="string"), configuration={"delta.enableDeletionVectors": "true"})
    log.files = [written(log.store, texts(range(10))), written(log.store, texts(range(10, 20)))]
    log.create(*log.files, protocol=VECTORS, metadata=metadata)
    return log


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "companion"))


def deleted(log, number, positions):
    """Deletes rows of a file by another vector."""
    before = log.files[number]
    (vector,) = write_file(log.store, [positions])
    log.files[number] = msgspec.structs.replace(before, deletion_vector=vector)
    gone = Remove(before.path, 1, True, deletion_vector=before.deletion_vector)
    return log.commit(gone, log.files[number])


def values_of(snapshot, column):
    return sorted(rows_of(snapshot, column))


def found(snapshot, query):
    return sorted(search_table(snapshot, Search.of(snapshot, query)).rows["id"].to_pylist())


def test_a_companion_finds_the_rows_of_its_source_and_says_what_it_shows(source, store):
    made = build_index(source.store, store, ["id", "text"], fields=FIELDS)
    companion = Companion.of(made)
    assert (companion.source, companion.format, companion.version) == (source.store.root, "delta", 0)
    assert found(made, "text:7") == [7]
    assert found(made, "text:0 AND id:>9") == [12, 15, 18]
    assert made.rows == 20
    assert len(made.files) == 2
    assert fresh_companion(store).version == made.version
    assert sync_index(store).version == made.version, "nothing is committed where nothing changed"


@pytest.mark.parametrize("name", ["part-mine.split.parquet", "notes/readme.txt", "_SUCCESS"])
def test_a_companion_is_not_made_among_files_that_are_of_no_table(source, store, name):
    store.put(name, b"x")
    if name.startswith("_"):
        assert found(build_index(source.store, store, ["id"]), "id:5") == [5]
        return
    with pytest.raises(AlreadyExistsError, match="holds files and is no table") as refused:
        build_index(source.store, store, ["id"])
    assert refused.value.sides["found"] == name
    assert [each.path for each in store.list()] == [name]


def test_a_companion_is_not_made_where_a_table_lies(source, store):
    with pytest.raises(AlreadyExistsError, match="there is a delta table at"):
        build_index(source.store, source.store, ["id"])
    build_index(source.store, store, ["id"])
    with pytest.raises(AlreadyExistsError, match="there is a index table at"):
        build_index(source.store, store, ["id"])


def test_bringing_it_up_to_date_indexes_new_files_alone_and_drops_those_that_are_gone(source, store):
    made = build_index(source.store, store, ["id", "text"], fields=FIELDS)
    before = set(made.files)
    source.commit(written(source.store, texts(range(20, 25))))
    source.commit(Remove(source.files[0].path, 1, True))
    with pytest.raises(ConflictError) as stale:
        fresh_companion(store)
    assert stale.value.condition == "COMPANION_STALE"
    assert stale.value.sides == {"source": "version 2", "companion": "version 0"}
    assert fresh_companion(store, stale="allow").version == made.version
    after = sync_index(store)
    assert len(before & after.files.keys()) == 1
    assert values_of(after, "id") == list(range(10, 25))
    assert Companion.of(fresh_companion(store)).version == 2


def test_deletion_vectors_become_masks_and_no_file_is_indexed_again(source, store):
    deleted(source, 0, [2, 3])
    made = build_index(source.store, store, ["id", "text"], fields=FIELDS)
    assert values_of(made, "id") == [0, 1, *range(4, 20)]
    paths = set(made.files)
    deleted(source, 0, [2, 3, 9])
    deleted(source, 1, [0])
    after = sync_index(store)
    assert set(after.files) == paths
    assert values_of(after, "id") == [0, 1, *range(4, 9), *range(11, 20)]
    assert found(after, "text:row") == values_of(after, "id")


def test_rows_that_a_restore_brought_back_are_back(source, store):
    deleted(source, 0, [2, 3])
    build_index(source.store, store, ["id", "text"], fields=FIELDS)
    deleted(source, 0, [3])
    assert values_of(sync_index(store), "id") == [each for each in range(20) if each != 3]
    plain = msgspec.structs.replace(source.files[0], deletion_vector=None)
    source.commit(Remove(plain.path, 1, True, deletion_vector=source.files[0].deletion_vector), plain)
    after = sync_index(store)
    assert values_of(after, "id") == list(range(20))
    assert found(after, "text:row") == list(range(20))


def test_two_who_bring_it_up_to_date_at_once_index_every_file_once(source, store):
    made = build_index(source.store, store, ["id", "text"], fields=FIELDS)
    source.commit(written(source.store, texts(range(20, 25))))

    def load():
        """Somebody else is faster once."""
        if made.is_newest():
            sync_companion(made, lambda: source_at(source.store))
        return source_at(source.store)

    after = sync_companion(made, load)
    assert values_of(after, "id") == list(range(25))
    changes = companion_changes(made, source_at(source.store).files())
    assert len(changes.new) == 1
    with pytest.raises(ConflictError):
        commit_companion(made, source_at(source.store), changes, [], [])


@pytest.mark.parametrize("type", list(TableType))
def test_a_hudi_table_has_a_companion_with_its_log_files_merged(tmp_path, store, type):
    table = HudiTableMaker.create(open_store(str(tmp_path / "source")), 8, type)
    table.upsert(range(6), 1, "old")
    made = build_index(table.store, store, ["id", "name", "region"], fields={"name": {"type": "text"}})
    assert values_of(made, "name") == [f"old{n}" for n in range(6)]
    kept = set(made.files)
    table.upsert([0, 2], 2, "new", deletes=[4])
    with pytest.raises(ConflictError):
        fresh_companion(store)
    after = sync_index(store)
    assert values_of(after, "name") == ["new0", "new2", "old1", "old3", "old5"]
    assert len(kept & after.files.keys()) == 1, "the other partition stays as it is"
    hits = search_table(after, Search.of(after, "name:new2 OR region:eu")).rows["id"].to_pylist()
    assert sorted(hits) == ["k1", "k2", "k3", "k5"]


class Asked:
    """Every way to the rows of a companion without a session, with a version of it or a choice as options."""

    def __init__(self, path: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self.capsys = path, capsys

    def terminal(self, **options: str) -> None:
        named = [text for value in options.values() for text in ("--version", value)]
        if main.run(["search", self.path, "name:old1", *named]):
            raise ConflictError(self.capsys.readouterr().err)

    def search_source(self, **options: str) -> None:
        self.source(search="name:old1", **options)

    def source(self, **options: str) -> None:
        asked = HaloclineSource({"path": self.path, **options})
        asked.reader(asked.schema()).partitions()

    def followed_source(self, **options: str) -> None:
        """A source that looks for the newest version at every query, for columns that it knows already."""
        HaloclineSource({"path": self.path, "follow": "true", **options}).reader(COLUMNS).partitions()

    def stream(self, **options: str) -> None:
        HaloclineSource({"path": self.path, **options}).streamReader(COLUMNS).latestOffset()

    def function(self, **options: str) -> None:
        version = {"version": int(options["versionAsOf"])} if options else {}
        search_function._planned({}, {"path": self.path, "query": "name:old1", **version})

    def arrow(self, **options: str) -> None:
        version = {"version": int(options["versionAsOf"])} if "versionAsOf" in options else {}
        choice = {"stale": options["stale"]} if "stale" in options else {}
        Table.for_path(self.path).to_arrow(**version, **choice).read_all()


COLUMNS = StructType([StructField("name", StringType())])
EVERY_DOOR = ["terminal", "search_source", "source", "followed_source", "stream", "function", "arrow"]
WITHOUT_VERSIONS = {"followed_source", "stream"}
WITHOUT_A_CHOICE = {"terminal", "function"}


@pytest.mark.parametrize("door", EVERY_DOOR)
def test_a_stale_companion_is_refused_at_every_door_unless_it_is_asked_for_as_it_was(tmp_path, capsys, door):
    table = HudiTableMaker.create(open_store(str(tmp_path / "source")), 8, TableType.COPY_ON_WRITE)
    table.upsert(range(4), 1, "old")
    path = str(tmp_path / "companion")
    made = build_index(table.store, open_store(path), ["id", "name"], fields={"name": {"type": "text"}})
    ask = getattr(Asked(path, capsys), door)
    ask()
    table.upsert([0], 2, "new")
    with pytest.raises(ConflictError, match="does not show the version"):
        ask()
    if door not in WITHOUT_VERSIONS:
        ask(versionAsOf=str(made.version))
    if door not in WITHOUT_A_CHOICE:
        ask(stale="allow")
    sync_index(open_store(path))
    ask()


def test_a_table_with_rows_of_its_own_is_read_with_either_choice(tmp_path):
    path = str(tmp_path / "table")
    table_of(store=open_store(path))
    assert Table.for_path(path).to_arrow(stale="allow").read_all() == Table.for_path(path).to_arrow().read_all()
    with pytest.raises(InputError, match="stale of to_arrow cannot be 'maybe'"):
        Table.for_path(path).to_arrow(stale="maybe")


def test_what_cannot_be_a_companion_is_refused(source, store, tmp_path):
    with pytest.raises(NotFoundError, match="text"):
        build_index(source.store, store, ["txt"])
    made = build_index(source.store, store, ["text"], fields=FIELDS)
    with pytest.raises(UnsupportedError, match="index table itself"):
        build_index(store, open_store(str(tmp_path / "third")), ["text"])
    with pytest.raises(InputError, match="refuse or allow"):
        fresh_companion(store, stale="maybe")
    metadata = Metadata("1", schema_of(id="long", text="long"))
    source.commit(metadata)
    with pytest.raises(InputError, match="as it is"):
        sync_index(store)
    assert IndexSnapshot.load(store).version == made.version


def test_merged_splits_of_a_companion_follow_every_file_behind_them(source, store):
    source.files += [written(source.store, texts(range(20, 24))), written(source.store, texts(range(24, 28)))]
    source.commit(*source.files[2:])
    deleted(source, 0, [2])
    made = build_index(source.store, store, ["id", "text"], fields=FIELDS)
    report = merge_splits(made)
    assert list(report.merged.values()) == ["stitched"]
    merged = made.newest()
    (path,) = merged.files
    everything = [0, 1, *range(3, 28)]
    assert values_of(merged, "id") == found(merged, "text:row") == everything
    assert sync_index(store).version == merged.version, "merging is no news"
    deleted(source, 1, [0, 9])
    source.commit(Remove(source.files[3].path, 1, True))
    after = sync_index(store)
    assert set(after.files) == {path}
    assert values_of(after, "id") == found(after, "text:row") == [0, 1, *range(3, 10), *range(11, 19), *range(20, 24)]
    deleted(source, 1, [9])
    assert found(sync_index(store), "text:row") == [0, 1, *range(3, 19), *range(20, 24)]


def test_a_merged_split_goes_once_most_of_its_files_are_gone(source, store):
    made = build_index(source.store, store, ["id", "text"], fields=FIELDS)
    source.files.append(written(source.store, texts(range(20, 24))))
    source.commit(source.files[2])
    sync_index(store)
    merge_splits(made.newest())
    (path,) = made.newest().files
    for file in source.files[:2]:
        source.commit(Remove(file.path, 1, True))
    after = sync_index(store)
    assert path not in after.files
    assert values_of(after, "id") == [20, 21, 22, 23]


def test_a_companion_is_merged_while_somebody_brings_it_up_to_date(source, store):
    made = build_index(source.store, store, ["id", "text"], fields=FIELDS)
    done = merge_group(store, list(made.files.values()), MergeTarget.of(made), now_ms=1)
    deleted(source, 0, [4])
    sync_index(store)
    commit_merged(made.newest().reopened("write"), done, now_ms=1)
    after = IndexSnapshot.load(store)
    assert len(after.files) == 1
    assert values_of(after, "id") == [each for each in range(20) if each != 4]
    assert sync_index(store).version == after.version
    deleted(source, 0, [5])
    assert values_of(sync_index(store), "id") == [each for each in range(20) if each != 5]


def test_an_index_of_a_companion_is_built_anew_with_the_numbers_of_its_rows(source, store):
    deleted(source, 0, [*range(5)])
    made = build_index(source.store, store, ["id", "text"], fields=FIELDS)
    first = next(each for each in made.files.values() if each.deletion_mask is not None)
    done = merge_group(store, [first], MergeTarget.of(made), now_ms=1, again=True)
    assert done.how == "indexed whole"
    commit_merged(made.reopened("write"), done, now_ms=1, operation="REINDEX")
    deleted(source, 0, [*range(5), 7])
    assert values_of(sync_index(store), "id") == [5, 6, 8, 9, *range(10, 20)]


def test_a_table_with_rows_of_its_own_is_not_brought_up_to_date(store):
    table_of(store=store)
    with pytest.raises(InputError, match="is no companion"):
        sync_index(store)


def copied(store):
    """The same objects in a store of its own."""
    other = MemoryStore()
    for meta in store.list():
        other.put(meta.path, store.get(meta.path))
    return other


def crashes(store, action):
    """The stores that an action leaves which crashes after each of its writes, and the one it leaves when it ends."""
    for number in count(1):
        left = copied(store)
        try:
            action(FaultyStore(left).crash_after(number, on=WRITES))
        except CrashError:
            yield left
        else:
            yield left
            return


def test_a_crash_at_any_point_leaves_a_companion_that_shows_one_version_of_its_source(source):
    def build(store):
        build_index(source.store, store, ["id", "text"], fields=FIELDS)

    def merge(store):
        merge_splits(IndexSnapshot.load(store))

    def sync(store):
        sync_index(store)

    def after(store, action, *shown):
        """What the action leaves; wherever it crashed, one of some states is shown, and the next sync mends it."""
        states = list(crashes(store, action))
        assert len(states) > 2, "it writes several times"
        for number, left in enumerate(states):
            if action is not build or formats_at(left):
                assert values_of(IndexSnapshot.load(left), "id") in shown, f"{action.__name__}, after write {number}"
                assert values_of(sync_index(left), "id") == shown[-1]
        return states[-1]

    store = after(MemoryStore(), build, [], list(range(20)))
    source.files.append(written(source.store, texts(range(20, 25))))
    source.commit(source.files[2])
    deleted(source, 0, [2, 3])
    rows = [0, 1, *range(4, 25)]
    store = after(store, sync, list(range(20)), rows)
    store = after(store, merge, rows)
    source.commit(Remove(source.files[2].path, 1, True))
    deleted(source, 0, [3])
    after(store, sync, rows, [*range(3), *range(4, 20)])

"""Keeping an index table in order: purge, partitions, the log, indexing anew, and lint."""

import os
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from tests.support.conformance import tables_of
from tests.support.index_logs import IndexLog, add, metadata, protocol, remove, skip
from tests.support.index_tables import append, delete, rows_of, table_of
from tests.support.splits import COLUMNS, row

from halocline.errors import IncompatibleError, InputError, MalformedError, NotFoundError
from halocline.formats.index.delete import removal
from halocline.formats.index.history import history
from halocline.formats.index.log.actions import IndexMetadata
from halocline.formats.index.maintain.lint import HURTS, fix, lint
from halocline.formats.index.maintain.log import describe_log, repair_log, truncate_history
from halocline.formats.index.maintain.partitions import drop_partitions
from halocline.formats.index.maintain.purge import HOUR_MS, purge
from halocline.formats.index.maintain.reindex import reindex, reindexed_into
from halocline.formats.index.merge.run import merge_splits
from halocline.formats.index.search import Search, search_table
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.fields import OPTIONS_KEY
from halocline.formats.index.split.masks import FOLDER
from halocline.formats.index.split.partition_nulls import with_exact_nulls
from halocline.formats.index.split.reader import OpenedSplit
from halocline.formats.index.transaction import IndexTransaction
from halocline.formats.log.names import INDEX
from halocline.schema.json_edge import dump
from halocline.schema.types import Field, Primitive, Struct
from halocline.storage import open_store
from halocline.storage.memory import MemoryStore

DAY = 24 * HOUR_MS
ROWS = [row(number) for number in range(6)]


def aged(store, now_ms):
    """Every file of the table, as old as can be."""
    for each in store.list():
        store.set_modified(each.path, now_ms)


# ------------------------------------------------------------------ purge


def test_what_killed_writers_left_half_written_is_purged(tmp_path):
    table = table_of(ROWS, store=open_store(tmp_path))
    old, young = (tmp_path / f".~halocline-{name}.tmp" for name in ("0a", "0b"))
    for file, age in ((old, 2 * DAY), (young, HOUR_MS)):
        file.write_bytes(b"1")
        os.utime(file, ((9 * DAY - age) / 1000,) * 2)
    purge(table, now_ms=9 * DAY)
    assert old.exists(), "a dry run deletes nothing"
    purge(table, now_ms=9 * DAY, dry_run=False)
    assert (old.exists(), young.exists()) == (False, True)


def test_files_that_no_version_within_the_retention_needs_are_purged():
    table = table_of(ROWS, ROWS)
    first, second = table.files
    table = delete(table, {first: range(6)})
    left_over = f"part-{uuid.uuid4()}.split.parquet"
    table.store.put(left_over, table.store.get(first))
    table.store.put("readme.txt", b"x")
    table.store.put("other/_transaction_log/00000000000000000000.json", b"{}")
    table.store.put("other/0.split", b"x")
    aged(table.store, DAY)
    kept = purge(table, now_ms=8 * DAY - 1, dry_run=False)
    assert kept.files == (), "the retention is not over"
    told = purge(table, now_ms=9 * DAY)
    assert [each.path for each in told.files] == sorted([first, left_over])
    assert not told.deleted
    assert table.store.exists(first)
    purge(table, now_ms=9 * DAY, dry_run=False)
    assert {each.path for each in table.store.list() if not each.path.startswith(INDEX.folder)} == {
        second,
        "readme.txt",
        "other/0.split",
        "other/_transaction_log/00000000000000000000.json",
    }
    assert rows_of(table, "id") == list(range(6))


def test_a_purge_leaves_files_that_are_not_the_tables_whatever_they_are_called():
    table = table_of([row(n) for n in range(60_000)], columns=Struct([COLUMNS.fields[0]]), options={})
    (path,) = table.files
    table = delete(delete(table, {path: range(0, 60_000, 17)}), {path: range(0, 60_000, 13)})
    parquet = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1]}), parquet)
    plain, number = parquet.getvalue().to_pybytes(), uuid.uuid4()
    foreign = {
        "part-mine.split.parquet": table.store.get(path),
        f"part-{number}.split.parquet": plain,
        f"sub/part-{number}.split.parquet": plain[:-4] + b"PAR2",
        f"other/{number}.split.parquet": b"x",
        f"part-{number}.parquet": table.store.get(path),
        "mine.split": b"x",
        f"{FOLDER}/notes.bin": b"x",
        f"{FOLDER}/readme.txt": b"x",
    }
    ours = {
        f"p=1/part-{uuid.uuid4().hex}-{number}.split.parquet": table.store.get(path),
        f"part-{number}.split": b"x",
        f"{FOLDER}/mask-{number}.bin": b"x",
    }
    for name, data in (foreign | ours).items():
        table.store.put(name, data)
    aged(table.store, DAY)
    gone = {each.path for each in purge(table, now_ms=9 * DAY, dry_run=False).files}
    superseded = gone - ours.keys()
    assert ours.keys() <= gone
    assert [name.startswith(f"{FOLDER}/mask-") for name in superseded] == [True], "the mask before the last"
    assert foreign.keys() <= {each.path for each in table.store.list()}
    assert len(rows_of(table, "id")) == table.rows


def test_a_removed_split_of_any_name_goes_as_long_as_the_log_names_it():
    names = ["parquetSplit", "tantivyFst7"]
    log = IndexLog().commit(0, protocol(5, 5, readerFeatures=names, writerFeatures=names), metadata())
    log.commit(1, add("strange.split.parquet"), add("kept.split.parquet")).commit(2, remove("strange.split.parquet"))
    for name in ("strange", "kept", "foreign"):
        log.store.put(f"{name}.split.parquet", b"x")
    aged(log.store, DAY)
    found = purge(IndexSnapshot.load(log.store), now_ms=9 * DAY, dry_run=False).files
    assert [each.path for each in found] == ["strange.split.parquet"]


def test_a_version_that_was_the_newest_within_the_retention_can_still_be_read():
    table = table_of([row(n) for n in range(60_000)], columns=Struct([COLUMNS.fields[0]]), options={})
    (path,) = table.files
    masked = delete(table, {path: range(0, 60_000, 17)})
    aged(table.store, DAY)
    twice = delete(masked, {path: range(0, 60_000, 13)})
    now = max(each.modified_ms for each in table.store.list())
    assert len(list(table.store.list(FOLDER))) == 2
    assert purge(twice, retention_ms=DAY, now_ms=now, dry_run=False).files == ()
    assert len(rows_of(masked, "id")) == masked.rows
    aged(table.store, DAY)
    gone = purge(twice, retention_ms=DAY, now_ms=now, dry_run=False).files
    assert [each.path for each in gone] == [masked.files[path].deletion_mask.path]
    assert len(rows_of(twice, "id")) == twice.rows


def test_a_purge_that_could_take_too_much_is_refused():
    table = table_of(ROWS)
    with pytest.raises(InputError, match="under readers"):
        purge(table, retention_ms=HOUR_MS)
    purge(table, retention_ms=HOUR_MS, allow_short_retention=True)
    table.store.delete(next(iter(table.files)))
    table.store.put("other.split.parquet", b"x")
    with pytest.raises(NotFoundError, match="nothing was deleted"):
        purge(table, dry_run=False, now_ms=10**15)
    assert table.store.exists("other.split.parquet")


# ------------------------------------------------------------------ partitions


@pytest.fixture
def zones():
    columns = Struct([Field("zone", Primitive("string")), Field("n", Primitive("long"))])
    parts = [[{"zone": zone, "n": n}] for n, zone in enumerate(("a", "b", None, "a"))]
    return table_of(*parts, columns=columns, options={}, partition="zone")


def test_partitions_are_dropped_by_their_values(zones):
    version, splits = drop_partitions(zones, "zone:a")
    assert (version, splits) == (zones.version + 1, 2)
    assert rows_of(zones.newest(), "n") == [1, 2]
    assert history(zones.store)[0].operation == "DROP PARTITIONS"
    assert drop_partitions(zones.newest(), "zone:a") == (None, 0)
    drop_partitions(zones.newest(), "NOT zone:*")
    assert rows_of(zones.newest(), "n") == [1]


@pytest.mark.parametrize("query", ["n:1", "zone:a OR n:1", "*", "NOT n:1"])
def test_partitions_are_not_dropped_by_other_columns(zones, query):
    with pytest.raises(InputError, match="own columns"):
        drop_partitions(zones, query)


@pytest.mark.parametrize("query", ["a", "zone = 'a'", "zone != a", "zone:a OR b", "NOT a", "zone < b"])
def test_partitions_are_not_dropped_by_words_that_name_no_column(zones, query):
    """A condition of SQL is words to the query language, and `zone != a` would name partition a."""
    with pytest.raises(InputError, match="names no column"):
        drop_partitions(zones, query)
    assert zones.is_newest()


# ------------------------------------------------------------------ the log


def test_history_is_truncated_to_the_newest_version():
    table = table_of(ROWS, ROWS)
    for number in range(12):
        append(table, [row(100 + number)])
    table = table.newest()
    would = truncate_history(table)
    assert len(history(table.store)) == 15
    assert truncate_history(table, dry_run=False) == would
    again = IndexSnapshot.load(table.store)
    assert (again.version, again.files, again.protocol) == (table.version, table.files, table.protocol)
    assert [each.version for each in history(table.store)] == [14]
    with pytest.raises(NotFoundError):
        IndexSnapshot.load(table.store, version=3)
    append(again, [row(999)])
    assert IndexSnapshot.load(table.store).rows == 25


def test_every_action_of_the_log_is_described():
    table = table_of(ROWS, ROWS)
    table = delete(table, {next(iter(table.files)): [0, 1]})
    told = describe_log(table.store).to_pylist()
    assert [each["action"] for each in told].count("commitInfo") == table.version + 1
    masked = [each for each in told if each["deleted_records"]]
    assert [(each["version"], each["records"], each["deleted_records"]) for each in masked] == [(table.version, 6, 2)]
    assert {each["operation"] for each in told if each["action"] == "commitInfo"} == {"CREATE TABLE", "WRITE", "DELETE"}
    truncate_history(table, dry_run=False)
    table.store.delete(INDEX.commit_path(table.version))
    short = describe_log(table.store).to_pylist()
    assert [each["action"] for each in short] == ["protocol", "metaData", "add", "add"]


def test_a_log_with_a_damaged_and_a_missing_commit_is_readable_again_and_says_what_is_lost():
    table = table_of(*([row(n)] for n in range(5)))
    paths = list(table.files)
    table.store.put(INDEX.commit_path(2), b"{not json")
    table.store.delete(INDEX.commit_path(4))
    table.store.delete(paths[4])
    with pytest.raises(MalformedError):
        IndexSnapshot.load(table.store)
    told = repair_log(table.store)
    assert not told.written
    assert (told.version, told.splits, told.missing) == (5, 2, (paths[4],))
    assert set(told.unnamed) == {paths[1], paths[3]}
    assert len(told.problems) == 2
    assert any("00000000000000000002.json" in each for each in told.problems)
    assert any("versions 4 to 4" in each for each in told.problems)
    assert repair_log(table.store, dry_run=False).written
    again = IndexSnapshot.load(table.store)
    assert (again.version, rows_of(again, "id"), again.protocol) == (5, [0, 2], table.protocol)
    assert repair_log(table.store).is_sound
    append(again, [row(7)])
    assert rows_of(again.newest(), "id") == [0, 2, 7]


def test_a_sound_log_needs_no_repair_and_is_copied_elsewhere_on_demand():
    table = table_of(ROWS)
    told = repair_log(table.store, dry_run=False)
    assert told.is_sound
    assert not told.written
    elsewhere = MemoryStore()
    assert repair_log(table.store, into=elsewhere, dry_run=False).written
    assert IndexSnapshot.load(elsewhere).files == table.files
    with pytest.raises(InputError, match="has a log already"):
        repair_log(table.store, into=elsewhere, dry_run=False)


def test_a_log_without_metadata_or_of_a_newer_protocol_is_not_repaired():
    with pytest.raises(MalformedError, match="columns"):
        repair_log(IndexLog().commit(0, protocol(1, 1)).store)
    with pytest.raises(IncompatibleError):
        repair_log(IndexLog().commit(0, protocol(9, 9), metadata()).store)
    with pytest.raises(NotFoundError):
        repair_log(MemoryStore())


# ------------------------------------------------------------------ indexing anew


def test_damaged_indexes_and_other_options_are_indexed_anew_and_the_rest_stays():
    table = table_of(ROWS, [row(n) for n in range(6, 12)])
    first, second = table.files
    with OpenedSplit(table.store, first) as opened:
        blob = opened.layout.blobs[0]
    data = bytearray(table.store.get(first))
    data[blob.offset] ^= 0xFF
    table.store.put(first, bytes(data))
    report = reindex(table)
    after = table.newest()
    assert (list(report.merged.values()), second in after.files, first in after.files) == (
        ["indexed again"],
        True,
        False,
    )
    found = search_table(after, Search.of(after, "message:request"))
    assert (found.total, found.damaged) == (12, {})
    assert reindex(after).merged == {}
    options = '{"message": {"type": "text"}, "level": {"type": "text"}}'
    changed = IndexMetadata(id="1", schema_string=dump(COLUMNS), configuration={OPTIONS_KEY: options})
    IndexTransaction(after.reopened("write")).commit([changed], "ALTER TABLE")
    after = after.newest()
    assert len(reindex(after).merged) == 2
    assert search_table(after.newest(), Search.of(after.newest(), "level:error")).total == 4
    assert sorted(rows_of(after.newest(), "id")) == list(range(12))


@pytest.mark.parametrize("name", ["04_partitioned", "10_large_batch"])
def test_a_table_of_indextables4spark_is_searched_once_it_is_indexed_anew(name):
    old = IndexSnapshot.load(open_store(str(tables_of("index") / name)))
    with pytest.raises(IncompatibleError):
        reindex(old)
    store = MemoryStore()
    reindexed_into(old, store, options='{"text": {"type": "text"}}')
    new = IndexSnapshot.load(store)
    assert new.rows == old.rows
    key = lambda each: each["id"]  # noqa: E731
    assert sorted(rows_of(new), key=key) == sorted(rows_of(old), key=key)
    word = "doc3" if name == "04_partitioned" else "document AND text:42"
    assert search_table(new, Search.of(new, f"text:{word}")).rows["id"].to_pylist() == [3 if word == "doc3" else 42]


# ------------------------------------------------------------------ lint


def codes(store):
    return {each.code for each in lint(store).findings}


def repaired(store):
    return fix(store, lambda before, after: "").codes


def test_a_sound_table_has_no_findings():
    assert codes(table_of(ROWS).store) == set()


def test_protocols_that_ask_for_too_little_are_found_and_repaired():
    table = table_of(ROWS)
    split = next(iter(table.files.values()))
    legacy = IndexLog().commit(0, metadata(schemaString=dump(COLUMNS))).commit(1, add("a.split")).store
    legacy.put("a.split", b"x")
    assert codes(legacy) == {"PROTOCOL_MISSING"}
    assert repaired(legacy) == ("PROTOCOL_MISSING",)
    assert "PROTOCOL_MISSING" not in codes(legacy)

    low = IndexLog().commit(0, protocol(2, 2), metadata()).commit(1, add(split.path, numRecords=6)).store
    low.put(split.path, b"x")
    found = lint(low)
    assert [each.code for each in found.findings] == ["PROTOCOL_TOO_LOW"]
    assert found.repaired.writer == 5
    assert repaired(low) == ("PROTOCOL_TOO_LOW",)
    assert (codes(low), repaired(low)) == (set(), ())

    lost = IndexLog().commit(0, protocol(5, 5, readerFeatures=["deletionMasks"], writerFeatures=["deletionMasks"]))
    lost.commit(1, metadata()).commit(2, protocol(4, 4))
    assert codes(lost.store) == {"FEATURES_LOST"}
    repaired(lost.store)
    assert IndexSnapshot.load(lost.store).protocol.supports("deletionMasks")
    assert codes(lost.store) == set()


def rewritten(table):
    """Every split again under another name, by a writer that knows null from empty text."""
    anew = [with_exact_nulls(replace(each, path=f"anew-{each.path}")) for each in table.files.values()]
    for before, after in zip(table.files, anew, strict=True):
        table.store.put(after.path, table.store.get(before))
    gone = [removal(each, 1) for each in table.files.values()]
    IndexTransaction(table.reopened("write")).commit([*gone, *anew], "WRITE")


def test_nulls_that_may_have_been_empty_text_are_found(zones):
    codes_before = {each.code: each.by_hand for each in lint(zones.store).findings}
    assert "where='zone IS NULL'" in codes_before["EMPTY_TEXT_AS_NULL"]
    rewritten(zones)
    assert codes(zones.store) == set(), "whoever wrote this null meant it"
    numbers = [[{"n": n, "zone": "a"}] for n in (1, None)]
    columns = Struct([Field("zone", Primitive("string")), Field("n", Primitive("long"))])
    assert codes(table_of(*numbers, columns=columns, options={}, partition="n").store) == set()


def test_merged_splits_have_exact_nulls_where_all_of_them_had():
    columns = Struct([Field("zone", Primitive("string")), Field("n", Primitive("long"))])
    table = table_of(*[[{"zone": None, "n": n}] for n in range(4)], columns=columns, options={}, partition="zone")
    merge_splits(table)
    assert "EMPTY_TEXT_AS_NULL" in codes(table.store), "nobody knows what was merged"
    append(table, [{"zone": None, "n": 9}])
    rewritten(table.newest())
    assert len(table.newest().files) > 1
    merge_splits(table.newest())
    assert (len(table.newest().files), codes(table.store)) == (1, set())


def test_splits_that_rest_or_are_small_are_found():
    names = ["parquetSplit", "tantivyFst7"]
    log = IndexLog().commit(0, protocol(5, 5, readerFeatures=names, writerFeatures=names), metadata())
    log.commit(1, *(add(f"{n}.split.parquet") for n in range(12)), add("gone.split.parquet", numRecords=None))
    log.commit(2, skip("1.split.parquet", "skip", retryAfter=10**15))
    for number in range(12):
        log.store.put(f"{number}.split.parquet", b"x")
    assert codes(log.store) == {
        "SPLITS_RESTING",
        "SMALL_SPLITS",
        "ROWS_UNCOUNTED",
        "SKIP_UNDER_OLD_NAME",
    }
    for number in range(60):
        log.commit(3 + number, add("0.split.parquet"))
    assert "CHECKPOINT_OVERDUE" in codes(log.store)
    assert all(each.by_hand or each.safe for each in lint(log.store).findings)
    assert {each.code for each in lint(log.store).findings} <= HURTS.keys()

"""Merging splits: the same rows and answers in fewer files, whoever writes meanwhile and whatever is damaged."""

import json

import msgspec
import pytest
from tests.support.faulty_store import WRITES, CrashError, FaultyStore
from tests.support.index_tables import append, delete, rows_of, table_of
from tests.support.splits import COLUMNS, OPTIONS, row

from halocline.errors import InputError
from halocline.formats.index.delete import removal
from halocline.formats.index.history import history
from halocline.formats.index.log.actions import COOLDOWN_MS, IndexMetadata, SplitAdd
from halocline.formats.index.merge.group import MergeTarget, merge_group
from halocline.formats.index.merge.plan import merge_groups
from halocline.formats.index.merge.run import commit_merged, merge_splits
from halocline.formats.index.relevance.best import search_best
from halocline.formats.index.search import Search, search_table
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.fields import OPTIONS_KEY
from halocline.formats.index.split.reader import OpenedSplit
from halocline.formats.index.transaction import IndexTransaction
from halocline.schema.json_edge import dump
from halocline.schema.types import Field, Primitive, Struct

QUERIES = (
    "message:request",
    "message:17 OR level:ERROR",
    "id:[20 TO 45]",
    "trace:trace-00000031",
    "NOT ok:true",
    "tags:t2",
    "user.name:5",
    "client:10.0.0.0/29",
    "level:>=INFO",
    'message:"request 3"*',
    "price:>0.3",
    "*",
)


def pieces(count, size=12):
    return [[row(size * n + each) for each in range(size)] for n in range(count)]


def answers(snapshot):
    found = {query: search_table(snapshot, Search.of(snapshot, query)).rows.to_pylist() for query in QUERIES}
    best = search_best(snapshot, Search.of(snapshot, "message:17 message:took"))
    scores = dict(zip(best.rows["id"].to_pylist(), best.scores.tolist(), strict=True))
    return found, scores, rows_of(snapshot)


def merged(snapshot, **options):
    report = merge_splits(snapshot, **options)
    return report, snapshot.newest()


@pytest.mark.parametrize(("count", "how"), [(3, "stitched"), (9, "merged")])
def test_merged_splits_have_the_same_rows_answers_and_scores(count, how):
    table = table_of(*pieces(count))
    before = answers(table)
    report, after = merged(table)
    assert list(report.merged.values()) == [how]
    assert report.sources == count
    (split,) = after.files.values()
    assert (split.num_records, split.num_merge_ops, split.data_change) == (12 * count, 1, False)
    assert answers(after) == before
    told = history(after.store)[0]
    assert (told.operation, told.added, told.removed) == ("MERGE SPLITS", 1, count)
    with OpenedSplit(after.store, split.path) as opened:
        assert (opened.searcher.num_segments == 1) == (how == "merged")


def test_merged_splits_are_merged_again():
    table = table_of(*pieces(3))
    before = answers(table)
    _, after = merged(table)
    for rows in pieces(5)[3:]:
        append(after, rows)
    _, after = merged(after.newest())
    (split,) = after.files.values()
    assert split.num_merge_ops == 2
    assert answers(after)[0]["id:[20 TO 45]"] == [row(n) | {"labels": [("zone", f"z{n % 3}")]} for n in range(20, 46)]
    assert before[2] == answers(after)[2][:36]


def test_masks_are_taken_over_and_many_deleted_rows_are_left_out():
    table = table_of(*pieces(3))
    few = delete(table, {path: [3] for path in list(table.files)[:2]})
    before = answers(few)
    report, after = merged(few)
    (split,) = after.files.values()
    assert (split.num_records, split.live_records, *report.merged.values()) == (36, 34, "stitched")
    assert answers(after) == before
    for rows in pieces(4)[3:]:
        append(after, rows)
    many = delete(after.newest(), {split.path: range(12, 30)})
    before = answers(many)
    report, after = merged(many)
    (split,) = after.files.values()
    assert (split.num_records, split.deletion_mask, *report.merged.values()) == (29, None, "indexed again")
    assert answers(after) == before


def altered(snapshot, schema, options):
    metadata = snapshot.metadata
    changed = IndexMetadata(
        id=metadata.id, schema_string=dump(schema), configuration={OPTIONS_KEY: json.dumps(options)}
    )
    IndexTransaction(snapshot.reopened("write")).commit([changed], "ALTER TABLE")
    return snapshot.newest()


def test_a_column_that_came_later_is_null_in_rows_from_before_and_found_in_others():
    table = altered(table_of(*pieces(2)), Struct([*COLUMNS.fields, Field("more", Primitive("string"))]), OPTIONS)
    append(table, [row(100, more="new"), row(101, more=None)])
    report, after = merged(table.newest())
    assert list(report.merged.values()) == ["stitched"]
    assert rows_of(after, "more") == [None] * 24 + ["new", None]
    assert search_table(after, Search.of(after, "more:new OR message:17")).rows["id"].to_pylist() == [17, 100]
    assert search_table(after, Search.of(after, "more:*")).rows["id"].to_pylist() == [100]


def test_splits_of_other_options_are_indexed_again_with_those_of_the_table():
    table = altered(table_of(*pieces(2)), COLUMNS, OPTIONS | {"level": {"type": "text"}})
    with pytest.raises(InputError, match="other options"):
        search_table(table, Search.of(table, "level:error"))
    report, after = merged(table)
    assert list(report.merged.values()) == ["indexed again"]
    assert len(search_table(after, Search.of(after, "level:error")).rows) == 8


# ------------------------------------------------------------------ the plan


def small(name, size=10, **more):
    return SplitAdd(f"{name}.split.parquet", more.pop("values", {}), size, 0, True, num_records=1, **more)


def names(groups):
    return [[each.path.partition(".")[0] for each in group.splits] for group in groups]


def test_groups_are_of_one_partition_in_order_and_not_larger_than_the_target():
    splits = [small(f"{zone}{n}", values={"zone": zone}) for n in range(4) for zone in ("a", "b")]
    assert names(merge_groups(splits, target_size=1000)) == [["a0", "a1", "a2", "a3"], ["b0", "b1", "b2", "b3"]]
    assert names(merge_groups(splits, target_size=25)) == [["a0", "a1"], ["a2", "a3"], ["b0", "b1"], ["b2", "b3"]]
    assert names(merge_groups(splits, target_size=1000, max_groups=1)) == [["a0", "a1", "a2", "a3"]]


def test_large_splits_bundles_and_lone_ones_stay_as_they_are():
    bundle = SplitAdd("x.split", {}, 10, 0, True)
    splits = [small("a", 45), small("b", 44), bundle, small("c", 44), small("d", values={"zone": "z"})]
    assert names(merge_groups(splits, target_size=100)) == [["b", "c"]]
    for wrong in ({"target_size": 0}, {"max_groups": 0}):
        with pytest.raises(InputError):
            merge_groups(splits, **wrong)


# ------------------------------------------------------------------ damage


def damage(store, path, what):
    data = bytearray(store.get(path))
    with OpenedSplit(store, path) as opened:
        blob = next(each for each in opened.layout.blobs if each.name.endswith(".term"))
    data[{"index": blob.offset + 5, "rows": 200}[what]] ^= 0xFF
    store.put(path, bytes(data))


@pytest.mark.parametrize("what", ["index", "rows", "mask", "file"])
def test_a_split_that_cannot_be_used_is_skipped_with_the_reason_and_rests(what):
    table = table_of(*pieces(4))
    path = list(table.files)[1]
    if what == "mask":
        table = delete(table, {path: [1]})
        mask = msgspec.structs.replace(table.files[path].deletion_mask, crc=1)
        broken = msgspec.structs.replace(table.files[path], deletion_mask=mask)
        IndexTransaction(table.reopened("write")).commit([broken], "DELETE")
        table = table.newest()
    elif what == "file":
        table.store.delete(path)
    else:
        damage(table.store, path, what)
    report, after = merged(table, now_ms=1_000)
    assert list(report.skipped) == [path]
    assert report.sources == 3
    assert path in after.files
    skip = after.skips[path]
    assert (skip.operation, skip.skip_count, skip.retry_after) == ("merge", 1, 1_000 + COOLDOWN_MS)
    assert skip.reason == report.skipped[path]
    if what == "index":
        assert sorted(rows_of(after, "id")) == list(range(48)), "its rows are still served"
        found = search_table(after, Search.of(after, "message:request"))
        assert (len(found.rows), list(found.damaged)) == (48, [path])
    append(after, [row(900)])
    after = after.newest()
    assert path not in merge_splits(after, now_ms=2_000).skipped, "it rests"
    append(after, [row(901)])
    again, _ = merged(after.newest(), now_ms=2_000 + COOLDOWN_MS)
    assert again.skipped.keys() == {path}
    assert after.newest().skips[path].skip_count == 2


def test_two_splits_of_which_one_is_damaged_are_not_merged_and_the_skip_is_recorded():
    table = table_of(*pieces(2))
    damage(table.store, next(iter(table.files)), "index")
    report, after = merged(table)
    assert (report.merged, len(report.skipped), len(after.files)) == ({}, 1, 2)
    assert len(after.skips) == 1


# ------------------------------------------------------------------ others meanwhile


@pytest.mark.parametrize("again", [False, True], ids=["stitched", "indexed again"])
def test_rows_that_somebody_deletes_meanwhile_do_not_come_back(again):
    table = table_of(*pieces(3))
    first, second, third = table.files
    table = delete(table, {first: [0], second: [5, 7]})
    done = merge_group(table.store, list(table.files.values()), MergeTarget.of(table), now_ms=1, again=again)
    assert done.how == ("indexed again" if again else "stitched")
    delete(table, {first: [1, 11], third: [0, 4]})
    append(table, [row(500)])
    report = commit_merged(table.reopened("write"), done, now_ms=1)
    after = table.newest()
    gone = {0, 17, 19, 1, 11, 24, 28}
    assert sorted(rows_of(after, "id")) == [n for n in range(36) if n not in gone] + [500]
    assert report.sources == 3
    found = search_table(after, Search.of(after, "message:request")).rows["id"].to_pylist()
    assert sorted(found) == sorted(rows_of(after, "id"))


def test_a_group_gives_way_to_who_removed_one_of_its_splits_and_leaves_no_file():
    table = table_of(*pieces(3))
    done = merge_group(table.store, list(table.files.values()), MergeTarget.of(table), now_ms=1)
    split = next(iter(table.files.values()))
    IndexTransaction(table.reopened("write")).commit([removal(split, 1)], "DROP")
    report = commit_merged(table.reopened("write"), done, now_ms=1)
    after = table.newest()
    assert report.given_way == (split.path,)
    assert (len(after.files), after.rows) == (2, 24)
    assert not after.store.exists(done.split.path)


def test_merges_of_several_at_once_lose_nothing():
    table = table_of(*pieces(4))
    splits, target = list(table.files.values()), MergeTarget.of(table)
    groups = [merge_group(table.store, splits[at : at + 3], target, now_ms=1) for at in (0, 1)]
    reports = [commit_merged(table.reopened("write"), each, now_ms=1) for each in groups]
    assert [bool(each.merged) for each in reports] == [True, False]
    assert sorted(rows_of(table.newest(), "id")) == list(range(48))


def test_a_crash_at_any_point_of_a_merge_loses_and_repeats_no_row():
    """Splits of both kinds go together: one with deleted rows, which is masked, and one whose index is damaged."""

    def start():
        table = table_of(*pieces(4))
        paths = list(table.files)
        data = bytearray(table.store.get(paths[3]))
        data[table.files[paths[3]].footer_start_offset - 2000] ^= 1
        table.store.put(paths[3], bytes(data))
        return delete(table, {paths[0]: [3], paths[1]: [0]})

    before = rows_of(start())
    number, crashed = 0, True
    while crashed:
        number += 1
        table = start()
        faulty = FaultyStore(table.store).crash_after(number, on=WRITES)
        try:
            merge_splits(IndexSnapshot.load(faulty), cooldown_ms=0)
            crashed = False
        except CrashError:
            pass
        assert sorted(map(str, rows_of(table.newest()))) == sorted(map(str, before)), f"after write {number}"
        merge_splits(table.newest(), cooldown_ms=0)
        after = table.newest()
        assert sorted(map(str, rows_of(after))) == sorted(map(str, before))
        assert len(after.files) == 2
    assert number > 2, "it writes the split and the log at least"

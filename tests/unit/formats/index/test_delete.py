"""Deleted rows: they are found by nothing, stay deleted whatever happens meanwhile, and never come back by damage."""

import msgspec
import numpy as np
import pytest
from tests.support.index_tables import append, delete, rows_of, table_of
from tests.support.splits import row

from halocline.compat.verdict import can
from halocline.errors import ConflictError, InputError, MalformedError, NotFoundError
from halocline.formats.index.delete import deletions, removal
from halocline.formats.index.history import history
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.search import Search, count_split, search_table
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.masks import FOLDER, deleted_rows, write_masks
from halocline.formats.index.transaction import IndexTransaction
from halocline.storage.memory import MemoryStore

COUNT = 300
SCATTERED = np.random.default_rng(1).choice(200_000, 20_000, replace=False)


def ids(snapshot, query):
    return search_table(snapshot, Search.of(snapshot, query), columns=["id"]).rows["id"].to_pylist()


@pytest.fixture
def table():
    return table_of([row(number) for number in range(COUNT)], [row(number) for number in range(COUNT, 2 * COUNT)])


def first_of(snapshot):
    return next(iter(snapshot.files))


@pytest.mark.parametrize(
    "query",
    ["*", "message:request", "level:[A TO Z]", "NOT id:7", "trace:IN [trace-00000003 trace-00000004]", "level:ERROR"],
)
def test_deleted_rows_are_found_by_no_form_of_query(table, query):
    before = ids(table, query)
    after = delete(table, {first_of(table): [3, 7, 8, 200]})
    gone = {3, 7, 8, 200}
    assert ids(after, query) == [each for each in before if each not in gone]
    counts = [count_split(after.store, split, Search.of(after, query)) for split in after.files.values()]
    assert sum(counts) == len(ids(after, query))
    assert after.rows == 2 * COUNT - 4
    assert rows_of(after, "id") == [each for each in range(2 * COUNT) if each not in gone]
    assert ids(IndexSnapshot.load(table.store, version=table.version), query) == before


def test_a_mask_raises_the_protocol_by_its_own_name_and_others_refuse_the_table(table):
    after = delete(table, {first_of(table): [0]})
    assert after.protocol.listed - table.protocol.listed == {"deletionMasks"}
    assert (after.protocol.reader, after.protocol.writer) == (5, 5)
    for release in ("0.3.0", "0.5.4", "0.5.5"):
        assert can(f"indextables4spark@{release}", after.terms, "read").refused
    assert can("halocline@0.1.0", after.terms, "write").ok


def test_masks_add_up_and_a_checkpoint_keeps_them(table):
    after = delete(delete(table, {first_of(table): [1, 2]}), {first_of(table): [2, 5]})
    assert deleted_rows(after.store, after.files[first_of(table)]).tolist() == [1, 2, 5]
    after.write_checkpoint()
    assert IndexSnapshot.load(table.store).files == after.files
    newest = history(table.store)[0]
    assert (newest.added, newest.masked, newest.removed) == (0, 1, 0)


def test_a_split_without_a_row_left_is_removed(table):
    after = delete(table, {first_of(table): range(COUNT)})
    assert len(after.files) == 1
    assert after.rows == COUNT


def test_a_large_mask_lies_in_a_file_and_a_small_one_in_the_log():
    store = MemoryStore()
    large, small = (SplitAdd(f"{name}.split.parquet", {}, 9, 0, True, num_records=200_000) for name in ("a", "b"))
    found = write_masks(store, [(large, SCATTERED), (small, [5]), (large, SCATTERED[::2])])
    assert [each.deletion_mask.data is None for each in found] == [True, False, True]
    assert len(list(store.list(FOLDER))) == 1
    for split, rows in zip(found, [SCATTERED, [5], SCATTERED[::2]], strict=True):
        again = msgspec.json.decode(msgspec.json.encode(split), type=SplitAdd)
        assert deleted_rows(store, again).tolist() == sorted(rows)


@pytest.mark.parametrize("numbers", [SCATTERED, [5, 9]], ids=["in a file", "in the log"])
def test_a_mask_that_is_damaged_or_missing_is_an_error_and_not_rows_that_come_back(numbers):
    store = MemoryStore()
    split = SplitAdd("a.split.parquet", {}, 9, 0, True, num_records=200_000)
    (split,) = write_masks(store, [(split, numbers)])
    mask = split.deletion_mask
    damaged = [
        msgspec.structs.replace(mask, rows=mask.rows - 1),
        msgspec.structs.replace(mask, length=mask.length - 1),
        msgspec.structs.replace(mask, crc=mask.crc ^ 1),
        msgspec.structs.replace(mask, data="AAAA"),
        msgspec.structs.replace(mask, data="?"),
        msgspec.structs.replace(mask, data=None, path=None),
        msgspec.structs.replace(mask, data=None, path="_deletion_masks/missing.bin"),
    ]
    for each in damaged:
        with pytest.raises(MalformedError, match=r"a\.split\.parquet"):
            deleted_rows(store, msgspec.structs.replace(split, deletion_mask=each))
    with pytest.raises(MalformedError, match="names row"):
        deleted_rows(store, msgspec.structs.replace(split, num_records=4))


def test_two_who_delete_at_once_both_succeed_and_no_row_comes_back(table):
    ours, theirs = (IndexTransaction(table.reopened("write")) for _ in range(2))
    theirs.commit(deletions(table, {first_of(table): [1, 2, 3]}, now_ms=1), "DELETE")
    ours.commit(deletions(table, {first_of(table): [3, 4]}, now_ms=1), "DELETE")
    assert ids(table.newest(), "id:<7") == [0, 5, 6]


def test_who_replaces_deleted_rows_gives_way_to_another_who_deleted_in_the_same_split(table):
    ours, theirs = (IndexTransaction(table.reopened("write")) for _ in range(2))
    theirs.commit(deletions(table, {first_of(table): [1]}, now_ms=1), "DELETE")
    replaced = SplitAdd("new.split.parquet", {}, 9, 0, True, num_records=1)
    with pytest.raises(ConflictError, match="rows of"):
        ours.commit([*deletions(table, {first_of(table): [1]}, now_ms=1), replaced], "UPDATE")


def test_who_removes_a_split_gives_way_to_one_who_deleted_rows_in_it_and_the_other_way_round(table):
    split = table.files[first_of(table)]
    actions = {"merge": [removal(split, 1, data_change=False)], "delete": deletions(table, {split.path: [1]}, now_ms=1)}
    for first, second in (("delete", "merge"), ("merge", "delete")):
        snapshot = table.newest()
        ours, theirs = (IndexTransaction(snapshot.reopened("write")) for _ in range(2))
        theirs.commit(actions[first], first.upper())
        with pytest.raises(ConflictError):
            ours.commit(actions[second], second.upper())


def test_deleting_while_others_append_keeps_both(table):
    ours = IndexTransaction(table.reopened("write"))
    append(table, [row(9_000)])
    ours.commit(deletions(table, {first_of(table): [1]}, now_ms=1), "DELETE")
    assert rows_of(table.newest(), "id") == [0, *range(2, 2 * COUNT), 9_000]


def test_what_is_no_deletion_of_this_table_is_refused(table):
    with pytest.raises(NotFoundError):
        deletions(table, {"other.split.parquet": [1]}, now_ms=1)
    with pytest.raises(InputError, match="no row 300"):
        deletions(table, {first_of(table): [COUNT]}, now_ms=1)
    after = delete(table, {first_of(table): [1, 2]})
    shrunk = write_masks(table.store, [(table.files[first_of(table)], [1])])
    with pytest.raises(InputError, match="which is in the table"):
        IndexTransaction(after.reopened("write")).commit(shrunk, "DELETE")

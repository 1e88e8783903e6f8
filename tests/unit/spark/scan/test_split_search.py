"""Searches that find few rows are answered by the driver; whatever is more than that is left to tasks."""

from dataclasses import replace

import pytest
from tests.support.index_tables import delete, table_of
from tests.support.splits import row

from halocline.formats.index.search import Search, few_in_split, search_split
from halocline.spark.scan import split_search
from halocline.spark.scan.split_search import SplitSearch, few_count, few_rows


def asked(snapshot, query: str) -> SplitSearch:
    return SplitSearch(Search.of(snapshot, query), tuple(snapshot.schema.fields))


def found(snapshot, query: str):
    table = few_rows(snapshot.store, asked(snapshot, query), list(snapshot.files.values()))
    return None if table is None else table.column("id").to_pylist()


@pytest.fixture(scope="module")
def snapshot():
    return table_of(*([row(10 * split + number) for number in range(10)] for split in range(5)))


def test_few_rows_of_many_splits_are_found_at_once(snapshot):
    assert found(snapshot, "id:IN [3 14 15 42]") == [3, 14, 15, 42]
    assert found(snapshot, "id:99") == []


def test_deleted_rows_are_not_among_them(snapshot):
    first = next(iter(snapshot.files))
    assert found(delete(snapshot, {first: [3]}), "id:IN [3 14]") == [14]


def test_more_rows_than_a_few_are_left_to_tasks_but_counted(snapshot, monkeypatch):
    monkeypatch.setattr(split_search, "_FEW_ROWS", 3)
    assert found(snapshot, "id:IN [3 14 15 42]") is None
    assert few_count(snapshot.store, asked(snapshot, "id:IN [3 14 15 42]"), list(snapshot.files.values())) == 4


def test_indexes_that_are_large_together_are_left_to_tasks(snapshot, monkeypatch):
    monkeypatch.setattr(split_search, "_OPENED_HERE", 1000)
    assert found(snapshot, "id:3") is None


def test_rows_are_not_read_here_for_what_no_index_answers(snapshot, monkeypatch):
    splits = list(snapshot.files.values())
    monkeypatch.setattr(split_search, "_OPENED_HERE", sum(each.size for each in splits))
    assert found(snapshot, "level:[A TO Z]") is None
    assert few_count(snapshot.store, asked(snapshot, "id:>=0"), splits) == 50


def test_a_damaged_index_is_left_to_tasks():
    damaged = table_of([row(1)], [row(2)])
    path = next(iter(damaged.files))
    data = bytearray(damaged.store.get(path))
    data[-20] ^= 1
    damaged.store.put(path, bytes(data))
    assert found(damaged, "id:1") is None


def test_splits_that_lack_a_word_are_left_aside_before_they_are_asked(snapshot, monkeypatch):
    monkeypatch.setattr(split_search, "_AT_ONCE", 2)
    splits = list(snapshot.files.values())
    assert list(asked(snapshot, "message:42").likely(snapshot.store, splits)) == [splits[4]]
    assert list(asked(snapshot, "message:request").likely(snapshot.store, splits)) == splits


def test_a_split_whose_terms_cannot_be_read_is_asked_all_the_same():
    damaged = table_of([row(1)], [row(2)])
    first, second = damaged.files.values()
    data = bytearray(damaged.store.get(first.path))
    data[-20] ^= 1
    damaged.store.put(first.path, bytes(data))
    assert list(asked(damaged, "message:2").likely(damaged.store, [first, second])) == [first, second]


def test_a_limit_makes_many_rows_few(snapshot, monkeypatch):
    monkeypatch.setattr(split_search, "_FEW_ROWS", 20)
    every = replace(asked(snapshot, "message:request"), most=12)
    splits = list(snapshot.files.values())
    table = few_rows(snapshot.store, every, splits)
    assert table.column("id").to_pylist() == list(range(20)), (
        "enough for the limit, and the splits after that are not asked"
    )
    assert few_rows(snapshot.store, replace(every, most=None), splits) is None


@pytest.mark.parametrize("query", ["id:IN [3 14 15 42]", "message:request", "*", "level:[A TO Z]", "NOT id:3"])
@pytest.mark.parametrize("gone", [(), (3, 4)])
def test_few_rows_of_a_split_are_all_of_them_or_only_counted(snapshot, query, gone):
    path = next(iter(snapshot.files))
    table = delete(snapshot, {path: gone}) if gone else snapshot
    for split in table.files.values():
        search = Search.of(table, query)
        whole = search_split(table.store, split, search).rows.tolist()
        few = few_in_split(table.store, split, search, len(whole) + 1)
        assert (few.rows.tolist(), few.count) == (whole, len(whole))
        assert few_in_split(table.store, split, search, len(whole)).rows.tolist() == whole
        if whole:
            assert few_in_split(table.store, split, search, max(len(whole) - 1, 1)).count == len(whole)

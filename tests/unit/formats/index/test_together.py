"""Everybody at once: rows are searched while others append, delete, merge and purge, and no answer is ever wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.support.index_tables import append, rows_of, table_of
from tests.support.splits import COLUMNS, row

from halocline.errors import ConflictError
from halocline.formats.index.delete import deletions
from halocline.formats.index.maintain.purge import purge
from halocline.formats.index.merge.run import merge_splits
from halocline.formats.index.search import Search, search_split, search_table
from halocline.formats.index.transaction import IndexTransaction
from halocline.schema.types import Struct

SIZE, ROUNDS = 8, 6
FEW = Struct([field for field in COLUMNS.fields if field.name in ("id", "message", "level")])


def rows(number: int) -> list[dict]:
    few = {field.name for field in FEW.fields}
    return [{key: value for key, value in row(SIZE * number + each).items() if key in few} for each in range(SIZE)]


def test_searches_are_right_while_others_append_delete_merge_and_purge():
    start = table_of(*(rows(number) for number in range(3)), columns=FEW, options={"message": {"type": "text"}})
    appended, deleted, over, seen = {*range(3 * SIZE)}, set(), threading.Event(), []

    def appends() -> None:
        for number in range(3, 3 + ROUNDS):
            append(start, rows(number))
            appended.update(range(SIZE * number, SIZE * (number + 1)))

    def deletes() -> None:
        for number in range(ROUNDS):
            wanted = {number * 2, number * 2 + 1}
            while True:
                table = start.newest()
                query = Search.of(table, f"id:IN [{' '.join(map(str, wanted))}]")
                found = {path: search_split(table.store, split, query).rows for path, split in table.files.items()}
                gone = {path: numbers.tolist() for path, numbers in found.items() if len(numbers)}
                try:
                    IndexTransaction(table.reopened("write")).commit(deletions(table, gone, now_ms=1), "DELETE")
                    break
                except ConflictError:
                    continue  # a merge came first; the rows lie elsewhere now
            deleted.update(wanted)

    def merges() -> None:
        while not over.is_set():
            merge_splits(start.newest(), cooldown_ms=0)
            purge(start.newest(), dry_run=False)
            time.sleep(0.01)

    def searches() -> None:
        while not over.is_set():
            # What was done before a version was opened is in it, and what is done while it is searched may be.
            there, gone = set(appended), set(deleted)
            table = start.newest()
            found = search_table(table, Search.of(table, "message:request")).rows["id"].to_pylist()
            assert len(found) == len({*found}), "a row came twice"
            assert {*found} == {*rows_of(table, "id")}, "the index finds what the rows have"
            assert not {*found} & gone, "a deleted row came back"
            assert {*found} >= there - set(deleted) - set(range(2 * ROUNDS)), "a row was lost"
            seen.append(table.version)

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:
            over.set()
            raise

    with ThreadPoolExecutor(5) as pool:
        readers = [pool.submit(run, each) for each in (searches, searches, merges)]
        for writer in [pool.submit(run, each) for each in (appends, deletes)]:
            writer.result()
        over.set()
        for reader in readers:
            reader.result()
    merge_splits(start.newest(), cooldown_ms=0)
    end = start.newest()
    assert sorted(rows_of(end, "id")) == [n for n in range(SIZE * (3 + ROUNDS)) if n >= 2 * ROUNDS]
    assert seen, "somebody searched meanwhile"

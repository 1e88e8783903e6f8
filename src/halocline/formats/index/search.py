"""Searching a table, without Spark: which splits are asked, and what one of them answers.

A `Search` is a query that has been read and bound to a table's columns once; it is a value, and goes to wherever splits
are searched. `splits_to_search` leaves splits aside by what the log says; `search_split` looks at the terms of a split
before it opens its index. `search_table` does all of it in one process, for tables of that size and for the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from halocline.errors import IncompatibleError, MalformedError
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.pruning import may_match
from halocline.formats.index.query.bind import bind
from halocline.formats.index.query.bound import BoundQuery
from halocline.formats.index.query.evaluate import Evaluation, SplitHits
from halocline.formats.index.query.in_split import NO_ROW, decided
from halocline.formats.index.query.parse import parse
from halocline.formats.index.rows import column_of, split_rows
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.cache import IndexCache
from halocline.formats.index.split.fields import IndexField
from halocline.formats.index.split.masks import deleted_rows
from halocline.formats.index.split.reader import OpenedSplit
from halocline.formats.index.split.rebuild import rebuilt
from halocline.schema.arrow import arrow_schema
from halocline.storage.base import Store

T = TypeVar("T")


@dataclass(frozen=True)
class Search:
    """A query, ready to be run on the splits of a table.

    Attributes:
        text: As it was written.
        query: What it means for the table's columns.
        fields: What indexes of the table have of its columns.
    """

    text: str
    query: BoundQuery
    fields: tuple[IndexField, ...] = ()

    @staticmethod
    def of(snapshot: IndexSnapshot, text: str, columns: Sequence[str] | None = None) -> Search:
        """Reads a query for a table.

        Args:
            snapshot: The table.
            text: The query.
            columns: The columns for words that name none; all if not given.

        Raises:
            InputError: It is not understood, or a column cannot answer it.
            NotFoundError: There is no such column.
        """
        known = snapshot.searched_columns
        known = known if columns is None else known.when_unnamed(columns)
        return Search(text, bind(parse(text), known), snapshot.fields)


def splits_to_search(search: Search, splits: Iterable[SplitAdd]) -> list[SplitAdd]:
    """The splits that may have a row of it.

    Raises:
        IncompatibleError: One of them is a bundle, whose words cannot be searched.
    """
    found = [each for each in splits if may_match(search.query, each)]
    check_own(found)
    return found


def check_own(splits: Iterable[SplitAdd]) -> None:
    """Makes sure that splits are of the kind that words are searched in.

    Raises:
        IncompatibleError: One of them is a bundle.
    """
    foreign = next((each for each in splits if not each.is_own), None)
    if foreign is not None:
        raise IncompatibleError(
            f"{foreign.path} was written by IndexTables4Spark and is not searched without tantivySstable",
            condition="READER_TOO_OLD",
            sides={"split": "a bundle", "searched here": "splits with tantivyFst7"},
            next_step="Index the table anew; its rows can be read as they are.",
        )


def index_to_ask(store: Store, split: SplitAdd, search: Search) -> int:
    """How many bytes of index have to be asked, as far as the terms of the split tell; 0 if it cannot have a row.

    Args:
        store: Where the table lies.
        split: The split, one of our own.
        search: What is looked for.

    Raises:
        MalformedError: The split is damaged.
    """
    with OpenedSplit.of(store, split) as opened:
        query = decided(search.query, split.partition_values, opened.fields)
        may_have = query != NO_ROW and may_match(query, split, opened.terms)
        return max(opened.layout.index_size, 1) if may_have else 0


def search_split(
    store: Store,
    split: SplitAdd,
    search: Search,
    *,
    rebuild: bool = False,
    scratch: str | None = None,
    cache: IndexCache | None = None,
) -> SplitHits:
    """The rows that one split has of a search, deleted ones aside.

    Args:
        store: Where the table lies.
        split: The split.
        search: What is looked for.
        rebuild: Whether a split whose index cannot be used answers by one that is built anew from its rows, for this
            search alone; the hits then say what was wrong.
        scratch: A folder for the unpacked index.
        cache: Where unpacked indexes are kept for the next search.

    Raises:
        IncompatibleError: The index is of a later kind, and is not to be rebuilt.
        MalformedError: The split is damaged; its rows, if it was to be rebuilt.
    """
    nothing = SplitHits(np.empty(0, dtype=np.int64))
    found, damage = _answered(store, split, search, Evaluation.hits, nothing, rebuild, scratch, cache)
    return found if damage is None else replace(found, damage=damage)


def few_in_split(
    store: Store, split: SplitAdd, search: Search, most: int, *, cache: IndexCache | None = None
) -> SplitHits:
    """The rows that one split has of a search, if they are few; else only how many there are.

    Args:
        store: Where the table lies.
        split: The split.
        search: What is looked for.
        most: How many rows are few.
        cache: Where unpacked indexes are kept for the next search.

    Raises:
        IncompatibleError: The index is of a later kind.
        MalformedError: The split is damaged.
    """
    nothing = SplitHits(np.empty(0, dtype=np.int64))
    return _answered(store, split, search, lambda asked: asked.few(most), nothing, False, None, cache)[0]


def count_split(
    store: Store,
    split: SplitAdd,
    search: Search,
    *,
    rebuild: bool = False,
    scratch: str | None = None,
    cache: IndexCache | None = None,
) -> int:
    """How many rows one split has of a search; see `search_split`."""
    return _answered(store, split, search, Evaluation.count, 0, rebuild, scratch, cache)[0]


def _answered(
    store: Store,
    split: SplitAdd,
    search: Search,
    answer: Callable[[Evaluation], T],
    nothing: T,
    rebuild: bool,
    scratch: str | None,
    cache: IndexCache | None,
) -> tuple[T, str | None]:
    """The answer of a split, and what was wrong with its index if another one had to be built."""
    deleted = deleted_rows(store, split)

    def asked(opened: OpenedSplit) -> T:
        query = decided(search.query, split.partition_values, opened.fields)
        if query == NO_ROW or not may_match(query, split, opened.terms):
            return nothing
        return answer(Evaluation(opened, query, deleted))

    return on_split(store, split, search, asked, rebuild=rebuild, scratch=scratch, cache=cache)


def on_split(
    store: Store,
    split: SplitAdd,
    search: Search,
    action: Callable[[OpenedSplit], T],
    *,
    rebuild: bool,
    scratch: str | None = None,
    cache: IndexCache | None = None,
) -> tuple[T, str | None]:
    """What an action gives for an opened split, and what was wrong with its index if another one had to be built.

    Args:
        store: Where the table lies.
        split: The split.
        search: What it is done for.
        action: What is to be done; it may be done twice.
        rebuild: Whether a split whose index cannot be used gets one that is built anew from its rows.
        scratch: A folder for the unpacked index.
        cache: Where unpacked indexes are kept.

    Raises:
        IncompatibleError: The index is of a later kind, and is not to be rebuilt.
        MalformedError: The split is damaged; its rows, if it was to be rebuilt.
    """
    with OpenedSplit.of(store, split, scratch=scratch, cache=cache) as opened:
        try:
            return action(opened), None
        except (MalformedError, IncompatibleError) as error:
            if not rebuild:
                raise
            with rebuilt(opened, scratch, fields=search.fields) as anew:
                return action(anew), error.message


@dataclass(frozen=True)
class FoundRows:
    """What a search found in a table.

    Attributes:
        rows: The rows that were asked for, partition columns among them.
        total: How many rows were found, also where fewer were asked for.
        searched: How many splits were asked.
        left_aside: How many could not have a row.
        scanned: The columns that were read because an index could not answer.
        damaged: What is wrong with the index of a split, by its path.
        scores: How relevant each row is, the best first; None if nobody asked.
    """

    rows: pa.Table
    total: int
    searched: int
    left_aside: int
    scanned: tuple[str, ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)
    scores: np.ndarray | None = None


def search_table(
    snapshot: IndexSnapshot,
    search: Search,
    *,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
    rebuild: bool = True,
    cache: IndexCache | None = None,
) -> FoundRows:
    """Searches a whole table in this process, split by split.

    Args:
        snapshot: The table.
        search: What is looked for.
        columns: The columns to give; all if not given.
        limit: How many rows to give at most; the total tells of the others.
        rebuild: Whether a split with a damaged index answers from its rows.
        cache: Where unpacked indexes are kept.

    Raises:
        InputError: There is no such column.
        IncompatibleError: A split cannot be searched by this release.
        MalformedError: A split is damaged.
    """
    known = {field.name: field for field in snapshot.schema.fields}
    chosen = [column_of(name, known) for name in (known if columns is None else columns)]
    splits = splits_to_search(search, snapshot.files.values())
    total, pieces = 0, [arrow_schema(chosen).empty_table()]
    scanned: set[str] = set()
    damaged: dict[str, str] = {}
    for split in splits:
        hits = search_split(snapshot.store, split, search, rebuild=rebuild, cache=cache)
        wanted = hits.rows if limit is None else hits.rows[: max(0, limit - total)]
        total += len(hits.rows)
        scanned.update(hits.scanned)
        damaged |= {} if hits.damage is None else {split.path: hits.damage}
        if len(wanted):
            pieces.append(split_rows(snapshot.store, split, chosen, wanted))
    left = len(snapshot.files) - len(splits)
    return FoundRows(pa.concat_tables(pieces), total, len(splits), left, tuple(sorted(scanned)), damaged)

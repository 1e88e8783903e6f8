"""The most relevant rows of a table: statistics of all splits, the best of each, and the best of those.

Where splits are asked elsewhere, `split_statistics` runs for every split of the table, `best_in_split` for those that
may have a row, and `best_of` puts the answers together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from halocline.errors import InputError
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.query.evaluate import SplitHits
from halocline.formats.index.relevance.scores import Scoring
from halocline.formats.index.relevance.statistics import WordStatistics, scored_leaves, split_statistics
from halocline.formats.index.rows import column_of, split_rows
from halocline.formats.index.search import FoundRows, Search, check_own, on_split, splits_to_search
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.cache import IndexCache
from halocline.formats.index.split.masks import deleted_rows
from halocline.formats.index.split.reader import OpenedSplit
from halocline.schema.arrow import arrow_schema
from halocline.schema.types import Field
from halocline.storage.base import Store


def search_best(
    snapshot: IndexSnapshot,
    search: Search,
    *,
    limit: int | None = None,
    columns: Sequence[str] | None = None,
    rebuild: bool = True,
    cache: IndexCache | None = None,
) -> FoundRows:
    """The most relevant rows of a whole table, the best first, in this process.

    Args:
        snapshot: The table.
        search: What is looked for.
        limit: How many rows to give at most; the total tells of the others.
        columns: The columns to give; all if not given.
        rebuild: Whether a split with a damaged index answers from its rows.
        cache: Where unpacked indexes are kept.

    Raises:
        IncompatibleError: A split cannot be searched by this release.
        InputError: The query has no word or phrase to score by.
        MalformedError: A split is damaged.
        NotFoundError: There is no such column.
    """
    check_scored(search)
    known = {field.name: field for field in snapshot.schema.fields}
    chosen = [column_of(name, known) for name in (known if columns is None else columns)]
    splits = splits_to_search(search, snapshot.files.values())
    # The statistics are those of the whole table, so every split of it has to tell.
    check_own(snapshot.files.values() if splits else ())
    statistics = WordStatistics.added(
        split_statistics(snapshot.store, each, search, rebuild=rebuild, cache=cache)
        for each in (snapshot.files.values() if splits else ())
    )
    found = {
        each.path: best_in_split(snapshot.store, each, search, statistics, limit, rebuild=rebuild, cache=cache)
        for each in splits
    }
    best = best_of(found, limit)
    rows = [scored_rows(snapshot.store, snapshot.files[path], chosen, hits) for path, hits in best.items()]
    scores = np.concatenate([hits.scores for hits in best.values() if hits.scores is not None] or [np.empty(0)])
    places = [(path, row) for path, hits in best.items() for row in hits.rows.tolist()]
    order = sorted(range(len(places)), key=lambda at: (-scores[at], places[at]))
    return FoundRows(
        rows=pa.concat_tables([arrow_schema(chosen).empty_table(), *rows]).take(pa.array(order, pa.int64())),
        total=sum(hits.total or 0 for hits in found.values()),
        searched=len(splits),
        left_aside=len(snapshot.files) - len(splits),
        scanned=tuple(sorted({name for hits in found.values() for name in hits.scanned})),
        damaged={path: hits.damage for path, hits in found.items() if hits.damage is not None},
        scores=scores[order],
    )


def check_scored(search: Search) -> None:
    """Makes sure that a query has something to score by.

    Raises:
        InputError: It has no word or phrase of a column of text.
    """
    if not any(True for _ in scored_leaves(search.query)):
        raise InputError(
            "the query has nothing to score rows by",
            condition="QUERY_INVALID",
            sides={"query": search.text, "scored": "words and phrases in columns of text"},
            next_step="Ask for the rows without scores, or look for a word in a column of text.",
        )


def best_in_split(
    store: Store,
    split: SplitAdd,
    search: Search,
    statistics: WordStatistics,
    limit: int | None = None,
    *,
    rebuild: bool = False,
    scratch: str | None = None,
    cache: IndexCache | None = None,
) -> SplitHits:
    """The most relevant rows of one split.

    Args:
        store: Where the table lies.
        split: The split.
        search: What is looked for.
        statistics: Those of all splits of the table together.
        limit: How many rows at most.
        rebuild: Whether a split whose index cannot be used gets one that is built anew from its rows.
        scratch: A folder for the unpacked index.
        cache: Where unpacked indexes are kept.

    Raises:
        IncompatibleError: Its index is of a later kind, and is not to be rebuilt.
        MalformedError: It is damaged.
    """
    deleted = deleted_rows(store, split)

    def scored(opened: OpenedSplit) -> SplitHits:
        return Scoring(opened, split, search.query, statistics, deleted).best(limit)

    hits, damage = on_split(store, split, search, scored, rebuild=rebuild, scratch=scratch, cache=cache)
    return replace(hits, damage=damage)


def best_of(found: Mapping[str, SplitHits], limit: int | None = None) -> dict[str, SplitHits]:
    """The best of what splits gave, by the path of their split.

    Args:
        found: What each split gave, by its path.
        limit: How many rows at most, of all splits together.

    Example:
        >>> one = SplitHits(np.array([4, 1]), np.array([3.0, 1.0]))
        >>> other = SplitHits(np.array([0]), np.array([2.0]))
        >>> {path: hits.rows.tolist() for path, hits in best_of({"a": one, "b": other}, 2).items()}
        {'a': [4], 'b': [0]}
    """
    ranked = sorted(
        (-score, path, row, at)
        for path, hits in found.items()
        for at, (row, score) in enumerate(zip(hits.rows.tolist(), _scores(hits).tolist(), strict=True))
    )[:limit]
    kept: dict[str, list[int]] = {}
    for _, path, _, at in ranked:
        kept.setdefault(path, []).append(at)
    return {
        path: replace(found[path], rows=found[path].rows[places], scores=_scores(found[path])[places])
        for path, places in kept.items()
    }


def scored_rows(store: Store, split: SplitAdd, columns: Iterable[Field], hits: SplitHits) -> pa.Table:
    """The rows of hits, in their order.

    Raises:
        MalformedError: The rows are damaged.
    """
    if hits.scores is None:
        return split_rows(store, split, list(columns), hits.rows)
    order = np.argsort(hits.rows, kind="stable")
    table = split_rows(store, split, list(columns), hits.rows[order])
    return table.take(pa.array(np.argsort(order, kind="stable")))


def _scores(hits: SplitHits) -> np.ndarray:
    return np.zeros(len(hits.rows)) if hits.scores is None else hits.scores

"""Statistics of words: what the scores of a whole table depend on, told by each split and added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import log
from typing import TypeAlias

import numpy as np

from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.query.bound import Both, BoundQuery, Either, InRow, Without
from halocline.formats.index.query.evaluate import Evaluation
from halocline.formats.index.query.in_split import decided
from halocline.formats.index.search import Search, on_split
from halocline.formats.index.split.cache import IndexCache
from halocline.formats.index.split.fields import FieldKind
from halocline.formats.index.split.masks import deleted_rows
from halocline.formats.index.split.reader import OpenedSplit
from halocline.storage.base import Store

WordOf: TypeAlias = tuple[str, str]
"""A column, and a word of it."""


@dataclass(frozen=True)
class WordStatistics:
    """What scores depend on.

    Attributes:
        rows: How many rows there are.
        lengths: How many words the texts of each column have together.
        having: How many rows have each word.

    Example:
        >>> one = WordStatistics(2, {"t": 7}, {("t", "a"): 1})
        >>> both = WordStatistics.added([one, one])
        >>> both.rows, both.average("t"), both.having[("t", "a")]
        (4, 3.5, 2)
    """

    rows: int = 0
    lengths: Mapping[str, int] = field(default_factory=dict)
    having: Mapping[WordOf, int] = field(default_factory=dict)

    @staticmethod
    def added(parts: Iterable[WordStatistics]) -> WordStatistics:
        """The statistics of several splits together."""
        rows, lengths, having = 0, Counter[str](), Counter[WordOf]()
        for each in parts:
            rows += each.rows
            lengths.update(each.lengths)
            having.update(each.having)
        return WordStatistics(rows, dict(lengths), dict(having))

    def average(self, column: str) -> float:
        """How many words a text of a column has on average."""
        return self.lengths.get(column, 0) / self.rows if self.rows else 0.0

    def idf(self, column: str, words: Iterable[str]) -> float:
        """How much words tell, the rarer the more."""
        counts = [self.having.get((column, each), 0) for each in words]
        return sum(log(1 + (self.rows - each + 0.5) / (each + 0.5)) for each in counts)


def scored_leaves(query: BoundQuery) -> Iterator[InRow]:
    """The words and phrases that a score consists of."""
    match query:
        case Both(parts) | Either(parts):
            for part in parts:
                yield from scored_leaves(part)
        case InRow() if query.field.kind is FieldKind.TEXT and not query.goes_on:
            yield query
        case Without() | _:
            return


def split_statistics(
    store: Store,
    split: SplitAdd,
    search: Search,
    *,
    rebuild: bool = False,
    scratch: str | None = None,
    cache: IndexCache | None = None,
) -> WordStatistics:
    """What one split has of the words of a search.

    Args:
        store: Where the table lies.
        split: The split, whether or not it can have a row of the search.
        search: What is looked for.
        rebuild: Whether a split whose index cannot be used gets one that is built anew from its rows.
        scratch: A folder for the unpacked index.
        cache: Where unpacked indexes are kept.

    Raises:
        IncompatibleError: Its index is of a later kind.
        InputError: It was indexed with other options.
        MalformedError: It is damaged.
    """
    deleted = deleted_rows(store, split)

    def told(opened: OpenedSplit) -> WordStatistics:
        return _told(opened, search, split, deleted)

    return on_split(store, split, search, told, rebuild=rebuild, scratch=scratch, cache=cache)[0]


def _told(opened: OpenedSplit, search: Search, split: SplitAdd, deleted: np.ndarray) -> WordStatistics:
    words: dict[WordOf, InRow] = {}
    for leaf in scored_leaves(search.query):
        own = decided(leaf, split.partition_values, opened.fields)
        if isinstance(own, InRow):
            words |= {(own.field.column, word): InRow(own.field, (word,)) for word in own.words}
    lengths = {column: opened.total_length(column) for column in {column for column, _ in words}}
    having: dict[WordOf, int] = {}
    for (column, word), leaf in words.items():
        if opened.terms is not None and not opened.terms.may_have(leaf.field.name, word):
            having[column, word] = 0
        elif len(deleted):
            having[column, word] = Evaluation(opened, leaf, deleted).count()
        else:
            having[column, word] = opened.rows_having(leaf.field, word)
    if len(deleted) and lengths:
        places = Evaluation(opened, search.query).places(deleted)
        for column in lengths:
            lengths[column] -= int(opened.lengths_at(column, places).sum())
    return WordStatistics(opened.layout.rows - len(deleted), lengths, having)

"""Scores of the rows of one split, by the statistics of the whole table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.query.bound import Both, BoundQuery, Either, EveryRow, InRow, Without
from halocline.formats.index.query.evaluate import Evaluation, SplitHits
from halocline.formats.index.query.in_split import NO_ROW, decided
from halocline.formats.index.relevance.statistics import WordStatistics, scored_leaves
from halocline.formats.index.split.library import damaged, guarded
from halocline.formats.index.split.masks import without_deleted
from halocline.formats.index.split.reader import OpenedSplit

K1: Final = 1.2
B: Final = 0.75
MOST: Final = 255
"""How often a word counts at most in one text."""


@dataclass(frozen=True)
class Found:
    """Rows of a split and their scores, by row number.

    Attributes:
        mask: Whether each row is found.
        scores: The score of each row that is found, 0 elsewhere.
    """

    mask: np.ndarray
    scores: np.ndarray


@dataclass(frozen=True)
class Scoring:
    """Scores one query on one split.

    Args:
        opened: The split.
        split: What the log says of it.
        query: What is looked for, as it is for the whole table.
        statistics: Those of the whole table.
        deleted: The numbers of deleted rows.
    """

    opened: OpenedSplit
    split: SplitAdd
    query: BoundQuery
    statistics: WordStatistics
    deleted: np.ndarray

    def best(self, limit: int | None) -> SplitHits:
        """The rows with the highest scores, the best first; of equal ones, those with the least numbers.

        Raises:
            MalformedError: The split is damaged.
        """
        scanned: set[str] = set()
        found = self._scored(self.query, scanned)
        rows = without_deleted(np.flatnonzero(found.mask), self.deleted)
        scores = found.scores[rows]
        order = np.lexsort((rows, -scores))[:limit]
        return SplitHits(rows[order], scores[order], tuple(sorted(scanned)), total=len(rows))

    def _scored(self, query: BoundQuery, scanned: set[str]) -> Found:
        match query:
            case Both(parts):
                found = [self._scored(each, scanned) for each in parts]
                mask = np.logical_and.reduce([each.mask for each in found]) if found else self._all(True)
            case Either(parts):
                found = [self._scored(each, scanned) for each in parts]
                mask = np.logical_or.reduce([each.mask for each in found]) if found else self._all(False)
            case Without(part):
                return Found(~self._scored(part, scanned).mask, self._zero())
            case EveryRow():
                return Found(self._all(True), self._zero())
            case leaf:
                own = decided(leaf, self.split.partition_values, self.opened.fields)
                if isinstance(own, InRow) and own in scored_leaves(own):
                    return self._words(own)
                if own == NO_ROW or isinstance(own, EveryRow):
                    return Found(self._all(own != NO_ROW), self._zero())
                evaluation = Evaluation(self.opened, own)
                mask = self._all(False)
                mask[evaluation.hits().rows] = True
                scanned |= evaluation.scanned
                return Found(mask, self._zero())
        total = self._zero()
        for each in found:
            # A part that does not find a row adds nothing to it, whatever is inside.
            total += np.where(each.mask & mask, each.scores, 0.0)
        return Found(mask, total)

    def _words(self, leaf: InRow) -> Found:
        """The rows that have a word or a phrase, scored."""
        column, evaluation = leaf.field.column, Evaluation(self.opened, leaf)
        hits = evaluation.weighed()
        mask, scores = self._all(False), self._zero()
        if not hits.rows.size:
            return Found(mask, scores)
        lengths = self.opened.lengths_at(column, hits.places)
        local = _Local.of(hits.explained, self.opened.path)
        times = local.times(hits.weights, lengths)
        if int(lengths[0]) != local.length or int(times[0]) != min(local.often, MOST):
            raise damaged(self.opened.path, "the library weighs words in another way than this release expects")
        average = self.statistics.average(column)
        norm = K1 * ((1 - B) + B * (lengths / average))
        mask[evaluation.hits().rows if leaf.slop else hits.rows] = True
        scores[hits.rows] = self.statistics.idf(column, leaf.words) * (K1 + 1) * (times / (times + norm))
        return Found(mask, np.where(mask, scores, 0.0))

    def _all(self, value: bool) -> np.ndarray:
        return np.full(self.opened.layout.rows, value, dtype=np.bool_)

    def _zero(self) -> np.ndarray:
        return np.zeros(self.opened.layout.rows, dtype=np.float64)


@dataclass(frozen=True)
class _Local:
    """What the library's own weights of one word in one split are made of."""

    idf: float
    average: float
    often: int
    length: int

    @staticmethod
    def of(explained: str, name: str) -> _Local:
        with guarded(name):
            values = dict(_values(json.loads(explained)))
        try:
            return _Local(values["idf"], values["avgdl"], int(values["freq"]), int(values["dl"]))
        except KeyError as error:
            raise damaged(name, f"the library does not explain its weights: {error} is missing") from error

    def times(self, weights: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """How often the word is in each text, which is what is left of a weight without all the rest."""
        share = weights / (self.idf * (K1 + 1))
        norm = K1 * ((1 - B) + B * (lengths / self.average))
        with np.errstate(divide="ignore"):
            times = np.where(share < 1, share * norm / np.maximum(1 - share, 1e-12), MOST)
        return np.clip(np.rint(times), 1, MOST)


def _values(explained: Any) -> Any:
    """The values in an explanation, by the first word of what is said about each."""
    for each in explained.get("details", ()):
        said = each["description"]
        if not said.startswith("freq /"):
            yield said.partition(",")[0], float(each["value"])
        yield from _values(each)

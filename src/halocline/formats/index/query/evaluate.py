"""Runs a bound query on one split: by its index as far as that goes, by the rows where it does not.

A query that the index can answer wholly is one query of the library. Otherwise the tree is walked: each part that the
index can answer is asked of it, each other leaf of the rows, and the sets of row numbers are put together here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from halocline.errors import InputError
from halocline.formats.index.query.bound import (
    Among,
    Between,
    Both,
    BoundLeaf,
    BoundQuery,
    Either,
    EveryRow,
    HasValue,
    InRow,
    JsonNumber,
    Like,
    Near,
    Without,
)
from halocline.formats.index.query.expressions import ANYTHING, begins_with, literally
from halocline.formats.index.query.scan import scanned_rows
from halocline.formats.index.split.fields import ROW, FieldKind
from halocline.formats.index.split.library import guarded, library
from halocline.formats.index.split.masks import without_deleted
from halocline.formats.index.split.reader import OpenedSplit
from halocline.formats.index.split.values import hashed

if TYPE_CHECKING:
    import tantivy


_FIRST: Final = itemgetter(0)
_NO_ROWS: Final = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class SplitHits:
    """What a search found in one split.

    Attributes:
        rows: Row numbers; in ascending order, or the best first where there are scores.
        scores: How relevant each is; None if nobody asked.
        scanned: The columns that were read because the index could not answer.
        damage: What is wrong with the split's own index; None if it answered.
        total: How many rows were found, where not all of them are here; None where all are.
    """

    rows: np.ndarray
    scores: np.ndarray | None = None
    scanned: tuple[str, ...] = ()
    damage: str | None = None
    total: int | None = None

    @property
    def count(self) -> int:
        """How many rows were found."""
        return len(self.rows) if self.total is None else self.total


@dataclass(frozen=True)
class WeighedHits:
    """What the library found, and how it weighs it.

    Attributes:
        rows: Row numbers, the heaviest first.
        places: The segment and the document of each.
        weights: The library's weight of each.
        explained: What the first weight is made of, as JSON.
    """

    rows: np.ndarray
    places: np.ndarray
    weights: np.ndarray
    explained: str


@dataclass
class Evaluation:
    """One query on one split.

    Args:
        opened: The split.
        query: What is looked for, with partition columns decided (`decided`).
        deleted: The numbers of rows that are deleted and never found, in ascending order.

    Attributes:
        scanned: The columns that were read because the index could not answer.
    """

    opened: OpenedSplit
    query: BoundQuery
    deleted: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    scanned: set[str] = field(default_factory=set)

    def hits(self) -> SplitHits:
        """Every row that is found, in ascending order.

        Raises:
            MalformedError: The split is damaged.
        """
        rows = without_deleted(self._rows(self.query), self.deleted)
        return SplitHits(rows, None, tuple(sorted(self.scanned)))

    def few(self, most: int) -> SplitHits:
        """Every row that is found, if they are few; else only how many there are.

        Args:
            most: How many rows are few.

        Raises:
            MalformedError: The split is damaged.
        """
        if isinstance(self.query, EveryRow):
            return self.hits() if self.count() <= most else SplitHits(_NO_ROWS, total=self.count())
        asked = self._asked(self.query)
        if asked is None or len(self.deleted):
            return self.hits()
        with self._searching():
            found: Any = self.opened.searcher.search(
                asked, limit=most, count=True, order_by_field=ROW, order=library().Order.Asc
            )
        if found.count > most:
            return SplitHits(_NO_ROWS, total=int(found.count))
        return SplitHits(self._in_order(found.hits))

    def count(self) -> int:
        """How many rows are found."""
        if isinstance(self.query, EveryRow):
            return self.opened.layout.rows - len(self.deleted)
        asked = self._asked(self.query)
        if asked is None or len(self.deleted):
            return len(without_deleted(self._rows(self.query), self.deleted))
        with self._searching():
            found: Any = self.opened.searcher.search(asked, limit=1, count=True)
        return int(found.count)

    def weighed(self) -> WeighedHits:
        """What a query of the library finds, with the library's own weights and where they come from.

        Raises:
            MalformedError: The split is damaged.
        """
        asked = self._words(self.query) if isinstance(self.query, InRow) else self._asked(self.query)
        assert asked is not None, "only words and phrases are weighed, and the index answers those"
        with self._searching():
            searcher = self.opened.searcher
            hits = searcher.search(asked, limit=max(self.opened.layout.rows, 1), count=False).hits
            addresses = [address for _, address in hits]
            documents: Any = searcher.fast_field_values(ROW, addresses)
            explained = asked.explain(searcher, addresses[0]).to_json() if hits else ""
        return WeighedHits(
            rows=self.opened.row_numbers(documents),
            places=_places(addresses),
            weights=np.array([weight for weight, _ in hits], dtype=np.float64),
            explained=explained,
        )

    def places(self, rows: np.ndarray) -> np.ndarray:
        """Where rows are in the index: the segment and the document of each."""
        with self._searching():
            hits = self.opened.searcher.search(
                library().Query.all_query(),
                limit=max(self.opened.layout.rows, 1),
                count=False,
                order_by_field=ROW,
                order=library().Order.Asc,
            ).hits
        order = np.argsort(self.opened.row_numbers(map(_FIRST, hits)))
        return _places([hits[place][1] for place in order[rows].tolist()])

    # ------------------------------------------------------------------ sets of rows

    def _rows(self, query: BoundQuery) -> np.ndarray:
        total = self.opened.layout.rows
        if isinstance(query, EveryRow):
            return np.arange(total, dtype=np.int64)
        asked = self._asked(query)
        if asked is not None:
            return self._numbers(asked)
        match query:
            case Both(parts):
                found = [self._mask(each) for each in parts]
                return np.flatnonzero(np.logical_and.reduce(found))
            case Either(parts):
                return np.flatnonzero(np.logical_or.reduce([self._mask(each) for each in parts]))
            case Without(part):
                return np.flatnonzero(~self._mask(part))
            case leaf:
                return self._scanned(leaf)

    def _mask(self, query: BoundQuery) -> np.ndarray:
        mask = np.zeros(self.opened.layout.rows, dtype=np.bool_)
        mask[self._rows(query)] = True
        return mask

    def _numbers(self, asked: tantivy.Query) -> np.ndarray:
        order = library().Order.Asc
        with self._searching():
            hits = self.opened.searcher.search(
                asked, limit=max(self.opened.layout.rows, 1), count=False, order_by_field=ROW, order=order
            ).hits
        return self._in_order(hits)

    def _in_order(self, hits: Sequence[tuple[int, Any]]) -> np.ndarray:
        rows = self.opened.row_numbers(map(_FIRST, hits))
        return rows if len(self.opened.layout.parts) == 1 else np.sort(rows)

    def _scanned(self, leaf: BoundLeaf) -> np.ndarray:
        if isinstance(leaf, Among) and leaf.field.hashed:
            # Few rows share 64 bits with a value; whether they have the value itself is asked of them alone.
            digests = [hashed(str(each)) for each in leaf.values]
            with guarded(self.opened.path):
                asked = library().Query.term_set_query(self.opened.index.schema, leaf.field.name, digests)
            return scanned_rows(self.opened, leaf, self._numbers(asked))
        if isinstance(leaf, InRow):
            # With others in between, the library also takes words in another order, and one word for two.
            return scanned_rows(self.opened, leaf, self._numbers(self._words(leaf)))
        if isinstance(leaf, JsonNumber) and leaf.terms is not None:
            return scanned_rows(self.opened, leaf, self._numbers(self._terms(leaf)))
        self.scanned.add(leaf.field.column)
        return scanned_rows(self.opened, leaf)

    # ------------------------------------------------------------------ queries of the library

    def _asked(self, query: BoundQuery) -> tantivy.Query | None:
        """The library's query; None if it cannot answer, or not wholly.

        Raises:
            InputError: The library refuses it, a pattern that is too large for instance.
        """
        _ = self.opened.index
        try:
            return self._translated(query)  # type: ignore[no-any-return]
        except ValueError as error:
            raise _too_much(error, self.opened.path) from error

    @contextmanager
    def _searching(self) -> Iterator[None]:
        """Tells what the library refuses to do from what it cannot read."""
        with guarded(self.opened.path):
            try:
                yield
            except ValueError as error:
                if "invalid argument" in str(error):
                    raise _too_much(error, self.opened.path) from error
                raise

    def _translated(self, query: BoundQuery) -> Any:
        queries, occur = library().Query, library().Occur
        match query:
            case EveryRow():
                return queries.const_score_query(queries.all_query(), 0.0)
            case Both(parts) | Either(parts):
                needed = occur.Must if isinstance(query, Both) else occur.Should
                if not parts:
                    return self._translated(EveryRow()) if isinstance(query, Both) else queries.empty_query()
                found = []
                for part in parts:
                    negated = isinstance(query, Both) and isinstance(part, Without)
                    inner = self._translated(part.part if negated and isinstance(part, Without) else part)
                    if inner is None:
                        return None
                    found.append((occur.MustNot if negated else needed, inner))
                if all(sign is occur.MustNot for sign, _ in found):
                    found.append((occur.Must, self._translated(EveryRow())))
                return queries.boolean_query(found)
            case Without(part):
                return self._translated(Both((query,))) if not isinstance(part, EveryRow) else queries.empty_query()
            case leaf:
                return self._leaf(leaf)

    def _leaf(self, leaf: BoundLeaf) -> Any:
        queries, schema, name = library().Query, self.opened.index.schema, leaf.field.name
        incomplete = leaf.field.column in self.opened.layout.unindexed
        if leaf.field.hashed or (leaf.field.kind is FieldKind.STRING and incomplete):
            return None
        match leaf:
            case Among(field, values) if field.kind.is_words:
                return queries.term_set_query(schema, name, list(values))
            case Among(field, values) if field.kind is FieldKind.IP:
                return _either([queries.term_query(schema, name, each) for each in values])
            case Among(_, values):
                return _either([self._range(Between(leaf.field, each, each)) for each in values])
            case Between(field) if field.kind is FieldKind.STRING:
                return None
            case Between():
                return self._range(leaf)
            case InRow(slop=slop):
                return None if slop else self._words(leaf)
            case JsonNumber():
                return self._terms(leaf) if leaf.is_told_by_index else None
            case Like(_, expression):
                return queries.regex_query(schema, name, expression)
            case Near(_, word, distance, path):
                addresses = _addresses(name, path)
                return _either([queries.fuzzy_term_query(schema, each, word, distance) for each in addresses])
            case HasValue(field) if field.kind is FieldKind.TEXT:
                return queries.regex_query(schema, name, ANYTHING)
            case HasValue(field):
                tells = field.fast if field.kind is FieldKind.STRING else field.kind is not FieldKind.FLOAT
                return queries.exists_query(name) if tells and not incomplete else None

    def _range(self, leaf: Between) -> Any:
        types = library().FieldType
        kind = types.IpAddr if leaf.field.kind is FieldKind.IP else types.Integer
        kind = types.Float if leaf.field.kind is FieldKind.FLOAT else kind
        return library().Query.range_query(
            self.opened.index.schema,
            leaf.field.name,
            kind,
            leaf.low,
            leaf.high,
            include_lower=leaf.includes_low or leaf.low is None,
            include_upper=leaf.includes_high or leaf.high is None,
        )

    def _terms(self, leaf: JsonNumber) -> Any:
        queries, schema = library().Query, self.opened.index.schema
        addresses = _addresses(leaf.field.name, leaf.path)
        return _either([queries.term_query(schema, name, each) for name in addresses for each in leaf.terms or ()])

    def _words(self, leaf: InRow) -> Any:
        queries, schema = library().Query, self.opened.index.schema
        found: list[Any] = []
        words = list(leaf.words)
        for name in _addresses(leaf.field.name, leaf.path):
            found += (queries.term_query(schema, name, each) for each in leaf.typed)
            if leaf.goes_on:
                # The library's own query for this looks at fifty words that go on and no further.
                last = begins_with(words[-1])
                found.append(queries.regex_phrase_query(schema, name, [*map(literally, words[:-1]), last]))
            elif len(words) > 1:
                found.append(queries.phrase_query(schema, name, words, leaf.slop))
            elif words:
                option = "position" if leaf.field.positions else "freq"
                found.append(queries.term_query(schema, name, words[0], option))
        return _either(found)


def _places(addresses: list[Any]) -> np.ndarray:
    return np.array([(each.segment_ord, each.doc) for each in addresses], dtype=np.int64).reshape(-1, 2)


def _too_much(error: ValueError, name: str) -> InputError:
    return InputError(
        f"the index cannot be asked this: {error}",
        condition="QUERY_INVALID",
        sides={"split": name},
        next_step="Make the query simpler: longer words before a wildcard, fewer wildcards.",
    )


def _either(found: list[Any]) -> Any:
    if len(found) == 1:
        return found[0]
    return library().Query.boolean_query([(library().Occur.Should, each) for each in found])


def _addresses(name: str, path: tuple[str, ...]) -> list[str]:
    """A place inside JSON as the library spells it; keys may have dots in them, so every way to read them counts."""
    if not path:
        return [name]
    found: list[tuple[str, ...]] = [(path[0],)]
    for step in path[1:]:
        found = [way for each in found for way in ((*each, step), (*each[:-1], f"{each[-1]}.{step}"))]
    return [".".join((name, *(key.replace("\\", "\\\\").replace(".", "\\.") for key in way))) for way in found]

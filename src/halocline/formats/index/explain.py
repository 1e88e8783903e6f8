"""How a search is answered: what the index decides, what is read from rows and why, and which splits are left aside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from halocline.formats.index.pruning import may_match
from halocline.formats.index.query.bound import (
    PARTITION,
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
    Without,
)
from halocline.formats.index.search import Search
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.fields import FieldKind


@dataclass(frozen=True)
class AnsweredPart:
    """One part of a query, and who answers it.

    Attributes:
        part: The part: its column and what is asked of it.
        by: `index`, `log` or `rows`.
        because: Why it is not the index alone; empty if it is.
    """

    part: str
    by: str
    because: str = ""


@dataclass(frozen=True)
class SearchExplanation:
    """How a search is answered. `str` is for people.

    Attributes:
        query: The query.
        version: The version that would be searched.
        parts: The parts of the query, in their order.
        condition: What becomes of `where`; empty without one.
        splits: How many splits the version has.
        left_by_condition: How many of them `where` leaves aside.
        left_by_query: How many of the others the query leaves aside, by partition values and bounds in the log.
        bundles: How many that are left were written by IndexTables4Spark, and cannot be searched.
        resting: The splits that are left and are known to be damaged, with the reason on record.
    """

    query: str
    version: int
    parts: tuple[AnsweredPart, ...]
    condition: str
    splits: int
    left_by_condition: int
    left_by_query: int
    bundles: int
    resting: tuple[tuple[str, str], ...] = ()

    @property
    def asked(self) -> int:
        """How many splits are asked. Those of them that lack a word are left when their terms have been looked at."""
        return self.splits - self.left_by_condition - self.left_by_query

    def __str__(self) -> str:
        lines = [f"{self.query}   (version {self.version})"]
        for each in self.parts:
            lines.append(f"  {each.part}: {each.by}{f', {each.because}' if each.because else ''}")
        if self.condition:
            lines.append(f"  where: {self.condition}")
        left = f"{self.left_by_condition} left aside by where, {self.left_by_query} by the query"
        lines.append(f"  {self.asked} of {self.splits} splits are asked; {left}")
        if self.bundles:
            lines.append(f"  {self.bundles} of them are of IndexTables4Spark and cannot be searched")
        lines += [f"  {path} rests: {reason}" for path, reason in self.resting]
        return "\n".join(lines)


def explained(
    snapshot: IndexSnapshot, search: Search, kept: frozenset[str] | None, condition: str
) -> SearchExplanation:
    """How a search of a version is answered.

    Args:
        snapshot: The version.
        search: The search.
        kept: The paths of the splits that a condition keeps; None if there is no condition.
        condition: What becomes of it.
    """
    files = [each for path, each in snapshot.files.items() if kept is None or path in kept]
    left = [each for each in files if may_match(search.query, each)]
    skips = snapshot.skips
    return SearchExplanation(
        query=search.text,
        version=snapshot.version,
        parts=tuple(_parts(search.query)),
        condition=condition,
        splits=len(snapshot.files),
        left_by_condition=len(snapshot.files) - len(files),
        left_by_query=len(files) - len(left),
        bundles=sum(not each.is_own for each in left),
        resting=tuple((each.path, skips[each.path].reason) for each in left if each.path in skips),
    )


def reads_rows(search: Search) -> bool:
    """Whether a part of a search is answered from the rows, because no index can."""
    return any(each.by == "rows" for each in _parts(search.query))


def _parts(query: BoundQuery) -> Iterator[AnsweredPart]:
    match query:
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _parts(part)
        case Without(part):
            yield from (AnsweredPart(f"NOT {each.part}", each.by, each.because) for each in _parts(part))
        case EveryRow():
            yield AnsweredPart("every row", "log")
        case leaf:
            yield _answered(leaf)


def _answered(leaf: BoundLeaf) -> AnsweredPart:
    field = leaf.field
    part = f"{field.column} {_WORDS.get(type(leaf).__name__, 'has words')}"
    if field.number == PARTITION:
        return AnsweredPart(part, "log", "a partition column")
    match leaf:
        case Among() if field.hashed:
            return AnsweredPart(part, "index", "and the rows found are compared, since the column is hashed")
        case InRow(slop=slop) if slop:
            return AnsweredPart(part, "index", "and the order of words is looked up in the rows found")
        case JsonNumber() if leaf.terms is None:
            return AnsweredPart(part, "rows", "since infinities and NaN inside a column are in no index")
        case JsonNumber() if not leaf.is_told_by_index:
            return AnsweredPart(part, "index", "and the numbers are compared in the rows found")
        case Between() if field.kind is FieldKind.STRING:
            return AnsweredPart(part, "rows", "since an index of strings has no ranges")
        case HasValue() if field.kind is FieldKind.FLOAT:
            return AnsweredPart(part, "rows", "since NaN is a value and is in no index")
        case HasValue() if field.kind is FieldKind.STRING and not field.fast:
            return AnsweredPart(part, "rows", "since the column is not fast")
        case _ if field.hashed:
            return AnsweredPart(part, "rows", "since the column is hashed")
    return AnsweredPart(part, "index")


_WORDS = {
    "Among": "is one of some values",
    "Between": "is in a range",
    "JsonNumber": "has a number inside",
    "Like": "fits a pattern",
    "Near": "is nearly a word",
    "HasValue": "has a value",
}

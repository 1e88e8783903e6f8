"""Which splits a query can leave aside: by their partition values, their bounds, and the terms they have.

The question for a part of a query is two: may a row of the split be found, and are all of them? `NOT` swaps the two. A
split is left aside only where no row may be found; what is not known counts as maybe.

Bounds of strings are cut at 32 characters: a greatest value of that length stands for every string that begins with it.
Of bundles only the bounds of numbers count, for their other forms are not known to be these.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, NamedTuple

from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.query.bound import (
    PARTITION,
    Among,
    Between,
    Both,
    BoundLeaf,
    BoundQuery,
    Either,
    EveryRow,
    InRow,
    Without,
)
from halocline.formats.index.query.partitions import fits, holds
from halocline.formats.index.split.bounds import CUT
from halocline.formats.index.split.fields import FieldKind, IndexField
from halocline.formats.index.split.presence import TermFilter

_NUMBERS: Final = (FieldKind.INTEGER, FieldKind.FLOAT)


class _Answer(NamedTuple):
    may: bool
    must: bool


_MAYBE: Final = _Answer(True, False)
_NO: Final = _Answer(False, False)
_YES: Final = _Answer(True, True)


def may_match(query: BoundQuery, split: SplitAdd, terms: TermFilter | None = None) -> bool:
    """Whether a row of the split may be found.

    Args:
        query: What is looked for.
        split: What the log says of the split.
        terms: Which terms the split has, if that has been read.

    Example:
        >>> field = IndexField("id", 0, FieldKind.INTEGER)
        >>> split = SplitAdd("a.split.parquet", {}, 1, 1, True, min_values={"id": "1"}, max_values={"id": "9"})
        >>> may_match(Among(field, (5,)), split), may_match(Among(field, (10,)), split)
        (True, False)
    """
    return _answer(query, split, terms).may


def must_match(query: BoundQuery, split: SplitAdd) -> bool:
    """Whether every row of the split is certainly found, by what the log says."""
    return _answer(query, split, None).must


def _answer(query: BoundQuery, split: SplitAdd, terms: TermFilter | None) -> _Answer:
    match query:
        case EveryRow():
            return _YES
        case Both(parts):
            answers = [_answer(each, split, terms) for each in parts]
            return _Answer(all(each.may for each in answers), all(each.must for each in answers))
        case Either(parts):
            answers = [_answer(each, split, terms) for each in parts]
            return _Answer(any(each.may for each in answers), any(each.must for each in answers))
        case Without(part):
            inner = _answer(part, split, terms)
            return _Answer(not inner.must, not inner.may)
        case leaf if leaf.field.number == PARTITION:
            return _YES if holds(leaf, split.partition_values.get(leaf.field.column)) else _NO
        case leaf:
            return _MAYBE if _within_bounds(leaf, split) and _has_terms(leaf, terms) else _NO


def _has_terms(leaf: BoundLeaf, terms: TermFilter | None) -> bool:
    if terms is None or leaf.field.hashed or not leaf.field.kind.is_words:
        return True
    name = leaf.field.name
    match leaf:
        case Among(_, values):
            return any(terms.may_have(name, str(each)) for each in values)
        case InRow(words=words, goes_on=goes_on):
            return all(terms.may_have(name, each) for each in (words[:-1] if goes_on else words))
    return True


def _within_bounds(leaf: BoundLeaf, split: SplitAdd) -> bool:
    column = leaf.field.column
    least, greatest = (split.min_values or {}).get(column), (split.max_values or {}).get(column)
    usable = leaf.field.kind in _NUMBERS or (split.is_own and leaf.field.kind is not FieldKind.IP)
    if least is None or greatest is None or not usable or leaf.field.repeated:
        return True
    try:
        low, high = _value(leaf.field, least), _value(leaf.field, greatest)
    except (ValueError, ArithmeticError):
        return True
    is_text = isinstance(high, str)
    match leaf:
        case Among(_, values):
            return any(low <= each and _at_most(each, high) for each in values)
        case Between():
            return fits(leaf, low, high, is_at_most=_at_most if is_text else None)
    return True


def _value(field: IndexField, text: str) -> Any:
    match field.kind:
        case FieldKind.STRING | FieldKind.TEXT:
            return text
        case FieldKind.FLOAT:
            return float(text)
        case FieldKind.BOOLEAN:
            return ("false", "true").index(text)
        case FieldKind.DECIMAL:
            return int(Decimal(text).scaleb(field.scale))
    return int(text)


def _at_most(value: Any, high: Any) -> bool:
    """Whether a value is not above the greatest one, of which perhaps only the beginning is known."""
    if isinstance(high, str) and len(high) >= CUT:
        return bool(value[: len(high)] <= high)
    return bool(value <= high)

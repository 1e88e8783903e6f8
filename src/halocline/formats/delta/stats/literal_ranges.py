"""What a literal means to the column it is compared with.

Spark brings both sides of a comparison to one type. Where that loses nothing, the literal becomes a *range* in the
column's canonical form (see `halocline.formats.delta.stats.bounds`): one value, or the span within which the value
must lie where a time zone is not known. Where it is not certain what Spark would do, the answer is `True`: any file
may match. Where no value can match, it is `False`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import Any, Final

from halocline.formats.delta.configuration.schema import Column
from halocline.formats.delta.stats.bounds import Family, single
from halocline.formats.delta.stats.literal import BLANKS, Literal, LiteralKind, plain_number
from halocline.formats.delta.stats.predicate import Operator
from halocline.formats.delta.stats.timestamps_text import days_of, microseconds_of, range_of
from halocline.schema.char_types import is_padded, length_of
from halocline.schema.types import decimal_of

_EXACT: Final = Context(prec=120)
_EXACT_IN_DOUBLE: Final = 2**53
_LONG: Final = range(-(2**63), 2**63)
_MOST_DIGITS: Final = 38


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the greatest value that a literal can mean, both in canonical form."""

    low: Any
    high: Any

    @property
    def is_exact(self) -> bool:
        """Whether it means one value."""
        return bool(self.low == self.high)


def range_for(
    literal: Literal, operator: Operator, column: Column, family: Family, zone: tzinfo | None
) -> Range | bool:
    """What the literal means when this column is compared with it.

    Example:
        >>> from halocline.schema import Field, Primitive
        >>> column = Column(("n",), ("n",), Field("n", Primitive("integer")))
        >>> range_for(Literal(LiteralKind.NUMBER, Decimal("1.5")), Operator.LT, column, Family.WHOLE, None)
        Range(low=2, high=2)
    """
    value = literal.value
    if family is Family.TEXT:
        return _text(str(value), column) if literal.kind is LiteralKind.TEXT else True
    if family is Family.BOOLEAN:
        fits = literal.kind is LiteralKind.BOOLEAN and operator in (Operator.EQ, Operator.NE)
        return Range(value, value) if fits else True
    if family in (Family.WHOLE, Family.DECIMAL):
        number = _exact_number(literal, family)
        return True if number is None else _on_lattice(number, operator, column, family)
    if family is Family.FLOATING:
        return _floating(literal, column)
    if family is Family.DATE:
        days = value if literal.kind is LiteralKind.DATE else _days(literal)
        return True if days is None else Range(days, days)
    if family is Family.ZONELESS:
        return _zoneless(literal)
    if literal.kind in (LiteralKind.TIMESTAMP, LiteralKind.TEXT):
        moments = range_of(str(value).strip(BLANKS), zone)
        return True if moments is None else Range(*moments)
    return True


def _text(value: str, column: Column) -> Range | bool:
    """What text means to a column. Text of fixed length is compared padded, and stored with its blanks or without."""
    if column.declared is None or not is_padded(column.declared):
        return Range(value, value)
    if any(sign < " " for sign in value):
        return True  # less than a blank, so that padding changes the order
    return Range(value.rstrip(" "), value.ljust(length_of(column.declared)))


def _exact_number(literal: Literal, family: Family) -> Decimal | None:
    value = literal.value
    if literal.kind is LiteralKind.TEXT:
        # Text compared with a whole number is read as one. With a decimal, both become floating point.
        text = plain_number(str(value)) or ""
        is_whole = text.removeprefix("-").isdecimal()
        return Decimal(text) if family is Family.WHOLE and is_whole else None
    if literal.kind is not LiteralKind.NUMBER or isinstance(value, bool | str):
        return None
    if isinstance(value, float):
        # Whole numbers become floating point then, which is exact only while they are small.
        small = value - value == 0 and abs(value) < _EXACT_IN_DOUBLE
        return Decimal(value) if family is Family.WHOLE and small else None
    return Decimal(value)


def _on_lattice(number: Decimal, operator: Operator, column: Column, family: Family) -> Range | bool:
    """The nearest value that the column can have, on the side that leaves the comparison as it is."""
    scale = (decimal_of(column.type) or (10, 0))[1]
    step = Decimal(1).scaleb(-scale if family is Family.DECIMAL else 0)
    try:
        floor = number.quantize(step, rounding=ROUND_FLOOR, context=_EXACT)
        ceiling = number.quantize(step, rounding=ROUND_CEILING, context=_EXACT)
    except InvalidOperation:
        return True
    if operator in (Operator.EQ, Operator.NE) and floor != ceiling:
        return operator is Operator.NE
    nearest = ceiling if operator in (Operator.LT, Operator.GE) else floor
    if family is Family.WHOLE:
        return Range(int(nearest), int(nearest)) if int(nearest) in _LONG else True
    return Range(nearest, nearest) if len(nearest.as_tuple().digits) <= _MOST_DIGITS else True


def _floating(literal: Literal, column: Column) -> Range | bool:
    if literal.kind not in (LiteralKind.NUMBER, LiteralKind.TEXT):
        return True
    if isinstance(literal.value, str) and plain_number(literal.value) is None:
        return True
    try:
        value = float(literal.value)
    except OverflowError:
        return True
    if value - value != 0:
        return True
    if column.type.name != "float":
        return Range(value, value)
    # Whether Spark compares in single or in double precision depends on the literal's type.
    narrow = single(value)
    return Range(min(value, narrow), max(value, narrow)) if narrow - narrow == 0 else True


def _days(literal: Literal) -> int | None:
    return days_of(str(literal.value).strip(BLANKS)) if literal.kind is LiteralKind.TEXT else None


def _zoneless(literal: Literal) -> Range | bool:
    if literal.kind not in (LiteralKind.TIMESTAMP_NTZ, LiteralKind.TEXT):
        return True
    found = microseconds_of(str(literal.value).strip(BLANKS))
    return True if found is None or found[1] else Range(found[0], found[0])

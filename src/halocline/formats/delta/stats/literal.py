"""Literals of SQL, as far as their value is certain without asking Spark.

A literal may stand in brackets, behind a minus, or within casts that lose nothing. Whatever else an expression is, it
is no literal here, though Spark may well compute one from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from halocline.formats.delta.stats.timestamps_text import days_of

if TYPE_CHECKING:
    from sqlglot import exp

NULL: Final = object()
"""What `literal_of` finds in place of null."""
BLANKS: Final = "".join(map(chr, range(ord(" ") + 1)))
"""What Spark leaves out around text that it reads as a number or a time."""
_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_PLAIN_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# The parts of parsed nodes that are looked at.
_UNDERSTOOD: Final = frozenset(
    {"this", "expression", "expressions", "low", "high", "to", "safe", "negate", "is_string", "table", "db", "catalog"}
)


class LiteralKind(StrEnum):
    """What a literal is in SQL. Its value is an int, Decimal or float, a text, a bool, or a number of days."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value in the predicate. Timestamps are kept as text, since their meaning may depend on a zone."""

    kind: LiteralKind
    value: int | Decimal | float | str | bool


def literal_of(node: exp.Expr) -> Literal | object | None:
    """The literal; `NULL` for null; None for anything else."""
    from sqlglot import exp

    if not is_plain(node):
        return None
    if isinstance(node, exp.Paren):
        return literal_of(node.this)
    if isinstance(node, exp.Null):
        return NULL
    if isinstance(node, exp.Boolean):
        return Literal(LiteralKind.BOOLEAN, bool(node.this))
    if isinstance(node, exp.Literal):
        return Literal(LiteralKind.TEXT, node.this) if node.is_string else _number(node.this)
    if isinstance(node, exp.Neg):
        inner = literal_of(node.this)
        if isinstance(inner, Literal) and inner.kind is LiteralKind.NUMBER and not isinstance(inner.value, str):
            return Literal(LiteralKind.NUMBER, -inner.value)
        return None
    if isinstance(node, exp.Cast):
        inner = literal_of(node.this)
        return _cast(inner, node.to) if isinstance(inner, Literal) else inner
    return None


def is_plain(node: exp.Expr) -> bool:
    """Whether a node says nothing beyond what is read of it; an unknown modifier may change everything."""
    return all(name in _UNDERSTOOD or not value for name, value in node.args.items())


def plain_number(text: str) -> str | None:
    """Text that every engine reads as the same number, without blanks around it; None for any other.

    Example:
        >>> plain_number(" 1.5e3 "), plain_number("1_0"), plain_number("inf")
        ('1.5e3', None, None)
    """
    text = text.strip(BLANKS)
    return text if _PLAIN_NUMBER.fullmatch(text) else None


def _number(text: str) -> Literal | None:
    try:
        if _WHOLE_NUMBER.fullmatch(text):
            return Literal(LiteralKind.NUMBER, int(text))
        value = float(text) if "e" in text.lower() else Decimal(text)
    except (ValueError, InvalidOperation):
        return None
    return Literal(LiteralKind.NUMBER, value)


def _cast(literal: Literal, to: exp.DataType) -> Literal | None:
    """What a cast of a literal is worth, where the cast loses nothing; None where it is not certain."""
    from sqlglot import exp

    kind, text = to.this, str(literal.value).strip(BLANKS)
    is_text = literal.kind is LiteralKind.TEXT
    is_number = (is_text or literal.kind is LiteralKind.NUMBER) and plain_number(text) is not None
    if kind in exp.DataType.INTEGER_TYPES:
        return _cast_whole(text, to) if is_number else None
    if kind is exp.DataType.Type.DECIMAL:
        return _cast_decimal(text, to) if is_number else None
    if kind is exp.DataType.Type.DOUBLE:
        return Literal(LiteralKind.NUMBER, float(text)) if is_number else None
    if kind in (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR):
        return literal if is_text and not to.expressions else None
    if kind is exp.DataType.Type.DATE:
        days = days_of(text) if is_text else None
        return (
            literal if literal.kind is LiteralKind.DATE else None if days is None else Literal(LiteralKind.DATE, days)
        )
    if kind in (exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ):
        return Literal(LiteralKind.TIMESTAMP, text) if is_text else None
    if kind is exp.DataType.Type.TIMESTAMPNTZ:
        return Literal(LiteralKind.TIMESTAMP_NTZ, text) if is_text else None
    return None


def _cast_whole(text: str, to: exp.DataType) -> Literal | None:
    limit = 2 ** (_BITS.get(to.this.value, 1) - 1)
    fits = _WHOLE_NUMBER.fullmatch(text) and -limit <= int(text) < limit
    return _number(text) if fits else None


def _cast_decimal(text: str, to: exp.DataType) -> Literal | None:
    digits = [int(each.name) for each in to.expressions if each.name.isdigit()]
    precision, scale = (*digits, 0)[:2] if digits else (10, 0)
    try:
        value = Decimal(text)
        exact = value == value.quantize(Decimal(1).scaleb(-scale)) and value.adjusted() < precision - scale
    except (InvalidOperation, ValueError):
        return None
    return Literal(LiteralKind.NUMBER, value) if exact else None

"""Leaves about partition columns, decided by the value that the log holds for a split."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from halocline.errors import InputError, MalformedError
from halocline.formats.index.query.bound import Among, Between, BoundLeaf, HasValue, Like
from halocline.formats.index.query.literals import literal

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""How some writers spell that there is no value."""


def holds(leaf: BoundLeaf, text: str | None) -> bool:
    """Whether all rows of a split are found, or none.

    Args:
        leaf: The leaf.
        text: The partition value, as text; None if it is null.

    Raises:
        MalformedError: The value is none of the column's type.
    """
    if text is None or text == NULL:
        return False
    try:
        value: Any = literal(leaf.field, text)
    except InputError as error:
        raise MalformedError(
            f"{text!r} is no partition value of column {leaf.field.column!r}",
            condition="MALFORMED_LOG",
            sides={"column": str(leaf.field.kind), "log has": text},
            next_step="Repair the log.",
        ) from error
    match leaf:
        case Among(_, values):
            return value in values
        case Between():
            return fits(leaf, value, value)
        case Like(_, expression):
            return re.fullmatch(expression, str(value)) is not None
        case HasValue():
            return True
    raise InputError(
        f"partition column {leaf.field.column!r} is compared whole",
        condition="QUERY_INVALID",
        sides={"asked for": type(leaf).__name__, "possible": "values, ranges and patterns"},
        next_step="Compare the whole value.",
    )


def fits(leaf: Between, low: Any, high: Any, *, is_at_most: Callable[[Any, Any], bool] | None = None) -> bool:
    """Whether a range and the values from low to high have one in common."""
    above = leaf.low is None or high > leaf.low or (leaf.includes_low and high == leaf.low)
    if is_at_most is not None and leaf.low is not None:
        above = is_at_most(leaf.low, high)
    return above and (leaf.high is None or low < leaf.high or (leaf.includes_high and low == leaf.high))

"""Values as people write them in a query, by the kind of field that they are for."""

from __future__ import annotations

import ipaddress
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from math import inf, nextafter
from typing import Final

from halocline.errors import InputError
from halocline.formats.index.query.bound import Value
from halocline.formats.index.split.fields import MOST_DIGITS, FieldKind, IndexField

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = re.compile(r"-?\d{4,6}-\d{2}-\d{2}")
_FORMS: Final = {
    FieldKind.INTEGER: "a whole number",
    FieldKind.FLOAT: "a number",
    FieldKind.BOOLEAN: "true or false",
    FieldKind.DATE: "a date such as 2024-01-31",
    FieldKind.TIMESTAMP: "a time such as 2024-01-31T12:30:00Z",
    FieldKind.DECIMAL: "a number",
    FieldKind.IP: "an address such as 10.0.0.1",
}


def literal(field: IndexField, text: str, *, rounding: int = 0) -> Value:
    """The value that a text means for a field.

    Args:
        field: The field.
        text: The text.
        rounding: Whether a value between two that the column can have becomes the lower (-1) or the higher one (1); it
            is refused if 0.

    Raises:
        InputError: It means none.

    Example:
        >>> literal(IndexField("at", 0, FieldKind.TIMESTAMP), "1970-01-01T00:00:01.5")
        1500000
    """
    try:
        match field.kind:
            case FieldKind.STRING | FieldKind.TEXT:
                return text
            case FieldKind.IP:
                return str(ipaddress.ip_address(text))
            case FieldKind.BOOLEAN:
                return ("false", "true").index(text.lower())
            case FieldKind.DATE:
                if not _DAY.fullmatch(text):
                    raise ValueError(text)
                return (date.fromisoformat(text) - _EPOCH.date()).days
            case FieldKind.TIMESTAMP:
                return _micros(text)
            case FieldKind.FLOAT:
                return _double(text, rounding)
            case FieldKind.INTEGER:
                return _fitting(Decimal(text), rounding)
            case FieldKind.DECIMAL:
                return _fitting(Decimal(text).scaleb(field.scale, Context(prec=len(text) + MOST_DIGITS)), rounding)
    except (ValueError, InvalidOperation, OverflowError) as error:
        raise _refused(field, text) from error
    raise _refused(field, text)


def network(text: str) -> tuple[str, str] | None:
    """The first and the last address of a network; None if the text is none.

    Example:
        >>> network("10.0.0.0/30")
        ('10.0.0.0', '10.0.0.3')
    """
    if "/" not in text:
        return None
    try:
        found = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    return str(found[0]), str(found[-1])


def boolean_in_json(text: str) -> tuple[bool, ...]:
    """The boolean that a text may mean inside JSON."""
    return (text == "true",) if text in ("true", "false") else ()


def _micros(text: str) -> int:
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _double(text: str, rounding: int) -> float:
    number = float(text) + 0.0
    if number != number:
        raise ValueError(text)
    if abs(number) < inf or Decimal(text).is_infinite():
        return number
    # No double is as great, and an infinity is another value.
    if not rounding:
        raise ValueError(text)
    return number if (number > 0) is (rounding > 0) else nextafter(number, 0.0)


def _fitting(number: Decimal, rounding: int) -> int:
    if number.is_finite() and number.adjusted() > MOST_DIGITS:
        raise ValueError(number)
    whole = int(number.to_integral_value(rounding="ROUND_CEILING" if rounding > 0 else "ROUND_FLOOR"))
    if (number != whole and not rounding) or not -(2**63) <= whole < 2**63:
        raise ValueError(number)
    return whole


def _refused(field: IndexField, text: str) -> InputError:
    return InputError(
        f"{text!r} is no value of column {field.column!r}",
        condition="QUERY_INVALID",
        sides={"column": str(field.kind), "expected": _FORMS.get(field.kind, "nothing that can be searched for")},
        next_step="Write the value as the column has it, or search in another column.",
    )

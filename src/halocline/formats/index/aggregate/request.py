"""What is to be worked out, as plain values, and what it means for the columns of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, NoReturn, TypeAlias

import pyarrow as pa

from halocline.errors import InputError
from halocline.formats.index.rows import column_of
from halocline.schema.arrow import arrow_type
from halocline.schema.types import Field, Primitive, Struct, decimal_of

Number: TypeAlias = int | float | Decimal
MOST_DIGITS: Final = 38
_WHOLE: Final = ("byte", "short", "integer", "long")
_FLOAT: Final = ("float", "double")
_TIMES: Final = ("date", "timestamp", "timestamp_ntz")
UNITS: Final = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
"""The units of a date histogram."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows there are; with a column, how many have a value in it."""

    column: str | None = None


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of a column; null if there is no value."""

    column: str


@dataclass(frozen=True, slots=True)
class Min:
    """The least value of a column."""

    column: str


@dataclass(frozen=True, slots=True)
class Max:
    """The greatest value of a column."""

    column: str


@dataclass(frozen=True, slots=True)
class Avg:
    """The mean of a column: a double, or for decimals one with four more digits."""

    column: str


@dataclass(frozen=True, slots=True)
class TermBuckets:
    """A group for each value of a column."""

    column: str


@dataclass(frozen=True, slots=True)
class HistogramBuckets:
    """Groups of equal width over a column of numbers; each is known by where it begins.

    Attributes:
        column: The column.
        interval: The width.
        offset: Where one of the groups begins.
    """

    column: str
    interval: Number
    offset: Number = 0


@dataclass(frozen=True, slots=True)
class DateBuckets:
    """Groups of a time span over a column of dates or timestamps, in UTC; weeks begin on Monday.

    Attributes:
        column: The column.
        unit: One of `UNITS`.
        multiple: How many units are one group, counted from 1970.
    """

    column: str
    unit: str
    multiple: int = 1


@dataclass(frozen=True)
class RangeBuckets:
    """Named ranges of a column of numbers; the low end belongs to a range, the high end does not, None leaves one open.

    Attributes:
        column: The column.
        bounds: The ends by name. RangeBuckets must not overlap.
    """

    column: str
    bounds: Mapping[str, tuple[Number | None, Number | None]]


Metric: TypeAlias = Count | Sum | Min | Max | Avg
Bucket: TypeAlias = TermBuckets | HistogramBuckets | DateBuckets | RangeBuckets


@dataclass(frozen=True)
class Aggregation:
    """Metrics and buckets for the columns of one table; a value that can be sent to wherever splits are read.

    Attributes:
        metrics: What is worked out, by the name of its column in the result.
        by: What rows are grouped by, by the name of its column in the result.
        columns: The columns of the table that are needed.
    """

    metrics: Mapping[str, Metric]
    by: Mapping[str, Bucket] = field(default_factory=dict)
    columns: tuple[Field, ...] = ()

    @staticmethod
    def of(schema: Struct, metrics: Mapping[str, Metric], by: Mapping[str, Bucket] | None = None) -> Aggregation:
        """Checks a request against the columns of a table.

        Args:
            schema: The columns.
            metrics: What is to be worked out, by name.
            by: What to group by, by name.

        Raises:
            InputError: A column cannot be aggregated so, or a name is there twice.
            NotFoundError: There is no such column.

        Example:
            >>> columns = Struct([Field("level", Primitive("string")), Field("bytes", Primitive("long"))])
            >>> made = Aggregation.of(columns, {"total": Sum("bytes")}, {"level": TermBuckets("level")})
            >>> [each.name for each in made.columns]
            ['level', 'bytes']
        """
        by = dict(by or {})
        if not metrics:
            _refuse("there is nothing to work out", "no metric", "Count, Sum, Min, Max or Avg")
        if both := sorted(metrics.keys() & by.keys()):
            _refuse(f"two columns of the result are called {both[0]!r}", both[0], "one name for each")
        known = {each.name: each for each in schema.fields}
        needed: dict[str, Field] = {}
        for asked in (*by.values(), *metrics.values()):
            if asked.column is not None:
                needed[asked.column] = column_of(asked.column, known)
                _check(asked, needed[asked.column])
        return Aggregation(dict(metrics), by, tuple(each for each in schema.fields if each.name in needed))

    def type_of(self, column: str) -> Primitive:
        """The type of a column that has a simple one."""
        found = next(each.type for each in self.columns if each.name == column)
        if not isinstance(found, Primitive):
            _refuse(f"column {column!r} is nested", str(found), "columns of simple types")
        return found

    def result_type(self, asked: Metric | Bucket) -> pa.DataType:
        """The Arrow type of a column of the result."""
        match asked:
            case Count():
                return pa.int64()
            case RangeBuckets():
                return pa.string()
            case Min(column) | Max(column) | TermBuckets(column) | DateBuckets(column):
                return arrow_type(self.type_of(column))
            case HistogramBuckets(column):
                # A group may begin below what the column can hold.
                type = arrow_type(self.type_of(column))
                wide = pa.decimal128(MOST_DIGITS, type.scale) if pa.types.is_decimal(type) else pa.int64()
                return type if pa.types.is_floating(type) else wide
            case Sum(column) | Avg(column):
                type, more = self.type_of(column), 10 if isinstance(asked, Sum) else 4
                if (digits := decimal_of(type)) is not None:
                    scale = digits[1] if isinstance(asked, Sum) else min(digits[1] + more, MOST_DIGITS)
                    return pa.decimal128(min(digits[0] + more, MOST_DIGITS), scale)
                return pa.int64() if isinstance(asked, Sum) and type.name in _WHOLE else pa.float64()

    @property
    def is_count(self) -> bool:
        """Whether it is the number of rows and nothing else."""
        return not self.by and all(each == Count() for each in self.metrics.values())


def _check(asked: Metric | Bucket, column: Field) -> None:
    if isinstance(asked, Count):
        return
    type = column.type
    if not isinstance(type, Primitive) or type.name == "binary":
        _refuse(f"column {column.name!r} can only be counted", str(type), "columns of simple types")
    is_number = type.name in _WHOLE + _FLOAT or decimal_of(type) is not None
    match asked:
        case Sum() | Avg() | RangeBuckets() | HistogramBuckets() if not is_number:
            _refuse(f"column {column.name!r} has no numbers", f"{_word(asked)} of {type}", "columns of numbers")
        case DateBuckets(unit=unit, multiple=multiple):
            if type.name not in _TIMES:
                _refuse(f"column {column.name!r} has no times", f"{_word(asked)} of {type}", ", ".join(_TIMES))
            if unit not in UNITS:
                _refuse(f"there is no unit {unit!r}", unit, f"one of {', '.join(UNITS)}")
            if multiple < 1:
                _refuse("a date histogram counts units", str(multiple), "1 or more")
        case HistogramBuckets(interval=interval):
            if not interval > 0:
                _refuse("the width of a histogram is above zero", str(interval), "a positive number")
            for each in (interval, asked.offset):
                _check_number(each, type)
        case RangeBuckets(bounds=bounds):
            _check_ranges(bounds, type)
        case _:
            pass


def _check_ranges(bounds: Mapping[str, tuple[Number | None, Number | None]], type: Primitive) -> None:
    if not bounds:
        _refuse("there are no ranges", "none", "a name and two ends for each")
    last: Number | None = None
    for position, (low, high) in enumerate(sorted(bounds.values(), key=_low)):
        for each in (low, high):
            if each is not None:
                _check_number(each, type)
        if low is not None and high is not None and not low < high:
            _refuse("a range is empty", f"{low} to {high}", "a low end below the high end")
        if position and (low is None or last is None or low < last):
            _refuse("two ranges overlap", f"from {low}", f"from {last} on")
        last = high


def _low(bound: tuple[Number | None, Number | None]) -> tuple[bool, Number]:
    return (bound[0] is not None, 0 if bound[0] is None else bound[0])


def _check_number(number: Number, type: Primitive) -> None:
    """Makes sure that a number is one that the column can have, so that groups begin where they are said to."""
    if number != number or number in (float("inf"), float("-inf")):
        _refuse("a group begins at a number", str(number), "a finite number")
    if type.name in _FLOAT:
        return
    digits = decimal_of(type)
    exact = Decimal(str(number) if isinstance(number, float) else number)
    places = exact.as_tuple().exponent
    if (
        isinstance(places, int)
        and -places > (0 if digits is None else digits[1])
        and exact != exact.to_integral_value()
    ):
        _refuse(f"{number} is no value of a column of {type}", str(number), f"a number that {type} holds")


def _word(asked: Metric | Bucket) -> str:
    return type(asked).__name__


def _refuse(message: str, given: str, expected: str) -> NoReturn:
    raise InputError(
        message,
        condition="AGGREGATE_INVALID",
        sides={"asked for": given, "possible": expected},
        next_step="Change the request, or work it out from the rows.",
    )

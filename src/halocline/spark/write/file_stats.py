"""Statistics of data files, out of their footers.

The log keeps, per file, the number of rows and for some columns the least value, the greatest value and the number of
nulls, as JSON. What is written here is never tighter than the truth:

- text is cut to a prefix; the prefix of a greatest value is made greater than anything it stands for;
- timestamps have milliseconds, rounded down for the least and up for the greatest value;
- not-a-number is greater than any number and has no JSON: a column with it has no greatest value;
- a column of which one row group knows no bounds has none.

Names are physical. Arrays, maps and variants have no bounds and no counts: a footer counts their elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec

from halocline.formats.delta.configuration.properties import TableProperties
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.stats.typed_columns import stats_type
from halocline.schema.types import DataType, Path, decimal_of
from halocline.spark.scan.footers import leaf_types, leaves
from halocline.spark.types.file_layout import FileLayout

_WHOLE: Final = ("byte", "short", "integer", "long")
_EPOCH_DAY: Final = date(1970, 1, 1)
_EPOCH: Final = datetime(1970, 1, 1)
_HIGHEST: Final = "\U0010ffff"
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which statistics a table keeps: columns with bounds, columns whose nulls are counted, how much of a text."""

    bounds: Mapping[Path, DataType]
    counts: Sequence[Path]
    prefix: int

    @staticmethod
    def of(layout: FileLayout, configuration: Mapping[str, str]) -> Wanted:
        """What a table's columns and properties ask for."""
        columns = Schema.of(layout.schema, layout.mapping_mode)
        types = {column.physical: column.type for column in columns.walk()}
        properties = TableProperties(configuration)
        asked = stats_type(columns, properties, layout.partition_columns, vectors=False)
        return Wanted(
            bounds={path[1:]: types[path[1:]] for path, _ in leaf_types(asked) if path[0] == "minValues"},
            counts=[path[1:] for path, _ in leaf_types(asked) if path[0] == "nullCount"],
            prefix=properties.string_prefix_length,
        )


def stats_text(footer: Any, wanted: Wanted, known: Mapping[Path, tuple[Any, Any, int]] | None = None) -> str:
    """The statistics of a file as JSON, out of its footer.

    For columns that are known, the footer does not count; they come with least value, greatest value and nulls.
    """
    columns = leaves(footer)
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for path in wanted.counts:
        if path not in columns and path not in (known or {}):
            continue
        found = known[path] if known and path in known else _summary(footer, columns[path], wanted.bounds.get(path))
        least, greatest, count = found
        if count is not None:
            _put(nulls, path, count)
        type = wanted.bounds.get(path)
        if type is not None:
            _put(low, path, None if least is None else _json(least, type, wanted.prefix, up=False))
            _put(high, path, None if greatest is None else _json(greatest, type, wanted.prefix, up=True))
    stats = {"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    return _encode({key: value for key, value in stats.items() if value != {}}).decode()


def upper_bound(text: str, length: int) -> str:
    """A text of little more than `length` characters that is not less than the one given.

    Example:
        >>> upper_bound("abcdef", 3) > "abcdef", upper_bound("abc", 3)
        (True, 'abc')
    """
    if len(text) <= length:
        return text
    while length < len(text) and text[length] == _HIGHEST:
        length += 1
    if length == len(text):
        return text
    return text[:length] + ("\x7f" if text[length] < "\x7f" else _HIGHEST)


def _summary(footer: Any, column: int, type: DataType | None) -> tuple[Any, Any, int | None]:
    """Least value, greatest value and nulls over all row groups."""
    lows: list[Any] = []
    highs: list[Any] = []
    nulls: int | None = 0
    bounded = type is not None
    for group in range(footer.num_row_groups):
        chunk = footer.row_group(group).column(column)
        found = chunk.statistics
        if found is None or not found.has_null_count:
            nulls = None
        elif nulls is not None:
            nulls += found.null_count
        if found is None or not found.has_min_max:
            empty = found is not None and found.has_null_count and found.null_count == chunk.num_values
            bounded = bounded and empty
        elif bounded and type is not None:
            low, high = _bounds(found, type)
            lows.append(low)
            highs.append(high)
    least = min(lows) if bounded and lows and None not in lows else None
    greatest = max(highs) if bounded and highs and None not in highs else None
    return least, greatest, nulls


def _bounds(found: Any, type: DataType) -> tuple[Any, Any]:
    """The bounds of one row group, as values that compare; None for one that says nothing."""
    if type.name in ("float", "double"):
        low, high = found.min, found.max
        return None if math.isnan(low) else low, None if math.isnan(high) else high
    if type.name in ("date", "timestamp", "timestamp_ntz", *_WHOLE):
        return found.min_raw, found.max_raw
    if (digits := decimal_of(type)) is not None and isinstance(found.min_raw, int):
        # Not every release of Arrow makes decimals of whole numbers.
        return Decimal(found.min_raw).scaleb(-digits[1]), Decimal(found.max_raw).scaleb(-digits[1])
    try:
        return found.min, found.max
    except UnicodeDecodeError:  # bytes that are no text
        return None, None


def _json(value: Any, type: DataType, prefix: int, *, up: bool) -> Any:
    """A bound as JSON has it; None if it has no such value."""
    if type.name in _WHOLE:
        return int(value)
    if type.name in ("float", "double"):
        return value if math.isfinite(value) else None
    if type.name == "date":
        return _day(value)
    if type.name in ("timestamp", "timestamp_ntz"):
        return _moment(value, "Z" if type.name == "timestamp" else "", up=up)
    if decimal_of(type) is not None:
        return Decimal(value)
    if not isinstance(value, str):
        return None
    return upper_bound(value, prefix) if up else value[:prefix]


def _day(days: int) -> str | None:
    try:
        return (_EPOCH_DAY + timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def _moment(micros: int, suffix: str, *, up: bool) -> str | None:
    millis = -(-micros // 1000) if up else micros // 1000
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).isoformat(timespec="milliseconds") + suffix
    except OverflowError:
        return None


def _put(tree: dict[str, Any], path: Path, value: Any) -> None:
    if value is None:
        return
    for step in path[:-1]:
        tree = tree.setdefault(step, {})
    tree[path[-1]] = value

"""What is known of one column in each file: its least and greatest value, and its nulls.

Bounds come from partition values, which are exact, or from statistics, which are not quite: strings are cut, timestamps
and long decimals lose digits, not-a-number is passed over, and after deletions the bounds are only bounds. Everything
here errs to one side: `low` is never above and `high` never below any value in the file, and whatever cannot be read is
null, which means that nothing is known.

Each kind of column has one *canonical* form in which bounds and literals meet: whole numbers and timestamps as int64
(microseconds), dates as int64 (days), floating point as float64, decimals with the column's scale, text and booleans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.delta.configuration.schema import Column
from halocline.formats.delta.configuration.type_widening import has_changed
from halocline.formats.delta.stats.timestamps_text import FARTHEST_ZONE_US, days_of, microseconds_of, range_of
from halocline.schema.collations import collation_of
from halocline.schema.types import Primitive, decimal_of

_LEAST_LONG, _MOST_LONG = -(2**63), 2**63 - 1
_LONGS: Final = (_LEAST_LONG, _MOST_LONG)
_EXACT: Final = Context(prec=120)
_MILLISECOND_US: Final = 1000
_DAY_US: Final = 86_400_000_000


class Family(StrEnum):
    """How values of a column compare."""

    WHOLE = "whole number"
    FLOATING = "floating point"
    DECIMAL = "decimal"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    ZONELESS = "timestamp without zone"


_FAMILIES: Final = {
    **dict.fromkeys(("byte", "short", "integer", "long"), Family.WHOLE),
    **dict.fromkeys(("float", "double"), Family.FLOATING),
    "string": Family.TEXT,
    "boolean": Family.BOOLEAN,
    "date": Family.DATE,
    "timestamp": Family.TIMESTAMP,
    "timestamp_ntz": Family.ZONELESS,
}


def family_of(column: Column) -> Family | None:
    """How the values of a column compare; None if this is not known here.

    Text under a collation does not compare by its bytes.
    """
    if not isinstance(column.type, Primitive) or collation_of(column.field) is not None:
        return None
    return Family.DECIMAL if decimal_of(column.type) else _FAMILIES.get(column.type.name)


def arrow_type_of(column: Column, family: Family) -> pa.DataType:
    """The canonical Arrow type for bounds of a column."""
    if family is Family.DECIMAL:
        return pa.decimal128(38, (decimal_of(column.type) or (10, 0))[1])
    return {Family.FLOATING: pa.float64(), Family.TEXT: pa.string(), Family.BOOLEAN: pa.bool_()}.get(family, pa.int64())


_TYPED_PARTITIONS: Final[Mapping[Family, Callable[[pa.DataType], bool]]] = {
    Family.WHOLE: pa.types.is_integer,
    Family.DATE: pa.types.is_date,
    Family.TEXT: pa.types.is_string,
    Family.BOOLEAN: pa.types.is_boolean,
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Arrays with one entry per file; null where nothing is known.

    Attributes:
        low: Not above any value.
        high: Not below any value.
        all_null: Whether every row is null.
        no_null: Whether no row is.
        exact: Whether every row has the same value, as in a partition column.
    """

    low: pa.Array
    high: pa.Array
    all_null: pa.Array
    no_null: pa.Array
    exact: bool


def from_partition(column: Column, values: pa.Array, has_key: pa.Array) -> Bounds:
    """The bounds in partition values; of a column without a family, only the nulls are known."""
    known_null = pc.if_else(has_key, pc.is_null(values), pa.scalar(None, pa.bool_()))
    family = family_of(column)
    if family is None:
        nothing = pa.nulls(len(values), pa.int64())
        return Bounds(nothing, nothing, known_null, pc.invert(known_null), exact=True)
    # Many files share few values: each distinct text is read once.
    encoded = values.dictionary_encode()
    ranges = [_partition_range(text, column, family) for text in encoded.dictionary.to_pylist()]
    type = arrow_type_of(column, family)
    low = _array([None if found is None else found[0] for found in ranges], type).take(encoded.indices)
    high = _array([None if found is None else found[1] for found in ranges], type).take(encoded.indices)
    return Bounds(low, high, known_null, pc.invert(known_null), exact=True)


def from_typed_partition(column: Column, values: pa.Array) -> Bounds | None:
    """The bounds in partition values that a checkpoint keeps in a typed column; None if it has another type."""
    family, missing = family_of(column), pc.is_null(values)
    if family is None or not _TYPED_PARTITIONS.get(family, pa.types.is_null)(values.type):
        return None
    canonical = _canonical(values, column, family)
    return Bounds(canonical, canonical, missing, pc.invert(missing), exact=True)


def _partition_range(text: str | None, column: Column, family: Family) -> tuple[Any, Any] | None:
    if text is None:
        return None
    if family is Family.TIMESTAMP:
        return range_of(text)
    value = _from_text(text, column, family)
    return None if value is None else (value, value)


def _from_text(text: str, column: Column, family: Family) -> Any:
    """A partition value in canonical form; None if it cannot be read."""
    try:
        if family is Family.WHOLE:
            return int(text)
        if family is Family.FLOATING:
            return _finite(single(float(text)) if column.type.name == "float" else float(text))
        if family is Family.DECIMAL:
            return Decimal(text)
    except (ValueError, InvalidOperation):
        return None
    if family is Family.TEXT:
        return text
    if family is Family.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower())
    if family is Family.DATE:
        return days_of(text)
    found = microseconds_of(text)
    return None if found is None or found[1] else found[0]


def from_json(column: Column, low: Sequence[Any], high: Sequence[Any], nulls: pa.Array, rows: pa.Array) -> Bounds:
    """The bounds in statistics that were read from JSON text."""
    family = family_of(column)
    if family is None:
        return _of_statistics(None, pa.nulls(len(rows)), pa.nulls(len(rows)), nulls, rows)
    type, from_value = arrow_type_of(column, family), _reader(column, family)
    lows, highs = (_array([from_value(each, at) for each in values], type) for at, values in enumerate((low, high)))
    return _of_statistics(family, lows, highs, nulls, rows)


def from_struct(column: Column, low: pa.Array, high: pa.Array, nulls: pa.Array, rows: pa.Array) -> Bounds:
    """The bounds in statistics that a checkpoint keeps in typed columns."""
    family = family_of(column)
    if family is None:
        return _of_statistics(None, pa.nulls(len(rows)), pa.nulls(len(rows)), nulls, rows)
    lows, highs = _canonical(low, column, family), _canonical(high, column, family)
    if family is Family.FLOATING and (column.type.name == "float" or has_changed(column.field)):
        # They may have been taken from JSON, which has the shortest text of a single-precision value.
        lows, highs = pc.min_element_wise(lows, _singles(lows)), pc.max_element_wise(highs, _singles(highs))
    return _of_statistics(family, lows, highs, nulls, rows)


def _of_statistics(family: Family | None, low: pa.Array, high: pa.Array, nulls: pa.Array, rows: pa.Array) -> Bounds:
    if family in (Family.TIMESTAMP, Family.ZONELESS):
        # Digits after the millisecond were cut off; nothing can be added to the last moment there is.
        high = pc.add(pc.min_element_wise(high, _MOST_LONG - _MILLISECOND_US, skip_nulls=False), _MILLISECOND_US)
    elif family is Family.DECIMAL:
        low, high = _around(low, -1), _around(high, 1)
    all_null = pc.and_kleene(pc.equal(nulls, rows), pc.greater(rows, 0))
    return Bounds(low, high, all_null, pc.equal(nulls, 0), exact=False)


def _canonical(array: pa.Array, column: Column, family: Family) -> pa.Array:
    """A typed column of statistics in canonical form; all null where the types do not meet."""
    type = arrow_type_of(column, family)
    nothing = pa.nulls(len(array), type)
    try:
        if family in (Family.TIMESTAMP, Family.ZONELESS):
            if pa.types.is_date(array.type):
                return pc.multiply(array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()), _DAY_US)
            return array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64())
        if family is Family.DATE:
            return array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
        if family is Family.FLOATING:
            wide = array.cast(pa.float64())
            return pc.if_else(pc.is_finite(wide), wide, pa.scalar(None, pa.float64()))
        return array.cast(type)
    except (pa.ArrowException, AttributeError):
        return nothing


_JSON_KINDS: Final = {Family.DECIMAL: Decimal, Family.TEXT: str, Family.BOOLEAN: bool}


def _reader(column: Column, family: Family) -> Callable[[Any, int], Any]:
    """How one JSON value becomes canonical; the second argument is 0 for a low bound and 1 for a high one."""
    if family is Family.WHOLE:
        return lambda value, _: value if type(value) is int and _LEAST_LONG <= value <= _MOST_LONG else None
    if family is Family.FLOATING:
        return _single_reader if column.type.name == "float" else _double_reader(has_changed(column.field))
    if family in _JSON_KINDS:
        kind = _JSON_KINDS[family]
        return lambda value, _: value if isinstance(value, kind) else None
    if family is Family.DATE:
        return lambda value, _: days_of(value) if isinstance(value, str) else None
    if family is Family.ZONELESS:
        return _zoneless_reader
    return _timestamp_reader


def _single_reader(value: Any, _: int) -> float | None:
    """JSON has the shortest text of a single-precision value; its exact value is the one to compare with."""
    return None if isinstance(value, bool | str) or value is None else _finite(single(float(value)))


def _double_reader(may_be_single: bool) -> Callable[[Any, int], float | None]:
    def read(value: Any, is_high: int) -> float | None:
        if isinstance(value, bool | str) or value is None:
            return None
        number = _finite(float(value))
        if number is None or not may_be_single:
            return number
        # The file may be older than the change from single to double precision.
        return (max if is_high else min)(number, single(number))

    return read


def _zoneless_reader(value: Any, _: int) -> int | None:
    found = microseconds_of(value) if isinstance(value, str) else None
    # Some writers put a Z behind times that have no zone; the time is meant as it stands.
    return None if found is None or (found[1] and not value.endswith("Z")) else found[0]


def _timestamp_reader(value: Any, is_high: int) -> int | None:
    found = microseconds_of(value) if isinstance(value, str) else None
    if found is None:
        return None
    return found[0] if found[1] else found[0] + (FARTHEST_ZONE_US if is_high else -FARTHEST_ZONE_US)


@lru_cache(maxsize=1024)
def single(value: float) -> float:
    """The nearest single-precision value."""
    return float(pa.scalar(value, pa.float64()).cast(pa.float32(), safe=False).as_py())


def _singles(values: pa.Array) -> pa.Array:
    """The nearest single-precision values; null where nothing is known."""
    return values.cast(pa.float32(), safe=False).cast(pa.float64())


def _around(decimals: pa.Array, direction: int) -> pa.Array:
    """Bounds that are farther out, where deltalake may have rounded them.

    It keeps decimals as numbers of double precision, whole ones as such of 64 bits, and takes the neighbour where
    rounding gave one digit more than the type has.
    """
    steps = np.spacing(np.abs(decimals.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)))
    blurred = np.flatnonzero(steps * 2 * 10.0**decimals.type.scale >= 1)
    if not len(blurred):
        return decimals
    values = decimals.to_pylist()
    for place, step in zip(blurred.tolist(), steps[blurred].tolist(), strict=True):
        value = values[place]
        values[place] = None if value in _LONGS else _moved(value, Decimal(step) * 2 * direction, decimals.type.scale)
    return _array(values, decimals.type)


def _moved(value: Decimal, by: Decimal, scale: int) -> Decimal:
    rounding = ROUND_FLOOR if by < 0 else ROUND_CEILING
    return _EXACT.add(value, by).quantize(Decimal(1).scaleb(-scale), rounding=rounding, context=_EXACT)


def _finite(value: float) -> float | None:
    return value if value - value == 0 else None


def _array(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    """An array of the values that fit the type; null for those that do not."""
    try:
        return pa.array(values, type=type)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return pa.array([value if _fits(value, type) else None for value in values], type=type)


def _fits(value: Any, type: pa.DataType) -> bool:
    try:
        pa.scalar(value, type=type)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return False
    return True

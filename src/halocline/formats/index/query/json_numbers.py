"""Numbers inside structs and maps, each compared in its own type.

An index has one form for all numbers inside JSON: whole numbers and doubles that are equal are one term, and a decimal
is the double that is nearest to it. So the index alone tells whole numbers from each other, and doubles; of decimals,
and where numbers of several kinds may stand in one place, it tells which rows may have the number, and the rows say
which have it. Infinities and NaN are in no index inside JSON; they are looked for in the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa

from halocline.formats.index.query.bound import JsonNumber
from halocline.formats.index.split.fields import IndexField
from halocline.schema.types import Array, DataType, Map, Primitive, Struct, decimal_of

_WHOLE: Final = ("byte", "short", "integer", "long")
_FLOATING: Final = ("float", "double")
_DECIMAL: Final = "decimal"
_BEYOND: Final = 2**63
_BEYOND_DECIMALS: Final = 10**38
NUMBERS: Final = frozenset((*_WHOLE, *_FLOATING, _DECIMAL))
"""The types of numbers, decimals of any size by one name."""


def types_inside(type: DataType, steps: Sequence[str]) -> set[str]:
    """Return the types of the values that may stand somewhere inside a column; keys of maps may have dots in them.

    Example:
        >>> from halocline.schema.types import Field
        >>> types_inside(Map(Primitive("string"), Struct([Field("b", Primitive("long"))])), ["a", "b"])
        {'long'}
    """
    if isinstance(type, Array):
        return types_inside(type.element, steps)
    if isinstance(type, Struct):
        inner = type.get(steps[0]) if steps else None
        return set() if inner is None else types_inside(inner.type, steps[1:])
    if isinstance(type, Map):
        return {name for used in range(1, len(steps) + 1) for name in types_inside(type.value, steps[used:])}
    if steps or not isinstance(type, Primitive):
        return set()
    return {type.name if decimal_of(type) is None else _DECIMAL}


def json_number(field: IndexField, path: Sequence[str], types: set[str], text: str) -> JsonNumber | None:
    """Return what finds the number that a text means in each of some types; None if it means none in any of them."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    finite = number if number.is_finite() else None
    whole = single = double = decimal = None
    if finite is not None and not types.isdisjoint(_WHOLE) and -_BEYOND <= finite < _BEYOND and finite == int(finite):
        whole = int(finite)
    if "double" in types:
        double = _double(number)
    if "float" in types:
        single = _single(number)
    if _DECIMAL in types and finite is not None and -_BEYOND_DECIMALS < finite < _BEYOND_DECIMALS:
        decimal = finite
    found = JsonNumber(field, tuple(path), whole, single, double, decimal)
    return found if found != JsonNumber(field, tuple(path)) else None


def nearest_single(number: float) -> float:
    """Return the 32-bit number that is nearest to a double; the double itself if all of them are nearer to zero.

    Example:
        >>> nearest_single(0.1)
        0.10000000149011612
    """
    with np.errstate(over="ignore"):
        found = float(np.float32(number))
    return number if math.isinf(found) else found


def rows_with_number(values: pa.Array, leaf: JsonNumber) -> np.ndarray:
    """Return for each value of a column whether the number stands in its place inside it."""
    type = values.type
    found = [
        any(_is_number(leaf, value, of) for value, of in _values_at(each, type, leaf.path))
        for each in values.to_pylist()
    ]
    return np.array(found, dtype=np.bool_)


def _values_at(value: Any, type: pa.DataType, path: Sequence[str]) -> Iterator[tuple[Any, pa.DataType]]:
    """The values in a place, each with its type."""
    if value is None:
        return
    if pa.types.is_map(type):
        for used in range(1, len(path) + 1):
            key = ".".join(path[:used])
            for name, inner in value:
                if str(name) == key:
                    yield from _values_at(inner, type.item_type, path[used:])
    elif pa.types.is_struct(type):
        place = type.get_field_index(path[0]) if path else -1
        if place >= 0:
            yield from _values_at(value[path[0]], type.field(place).type, path[1:])
    elif pa.types.is_list(type) or pa.types.is_large_list(type):
        for each in value:
            yield from _values_at(each, type.value_type, path)
    elif not path:
        yield value, type


def _is_number(leaf: JsonNumber, value: Any, type: pa.DataType) -> bool:
    if pa.types.is_integer(type):
        return leaf.whole is not None and value == leaf.whole
    if pa.types.is_decimal(type):
        return leaf.decimal is not None and value == leaf.decimal
    if not pa.types.is_floating(type):
        return False
    wanted = leaf.single if pa.types.is_float32(type) else leaf.double
    return wanted is not None and (value == wanted or (math.isnan(value) and math.isnan(wanted)))


def _double(number: Decimal) -> float | None:
    """The double that a number means; None if it is finite and beyond all doubles."""
    found = float(number)
    return None if math.isinf(found) and number.is_finite() else found


def _single(number: Decimal) -> float | None:
    double = _double(number)
    if double is None:
        return None
    return nearest_single(double)

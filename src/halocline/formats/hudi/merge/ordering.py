"""Ordering values as numbers that compare alike, whatever their type.

Ordering values come from several columns, of rows and of deletes. `ranks` gives each a whole number, so that everything
behind it compares numbers: equal values have equal ranks, a larger value has a larger one, and null has the smallest.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ranks: TypeAlias = npt.NDArray[np.int64]

_MICROS: Final = {"s": 1_000_000, "ms": 1_000}


def ranks(columns: Sequence[pa.Array]) -> Ranks:
    """The rank of each row by one or more columns, the first one weighing most.

    Example:
        >>> ranks([pa.array([5, None, 7, 5])]).tolist()
        [1, 0, 2, 1]
    """
    total = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values = pc.drop_null(pc.unique(column))
        ordered = values.take(pc.array_sort_indices(values))
        dense = np.asarray(pc.index_in(column, ordered).fill_null(-1), np.int64) + 1
        total = np.unique(total * (len(ordered) + 1) + dense, return_inverse=True)[1]
    return total


def delete_values(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    """Ordering values of deletes, with the type of the ordering column; null for those that are of another kind.

    Example:
        >>> delete_values([5, "x", None], pa.int64()).to_pylist()
        [5, None, None]
    """
    return pa.array([_as(value, type) for value in values], type)


def _as(value: Any, type: pa.DataType) -> Any:
    if isinstance(value, int) and pa.types.is_timestamp(type):
        value //= _MICROS.get(type.unit, 1)  # stored as microseconds, whatever the column has
    elif isinstance(value, Decimal) and pa.types.is_decimal(type):
        value = value.normalize()  # stored with a scale of its own
    try:
        pa.scalar(value, type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None
    return value

"""The group that each row is in, as Arrow values; doubles as whole numbers of the same order."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import InputError
from halocline.formats.index.aggregate.doubles import from_ordered, ordered
from halocline.formats.index.aggregate.request import (
    Bucket,
    DateBuckets,
    HistogramBuckets,
    Number,
    RangeBuckets,
    TermBuckets,
)

WIDE: Final = Context(prec=160)
"""Decimals are moved by powers of ten here without losing digits."""

_HALF: Final = 2**61


def keys_of(bucket: Bucket, values: pa.Array) -> pa.Array:
    """The key of the group of each value.

    Example:
        >>> keys_of(HistogramBuckets("n", 10), pa.array([-1, 0, 9, 10, None])).to_pylist()
        [-10, 0, 0, 10, None]
    """
    match bucket:
        case TermBuckets():
            return ordered(values) if pa.types.is_floating(values.type) else values
        case DateBuckets(unit=unit, multiple=multiple):
            return pc.floor_temporal(values, multiple, unit)
        case RangeBuckets(bounds=bounds):
            found = pa.nulls(len(values), pa.string())
            for name, (low, high) in bounds.items():
                found = pc.if_else(_within(values, low, high), pa.scalar(name), found)
            return found
        case HistogramBuckets() if pa.types.is_floating(values.type):
            return ordered(_steps(bucket, values))
        case HistogramBuckets():
            return _whole_steps(bucket, values)


def shown(keys: pa.Array, type: pa.DataType) -> pa.Array:
    """Keys as the result has them."""
    return from_ordered(keys).cast(type) if pa.types.is_floating(type) else keys.cast(type)


def _within(values: pa.Array, low: Number | None, high: Number | None) -> pa.Array:
    inside = pc.is_valid(values)
    if pa.types.is_floating(values.type):
        inside = pc.and_(inside, pc.invert(pc.is_nan(values)))
    if low is not None:
        inside = pc.and_(inside, pc.greater_equal(values, _comparable(low, values.type)))
    if high is not None:
        inside = pc.and_(inside, pc.less(values, _comparable(high, values.type)))
    return pc.fill_null(inside, False)


def _comparable(number: Number, type: pa.DataType) -> pa.Scalar:
    """A number that is compared exactly with values of a type."""
    if pa.types.is_floating(type):
        return pa.scalar(float(number), pa.float64())
    scale = type.scale if pa.types.is_decimal(type) else 0
    return pa.scalar(WIDE.scaleb(Decimal(unscaled(number, scale)), -scale), pa.decimal256(76, scale))


def _steps(bucket: HistogramBuckets, values: pa.Array) -> pa.Array:
    """Where the groups of doubles begin: the greatest offset + n * interval that is not above the value."""
    numbers = np.array(values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False))
    interval, offset = float(bucket.interval), float(bucket.offset)
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.floor((numbers - offset) / interval)
        for _ in range(2):
            steps = np.where(offset + steps * interval > numbers, steps - 1, steps)
            steps = np.where(offset + (steps + 1) * interval <= numbers, steps + 1, steps)
        starts = offset + steps * interval
    # Infinity is a group of its own, and so is NaN.
    starts = np.where(np.isfinite(numbers), starts, numbers)
    return pa.array(starts, mask=np.asarray(values.is_null().to_numpy(zero_copy_only=False)))


def _whole_steps(bucket: HistogramBuckets, values: pa.Array) -> pa.Array:
    if pa.types.is_decimal(values.type):
        scale = values.type.scale
        interval, offset = unscaled(bucket.interval, scale), unscaled(bucket.offset, scale)
        distinct = pc.unique(values)
        found = [None if each is None else unscaled(each, scale) for each in distinct.to_pylist()]
        starts = [None if each is None else (each - offset) // interval * interval + offset for each in found]
        wide = [None if each is None else WIDE.scaleb(Decimal(each), -scale) for each in starts]
        return pa.array(wide, pa.decimal256(76, scale)).take(pc.index_in(values, value_set=distinct))
    interval, offset = unscaled(bucket.interval, 0), unscaled(bucket.offset, 0)
    numbers = values.cast(pa.int64())
    if max(abs(interval), abs(offset)) < _HALF and not pc.any(pc.greater(pc.abs(numbers), _HALF)).as_py():
        plain = numbers.fill_null(0).to_numpy(zero_copy_only=False)
        starts = (plain - offset) // interval * interval + offset
        return pa.array(starts, pa.int64(), mask=np.asarray(numbers.is_null().to_numpy(zero_copy_only=False)))
    steps = [None if each is None else (each - offset) // interval * interval + offset for each in numbers.to_pylist()]
    if any(each is not None and not -(2**63) <= each < 2**63 for each in steps):
        raise InputError(
            f"a group of column {bucket.column!r} begins below what the column can hold",
            condition="AGGREGATE_INVALID",
            sides={"width": str(bucket.interval), "least of a column": str(-(2**63))},
            next_step="Choose a smaller interval.",
        )
    return pa.array(steps, pa.int64())


def unscaled(number: Number, scale: int) -> int:
    """A number in units of the last digit of a scale."""
    return int(WIDE.scaleb(_decimal(number), scale))


def _decimal(number: Number) -> Decimal:
    return Decimal(str(number)) if isinstance(number, float) else Decimal(number)

"""Doubles in an order of their own, and sums of them without a rounding error.

`ordered` turns doubles into whole numbers of the same order: NaN above everything, one zero. A sum is a whole number of
the smallest step that a double can have a part of; adding such numbers is exact whatever their order. It is written as
text, since no type of Arrow is wide enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

_SIGN: Final = np.int64(-(2**63))
_STEP: Final = 1126
_HALF: Final = 27
_EXPONENTS: Final = 4096
_SHIFT: Final = 2048
_ODD: Final = ("nan", "inf", "-inf")


def ordered(values: pa.Array) -> pa.Array:
    """Whole numbers in the order of some doubles; nulls stay.

    Example:
        >>> from_ordered(ordered(pa.array([1.5, -0.0, None]))).to_pylist()
        [1.5, 0.0, None]
    """
    plain = values.cast(pa.float64())
    numbers = np.array(plain.fill_null(0.0).to_numpy(zero_copy_only=False), dtype=np.float64) + 0.0
    numbers[np.isnan(numbers)] = np.nan
    bits = numbers.view(np.int64)
    flipped = np.where(bits < 0, _SIGN - bits - 1, bits)
    # A NaN with a sign would come first; there is one NaN, and it comes last.
    flipped[np.isnan(numbers)] = np.iinfo(np.int64).max
    return pa.array(flipped, pa.int64(), mask=np.asarray(plain.is_null().to_numpy(zero_copy_only=False)))


def from_ordered(values: pa.Array) -> pa.Array:
    """The doubles of what `ordered` gives."""
    flipped = np.array(values.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    numbers = np.where(flipped < 0, _SIGN - flipped - 1, flipped).view(np.float64).copy()
    numbers[flipped == np.iinfo(np.int64).max] = np.nan
    return pa.array(numbers, pa.float64(), mask=np.asarray(values.is_null().to_numpy(zero_copy_only=False)))


def sums_by_group(values: np.ndarray, groups: np.ndarray, count: int) -> list[str | None]:
    """The exact sum of each group as text; None for a group without values.

    Args:
        values: Doubles.
        groups: The group of each, from 0 on.
        count: How many groups there are.

    Example:
        >>> total_of(sums_by_group(np.array([1e100, 1.0, -1e100]), np.zeros(3, dtype=np.int64), 1)[0])
        1.0
    """
    found: list[str | None] = [None] * count
    finite = np.isfinite(values)
    fractions, exponents = np.frexp(values[finite])
    whole = (fractions * 2.0**53).astype(np.int64)
    codes, places = np.unique(groups[finite] * _EXPONENTS + exponents + _SHIFT, return_inverse=True)
    # Both halves are small enough that doubles add up many millions of them exactly.
    high = np.bincount(places, weights=(whole >> _HALF).astype(np.float64), minlength=len(codes))
    low = np.bincount(places, weights=(whole & (2**_HALF - 1)).astype(np.float64), minlength=len(codes))
    totals: dict[int, int] = {}
    for code, upper, lower in zip(codes.tolist(), high.tolist(), low.tolist(), strict=True):
        group, shifted = divmod(code, _EXPONENTS)
        value = (int(upper) << _HALF) + int(lower)
        totals[group] = totals.get(group, 0) + (value << (shifted - _SHIFT - 53 + _STEP))
    for group, total in totals.items():
        found[group] = f"{total:x}"
    for group, value in zip(groups[~finite].tolist(), values[~finite].tolist(), strict=True):
        found[group] = added([found[group], str(value)])
    return found


def added(texts: Iterable[str | None]) -> str | None:
    """The sum of some exact sums; None if there is none."""
    some = [each for each in texts if each is not None]
    if not some:
        return None
    odd = {each for each in some if each in _ODD}
    if odd:
        return odd.pop() if len(odd) == 1 else "nan"
    return f"{sum(int(each, 16) for each in some):x}"


def total_of(text: str | None, count: int = 1) -> float | None:
    """The double that is nearest to an exact sum, divided by a count."""
    if text is None or text in _ODD:
        return None if text is None else float(text)
    total = int(text, 16)
    try:
        return total / (count << _STEP)
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")

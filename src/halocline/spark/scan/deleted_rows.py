"""Rows that a deletion vector takes out, on native scans.

Spark numbers the rows of each file, whatever it splits or skips. The deleted positions of a file become a *bitmap*, an
array of 64-bit words, and one bit test per row decides: the first of 64 rows has the highest bit, so that a word
shifted by a row's position is negative if the row is deleted. Files without a vector are scanned apart and pay nothing.

Small bitmaps together are a constant of the plan, which spares a join. Larger ones are broadcast
and joined on the number of the file. Either way there is one bit per row up to the last deleted one, for every file
with a vector. `within` says which files fit a budget; the others are better read through Arrow, where a vector stays
compressed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from halocline.spark.session.functions import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CONSTANT: Final = 8 * 1024 * 1024
"""The most bytes of bitmaps that become a constant: every task gets a copy of the plan."""

WORDS: Final = "__halocline_words"
_MOST: Final = 8 * ((1 << 31) - 64)
"""Arrays in Spark and lists in Arrow are indexed by 32-bit numbers."""


def within(deleted: Mapping[int, BitMap64], budget: int) -> set[int]:
    """The files whose bitmaps fit the budget together, those with small bitmaps first.

    Example:
        >>> sorted(within({0: BitMap64([10_000]), 1: BitMap64([3])}, budget=100))
        [1]
    """
    fitting: set[int] = set()
    budget = min(budget, _MOST)
    for size, number in sorted((_bytes(bitmap), number) for number, bitmap in deleted.items()):
        budget -= size
        if budget < 0:
            break
        fitting.add(number)
    return fitting


def words_of(bitmap: BitMap64) -> npt.NDArray[np.int64]:
    """The bitmap as words, the lowest position in the highest bit of the first.

    Example:
        >>> words_of(BitMap64([1, 127])).tolist() == [1 << 62, 1]
        True
    """
    positions = positions_of(bitmap)
    bits = np.zeros(_bytes(bitmap) * 8, dtype=np.bool_)
    bits[positions] = True
    return np.packbits(bits).view(">i8").astype("<i8")


def positions_of(bitmap: BitMap64) -> npt.NDArray[np.uint64]:
    """The positions as numbers, ascending."""
    return np.asarray(bitmap.to_array(), dtype=np.uint64)


def words_column(deleted: Mapping[int, BitMap64], numbers: Iterable[int]) -> pa.Array:
    """The bitmaps of these files, in this order, as Arrow lists."""
    words = [words_of(deleted[number]) for number in numbers]
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in words])])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.concatenate(words), pa.int64()))


def living(df: DataFrame, row: str) -> DataFrame:
    """The rows with the column `WORDS` whose bit is not set, given the column of their position."""
    return df.where(_lives(F.expr(f"get({WORDS}, CAST(shiftright({row}, 6) AS int))"), row))


def living_by_constant(df: DataFrame, file: str, row: str, bitmaps: Sequence[BitMap64]) -> DataFrame:
    """The rows whose bit is not set, with bitmaps that are part of the plan.

    A row is given by SQL for the index of its file among the bitmaps, and for its position.
    """
    # The first words of all files, then their second words, and so on: no bitmap has an end of its own to look at.
    matrix = np.zeros((max(map(_bytes, bitmaps)) // 8, len(bitmaps)), dtype=np.int64)
    for index, words in enumerate(map(words_of, bitmaps)):
        matrix[: len(words), index] = words
    array = pa.ListArray.from_arrays(
        pa.array([0, matrix.size], pa.int32()),
        pa.array(matrix.reshape(-1)),
        type=pa.list_(pa.field("word", pa.int64(), nullable=False)),
    )
    constant = df.sparkSession.createDataFrame(pa.table({WORDS: array})).scalar()
    place = F.expr(f"CAST(shiftright({row}, 6) * {len(bitmaps)} + {file} AS int)")
    return df.where(_lives(F.get(constant, place), row))


def _lives(word: Column, row: str) -> Column:
    shifted = F.call_function("shiftleft", word, F.expr(f"CAST({row} & 63 AS int)"))
    # Past the end of the bitmap there is no word, hence no bit, hence the row lives.
    return F.coalesce(shifted, F.lit(0)) >= 0


def size_of(bitmaps: Collection[BitMap64]) -> int:
    """The bytes of bitmaps in a plan, where all are as long as the longest.

    Example:
        >>> size_of([BitMap64([0]), BitMap64([64])])
        32
    """
    return len(bitmaps) * max(map(_bytes, bitmaps))


def _bytes(bitmap: BitMap64) -> int:
    return (int(bitmap.max()) // 64 + 1) * 8

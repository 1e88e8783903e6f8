"""Rows that a deletion vector takes out, on native scans.

Spark numbers the rows of each file, whatever it splits or skips. The deleted positions of a file become a *bitmap*, an
array of 64-bit words, and one bit test per row decides. Files without a vector are scanned apart and pay nothing.

Small bitmaps together are a constant of the plan, an array of arrays, which spares a join. Larger ones are broadcast
and joined on the number of the file. Either way there is one bit per row up to the last deleted one, for every file
with a vector. `within` says which files fit a budget; the others are better read through Arrow, where a vector stays
compressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from halocline.spark.session import functions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUDGET_SETTING: Final = "halocline.scan.maxBitmapBytes"
"""The setting of a session that bounds a broadcast."""

BUDGET: Final = 256 * 1024 * 1024
"""The bound where the setting is absent: two billion rows in files with vectors."""

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
    """The bitmap as words, the lowest position in the lowest bit of the first.

    Example:
        >>> words_of(BitMap64([0, 65])).tolist()
        [1, 2]
    """
    positions = positions_of(bitmap)
    bits = np.zeros(_bytes(bitmap) * 8, dtype=np.bool_)
    bits[positions] = True
    return np.packbits(bits, bitorder="little").view("<i8")


def positions_of(bitmap: BitMap64) -> npt.NDArray[np.uint64]:
    """The positions as numbers, ascending."""
    return np.asarray(bitmap.to_array(), dtype=np.uint64)


def words_column(deleted: Mapping[int, BitMap64], numbers: Iterable[int]) -> pa.Array:
    """The bitmaps of these files, in this order, as Arrow lists."""
    words = [words_of(deleted[number]) for number in numbers]
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in words])])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.concatenate(words), pa.int64()))


def living(df: DataFrame, row: str) -> DataFrame:
    """The rows whose bit is not set.

    Args:
        df: Rows with the column `WORDS`.
        row: The column with the position of each row in its file.
    """
    # Past the end of the bitmap there is no word, hence no bit, hence the row lives.
    word = f"get({WORDS}, CAST(shiftright({row}, 6) AS int))"
    return df.where(f"coalesce(getbit({word}, CAST({row} & 63 AS int)), 0) = 0")


def living_by_constant(df: DataFrame, file: str, row: str, bitmaps: pa.Array) -> DataFrame:
    """The rows whose bit is not set, with bitmaps that are part of the plan.

    Args:
        df: The rows.
        file: The column with the index of each row's file among the bitmaps.
        row: The column with the position of each row in its file.
        bitmaps: What `words_column` returned for the files.
    """
    spark = df.sparkSession
    f = functions(spark)
    offsets = pa.array([0, len(bitmaps)], pa.int32())
    constant = spark.createDataFrame(pa.table({WORDS: pa.ListArray.from_arrays(offsets, bitmaps)})).scalar()
    position = f.col(row)
    word = f.get(f.get(constant, f.col(file).cast("int")), f.shiftright(position, 6).cast("int"))
    return df.where(f.coalesce(f.getbit(word, position.bitwiseAND(63).cast("int")), f.lit(0)) == 0)


def size_of(deleted: Mapping[int, BitMap64], numbers: Iterable[int]) -> int:
    """The bytes of the bitmaps of some files."""
    return sum(_bytes(deleted[number]) for number in numbers)


def _bytes(bitmap: BitMap64) -> int:
    return (int(bitmap.max()) // 64 + 1) * 8

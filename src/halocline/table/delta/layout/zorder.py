"""Z-order: rows that are near each other in several columns at once get near each other in files.

Each value becomes the number of the *range* that it falls into; ranges are cut so that a sample spreads evenly over
them. The bits of the numbers of all columns, taken in turns from the highest on, make one number, and rows are sorted
by it. Whoever then asks for a few values of any of the columns needs a few files only.

All of it is Spark expressions. Ties are broken by the columns themselves, so that one column alone gives a plain sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from halocline.spark.session.functions import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VALUE: Final = "__halocline_z"
_BOUNDS: Final = "__halocline_bounds_"
_NUMBER: Final = "__halocline_range_"
_SAMPLE: Final = 20_000
_MOST_BITS: Final = 8


def with_z_value(df: DataFrame, columns: Sequence[str], rows: int) -> DataFrame:
    """The rows with a column to sort by; columns are given as Spark SQL spells them."""
    bits = max(1, min(_MOST_BITS, 62 // len(columns)))
    chosen = df.selectExpr(*(f"{column} AS `{number}`" for number, column in enumerate(columns)))
    sample: Any = chosen.sample(fraction=min(1.0, _SAMPLE / max(rows, 1)), seed=7).limit(2 * _SAMPLE).toArrow()
    bounds = [f"{_BOUNDS}{number}" for number in range(len(columns))]
    cuts = [_as_list(_cuts(column, (1 << bits) - 1)) for column in sample.columns]
    side = df.sparkSession.createDataFrame(pa.table(cuts, names=bounds))
    found = _range_numbers(df.crossJoin(F.broadcast(side)), columns, bits)
    numbers = [F.col(f"{_NUMBER}{number}") for number in range(len(columns))]
    drop = [*bounds, *(f"{_NUMBER}{number}" for number in range(len(columns)))]
    return found.withColumn(VALUE, interleaved(numbers, bits)).drop(*drop)


def interleaved(numbers: Sequence[Column], bits: int) -> Column:
    """One number out of so many bits of several, the highest of each first."""
    found = F.lit(0).cast("long")
    place = len(numbers) * bits
    for bit in reversed(range(bits)):
        for number in numbers:
            place -= 1
            found = found.bitwiseOR(F.shiftleft(F.shiftright(number, bit).bitwiseAND(F.lit(1)).cast("long"), place))
    return found


def _cuts(sample: pa.ChunkedArray, most: int) -> pa.ChunkedArray:
    """The values at which one range ends and the next begins, ascending."""
    values = pc.drop_null(sample)
    if not len(values):
        return values
    ordered = values.take(pc.sort_indices(values))
    places = sorted({len(ordered) * n // (most + 1) for n in range(1, most + 1)})
    return ordered.take(pa.array(places, pa.int64())).unique()


def _as_list(values: pa.ChunkedArray) -> pa.Array:
    """One list of all values."""
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return pa.ListArray.from_arrays(pa.array([0, len(flat)], pa.int32()), flat)


def _range_numbers(df: DataFrame, columns: Sequence[str], bits: int) -> DataFrame:
    """The rows with the number of cuts that each value is not below: a search in halves, one half per projection.

    Nulls come first. Past the last cut there is no value to be above of.
    """
    names = [f"{_NUMBER}{number}" for number in range(len(columns))]
    df = df.withColumns({name: F.lit(0) for name in names})
    for bit in reversed(range(bits)):
        width = 1 << bit
        steps = {}
        for n, (name, column) in enumerate(zip(names, columns, strict=True)):
            above = f"coalesce({column} >= get({_BOUNDS}{n}, {name} + {width - 1}), false)"
            steps[name] = f"{name} + IF({above}, {width}, 0)"
        df = df.withColumns({name: F.expr(sql) for name, sql in steps.items()})
    return df

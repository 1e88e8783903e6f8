"""Bins: which small files become one, and how rows of each end up in one task.

A *bin* is a group of files of one partition whose lengths add up to no more than a target. Files that are large enough
already stay as they are, unless deleted rows take up too much of them; a bin of one file is not worth writing again,
unless rows were deleted from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from halocline.formats.delta.actions.statistics import records_in
from halocline.spark.scan.packing import packed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELETED_SHARE: Final = 0.05
"""A file that has lost a larger share of its rows is written again, however large it is."""


def bins_of(files: pa.Table, smallest: int, largest: int) -> list[list[int]]:
    """The numbers of the files of each bin: files shorter than the smallest, in bins no longer than the largest.

    Example:
        >>> columns = {"size": [4, 50, 3, 9], "partition_values": pa.array([[]] * 4, pa.map_(pa.string(), pa.string()))}
        >>> rest = {"stats": [None] * 4, "deletion_vector": pa.nulls(4)}
        >>> bins_of(pa.table(columns | rest), 10, 12)
        [[2, 0]]
    """
    sizes = files["size"].to_pylist()
    shares = deleted_shares(files)
    groups: dict[Any, list[int]] = {}
    for number, values in enumerate(files["partition_values"].to_pylist()):
        if (sizes[number] or 0) < smallest or shares[number] > DELETED_SHARE:
            groups.setdefault(tuple(sorted(dict(values or ()).items(), key=str)), []).append(number)
    found: list[list[int]] = []
    for numbers in groups.values():
        shortest_first = sorted(numbers, key=lambda each: sizes[each] or 0)
        for each in packed(shortest_first, lambda each: sizes[each] or 0, largest):
            if len(each) > 1 or shares[each[0]] > 0:
                found.append(each)
    return found


def deleted_shares(files: pa.Table) -> list[float]:
    """Which share of each file's rows is deleted; some, if nobody knows how many there are."""
    shares = []
    for vector, records in zip(files["deletion_vector"].to_pylist(), records_in(files), strict=True):
        deleted = 0 if vector is None else int(vector["cardinality"])
        shares.append(deleted / (records or deleted) if deleted else 0.0)
    return shares


def spread(spark: SparkSession, count: int) -> npt.NDArray[np.int64]:
    """For each of so many bins a number that Spark sends to a task of its own when it repartitions by it.

    Where Spark did it otherwise, bins would share tasks, and nothing else would differ.
    """
    if count == 1:
        return np.zeros(1, np.int64)
    tried = spark.range(32 * count + 64).selectExpr("id", f"pmod(hash(id), {count})").toArrow()
    numbers, places = (tried.column(n).to_numpy() for n in (0, 1))
    found, first = np.unique(places, return_index=True)
    keys = np.arange(count, dtype=np.int64)
    keys[found] = numbers[first]
    return keys

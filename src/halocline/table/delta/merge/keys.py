"""The keys of a merge's source, held against the bounds of the files that they may be in.

A row of the table matches only if its *key*, here a column of whole numbers, has a value that the source has. Where the
values of the source are known, a file is left out if none of them lies between its bounds. The other way round, a file
is *sure* to have a match if so many of the numbers between its bounds are rows of it that the values can hardly all be
others. Sure files need not be searched for matches before they are read in full. That is a guess, which costs time if
it is wrong and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.delta.actions.statistics import live_rows
from halocline.formats.delta.configuration.schema import Column
from halocline.formats.delta.stats.json_reader import StatsReader

MOST_KEYS: Final = 500_000
"""So many values of a source are brought together in one place."""

_MOST_FILES: Final = 10_000
_DOUBT: Final = 0.1
"""How likely it may be that one of the files is without a match."""


@dataclass(frozen=True)
class SourceKeys:
    """The values that a source has for a key.

    Attributes:
        name: The column of the table that must equal them.
        values: The values in order, each once, without null.
        is_unique: Whether no two rows of the source have the same value, so that no row of the table has two matches.
    """

    name: str
    values: np.ndarray[Any, np.dtype[np.int64]]
    is_unique: bool

    @staticmethod
    def of(name: str, column: pa.ChunkedArray) -> SourceKeys:
        """The keys that a column of whole numbers has.

        Example:
            >>> SourceKeys.of("id", pa.chunked_array([[3, None, 1, 3]]))
            SourceKeys(name='id', values=array([1, 3]), is_unique=False)
        """
        numbers = column.drop_null().cast(pa.int64()).to_numpy()
        values = np.unique(numbers)
        return SourceKeys(name, values, is_unique=len(values) == len(numbers))

    def within(self, files: pa.Table, column: Column) -> tuple[pa.Table, bool]:
        """The files between whose bounds there are keys, and whether all of them are sure to have matches."""
        if len(files) > _MOST_FILES:
            return files, False
        (bounds,) = StatsReader([column]).read(files["stats"].to_pylist())
        if bounds is None:
            return files, False
        known = pc.and_(pc.is_valid(bounds.low), pc.is_valid(bounds.high)).to_numpy(zero_copy_only=False)
        low, high = (each.fill_null(0).to_numpy(zero_copy_only=False) for each in (bounds.low, bounds.high))
        inside = np.searchsorted(self.values, high, "right") - np.searchsorted(self.values, low, "left")
        kept = ~known | (inside > 0)
        chosen, is_known = files.filter(pa.array(kept)), bool(known[kept].all())
        rows = live_rows(chosen)
        if not is_known or None in rows:
            return chosen, False
        numbers = high[kept].astype(np.float64) - low[kept].astype(np.float64) + 1
        taken = np.minimum(1.0, np.array(rows, np.float64) / np.maximum(numbers, 1.0))
        return chosen, bool(((1.0 - taken) ** inside[kept]).sum() <= _DOUBT)

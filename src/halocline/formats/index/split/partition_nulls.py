"""What the log says about null in the partition columns of a split.

Splits were once written with null for empty text in a partition column, so a null in their log may stand for either. A
split that says that its nulls are *exact* was written by a release that keeps both apart. What such a null was before
is lost; only whoever has the rows can say it, by writing them again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from halocline.formats.index.log.actions import SplitAdd

_TAG: Final = "halocline.partitionNulls"
_EXACT: Final = "exact"


def with_exact_nulls(split: SplitAdd) -> SplitAdd:
    """Return the split with a note that null in its partition columns is no empty text.

    Example:
        >>> split = SplitAdd("a.split.parquet", {"p": None}, 1, 1, True)
        >>> has_exact_nulls(split, ["p"]), has_exact_nulls(with_exact_nulls(split), ["p"])
        (False, True)
    """
    if None not in split.partition_values.values():
        return split
    return msgspec.structs.replace(split, tags=(split.tags or {}) | {_TAG: _EXACT})


def has_exact_nulls(split: SplitAdd, columns: Collection[str]) -> bool:
    """Return whether no null in some partition columns can stand for empty text."""
    nulls = {name for name, text in split.partition_values.items() if text is None}
    return nulls.isdisjoint(columns) or (split.tags or {}).get(_TAG) == _EXACT

"""The least and the greatest value of each column of a split, as the log holds them: text.

Numbers are written in full, dates as days and timestamps as microseconds since the epoch, booleans as true and false.
Strings are cut at 32 characters: a least value stays one, and a greatest one of that length stands for all that begin
with it. A column with a NaN has no bounds, for a NaN has no place in the order of numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

CUT: Final = 32
"""The characters of a string that bounds keep."""


class SplitBounds:
    """Bounds of the columns of some batches.

    Args:
        schema: The columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._found: dict[str, tuple[Any, Any]] = {}
        self._columns = [each.name for each in schema if _has_order(each.type)]

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes in more rows."""
        for name in list(self._columns):
            column = _comparable(batch.column(name))
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                self._columns.remove(name)
                self._found.pop(name, None)
                continue
            both = pc.min_max(column).as_py()
            if both["min"] is not None:
                before = self._found.get(name, (both["min"], both["max"]))
                self._found[name] = min(before[0], both["min"]), max(before[1], both["max"])

    def as_text(self) -> tuple[dict[str, str], dict[str, str]]:
        """The least and the greatest values."""
        texts = {name: _TEXT.get(type(low), str) for name, (low, _) in self._found.items()}
        low = {name: texts[name](both[0]) for name, both in self._found.items()}
        return low, {name: texts[name](both[1]) for name, both in self._found.items()}


_TEXT: Final[dict[type, Callable[[Any], str]]] = {
    str: lambda value: value[:CUT],
    float: repr,
    bool: lambda value: str(value).lower(),
    Decimal: lambda value: format(value, "f"),
}


def _has_order(type: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_boolean, pa.types.is_date32)
    return any(kind(type) for kind in (*kinds, pa.types.is_timestamp, pa.types.is_decimal128))


def _comparable(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date32(column.type) else column

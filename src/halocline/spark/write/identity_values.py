"""Values for identity columns, given to rows while they are written.

Every row of a write gets a *number*, counted from 0, and each identity column the value that many steps beyond its
high-water mark. A few rows are numbered without gaps. More are numbered by all tasks at once: task t of at most
`MOST_TASKS` gives out t, t + MOST_TASKS and so on, so no two rows get the same number and no task has to know of
another; the price is gaps.

The limits: values are unique among those given out by tables' writers, who all move the mark; a value that somebody
brings into a `BY DEFAULT` column is neither checked nor noted, as everywhere. And a write that loses a race has to be
done again, since its values are taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from halocline.errors import InternalError
from halocline.formats.delta.configuration.identity import IdentityColumn
from halocline.schema.types import DataType
from halocline.spark.scan.footers import footers, leaves
from halocline.spark.types.arrow_rows import fetched, frame_of_arrow
from halocline.spark.types.columns import holds, quoted
from halocline.spark.write.rules import RowRule
from halocline.storage.base import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_TASKS: Final = 1024
"""Frames of more partitions are written by that many tasks."""

FEW: Final = 1000
"""So many rows are fetched and numbered in one task."""

NUMBER: Final = "__halocline_number"
# What does not come back from Arrow as it went there.
_NOT_THROUGH_ARROW: Final = ("variant", "void", "null")


def numbered(df: DataFrame, types: Sequence[DataType]) -> DataFrame:
    """The rows with a column `NUMBER`, different for each of them."""
    few = None if any(holds(type, _NOT_THROUGH_ARROW) for type in types) else _fetched(df)
    if few is not None:
        again = frame_of_arrow(df.sparkSession, few, df.schema).coalesce(1)
        return again.selectExpr("*", f"monotonically_increasing_id() AS {NUMBER}")
    # The number of the task is in the bits from 33 on, the number of its row below.
    spread = df.coalesce(MOST_TASKS).selectExpr("*", f"monotonically_increasing_id() AS {NUMBER}")
    task, row = f"shiftright({NUMBER}, 33)", f"({NUMBER} & {(1 << 33) - 1})"
    number = f"CASE WHEN {task} < {MOST_TASKS} THEN {task} + {row} * {MOST_TASKS}"
    failed = f"CAST(raise_error('row numbers for more than {MOST_TASKS} tasks') AS bigint)"
    return spread.selectExpr(*map(quoted, df.columns), f"{number} ELSE {failed} END AS {NUMBER}")


def value_sql(column: IdentityColumn) -> str:
    """SQL for the value of a column in a numbered row; beyond the last 64-bit number it is null.

    Example:
        >>> value_sql(IdentityColumn("id", 1, 2, 7, False))
        'try_add(9L, try_multiply(2L, __halocline_number))'
    """
    if not -(2**63) <= column.next_value < 2**63:
        raise values_left(column).refusal("every row", "the table")
    return f"try_add({_long(column.next_value)}, try_multiply({_long(column.step)}, {NUMBER}))"


def values_left(column: IdentityColumn) -> RowRule:
    """The rule that every row of a numbered column gets a value."""
    return RowRule(
        f"identity column {column.name}",
        f"{quoted(column.name)} IS NOT NULL",
        message=f"identity column {column.name} has run out of 64-bit numbers",
        next_step="Copy the rows to a table with a smaller step.",
        sides=("column", "row"),
        text=f"from {column.start} by {column.step}",
    )


def marks_in(store: Store, files: Sequence[tuple[str, int]], columns: Mapping[str, IdentityColumn]) -> dict[str, int]:
    """The values furthest from the start that some files hold, by identity column; columns are by physical name."""
    found: dict[str, int] = {}
    for footer in footers(store, files):
        numbers = leaves(footer)
        for physical, column in columns.items():
            for group in range(footer.num_row_groups):
                bounds = footer.row_group(group).column(numbers[(physical,)]).statistics
                if bounds is None or not bounds.has_min_max:
                    if footer.row_group(group).num_rows:
                        raise InternalError(f"a file has no bounds for identity column {column.name}")
                    continue
                value = bounds.max if column.step > 0 else bounds.min
                known = found.get(column.name, value)
                found[column.name] = max(known, value) if column.step > 0 else min(known, value)
    return found


def _fetched(df: DataFrame) -> pa.Table | None:
    """The rows, if they are few."""
    rows = fetched(df.limit(FEW + 1))
    return rows if len(rows) <= FEW else None


def _long(number: int) -> str:
    # The smallest 64-bit number cannot be written as a literal: its digits alone are too large.
    return f"{number}L" if number > -(2**63) else f"(-{2**63 - 1}L - 1L)"

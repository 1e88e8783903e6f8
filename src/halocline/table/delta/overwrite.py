"""Putting rows in place of others: of all, of those that meet a condition, or of whole partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.spark.types.assignment import Casting
from halocline.table.delta.opened import Opened
from halocline.table.delta.rows.files import Layout
from halocline.table.delta.write import Replacement, Txn, WriteRequest, write
from halocline.table.opening import as_operation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@as_operation
def overwrite_rows(
    table: Opened,
    df: DataFrame,
    *,
    where: str | None = None,
    partitions: Literal["static", "dynamic"] = "static",
    schema_mode: Literal["merge", "overwrite"] | None = None,
    partition_by: Sequence[str] | None = None,
    cast: Literal["ansi"] | None = None,
    txn: Txn | None = None,
    user_metadata: str | None = None,
    max_records_per_file: int | None = None,
    data_change: bool = True,
) -> int:
    """Puts rows in place of others, and returns the version that has them.

    Args:
        table: The table.
        df: The new rows.
        where: Replace the rows that meet this condition, and no others; every new row must meet it, too. All rows
            are replaced without one.
        partitions: `dynamic` replaces exactly the partitions that the new rows are in.
        schema_mode: `merge` lets the table grow; `overwrite` gives it the columns of the rows.
        partition_by: With `schema_mode="overwrite"`, the new partition columns; they stay if left out.
        cast: `ansi` casts values to their columns as SQL's INSERT does, which cuts off fractions and reads text;
            otherwise a value may only grow into its column.
        txn: An application and its own version. If the table has that version or a later one, nothing is done.
        user_metadata: A note for the history.
        max_records_per_file: The most rows of one new file.
        data_change: False says that the rows are those that were there, only laid out otherwise: streams and change
            feeds skip them.

    Raises:
        SchemaError: The columns do not fit.
        ConstraintError: A row breaks a rule of the table, or does not meet the condition; nothing was written.
        InputError: The table only takes new rows, or the arguments contradict each other.
        IncompatibleError: The release that acts may not write the table.
        ConflictError: Somebody else changed what this would have replaced.

    Example:
        >>> Table.for_path("lake/orders", spark).overwrite(df, where="day = '2026-11-01'")  # doctest: +SKIP
        14
    """
    said = CommitDescription("WRITE", txn=txn, user_metadata=user_metadata)
    layout, casting = Layout(max_records_per_file, data_change), Casting(cast or Casting.WIDENING)
    replacement = Replacement(where, partitions == "dynamic")
    return write(table, df, WriteRequest(said, layout, schema_mode, partition_by, casting, replacement))

"""Putting rows in place of others: of all, of those that meet a condition, or of whole partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from halocline.formats.delta.actions.action import Action
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.spark.types import input_schema
from halocline.spark.types.assignment import Casting
from halocline.spark.write.row_plan import plan_rows
from halocline.table.delta.opened import Opened
from halocline.table.delta.replacement import Replacement, SchemaMode
from halocline.table.delta.row_changes import inserted
from halocline.table.delta.row_commit import check_removable
from halocline.table.delta.row_files import Layout, RowFiles
from halocline.table.delta.write_attempt import (
    Txn,
    casting_of,
    check_choice,
    committed,
    description,
    is_done,
    parameters_of,
    repeated,
    target_state,
)
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
    schema_mode: SchemaMode | None = None,
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
        cast: `ansi` casts values to their columns by Spark's rules for storing them, which cut off fractions; a value
            may only grow into its column otherwise.
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
    input_schema.checked_frame(df)
    check_choice("schema_mode", schema_mode, (None, "merge", "overwrite"))
    check_choice("partitions", partitions, ("static", "dynamic"))
    layout = Layout(max_records_per_file, data_change)
    plan = Replacement.asked(where, partitions, schema_mode, partition_by, layout)
    casting, said = casting_of(cast), description(txn, user_metadata)
    return repeated(lambda: _overwrite(table, df, plan, casting, said))


def _overwrite(table: Opened, df: DataFrame, plan: Replacement, casting: Casting, said: CommitDescription) -> int:
    snapshot = table.snapshot("write")
    transaction = table.transaction(snapshot, df.sparkSession)
    if is_done(transaction, said):
        return snapshot.version
    check_removable(snapshot, "an overwrite")
    spark = df.sparkSession
    columns = input_schema.columns_of(df)
    state = target_state(table, columns, snapshot, plan.schema_mode, plan.partition_by)
    further = [plan.rule(spark, snapshot)] if plan.where is not None else []
    rows = plan_rows(df, columns, state, table=table.url, further=further, casting=casting)
    with RowFiles(table.store, state, plan.layout) as files:
        adds = files.write(rows)
        removal = plan.removal(spark, snapshot, transaction, adds, files)
        changes = inserted(spark, table.store, state, adds, files) if removal.is_recorded else []
        parameters = {**parameters_of("Overwrite", state, plan.schema_mode), **plan.parameters}
        metrics = plan.metrics(files.figures([*adds, *removal.adds]), removal, len(changes))
        actions: list[Action] = [*adds, *removal.actions, *changes]
        if not files.has_changes(transaction, actions) and said.txn is None:
            return snapshot.version
        return committed(files, transaction, actions, replace(said, parameters=parameters, metrics=metrics))

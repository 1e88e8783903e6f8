"""Adding rows to a table, once, or as the micro-batches of a stream, each once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from halocline.errors import InputError
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.spark.types import input_schema
from halocline.spark.types.assignment import Casting
from halocline.spark.write.row_plan import plan_rows
from halocline.table.delta.opened import Opened
from halocline.table.delta.replacement import SchemaMode
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
def append_rows(
    table: Opened,
    df: DataFrame,
    *,
    schema_mode: Literal["merge"] | None = None,
    cast: Literal["ansi"] | None = None,
    txn: Txn | None = None,
    user_metadata: str | None = None,
    max_records_per_file: int | None = None,
    data_change: bool = True,
) -> int:
    """Adds rows, and returns the version that has them.

    Args:
        table: The table.
        df: The rows. Columns are found by name; those left out get what the table says.
        schema_mode: `merge` lets the table grow by the columns that it lacks.
        cast: `ansi` casts values to their columns by Spark's rules for storing them, which cut off fractions; a value
            may only grow into its column otherwise.
        txn: An application and its own version. If the table has that version or a later one, nothing is done.
        user_metadata: A note for the history.
        max_records_per_file: The most rows of one new file.
        data_change: False says that the rows are those that were there, only laid out otherwise: streams and change
            feeds skip them.

    Raises:
        SchemaError: The columns do not fit.
        ConstraintError: A row breaks a rule of the table; nothing was written.
        IncompatibleError: The release that acts may not write the table.
        ConflictError: Somebody else changed the table so that the rows no longer fit.

    Example:
        >>> Table.for_path("lake/orders", spark).append(df)  # doctest: +SKIP
        13
    """
    input_schema.checked_frame(df)
    check_choice("schema_mode", schema_mode, (None, "merge"))
    layout = Layout(max_records_per_file, data_change)
    layout.check(schema_mode)
    casting, said = casting_of(cast), description(txn, user_metadata)
    return repeated(lambda: _append(table, df, schema_mode, casting, layout, said))


def append_batch(table: Opened, df: DataFrame, batch_id: int, *, app_id: str) -> int:
    """Adds the rows of one micro-batch, and returns the version that has them; nothing if it is there already.

    Args:
        table: The table.
        df: The rows.
        batch_id: The number of the batch, as `foreachBatch` gives it.
        app_id: A name for the query. It must stay the same as long as the query's checkpoint, and no longer: a new
            checkpoint counts batches from the start, and needs a new name.

    Raises:
        InputError: The name is empty, or the number is none.
        ConstraintError: A row breaks a rule of the table; nothing was written.
        IncompatibleError: The release that acts may not write the table.

    Example:
        >>> def add(df, batch_id):
        ...     orders.append_batch(df, batch_id, app_id="orders-from-kafka-1")
        >>> clicks.writeStream.foreachBatch(add).start()  # doctest: +SKIP
    """
    if not app_id or not isinstance(batch_id, int) or batch_id < 0:
        raise InputError(
            "a batch needs the name of its query and a number",
            sides={"app_id": repr(app_id), "batch_id": repr(batch_id)},
            next_step="Pass the batch_id that foreachBatch gives, and a name of your own.",
        )
    return append_rows(table, df, txn=(app_id, batch_id))


def _append(
    table: Opened,
    df: DataFrame,
    schema_mode: SchemaMode | None,
    casting: Casting,
    layout: Layout,
    said: CommitDescription,
) -> int:
    snapshot = table.snapshot("write.append")
    transaction = table.transaction(snapshot, df.sparkSession)
    if is_done(transaction, said):
        return snapshot.version
    columns = input_schema.columns_of(df)
    state = target_state(table, columns, snapshot, schema_mode)
    rows = plan_rows(df, columns, state, table=table.url, casting=casting)
    with RowFiles(table.store, state, layout) as files:
        adds = files.write(rows)
        if not files.has_changes(transaction, adds) and said.txn is None:
            return snapshot.version
        parameters = parameters_of("Append", state, schema_mode)
        said = replace(said, parameters=parameters, metrics=files.figures(adds))
        return committed(files, transaction, adds, said)

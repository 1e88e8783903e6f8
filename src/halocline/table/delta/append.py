"""Adding rows to a table, once, or as the micro-batches of a stream, each once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from halocline.errors import InputError
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.schema.arrow import struct_of_arrow
from halocline.schema.arrow_input import table_batches, table_schema
from halocline.spark.types.assignment import Casting
from halocline.spark.write.arrow_rules import ArrowRules
from halocline.table.delta.opened import Opened
from halocline.table.delta.rows.counts import figures
from halocline.table.delta.rows.files import Layout, RowFiles
from halocline.table.delta.write import Txn, WriteRequest, is_done, write
from halocline.table.opening import as_operation
from halocline.table.record_batches import arrow_reader

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
        cast: `ansi` casts values to their columns as SQL's INSERT does, which cuts off fractions and reads text;
            otherwise a value may only grow into its column.
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
    said = CommitDescription("WRITE", txn=txn, user_metadata=user_metadata)
    layout, casting = Layout(max_records_per_file, data_change), Casting(cast or Casting.WIDENING)
    return write(table, df, WriteRequest(said, layout, schema_mode, casting=casting))


@as_operation
def append_arrow(
    table: Opened,
    data: Any,
    *,
    txn: Txn | None = None,
    user_metadata: str | None = None,
    max_records_per_file: int | None = None,
    data_change: bool = True,
) -> int:
    """Adds rows that are in Arrow's form, without Spark, and returns the version that has them.

    The files are those that Spark's workers write with Arrow. Rows are read once, as a stream; if somebody else changes
    the table's columns or rules meanwhile, nothing is written and the conflict is raised.

    Args:
        table: The table.
        data: The rows: a pyarrow Table, RecordBatch or RecordBatchReader, a polars DataFrame, or anything that hands
            itself over as an Arrow stream. Columns are found by name; those left out become null.
        txn: An application and its own version. If the table has that version or a later one, nothing is done.
        user_metadata: A note for the history.
        max_records_per_file: The most rows of one new file.
        data_change: False says that the rows are those that were there, only laid out otherwise.

    Raises:
        SchemaError: The columns do not fit: a value may only grow into its column.
        ConstraintError: A row breaks a rule of the table; nothing was written.
        UnsupportedError: A rule or a column of the table needs Spark.
        IncompatibleError: The release that acts may not write the table.

    Example:
        >>> Table.for_path("lake/orders").append_arrow(pa.table({"id": [7]}))  # doctest: +SKIP
        13
    """
    reader = arrow_reader(data)
    said = CommitDescription("WRITE", txn=txn, user_metadata=user_metadata)
    asked = WriteRequest(said, Layout(max_records_per_file, data_change))
    snapshot = table.snapshot("write.append")
    columns = struct_of_arrow(table_schema(reader.schema, snapshot.schema))
    transaction = table.transaction(snapshot)
    if is_done(transaction, said):
        return snapshot.version
    rules = ArrowRules.of(snapshot.configuration, columns, table.url, table.zone)
    with RowFiles(table.store, snapshot.configuration, asked.layout) as files:
        adds = files.write_arrow(columns, map(rules.checked, table_batches(reader, snapshot.schema)))
        if not adds and txn is None:
            return snapshot.version
        parameters = asked.parameters(snapshot.configuration)
        return files.commit(transaction, adds, replace(said, parameters=parameters, metrics=figures(adds)))


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

"""Creating index tables, empty or with rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import InputError
from halocline.formats.base import TableFormat
from halocline.formats.index.split.fields import OPTIONS_KEY, fields_of
from halocline.formats.index.split.library import library
from halocline.formats.index.transaction import IndexTransaction
from halocline.spark.types import input_schema
from halocline.table.index.columns import field_options, table_columns
from halocline.table.index.opened import IndexOpened
from halocline.table.index.write import rows_in, written_splits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN: Final = "halocline."


def create(
    path: str | os.PathLike[str],
    what: Any,
    spark: SparkSession | None = None,
    *,
    fields: Mapping[str, Any] | None = None,
    partition_by: str | Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    max_records_per_split: int | None = None,
    exist_ok: bool = False,
    options: Mapping[str, str] | None = None,
) -> IndexOpened:
    """Creates an index table where no table is, empty or with the rows of a DataFrame.

    Args:
        path: Where it is to be.
        what: A DataFrame, or columns: a Spark schema, or text such as `at TIMESTAMP, message STRING`.
        spark: The session for rows. Not needed for a DataFrame, nor for columns.
        fields: How columns are indexed, by their names: a kind, such as `"text"` or `"ip"`, or options: `type`,
            `tokenizer`, `positions`, `fast`, `hashed`, `indexed`. See `halocline.formats.index.split.fields`.
        partition_by: Names of the partition columns, in order.
        properties: Properties.
        name: A name for people.
        max_records_per_split: The most rows of one split.
        exist_ok: Open the table that is there rather than fail.
        options: Settings, and options of the store.

    Raises:
        AlreadyExistsError: There is a table.
        InputError: A column cannot be indexed so, partitions do not fit, or rows are no DataFrame.
        UnsupportedError: A column has a type that no split holds.
        IncompatibleError: Somebody known could not use it.

    Example:
        >>> Table.create("lake/logs", df, format="index", fields={"message": "text"})  # doctest: +SKIP
        IndexTable('lake/logs')
    """
    input_schema.check_no_arrow_rows(what, "index")
    table = IndexOpened.at(path, what.sparkSession if input_schema.is_frame(what) else spark, options)
    if table.is_taken(TableFormat.INDEX, exist_ok=exist_ok):
        return table.found()
    library()
    columns = table_columns(what)
    partitions = [
        columns.find([each])[0][0] for each in ([partition_by] if isinstance(partition_by, str) else partition_by)
    ]
    configuration = {**_properties(properties or {}), **field_options(fields or {}, columns)}
    fields_of(columns, configuration, partitions)
    with table.operation("create"):
        transaction = IndexTransaction.create(
            table.store,
            columns,
            partition_columns=partitions,
            configuration=configuration,
            name=name,
            release=table.release,
            permit=table.check_lease,
        )
        table.approve(None, transaction.terms_after([]))
        if not input_schema.is_frame(what):
            transaction.commit([], "CREATE TABLE")
            return table.found()
        metadata = transaction.metadata
        with written_splits(table, what, metadata, max_records_per_split) as splits:
            transaction.commit(splits, "CREATE TABLE AS SELECT", numOutputRows=rows_in(splits))
    return table.found()


def _properties(given: Mapping[str, str]) -> dict[str, str]:
    for key, value in given.items():
        if not isinstance(value, str):
            raise InputError(f"property {key} is no text", sides={"given": repr(value)[:80], "expected": "text"})
        if key.startswith(_OWN):
            raise InputError(
                f"{key} is no property of an index table",
                condition="PROPERTY_INVALID",
                sides={"given": key, "nearest": "the argument fields" if key == OPTIONS_KEY else "none"},
                next_step="Say how columns are indexed with fields={...}.",
            )
    return dict(given)

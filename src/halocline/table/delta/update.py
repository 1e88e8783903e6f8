"""Giving columns of the rows that meet a condition, or of all rows, new values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from halocline.errors import InputError
from halocline.spark.session.analysis import Expression, read_without_spark
from halocline.table.delta.opened import Opened
from halocline.table.delta.rows.changes import Rewrite, check_clause
from halocline.table.delta.rows.clauses import Clause, ClauseKind, known_by, predicate_of
from halocline.table.delta.rows.commit import RowChange, RowsChanged
from halocline.table.delta.rows.edits import checked_values
from halocline.table.delta.rows.files import RowFiles
from halocline.table.delta.rows.hits import hits_where
from halocline.table.opening import as_operation


@as_operation
def update_rows(
    table: Opened, set: Mapping[str, Any], where: Expression | None = None, *, target_alias: str | None = None
) -> RowsChanged:
    """Gives columns of the rows that meet a condition, or of all rows, new values.

    Args:
        table: The table.
        set: The new value of each column: SQL text, a Spark column, or a constant that is no text. A nested field
            is named by its path. Values may speak of the row as it was.
        where: SQL text, or a Spark column. Text also tells which files need not be looked into.
        target_alias: What the table is called in expressions, if anything.

    Raises:
        InputError: A column or an expression cannot be used, or the table only takes new rows.
        SchemaError: A value does not fit its column.
        ConstraintError: A changed row breaks a rule of the table; nothing was written.
        IncompatibleError: The release that acts may not write the table.
        ConflictError: Somebody else changed the same rows first.

    Example:
        >>> orders = Table.for_path("lake/orders", spark)  # doctest: +SKIP
        >>> orders.update({"status": "'late'"}, "due < current_date()").version  # doctest: +SKIP
        15
    """
    work = RowChange(table, "an update")
    if not set:
        raise InputError("no column is to be set", sides={"given": "nothing"}, next_step="update({'status': ...})")
    values = checked_values(set, work.snapshot.schema, target_alias, table.url)
    clause = Clause(ClauseKind.UPDATE, where, values)
    check_clause(work, clause, target_alias)
    where = known_by(where, target_alias)
    candidates = work.transaction.files(read_without_spark(work.spark, where))
    with RowFiles(table.store, work.snapshot.configuration) as files:
        hits = hits_where(work, candidates, where, target_alias)
        changed = Rewrite(work, files, [clause], target_alias).changed(hits)
        metrics = changed.metrics({"numUpdatedRows": changed.updated})
        return work.commit(files, changed.actions, "UPDATE", predicate_of(clause.condition), metrics)

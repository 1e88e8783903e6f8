"""Deleting the rows that meet a condition, or all of them."""

from __future__ import annotations

from halocline.spark.session.analysis import Expression, read_without_spark
from halocline.table.delta.opened import Opened
from halocline.table.delta.rows.changes import Rewrite, check_clause, remove_rows
from halocline.table.delta.rows.clauses import Clause, ClauseKind, is_steady, known_by, predicate_of
from halocline.table.delta.rows.commit import RowChange, RowsChanged
from halocline.table.delta.rows.files import RowFiles
from halocline.table.delta.rows.hits import hits_where
from halocline.table.opening import as_operation


@as_operation
def delete_rows(table: Opened, where: Expression | None = None, *, target_alias: str | None = None) -> RowsChanged:
    """Deletes the rows that meet a condition, all rows without one.

    Args:
        table: The table.
        where: SQL text, or a Spark column. Text also tells which files need not be looked into.
        target_alias: What the table is called in expressions, if anything.

    Raises:
        InputError: The condition cannot be used, or the table only takes new rows.
        IncompatibleError: The release that acts may not write the table.
        ConflictError: Somebody else changed the same rows first.

    Example:
        >>> Table.for_path("lake/orders", spark).delete("day < '2026-01-01'").metrics  # doctest: +SKIP
        {'numRemovedFiles': 12, 'numDeletedRows': 48211, ...}
    """
    work = RowChange(table, "a delete")
    clause = Clause(ClauseKind.DELETE, where)
    check_clause(work, clause, target_alias)
    where = known_by(where, target_alias)
    condition = "true" if where is None else where
    candidates = work.transaction.files(read_without_spark(work.spark, where))
    with RowFiles(table.store, work.snapshot.configuration) as files:
        if isinstance(condition, str) and is_steady(condition):
            changed = remove_rows(work.spark, work.snapshot, candidates, condition, files)
        else:
            hits = hits_where(work, candidates, where, target_alias)
            changed = Rewrite(work, files, [clause], target_alias).changed(hits)
        metrics = changed.metrics({"numDeletedRows": changed.deleted})
        return work.commit(files, changed.actions, "DELETE", predicate_of(clause.condition), metrics)

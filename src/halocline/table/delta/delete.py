"""Deleting the rows that meet a condition, or all of them."""

from __future__ import annotations

from halocline.formats.delta.commit.transaction import system_clock
from halocline.formats.delta.log.file_actions import removes_from
from halocline.spark.session.analysis import Expression
from halocline.table.delta.clauses import Clause, ClauseKind, is_steady
from halocline.table.delta.matches import matches
from halocline.table.delta.opened import Opened
from halocline.table.delta.removal import remove_rows
from halocline.table.delta.row_changes import Changed, change_rows
from halocline.table.delta.row_commit import RowChange, RowsChanged
from halocline.table.delta.row_files import RowFiles
from halocline.table.opening import as_operation


@as_operation
def delete_rows(table: Opened, where: Expression | None = None) -> RowsChanged:
    """Deletes the rows that meet a condition, all rows without one.

    Args:
        table: The table.
        where: SQL text, or a Spark column. Text also tells which files need not be looked into.

    Raises:
        InputError: The condition cannot be used, or the table only takes new rows.
        IncompatibleError: The release that acts may not write the table.
        ConflictError: Somebody else changed the same rows first.

    Example:
        >>> Table.for_path("lake/orders", spark).delete("day < '2026-01-01'").metrics  # doctest: +SKIP
        {'numRemovedFiles': 12, 'numDeletedRows': 48211, ...}
    """
    work = RowChange(table, "a delete")
    if where is None:
        found = work.transaction.files()
        removes = list(removes_from(found, timestamp_ms=system_clock(), data_change=True))
        rows = matches(work.spark, work.snapshot, found, "true").rows
        with RowFiles(table.store, work.snapshot.configuration) as files:
            return work.commit(files, Changed(removes, deleted=rows), "DELETE", None)
    clause = Clause(ClauseKind.DELETE, where)
    work.check(clause)
    candidates = work.transaction.files(where if isinstance(where, str) else None)
    with RowFiles(table.store, work.snapshot.configuration) as files:
        if isinstance(where, str) and is_steady(where):
            gone = remove_rows(work.spark, work.snapshot, candidates, where, files)
            changed = Changed(
                gone.removes,
                gone.adds,
                changes=gone.changes,
                rows=gone.copied_rows,
                deleted=gone.deleted_rows,
            )
        else:
            hits = work.hits(candidates, where)
            changed = change_rows(work.spark, work.snapshot, work.snapshot.configuration, hits, [clause], files)
        return work.commit(files, changed, "DELETE", where)

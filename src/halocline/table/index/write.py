"""Writing rows to an index table: added to those that are there, or in place of them.

Tasks build the splits, one after the other, and the driver commits them as one version. If anything fails before the
commit, they are deleted again; what cannot be deleted is an orphan that nobody reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from halocline.errors import HaloclineError, InputError, UnavailableError
from halocline.formats.index.delete import removal
from halocline.formats.index.log.actions import IndexMetadata, SplitAdd
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.spark.types import input_schema
from halocline.spark.write.split_rows import SplitSink, write_splits
from halocline.table.index.opened import IndexOpened
from halocline.table.opening import as_operation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@as_operation
def append(table: IndexOpened, df: DataFrame, *, max_records_per_split: int | None = None) -> int:
    """Adds rows, and returns the version that has them.

    Args:
        table: The table.
        df: The rows. Columns are found by name; those left out become null.
        max_records_per_split: The most rows of one split; each task builds at least one.

    Raises:
        SchemaError: The columns do not fit.
        ConstraintError: A row breaks a rule of the table; nothing was written.
        IncompatibleError: The release that acts may not write the table, or it would have to be upgraded.

    Example:
        >>> Table.for_path("lake/logs", spark).append(df)  # doctest: +SKIP
        13
    """
    snapshot = table.snapshot("write.append")
    _check_upgrade(table, snapshot)
    with written_splits(table, df, snapshot.metadata, max_records_per_split) as splits:
        transaction = table.transaction(snapshot)
        return table.commit(transaction, [*splits], "WRITE", mode="Append", numOutputRows=_rows(splits))


@as_operation
def overwrite(table: IndexOpened, df: DataFrame, *, max_records_per_split: int | None = None) -> int:
    """Puts rows in place of all others, and returns the version that has them.

    Args:
        table: The table.
        df: The new rows.
        max_records_per_split: The most rows of one split.

    Raises:
        SchemaError: The columns do not fit.
        ConstraintError: A row breaks a rule of the table; nothing was written.
        ConflictError: Somebody else changed what this would have replaced.

    Example:
        >>> Table.for_path("lake/logs", spark).overwrite(df)  # doctest: +SKIP
        14
    """
    snapshot = table.snapshot("write")
    _check_upgrade(table, snapshot)
    now_ms = table.clock()
    gone = [removal(each, now_ms) for each in snapshot.files.values()]
    with written_splits(table, df, snapshot.metadata, max_records_per_split) as splits:
        transaction = table.transaction(snapshot, reads_all=True)
        said = {"mode": "Overwrite", "numOutputRows": _rows(splits), "numRemovedSplits": len(gone)}
        return table.commit(transaction, [*gone, *splits], "WRITE", **said)


@contextmanager
def written_splits(
    table: IndexOpened, df: DataFrame, metadata: IndexMetadata, most_rows: int | None
) -> Iterator[list[SplitAdd]]:
    """Builds splits of rows, and deletes them again if they are not committed.

    Raises:
        SchemaError: The columns do not fit.
        ConstraintError: A row breaks a rule of the table.
    """
    if most_rows is not None and most_rows < 1:
        raise InputError(f"a split cannot have {most_rows} rows", sides={"possible": "1 or more"})
    columns = input_schema.columns_of(input_schema.checked_frame(df))
    sink = SplitSink.of(table.store, metadata, columns, most_rows=most_rows)
    try:
        yield write_splits(df, sink)
    except UnavailableError:
        raise  # whether the commit took effect is not known
    except BaseException:
        with contextlib.suppress(HaloclineError, OSError):
            table.store.delete_many(sink.orphans())
        raise


def _check_upgrade(table: IndexOpened, snapshot: IndexSnapshot) -> None:
    """Refuses, before a split is built, what the commit would have to refuse."""
    probe = SplitAdd("probe.split.parquet", {}, 0, 0, True, num_records=0, has_footer_offsets=True, num_merge_ops=0)
    after = table.transaction(snapshot).terms_after([probe])
    if after.protocol != snapshot.protocol:
        table.approve(snapshot.terms, after)


def _rows(splits: Sequence[SplitAdd]) -> int:
    return sum(each.num_records or 0 for each in splits)

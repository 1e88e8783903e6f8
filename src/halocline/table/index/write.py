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
from halocline.formats.index.log.actions import IndexMetadata, IndexTxn, SplitAdd
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.spark.types import input_schema
from halocline.spark.write.split_rows import SplitSink, write_splits
from halocline.table.index.opened import IndexOpened
from halocline.table.opening import as_operation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Txn = tuple[str, int]
"""An application and its own version of a write, so that the same write is not done twice."""


@as_operation
def append(
    table: IndexOpened, df: DataFrame, *, txn: Txn | None = None, max_records_per_split: int | None = None
) -> int:
    """Adds rows, and returns the version that has them.

    Args:
        table: The table.
        df: The rows. Columns are found by name; those left out become null.
        txn: An application and its own version. If the table has that version or a later one, nothing is done.
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
    if is_done(snapshot, txn):
        return snapshot.version
    check_upgrade(table, snapshot)
    with written_splits(table, df, snapshot.metadata, max_records_per_split) as splits:
        transaction, said = table.transaction(snapshot), {"mode": "Append", "numOutputRows": _rows(splits)}
        return table.commit(transaction, [*splits, *marks(txn, table.clock())], "WRITE", **said)


def append_batch(table: IndexOpened, df: DataFrame, batch_id: int, *, app_id: str) -> int:
    """Adds the rows of one micro-batch, and returns the version that has them; nothing if it is there already.

    Args:
        table: The table.
        df: The rows.
        batch_id: The number of the batch, as `foreachBatch` gives it.
        app_id: A name for the query. It must stay the same as long as the query's checkpoint, and no longer.

    Raises:
        InputError: The name is empty, or the number is none.

    Example:
        >>> def add(df, batch_id):
        ...     logs.append_batch(df, batch_id, app_id="logs-from-kafka-1")
        >>> lines.writeStream.foreachBatch(add).start()  # doctest: +SKIP
    """
    if not app_id or batch_id < 0:
        raise InputError(
            "a batch needs the name of its query and a number",
            sides={"app_id": repr(app_id), "batch_id": repr(batch_id)},
            next_step="Pass the batch_id that foreachBatch gives, and a name of your own.",
        )
    return append(table, df, txn=(app_id, batch_id))


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
    check_upgrade(table, snapshot)
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


def is_done(snapshot: IndexSnapshot, txn: Txn | None) -> bool:
    """Whether the table has what an application would write."""
    seen = None if txn is None else snapshot.txn_version(txn[0])
    return seen is not None and txn is not None and seen >= txn[1]


def marks(txn: Txn | None, now_ms: int) -> list[IndexTxn]:
    """The action by which the table knows of a write that it is done."""
    return [] if txn is None else [IndexTxn(txn[0], txn[1], now_ms)]


def check_upgrade(table: IndexOpened, snapshot: IndexSnapshot) -> None:
    """Refuses, before a split is built, what the commit would have to refuse."""
    probe = SplitAdd("probe.split.parquet", {}, 0, 0, True, num_records=0, has_footer_offsets=True, num_merge_ops=0)
    after = table.transaction(snapshot).terms_after([probe])
    if after.protocol != snapshot.protocol:
        table.approve(snapshot.terms, after)


def _rows(splits: Sequence[SplitAdd]) -> int:
    return sum(each.num_records or 0 for each in splits)

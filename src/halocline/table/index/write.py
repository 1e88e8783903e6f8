"""Writing rows to an index table: added to those that are there, or in place of all or some of them.

Tasks build the splits, one after the other, and the driver commits them as one version. If anything fails before the
commit, they are deleted again; what cannot be deleted is an orphan that nobody reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

from halocline.errors import ConflictError, ConstraintError, HaloclineError, InputError, UnavailableError
from halocline.formats.index.log.actions import IndexAction, IndexMetadata, IndexTxn, SplitAdd, SplitRemove
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.schema.json_edge import parse
from halocline.spark.scan.frames import session_zone
from halocline.spark.scan.scan import scan
from halocline.spark.scan.split_frames import file_list, split_layout
from halocline.spark.types import input_schema
from halocline.spark.write.split_rows import SplitSink, write_splits
from halocline.table.index.columns import table_columns
from halocline.table.index.delete import check_deletable, rows_gone
from halocline.table.index.opened import IndexOpened
from halocline.table.index.request import SplitWrite
from halocline.table.opening import as_operation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_MOST_TRIES: Final = 20
Txn = tuple[str, int]
"""An application and its own version of a write, so that the same write is not done twice."""


@as_operation
def append(
    table: IndexOpened,
    df: DataFrame,
    *,
    schema_mode: Literal["merge"] | None = None,
    fields: Mapping[str, Any] | None = None,
    txn: Txn | None = None,
    max_records_per_split: int | None = None,
) -> int:
    """Adds rows, and returns the version that has them.

    Args:
        table: The table.
        df: The rows. Columns are found by name; those left out become null.
        schema_mode: `merge` lets the table grow by the columns that it lacks.
        fields: How columns that come in are indexed, as for `Table.create`.
        txn: An application and its own version. If the table has that version or a later one, nothing is done.
        max_records_per_split: The most rows of one split; each task builds at least one.

    Raises:
        SchemaError: The columns do not fit.
        ConstraintError: A row breaks a rule of the table; nothing was written.
        InputError: A column cannot be indexed so, or the table is a companion.
        IncompatibleError: The release that acts may not write the table, or it would have to be upgraded.

    Example:
        >>> Table.for_path("lake/logs", spark).append(df)  # doctest: +SKIP
        13
    """
    return _written(table, df, SplitWrite(schema_mode=schema_mode, fields=fields or {}), txn, max_records_per_split)


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
def overwrite(
    table: IndexOpened,
    df: DataFrame,
    *,
    where: str | None = None,
    partitions: Literal["static", "dynamic"] = "static",
    schema_mode: Literal["merge", "overwrite"] | None = None,
    partition_by: Sequence[str] | None = None,
    fields: Mapping[str, Any] | None = None,
    txn: Txn | None = None,
    max_records_per_split: int | None = None,
) -> int:
    """Puts rows in place of others, and returns the version that has them.

    Args:
        table: The table.
        df: The new rows.
        where: Replace the rows that meet this condition, and no others; every new row must meet it, too. All rows are
            replaced without one.
        partitions: `dynamic` replaces exactly the partitions that the new rows are in.
        schema_mode: `merge` lets the table grow; `overwrite` gives it the columns of the rows.
        partition_by: With `schema_mode="overwrite"`, the new partition columns; they stay if left out.
        fields: How columns that come in are indexed, as for `Table.create`.
        txn: An application and its own version. If the table has that version or a later one, nothing is done.
        max_records_per_split: The most rows of one split.

    Raises:
        SchemaError: The columns do not fit.
        ConstraintError: A row breaks a rule of the table, or does not meet the condition; nothing was written.
        InputError: The arguments contradict each other, or the table is a companion.
        ConflictError: Somebody else changed what this would have replaced.

    Example:
        >>> Table.for_path("lake/logs", spark).overwrite(df, where="day = '2026-11-01'")  # doctest: +SKIP
        14
    """
    asked = SplitWrite(True, where, partitions == "dynamic", schema_mode, partition_by, fields or {})
    return _written(table, df, asked, txn, max_records_per_split)


def _written(table: IndexOpened, df: DataFrame, asked: SplitWrite, txn: Txn | None, most_rows: int | None) -> int:
    """Makes attempts until one is committed; only a change of columns meets others who change them."""
    for _ in range(_MOST_TRIES):
        try:
            return _attempt(table, df, asked, txn, most_rows)
        except ConflictError as error:
            if asked.schema_mode is None or error.condition != "CONCURRENT_METADATA_CHANGE":
                raise
            conflict = error
    raise conflict


def _attempt(table: IndexOpened, df: DataFrame, asked: SplitWrite, txn: Txn | None, most_rows: int | None) -> int:
    snapshot = table.snapshot(asked.operation)
    if is_done(snapshot, txn):
        return snapshot.version
    check_upgrade(table, snapshot)
    metadata = asked.metadata(snapshot, table_columns(df) if asked.schema_mode else snapshot.schema)
    if asked.where is not None:
        check_deletable(table, snapshot, asked.where, "overwrite")
    with written_splits(table, df, metadata, most_rows) as splits:
        if asked.where is not None:
            _check_rows(table, metadata, splits, asked.where)
        now_ms = table.clock()
        gone = asked.gone(snapshot, splits, lambda where: rows_gone(table, snapshot, where)[0], now_ms)
        actions: list[IndexAction] = [
            *([] if metadata is snapshot.metadata else [metadata]),
            *gone,
            *splits,
            *marks(txn, now_ms),
        ]
        # Replacing some rows of a split masks them, and that is what the user asked for.
        transaction = table.transaction(snapshot, reads_all=asked.replaces, may_gain=asked.where is not None)
        said = {**asked.parameters, "numOutputRows": rows_in(splits)}
        removed = sum(isinstance(each, SplitRemove) for each in gone)
        said |= {"numRemovedSplits": removed} if asked.replaces else {}
        return table.commit(transaction, actions, "WRITE", **said)


def _check_rows(table: IndexOpened, metadata: IndexMetadata, splits: Sequence[SplitAdd], where: str) -> None:
    """Makes sure that every new row is one that the condition replaces."""
    layout = split_layout(parse(metadata.schema_string), metadata.partition_columns).with_nulls
    other = f"NOT coalesce(({where}), false)"
    rows = scan(
        table.spark, table.store, file_list(table.store, splits), layout, where=other, zone=session_zone(table.spark)
    )
    for row in rows.limit(1).collect():
        raise ConstraintError(
            f"a row does not meet the condition by which rows are replaced: {where}; nothing was written",
            sides={"condition": where, "row": str(row.asDict())[:500]},
            next_step="Leave such rows out, or widen the condition.",
        )


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
    splits: list[SplitAdd] | None = None
    try:
        splits = write_splits(df, sink)
        yield splits
    except UnavailableError:
        raise  # whether the commit took effect is not known
    except BaseException as error:
        # An interrupt may come when the commit is there already; what it leaves besides is found by a purge.
        if splits is None or isinstance(error, Exception):
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


def rows_in(splits: Sequence[SplitAdd]) -> int:
    """How many rows new splits have."""
    return sum(each.num_records or 0 for each in splits)

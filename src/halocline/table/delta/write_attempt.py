"""What every write of rows does: decides what the table is going to be, commits, and begins again where that helps.

A write goes the same way whatever it does with the rows that are there. The newest version is opened behind the gate;
the rows are fitted to the table's columns, and what cannot fit is refused before a file exists; Spark computes, checks
and writes them in one pass; and one transaction commits the files. If anything fails before the commit, the files are
deleted again: what a failed write leaves behind is nothing.

A table's protocol stays as it is unless the user allows writes to raise it (`halocline.protocol.autoUpgrade`).

Writes that give out numbers of an identity column, or let the schema grow, change the table's metadata. When somebody
else does so first, they are done again on top of it, so the rows are computed once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from halocline.errors import ConflictError
from halocline.formats.delta.actions.action import Action
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration import alter, clustering
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.features import support
from halocline.formats.delta.features.approval import approve_change
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.schema.types import Struct
from halocline.schema.visitor import nullable
from halocline.spark.types import input_schema
from halocline.spark.write.row_plan import plan_rows
from halocline.table.delta import schema_merge
from halocline.table.delta.new_table import check_reserved, spelt
from halocline.table.delta.opened import Opened
from halocline.table.delta.row_changes import inserted
from halocline.table.delta.row_commit import check_removable
from halocline.table.delta.row_counts import figures
from halocline.table.delta.row_files import RowFiles
from halocline.table.delta.write_request import SchemaMode, WriteRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_TRIES: Final = 50
_TO_REPEAT: Final = ("CONCURRENT_METADATA_CHANGE", "CONCURRENT_PROTOCOL_CHANGE", "CONCURRENT_TRANSACTION")


def target_state(
    table: Opened,
    rows: Struct,
    snapshot: Snapshot,
    schema_mode: SchemaMode | None,
    partition_by: Sequence[str] | None = None,
) -> TableConfiguration:
    """What the table is going to be, given the columns of rows, once everybody who must be asked has agreed."""
    state = snapshot.configuration
    upgrade = table.settings.auto_upgrade
    if schema_mode == "merge":
        state = schema_merge.grown(state, rows, version=snapshot.version + 1, auto_upgrade=upgrade, table=table.url)
    elif schema_mode == "overwrite":
        schema = nullable(rows)
        ready = support.prepared_for(state, schema, auto_upgrade=upgrade, table=table.url)
        partitions = None if partition_by is None else spelt(schema, partition_by, "partition")
        state = alter.replace_schema(ready, schema, partitions)
        clustering.check_clustering_kept(state.schema, snapshot.domains.get(clustering.DOMAIN), table.url)
    if schema_mode is not None:
        check_reserved(state.schema, state.metadata.configuration)
    approve_change(snapshot.configuration, state, table.approve, asked=None if upgrade else frozenset())
    return state


def write(table: Opened, df: DataFrame, asked: WriteRequest) -> int:
    """Makes attempts until one is committed, or others have come first in a way that matters; returns the version."""
    input_schema.checked_frame(df)
    for _ in range(_MOST_TRIES):
        try:
            return _attempt(table, df, asked)
        except _Again as again:
            last = again.error
    raise last


class _Again(Exception):
    """Somebody else was first, and the write can be done on top of it."""

    def __init__(self, error: ConflictError) -> None:
        super().__init__(str(error))
        self.error = error


def _attempt(table: Opened, df: DataFrame, asked: WriteRequest) -> int:
    spark, said, replacement = df.sparkSession, asked.said, asked.replacement
    snapshot = table.snapshot("write.append" if replacement is None else "write")
    transaction = table.transaction(snapshot, spark)
    if is_done(transaction, said):
        return snapshot.version
    if replacement is not None:
        check_removable(snapshot, "an overwrite")
    columns = input_schema.columns_of(df)
    state = target_state(table, columns, snapshot, asked.schema_mode, asked.partition_by)
    rules = [replacement.rule(spark, snapshot)] if replacement and replacement.where is not None else []
    rows = plan_rows(df, columns, state, table=table.url, further=rules, casting=asked.casting)
    with RowFiles(table.store, state, asked.layout) as files:
        adds = files.write(rows)
        actions: list[Action] = [*adds]
        metrics = figures(adds)
        if replacement is not None:
            removal = replacement.removal(spark, snapshot, transaction, adds, files)
            changes = inserted(spark, table.store, adds, files) if removal.is_recorded else []
            metrics = replacement.metrics(adds, removal, len(changes))
            actions += [*removal.actions, *changes]
        if not files.has_changes(transaction, actions) and said.txn is None:
            return snapshot.version
        try:
            return files.commit(
                transaction, actions, replace(said, parameters=asked.parameters(state), metrics=metrics)
            )
        except ConflictError as error:
            if error.condition in _TO_REPEAT and (files.changes_metadata(transaction) or said.txn is not None):
                raise _Again(error) from error
            raise


def is_done(transaction: Transaction, said: CommitDescription) -> bool:
    """Whether the table has what an application would write."""
    if said.txn is None:
        return False
    seen = transaction.txn_version(said.txn[0])
    return seen is not None and seen >= said.txn[1]

"""Writing rows: what a write is asked to do, what the table becomes, and attempts until one is committed.

A write adds rows, or puts them in place of all rows, of those that meet a condition, or of whole partitions. A
condition also binds the new rows: each must be one that the condition selects, so that doing the same overwrite twice
leaves the same table. Partitions are compared by value, not by the text in the log, which differs between writers.

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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from halocline.errors import ConflictError, InputError
from halocline.formats.delta.actions.action import Action, Add
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration import alter, clustering
from halocline.formats.delta.configuration.commit_rules import check_removable
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.features import support
from halocline.formats.delta.features.approval import approve_change
from halocline.formats.delta.log.live_files import from_adds
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.schema.arrow import arrow_type
from halocline.schema.types import Struct, decimal_of
from halocline.schema.visitor import nullable
from halocline.spark.scan.frames import session_zone
from halocline.spark.session.analysis import read_without_spark
from halocline.spark.types import input_schema
from halocline.spark.types.assignment import Casting
from halocline.spark.types.columns import blank_frame, quoted
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.types.partition_values import PartitionColumn, PartitionValues, typed_scalar
from halocline.spark.write.expressions import checked_condition
from halocline.spark.write.row_plan import plan_rows
from halocline.spark.write.rules import RowRule
from halocline.table.delta import schema_merge
from halocline.table.delta.new_table import check_reserved, spelt
from halocline.table.delta.opened import Opened
from halocline.table.delta.rows.changes import Changed, inserted, remove_rows, removed
from halocline.table.delta.rows.counts import figures
from halocline.table.delta.rows.files import Layout, RowFiles
from halocline.table.delta.rows.matches import is_about_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SchemaMode = Literal["merge", "overwrite"]
"""What a write may do to a table's columns."""

Txn = tuple[str, int]
"""An application and its own version of a write, so that the same write is not done twice."""

_MOST_TRIES: Final = 50
_TO_REPEAT: Final = ("CONCURRENT_METADATA_CHANGE", "CONCURRENT_PROTOCOL_CHANGE", "CONCURRENT_TRANSACTION")
_MOST_PARTITIONS: Final = 200


@dataclass(frozen=True)
class WriteRequest:
    """What a write is asked to do, which makes sense as a whole.

    Attributes:
        said: What the commit says of itself, as far as it is known before rows are.
        layout: How the rows are laid out.
        schema_mode: What may become of the table's columns.
        partition_by: The new partition columns, if columns are overwritten.
        casting: What may become of values that have another type than their column.
        replacement: What the rows come in place of; None if they are added.
    """

    said: CommitDescription
    layout: Layout
    schema_mode: SchemaMode | None = None
    partition_by: Sequence[str] | None = None
    casting: Casting = Casting.WIDENING
    replacement: Replacement | None = None

    def __post_init__(self) -> None:
        if not self.layout.data_change and self.schema_mode is not None:
            raise InputError(
                "rows that stay what they are do not change the table's columns",
                sides={"given": f"data_change=False, schema_mode={self.schema_mode!r}"},
                next_step="Leave one of them out.",
            )
        if self.partition_by is not None and self.schema_mode != "overwrite":
            raise InputError(
                "partition columns change only when the schema is overwritten",
                sides={"given": f"partition_by={list(self.partition_by)}", "needed": "schema_mode='overwrite'"},
            )
        replaced = self.replacement or Replacement()
        chosen = {
            "where": replaced.where is not None,
            "partitions='dynamic'": replaced.dynamic,
            "schema_mode='overwrite'": self.schema_mode == "overwrite",
        }
        if sum(chosen.values()) > 1:
            both = [name for name, given in chosen.items() if given]
            raise InputError(
                f"{both[0]} and {both[1]} contradict each other",
                sides={"given": ", ".join(both), "possible": "one of them"},
                next_step="Leave one of them out.",
            )

    def parameters(self, state: TableConfiguration) -> dict[str, Any]:
        """What the history says of the write, given what the table is going to be."""
        growth = {"merge": {"canMergeSchema": True}, "overwrite": {"canOverwriteSchema": True}}
        return {
            "mode": "Append" if self.replacement is None else "Overwrite",
            "partitionBy": list(state.partition_columns),
            **(growth[self.schema_mode] if self.schema_mode else {}),
            **(self.replacement.parameters if self.replacement else {}),
        }


@dataclass(frozen=True)
class Replacement:
    """What an overwrite puts its rows in place of.

    Attributes:
        where: The condition that rows to be replaced meet; None for all rows.
        dynamic: Whether exactly the partitions of the new rows are replaced.
    """

    where: str | None = None
    dynamic: bool = False

    def check_layout(self, layout: Layout, *, about_partitions: bool) -> None:
        """Makes sure that rows which only move come in place of whole files: others would be written again."""
        if self.where is not None and not (layout.data_change or about_partitions):
            raise InputError(
                "rows that stay what they are replace whole partitions, not rows by their values",
                sides={"given": "data_change=False", "condition": self.where},
                next_step="Leave data_change out, or replace by partition columns only.",
            )

    @property
    def parameters(self) -> dict[str, Any]:
        """The details that the commit records."""
        where = {} if self.where is None else {"predicate": self.where}
        return where | ({"isDynamicPartitionOverwrite": True} if self.dynamic else {})

    def rule(self, spark: SparkSession, snapshot: Snapshot) -> RowRule:
        """Every new row must be one that the condition selects."""
        assert self.where is not None
        checked_condition(blank_frame(spark, snapshot.schema), self.where, snapshot.store.root)
        return RowRule(
            "the condition of the overwrite",
            self.where,
            message=f"a row does not meet the condition by which rows are replaced: {self.where}",
            next_step="Leave such rows out, or widen the condition.",
            sides=("condition", "row"),
        )

    def removal(
        self, spark: SparkSession, snapshot: Snapshot, transaction: Transaction, adds: Sequence[Add], files: RowFiles
    ) -> Changed:
        """What goes, noted as read."""
        if self.where is not None:
            self.check_layout(files.layout, about_partitions=is_about_partitions(spark, snapshot, self.where))
            return remove_rows(spark, snapshot, _candidates(spark, transaction, self.where), self.where, files)
        changes = files.layout.data_change
        return self.whole_files(session_zone(spark), snapshot, transaction, adds, data_change=changes)

    def whole_files(
        self, zone: str, snapshot: Snapshot, transaction: Transaction, adds: Sequence[Add], *, data_change: bool
    ) -> Changed:
        """What takes out all files, or those in the partitions of new ones; times without a zone are in this one."""
        gone = same_partitions(zone, snapshot, transaction, adds) if self.dynamic else transaction.files()
        return Changed(removed(gone, data_change=data_change))

    def metrics(self, adds: Sequence[Add], removal: Changed, inserted_files: int) -> dict[str, int]:
        """The figures that the commit records."""
        counts = {
            **figures([*adds, *removal.adds]),
            "numRemovedFiles": len(removal.removes),
            "numRemovedBytes": sum(each.size or 0 for each in removal.removes),
        }
        if self.where is None:
            return counts
        rows = {} if removal.deleted is None else {"numDeletedRows": removal.deleted}
        changes = len(removal.changes) + inserted_files
        return {**counts, **rows, "numCopiedRows": removal.rows, "numAddedChangeFiles": changes}


def _candidates(spark: SparkSession, transaction: Transaction, where: str) -> pa.Table:
    """The live files that may hold rows of a condition, noted as read.

    Spark has analysed the condition. One that only Spark understands prunes nothing.
    """
    try:
        return transaction.files(read_without_spark(spark, where))
    except InputError:
        return transaction.files()


def same_partitions(zone: str, snapshot: Snapshot, transaction: Transaction, adds: Sequence[Add]) -> pa.Table:
    """The live files in the partitions of new ones, noted as read."""
    if not snapshot.partition_columns:
        raise InputError(
            f"{snapshot.store.root} is not partitioned, so no partition of it can be replaced",
            sides={"asked for": "partitions='dynamic'", "table": "no partition columns"},
            next_step="Overwrite it whole, or by a condition.",
        )
    columns = FileLayout.of(snapshot.configuration).partition_keys
    new = PartitionValues(pa.Table.from_batches([from_adds(adds)]), columns, zone)
    written = {_equal(columns, row) for row in new.values}
    if not written:
        return snapshot.files().slice(0, 0)
    where = _predicate(columns, sorted(written, key=str)) if len(written) <= _MOST_PARTITIONS else None
    candidates = transaction.files(where)
    old = PartitionValues(candidates, columns, zone)
    met = pa.array([_equal(columns, row) in written for row in old.values], pa.bool_())
    return candidates.filter(met.take(pa.array(old.group_of))) if len(candidates) else candidates


def _equal(columns: Sequence[PartitionColumn], texts: Sequence[str | None]) -> tuple[str | None, ...]:
    """The texts of a partition, the same for values that Spark calls equal, however writers spell a number."""
    return tuple(text and _spelt(column, text) for column, text in zip(columns, texts, strict=True))


def _spelt(column: PartitionColumn, text: str) -> str:
    if column.type.name not in ("float", "double") and decimal_of(column.type) is None:
        return text
    value = typed_scalar(text, arrow_type(column.type)).as_py()
    # Both zeros are one number.
    return str(value + 0.0 if isinstance(value, float) else value)


def _predicate(columns: Sequence[PartitionColumn], partitions: Sequence[Sequence[str | None]]) -> str:
    """A condition that holds in these partitions, given the canonical text of each column."""
    conjunctions = (map(_test, columns, texts) for texts in partitions)
    return " OR ".join(f"({' AND '.join(tests)})" for tests in conjunctions)


def _test(column: PartitionColumn, text: str | None) -> str:
    name, type = quoted(column.name), column.type.name
    if text is None:
        return f"{name} IS NULL"
    if type in ("byte", "short", "integer", "long"):
        return f"{name} = {text}"
    if type == "date":
        return f"{name} = DATE '{text}'"
    if type == "string" and not set(text) & {"'", "\\"}:
        return f"{name} = '{text}'"
    return "TRUE"


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
        kept = [name for name in state.partition_columns if schema.get(name) is not None]
        partitions = spelt(schema, kept if partition_by is None else partition_by, "partition")
        state = alter.replace_schema(ready, schema, partitions)
        clustering.check_clustering_kept(state.schema, snapshot.domains.get(clustering.DOMAIN), table.url)
    if schema_mode is not None:
        check_reserved(state.schema, state.metadata.configuration)
    approve_change(snapshot.configuration, state, table.approve, asked=None if upgrade else frozenset())
    return state


def write(table: Opened, df: DataFrame, asked: WriteRequest) -> int:
    """Makes attempts until one is committed, or others have come first in a way that matters; returns the version."""
    input_schema.checked_frame(df, takes_arrow=True)
    for _ in range(_MOST_TRIES):
        done = _attempt(table, df, asked)
        if isinstance(done, int):
            return done
        conflict = done
    raise conflict


def _attempt(table: Opened, df: DataFrame, asked: WriteRequest) -> int | ConflictError:
    """The version that has the rows, or a conflict with somebody who was first, which leaves room for another try."""
    spark, said, replacement = df.sparkSession, asked.said, asked.replacement
    snapshot = table.snapshot("write.append" if replacement is None else "write")
    transaction = table.transaction(snapshot, spark)
    if is_done(transaction, said):
        return snapshot.version
    if replacement is not None:
        check_removable(snapshot.configuration, "an overwrite", table.url)
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
                return error
            raise


def is_done(transaction: Transaction, said: CommitDescription) -> bool:
    """Whether the table has what an application would write."""
    if said.txn is None:
        return False
    seen = transaction.txn_version(said.txn[0])
    return seen is not None and seen >= said.txn[1]

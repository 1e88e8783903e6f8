"""What a write is asked to do: add rows, or put them in place of all, of those that meet a condition, or of partitions.

A condition also binds the new rows: each must be one that the condition selects, so that doing the same overwrite twice
leaves the same table. Partitions are compared by value, not by the text in the log, which differs between writers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from halocline.errors import InputError
from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.log.live_files import from_adds
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.frames import session_zone
from halocline.spark.scan.scan import FileLayout
from halocline.spark.types.assignment import Casting
from halocline.spark.types.columns import blank_frame, quoted
from halocline.spark.types.partition_values import PartitionColumn, PartitionValues
from halocline.spark.write.expressions import checked_condition
from halocline.spark.write.rules import RowRule
from halocline.table.delta.row_changes import Changed, remove_rows, removed
from halocline.table.delta.row_counts import figures
from halocline.table.delta.row_files import Layout, RowFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SchemaMode = Literal["merge", "overwrite"]
"""What a write may do to a table's columns."""

Txn = tuple[str, int]
"""An application and its own version of a write, so that the same write is not done twice."""

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
            return remove_rows(spark, snapshot, _candidates(transaction, self.where), self.where, files)
        gone = (
            same_partitions(session_zone(spark), snapshot, transaction, adds) if self.dynamic else transaction.files()
        )
        return Changed(removed(gone, data_change=files.layout.data_change))

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


def _candidates(transaction: Transaction, where: str) -> pa.Table:
    """The live files that may hold rows of a condition, noted as read.

    Spark has analysed the condition. One that only Spark understands prunes nothing.
    """
    try:
        return transaction.files(where)
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
    new = PartitionValues(pa.Table.from_batches([from_adds([(add.path, add) for add in adds])]), columns, zone)
    written = set(new.values)
    if not written:
        return snapshot.files().slice(0, 0)
    where = _predicate(columns, sorted(written, key=str)) if len(written) <= _MOST_PARTITIONS else None
    candidates = transaction.files(where)
    old = PartitionValues(candidates, columns, zone)
    met = pa.array([row in written for row in old.values], pa.bool_())
    return candidates.filter(met.take(pa.array(old.group_of))) if len(candidates) else candidates


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

"""What an overwrite puts its rows in place of: all rows, those that meet a condition, or whole partitions.

A condition also binds the new rows: each must be one that the condition selects, so that doing the same overwrite twice
leaves the same table. Partitions are compared by value, not by the text in the log, which differs between writers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from halocline.errors import InputError
from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.commit.transaction import Transaction, system_clock
from halocline.formats.delta.log.file_actions import removes_from
from halocline.formats.delta.log.live_files import from_adds
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.frames import session_zone
from halocline.spark.types.columns import blank_frame, quoted
from halocline.spark.types.partition_values import PartitionValues
from halocline.spark.write.expressions import checked_condition
from halocline.spark.write.rules import RowRule
from halocline.table.delta.matches import partition_columns
from halocline.table.delta.removal import Removal, remove_rows
from halocline.table.delta.row_files import Layout, RowFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SchemaMode = Literal["merge", "overwrite"]
"""What a write may do to a table's columns."""

_MOST_PARTITIONS: Final = 200


@dataclass(frozen=True)
class Replacement:
    """What an overwrite puts its rows in place of.

    Attributes:
        where: The condition that rows to be replaced meet; None for all rows.
        dynamic: Whether exactly the partitions of the new rows are replaced.
        schema_mode: What becomes of the table's columns.
        partition_by: The new partition columns, if columns are replaced, too.
        layout: How the rows are laid out.
    """

    where: str | None
    dynamic: bool
    schema_mode: SchemaMode | None
    partition_by: Sequence[str] | None
    layout: Layout = field(default_factory=Layout)

    @staticmethod
    def asked(
        where: str | None,
        partitions: str,
        schema_mode: SchemaMode | None,
        partition_by: Sequence[str] | None,
        layout: Layout,
    ) -> Replacement:
        """The replacement that a user asks for.

        Raises:
            InputError: The arguments contradict each other.
        """
        _check_together(where, partitions, schema_mode, partition_by)
        layout.check(schema_mode)
        return Replacement(where, partitions == "dynamic", schema_mode, partition_by, layout)

    @property
    def parameters(self) -> dict[str, Any]:
        """The details that the commit records."""
        where = {} if self.where is None else {"predicate": self.where}
        return where | ({"isDynamicPartitionOverwrite": True} if self.dynamic else {})

    def rule(self, spark: SparkSession, snapshot: Snapshot) -> RowRule:
        """Every new row must be one that the condition selects.

        Raises:
            InputError: It is no condition over the table's columns.
        """
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
        self,
        spark: SparkSession,
        snapshot: Snapshot,
        transaction: Transaction,
        adds: Sequence[Add],
        files: RowFiles,
    ) -> Removal:
        """What goes, noted as read."""
        if self.where is not None:
            return remove_rows(spark, snapshot, _candidates(transaction, self.where), self.where, files)
        gone = (
            same_partitions(session_zone(spark), snapshot, transaction, adds) if self.dynamic else transaction.files()
        )
        return Removal(list(removes_from(gone, timestamp_ms=system_clock(), data_change=self.layout.data_change)))

    def metrics(self, figures: Mapping[str, int], removal: Removal, inserted_files: int) -> dict[str, int]:
        """The figures that the commit records."""
        removed = {"numRemovedFiles": len(removal.removes), "numRemovedBytes": removal.removed_bytes}
        if self.where is None:
            return {**figures, **removed}
        rows = {} if removal.deleted_rows is None else {"numDeletedRows": removal.deleted_rows}
        return {
            **figures,
            **removed,
            **rows,
            "numCopiedRows": removal.copied_rows,
            "numAddedChangeFiles": len(removal.changes) + inserted_files,
        }


def _candidates(transaction: Transaction, where: str) -> pa.Table:
    """The live files that may hold rows of a condition, noted as read.

    Spark has analysed the condition. One that only Spark understands prunes nothing.
    """
    try:
        return transaction.files(where)
    except InputError:
        return transaction.files()


def same_partitions(zone: str, snapshot: Snapshot, transaction: Transaction, adds: Sequence[Add]) -> pa.Table:
    """The live files in the partitions of new ones, noted as read.

    Raises:
        InputError: The table is not partitioned.
    """
    if not snapshot.partition_columns:
        raise InputError(
            f"{snapshot.store.root} is not partitioned, so no partition of it can be replaced",
            sides={"asked for": "partitions='dynamic'", "table": "no partition columns"},
            next_step="Overwrite it whole, or by a condition.",
        )
    columns = partition_columns(snapshot)
    new = PartitionValues(pa.Table.from_batches([from_adds([(add.path, add) for add in adds])]), columns, zone)
    wanted = set(new.values)
    if len(wanted) <= _MOST_PARTITIONS:
        texts = (dict(zip([each.name for each in columns], row, strict=True)) for row in sorted(wanted, key=str))
        where = _predicate(texts, {each.name: each.type.name for each in columns})
    else:
        where = None
    if not wanted:
        return snapshot.files().slice(0, 0)
    found = transaction.files(where)
    old = PartitionValues(found, columns, zone)
    met = pa.array([row in wanted for row in old.values], pa.bool_())
    return found.filter(met.take(pa.array(old.group_of))) if len(found) else found


def _predicate(values: Iterable[Mapping[str, str | None]], types: Mapping[str, str]) -> str | None:
    """A condition that holds in exactly these partitions, or None if it cannot be written shortly.

    Args:
        values: For each partition, the canonical text of each column.
        types: The type of each column.
    """
    parts = []
    for each in values:
        tests = [_test(name, text, types[name]) for name, text in each.items()]
        parts.append("(" + " AND ".join(tests) + ")")
    return " OR ".join(parts) if parts else None


def _test(name: str, text: str | None, type: str) -> str:
    column = quoted(name)
    if text is None:
        return f"{column} IS NULL"
    if type in ("byte", "short", "integer", "long"):
        return f"{column} = {text}"
    if type == "date":
        return f"{column} = DATE '{text}'"
    if type == "string" and not set(text) & {"'", "\\"}:
        return f"{column} = '{text}'"
    return "TRUE"


def _check_together(
    where: str | None, partitions: str, schema_mode: str | None, partition_by: Sequence[str] | None
) -> None:
    """Refuses arguments that say two things about what is replaced."""
    chosen = {
        "where": where is not None,
        "partitions='dynamic'": partitions == "dynamic",
        "schema_mode='overwrite'": schema_mode == "overwrite",
    }
    if sum(chosen.values()) > 1:
        both = [name for name, given in chosen.items() if given]
        raise InputError(
            f"{both[0]} and {both[1]} contradict each other",
            sides={"given": ", ".join(both), "possible": "one of them"},
            next_step="Leave one of them out.",
        )
    if partition_by is not None and schema_mode != "overwrite":
        raise InputError(
            "partition columns change only when the schema is overwritten",
            sides={"given": f"partition_by={list(partition_by)}", "needed": "schema_mode='overwrite'"},
        )

"""Writing rows: append them, or put them in place of others.

Every write goes the same way. The newest version is opened behind the gate; the rows are fitted to the table's columns,
and what cannot fit is refused before a file exists; Spark computes, checks and writes them in one pass; and one
transaction commits the files. If anything fails before the commit, the files are deleted again: what a failed write
leaves behind is nothing.

A table's protocol stays as it is unless the user allows writes to raise it (`halocline.protocol.autoUpgrade`).

Writes that give out numbers of an identity column, or let the schema grow, change the table's metadata. When somebody
else does so first, they are done again on top of it, so the rows are computed once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from halocline.errors import ConflictError, ConstraintError, InputError
from halocline.formats.delta.actions.action import Action, Add
from halocline.formats.delta.commit.provenance import engine_info
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration import alter, properties
from halocline.formats.delta.configuration.row_tracking import PRESERVED_TAG
from halocline.formats.delta.configuration.table_state import TableState
from halocline.formats.delta.features import support
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.frames import session_zone
from halocline.spark.types import input_schema
from halocline.spark.write.row_plan import Incoming, incoming, outside
from halocline.spark.write.rules import Rule
from halocline.table.admission import admit, state_of
from halocline.table.delta import schema_merge
from halocline.table.delta.new_table import CLUSTERING, check_clustering_kept, check_reserved, spelt
from halocline.table.delta.replacement import Replacement, SchemaMode
from halocline.table.delta.row_changes import inserted
from halocline.table.delta.row_files import RowFiles
from halocline.table.opening import Opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Txn = tuple[str, int]
"""An application and its own version of a write, so that the same write is not done twice."""

_MOST_TRIES: Final = 50
_MOST_PARTITIONS: Final = 200
_TO_REPEAT: Final = ("CONCURRENT_METADATA_CHANGE", "CONCURRENT_PROTOCOL_CHANGE", "CONCURRENT_TRANSACTION")


class Writing(Opened):
    """The part of `Table` that writes rows."""

    def append(
        self,
        df: DataFrame,
        *,
        schema_mode: Literal["merge"] | None = None,
        txn: Txn | None = None,
        user_metadata: str | None = None,
    ) -> int:
        """Adds rows, and returns the version that has them.

        Args:
            df: The rows. Columns are found by name; those left out get what the table says.
            schema_mode: `merge` lets the table grow by the columns that it lacks.
            txn: An application and its own version. If the table has that version or a later one, nothing is done.
            user_metadata: A note for the history.

        Raises:
            SchemaError: The columns do not fit.
            ConstraintError: A row breaks a rule of the table; nothing was written.
            IncompatibleError: The release that acts may not write the table.
            ConflictError: Somebody else changed the table so that the rows no longer fit.

        Example:
            >>> Table.for_path("lake/orders", spark).append(df)  # doctest: +SKIP
            13
        """
        input_schema.checked_frame(df)
        _check_choice("schema_mode", schema_mode, (None, "merge"))
        return _repeated(lambda: self._append(df, schema_mode, txn, user_metadata))

    def overwrite(
        self,
        df: DataFrame,
        *,
        where: str | None = None,
        partitions: Literal["static", "dynamic"] = "static",
        schema_mode: SchemaMode | None = None,
        partition_by: Sequence[str] | None = None,
        txn: Txn | None = None,
        user_metadata: str | None = None,
    ) -> int:
        """Puts rows in place of others, and returns the version that has them.

        Args:
            df: The new rows.
            where: Replace the rows that meet this condition, and no others; every new row must meet it, too. All rows
                are replaced without one.
            partitions: `dynamic` replaces exactly the partitions that the new rows are in.
            schema_mode: `merge` lets the table grow; `overwrite` gives it the columns of the rows.
            partition_by: With `schema_mode="overwrite"`, the new partition columns; they stay if left out.
            txn: An application and its own version. If the table has that version or a later one, nothing is done.
            user_metadata: A note for the history.

        Raises:
            SchemaError: The columns do not fit.
            ConstraintError: A row breaks a rule of the table, or does not meet the condition; nothing was written.
            InputError: The table only takes new rows, or the arguments contradict each other.
            IncompatibleError: The release that acts may not write the table.
            ConflictError: Somebody else changed what this would have replaced.

        Example:
            >>> Table.for_path("lake/orders", spark).overwrite(df, where="day = '2026-11-01'")  # doctest: +SKIP
            14
        """
        input_schema.checked_frame(df)
        _check_choice("schema_mode", schema_mode, (None, "merge", "overwrite"))
        _check_choice("partitions", partitions, ("static", "dynamic"))
        plan = Replacement.asked(where, partitions, schema_mode, partition_by)
        return _repeated(lambda: self._overwrite(df, plan, txn, user_metadata))

    # ------------------------------------------------------------------ one attempt

    def _append(self, df: DataFrame, schema_mode: SchemaMode | None, txn: Txn | None, user_metadata: str | None) -> int:
        snapshot = self.snapshot("write.append")
        transaction = _begun(snapshot, df)
        if _is_done(transaction, txn):
            return snapshot.version
        state = self._target(df, snapshot, schema_mode)
        rows = incoming(df, state, table=self.url)
        with RowFiles(self.store, state) as files:
            adds = files.write(rows)
            if not files.actions(adds) and txn is None:
                return snapshot.version
            parameters = _parameters("Append", state, schema_mode)
            return _committed(files, transaction, adds, parameters, files.figures(adds), txn, user_metadata)

    def _overwrite(self, df: DataFrame, plan: Replacement, txn: Txn | None, user_metadata: str | None) -> int:
        snapshot = self.snapshot("write")
        transaction = _begun(snapshot, df)
        if _is_done(transaction, txn):
            return snapshot.version
        _check_removable(snapshot)
        spark = df.sparkSession
        state = self._target(df, snapshot, plan.schema_mode, plan.partition_by)
        further = [plan.rule(spark, snapshot)] if plan.where is not None else []
        rows = incoming(df, state, table=self.url, further=further)
        with RowFiles(self.store, state) as files:
            adds = _written(files, rows, plan)
            removal = plan.removal(spark, snapshot, transaction, adds, files)
            changes = inserted(spark, self.store, state, adds, files) if removal.is_recorded else []
            parameters = {**_parameters("Overwrite", state, plan.schema_mode), **plan.parameters}
            metrics = plan.metrics(files.figures([*adds, *removal.adds]), removal, len(changes))
            tags = {PRESERVED_TAG: "true"} if files.identities().names and removal.adds else None
            actions: list[Action] = [*adds, *removal.actions, *changes]
            if not files.actions(actions) and txn is None:
                return snapshot.version
            return _committed(files, transaction, actions, parameters, metrics, txn, user_metadata, tags)

    def _target(
        self,
        df: DataFrame,
        snapshot: Snapshot,
        schema_mode: SchemaMode | None,
        partition_by: Sequence[str] | None = None,
    ) -> TableState:
        """What the table is going to be, once everybody who must be asked has agreed."""
        state = state_of(snapshot)
        rows = input_schema.columns_of(df)
        upgrade = self.settings.auto_upgrade
        if schema_mode == "merge":
            state = schema_merge.grown(state, rows, version=snapshot.version + 1, auto_upgrade=upgrade, table=self.url)
        elif schema_mode == "overwrite":
            schema = input_schema.nullable(rows)
            ready = support.prepared_for(state, schema, auto_upgrade=upgrade, table=self.url)
            partitions = None if partition_by is None else spelt(schema, partition_by, "partition")
            state = alter.replace_schema(ready, schema, partitions)
            check_clustering_kept(state.schema, snapshot.domains.get(CLUSTERING), self.url)
        if schema_mode is not None:
            check_reserved(state.schema, state.metadata.configuration)
        admit(self.url, snapshot.protocol, state)
        return state


class _Again(Exception):
    """Somebody else was first, and the write can be done on top of it."""

    def __init__(self, error: ConflictError) -> None:
        super().__init__(str(error))
        self.error = error


def _repeated(attempt: Callable[[], int]) -> int:
    for _ in range(_MOST_TRIES):
        try:
            return attempt()
        except _Again as again:
            last = again.error
    raise last


def _committed(
    files: RowFiles,
    transaction: Transaction,
    actions: Sequence[Action],
    parameters: Mapping[str, Any],
    metrics: Mapping[str, int],
    txn: Txn | None,
    user_metadata: str | None,
    tags: Mapping[str, str] | None = None,
) -> int:
    try:
        return files.commit(
            transaction,
            actions,
            "WRITE",
            parameters,
            metrics=metrics,
            user_metadata=user_metadata,
            txn=txn,
            tags=tags,
        )
    except ConflictError as error:
        if error.condition in _TO_REPEAT and (files.changes_metadata or txn is not None):
            raise _Again(error) from error
        raise


def _written(files: RowFiles, rows: Incoming, plan: Replacement) -> list[Add]:
    try:
        return files.write(rows)
    except ConstraintError as error:
        if plan.where is None:
            raise
        raise outside(error, Rule("", plan.where), plan.where) from None


def _begun(snapshot: Snapshot, df: DataFrame) -> Transaction:
    spark = df.sparkSession
    return Transaction(snapshot, engine=engine_info(spark.version), timezone=session_zone(spark))


def _is_done(transaction: Transaction, txn: Txn | None) -> bool:
    if txn is None:
        return False
    if not (isinstance(txn, tuple) and len(txn) == 2 and isinstance(txn[0], str) and isinstance(txn[1], int)):
        raise InputError(
            "a transaction is an application and its version",
            sides={"given": repr(txn)[:80], "expected": "('nightly-load', 42)"},
        )
    seen = transaction.txn_version(txn[0])
    return seen is not None and seen >= txn[1]


def _parameters(mode: str, state: TableState, schema_mode: SchemaMode | None) -> dict[str, Any]:
    growth = {"merge": {"canMergeSchema": True}, "overwrite": {"canOverwriteSchema": True}}
    partitions = list(state.metadata.partition_columns)
    return {"mode": mode, "partitionBy": partitions, **(growth[schema_mode] if schema_mode else {})}


def _check_removable(snapshot: Snapshot) -> None:
    if snapshot.protocol.supports("appendOnly") and properties.flag(snapshot.configuration, "delta.appendOnly"):
        raise InputError(
            f"{snapshot.store.root} is append-only: rows cannot be replaced",
            condition="TABLE_APPEND_ONLY",
            sides={"table": "delta.appendOnly=true", "asked for": "an overwrite"},
            next_step="Append instead, or set delta.appendOnly=false on the table first.",
        )


def _check_choice(name: str, value: Any, allowed: Sequence[Any]) -> None:
    if value not in allowed:
        raise InputError(
            f"{name} cannot be {value!r}", sides={"given": repr(value), "allowed": ", ".join(map(repr, allowed))}
        )

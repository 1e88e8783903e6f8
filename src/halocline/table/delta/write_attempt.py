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

from collections.abc import Callable, Sequence
from typing import Any, Final

from halocline.errors import ConflictError, InputError
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
from halocline.spark.types.assignment import Casting
from halocline.table.delta import schema_merge
from halocline.table.delta.new_table import check_reserved, spelt
from halocline.table.delta.opened import Opened
from halocline.table.delta.replacement import SchemaMode
from halocline.table.delta.row_files import RowFiles

Txn = tuple[str, int]
"""An application and its own version of a write, so that the same write is not done twice."""

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


class _Again(Exception):
    """Somebody else was first, and the write can be done on top of it."""

    def __init__(self, error: ConflictError) -> None:
        super().__init__(str(error))
        self.error = error


def repeated(attempt: Callable[[], int]) -> int:
    """Makes an attempt, again and again where others came first and that changes nothing."""
    for _ in range(_MOST_TRIES):
        try:
            return attempt()
        except _Again as again:
            last = again.error
    raise last


def committed(files: RowFiles, transaction: Transaction, actions: Sequence[Action], said: CommitDescription) -> int:
    """Commits a write.

    Raises:
        ConflictError: Others came first, and the rows no longer fit.
    """
    try:
        return files.commit(transaction, actions, said)
    except ConflictError as error:
        if error.condition in _TO_REPEAT and (files.changes_metadata(transaction) or said.txn is not None):
            raise _Again(error) from error
        raise


def description(txn: Txn | None, user_metadata: str | None) -> CommitDescription:
    """What a write says about itself before anything is known of its rows.

    Raises:
        InputError: What is given is no transaction of an application.
    """
    if txn is None or (
        isinstance(txn, tuple) and len(txn) == 2 and isinstance(txn[0], str) and isinstance(txn[1], int)
    ):
        return CommitDescription("WRITE", txn=txn, user_metadata=user_metadata)
    raise InputError(
        "a transaction is an application and its version",
        sides={"given": repr(txn)[:80], "expected": "('nightly-load', 42)"},
    )


def is_done(transaction: Transaction, said: CommitDescription) -> bool:
    """Whether the table has what an application would write."""
    if said.txn is None:
        return False
    seen = transaction.txn_version(said.txn[0])
    return seen is not None and seen >= said.txn[1]


def parameters_of(mode: str, state: TableConfiguration, schema_mode: SchemaMode | None) -> dict[str, Any]:
    """What the history says of a write."""
    growth = {"merge": {"canMergeSchema": True}, "overwrite": {"canOverwriteSchema": True}}
    partitions = list(state.metadata.partition_columns)
    return {"mode": mode, "partitionBy": partitions, **(growth[schema_mode] if schema_mode else {})}


def casting_of(cast: str | None) -> Casting:
    """What may become of values that have another type than their column.

    Raises:
        InputError: There is no such way to cast.
    """
    check_choice("cast", cast, (None, "ansi"))
    return Casting.WIDENING if cast is None else Casting.ANSI


def check_choice(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Refuses a value that an argument cannot have.

    Raises:
        InputError: It is none of those allowed.
    """
    if value not in allowed:
        raise InputError(
            f"{name} cannot be {value!r}", sides={"given": repr(value), "allowed": ", ".join(map(repr, allowed))}
        )

"""What one commit may hold.

These rules need nothing but the actions and the table as it was and will be: at most one protocol and one metadata,
both in the first commit; one transaction per application, one change per domain, one add and one remove per path, and
never the same file taken away and added unchanged; partition values for exactly the partition columns; row counts
where a file has deleted rows; no rows taken from an append-only table.

Breaking one is the caller's mistake, so the error names the action. Nothing has been written when it is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from halocline.compat.protocol import Protocol
from halocline.errors import InputError
from halocline.formats.delta.actions.action import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Metadata,
    ProtocolAction,
    Remove,
    Txn,
    repeated,
)
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.actions.statistics import num_records
from halocline.formats.delta.configuration.column_mapping import physical_partition_columns
from halocline.formats.delta.configuration.table_configuration import TableConfiguration

_WRITABLE = (Add, Remove, Cdc, Txn, DomainMetadata, ProtocolAction, Metadata)


def without_repeated_transactions(actions: Iterable[Action]) -> tuple[Action, ...]:
    """The actions with each application's transaction once."""
    seen: dict[str, int] = {}
    kept: list[Action] = []
    for action in actions:
        if isinstance(action, Txn):
            if action.app_id in seen:
                if seen[action.app_id] != action.version:
                    versions = f"{seen[action.app_id]} and {action.version}"
                    raise _invalid(f"application {action.app_id!r} commits versions {versions} at once")
                continue
            seen[action.app_id] = action.version
        kept.append(action)
    return tuple(kept)


def check_no_duplicates(actions: Iterable[Action], locations: Locations) -> None:
    """Makes sure that no two actions speak about the same thing, however they spell its path."""
    actions = tuple(actions)
    for kind, key in ((ProtocolAction, "protocol"), (Metadata, "metaData")):
        if sum(isinstance(each, kind) for each in actions) > 1:
            raise _invalid(f"a commit holds at most one {key} action")
    if twice := repeated(each.domain for each in actions if isinstance(each, DomainMetadata)):
        raise _invalid(f"domain {twice!r} is set twice")
    added = _vectors((each for each in actions if isinstance(each, Add)), "added", locations)
    removed = _vectors((each for each in actions if isinstance(each, Remove)), "removed", locations)
    for path in added.keys() & removed.keys():
        if added[path] == removed[path]:
            raise _invalid(f"{path} is both added and removed, with the same deletion vector")


def check_first(actions: Iterable[Action]) -> None:
    """Makes sure that the commit can be a table's first."""
    kinds = {type(each) for each in actions}
    for kind, key in ((ProtocolAction, "protocol"), (Metadata, "metaData")):
        if kind not in kinds:
            raise _invalid(f"the first commit of a table needs a {key} action")


def check_actions(actions: Iterable[Action], protocol: Protocol, metadata: Metadata) -> None:
    """Makes sure that each action fits the table that the commit leaves."""
    columns = physical_partition_columns(metadata)
    for each in actions:
        if not isinstance(each, _WRITABLE):
            what = "provenance is written by the transaction itself" if isinstance(each, CommitInfo) else "unknown"
            raise _invalid(f"a {type(each).__name__} action cannot be committed: {what}")
        if isinstance(each, Add | Cdc) and each.partition_values.keys() != columns:
            raise InputError(
                f"{each.path} has partition values for other columns than the table is partitioned by",
                condition="COMMIT_INVALID",
                sides={"file": _names(each.partition_values), "table": _names(columns)},
            )
        if isinstance(each, Cdc) and each.data_change:
            raise _invalid(f"change data file {each.path} must have dataChange false")
        if isinstance(each, Add) and each.deletion_vector is not None:
            _check_vector(each, each.deletion_vector, protocol)


def check_appendable(actions: Iterable[Action], before: TableConfiguration, table: str) -> None:
    """Makes sure that no rows are taken from an append-only table; rearranging them is allowed."""
    for each in actions:
        if isinstance(each, Remove) and each.data_change:
            check_removable(before, f"to remove {each.path}", table)


def check_removable(state: TableConfiguration, asked: str, table: str) -> None:
    """Makes sure that rows may be taken from a table."""
    if state.protocol.supports("appendOnly") and state.properties.append_only:
        raise InputError(
            f"{table} is append-only: rows cannot be deleted or changed",
            condition="TABLE_APPEND_ONLY",
            sides={"table": "delta.appendOnly=true", "asked for": asked},
            next_step="Set delta.appendOnly=false on the table first.",
        )


def _check_vector(add: Add, vector: DeletionVector, protocol: Protocol) -> None:
    if not protocol.supports("deletionVectors"):
        raise InputError(
            f"{add.path} has a deletion vector, which the table does not support",
            condition="FEATURE_DEPENDENCY",
            sides={"table": str(protocol), "needed": "deletionVectors"},
            next_step="Enable delta.enableDeletionVectors on the table first.",
        )
    records = num_records(add.stats)
    if records is None or records < vector.cardinality:
        raise InputError(
            f"{add.path} has a deletion vector, so its statistics must tell its exact number of rows",
            condition="COMMIT_INVALID",
            sides={
                "deleted rows": str(vector.cardinality),
                "numRecords": "missing" if records is None else str(records),
            },
        )


def _vectors(files: Iterable[Add | Remove], word: str, locations: Locations) -> dict[str, str | None]:
    """The id of each file's deletion vector, by decoded path."""
    found: dict[str, str | None] = {}
    for file in files:
        path, vector = locations.decode(file.path), file.deletion_vector
        if path in found:
            raise _invalid(f"{path} is {word} twice")
        found[path] = None if vector is None else locations.vector_id(vector)
    return found


def _names(names: Iterable[str] | Mapping[str, object]) -> str:
    return ", ".join(sorted(names)) or "none"


def _invalid(message: str) -> InputError:
    return InputError(message, condition="COMMIT_INVALID", sides={"nothing written": "the commit was refused"})

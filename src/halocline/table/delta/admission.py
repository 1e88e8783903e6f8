"""Asking before a table asks more of others: the gatekeeper of the process is asked for every change of a table."""

from __future__ import annotations

from halocline.formats.delta.configuration.table_state import TableState
from halocline.formats.delta.features.approval import Approval, approve_change
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.table.delta.opened import Opened


def state_of(snapshot: Snapshot) -> TableState:
    """What a table is at a version."""
    return TableState(snapshot.metadata, snapshot.protocol)


def approved(
    table: Opened, before: Snapshot | None, after: TableState, *, asked: frozenset[str] | None = frozenset()
) -> Approval:
    """Asks whether a table may become what it is going to be.

    Args:
        table: The table.
        before: The table so far; None for a table that is being created.
        after: What the table is going to be.
        asked: The features that the user asked for; None if the change is about the protocol itself.

    Raises:
        InputError: The table would gain a feature that was not asked for.
        IncompatibleError: Somebody known would break.
        UnavailableError: Nobody can be asked right now.
    """
    state = None if before is None else state_of(before)
    return approve_change(state, after, table.approve, asked=asked)

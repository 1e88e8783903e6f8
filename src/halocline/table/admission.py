"""Asking before a table requires more of others.

Every commit that changes a protocol goes through `admit` first. It asks the gatekeeper of the process, which knows who
else uses the table; alone, without a fleet, it agrees to everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from halocline.formats.delta.configuration.table_state import TableState
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.table import gatekeeper
from halocline.table.gatekeeper import Change

if TYPE_CHECKING:
    from halocline.compat.protocol import Protocol


def state_of(snapshot: Snapshot) -> TableState:
    """What a table is at a version."""
    return TableState(snapshot.metadata, snapshot.protocol)


def admit(table: str, before: Protocol | None, after: TableState) -> str:
    """Asks whether a table may become what it is going to be; nobody is asked if its protocol stays.

    Args:
        table: The table's URL.
        before: The protocol so far; None for a table that is being created.
        after: What the table is going to be.

    Returns:
        Who was checked, for people; empty if nobody had to be.

    Raises:
        IncompatibleError: Somebody known would break.
        UnavailableError: Nobody can be asked right now.
    """
    if before == after.protocol:
        return ""
    return gatekeeper.current().admit(Change(table, before, after.protocol, after.enabled))

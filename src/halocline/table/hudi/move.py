"""Moving a Hudi table to another table version, and back.

A move is planned first: `plan_upgrade` and `plan_downgrade` tell what it does, whom it affects and from where on it
takes another move to go back, and change nothing. Before it is walked the gatekeeper is asked; it runs as an operation
of the fleet, under the table's lock, and in a moment without a write under way. Readers see a whole table all the
while; see `halocline.formats.hudi.move`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from halocline.errors import InputError, NotYetError
from halocline.formats.hudi.move.engine import GRACE_S, apply_move, finish_move
from halocline.formats.hudi.move.model import HudiMove
from halocline.formats.hudi.move.planning import plan_move
from halocline.table.hudi.opened import HudiOpened
from halocline.table.hudi.writing import table_lock
from halocline.table.opening import as_operation

_QUIET_S: Final = 60.0
"""How long a move waits for writes that are under way."""

_PAUSE_S: Final = 0.1


def plan_upgrade(table: HudiOpened, to: int) -> HudiMove:
    """Tells what it takes to move the table to a higher version. Changes nothing.

    Raises:
        InputError: There is no such version, or it is not higher.
        UnsupportedError: Something stands in the way; it is named.

    Example:
        >>> print(Table.for_path("lake/trips").plan_upgrade(8).explain())  # doctest: +SKIP
    """
    return _planned(table, to, up=True)


def plan_downgrade(table: HudiOpened, to: int) -> HudiMove:
    """Tells what it takes to move the table back to a lower version; see `plan_upgrade`."""
    return _planned(table, to, up=False)


@as_operation
def upgrade(table: HudiOpened, to: int, *, grace_s: float = GRACE_S) -> HudiMove:
    """Moves the table to a higher version, and returns what was done.

    Args:
        table: The table.
        to: The version, 8 or 9.
        grace_s: How long the old timeline stays for readers from before.

    Raises:
        ConflictError: Another writer was at work, or the rows would not be the same; the table is as it was.
        IncompatibleError: Somebody known could not use the table any more.
        NotYetError: There was no moment without a write under way.
        UnsupportedError: Something stands in the way; it is named.

    Example:
        >>> Table.for_path("lake/trips").upgrade(8).target.version  # doctest: +SKIP
        8
    """
    return _moved(table, lambda: plan_upgrade(table, to), grace_s)


@as_operation
def downgrade(table: HudiOpened, to: int, *, grace_s: float = GRACE_S) -> HudiMove:
    """Moves the table back to a lower version; see `upgrade`."""
    return _moved(table, lambda: plan_downgrade(table, to), grace_s)


@as_operation
def finish(table: HudiOpened, *, grace_s: float = GRACE_S) -> bool:
    """Deletes the timeline that a move has left for readers from before; whether nothing is left to delete.

    Args:
        table: The table.
        grace_s: How long it stays after the move.
    """
    table.snapshot("write.maintenance")
    return finish_move(table.store, lock=table_lock(table.store), grace_s=grace_s)


def _planned(table: HudiOpened, to: int, *, up: bool) -> HudiMove:
    table.snapshot()
    move = plan_move(table.store, to)
    if move.is_up is not up:
        raise InputError(
            f"{table.url} is at version {move.source.version}, and {to} is {'lower' if up else 'higher'}",
            sides={"asked for": f"{'upgrade' if up else 'downgrade'} to {to}", "table": str(move.source.version)},
            next_step=f"Use {'downgrade' if up else 'upgrade'}({to}).",
        )
    return move


def _moved(table: HudiOpened, planned: Callable[[], HudiMove], grace_s: float) -> HudiMove:
    """Walks a move in the first moment without a write under way, or gives up after a while."""
    end = time.monotonic() + _QUIET_S
    while True:
        try:
            move = planned()
            table.snapshot("write")
            table.approve(move.before, move.after)
            apply_move(table.store, move, lock=table_lock(table.store), grace_s=grace_s)
        except NotYetError:
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE_S)
        else:
            return move

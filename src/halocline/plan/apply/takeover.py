"""Taking a lake over from somebody whose lease ran out, and who may wake up again.

Whoever holds the lease fences off each plan that was *overtaken* before anything else is done. An entry in its journal
lets the journal refuse the older token. Then every table that was in the middle of its move gets a commit that changes
nothing: whoever was stopped immediately before its own commit loses to that one, has to ask for the lease before it
tries again, and is refused. So nothing that is read of these tables from here on is changed by an older holder.

The limit: a lock of a Hudi table that the older holder has taken must be given back, or expire, first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from halocline.errors import HaloclineError, NotFoundError, UnavailableError
from halocline.formats.base import TableFormat, formats_at
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.features.history_barrier import EMPTY_COMMIT
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.hudi.properties import write_again
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.transaction import IndexTransaction
from halocline.formats.log.gate import MAINTENANCE
from halocline.plan.apply.journal import MOVED, MOVING, TAKEN_OVER, Journal, home_of, kept_plan
from halocline.plan.apply.lease import RolloutLease
from halocline.plan.file import SavedPlan
from halocline.storage.base import Store
from halocline.table.hudi.writing import table_lock


@contextmanager
def holding_lake(lake: str, by: str, plan: str) -> Iterator[RolloutLease]:
    """Holds the lease of a lake for a block of work on a plan, with everybody fenced off who held it before.

    Raises:
        ConflictError: Somebody else holds it.
        UnavailableError: Somebody who held it before may be in the middle of a change that cannot be fenced off yet.
    """
    with RolloutLease(home_of(lake), by, plan) as lease:
        if lease.overtaken:
            for each in lease.overtaken:
                _fence_off(lake, each, lease)
            lease.forget_overtaken()
        yield lease


def fence_table(store: Store) -> None:
    """Commits to a table what changes nothing, so that every commit that was about to be put there loses to it."""
    for format in formats_at(store):
        match format:
            case TableFormat.DELTA:
                Transaction(Snapshot.load(store, operation=MAINTENANCE)).commit([], EMPTY_COMMIT)
            case TableFormat.HUDI:
                with table_lock(store):
                    write_again(store)
            case TableFormat.INDEX:
                IndexTransaction(IndexSnapshot.load(store, operation=MAINTENANCE)).commit([], EMPTY_COMMIT)


def _fence_off(lake: str, plan: str, lease: RolloutLease) -> None:
    journal = Journal.open(lake, plan, lease.by, lease.token)
    journal.write(TAKEN_OVER, subject=str(lease.token), detail=f"by {lease.by}, for plan {lease.plan}")
    try:
        saved = SavedPlan.decode(kept_plan(lake, plan), f"plan {plan}")
    except NotFoundError:
        return  # the plan is kept before anything of it is done
    for number, _ in enumerate(saved.plan.stages, 1):
        for name in sorted(journal.subjects(MOVING, number) - journal.subjects(MOVED, number)):
            try:
                fence_table(saved.store(name))
            except UnavailableError as error:
                raise UnavailableError(
                    f"whoever applied plan {plan} before may still be at work on {name}: {error.message}",
                    sides=error.sides,
                    next_step="Apply it again in a while, or end that process first.",
                ) from error
            except HaloclineError as error:
                error.add_note(f"{name} was in the middle of its move when the lease of plan {plan} ran out.")
                raise

"""Table services: what keeps a Hudi table fast to read without changing its rows.

They are operations of the fleet. File groups are merged and put together by tasks of Spark, one each; without a
session, and where no rows are needed, by this process. Cleaning and archiving hold the table's lock all the while.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from halocline.formats.hudi.maintain import archiving, cleaning, clustering, compaction
from halocline.formats.hudi.maintain.running import Runner, in_turn
from halocline.formats.hudi.timeline.instant import HudiInstant
from halocline.spark.write.hudi_services import in_spark_tasks
from halocline.table.hudi.opened import HudiOpened
from halocline.table.hudi.writing import ready, table_lock
from halocline.table.opening import as_operation


@as_operation
def compact(table: HudiOpened) -> tuple[HudiInstant, ...]:
    """Merges log files into base files, pending compactions first, and returns what was completed."""
    ready(table)
    return compaction.compact(table.store, runner=_runner(table), lock=table_lock(table.store))


@as_operation
def cluster(table: HudiOpened, *, sort_by: Sequence[str] = ()) -> HudiInstant | None:
    """Puts the rows of small file groups together, pending clusterings first; None if there is nothing to do.

    Args:
        table: The table.
        sort_by: The columns by which rows are sorted.
    """
    ready(table)
    return clustering.cluster(table.store, sort_by=sort_by, runner=_runner(table), lock=table_lock(table.store))


@as_operation
def cancel_clustering(table: HudiOpened, instant: str | int) -> HudiInstant:
    """Takes a clustering back that is pending, so that its file groups can be written to again; returns the rollback.

    Args:
        table: The table.
        instant: The instant of the clustering; `detail` names what is pending.

    Raises:
        ConflictError: Somebody is running it.
        NotFoundError: No clustering of that time is pending.
    """
    ready(table)
    return clustering.cancel_clustering(table.store, str(instant), lock=table_lock(table.store))


@as_operation
def clean(
    table: HudiOpened, *, policy: Literal["commits", "versions"] = "commits", keep: int = 10
) -> HudiInstant | None:
    """Deletes files that only older instants need; None if there is nothing to do.

    Args:
        table: The table.
        policy: What is counted: `commits`, or `versions` of each file group.
        keep: How many of them stay readable.
    """
    ready(table)
    chosen = cleaning.CleaningPolicy.COMMITS if policy == "commits" else cleaning.CleaningPolicy.VERSIONS
    with table_lock(table.store):
        return cleaning.clean(table.store, policy=chosen, keep=keep)


@as_operation
def archive(table: HudiOpened, *, keep: int = 20, at_most: int = 30) -> tuple[HudiInstant, ...]:
    """Moves old instants out of the active timeline, and returns them.

    Args:
        table: The table.
        keep: How many writes stay.
        at_most: From how many on anything is moved.
    """
    ready(table)
    with table_lock(table.store):
        return archiving.archive(table.store, keep=keep, at_most=at_most)


def _runner(table: HudiOpened) -> Runner:
    return in_turn if table.session is None else in_spark_tasks(table.session, table.store)

"""Upkeep of an index table that needs no task: files that nobody needs, whole partitions, and the log itself."""

from __future__ import annotations

import pyarrow as pa

from halocline.formats.index.maintain import log, partitions
from halocline.formats.index.maintain.log import LogRepair
from halocline.formats.index.maintain.purge import HOUR_MS, RETENTION_MS, Purged
from halocline.formats.index.maintain.purge import purge as purged
from halocline.storage import open_store
from halocline.table.index.opened import IndexOpened
from halocline.table.opening import as_operation, kept_ms

_MAINTENANCE = "write.maintenance"


@as_operation
def purge(
    table: IndexOpened,
    *,
    retention_hours: float = RETENTION_MS / HOUR_MS,
    dry_run: bool = True,
    allow_short_retention: bool = False,
) -> Purged:
    """Finds the splits and masks that no version within the retention needs and, unless it is a dry run, deletes them.

    Args:
        table: The table.
        retention_hours: How long files are kept that the table no longer has.
        dry_run: Whether to delete nothing and only tell what would go.
        allow_short_retention: Whether the retention may be shorter than a day.

    Raises:
        InputError: The retention is shorter than a day, and that was not allowed.
        NotFoundError: A live split is not where the log says; nothing was deleted.

    Example:
        >>> Table.for_path("lake/logs").purge().bytes  # doctest: +SKIP
        104857600
    """
    return purged(
        table.snapshot(_MAINTENANCE),
        retention_ms=kept_ms(retention_hours),
        dry_run=dry_run,
        allow_short_retention=allow_short_retention,
        now_ms=table.clock(),
    )


@as_operation
def drop_partitions(table: IndexOpened, query: str) -> int | None:
    """Takes the partitions out that a query names by partition columns alone; the version, None if there were none.

    Args:
        table: The table.
        query: Which partitions, in the query language.

    Raises:
        ConflictError: Somebody else changed one of the splits meanwhile.
        InputError: The query speaks of other columns, or of none.

    Example:
        >>> Table.for_path("lake/logs").drop_partitions("day:<2024-01-01")  # doctest: +SKIP
        42
    """
    return partitions.drop_partitions(table.snapshot("write"), query, now_ms=table.clock())[0]


@as_operation
def truncate_history(table: IndexOpened, *, dry_run: bool = True) -> tuple[str, ...]:
    """Forgets all versions before the newest one, and says which files of the log go.

    Args:
        table: The table.
        dry_run: Whether to delete nothing and only tell what would go.

    Example:
        >>> len(Table.for_path("lake/logs").truncate_history())  # doctest: +SKIP
        120
    """
    return log.truncate_history(table.snapshot(_MAINTENANCE), dry_run=dry_run)


def describe_log(table: IndexOpened) -> pa.Table:
    """Every action of the log, as an Arrow table.

    Example:
        >>> Table.for_path("lake/logs").describe_log().column_names[:3]  # doctest: +SKIP
        ['version', 'file', 'action']
    """
    return log.describe_log(table.snapshot().store)


@as_operation
def repair_log(table: IndexOpened, *, into: str | None = None, dry_run: bool = True) -> LogRepair:
    """Makes a damaged log readable from what is left of it, and says what is lost.

    Args:
        table: The table.
        into: Another place for the repaired log; beside the damaged one if not given.
        dry_run: Whether to write nothing and only tell.

    Raises:
        MalformedError: No metadata is left.

    Example:
        >>> Table.for_path("lake/logs").repair_log().problems  # doctest: +SKIP
        ()
    """
    return log.repair_log(table.store, into=None if into is None else open_store(into), dry_run=dry_run)

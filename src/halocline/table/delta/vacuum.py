"""Keeping a table's folder small: deleting files that no version within the retention needs.

What is needed is worked out by `halocline.formats.delta.maintain.vacuum`. Looking is the default; deleting takes
`dry_run=False`. No Spark session is needed.
"""

from __future__ import annotations

from halocline.formats.delta.maintain import vacuum
from halocline.formats.delta.maintain.vacuum import Vacuumed
from halocline.table.delta.opened import Opened
from halocline.table.opening import as_operation, kept_ms


@as_operation
def vacuum_files(
    table: Opened,
    retention_hours: float | None = None,
    dry_run: bool = True,
    *,
    enforce_retention: bool = True,
    lite: bool = False,
) -> Vacuumed:
    """Finds, and if asked deletes, the files that no version within the retention needs.

    Args:
        table: The table.
        retention_hours: How long removed files are kept; the table's `delta.deletedFileRetentionDuration` if not
            given.
        dry_run: Only look.
        enforce_retention: Refuse a shorter time than the table promises. Without it, readers of older versions
            and writers under way may lose files under their feet.
        lite: Delete only what the log says was removed, without listing the folder. Files of writes that failed stay.

    Raises:
        InputError: The time is shorter than the table promises (`RETENTION_TOO_SHORT`), or negative.
        IncompatibleError: The release that acts may not write the table, and so may not delete its files.
        UnsupportedError: The log no longer tells what a lite vacuum has to know (`VACUUM_LITE_IMPOSSIBLE`).

    Example:
        >>> Table.for_path("lake/orders").vacuum().bytes  # doctest: +SKIP
        1048576
    """
    return vacuum.vacuum(
        table.snapshot("write.maintenance"),
        retention_ms=None if retention_hours is None else kept_ms(retention_hours),
        dry_run=dry_run,
        allow_short_retention=not enforce_retention,
        lite=lite,
    )

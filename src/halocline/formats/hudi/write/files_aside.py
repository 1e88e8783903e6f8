"""Base files of tasks that may not count, put aside where no reader looks.

Readers of a Hudi table list its folders: a file of an instant that took effect counts, whatever the commit names, and
two of one file group make some readers refuse the table. But Spark runs a task more than once, where it speculates, and
where it takes an executor for dead that is only slow. An attempt that lost may be done with its file when the write has
been completed, and nobody can wait for the last one. So attempts put their files aside, below the folder of the
timeline, and whoever completes the write moves the files that count to where readers look. What comes later stays
aside, and is deleted by a later write through the data source.

Log files are not put aside: their number is only known where they are to lie. One that comes too late holds the same
changes once more, and readers merge them into one.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from halocline.errors import ConflictError, NotFoundError
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.names import BaseFile, parse_data_file
from halocline.formats.hudi.properties import FOLDER, read_properties
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write.markers import MarkerKind, put_marker
from halocline.storage.base import Store

_AT_ONCE: Final = 16

_ASIDE: Final = f"{FOLDER}/.aux/halocline_rows"


def path_aside(instant: str, path: str) -> str:
    """Where a file of a write is until it counts.

    Example:
        >>> path_aside("20250101000000000", "eu/a-0_0-1-2_20250101000000000.parquet")
        '.hoodie/.aux/halocline_rows/20250101000000000/eu/a-0_0-1-2_20250101000000000.parquet'
    """
    return f"{_ASIDE}/{instant}/{path}"


def move_into_place(store: Store, instant: str, paths: Iterable[str]) -> None:
    """Moves the base files that count to where readers look; until the write is completed, it can still be taken back.

    Args:
        store: Where the table lies.
        instant: The instant of the write.
        paths: The files that count; log files among them are where they are to be.

    Raises:
        ConflictError: Somebody has taken the write back, and its files with it.
    """

    def move(path: str) -> None:
        put_marker(store, instant, path, MarkerKind.CREATE)
        store.move(path_aside(instant, path), path)

    bases = [path for path in paths if isinstance(parse_data_file(path), BaseFile)]
    try:
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="halocline-move") as pool:
            for _ in pool.map(move, bases):
                pass
    except NotFoundError as error:
        raise ConflictError(
            f"{instant} of {store.root} was taken back while it was under way",
            condition="CONCURRENT_APPEND",
            sides={"this write": f"wrote {len(bases)} files", "found": error.message},
            next_step="Do the write once more; other writers took it for dead, since its heartbeat had stopped.",
        ) from None


def take_back_aside(store: Store, instant: str) -> None:
    """Deletes what was put aside for a write that is taken back."""
    store.delete_many([meta.path for meta in store.list(f"{_ASIDE}/{instant}")])


def forget_aside(store: Store) -> None:
    """Deletes what was put aside for writes that are not pending any more, by the timeline that the table has now."""
    # Looked for first: what a write puts aside that begins after the timeline is read must not be seen.
    found = [meta.path for meta in store.list(_ASIDE)]
    if not found:
        return
    # A write that a move of the table has overtaken knows another timeline, in which no later write is pending.
    config = HudiTableConfig.parse(read_properties(store).pairs, store.root)
    pending = {each.time for each in HudiTimeline.load(store, config).instants if not each.is_completed}
    store.delete_many([path for path in found if path.removeprefix(f"{_ASIDE}/").split("/")[0] not in pending])

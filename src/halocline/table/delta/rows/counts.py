"""How many rows files hold, by the log, and rows that were read counted against it before they become permanent.

The log knows how many rows a file holds, and how many of them are deleted. A file that was swapped or cut short shows
by another number. Whoever writes rows again compares, since afterwards the new files are the only truth left. The
limit: a file whose statistics do not say its rows cannot be checked, nor can one swapped for as many other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from halocline.errors import HaloclineError, MalformedError
from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.actions.statistics import all_live_rows, num_records, records_in
from halocline.spark.scan.footers import footers
from halocline.storage.base import Store

_SHOWN: Final = 5


def figures(adds: Sequence[Add]) -> dict[str, int]:
    """The figures that a commit records of the files it adds."""
    return {
        "numFiles": len(adds),
        "numOutputRows": sum(num_records(add.stats) or 0 for add in adds),
        "numOutputBytes": sum(add.size for add in adds),
    }


def check_rows(store: Store, files: pa.Table, found: int) -> None:
    """Makes sure that as many rows were read as the log says the files hold; those that differ are named."""
    expected = all_live_rows(files)
    if expected is None or expected == found:
        return
    raise MalformedError(
        f"files of {store.root} hold other rows than its log says, so they are not written again",
        sides={"log": f"{expected} rows", "files": f"{found} rows", "differ": _differing(store, files)},
        next_step="Restore the files from a backup, or read an earlier version of the table.",
    )


def _differing(store: Store, files: pa.Table) -> str:
    paths, sizes = files["path"].to_pylist(), files["size"].to_pylist()
    names: list[str] = []
    for path, size, records in zip(paths, sizes, records_in(files), strict=True):
        try:
            (footer,) = footers(store, [(path, size)])
        except HaloclineError as error:
            names.append(f"{path} ({error.message})")
        else:
            names += [] if footer.num_rows == records else [f"{path} ({footer.num_rows} rows, not {records})"]
    return ", ".join(names[:_SHOWN]) or "none by its footer"

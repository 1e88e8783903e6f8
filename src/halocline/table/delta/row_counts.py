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
from halocline.formats.delta.actions.statistics import num_records
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


def records_in(files: pa.Table) -> list[int | None]:
    """How many rows each file holds, deleted ones included; None where its statistics do not say."""
    return [num_records(stats) for stats in files["stats"].to_pylist()]


def live_rows(files: pa.Table) -> list[int | None]:
    """How many rows each file holds that are not deleted; None where its statistics do not say."""
    vectors = files["deletion_vector"].to_pylist()
    deleted = (0 if vector is None else vector["cardinality"] for vector in vectors)
    return [None if count is None else count - gone for count, gone in zip(records_in(files), deleted, strict=True)]


def all_live_rows(files: pa.Table) -> int | None:
    """How many rows files hold together that are not deleted; None where the log does not say."""
    counts = live_rows(files)
    return None if None in counts else sum(filter(None, counts))


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

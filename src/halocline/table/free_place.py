"""Whether a place is free for a new table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from halocline.errors import AlreadyExistsError
from halocline.formats.base import formats_at
from halocline.spark.write import beginnings

if TYPE_CHECKING:
    from halocline.storage.base import Store


def check_no_table(store: Store, url: str) -> None:
    """Refuse a place where a table of any format lies.

    Raises:
        AlreadyExistsError: There is one.
    """
    if taken := formats_at(store):
        raise AlreadyExistsError(
            f"there is a {taken[0]} table at {url}",
            sides={"asked for": "a new table there"},
            next_step="Append to it, replace it, or choose another place.",
        )


def check_free(store: Store, url: str) -> None:
    """Refuse a place where data lies that is of no table.

    To the table it would be files that it no longer needs, and the first vacuum would delete them. Hidden files, as
    Spark and Delta know them (`_SUCCESS`, `.part.crc`), are left alone by both; and what a try to create the table left
    behind is nobody else's.

    Raises:
        AlreadyExistsError: There is a file, or a folder with files in it.
    """
    asked = {"asked for": "a new table there"}
    if os.path.isfile(store.address()):
        raise AlreadyExistsError(
            f"there is a file at {url}",
            sides={**asked, "found": "a file"},
            next_step="Choose a folder that is empty or does not exist.",
        )
    found = (meta.path for meta in store.list() if meta.size and _is_data(meta.path))
    left_over = beginnings.LeftOver(store)
    loose = next((path for path in found if path not in left_over), None)
    if loose is not None:
        adopt = "Make a table of such files with Table.convert_to_delta (CONVERT TO DELTA), or choose"
        raise AlreadyExistsError(
            f"{url} holds files and is no table, and a vacuum of a new table would delete them",
            sides={**asked, "found": loose, "expected": "a folder that is empty or does not exist"},
            next_step=f"{adopt if loose.endswith('.parquet') else 'Choose'} another folder.",
        )


def _is_data(path: str) -> bool:
    """Whether a file is not hidden; a folder may be named after a partition column that begins with `_`."""
    return not any(each.startswith(".") or (each.startswith("_") and "=" not in each) for each in path.split("/"))

"""Which files of a source the rows of a companion's split come from, and what was known of each file then.

The rows of a file lie together, deleted ones among them, in the order that they have in the file: so a row of the file
has the same number here, but for where its file begins. That is what masks are made from, also once splits are merged.
A file that is gone from the source keeps its place, and all of its rows are masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.split.library import damaged

_TAG: Final = "halocline.companion.files"


class CompanionFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of the source, or what else its rows lie in together.

    Attributes:
        path: What it is known by; None once it is gone.
        rows: How many rows it has, deleted ones among them.
        state: What tells its content from another one of the same path.
        masked: What tells which of its rows are deleted; None if none is.
    """

    path: str | None
    rows: int
    state: str = ""
    masked: str | None = None


def source_files(split: SplitAdd) -> list[CompanionFile] | None:
    """The files behind a split, in the order of its rows; None if it belongs to no companion of ours.

    Raises:
        MalformedError: What the log says of them cannot be read, or does not fit its rows.
    """
    text = (split.tags or {}).get(_TAG)
    if text is None:
        return None
    try:
        found = msgspec.json.decode(text, type=list[CompanionFile])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(split.path, f"the log has files of its source that cannot be read: {error}") from error
    if sum(each.rows for each in found) != split.num_records:
        raise damaged(split.path, "the log has files of its source with another number of rows")
    return found


def with_source_files(split: SplitAdd, files: Sequence[CompanionFile], version: int | None) -> SplitAdd:
    """A split that says which files are behind it, and which version of the source it shows."""
    return msgspec.structs.replace(
        split,
        tags=(split.tags or {}) | {_TAG: msgspec.json.encode(files).decode()},
        companion_source_files=[each.path for each in files if each.path is not None],
        companion_delta_version=version,
    )


def files_of_all(merged: SplitAdd, sources: Sequence[SplitAdd]) -> SplitAdd:
    """A split of the rows of others, which keeps what is known of the files behind them."""
    if all(source_files(each) is None for each in sources):
        return merged
    files = [file for each in sources for file in source_files(each) or ()]
    return with_source_files(merged, files, min(each.companion_delta_version or 0 for each in sources))

"""Columns that say which row of which file a row is.

A row's *position* counts from 0 in its file, deleted rows included: what deletion vectors are made of. Its *place* is
one number for the file and the position, so that rows are joined and grouped by a single number. Its *row id* stays the
same when the row moves to another file. A file has a *base id*, and the id of a row in it is base plus position, unless
the row moved and the file *stores* its id in a column of its own. The version that last changed a row works the same
way.

While a scan is put together, all of this travels in hidden columns; `RowColumns.shown` turns them into those asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from halocline.spark.scan.sources import ROW
from halocline.spark.types.columns import quoted

NUMBER: Final = "__halocline_file"
BASE_ID: Final = "__halocline_base_id"
VERSION: Final = "__halocline_version"
_STORED_ID: Final = "__halocline_stored_id"
_STORED_VERSION: Final = "__halocline_stored_version"
_POSITION_BITS: Final = 36
"""Bits of a place for the position of a row in its file; the file has the 27 above."""


def place_of(file: str, position: str) -> str:
    """SQL for the place at a position in a file."""
    return f"(shiftleft({file}, {_POSITION_BITS}) | {position})"


def file_of(place: str) -> str:
    """SQL for the number of the file that a place is in."""
    return f"shiftright({place}, {_POSITION_BITS})"


def position_of(place: str) -> str:
    """SQL for the position of a place in its file."""
    return f"({place} & {(1 << _POSITION_BITS) - 1}L)"


def split_places(places: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The files of places, and the positions in them.

    Example:
        >>> files, positions = split_places(np.array([(3 << 36) | 7, 5]))
        >>> files.tolist(), positions.tolist()
        ([3, 0], [7, 5])
    """
    return places >> _POSITION_BITS, places & ((1 << _POSITION_BITS) - 1)


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Which columns to add to a scan, each under the name given, if one is given.

    Attributes:
        file: The number of the file in the list that was scanned.
        place: The file and the position of the row in it; see `file_of` and `position_of`.
        row_id: The row's id.
        row_commit_version: The version that last changed the row.
        stored_row_id: The physical column in which files store ids.
        stored_row_commit_version: The physical column in which files store versions.

    Example:
        >>> RowColumns(file="f", place="p").names
        ['f', 'p']
    """

    file: str | None = None
    place: str | None = None
    row_id: str | None = None
    row_commit_version: str | None = None
    stored_row_id: str | None = None
    stored_row_commit_version: str | None = None

    @property
    def names(self) -> list[str]:
        """The columns added."""
        return [name for name in (self.file, self.place, self.row_id, self.row_commit_version) if name is not None]

    @property
    def with_file(self) -> bool:
        """Whether the number of each row's file is needed."""
        return self.file is not None or self.place is not None

    @property
    def with_position(self) -> bool:
        """Whether the position of each row is needed."""
        return self.place is not None or self.row_id is not None

    @property
    def of_file(self) -> Mapping[str, str]:
        """Hidden columns whose values the file list has, and its columns."""
        wanted = {
            BASE_ID: ("base_row_id", self.row_id),
            VERSION: ("default_row_commit_version", self.row_commit_version),
        }
        return {hidden: column for hidden, (column, name) in wanted.items() if name is not None}

    @property
    def stored(self) -> Mapping[str, str]:
        """Hidden columns whose values data files may have, and their physical columns."""
        wanted = {
            _STORED_ID: self.stored_row_id if self.row_id else None,
            _STORED_VERSION: self.stored_row_commit_version if self.row_commit_version else None,
        }
        return {hidden: column for hidden, column in wanted.items() if column is not None}

    def shown(self) -> list[str]:
        """Items for `DataFrame.selectExpr` that make the columns asked for out of the hidden ones."""
        identity, version = f"{BASE_ID} + {ROW}", VERSION
        if _STORED_ID in self.stored:
            identity = f"coalesce({_STORED_ID}, {identity})"
        if _STORED_VERSION in self.stored:
            version = f"coalesce({_STORED_VERSION}, {version})"
        place = place_of(NUMBER, ROW)
        pairs = ((self.file, NUMBER), (self.place, place), (self.row_id, identity), (self.row_commit_version, version))
        return [f"{sql} AS {quoted(name)}" for name, sql in pairs if name is not None]

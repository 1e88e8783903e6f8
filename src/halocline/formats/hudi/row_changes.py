"""What a write did to the rows of a file group, told by the rows before and after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Flags: TypeAlias = npt.NDArray[np.bool_]

INSERT: Final = "i"
UPDATE: Final = "u"
DELETE: Final = "d"


@dataclass(frozen=True)
class RowChanges:
    """The rows that are new, that changed, and that are gone, as places in the rows before and after.

    Attributes:
        inserted: The new rows, in the rows after.
        updated: The changed rows, in the rows after.
        replaced: What those were, in the rows before.
        deleted: The rows that are gone, in the rows before.
    """

    inserted: pa.Array
    updated: pa.Array
    replaced: pa.Array
    deleted: pa.Array

    @staticmethod
    def told(before: pa.Array, after: pa.Array, written: Flags) -> RowChanges:
        """Compares the keys before and after a write.

        Args:
            before: The key of each row before.
            after: The key of each row after.
            written: Which of the rows after the write wrote.

        Example:
            >>> told = RowChanges.told(pa.array(["a", "b"]), pa.array(["b", "c"]), np.array([True, True]))
            >>> told.updated.to_pylist(), told.inserted.to_pylist(), told.deleted.to_pylist()
            ([0], [1], [0])
        """
        held = pc.index_in(after, before)
        was = np.asarray(held.is_valid())
        updated = np.flatnonzero(written & was)
        gone = np.asarray(pc.invert(pc.is_in(before, after)))
        return RowChanges(
            inserted=pa.array(np.flatnonzero(written & ~was)),
            updated=pa.array(updated),
            replaced=pa.array(np.asarray(held.fill_null(0), np.int64)[updated]),
            deleted=pa.array(np.flatnonzero(gone)),
        )

    def images(
        self, before: pa.Table, after: pa.Table, row: pa.StructType
    ) -> list[tuple[str, pa.Array, pa.Array, pa.Array, pa.Array]]:
        """Per kind of change: what it is, the places before and after, and the rows there.

        Args:
            before: The rows before.
            after: The rows after.
            row: The columns to give.
        """
        nothing = pa.nulls(0, pa.int64())
        kinds = (
            (DELETE, self.deleted, nothing),
            (UPDATE, self.replaced, self.updated),
            (INSERT, nothing, self.inserted),
        )
        found = []
        for op, old, new in kinds:
            count = max(len(old), len(new))
            if count:
                found.append((op, old, new, _image(before, old, count, row), _image(after, new, count, row)))
        return found


def _image(rows: pa.Table, places: pa.Array, count: int, row: pa.StructType) -> pa.Array:
    if not len(places):
        return pa.nulls(count, row)
    columns = [rows[field.name].take(places).combine_chunks() for field in row]
    return pa.StructArray.from_arrays(columns, fields=list(row))

"""Files of a Delta table that are copied because few of their rows change; see `halocline.spark.write.file_copies`.

A change leaves some rows of a file out, and *patches* others: gives some of their columns the values that Spark has
computed for their places. Where these rows are few, they are brought to the driver, and the files are copied.

The limits: tables that track rows, whose ids Spark writes beside them; tables that become something else in the same
commit; files of a clone on a store that is not the table's; very many files; rows that move to another partition. Many
small files are only copied if they are to become one: otherwise Spark writes their rows together. Where Arrow meets
values on the way that it does not take, Spark writes the files after all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyroaring import BitMap64

from halocline.errors import UnsupportedError
from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.actions.statistics import all_live_rows
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.arrow_scan import ArrowFile
from halocline.spark.scan.footers import footers
from halocline.spark.scan.frames import deleted_rows
from halocline.spark.write.file_copies import FileCopier, FileCopy, Patch, notes_of
from halocline.table.delta.rows.files import RowFiles
from halocline.table.delta.rows.hits import SMALL, Places, by_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_FILES: Final = 4096
_SMALL_FILE: Final = 4 * 1024 * 1024
_MOST_SMALL_FILES: Final = 32
_PATCH_BYTES: Final = 64 * 1024 * 1024
"""So much of the files' bytes, which grow when they are read, may be replaced."""


@dataclass(frozen=True)
class Copies:
    """Files that can be copied.

    Attributes:
        spark: The session.
        snapshot: The version that they are files of.
        files: The files.
        notes: What the copies of each must say.
        copier: What copies them.
        row_files: What the copies are counted among.
    """

    spark: SparkSession
    snapshot: Snapshot
    files: pa.Table
    notes: list[dict[str, str]]
    copier: FileCopier
    row_files: RowFiles

    @staticmethod
    def of(spark: SparkSession, snapshot: Snapshot, files: pa.Table, row_files: RowFiles) -> Copies | None:
        """The files, if they can be copied."""
        if len(files) > _MOST_FILES or row_files.state != snapshot.configuration:
            return None
        paths, sizes = files["path"].to_pylist(), files["size"].to_pylist()
        copier = row_files.copier(spark, paths)
        if copier is None:
            return None
        found = footers(snapshot.store, list(zip(paths, sizes, strict=True)))
        notes = [each for footer in found if (each := notes_of(footer)) is not None]
        return Copies(spark, snapshot, files, notes, copier, row_files) if len(notes) == len(files) else None

    @staticmethod
    def changing(
        spark: SparkSession, snapshot: Snapshot, files: pa.Table, rows: int, row_files: RowFiles
    ) -> Copies | None:
        """The files, if they can be copied, and it pays where that many rows of them are patched or left out."""
        sizes, live = [size or 0 for size in files["size"].to_pylist()], all_live_rows(files)
        light = rows <= SMALL and rows * sum(sizes) <= _PATCH_BYTES * (live or 0)
        few = sum(size < _SMALL_FILE for size in sizes) <= _MOST_SMALL_FILES
        return Copies.of(spark, snapshot, files, row_files) if light and few else None

    def changed(
        self, left_out: Places, patched: Places, values: pa.Table | None, *, data_change: bool
    ) -> list[Add] | None:
        """Copies the files, without some rows, and with other values for some others; None if that cannot be.

        Args:
            left_out: The rows to leave out.
            patched: The rows to give other values.
            values: A row of values for each of these, by the names of columns.
            data_change: Whether the table has other rows afterwards.
        """
        gone = {number: BitMap64(left_out[1][rows].tolist()) for number, rows in by_file(left_out)}
        patches = {} if values is None else dict(_patches(patched, values))
        copies = self._copies(gone, patches)
        return self._made([[copy] for copy in copies], data_change=data_change)

    def packed(self, bins: Sequence[Sequence[int]]) -> list[Add] | None:
        """Copies the files of each bin into one; None if that cannot be."""
        copies = self._copies({}, {})
        together = [[copies[number] for number in each] for each in bins]
        return self._made(together, data_change=False, file_bytes=sys.maxsize)

    def _made(
        self, together: Sequence[Sequence[FileCopy]], *, data_change: bool, file_bytes: int | None = None
    ) -> list[Add] | None:
        try:
            made = self.copier.copy_all(self.spark, together, file_bytes=file_bytes)
        except UnsupportedError:
            return None
        return self.row_files.keep(made, data_change=data_change)

    def _copies(self, gone: Mapping[int, BitMap64], patches: Mapping[int, Patch]) -> list[FileCopy]:
        marked, none = deleted_rows(self.snapshot, self.files), BitMap64()
        columns = (self.files[name].to_pylist() for name in ("path", "size", "partition_values"))
        found = []
        for number, (path, size, values) in enumerate(zip(*columns, strict=True)):
            left_out = gone.get(number, none) | marked.get(number, none)
            file = ArrowFile(number, path, size or 0, left_out or None, ())
            found.append(FileCopy(file, dict(values or ()), patches.get(number), self.notes[number]))
        return found


def _patches(places: Places, values: pa.Table) -> Iterator[tuple[int, Patch]]:
    for number, rows in by_file(places):
        yield number, Patch(places[1][rows], values.take(pa.array(rows)))

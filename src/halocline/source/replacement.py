"""Replacing rows by a condition where no SQL can be evaluated.

The condition must be one that is decided row by row without an engine (see
`halocline.formats.delta.stats.row_filter`). Partitions decide about whole files. Of other files that may hold such
rows, the columns of the condition are read: a file all of whose rows meet it is removed, one with rows of both kinds is
written again without them. That is done by one process, where Spark commits for the source; `Table.overwrite` does it
with all of Spark, and takes any condition.

The limit: in a table that tracks rows or keeps a change feed, files with rows of both kinds are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import ConstraintError, UnsupportedError
from halocline.formats.delta.actions.statistics import all_live_rows
from halocline.formats.delta.snapshot.change_feed import ChangeFile
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.delta.stats.row_filter import RowFilter
from halocline.schema.arrow import arrow_type
from halocline.schema.types import Struct
from halocline.spark.scan.file_rows import FileRows, change_files, shown_schema
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.types.partition_values import PartitionValues
from halocline.table.delta.rows.changes import Changed, removed

_WAY = "Table.for_path(path, spark).overwrite(df, where=...) does it."


def check_rows(rows: pa.RecordBatch, condition: RowFilter, partitions: Iterable[str]) -> pa.RecordBatch:
    """The same rows, if all of them are such as the condition replaces; empty text counts as null in partitions."""
    outside = pc.invert(condition.mask(rows, tuple(partitions)))
    if pc.any(outside).as_py():
        raise ConstraintError(
            f"a row does not meet the condition by which rows are replaced: {condition.text}; nothing was written",
            sides={"condition": condition.text, "row": str(rows.filter(outside).slice(0, 1).to_pylist()[0])[:500]},
            next_step="Leave such rows out, or widen the condition.",
        )
    return rows


def replaced(
    snapshot: Snapshot, candidates: pa.Table, condition: RowFilter, zone: str, *, data_change: bool
) -> tuple[Changed, Iterator[pa.RecordBatch]]:
    """What takes the rows that meet a condition out of a table, given its files that may hold such rows.

    The rows of these files that stay, by their logical names, are to be written again.
    """
    names = {name.lower() for name in snapshot.partition_columns}
    if all(column.path[0].lower() in names for column in condition.columns):
        gone = candidates.filter(_by_partition(snapshot, candidates, condition, zone))
        return Changed(removed(gone, data_change=data_change), deleted=all_live_rows(gone)), iter(())
    files = change_files(snapshot, candidates)
    spoken_of = {column.path[0].lower() for column in condition.columns}
    columns = Struct([each for each in shown_schema(snapshot).fields if each.name.lower() in spoken_of])
    read = FileRows.of(snapshot, columns, zone=zone)
    counts = [_counted(read, file, condition) for file in files]
    chosen = [number for number, (met, _) in enumerate(counts) if met]
    mixed = [files[number] for number in chosen if counts[number][0] < counts[number][1]]
    if mixed:
        _check_rewritable(snapshot, mixed[0].path)
    gone = candidates.take(pa.array(chosen, pa.int64()))
    staying = _staying(FileRows.of(snapshot, shown_schema(snapshot), zone=zone), mixed, condition)
    deleted = sum(counts[number][0] for number in chosen)
    return Changed(removed(gone, data_change=data_change), deleted=deleted), staying


def _by_partition(snapshot: Snapshot, files: pa.Table, condition: RowFilter, zone: str) -> pa.Array:
    columns = FileLayout.of(snapshot.configuration).partition_keys
    values = PartitionValues(files, columns, zone)
    met = []
    for group in range(len(values.values)):
        arrays = [
            pa.array([values.scalar(group, number, arrow_type(column.type)).as_py()], arrow_type(column.type))
            for number, column in enumerate(columns)
        ]
        row = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
        met.append(condition.mask(row)[0].as_py())
    return pa.array([met[group] for group in values.group_of], pa.bool_())


def _counted(read: FileRows, file: ChangeFile, condition: RowFilter) -> tuple[int, int]:
    """How many rows of a file meet the condition, and how many there are."""
    met = every = 0
    for batch in read.read([file]):
        met += pc.sum(condition.mask(batch)).as_py() or 0
        every += batch.num_rows
    return met, every


def _staying(read: FileRows, files: list[ChangeFile], condition: RowFilter) -> Iterator[pa.RecordBatch]:
    for file in files:
        for batch in read.read([file]):
            kept = batch.filter(pc.invert(condition.mask(batch)))
            if kept.num_rows:
                yield kept


def _check_rewritable(snapshot: Snapshot, path: str) -> None:
    tracked = snapshot.configuration.tracks_rows
    if tracked or snapshot.properties.change_data_feed:
        raise UnsupportedError(
            f"{path} holds rows of both kinds, and writing it again takes an engine",
            sides={"table": "tracks rows" if tracked else "keeps a change feed", "file": path},
            next_step=_WAY,
        )

"""Deleting rows of an index table: a mask per split, and none is written anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyroaring import BitMap64

from halocline.errors import InputError, UnsupportedError
from halocline.formats.index.companion.identity import check_own_rows
from halocline.formats.index.delete import deletions
from halocline.formats.index.log.actions import SplitAdd, SplitRemove
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.spark.scan.frames import session_zone
from halocline.spark.scan.row_columns import RowColumns, file_of, position_of
from halocline.spark.scan.split_frames import file_frame, kept_splits
from halocline.spark.session.analysis import check_condition, read_without_spark, told_of
from halocline.spark.types.columns import blank_frame
from halocline.table.index.opened import IndexOpened
from halocline.table.opening import as_operation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PLACE: Final = "__halocline_place"
_REPORT: Final = pa.schema({"split": pa.int64(), "rows": pa.binary()})


@as_operation
def delete_rows(table: IndexOpened, where: str | Column | None = None) -> int:
    """Deletes the rows that meet a condition, and returns the version without them.

    Rows that others add meanwhile stay; rows that others delete meanwhile are deleted once.

    Args:
        table: The table.
        where: A condition, without which nothing is deleted; `true` deletes every row.

    Raises:
        InputError: There is no condition, it is none, or the table is a companion.
        UnsupportedError: Such rows may be in a split of IndexTables4Spark.
        ConflictError: Somebody else removed a split meanwhile.

    Example:
        >>> Table.for_path("lake/logs", spark).delete("at < '2026-01-01'")  # doctest: +SKIP
        15
    """
    if where is None:
        raise InputError(
            "delete takes a condition",
            sides={"given": "none", "expected": "an SQL condition"},
            next_step="To delete every row: delete('true').",
        )
    snapshot = table.snapshot("write")
    check_own_rows(snapshot)
    check_deletable(table, snapshot, where, "delete")
    actions, rows = rows_gone(table, snapshot, where)
    if not actions:
        return snapshot.version
    said = {"predicate": told_of(where), "numDeletedRows": rows}
    # Splits of our own are there, so only Halocline uses the table, and masks are what deleting asks for.
    return table.commit(table.transaction(snapshot, may_gain=True), [*actions], "DELETE", **said)


def check_deletable(table: IndexOpened, snapshot: IndexSnapshot, where: str | Column, name: str) -> None:
    """Makes sure that rows can be taken out by a condition.

    Raises:
        InputError: It is no condition.
        UnsupportedError: Such rows may be in a split of IndexTables4Spark.
    """
    check_condition(blank_frame(table.spark, snapshot.schema), where, name, "Use columns of the table.")
    if foreign := next((each for each in _candidates(table, snapshot, where) if not each.is_own), None):
        raise UnsupportedError(
            f"rows of {foreign.path}, which IndexTables4Spark wrote, cannot be deleted one by one",
            sides={"split": "a bundle", "possible": "splits with parquetSplit"},
            next_step="Write the rows that stay into a table of Halocline's own.",
        )


def rows_gone(
    table: IndexOpened, snapshot: IndexSnapshot, where: str | Column
) -> tuple[list[SplitAdd | SplitRemove], int]:
    """The actions that take out the rows that meet a condition, and how many rows these are."""
    found = _matching(table, snapshot, _candidates(table, snapshot, where), where)
    return deletions(snapshot, found, now_ms=table.clock()), sum(map(len, found.values()))


def _candidates(table: IndexOpened, snapshot: IndexSnapshot, where: str | Column) -> list[SplitAdd]:
    condition = read_without_spark(table.spark, where)
    return kept_splits(snapshot, snapshot.files.values(), condition, session_zone(table.spark))


def _matching(
    table: IndexOpened, snapshot: IndexSnapshot, splits: list[SplitAdd], where: str | Column
) -> dict[str, BitMap64]:
    """The numbers of the rows that meet a condition, by the path of their split."""
    if not splits:
        return {}
    df: DataFrame = file_frame(table.spark, snapshot, splits, rows=RowColumns(place=_PLACE), where=where)
    found: dict[str, BitMap64] = {}
    places = df.selectExpr(file_of(_PLACE), position_of(_PLACE))
    for number, data in places.mapInArrow(_gathered, "split bigint, rows binary").collect():
        found.setdefault(splits[number].path, BitMap64()).update(BitMap64.deserialize(bytes(data)))
    return found


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of one task, a bitmap for each split; this is what a worker runs."""
    found: dict[int, BitMap64] = {}
    for batch in batches:
        files, numbers = batch.column(0), batch.column(1).to_numpy()
        for file in files.unique().to_pylist():
            found.setdefault(file, BitMap64()).update(numbers[files.to_numpy() == file].tolist())
    bitmaps = [each.serialize() for each in found.values()]
    yield pa.RecordBatch.from_pydict({"split": list(found), "rows": bitmaps}, _REPORT)

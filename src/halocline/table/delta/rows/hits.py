"""Hits: the rows that clauses take.

A hit is the place of a row, the number of the clause that takes it, and the row of the source that goes with it, if
there is one. Hits are computed once and kept, so that everything that follows agrees on them, whatever the condition
was.

A condition that says the same in every query needs no places: then the condition itself stands for the hits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from halocline.spark.scan.frames import frame_of
from halocline.spark.scan.row_columns import RowColumns, file_of, place_of, position_of, split_places
from halocline.spark.session.analysis import Expression, column_of
from halocline.spark.session.functions import F
from halocline.spark.session.grouping import COUNT, counted, grouped
from halocline.spark.session.pinning import computed_and_counted
from halocline.table.delta.rows.clauses import CLAUSE, PLACE, is_steady, named
from halocline.table.delta.rows.commit import RowChange
from halocline.table.delta.rows.files import marks_rows
from halocline.table.delta.rows.matches import is_about_partitions, matches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE_ID: Final = "__halocline_source_id"
HIT_SOURCE: Final = "__halocline_hit_source"
HIT_PLACE: Final = "__halocline_hit_place"
SMALL: Final = 500_000
"""So many hits are sent to every executor rather than shuffled."""

Places: TypeAlias = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
"""The number of the file and the position of each of some rows."""

NO_PLACES: Final[Places] = (np.empty(0, np.int64), np.empty(0, np.int64))

_FILE: Final = "__halocline_file_number"
_OTHER: Final = "__halocline_other_number"


@dataclass(frozen=True)
class Hits:
    """The rows that clauses take.

    Attributes:
        files: The files that hold them.
        frame: Place, source row and clause of each; None if the first clause takes every row that meets a condition.
        counts: How many rows each clause takes; None if nobody counted them.
        where: The condition, if there is no frame; None for every row.
        has_rows: Whether the frame has the rows themselves, and the source beside them.
        places: Number of the file and position of each, if they are few and there is a frame.
    """

    files: pa.Table
    frame: DataFrame | None
    counts: Mapping[int, int | None]
    where: str | None = None
    has_rows: bool = False
    places: Places | None = None

    @property
    def rows(self) -> int:
        """How many there are, as far as they were counted."""
        return sum(count or 0 for count in self.counts.values())


def by_file(places: Places) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
    """For each file the numbers of its places in the list, in the order of their positions.

    Example:
        >>> [(file, rows.tolist()) for file, rows in by_file((np.array([2, 0, 2]), np.array([9, 1, 4])))]
        [(0, [1]), (2, [2, 0])]
    """
    numbers, positions = places
    order = np.lexsort((positions, numbers))
    found, starts = np.unique(numbers[order], return_index=True)
    ends = [*starts[1:], len(order)][: len(found)]
    yield from ((int(number), order[start:end]) for number, start, end in zip(found, starts, ends, strict=True))


def hits_where(work: RowChange, candidates: pa.Table, where: Expression | None, alias: str | None = None) -> Hits:
    """The rows that meet a condition, all without one, taken by the first clause."""
    if where is None:
        return Hits(candidates, None, {0: None})
    text = where if isinstance(where, str) and is_steady(where) else None
    if text is not None and (not marks_rows(work.snapshot) or is_about_partitions(work.spark, work.snapshot, text)):
        found = matches(work.spark, work.snapshot, candidates, text)
        return Hits(found.files, None, {0: found.rows}, text if len(found.mixed) else None)
    if not len(candidates):
        return Hits(candidates, None, {})
    df = named(frame_of(work.spark, work.snapshot, files=candidates, rows=RowColumns(place=PLACE)), alias)
    numbers = (F.lit(None).cast("long").alias(SOURCE_ID), F.lit(0).alias(CLAUSE))
    rows, count = computed_and_counted(df.where(column_of(where)).select(PLACE, *numbers))
    return hits_in(work.spark, candidates, rows, count)[0]


def hits_in(spark: SparkSession, files: pa.Table, pairs: DataFrame, count: int) -> tuple[Hits, int]:
    """The hits, and how many rows of the source at most match one row of the table, whether or not it is a hit.

    Pairs are a place, a source row and the clause that takes them, which may be null, perhaps with more columns; kept
    and counted already, and possibly several per row, of which one is left.
    """
    most, taken, places = _taken(pairs, count)
    if most > 1:
        pairs = grouped(pairs, PLACE, **{SOURCE_ID: F.min(SOURCE_ID), CLAUSE: F.min(CLAUSE)})
        _, taken, places = _taken(pairs, count)
    taken = [each for each in taken if each[1] is not None]
    counts: dict[int, int | None] = {}
    for _, clause, rows in taken:
        counts[clause] = (counts.get(clause) or 0) + rows
    numbers = sorted({file for file, _, _ in taken})
    frame, place = pairs.where(F.col(CLAUSE).isNotNull()), PLACE
    if len(numbers) < len(files):
        others = {_FILE: pa.array(numbers, pa.int64()), _OTHER: pa.array(range(len(numbers)), pa.int64())}
        # There are none if no clause takes any of the pairs, and Spark Connect finds no types in no rows.
        small = F.broadcast(spark.createDataFrame(pa.table(others), f"{_FILE} BIGINT, {_OTHER} BIGINT"))
        frame = frame.withColumn(_FILE, F.expr(file_of(PLACE))).join(small, _FILE)
        place = place_of(_OTHER, position_of(PLACE))
    frame = frame.withColumn(HIT_PLACE, F.expr(place)).withColumnRenamed(SOURCE_ID, HIT_SOURCE)
    frame, chosen = frame.drop(PLACE, _FILE, _OTHER), files.take(pa.array(numbers, pa.int64()))
    known = None if places is None else (np.searchsorted(numbers, places[0]), places[1])
    return Hits(chosen, frame, counts, places=known), most


def _taken(pairs: DataFrame, count: int) -> tuple[int, list[tuple[int, Any, int]], Places | None]:
    """How many pairs at most are of one place; file, clause and number of those that a clause takes in a file.

    And, if there are few, file and position of each that a clause takes.
    """
    if count > SMALL:
        most = counted(pairs, PLACE).agg(F.max(COUNT)).collect()[0][0]
        groups: Any = counted(pairs.select(F.expr(file_of(PLACE)).alias(_FILE), CLAUSE), _FILE, CLAUSE).toArrow()
        return most, list(zip(*(column.to_pylist() for column in groups.columns), strict=True)), None
    # Few pairs are counted here: Spark would have to bring those of a place together.
    found: Any = pairs.select(PLACE, CLAUSE).toArrow()
    places = found[PLACE].to_numpy()
    most = int(np.unique(places, return_counts=True)[1].max(initial=0))
    file, position = split_places(places)
    found = pa.table({_FILE: file, CLAUSE: found[CLAUSE]})
    groups = found.group_by([_FILE, CLAUSE]).aggregate([([], "count_all")]).select([_FILE, CLAUSE, "count_all"])
    is_taken = found[CLAUSE].is_valid().to_numpy()
    listed = list(zip(*(column.to_pylist() for column in groups.columns), strict=True))
    return most, listed, (file[is_taken], position[is_taken])

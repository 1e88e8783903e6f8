"""Which live files hold rows that meet a condition, and which rows those are.

A file is *whole* if every live row of it meets the condition: it can be removed without being read. It is *mixed* if
some rows do and some do not. Where the condition speaks of partition columns only, the log alone decides and no data
file is opened; otherwise one Spark job counts, per file, the rows that meet it, over the files that may hold any.

A row for which the condition comes out null does not meet it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from halocline.errors import InputError
from halocline.formats.delta.actions.statistics import all_live_rows, live_rows
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.delta.stats.predicate import Predicate
from halocline.schema import Struct
from halocline.spark.scan.frames import frame_of, session_zone
from halocline.spark.scan.row_columns import RowColumns
from halocline.spark.session.analysis import makes_sense, read_without_spark
from halocline.spark.session.grouping import counts_by
from halocline.spark.types.char_types import known_to_spark, padded
from halocline.spark.types.columns import blank_frame, quoted
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.types.partition_values import PartitionValues

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILE: Final = "__halocline_file_number"
_GROUP: Final = "__halocline_group"


@dataclass(frozen=True)
class Matches:
    """Files with rows that meet a condition.

    Attributes:
        whole: The files all of whose rows do, as a file list.
        mixed: The files some of whose rows do.
        rows: How many rows do; None if only the log was asked and it does not say.
    """

    whole: pa.Table
    mixed: pa.Table
    rows: int | None

    @property
    def files(self) -> pa.Table:
        """All of them."""
        return pa.concat_tables([self.whole, self.mixed])


def is_about_partitions(spark: SparkSession, snapshot: Snapshot, where: str) -> bool:
    """Whether a condition that Spark has analysed speaks of partition columns only."""
    fields = [each for each in snapshot.metadata.schema.fields if each.name in snapshot.partition_columns]
    text = read_without_spark(spark, where)
    if text is None:
        return makes_sense(blank_frame(spark, Struct(fields)), where)
    try:
        Predicate.parse(text, Schema.of(Struct(fields), snapshot.columns.mode))
    except InputError:
        return False
    return True


def matches(spark: SparkSession, snapshot: Snapshot, files: pa.Table, where: str) -> Matches:
    """The files among some of a version that hold rows which meet a condition that Spark has analysed."""
    if is_about_partitions(spark, snapshot, where):
        chosen = files.filter(_by_partition(spark, snapshot, files, where))
        return Matches(chosen, files.slice(0, 0), all_live_rows(chosen))
    counts, live = _counted(spark, snapshot, files, where), live_rows(files)
    whole = [number in counts and counts[number] == live[number] for number in range(len(files))]
    mixed = [number in counts and not whole[number] for number in range(len(files))]
    chosen, partly = (files.filter(pa.array(kind, pa.bool_())) for kind in (whole, mixed))
    return Matches(chosen, partly, sum(counts.values()))


def unmet(where: str) -> str:
    """The condition that all other rows meet."""
    return f"NOT coalesce(({where}), false)"


def _counted(spark: SparkSession, snapshot: Snapshot, files: pa.Table, where: str) -> dict[int, int]:
    if not len(files):
        return {}
    df = frame_of(spark, snapshot, where=where, files=files, rows=RowColumns(file=_FILE))
    return counts_by(df, _FILE)


def _by_partition(spark: SparkSession, snapshot: Snapshot, files: pa.Table, where: str) -> pa.Array:
    """For each file, whether its partition meets the condition."""
    if not len(files):
        return pa.array([], pa.bool_())
    layout = FileLayout.of(snapshot.configuration)
    values = PartitionValues(files, layout.partition_keys, session_zone(spark))
    groups = range(len(values.values))
    items = [
        f"{padded(values.sql(number, groups, 'CAST(id AS int)'), field)} AS {quoted(field.name)}"
        for number, field in enumerate(layout.partitions)
    ]
    df = spark.range(len(groups)).selectExpr(*items, f"id AS {_GROUP}")
    df = known_to_spark(df, snapshot.schema)
    met = np.zeros(len(values.values), np.bool_)
    for row in df.where(where).select(quoted(_GROUP)).collect():
        met[row[0]] = True
    return pa.array(met[values.group_of])

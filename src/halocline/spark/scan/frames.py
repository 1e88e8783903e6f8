"""From a snapshot to a DataFrame of its rows.

The snapshot gives the live files, pruned; their deletion vectors are read here on the driver, several at once; the scan
does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from halocline.formats.delta.actions.action import DeletionVector
from halocline.formats.delta.actions.deletion_vectors import read_positions
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.footers import at_once
from halocline.spark.scan.row_columns import RowColumns
from halocline.spark.scan.scan import scan
from halocline.spark.session.analysis import read_without_spark
from halocline.spark.session.session import setting
from halocline.spark.types.file_layout import FileLayout

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LISTED: Final = ("path", "size", "partition_values", "deletion_vector", "base_row_id", "default_row_commit_version")
"""What a scan looks at; statistics and tags stay on disk."""


def frame_of(
    spark: SparkSession,
    snapshot: Snapshot,
    *,
    where: str | Column | None = None,
    columns: Sequence[str] | None = None,
    files: pa.Table | None = None,
    rows: RowColumns | None = None,
    not_null: bool = False,
) -> DataFrame:
    """The rows of a snapshot, or of some of its files. A condition also leaves files out if it is SQL text.

    Spark is told what is never null only on demand, for rows that are not going to be written again.
    """
    zone = session_zone(spark)
    if files is None:
        files = snapshot.files(read_without_spark(spark, where), LISTED, timezone=zone)
    layout = FileLayout.of(snapshot.configuration)
    return scan(
        spark,
        snapshot.store,
        files,
        layout if not_null else layout.with_nulls,
        deleted=deleted_rows(snapshot, files),
        columns=columns,
        where=where,
        rows=rows,
        zone=zone,
    )


def deleted_rows(snapshot: Snapshot, files: pa.Table) -> dict[int, BitMap64]:
    """The deleted positions of each file that has any, by the file's number in the list."""
    vectors = files["deletion_vector"]
    numbers = pc.indices_nonzero(vectors.is_valid()).to_pylist()
    found = [DeletionVector(**vectors[number].as_py()) for number in numbers]
    positions = at_once(lambda vector: read_positions(snapshot.store, vector), found)
    return dict(zip(numbers, positions, strict=True))


def session_zone(spark: SparkSession) -> str:
    """The zone that times without one are in."""
    return setting(spark, "spark.sql.session.timeZone", "UTC")

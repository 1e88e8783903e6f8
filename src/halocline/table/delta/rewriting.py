"""Writing rows again as other metadata lays them out, for features on their way out of a table.

A *rewriter* reads the live rows of some files and writes them by other names, types or properties: without deletion
vectors, with logical names, in the types that columns have grown to. No row changes, and rows keep their ids. What it
has written is committed by whoever asked; if that does not happen, vacuum finds the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from halocline.formats.delta.actions.action import Add, Metadata
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.frames import frame_of
from halocline.table.delta.row_files import RowFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SparkRewriter:
    """Writes rows again with Spark.

    Args:
        spark: The session.
    """

    spark: SparkSession

    def __call__(self, snapshot: Snapshot, files: pa.Table, target: Metadata) -> Sequence[Add]:
        """Writes the live rows of some files into new ones, as a `Rewriter`."""
        row_files = RowFiles(snapshot.store, snapshot.configuration.with_metadata(target))
        rows = frame_of(self.spark, snapshot, files=files, rows=row_files.identities())
        return row_files.rewrite(rows, snapshot.schema, data_change=False)

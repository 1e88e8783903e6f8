"""Merges, rearrangements and sequences under the names of delta-spark.

Thin: every method hands over to the builder of the same meaning in snake_case, and what comes back is a DataFrame with
the columns that delta-spark gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from halocline.table.arguments import checks_arguments
from halocline.table.delta.merge_builder import MergeBuilder
from halocline.table.delta.optimize import OptimizeBuilder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from halocline.spark.session.analysis import Expression


@checks_arguments
@dataclass(frozen=True)
class IdentityGenerator:
    """A sequence that gives a column its values, under the name of delta-spark.

    Args:
        start: The first value.
        step: The distance between values.
    """

    start: int = 1
    step: int = 1


@dataclass(frozen=True)
class DeltaMergeBuilder:
    """A merge under the names of delta-spark; see `halocline.table.delta.merge_builder`."""

    builder: MergeBuilder

    def whenMatchedUpdate(
        self, condition: Expression | None = None, set: Mapping[str, Any] | None = None
    ) -> DeltaMergeBuilder:
        """See `MergeBuilder.when_matched_update`."""
        return DeltaMergeBuilder(self.builder.when_matched_update(condition, set))

    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """See `MergeBuilder.when_matched_update_all`."""
        return DeltaMergeBuilder(self.builder.when_matched_update_all(condition))

    def whenMatchedDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """See `MergeBuilder.when_matched_delete`."""
        return DeltaMergeBuilder(self.builder.when_matched_delete(condition))

    def whenNotMatchedInsert(
        self, condition: Expression | None = None, values: Mapping[str, Any] | None = None
    ) -> DeltaMergeBuilder:
        """See `MergeBuilder.when_not_matched_insert`."""
        return DeltaMergeBuilder(self.builder.when_not_matched_insert(condition, values))

    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """See `MergeBuilder.when_not_matched_insert_all`."""
        return DeltaMergeBuilder(self.builder.when_not_matched_insert_all(condition))

    def whenNotMatchedBySourceUpdate(
        self, condition: Expression | None = None, set: Mapping[str, Any] | None = None
    ) -> DeltaMergeBuilder:
        """See `MergeBuilder.when_not_matched_by_source_update`."""
        return DeltaMergeBuilder(self.builder.when_not_matched_by_source_update(condition, set))

    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """See `MergeBuilder.when_not_matched_by_source_delete`."""
        return DeltaMergeBuilder(self.builder.when_not_matched_by_source_delete(condition))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """See `MergeBuilder.with_schema_evolution`."""
        return DeltaMergeBuilder(self.builder.with_schema_evolution())

    def execute(self) -> DataFrame:
        """Does the merge; the numbers of rows come back."""
        metrics = self.builder.execute().metrics
        counts = [metrics[f"numTargetRows{what}"] for what in ("Updated", "Deleted", "Inserted")]
        names = "num_affected_rows BIGINT, num_updated_rows BIGINT, num_deleted_rows BIGINT, num_inserted_rows BIGINT"
        return self.builder.table.spark.createDataFrame([(sum(counts), *counts)], names)


@checks_arguments
@dataclass(frozen=True)
class DeltaOptimizeBuilder:
    """A rearrangement under the names of delta-spark; see `halocline.table.delta.optimize`."""

    builder: OptimizeBuilder

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """See `OptimizeBuilder.where`."""
        return DeltaOptimizeBuilder(self.builder.where(partitionFilter))

    def executeCompaction(self) -> DataFrame:
        """See `OptimizeBuilder.execute_compaction`; path and metrics come back."""
        return self._told(self.builder.execute_compaction().metrics)

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """See `OptimizeBuilder.execute_z_order_by`; path and metrics come back."""
        return self._told(self.builder.execute_z_order_by(*cols).metrics)

    def _told(self, metrics: Mapping[str, int]) -> DataFrame:
        renamed = {"numFilesAdded": metrics["numAddedFiles"], "numFilesRemoved": metrics["numRemovedFiles"], **metrics}
        names = ", ".join(f"{name}: BIGINT" for name in renamed)
        row = (self.builder.table.url, tuple(int(value) for value in renamed.values()))
        return self.builder.table.spark.createDataFrame([row], f"path STRING, metrics STRUCT<{names}>")

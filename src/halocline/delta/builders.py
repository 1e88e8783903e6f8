"""Merges, rearrangements and sequences under the names of delta-spark.

Thin: every method hands over to the builder of the same meaning in snake_case, and what comes back is a DataFrame with
the columns that delta-spark gives. As there, a step of a merge makes a new builder, and `where` of a rearrangement does
not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from halocline.place_names import place_name
from halocline.table.arguments import checks_arguments
from halocline.table.delta.layout.optimize import OptimizeBuilder
from halocline.table.delta.merge.builder import MergeBuilder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

P = ParamSpec("P")


@checks_arguments
@dataclass(frozen=True)
class IdentityGenerator:
    """A sequence that gives a column its values, under the name of delta-spark."""

    start: int = 1
    step: int = 1


def _renamed(
    step: Callable[Concatenate[MergeBuilder, P], MergeBuilder],
) -> Callable[Concatenate[DeltaMergeBuilder, P], DeltaMergeBuilder]:
    """A step of a merge that is put together, for the builder with the other names."""

    @wraps(step)
    def method(self: DeltaMergeBuilder, /, *given: P.args, **named: P.kwargs) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(step(self.builder, *given, **named))

    return method


@dataclass(frozen=True)
class DeltaMergeBuilder:
    """A merge under the names of delta-spark; see `halocline.table.delta.merge.builder`."""

    builder: MergeBuilder

    def __repr__(self) -> str:
        return repr(self.builder)

    whenMatchedUpdate = _renamed(MergeBuilder.when_matched_update)
    whenMatchedUpdateAll = _renamed(MergeBuilder.when_matched_update_all)
    whenMatchedDelete = _renamed(MergeBuilder.when_matched_delete)
    whenNotMatchedInsert = _renamed(MergeBuilder.when_not_matched_insert)
    whenNotMatchedInsertAll = _renamed(MergeBuilder.when_not_matched_insert_all)
    whenNotMatchedBySourceUpdate = _renamed(MergeBuilder.when_not_matched_by_source_update)
    whenNotMatchedBySourceDelete = _renamed(MergeBuilder.when_not_matched_by_source_delete)
    withSchemaEvolution = _renamed(MergeBuilder.with_schema_evolution)

    def execute(self) -> DataFrame:
        """Does the merge; the numbers of rows come back."""
        metrics = self.builder.execute().metrics
        counts = [metrics[f"numTargetRows{what}"] for what in ("Updated", "Deleted", "Inserted")]
        names = "num_affected_rows BIGINT, num_updated_rows BIGINT, num_deleted_rows BIGINT, num_inserted_rows BIGINT"
        return self.builder.table.spark.createDataFrame([(sum(counts), *counts)], names)


@checks_arguments
@dataclass
class DeltaOptimizeBuilder:
    """A rearrangement under the names of delta-spark; see `halocline.table.delta.layout.optimize`."""

    builder: OptimizeBuilder

    def __repr__(self) -> str:
        place = place_name(self.builder.table.url)
        return f"optimize of {place}: nothing is done before executeCompaction() or executeZOrderBy(…)"

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """See `OptimizeBuilder.where`."""
        self.builder = self.builder.where(partitionFilter)
        return self

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

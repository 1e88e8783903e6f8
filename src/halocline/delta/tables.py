"""`DeltaTable`: the names that notebooks written for delta-spark use, over `Table`.

Every method says in camelCase what `Table` says in snake_case, takes the arguments in the order that notebooks give
them, and returns a DataFrame where they expect one. There is nothing of its own here: a notebook changes one import.

    from halocline.delta.tables import *

brings what `delta.tables` does, the names of PySpark among it.

The limit: tables are found by path, also as delta.`path`, and not by name, since there is no catalog.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from halocline.delta.builders import DeltaMergeBuilder, DeltaOptimizeBuilder, IdentityGenerator
from halocline.errors import InputError, UnsupportedError
from halocline.schema.types import Field
from halocline.spark.types import input_schema
from halocline.table.arguments import checks_arguments
from halocline.table.delta.new_table import Identity, column
from halocline.table.delta.rows.clauses import TARGET_ALIAS
from halocline.table.delta.table import DeltaLakeTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from halocline.spark.session.analysis import Expression

_PYSPARK: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Column", "DataFrame", "SparkSession", "functions"), "pyspark.sql"),
    **dict.fromkeys(("DataType", "StructField", "StructType"), "pyspark.sql.types"),
}
"""What `delta.tables` brings along besides."""

__all__ = [
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
    *_PYSPARK,
]

_TEXTS: Final = "MAP<STRING, STRING>"
_LIST: Final = "ARRAY<STRING>"
_JOB: Final = ("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType")
_HISTORY: Final[Mapping[str, str]] = {
    "version": "BIGINT",
    "timestamp": "TIMESTAMP",
    "userId": "STRING",
    "userName": "STRING",
    "operation": "STRING",
    "operationParameters": _TEXTS,
    "job": f"STRUCT<{', '.join(f'{name}: STRING' for name in _JOB)}>",
    "notebook": "STRUCT<notebookId: STRING>",
    "clusterId": "STRING",
    "readVersion": "BIGINT",
    "isolationLevel": "STRING",
    "isBlindAppend": "BOOLEAN",
    "operationMetrics": _TEXTS,
    "userMetadata": "STRING",
    "engineInfo": "STRING",
}
_DETAIL: Final[Mapping[str, str]] = {
    **dict.fromkeys(("format", "id", "name", "description", "location"), "STRING"),
    **dict.fromkeys(("createdAt", "lastModified"), "TIMESTAMP"),
    **dict.fromkeys(("partitionColumns", "clusteringColumns"), _LIST),
    **dict.fromkeys(("numFiles", "sizeInBytes"), "BIGINT"),
    "properties": _TEXTS,
    **dict.fromkeys(("minReaderVersion", "minWriterVersion"), "INT"),
    "tableFeatures": _LIST,
}
_RETENTION_CHECK: Final = "spark.databricks.delta.retentionDurationCheck.enabled"


def checks_retention(spark: SparkSession) -> bool:
    """Whether a session has vacuums keep files as long as tables promise, by the setting of delta-spark."""
    return str(spark.conf.get(_RETENTION_CHECK, "true")).lower() != "false"


@checks_arguments
@dataclass(frozen=True)
class DeltaTable:
    """A table under the names of delta-spark.

    Example:
        >>> orders = DeltaTable.forPath(spark, "lake/orders")  # doctest: +SKIP
        >>> orders.alias("t").merge(df.alias("s"), "t.id = s.id").whenMatchedUpdateAll().execute()  # doctest: +SKIP
    """

    table: DeltaLakeTable
    name: str | None = None

    # ------------------------------------------------------------------ opening

    @staticmethod
    def forPath(sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] | None = None) -> DeltaTable:
        """Opens the table at a path; `hadoopConf` holds options of the store."""
        return DeltaTable(DeltaLakeTable.for_path(path, sparkSession, options=hadoopConf))

    @staticmethod
    def forName(sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """Opens delta.`path`; other names are refused, since there is no catalog to look them up in."""
        return DeltaTable.forPath(sparkSession, _named_path(tableOrViewName))

    @staticmethod
    def isDeltaTable(sparkSession: SparkSession, identifier: str) -> bool:
        """Whether there is a table at a path."""
        return DeltaLakeTable.is_table(_path(identifier))

    @staticmethod
    def convertToDelta(sparkSession: SparkSession, identifier: str, partitionSchema: Any = None) -> DeltaTable:
        """Makes a table of a folder of Parquet files, given as its path or as parquet.`path`."""
        partitions = () if partitionSchema is None else _columns(partitionSchema)
        path = _path(identifier)
        return DeltaTable(DeltaLakeTable.convert_to_delta(path, sparkSession, partition_by=partitions, exist_ok=True))

    @staticmethod
    def create(sparkSession: SparkSession) -> DeltaTableBuilder:
        """Begins a table that must not be there yet."""
        return DeltaTableBuilder(sparkSession, DeltaLakeTable.create)

    @staticmethod
    def createIfNotExists(sparkSession: SparkSession) -> DeltaTableBuilder:
        """Begins a table, or opens the one that is there."""
        return DeltaTableBuilder(sparkSession, partial(DeltaLakeTable.create, exist_ok=True))

    @staticmethod
    def replace(sparkSession: SparkSession) -> DeltaTableBuilder:
        """Begins a table in place of one that must be there."""
        return DeltaTableBuilder(sparkSession, DeltaLakeTable.replace)

    @staticmethod
    def createOrReplace(sparkSession: SparkSession) -> DeltaTableBuilder:
        """Begins a table, in place of another if there is one."""
        return DeltaTableBuilder(sparkSession, partial(DeltaLakeTable.replace, or_create=True))

    # ------------------------------------------------------------------ reading

    def toDF(self) -> DataFrame:
        """The rows of the newest version."""
        df = self.table.to_df()
        return df if self.name is None else df.alias(self.name)

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table under a name for expressions."""
        return replace(self, name=aliasName)

    def history(self, limit: int | None = None) -> DataFrame:
        """Who did what, newest version first."""
        rows = []
        for entry in self.table.history(limit):
            said = {} if entry.info is None else dict(entry.info.values)
            said |= {"version": entry.version, "timestamp": datetime.fromtimestamp(entry.timestamp_ms / 1000, UTC)}
            rows.append(tuple(_text_map(said.get(name)) for name in _HISTORY))
        return self._frame(rows, _HISTORY)

    def detail(self) -> DataFrame:
        """What the table is, in one row."""
        found = self.table.detail()
        row = tuple(_moment(found[name]) if type == "TIMESTAMP" else found[name] for name, type in _DETAIL.items())
        return self._frame([row], _DETAIL)

    def _frame(self, rows: Sequence[tuple[Any, ...]], columns: Mapping[str, str]) -> DataFrame:
        schema = ", ".join(f"{name} {type}" for name, type in columns.items())
        return self.table.spark.createDataFrame(rows, schema)

    def generate(self, mode: str) -> None:
        """Writes manifests for other engines; see `halocline.table.delta.manifests`."""
        self.table.generate(mode)

    # ------------------------------------------------------------------ changing rows

    def delete(self, condition: Expression | None = None) -> DataFrame:
        """Deletes rows; see `Table.delete`."""
        return self._affected(self.table.delete(condition, target_alias=self.name).metrics.get("numDeletedRows"))

    def update(self, condition: Expression | None = None, set: Mapping[str, Any] | None = None) -> DataFrame:
        """Updates rows; see `Table.update`."""
        done = self.table.update(set or {}, condition, target_alias=self.name)
        return self._affected(done.metrics.get("numUpdatedRows"))

    def merge(self, source: DataFrame, condition: Expression) -> DeltaMergeBuilder:
        """Begins a merge; see `Table.merge`."""
        return DeltaMergeBuilder(self.table.merge(source, condition, target_alias=self.name or TARGET_ALIAS))

    def _affected(self, count: int | None) -> DataFrame:
        return self._frame([(count,)], {"num_affected_rows": "BIGINT"})

    # ------------------------------------------------------------------ upkeep

    def optimize(self) -> DeltaOptimizeBuilder:
        """Begins a rearrangement; see `Table.optimize`."""
        return DeltaOptimizeBuilder(self.table.optimize())

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Deletes files that nobody needs any more, for real, as delta-spark does; the table's path comes back."""
        self.table.vacuum(retentionHours, dry_run=False, enforce_retention=checks_retention(self.table.spark))
        return self.table.spark.createDataFrame([(self.table.url,)], "path STRING")

    def restoreToVersion(self, version: int) -> DataFrame:
        """Goes back to a version; see `Table.restore`."""
        return self._restored(version=version)

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Goes back to the version that held at a time; see `Table.restore`."""
        return self._restored(timestamp=timestamp)

    def _restored(self, **target: Any) -> DataFrame:
        done = self.table.restore(**target)
        figures = {
            "table_size_after_restore": done.bytes,
            "num_of_files_after_restore": done.files,
            "num_removed_files": done.removed_files,
            "num_restored_files": done.restored_files,
            "removed_files_size": done.removed_bytes,
            "restored_files_size": done.restored_bytes,
        }
        return self._frame([tuple(figures.values())], dict.fromkeys(figures, "BIGINT"))

    def clone(
        self, target: str, isShallow: bool, replace: bool = False, properties: Mapping[str, str] | None = None
    ) -> DeltaTable:
        """Makes a clone; see `Table.shallow_clone` and `Table.deep_clone`."""
        return self._cloned(target, isShallow, replace, properties)

    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Makes a clone of a version."""
        return self._cloned(target, isShallow, replace, properties, version=version)

    def cloneAtTimestamp(
        self,
        timestamp: str,
        target: str,
        isShallow: bool,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Makes a clone of the version that held at a time."""
        return self._cloned(target, isShallow, replace, properties, timestamp=timestamp)

    def _cloned(
        self, target: str, shallow: bool, anew: bool, properties: Mapping[str, str] | None, **when: Any
    ) -> DeltaTable:
        cloned = self.table.shallow_clone if shallow else self.table.deep_clone
        return DeltaTable(cloned(_path(target), replace=anew, properties=properties, **when))

    # ------------------------------------------------------------------ the protocol

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Raises the table's protocol; see `Table.upgrade_table_protocol`."""
        self.table.upgrade_table_protocol(readerVersion, writerVersion)

    def addFeatureSupport(self, featureName: str) -> None:
        """Adds a feature; see `Table.add_feature_support`."""
        self.table.add_feature_support(featureName)

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Takes a feature out; see `Table.drop_feature_support`."""
        self.table.drop_feature_support(featureName, truncate_history=bool(truncateHistory))


@checks_arguments
@dataclass
class DeltaTableBuilder:
    """A table to be created, under the names of delta-spark; see `Table.create`.

    As there, every step changes the builder and returns it, so a notebook may or may not keep what comes back.
    """

    spark: SparkSession
    make: Callable[..., DeltaLakeTable]
    place: str | None = None
    columns: tuple[Field, ...] = ()
    partitions: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    description: str | None = None

    def tableName(self, identifier: str) -> DeltaTableBuilder:
        """The place, if the name is delta.`path`; other names are refused, since there is no catalog."""
        self.place = _named_path(identifier)
        return self

    def location(self, location: str) -> DeltaTableBuilder:
        """The place."""
        self.place = location
        return self

    def comment(self, comment: str) -> DeltaTableBuilder:
        """A description for people."""
        self.description = comment
        return self

    def addColumn(
        self,
        colName: str,
        dataType: Any,
        nullable: bool = True,
        generatedAlwaysAs: Any = None,
        generatedByDefaultAs: Any = None,
        comment: str | None = None,
    ) -> DeltaTableBuilder:
        """Adds a column. What generates it is SQL, or an `IdentityGenerator`; by default only the latter."""
        if generatedAlwaysAs is not None and generatedByDefaultAs is not None:
            raise InputError(
                f"column {colName} is generated always, or by default, not both",
                sides={
                    "generatedAlwaysAs": repr(generatedAlwaysAs)[:80],
                    "generatedByDefaultAs": repr(generatedByDefaultAs)[:80],
                },
                next_step="Leave one of them out.",
            )
        by_table = generatedAlwaysAs if generatedAlwaysAs is not None else generatedByDefaultAs
        expression = generatedAlwaysAs if isinstance(generatedAlwaysAs, str) else None
        sequence = None
        if by_table is not None and expression is None:
            if not _is_sequence(by_table):
                possible = "IdentityGenerator(start, step)"
                raise InputError(
                    f"column {colName} cannot be generated by a {type(by_table).__name__}",
                    sides={
                        "given": repr(by_table)[:80],
                        "possible": possible if generatedAlwaysAs is None else f"SQL, or {possible}",
                    },
                )
            sequence = Identity(int(by_table.start), int(by_table.step), generatedAlwaysAs is not None)
        added = column(colName, dataType, nullable=nullable, comment=comment, generated=expression, identity=sequence)
        self.columns = (*self.columns, added)
        return self

    def addColumns(self, cols: Any) -> DeltaTableBuilder:
        """Adds all columns of a schema."""
        self.columns = (*self.columns, *_columns(cols))
        return self

    def partitionedBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder:
        """Names the partition columns."""
        self.partitions = _flat(cols)
        return self

    def clusterBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder:
        """Names the clustering columns."""
        self.clusters = _flat(cols)
        return self

    def property(self, key: str, value: str) -> DeltaTableBuilder:
        """Sets a property."""
        self.properties = (*self.properties, (key, value))
        return self

    def execute(self) -> DeltaTable:
        """Creates the table."""
        if self.place is None:
            raise _without_path("")
        declared: dict[str, Any] = {
            "partition_by": self.partitions,
            "cluster_by": self.clusters,
            "properties": dict(self.properties),
            "comment": self.description,
        }
        return DeltaTable(self.make(self.place, list(self.columns), self.spark, **declared))


def _path(identifier: str) -> str:
    """The path in delta.`path`, parquet.`path`, or a plain path."""
    text = identifier.strip()
    for kind in ("delta.`", "parquet.`"):
        if text.lower().startswith(kind) and text.endswith("`"):
            return text[len(kind) : -1]
    return text


def _named_path(name: str) -> str:
    """The path in delta.`path`.

    Raises:
        UnsupportedError: It is the name of a table in a catalog.
    """
    if not name.strip().lower().startswith("delta.`"):
        raise _without_path(name)
    return _path(name)


def _without_path(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"tables are opened by path, and {name!r} is a name",
        sides={"given": name, "needed": "a path or URL"},
        next_step="DeltaTable.forPath(spark, path); SHOW CREATE TABLE tells the path of a table in a catalog.",
    )


def _columns(schema: Any) -> Sequence[Field]:
    return input_schema.declared(schema, keep_lengths=True).fields


def _is_sequence(given: Any) -> bool:
    """Whether it is an `IdentityGenerator`, be it delta-spark's own; a Spark column answers to every name."""
    return isinstance(getattr(given, "start", None), int) and isinstance(getattr(given, "step", None), int)


def _flat(names: Sequence[str | Sequence[str]]) -> tuple[str, ...]:
    return tuple(name for each in names for name in ([each] if isinstance(each, str) else each))


def _text_map(value: Any) -> Any:
    """A map of a commit as a map of texts, in the words of the log: `true`, and nothing where it has null."""
    return {key: _said(each) for key, each in value.items()} if isinstance(value, dict) else value


def _said(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _moment(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None


def __getattr__(name: str) -> Any:
    if name not in _PYSPARK:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PYSPARK[name]), name)

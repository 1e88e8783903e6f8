"""From a DataFrame to file groups of a Hudi table.

Rows are *keyed*: fitted to the table's columns, with their record key and partition path. They are *tagged* with the
file group that holds the key in that partition, by a join with the keys of base files, and of groups that have none.
New keys are spread over new groups. Then each group is written by one task, which holds the rows for that group and,
where it is rewritten, the group itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.evolution import fit_table
from halocline.formats.hudi.partition_paths import partition_paths
from halocline.formats.hudi.record_keys import RECORD_KEY, KeyColumns
from halocline.formats.hudi.slice_reader import SliceReader
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.formats.hudi.write.group_writer import GroupWriter, WriteTarget
from halocline.schema.arrow import arrow_schema, struct_of_arrow
from halocline.schema.types import Field, Primitive, Struct
from halocline.spark.scan.row_columns import RowColumns
from halocline.spark.scan.scan import scan
from halocline.spark.scan.slice_frames import PartReader, part_frame
from halocline.spark.types.columns import quoted, spark_schema, sql_type
from halocline.spark.types.file_layout import FileLayout
from halocline.storage.base import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY: Final = "__halocline_key"
PATH: Final = "__halocline_path"
GROUP: Final = "__halocline_group"
DELETED: Final = "__halocline_deleted"

ROWS_PER_GROUP: Final = 500_000
"""How many new rows a new file group is given at most, unless the user says otherwise."""

_TEXT: Final = Primitive("string")
_NUMBER: Final = Primitive("long")
_STAT: Final = "stat binary"


def keyed(df: DataFrame, columns: pa.Schema, config: HudiTableConfig, keys: KeyColumns) -> DataFrame:
    """The rows with the table's columns, their keys and their partition paths."""
    schema = struct_of_arrow(columns)
    nothing = {each.name: f"CAST(NULL AS {sql_type(each.type)}) AS {quoted(each.name)}" for each in schema.fields}
    shown = df.selectExpr(*(quoted(name) if name in df.columns else nothing[name] for name in schema.names))
    nullable = pa.schema([each.with_nullable(True) for each in columns])
    output = arrow_schema([*schema.fields, Field(KEY, _TEXT), Field(PATH, _TEXT)])

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                fitted = fit_table(batch, nullable, config.name)
                made = [keys.of(fitted), pa.array(partition_paths(fitted, config), pa.string())]
                whole = pa.Table.from_arrays([*fitted.columns, *made], names=[*nullable.names, KEY, PATH])
                yield from fit_table(whole, output, config.name).to_batches()

    return shown.mapInArrow(rows, spark_schema([*schema.fields, Field(KEY, _TEXT), Field(PATH, _TEXT)]))


@dataclass(frozen=True)
class _KeyReader:
    """Reads the keys of slices without base files, with the number of the group."""

    reader: SliceReader

    def read(self, store: Store, part: _Numbered) -> Iterator[pa.RecordBatch]:
        for batch in self.reader.read(store, part.slice):
            count = batch.num_rows
            columns = [batch.column(0), pa.repeat(part.slice.partition, count), pa.repeat(part.number, count)]
            yield pa.RecordBatch.from_arrays(columns, names=[KEY, PATH, GROUP])


@dataclass(frozen=True)
class _Numbered:
    number: int
    slice: FileSlice

    @property
    def size(self) -> int:
        return self.slice.size


def existing_keys(spark: SparkSession, store: Store, slices: Sequence[FileSlice], reader: SliceReader) -> DataFrame:
    """The keys that slices hold, each with the number of its slice in the list.

    Args:
        spark: The session.
        store: Where the table lies.
        slices: The slices.
        reader: Reads the keys of slices whose rows are in log files alone.
    """
    numbers = [number for number, each in enumerate(slices) if each.base is not None]
    based = [slices[number] for number in numbers]
    files = pa.table(
        {
            "path": pa.array([each.base.path for each in based if each.base], pa.string()),
            "size": pa.array([each.base.size for each in based if each.base], pa.int64()),
        }
    )
    layout = FileLayout(Struct([Field(RECORD_KEY, _TEXT)]))
    found = scan(spark, store, files, layout, rows=RowColumns(file=GROUP))
    places = pa.table({"at": pa.array(range(len(based)), pa.int64()), "n": pa.array(numbers, pa.int64())})
    places = places.append_column("p", pa.array([each.partition for each in based], pa.string()))
    side = spark.createDataFrame(places, "at BIGINT, n BIGINT, p STRING").hint("broadcast")
    shown = (f"{RECORD_KEY} AS {KEY}", f"p AS {PATH}", f"n AS {GROUP}")
    df = found.join(side, found[GROUP] == side["at"]).selectExpr(*shown)
    alone = [_Numbered(number, each) for number, each in enumerate(slices) if each.base is None]
    if alone:
        schema = Struct([Field(KEY, _TEXT), Field(PATH, _TEXT), Field(GROUP, _NUMBER)])
        df = df.unionAll(part_frame(spark, PartReader(store, _KeyReader(reader).read, schema), alone))
    return df


@dataclass
class Targets:
    """The file groups of a write, numbered: those that are there, then the new ones.

    Attributes:
        held: The groups that are there.
        new: The new ones.
    """

    held: Sequence[WriteTarget]
    new: list[WriteTarget] = field(default_factory=list)

    @property
    def every(self) -> list[WriteTarget]:
        """All of them, by number."""
        return [*self.held, *self.new]

    def spread(self, spark: SparkSession, counts: Mapping[str, int], rows_per_group: int) -> DataFrame:
        """Makes new groups for so many rows per partition, and says which numbers each partition has."""
        first, rows = len(self.held), []
        for path, count in sorted(counts.items()):
            groups = max(1, -(-count // rows_per_group))
            rows.append((path, first + len(self.new), groups))
            prefix = uuid.uuid4()
            self.new += [WriteTarget(path, f"{prefix}-{number}") for number in range(groups)]
        columns = [list(each) for each in zip(*rows, strict=True)] or [[], [], []]
        types = (pa.string(), pa.int64(), pa.int64())
        arrays = [pa.array(values, type) for values, type in zip(columns, types, strict=True)]
        table = pa.Table.from_arrays(arrays, names=[PATH, "first", "groups"])
        return spark.createDataFrame(table, f"{PATH} STRING, first BIGINT, groups BIGINT").hint("broadcast")


def spread_out(df: DataFrame, targets: Targets, rows_per_group: int) -> DataFrame:
    """Rows without a group, in new ones."""
    counts = {row[0]: row[1] for row in df.groupBy(PATH).count().collect()}
    places = targets.spread(df.sparkSession, counts, rows_per_group)
    number = f"first + pmod(xxhash64({KEY}), groups)"
    return df.drop(GROUP).join(places, PATH).selectExpr(*map(quoted, df.drop(GROUP).columns), f"{number} AS {GROUP}")


def write_groups(df: DataFrame, targets: Sequence[WriteTarget], writer: GroupWriter) -> list[WriteStat]:
    """Writes the rows of each group, and says what was written.

    Args:
        df: Keyed and numbered rows; with a column that says which of them are deletes, if there are any.
        targets: The groups, by number.
        writer: What writes a group.

    Raises:
        ConstraintError: A row has no key, or breaks a rule.
    """
    columns = [name for name in writer.reader.schema.names if not name.startswith("_hoodie_")]

    def write(table: pa.Table) -> pa.Table:
        from pyspark import TaskContext

        context = TaskContext.get()
        numbers = (0, 0, 0) if context is None else (context.partitionId(), context.stageId(), context.taskAttemptId())
        target = targets[table[GROUP][0].as_py()]
        gone = table[DELETED].combine_chunks() if DELETED in table.schema.names else None
        rows = table if gone is None else table.filter(pa.compute.invert(gone))
        dead = table.slice(0, 0) if gone is None else table.filter(gone)
        stat = writer.write(
            target,
            rows.select(columns),
            rows[KEY].combine_chunks(),
            dead[KEY].combine_chunks(),
            "-".join(map(str, numbers)),
            numbers[0],
        )
        return pa.table({"stat": pa.array([] if stat is None else [msgspec.json.encode(stat)], pa.binary())})

    found = df.groupBy(GROUP).applyInArrow(write, _STAT).collect()
    return [msgspec.json.decode(row[0], type=WriteStat) for row in found]

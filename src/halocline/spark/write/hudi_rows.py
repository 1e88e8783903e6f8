"""From a DataFrame to file groups of a Hudi table.

Rows are *keyed*: fitted to the table's columns, with their record key and partition path. They are *located*: the file
groups of their partitions are asked which of the keys they hold, or the hash of the key says it, if the table has a
bucket index. New keys are spread over new groups, or go to the group of their bucket. Then each group is written by
one task, which holds the rows for that group and, where it is rewritten, the group itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from halocline.formats.hudi.buckets import BucketIndex
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.evolution import fit_table
from halocline.formats.hudi.key_lookup import KeyLookup
from halocline.formats.hudi.partition_paths import partition_paths
from halocline.formats.hudi.record_keys import KeyColumns
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.formats.hudi.write.base_writer import check_keys
from halocline.formats.hudi.write.files_aside import move_into_place
from halocline.formats.hudi.write.group_writer import GroupWriter, WriteTarget
from halocline.schema.arrow import arrow_schema, struct_of_arrow
from halocline.schema.arrow_input import with_short_offsets
from halocline.schema.types import Field, Primitive, Struct
from halocline.spark.scan.slice_frames import PartReader, part_frame
from halocline.spark.session.grouping import counts_by
from halocline.spark.types.columns import (
    missing,
    quoted,
    spark_schema,
    struct_of,
)
from halocline.storage.base import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY: Final = "__halocline_key"
PATH: Final = "__halocline_path"
GROUP: Final = "__halocline_group"
BUCKET: Final = "__halocline_bucket"
DELETED: Final = "__halocline_deleted"

ROWS_PER_GROUP: Final = 500_000
"""How many new rows a new file group is given at most, unless the user says otherwise."""

_TEXT: Final = Primitive("string")
_NUMBER: Final = Primitive("long")
_STAT: Final = "stat binary"
_PLACES: Final = "__halocline_places"
_PLACES_SCHEMA: Final = pa.schema(
    {
        PATH: pa.string(),
        _PLACES: pa.struct(
            {
                "rows": pa.int64(),
                "numbers": pa.list_(pa.int64()),
                "ends": pa.list_(pa.int64()),
                "first": pa.int64(),
                "groups": pa.int64(),
            }
        ),
    }
)

_PLACES_TYPES: Final = f"""{PATH} STRING, {_PLACES} STRUCT<
    rows: BIGINT, numbers: ARRAY<BIGINT>, ends: ARRAY<BIGINT>, first: BIGINT, groups: BIGINT>"""
"""The same for Spark, which cannot be left to find the types of no rows: Spark Connect refuses to."""

Rooms: TypeAlias = Mapping[str, Sequence[tuple[int, int]]]
"""By partition, the numbers of the groups that take new rows, and how many."""


def keyed(
    df: DataFrame, columns: pa.Schema, config: HudiTableConfig, keys: KeyColumns, *, checked: bool = True
) -> DataFrame:
    """The rows with the table's columns, their keys and their partition paths, which are checked if rows go there."""
    schema = struct_of_arrow(columns)
    nothing = {each.name: f"{missing(each.type)} AS {quoted(each.name)}" for each in schema.fields}
    shown = df.selectExpr(*(quoted(name) if name in df.columns else nothing[name] for name in schema.names))
    nullable = pa.schema([each.with_nullable(True) for each in columns])
    output = arrow_schema([*schema.fields, Field(KEY, _TEXT), Field(PATH, _TEXT)])

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                fitted = fit_table(batch, nullable, config.name)
                paths = partition_paths(fitted, config, checked=checked)
                made = [keys.made(fitted), pa.array(paths, pa.string())]
                whole = pa.Table.from_arrays([*fitted.columns, *made], names=[*nullable.names, KEY, PATH])
                yield from fit_table(whole, output, config.name).to_batches()

    return shown.mapInArrow(rows, spark_schema([*schema.fields, Field(KEY, _TEXT), Field(PATH, _TEXT)]))


@dataclass(frozen=True)
class _Numbered:
    number: int
    slice: FileSlice

    @property
    def size(self) -> int:
        return self.slice.size


@dataclass(frozen=True)
class _NumberedKeys:
    """Looks keys up, and says in which slice of a list they are."""

    lookup: KeyLookup

    def read(self, store: Store, part: _Numbered) -> Iterator[pa.RecordBatch]:
        for keys in self.lookup.find(store, part.slice):
            count = len(keys)
            columns = [keys, pa.repeat(part.slice.partition, count), pa.repeat(part.number, count)]
            yield pa.RecordBatch.from_arrays(columns, names=[KEY, PATH, GROUP])


def located(
    df: DataFrame, store: Store, slices: Sequence[FileSlice], lookup: KeyLookup, *, keys_at_once: int
) -> DataFrame:
    """Rows with the number of each slice in a list that holds their key; null where none does.

    Keys that fit into the memory of a task are taken to the slices, which read no row if their footers rule all of them
    out. Of more keys, the slices' own are taken to them, by a join.

    Args:
        df: Keyed rows, which are not computed again.
        store: Where the table lies.
        slices: The slices, of all partitions that the rows belong to.
        lookup: Looks keys up.
        keys_at_once: How many keys are taken to the slices.
    """
    wanted = df.where(f"{KEY} IS NOT NULL").select(PATH, KEY).distinct().limit(keys_at_once + 1)
    wanted = with_short_offsets(wanted.toArrow())
    if wanted.num_rows <= keys_at_once:
        paths, keys = wanted[PATH].combine_chunks(), wanted[KEY].combine_chunks()
        by_path = {path: keys.filter(pa.compute.equal(paths, path)) for path in paths.unique().to_pylist()}
        lookup = replace(lookup, wanted=by_path)
    parts = [_Numbered(number, each) for number, each in enumerate(slices)]
    schema = Struct([Field(KEY, _TEXT), Field(PATH, _TEXT), Field(GROUP, _NUMBER)])
    known = part_frame(df.sparkSession, PartReader(store, _NumberedKeys(lookup).read, schema), parts)
    return df.join(known, [KEY, PATH], "left")


def bucketed(df: DataFrame, index: BucketIndex) -> DataFrame:
    """Keyed rows with the bucket of each."""
    schema = struct_of(df.schema)
    output = Struct([*schema.fields, Field(BUCKET, _NUMBER)])

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys = batch.column(batch.schema.get_field_index(KEY)).cast(pa.string())
            check_keys(keys)
            yield batch.append_column(BUCKET, pa.array(index.of(keys), pa.int64()))

    return df.mapInArrow(rows, spark_schema(output.fields))


@dataclass
class Targets:
    """The file groups of a write, numbered: those that are there, then the new ones.

    Attributes:
        held: The groups that are there.
        new: The new ones.
    """

    held: list[WriteTarget]
    new: list[WriteTarget] = field(default_factory=list)

    @property
    def every(self) -> list[WriteTarget]:
        """All of them, by number."""
        return [*self.held, *self.new]

    def spread(
        self, spark: SparkSession, counts: Mapping[str, int], rows_per_group: int, rooms: Rooms | None = None
    ) -> DataFrame:
        """Finds groups for so many rows per partition, and says which numbers each partition has.

        Those that are there and have room come first, each with the number of rows before which it is full; new ones
        take what is left.
        """
        rows = []
        for path, count in sorted(counts.items()):
            filled, numbers, ends = 0, [], []
            for number, room in (rooms or {}).get(path, ()):
                if filled < count:
                    filled += min(room, count - filled)
                    numbers.append(number)
                    ends.append(filled)
            groups = -(-(count - filled) // rows_per_group)
            first = len(self.held) + len(self.new)
            told = {"rows": count, "numbers": numbers, "ends": ends, "first": first, "groups": groups}
            rows.append({PATH: path, _PLACES: told})
            prefix = uuid.uuid4()
            self.new += [WriteTarget(path, f"{prefix}-{number}") for number in range(groups)]
            for number in numbers:
                self.held[number] = replace(self.held[number], takes_new=True)
        table = pa.Table.from_pylist(rows, _PLACES_SCHEMA) if rows else _PLACES_SCHEMA.empty_table()
        return spark.createDataFrame(table, _PLACES_TYPES).hint("broadcast")


def in_buckets(df: DataFrame, numbers: Mapping[tuple[str, int], int]) -> DataFrame:
    """Rows with the number of the group of their bucket, without those whose bucket has none.

    Args:
        df: Rows with their buckets.
        numbers: The number of each group, by partition and bucket.
    """
    rows = [(path, bucket, number) for (path, bucket), number in numbers.items()]
    columns = [list(each) for each in zip(*rows, strict=True)] or [[], [], []]
    types = (pa.string(), pa.int64(), pa.int64())
    arrays = [pa.array(values, type) for values, type in zip(columns, types, strict=True)]
    table = pa.Table.from_arrays(arrays, names=[PATH, BUCKET, GROUP])
    places = df.sparkSession.createDataFrame(table, f"{PATH} STRING, {BUCKET} BIGINT, {GROUP} BIGINT")
    return df.join(places.hint("broadcast"), [PATH, BUCKET]).drop(BUCKET)


def spread_out(df: DataFrame, targets: Targets, rows_per_group: int, rooms: Rooms | None = None) -> DataFrame:
    """Rows without a group, in groups that have room, and in new ones."""
    counts = counts_by(df, PATH)
    places = targets.spread(df.sparkSession, counts, rows_per_group, rooms)
    number = f"{_PLACES}.first + pmod(xxhash64({KEY}), greatest({_PLACES}.groups, 1))"
    if rooms:
        # The keys' hashes are spread evenly, so as many of them are below a number as it says, or nearly so.
        place = f"pmod(xxhash64({KEY}, 1), {_PLACES}.rows)"
        number = f"coalesce(get({_PLACES}.numbers, size(filter({_PLACES}.ends, each -> each <= {place}))), {number})"
    return df.drop(GROUP).join(places, PATH).selectExpr(*map(quoted, df.drop(GROUP).columns), f"{number} AS {GROUP}")


def write_groups(df: DataFrame, targets: Sequence[WriteTarget], writer: GroupWriter) -> list[WriteStat]:
    """Writes the rows of each group, and says what was written.

    Args:
        df: Keyed and numbered rows; with a column that says which of them are deletes, if there are any.
        targets: The groups, by number.
        writer: What writes a group.
    """
    columns = [name for name in writer.reader.schema.names if not name.startswith("_hoodie_")]
    tasks = replace(writer, aside=True)

    def write(given: pa.Table) -> pa.Table:
        # Where the session is set to longer offsets, Spark gives them, and takes nothing else.
        reported = pa.large_binary() if pa.types.is_large_string(given.schema.field(KEY).type) else pa.binary()
        table, numbers = with_short_offsets(given), attempt()
        target = targets[table[GROUP][0].as_py()]
        gone = table[DELETED].combine_chunks() if DELETED in table.schema.names else None
        rows = table if gone is None else table.filter(pa.compute.invert(gone))
        dead = table.slice(0, 0) if gone is None else table.filter(gone)
        stat = tasks.write(
            target,
            rows.select(columns),
            rows[KEY].combine_chunks(),
            dead[KEY].combine_chunks(),
            "-".join(map(str, numbers)),
            numbers[0],
        )
        return pa.table({"stat": pa.array([] if stat is None else [msgspec.json.encode(stat)], reported)})

    found = df.groupBy(GROUP).applyInArrow(write, _STAT).collect()
    stats = [msgspec.json.decode(row[0], type=WriteStat) for row in found]
    move_into_place(writer.store, writer.instant, [each.path for each in stats if each.path])
    return stats


def attempt() -> tuple[int, int, int]:
    """The task, its stage and its attempt, which write tokens are made of."""
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    return (0, 0, 0) if context is None else (context.partitionId(), context.stageId(), context.taskAttemptId())

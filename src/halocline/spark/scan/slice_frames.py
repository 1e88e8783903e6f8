"""From file slices of a Hudi table to a DataFrame of their rows.

A slice whose base file holds all its rows is read by Spark's own Parquet reader, with all others of that kind in one
scan. A slice whose log files are small beside its base file is read so too, in two halves: before the plan is made, the
keys alone are read, and tell which rows of the base file do not hold any more, by their positions. The scan takes those
out by one bit per row, as it does for deletion vectors, and the rows of the log files are added. Keys of small tables
are read by threads of the driver, those of others by a Spark job. Other slices with log files are merged whole by a
worker, one slice after the other, a batch at a time, so a worker holds the log of one file group and no more. So is a
base file that was written with types that Spark's reader does not turn into those of the table, or without a column
that has a default.

Which types a base file has, the write tells that made it; footers are read only of files whose write has left the
active timeline.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import pyarrow as pa

from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.snapshot.pruning import StatsPruner
from halocline.formats.hudi.base_file import check_format
from halocline.formats.hudi.evolution import fit_table
from halocline.formats.hudi.names import BaseFile
from halocline.formats.hudi.partition_paths import partition_values
from halocline.formats.hudi.slice_reader import CommitFilter, SliceHalves, SliceReader
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.table_schema import COMMIT_TIME, META_COLUMNS, written_columns
from halocline.schema.arrow import arrow_schema, struct_of_arrow
from halocline.schema.types import Field, Primitive, Struct
from halocline.spark.scan.footers import at_once, footers
from halocline.spark.scan.frames import session_zone
from halocline.spark.scan.packing import packed
from halocline.spark.scan.scan import columns_asked_for, columns_spoken_of, scan
from halocline.spark.session.analysis import filtered, read_without_spark
from halocline.spark.types.columns import quoted, spark_schema, text_literal
from halocline.spark.types.file_layout import FileLayout
from halocline.storage.base import Store
from halocline.storage.memory import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_TEXT: Final = Primitive("string")
_SMALL_SHARE: Final = 1
"""A log is small if its base file is so many times as large. Its rows are not compressed: at 1 it has a fifth of the
rows or so, and handing all rows over by workers costs about as much."""

_SMALL_LOGS: Final = 128 * 1024 * 1024
"""How much of logs is read for its keys before the plan is made."""

_KEYS_HERE: Final = 256 * 1024 * 1024
"""Of as many bytes of slices, at most, the driver reads the keys itself: a job costs more."""

_ROWS_HERE: Final = 16 * 1024 * 1024
"""Of as many bytes of logs, at most, the driver reads the rows itself, and they become part of the plan."""

_NUMBER: Final = "number"
_HALVES: Final = Struct([Field(_NUMBER, Primitive("long")), Field("halves", Primitive("binary"))])
_TASK_BYTES: Final = 16 * 1024 * 1024
_LEAST_TASKS: Final = 8
_TOLD_BY_PATHS: Final = frozenset({"string", "integer", "long", "boolean"})
"""Types whose values stand in partition paths as they are, whichever writer made the path."""

_WIDENED: Final = frozenset({(pa.int32(), pa.int64()), (pa.int32(), pa.float64()), (pa.float32(), pa.float64())})
"""Changes of type that Spark's reader follows."""


class _Sized(Protocol):
    @property
    def size(self) -> int: ...


P = TypeVar("P", bound=_Sized)


def slice_frame(
    spark: SparkSession,
    snapshot: HudiSnapshot,
    slices: Sequence[FileSlice],
    reading: Callable[[Sequence[str]], SliceReader],
    *,
    where: str | Column | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The rows of slices.

    Args:
        spark: The session.
        snapshot: The table.
        slices: The slices.
        reading: What reads slices, for the columns to give.
        where: A condition. As SQL text it also leaves partitions out.
        columns: The columns wanted; all if not given.

    Raises:
        InputError: There is no such column.
        UnsupportedError: A column has a type that Spark does not have.
    """
    fields = snapshot.schema.columns
    names = Struct([Field(name, _TEXT) for name in fields.names])
    wanted = columns_asked_for(names, columns)
    needed = columns_spoken_of(names, wanted, where)
    schema = struct_of_arrow([fields.field(name) for name in needed])
    reader = reading(needed)
    if (text := read_without_spark(spark, where)) is not None:
        slices = pruned_slices(snapshot, slices, text, schema, session_zone(spark))
    native, others = _divided(snapshot, slices, reader)
    halved, others = _halved(spark, snapshot, others, reader)
    frames = []
    if native or halved or not others:
        files = _base_files([*native, *(each.slice for each in halved)])
        deleted = {number: each.halves.gone for number, each in enumerate(halved, len(native))}
        layout = FileLayout(schema if reader.commits is None else _with_commit_time(schema)).with_nulls
        counting = None if reader.commits is None else _condition(reader.commits)
        frames.append(scan(spark, snapshot.store, files, layout, deleted=deleted, columns=needed, where=counting))
    if halved:
        here = sum(each.size for each in halved) <= _ROWS_HERE
        changed = PartReader(snapshot.store, _ChangedRows(reader).read, schema)
        frames.append((rows_here if here else part_frame)(spark, changed, halved))
    if others:
        frames.append(part_frame(spark, PartReader(snapshot.store, reader.read, schema), others))
    df = reduce(lambda one, other: one.unionByName(other), frames)
    df = df if where is None else filtered(df, where)
    return df if needed == wanted else df.select(*map(quoted, wanted))


@dataclass(frozen=True, slots=True)
class _HalvedSlice:
    slice: FileSlice
    halves: SliceHalves

    @property
    def size(self) -> int:
        """The size of its log files, which are what is left to read."""
        return sum(each.size for each in self.slice.logs)


@dataclass(frozen=True, slots=True)
class _ChangedRows:
    """Reads the rows that hold in log files."""

    reader: SliceReader

    def read(self, store: Store, part: _HalvedSlice) -> Iterator[pa.RecordBatch]:
        return self.reader.read_changed(store, part.slice, part.halves.beaten)


@dataclass(frozen=True, slots=True)
class _NumberedSlice:
    number: int
    slice: FileSlice

    @property
    def size(self) -> int:
        return self.slice.size


@dataclass(frozen=True, slots=True)
class _HalvesReader:
    """Reads the keys of slices, and tells which rows hold in which half."""

    reader: SliceReader

    def read(self, store: Store, part: _NumberedSlice) -> Iterator[pa.RecordBatch]:
        found = pickle.dumps(self.reader.halves(store, part.slice))
        yield pa.RecordBatch.from_pydict({_NUMBER: [part.number], "halves": [found]}, arrow_schema(_HALVES.fields))


def _base_files(slices: Sequence[FileSlice]) -> pa.Table:
    return pa.table(
        {
            "path": pa.array([each.base.path for each in slices if each.base], pa.string()),
            "size": pa.array([each.base.size for each in slices if each.base], pa.int64()),
        }
    )


@dataclass(frozen=True)
class PartReader:
    """What a worker needs to know to read parts of a table: slices, or changes.

    Attributes:
        store: Where the table lies.
        read: Reads one part.
        schema: The columns of the result.
    """

    store: Store
    read: Callable[[Store, Any], Iterator[pa.RecordBatch]]
    schema: Struct

    def batches(self, part: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one part, in the types that Spark takes."""
        wanted = arrow_schema(self.schema.fields)
        for batch in self.read(self.store, part):
            yield from fit_table(batch, wanted, self.store.root).to_batches()


def part_frame(
    spark: SparkSession,
    reader: PartReader,
    parts: Sequence[P],
    divide: Callable[[Sequence[P]], Sequence[Sequence[P]]] | None = None,
) -> DataFrame:
    """The rows of parts of a table, read by workers, in tasks as `divide` makes them, or else as `in_tasks` does."""
    if not parts or isinstance(reader.store, MemoryStore):  # no other process sees it
        return rows_here(spark, reader, parts)
    tasks = (divide or in_tasks)(parts)

    def rows(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (each for batch in numbers for each in batch.column(0).to_pylist()):
            for part in tasks[number]:
                yield from reader.batches(part)

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(rows, spark_schema(reader.schema.fields))


def rows_here(spark: SparkSession, reader: PartReader, parts: Sequence[Any]) -> DataFrame:
    """The rows of parts of a table, read by the driver."""
    schema = arrow_schema(reader.schema.fields)
    batches = [batch for part in parts for batch in reader.batches(part)]
    # Spark does not take a nested column without a chunk.
    table = pa.Table.from_batches(batches, schema) if batches else schema.empty_table()
    return spark.createDataFrame(table, spark_schema(reader.schema.fields))


def in_tasks(parts: Sequence[P]) -> list[list[P]]:
    """Parts, one for each task; small ones together.

    Example:
        >>> in_tasks([])
        []
    """
    most = min(_TASK_BYTES, sum(each.size for each in parts) // _LEAST_TASKS)
    return list(packed(parts, lambda each: each.size, most))


# ------------------------------------------------------------------ which slices, and how each is read


def pruned_slices(
    snapshot: HudiSnapshot, slices: Sequence[FileSlice], where: str, schema: Struct, zone: str
) -> Sequence[FileSlice]:
    """The slices whose partition may hold a row that is asked for."""
    told = [each.name for each in snapshot.config.partition_fields if _is_told(schema, each.name)]
    if not told or not slices:
        return slices
    paths = [each.partition for each in slices]
    values = [
        [(name, text) for name, text in partition_values(path, snapshot.config).items() if name in told]
        for path in paths
    ]
    facts = {"path": pa.array(paths), "partitionValues": pa.array(values, pa.map_(pa.string(), pa.string()))}
    kept = StatsPruner(where, Schema.of(schema), told, timezone=zone).keep(facts)
    return slices if kept is None else [each for each, keep in zip(slices, kept.to_pylist(), strict=True) if keep]


def _divided(
    snapshot: HudiSnapshot, slices: Sequence[FileSlice], reader: SliceReader
) -> tuple[list[FileSlice], list[FileSlice]]:
    """The slices that Spark reads, and those that workers read."""
    for each in slices:
        if each.base is not None:
            check_format(each.base)
    merging = reader.rule is not None
    plain = [each for each in slices if each.base is not None and not (merging and each.logs)]
    odd = _odd(snapshot, [each.base for each in plain if each.base], reader)
    native = [each for each in plain if each.base and each.base.path not in odd]
    chosen = set(native)
    # A read-optimised query has nothing to read of a group that has no base file yet.
    return native, [each for each in slices if each not in chosen and (merging or each.base is not None)]


def _halved(
    spark: SparkSession, snapshot: HudiSnapshot, slices: Sequence[FileSlice], reader: SliceReader
) -> tuple[list[_HalvedSlice], list[FileSlice]]:
    """The slices with log files that are read in halves, and those that workers merge whole."""
    if reader.rule is None or reader.commits is not None:
        return [], list(slices)
    odd = _odd(snapshot, [each.base for each in slices if each.base and each.logs], reader)
    small = [
        each
        for each in slices
        if each.base is not None
        and each.logs
        and each.base.path not in odd
        and sum(log.size for log in each.logs) * _SMALL_SHARE <= each.base.size
    ]
    if sum(log.size for each in small for log in each.logs) > _SMALL_LOGS:
        return [], list(slices)
    found = zip(small, _halves(spark, snapshot.store, small, reader), strict=True)
    halved = {slice: _HalvedSlice(slice, halves) for slice, halves in found if halves is not None}
    return list(halved.values()), [each for each in slices if each not in halved]


def _halves(
    spark: SparkSession, store: Store, slices: Sequence[FileSlice], reader: SliceReader
) -> list[SliceHalves | None]:
    if isinstance(store, MemoryStore) or sum(each.size for each in slices) <= _KEYS_HERE:
        return at_once(lambda each: reader.halves(store, each), slices)
    numbered = [_NumberedSlice(number, each) for number, each in enumerate(slices)]
    found = part_frame(spark, PartReader(store, _HalvesReader(reader).read, _HALVES), numbered).collect()
    return [pickle.loads(halves) for _, halves in sorted(found)]


def _odd(snapshot: HudiSnapshot, bases: Sequence[BaseFile], reader: SliceReader) -> set[str]:
    """The base files that Spark's reader would not read as the table's schema has them."""
    wanted = [reader.schema.field(name) for name in reader.columns if name not in META_COLUMNS]
    told = written_columns(snapshot.timeline, {each.instant for each in bases})
    fits = {instant: _fits(wanted, columns, reader.defaults) for instant, columns in told.items()}
    unsure = [each for each in bases if not fits.get(each.instant)]
    found = footers(snapshot.store, [(each.path, each.size) for each in unsure])
    return {
        base.path
        for base, footer in zip(unsure, found, strict=True)
        if not _fits(wanted, footer.schema.to_arrow_schema(), reader.defaults)
    }


def _fits(wanted: Sequence[pa.Field], held: pa.Schema, defaults: Mapping[str, Any]) -> bool:
    return all(_fits_column(field, held, defaults) for field in wanted)


def _fits_column(field: pa.Field, held: pa.Schema, defaults: Mapping[str, Any]) -> bool:
    at = held.get_field_index(field.name)
    if at < 0:
        return defaults.get(field.name) is None
    type = held.field(at).type
    if pa.types.is_timestamp(type) and pa.types.is_timestamp(field.type):
        return type.unit == "ns" or bool(type.tz) == bool(field.type.tz)
    return _shape(type) == _shape(field.type) or (type, field.type) in _WIDENED


def _shape(type: pa.DataType) -> Any:
    """A type without the names that writers give the insides of lists and maps, and without what may be null."""
    if pa.types.is_struct(type):
        return [(each.name, _shape(each.type)) for each in type]
    if pa.types.is_map(type):
        return "map", _shape(type.key_type), _shape(type.item_type)
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return "list", _shape(type.value_type)
    return str(type)


# ------------------------------------------------------------------ small things


def _with_commit_time(schema: Struct) -> Struct:
    return schema if schema.get(COMMIT_TIME) else schema.with_fields([*schema.fields, Field(COMMIT_TIME, _TEXT)])


def _condition(commits: CommitFilter) -> str:
    """The filter as Spark SQL."""
    tests = [f"{COMMIT_TIME} IS NOT NULL"]
    if commits.times is not None:
        tests.append(f"{COMMIT_TIME} IN ({', '.join(map(text_literal, sorted(commits.times))) or 'NULL'})")
    if commits.after is not None:
        tests.append(f"{COMMIT_TIME} > {text_literal(commits.after)}")
    if commits.until is not None:
        tests.append(f"{COMMIT_TIME} <= {text_literal(commits.until)}")
    return " AND ".join(tests)


def _is_told(schema: Struct, name: str) -> bool:
    field = schema.get(name)
    return field is not None and isinstance(field.type, Primitive) and field.type.name in _TOLD_BY_PATHS

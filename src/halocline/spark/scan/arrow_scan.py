"""Scans through Arrow, for files that Spark itself cannot read.

Spark may have no file system for a table's URL, and it skips or refuses some file names. Python workers then read the
files with Arrow and hand the rows over, with deleted rows taken out and partition values put in. The rows are the same
as those of a native scan; what is missing is Spark's pruning, so only the columns asked for are read.

The workers need Halocline installed, and access to the store through their own environment or the store's options.

The limits: variant columns cannot be handed over, and old dates and timestamps in files that were written in the
Julian calendar are refused rather than shifted, as are values of another type that Spark would not take either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from halocline.errors import MalformedError, UnsupportedError
from halocline.schema.arrow import arrow_schema, arrow_type
from halocline.schema.arrow_arrays import ArrowArrays
from halocline.schema.char_types import declared_type, is_padded, length_of
from halocline.schema.types import DataType, Field, Primitive, Struct
from halocline.spark.scan.deleted_rows import positions_of
from halocline.spark.scan.footers import field_paths, no_parquet, open_file
from halocline.spark.types.columns import holds, spark_schema
from halocline.spark.types.file_columns import Names, read_fields
from halocline.spark.types.partition_values import typed_scalar
from halocline.storage.base import Store
from halocline.storage.memory import MemoryStore
from halocline.versions import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS: Final = 65536
_FEWEST_ROWS: Final = 256
_BATCH_BYTES: Final = 32 * 1024 * 1024
_TASK_BYTES: Final = 64 * 1024 * 1024
_FILES: Final = pa.schema(
    {
        "number": pa.int64(),
        "path": pa.string(),
        "size": pa.int64(),
        "deleted": pa.binary(),
        "values": pa.list_(pa.string()),
        "of_file": pa.list_(pa.int64()),
    }
)
_GREGORIAN: Final = {pa.date32(): -141427, pa.timestamp("us"): -2208988800000000}
"""From which day, and from which microsecond, both calendars say the same: 1582-10-15, and 1900 for times, since the
old releases also took a zone for as old as time."""


class ArrowFile(msgspec.Struct, frozen=True):
    """A file to read.

    Attributes:
        number: Its number in the scan.
        path: Its decoded path.
        size: Its length; 0 if unknown.
        deleted: The positions that are gone.
        values: The canonical text of each partition column.
        of_file: The numbers that all rows of the file share.
    """

    number: int
    path: str
    size: int
    deleted: BitMap64 | None
    values: Sequence[str | None]
    of_file: Sequence[int | None] = ()


@dataclass(frozen=True, slots=True)
class ArrowReader:
    """What a worker needs to know.

    Attributes:
        store: The table's store.
        mode: The table's column mapping.
        fields: The columns to read, with logical names, none of them void.
        partitions: The partition columns to add.
        stored: Names of further columns, and the physical ones that they are read from, if a file has them.
        file: The name of a column for the number of the file, if wanted.
        row: The name of a column for the position of each row, if wanted.
        of_file: Names of columns that hold a number per file.
        alone: Whether each file is read by one thread, where several files are read at once anyway.
    """

    store: Store
    mode: str
    fields: Sequence[Field]
    partitions: Sequence[Field]
    stored: Mapping[str, str]
    file: str | None = None
    row: str | None = None
    of_file: Sequence[str] = ()
    alone: bool = False

    @property
    def hidden(self) -> list[str]:
        """The columns of the result that are not the table's."""
        return [name for name in (*self.stored, self.file, self.row, *self.of_file) if name is not None]

    @property
    def columns(self) -> list[Field]:
        """The columns of the result."""
        return [*self.fields, *self.partitions, *(Field(name, Primitive("long")) for name in self.hidden)]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        return arrow_schema(self.columns)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reads the files listed in the batches; this is what a worker runs."""
        for batch in batches:
            for row in batch.to_pylist():
                deleted = row.pop("deleted")
                yield from self.read(ArrowFile(deleted=deleted and BitMap64.deserialize(deleted), **row))

    def read(self, file: ArrowFile) -> Iterator[pa.RecordBatch]:
        """The living rows of one file."""
        schema = self.schema
        parquet = open_file(self.store, file.path, file.size)
        source = _Source(parquet, self.mode, file.path)
        gone = np.empty(0, np.uint64) if file.deleted is None else positions_of(file.deleted)
        fields, partitions = ([_declared(field) for field in some] for some in (self.fields, self.partitions))
        constants = [
            _padded(typed_scalar(text, arrow_type(field.type)), field.type)
            for text, field in zip(file.values, partitions, strict=True)
        ]
        for start, batch in source.batches(fields, list(self.stored.values()), threads=not self.alone):
            keep = _living(start, batch.num_rows, gone)
            columns = [source.column(batch, field) for field in fields]
            count = batch.num_rows
            columns += [pa.repeat(value, count) for value in constants]
            columns += [source.stored(batch, name) for name in self.stored.values()]
            if self.file is not None:
                columns.append(pa.repeat(pa.scalar(file.number, pa.int64()), count))
            if self.row is not None:
                columns.append(pa.array(np.arange(start, start + count), pa.int64()))
            columns += [pa.repeat(pa.scalar(number, pa.int64()), count) for number in file.of_file]
            result = pa.RecordBatch.from_arrays(columns, schema=schema)
            yield result if keep is None else result.filter(keep)


def arrow_frame(spark: SparkSession, reader: ArrowReader, files: Sequence[ArrowFile]) -> DataFrame:
    """The rows of the files as a DataFrame."""
    for field in reader.columns:
        if holds(field.type, ("variant",)):
            raise UnsupportedError(
                f"column {field.name} is a variant, which only a native scan can read",
                sides={"column": field.name, "table": reader.store.root},
                next_step="Leave the column out with columns=, or use a Spark that has a file system for the table.",
            )
    schema = spark_schema(read_fields(reader.columns, Names()))
    if isinstance(reader.store, MemoryStore):  # no other process sees it
        batches = [batch for file in files for batch in reader.read(file)]
        return spark.createDataFrame(pa.Table.from_batches(batches, reader.schema), schema)
    rows = [{**msgspec.structs.asdict(file), "deleted": file.deleted and file.deleted.serialize()} for file in files]
    listed = spark.createDataFrame(pa.Table.from_pylist(rows, _FILES))
    tasks = min(len(files), max(4, sum(file.size for file in files) // _TASK_BYTES))
    return listed.repartition(tasks).mapInArrow(reader, schema)


class _Source(ArrowArrays):
    """One open file and how its columns become those of the table."""

    def __init__(self, file: pq.ParquetFile, mode: str, path: str) -> None:
        self._file = file
        self._path = path
        by_id = {identity: names[-1] for identity, names in field_paths(file.metadata).items()}
        if mode == "id" and not by_id:
            raise no_field_ids(path)
        self._names = Names(mode, by_id if mode == "id" else None)
        self._julian = is_julian(file.metadata)
        self._top = _lookup([field.name for field in file.schema_arrow])

    def batches(
        self, fields: Sequence[Field], stored: Sequence[str], *, threads: bool
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches with the columns needed, each with the position of its first row."""
        wanted = [name for name in (*map(self._found, fields), *map(self._top.get, stored)) if name is not None]
        start = 0
        if not wanted:
            total = self._file.metadata.num_rows
            for start in range(0, total, _ROWS):
                count = min(_ROWS, total - start)
                yield start, pa.RecordBatch.from_arrays([pa.nulls(count)], ["rows"])
            return
        try:
            for batch in self._file.iter_batches(self._batch_rows(), columns=wanted, use_threads=threads):
                yield start, batch
                start += batch.num_rows
        except OSError as error:  # what Arrow raises for damaged pages; nothing else is read here
            raise no_parquet(self._path, str(error)[:200]) from error

    def _batch_rows(self) -> int:
        """How many rows are read at once: fewer if they are long."""
        footer = self._file.metadata
        size = sum(int(footer.row_group(number).total_byte_size) for number in range(footer.num_row_groups))
        return max(_FEWEST_ROWS, min(_ROWS, _BATCH_BYTES * int(footer.num_rows) // max(size, 1)))

    def column(self, batch: pa.RecordBatch, field: Field) -> pa.Array:
        """One column of the table."""
        name = self._found(field)
        if name is None:
            return pa.nulls(batch.num_rows, arrow_type(field.type))
        return self.visit(field.type, batch.column(batch.schema.get_field_index(name)))

    def stored(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """A column of numbers that the file may have."""
        index = batch.schema.get_field_index(self._top.get(name, ""))
        return pa.nulls(batch.num_rows, pa.int64()) if index < 0 else batch.column(index).cast(pa.int64())

    def _found(self, field: Field) -> str | None:
        name = self._names.of(field)
        return None if name is None else self._top.get(name, self._top.get(name.lower()))

    def children(self, type: Struct, context: pa.Array) -> list[pa.Array]:
        stored = _lookup([child.name for child in context.type])
        children = {child.name: part for child, part in zip(context.type, context.flatten(), strict=True)}
        found = [stored.get(name, stored.get(name.lower())) for name in (self._names.of(f) or "" for f in type.fields)]
        return [pa.nulls(len(context)) if name is None else children[name] for name in found]

    def primitive(self, type: Primitive, context: pa.Array) -> pa.Array:
        wanted = arrow_type(type)
        if context.type == wanted:
            result = context
        elif not _is_taken_for(context.type, wanted):
            raise UnsupportedError(
                f"{self._path} holds values of another type than the table has",
                sides={"table": str(type), "file": str(context.type)},
                next_step="Write the file again with the type that the table has.",
            )
        elif pa.types.is_timestamp(wanted):
            result = context.cast(pa.timestamp("us", getattr(context.type, "tz", None))).cast(wanted)
        else:
            result = context.cast(wanted)
        if self._julian and (pa.types.is_date(wanted) or pa.types.is_timestamp(wanted)):
            self._refuse_julian(result)
        return _padded(result, type)

    def _refuse_julian(self, array: pa.Array) -> None:
        number = pa.int32() if pa.types.is_date(array.type) else pa.int64()
        first = pc.min(array.cast(number)).as_py()
        limit = _GREGORIAN[pa.date32() if pa.types.is_date(array.type) else pa.timestamp("us")]
        if first is not None and first < limit:
            raise UnsupportedError(
                f"{self._path} holds dates before 1582-10-15, or times before 1900, in the Julian calendar",
                sides={"written by": "Spark before 3.0, before 3.1 in twelve bytes, or in its legacy mode"},
                next_step="Read the table with a Spark that has a file system for it.",
            )


def _is_taken_for(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of a file may be those of a type: elsewhere Arrow casts what Spark does not, to other values.

    What does not fit is an error of Arrow then; but it rounds floating-point numbers without a word.
    """
    kinds, stored = pa.types, stored.value_type if pa.types.is_dictionary(stored) else stored
    if _is_bytes(wanted):
        return _is_bytes(stored)
    if kinds.is_floating(wanted):
        wide = kinds.is_floating(stored) and stored.bit_width <= wanted.bit_width
        return bool(kinds.is_integer(stored) or wide)
    if kinds.is_decimal(wanted):
        return bool(kinds.is_integer(stored) or kinds.is_decimal(stored))
    if kinds.is_timestamp(wanted):
        return bool(kinds.is_timestamp(stored) or kinds.is_date(stored))
    if kinds.is_date(wanted):
        return bool(kinds.is_date(stored) or stored == pa.int32())
    return bool(kinds.is_integer(wanted) and (kinds.is_integer(stored) or kinds.is_temporal(stored)))


def _is_bytes(type: pa.DataType) -> bool:
    kinds = pa.types
    views = kinds.is_string_view(type) or kinds.is_binary_view(type)
    large = kinds.is_large_string(type) or kinds.is_large_binary(type)
    return bool(kinds.is_string(type) or kinds.is_binary(type) or kinds.is_fixed_size_binary(type) or large or views)


def _declared(field: Field) -> Field:
    """The column with the lengths of its text in its type."""
    type = declared_type(field)
    return field if type is None else replace(field, type=type)


def _padded(values: Any, type: DataType) -> Any:
    return pc.utf8_rpad(values, length_of(type)) if is_padded(type) else values


def no_field_ids(path: str) -> MalformedError:
    """The error for a file whose columns cannot be told apart."""
    return MalformedError(
        f"{path} has no field ids, but the table's columns are mapped by id",
        sides={"file": path, "table": "delta.columnMapping.mode is id"},
        next_step="Rewrite the file with a writer that knows column mapping.",
    )


def _living(start: int, count: int, gone: npt.NDArray[np.uint64]) -> pa.Array | None:
    first, last = np.searchsorted(gone, [start, start + count])
    if first == last:
        return None
    keep = np.ones(count, np.bool_)
    keep[gone[first:last].astype(np.int64) - start] = False
    return pa.array(keep)


def _lookup(names: Sequence[str]) -> dict[str, str]:
    """Names by themselves and, where that is clear, by their lower case."""
    lowered: dict[str, str] = {}
    for name in names:
        lowered.setdefault(name.lower(), name)
    return {**lowered, **{name: name for name in names}}


def is_julian(footer: Any) -> bool:
    """Whether Spark wrote the file with that footer in its hybrid calendar; 3.0 still did so with twelve bytes."""
    metadata = footer.metadata or {}
    if b"org.apache.spark.legacyDateTime" in metadata or b"org.apache.spark.legacyINT96" in metadata:
        return True
    release = metadata.get(b"org.apache.spark.version")
    if release is None:
        return False
    version = Version.parse(release.decode(errors="replace"))
    types = (footer.schema.column(number).physical_type for number in range(len(footer.schema)))
    return version < Version.parse("3.0.0") or (version < Version.parse("3.1.0") and "INT96" in types)

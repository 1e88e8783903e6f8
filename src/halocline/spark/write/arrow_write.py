"""Writing files with Arrow, where Spark cannot, or takes longer.

`ArrowWriter` turns batches of rows into Parquet files and puts them into the table's store. It runs in Python workers
for stores that Spark has no file system for, and without Spark for rows that come as Arrow, or are copied. Workers
report the files they wrote as rows, so only those of successful tasks count; what other tasks left is deleted. Stores
in memory are only in this process, which writes to them itself.

Batches may be of any size: their rows are held until they make a row group, which is what readers decode, and skip, as
one. What is held is bounded in bytes, however many rows come.

Arrow leaves not-a-number out of the bounds in a footer, which makes Spark skip rows that it selects. Floating-point
columns therefore have no bounds in these files; the log's statistics get them from the rows instead.
"""

from __future__ import annotations

import math
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from halocline.errors import InputError, UnsupportedError
from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.actions.folders import folder_name
from halocline.formats.delta.actions.locations import encoded_path
from halocline.formats.delta.configuration.column_mapping import parquet_id
from halocline.schema.arrow import ArrowTypes
from halocline.schema.types import Field, Path
from halocline.spark.scan.footers import leaf_types
from halocline.spark.scan.packing import handy, packed
from halocline.spark.types.arrow_rows import fetched
from halocline.spark.types.columns import holds, quoted
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.write.file_stats import Wanted, stats_text
from halocline.spark.write.physical import Physical
from halocline.storage.base import Store
from halocline.storage.memory import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FILE_BYTES: Final = 128 * 1024 * 1024
_PART_BYTES: Final = 64 * 1024 * 1024
_GROUP_BYTES: Final = 64 * 1024 * 1024
_GROUP_ROWS: Final = 1_000_000
_CHUNK_BYTES: Final = 16 * 1024 * 1024
_SAMPLE: Final = 16 * 1024
_HARDLY_REPEATING: Final = 0.97
"""So many different values in a sample are of some 270,000 or more, which fill the megabyte of a dictionary."""
CODEC: Final = "delta.parquet.compression.codec"
CODECS: Final = ("none", "uncompressed", "snappy", "gzip", "lz4", "lz4_raw", "zstd")
"""How files can be compressed."""
_NAMES: Final = {"uncompressed": "none", "lz4_raw": "lz4"}
_REPORT: Final = pa.schema({"file": pa.string()})

Texts: TypeAlias = tuple[str | None, ...]
"""The text of each partition column, as the names of folders have it."""


class WrittenFile(msgspec.Struct, frozen=True):
    """A new file of a table, described as a log wants it.

    Attributes:
        path: Its path below the table's root, not escaped.
        size: Its length in bytes.
        modification_time: When it was written, in milliseconds since the epoch.
        partition_values: The text of each partition column, by physical name.
        num_records: Its rows.
        stats: Its statistics as JSON.
    """

    path: str
    size: int
    modification_time: int
    partition_values: dict[str, str | None]
    num_records: int
    stats: str

    def add(self, *, data_change: bool) -> Add:
        """The action that makes it part of the table."""
        path, values = encoded_path(self.path), self.partition_values
        return Add(path, values, self.size, self.modification_time, data_change, stats=self.stats)


@dataclass(frozen=True, slots=True)
class ArrowWriter:
    """Writes rows with physical columns, those for folders last, into new files of one folder of a table."""

    store: Store
    folder: str
    physical: Physical
    wanted: Wanted
    codec: str | None
    max_records: int | None = None
    file_bytes: int | None = None

    @staticmethod
    def of(
        store: Store,
        layout: FileLayout,
        configuration: Mapping[str, str],
        *,
        under: str = "",
        name: str | None = None,
        max_records: int | None = None,
    ) -> ArrowWriter:
        """A writer into a fresh folder, with a name of its own unless one is given, by a table's properties."""
        folder = "/".join(filter(None, (under, name or uuid.uuid4().hex)))
        codec, wanted = codec_of(configuration), Wanted.of(layout, configuration)
        return ArrowWriter(store, folder, Physical(layout), wanted, codec, max_records)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes the rows of one task, which come sorted by partition; this is what a worker runs."""
        files = [msgspec.json.encode(file).decode() for file in self.write(batches)]
        yield pa.RecordBatch.from_pydict({"file": files}, _REPORT)

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[WrittenFile]:
        """Writes rows that come sorted by partition."""
        keys = self.physical.keys
        return self._write(part for batch in handy(batches) for part in self._parts(batch, keys))

    def write_partition(
        self,
        values: Mapping[str, str | None],
        batches: Iterator[pa.RecordBatch],
        notes: Mapping[str, str] | None = None,
    ) -> list[WrittenFile]:
        """Writes rows of one partition without the columns for folders, with the values that the log has for them.

        Notes go into the footer of each file.
        """
        texts = tuple(values.get(key) for key in self.physical.keys)
        return self._write(((texts, batch) for batch in handy(batches)), _Stamp(notes or {}, values))

    def _write(self, parts: Iterable[tuple[Texts, pa.RecordBatch]], stamp: _Stamp | None = None) -> list[WrittenFile]:
        files: list[WrittenFile] = []
        current: _OpenFile | None = None
        for texts, part in parts:
            if current is not None and (current.texts != texts or not current.takes(part)):
                files.append(current.finished())
                current = None
            current = current or _OpenFile(self, texts, len(files), stamp or _Stamp({}))
            current.add(part)
        return [*files, current.finished()] if current is not None else files

    def write_in_parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[WrittenFile]]:
        """Writes rows in any order, in parts that fit into memory; a part has one file per partition, if not more."""
        keys = self.physical.keys
        if not keys:
            yield self.write(batches)
            return
        for held in packed(handy(batches), lambda batch: batch.nbytes, _PART_BYTES):
            table = pa.Table.from_batches(held).sort_by([(key, "ascending") for key in keys])
            yield self.write(iter(table.combine_chunks().to_batches()))

    def _parts(self, batch: pa.RecordBatch, keys: Sequence[str]) -> Iterator[tuple[Texts, pa.RecordBatch]]:
        """The runs of rows that share a partition, none of them with more rows than a file may have."""
        for texts, part in by_partition(batch, keys):
            most = self.max_records or part.num_rows
            for start in range(0, part.num_rows, most):
                yield texts, part.slice(start, most)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """What files are given beside their rows.

    Attributes:
        notes: What their footers say.
        values: Their partition values as the log has them, if not those that the texts of folders stand for.
    """

    notes: Mapping[str, str]
    values: Mapping[str, str | None] | None = None


class _OpenFile:
    """A file being written."""

    def __init__(self, writer: ArrowWriter, texts: Texts, number: int, stamp: _Stamp) -> None:
        self.texts = texts
        self._writer = writer
        self._number = number
        self._values = stamp.values
        self._rows = 0
        self._held: list[pa.Table] = []
        self._held_rows = self._held_bytes = 0
        self._schema = _WithIds().schema(writer.physical.fields)
        self._floats = {
            path: _Floats() for path, type in writer.wanted.bounds.items() if type.name in ("float", "double")
        }
        # What is longer than usual is on disk until it is whole, where there is room for it afterwards if need be.
        self._sink = tempfile.SpooledTemporaryFile(_FILE_BYTES, dir=_folder_of(writer.store))  # noqa: SIM115
        self._codec = writer.codec or "snappy"
        self._notes = stamp.notes
        self._file: pq.ParquetWriter | None = None

    def takes(self, batch: pa.RecordBatch) -> bool:
        """Whether the next rows belong into the same file."""
        most = self._writer.max_records
        return bool(self._sink.tell() < (self._writer.file_bytes or _FILE_BYTES)) and (
            most is None or self._rows + batch.num_rows <= most
        )

    def add(self, batch: pa.RecordBatch) -> None:
        """Appends rows."""
        self._rows += batch.num_rows
        arrays = [batch.column(n).cast(field.type) for n, field in enumerate(self._schema)]
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        self._held.append(table)
        self._held_rows += table.num_rows
        self._held_bytes += table.nbytes
        for path, floats in self._floats.items():
            floats.add(_at(batch, path))
        if self._held_rows >= _GROUP_ROWS:
            self._flush(self._held_rows - self._held_rows % _GROUP_ROWS)
        elif self._held_bytes >= _GROUP_BYTES:
            self._flush(self._held_rows)

    def _flush(self, count: int) -> None:
        """Writes the first of the rows that are held, as row groups."""
        if count:
            table = pa.concat_tables(self._held)
            self._file = self._file or self._opened(table)
            self._file.write_table(table.slice(0, count), row_group_size=_GROUP_ROWS)
            rest = table.slice(count)
            self._held, self._held_rows, self._held_bytes = [rest], rest.num_rows, rest.nbytes

    def _opened(self, first: pa.Table) -> pq.ParquetWriter:
        """What writes the rows, of which the first are known."""
        file = pq.ParquetWriter(
            pa.PythonFile(self._sink, "w"),
            self._schema,
            compression=_NAMES.get(self._codec, self._codec),
            use_dictionary=_repeating(first),
            write_statistics=[".".join(path) for path, type in leaf_types(self._schema) if _has_bounds(type)],
            store_schema=False,
            store_decimal_as_integer=True,
            write_page_index=True,
            write_page_checksum=True,
        )
        file.add_key_value_metadata(self._notes)
        return file

    def finished(self) -> WrittenFile:
        """Puts the file into the store."""
        self._flush(self._held_rows)
        (self._file or self._opened(self._schema.empty_table())).close()
        writer = self._writer
        keys = writer.physical.keys
        folders = [folder_name(key, text) for key, text in zip(keys, self.texts, strict=True)]
        name = f"part-{self._number:05}-{uuid.uuid4()}.c000.{self._codec}.parquet"
        path = "/".join([writer.folder, *folders, name])
        self._sink.seek(0)
        footer = pq.read_metadata(self._sink)
        self._sink.seek(0)
        with self._sink:
            writer.store.put_chunks(path, iter(partial(self._sink.read, _CHUNK_BYTES), b""))
        meta = writer.store.head(path)
        known = {path: floats.summary for path, floats in self._floats.items()}
        values = self._values
        if values is None:
            values = writer.physical.values(dict(zip(keys, self.texts, strict=True)))
        return WrittenFile(
            path=path,
            size=meta.size,
            modification_time=meta.modified_ms,
            partition_values=dict(values),
            num_records=footer.num_rows,
            stats=stats_text(footer, writer.wanted, known),
        )


def _folder_of(store: Store) -> str | None:
    """The folder of a local table."""
    address = store.address()
    return address if os.path.isdir(address) else None


class _Floats:
    """The bounds of a floating-point column."""

    def __init__(self) -> None:
        self._low = math.inf
        self._high = -math.inf
        self._nan = False
        self._nulls = 0

    def add(self, array: pa.Array) -> None:
        found = pc.min_max(array)
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is not None:
            self._low, self._high = min(self._low, low), max(self._high, high)
        self._nan = self._nan or bool(pc.any(pc.is_nan(array)).as_py())
        self._nulls += array.null_count

    @property
    def summary(self) -> tuple[Any, Any, int]:
        return self._low, None if self._nan else self._high, self._nulls


def codec_of(configuration: Mapping[str, str]) -> str | None:
    """How a table's files are to be compressed; None if it does not say."""
    codec = configuration.get(CODEC)
    if codec is not None and codec.lower() not in CODECS:
        raise InputError.unknown(f"{CODEC} cannot be {codec!r}", codec, CODECS, condition="PROPERTY_INVALID")
    return codec and codec.lower()


def write_through_workers(rows: DataFrame, writer: ArrowWriter) -> list[WrittenFile]:
    """Writes rows in Python workers, or here if nobody else reaches the store."""
    for field in writer.physical.data:
        if holds(field.type, ("variant",)):
            raise UnsupportedError(
                f"column {field.name} is a variant, which only Spark itself can write",
                sides={"column": field.name, "table": writer.store.root},
                next_step="Use a Spark that has a file system for the table.",
            )
    if isinstance(writer.store, MemoryStore):
        return writer.write(_sorted(fetched(rows), writer.physical.keys))
    keys = writer.physical.keys
    ordered = rows.sortWithinPartitions(*map(quoted, keys)) if keys else rows
    reported = ordered.mapInArrow(writer, "file string").collect()
    files = [msgspec.json.decode(row["file"], type=WrittenFile) for row in reported]
    counted = {file.path for file in files}
    writer.store.delete_many(m.path for m in writer.store.list(writer.folder) if m.path not in counted)
    return sorted(files, key=lambda file: file.path)


def _sorted(table: pa.Table, keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if keys:
        texts = pa.table({str(n): _texts(table[key].combine_chunks()) for n, key in enumerate(keys)})
        table = table.take(pc.sort_indices(texts, [(name, "ascending") for name in texts.column_names]))
    yield from table.to_batches()


def by_partition(
    batch: pa.RecordBatch, keys: Sequence[str], *, empty_is_null: bool = True
) -> Iterator[tuple[Texts, pa.RecordBatch]]:
    """The runs of rows that share a partition."""
    if not keys:
        if batch.num_rows:
            yield (), batch
        return
    first = batch.num_columns - len(keys)
    columns = [_texts(batch.column(first + n), empty_is_null).to_pylist() for n in range(len(keys))]
    tuples = list(zip(*columns, strict=True))
    start = 0
    for row in range(1, len(tuples) + 1):
        if row == len(tuples) or tuples[row] != tuples[start]:
            yield tuples[start], batch.slice(start, row - start)
            start = row


def _texts(array: pa.Array, empty_is_null: bool = True) -> pa.Array:
    """Partition values as the text of folders."""
    if pa.types.is_timestamp(array.type):
        moments = [None if value is None else value.isoformat(" ") for value in array.to_pylist()]
        return pa.array(moments, pa.string())
    texts = array.cast(pa.string())
    if not empty_is_null:
        return texts
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


class _WithIds(ArrowTypes):
    """Arrow types whose fields carry the ids that files are to have."""

    def field(self, field: Field) -> pa.Field:
        identity = parquet_id(field)
        metadata = None if identity is None else {"PARQUET:field_id": str(identity)}
        return pa.field(field.name, self.visit(field.type, None), metadata=metadata)


def _repeating(rows: pa.Table) -> list[str]:
    """The columns of a file that get a dictionary, by some of its rows.

    A dictionary of values that hardly repeat outgrows its limit, and is made for nothing.
    """
    some = pa.array(np.linspace(0, rows.num_rows - 1, _SAMPLE, dtype=np.int64)) if rows.num_rows > _SAMPLE else None
    found: list[str] = []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        single = some is None or pa.types.is_nested(field.type)
        if single or pc.count_distinct(column.take(some)).as_py() < _HARDLY_REPEATING * _SAMPLE:
            found += _leaves(field.type, (field.name,))
    return found


def _leaves(type: pa.DataType, above: Path) -> Iterator[str]:
    """The columns that a file has for a value of a type."""
    if pa.types.is_map(type):
        yield from _leaves(type.key_type, (*above, "key_value", "key"))
        yield from _leaves(type.item_type, (*above, "key_value", "value"))
    elif pa.types.is_list(type):
        yield from _leaves(type.value_type, (*above, "list", "element"))
    elif pa.types.is_struct(type):
        for field in type:
            yield from _leaves(field.type, (*above, field.name))
    else:
        yield ".".join(above)


def _has_bounds(type: pa.DataType) -> bool:
    """Whether a footer may hold the bounds of a column."""
    return not pa.types.is_nested(type) and not pa.types.is_floating(type)


def _at(batch: pa.RecordBatch, path: Path) -> pa.Array:
    array = batch.column(batch.schema.get_field_index(path[0]))
    for step in path[1:]:
        array = array.flatten()[array.type.get_field_index(step)]
    return array

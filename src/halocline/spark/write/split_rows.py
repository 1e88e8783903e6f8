"""From rows to splits of an index table, in the tasks that have them.

A task fits its rows to the table's columns, a batch at a time, and builds one split after the other: another one begins
where the partition changes, and where the one at hand has enough rows. So the memory of a task does not grow with its
rows, and neither does that of whoever opens a split later. A split is built in a folder of the machine and put into the
table whole. Nobody reads it before the log names it; one that the log never names is an orphan, found by its age.

Tasks report what they wrote as rows, so that only those of tasks that counted do. A task that fails is tried again, so
that its rows break a rule is reported, too, and not raised.
"""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from halocline.errors import ConstraintError, SchemaError
from halocline.formats.delta.actions.folders import folder_name
from halocline.formats.index.log.actions import IndexMetadata, SplitAdd
from halocline.formats.index.query.partitions import NULL
from halocline.formats.index.split.fields import IndexField, fields_of
from halocline.formats.index.split.library import guarded, library
from halocline.formats.index.split.partition_nulls import with_exact_nulls
from halocline.formats.index.split.writer import SplitWriter
from halocline.schema.arrow import arrow_schema
from halocline.schema.json_edge import parse
from halocline.schema.types import Struct
from halocline.schema.visitor import nullable, without_metadata
from halocline.spark.scan.packing import packed
from halocline.spark.scan.split_frames import split_layout
from halocline.spark.types.arrow_rows import fetched
from halocline.spark.types.columns import quoted
from halocline.spark.write.arrow_fit import ArrowFit
from halocline.spark.write.arrow_write import by_partition
from halocline.spark.write.physical import Physical
from halocline.storage.base import Store
from halocline.storage.memory import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_SPLIT: Final = 1_000_000
"""How many rows a split has at most, unless the user says otherwise."""

_BUFFER_BYTES: Final = 64 * 1024 * 1024
_REPORT: Final = pa.schema({"split": pa.binary(), "refusal": pa.binary()})
_NAME: Final = "building.split.parquet"


@dataclass(frozen=True)
class SplitSink:
    """Writes rows of a DataFrame as splits of a table; a value that is sent to the tasks.

    Attributes:
        store: Where the table lies.
        fit: Makes rows of the table out of those that come.
        physical: How its files hold its columns.
        fields: What its indexes have of them.
        write_id: What the names of all splits of this write have in common.
        most_rows: How many rows a split has at most.
    """

    store: Store
    fit: ArrowFit
    physical: Physical
    fields: Sequence[IndexField]
    write_id: str
    most_rows: int = ROWS_PER_SPLIT

    @staticmethod
    def of(store: Store, metadata: IndexMetadata, columns: Struct, *, most_rows: int | None = None) -> SplitSink:
        """What writes rows with these columns.

        Args:
            store: Where the table lies.
            metadata: What the table is.
            columns: The columns of the rows.
            most_rows: How many rows a split has at most.

        Raises:
            SchemaError: The columns do not fit the table's.
            MissingExtraError: The library is not installed.
        """
        library()
        schema = parse(metadata.schema_string)
        physical = Physical(split_layout(schema, metadata.partition_columns))
        fields = fields_of(schema, metadata.configuration, metadata.partition_columns)
        fit = ArrowFit(columns, physical, store.root)
        return SplitSink(store, fit, physical, fields, uuid.uuid4().hex, most_rows or ROWS_PER_SPLIT)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes the rows of one task, which come sorted by partition; this is what a worker runs."""
        try:
            for split in self.write(batches):
                yield pa.RecordBatch.from_pydict({"split": [msgspec.json.encode(split)], "refusal": [None]}, _REPORT)
        except ConstraintError as error:
            told = msgspec.json.encode([error.message, dict(error.sides), error.next_step])
            yield pa.RecordBatch.from_pydict({"split": [None], "refusal": [told]}, _REPORT)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[SplitAdd]:
        """Writes rows, those of one partition in a row as far as they come so."""
        keys = self.physical.keys
        schema = arrow_schema(self.physical.fields)
        with ExitStack() as scope:
            current: _Building | None = None
            for batch in batches:
                fitted = self.fit(batch)
                for texts, part in by_partition(fitted, keys, empty_is_null=False):
                    start = 0
                    while start < part.num_rows:
                        if current is not None and (current.texts != texts or current.rows >= self.most_rows):
                            yield current.finished()
                            current = None
                        if current is None:
                            current = scope.enter_context(_Building(self, schema, texts))
                        taken = part.slice(start, self.most_rows - current.rows)
                        columns = [taken.column(number) for number in range(len(schema))]
                        current.add(pa.RecordBatch.from_arrays(columns, schema=schema))
                        start += taken.num_rows
            if current is not None:
                yield current.finished()

    def write_unsorted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[SplitAdd]:
        """Writes rows of partitions in any order: so many at a time as are sorted in memory."""
        if not self.physical.keys:
            yield from self.write(batches)
            return
        for held in packed(batches, lambda batch: batch.nbytes, _BUFFER_BYTES):
            yield from self.write(self._sorted(held))

    def partition_values(self, texts: Sequence[str | None]) -> dict[str, str | None]:
        """Return the partition values of a split as the log has them, given the texts of its folders.

        Raises:
            ConstraintError: A value is the text that means null in the log.
        """
        values = self.physical.values(dict(zip(self.physical.keys, texts, strict=True)))
        for column, value in values.items():
            if value == NULL:
                raise ConstraintError(
                    f"{self.store.root} cannot keep {NULL!r} in partition column {column}; nothing was written",
                    sides={"row": f"{column} = {NULL!r}", "log": "this text is null in index tables"},
                    next_step="Write null or another value, or partition by another column.",
                )
        return values

    def orphans(self) -> list[str]:
        """What this write has put into the table, whether or not the log names it."""
        beginning = f"part-{self.write_id}-"
        return [meta.path for meta in self.store.list() if meta.path.rpartition("/")[2].startswith(beginning)]

    def _sorted(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(batches)
        names = {name.lower(): name for name in table.column_names}
        keys = [(names[key.lower()], "ascending") for key in self.physical.keys if key.lower() in names]
        yield from (table.sort_by(keys) if keys else table).combine_chunks().to_batches()


class _Building:
    """A split while it is built, in a folder of the machine."""

    def __init__(self, sink: SplitSink, schema: pa.Schema, texts: tuple[str | None, ...]) -> None:
        self.texts = texts
        self.rows = 0
        self._sink = sink
        self._values = sink.partition_values(texts)
        self._schema = schema
        self._scope = ExitStack()

    def __enter__(self) -> _Building:
        self._folder = self._scope.enter_context(tempfile.TemporaryDirectory(prefix="halocline-building-"))
        file = self._scope.enter_context(open(os.path.join(self._folder, _NAME), "wb"))
        fields = list(self._sink.fields)
        self._writer = self._scope.enter_context(SplitWriter(file, self._schema, fields, scratch=self._folder))
        self._file = file
        return self

    def __exit__(self, *problem: object) -> None:
        self._scope.close()

    def add(self, batch: pa.RecordBatch) -> None:
        self._writer.write(batch)
        self.rows += batch.num_rows

    def finished(self) -> SplitAdd:
        """Puts the split into the table."""
        with guarded(_NAME):
            built = self._writer.close()
        self._file.close()
        sink = self._sink
        folders = [folder_name(key, text) for key, text in zip(sink.physical.keys, self.texts, strict=True)]
        path = "/".join([*folders, f"part-{sink.write_id}-{uuid.uuid4()}.split.parquet"])
        with open(os.path.join(self._folder, _NAME), "rb") as file:
            sink.store.put_if_absent(path, file.read())
        self._scope.close()
        return with_exact_nulls(built.added(path, self._values, time.time_ns() // 1_000_000))


def write_splits(df: DataFrame, sink: SplitSink) -> list[SplitAdd]:
    """Writes the rows of a DataFrame, one task for each of its partitions, and says what was written.

    Raises:
        ConstraintError: A row breaks a rule of the table.
    """
    if isinstance(sink.store, MemoryStore):  # no other process sees it
        return list(sink.write_unsorted(iter(fetched(df).to_batches())))
    names = {name.lower(): name for name in df.columns}
    keys = [quoted(names[key.lower()]) for key in sink.physical.keys if key.lower() in names]
    ordered = df.sortWithinPartitions(*keys) if keys else df
    reported = ordered.mapInArrow(sink, "split binary, refusal binary").collect()
    for row in reported:
        if row["refusal"] is not None:
            message, sides, next_step = msgspec.json.decode(row["refusal"])
            raise ConstraintError(message, sides=sides, next_step=next_step)
    found = (msgspec.json.decode(row["split"], type=SplitAdd) for row in reported)
    return sorted(found, key=lambda each: each.path)


def check_columns(schema: Struct) -> Struct:
    """The columns of a new table, if its splits can hold them.

    Raises:
        SchemaError: There is none.
        UnsupportedError: One has a type that no split holds.
    """
    if not schema.fields:
        raise SchemaError("a table needs a column", sides={"columns": "none", "needed": "one or more"})
    arrow_schema(nullable(without_metadata(schema)).fields)
    return schema

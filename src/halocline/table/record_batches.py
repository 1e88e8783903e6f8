"""Rows as a stream of Arrow batches, without Spark.

The same files, behind the same gate, give the same rows as `to_df`: deletion vectors and masks applied, log files
merged, columns found by their mapping, partition values filled in, text of fixed length padded. Files that cannot hold
a row of a condition are left out, and the rows of the others are decided one by one by
`halocline.formats.delta.stats.row_filter`. What only an engine can decide or read is refused with the way to do it.

Batches are read when they are asked for, a file after the other, so a table need not fit into memory. Times without a
zone are in the session's where the table was opened with one, and in UTC otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from halocline.errors import InputError
from halocline.formats.delta.actions.action import repeated
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.stats.row_filter import RowFilter
from halocline.schema.arrow import arrow_schema
from halocline.schema.types import Struct
from halocline.spark.scan.scan import columns_asked_for
from halocline.spark.scan.slice_frames import PartReader
from halocline.storage.base import Store

_UNNAMED: Final = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True)
class RowsAsked:
    """Which rows, and which of their columns, somebody wants.

    Attributes:
        wanted: The columns to give, in order.
        needed: The columns to read: these, and what the condition speaks of.
        condition: Which rows; None for all.
    """

    wanted: Sequence[str]
    needed: Struct
    condition: RowFilter | None

    @staticmethod
    def of(schema: Struct, where: str | None, columns: Sequence[str] | None, zone: str) -> RowsAsked:
        """What is asked of a table with these columns.

        Raises:
            InputError: There is no such column, or the condition is none.
            UnsupportedError: Spark alone can decide the condition.
        """
        wanted = columns_asked_for(schema, columns)
        if (twice := repeated(wanted)) is not None:
            raise InputError(
                f"column {twice} is asked for twice",
                sides={"given": ", ".join(columns or ())},
                next_step="Name every column once.",
            )
        condition = None if where is None else RowFilter.parse(where, Schema.of(schema), zone)
        spoken_of = {column.path[0].lower() for column in condition.columns} if condition else set()
        kept = {*wanted, *(name for name in schema.names if name.lower() in spoken_of)}
        needed = schema.with_fields(field for field in schema.fields if field.name in kept)
        return RowsAsked(wanted, needed, condition)

    def stream(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
        """Batches of the columns needed as those that were asked for."""
        shown = pa.schema([schema.field(name) for name in self.wanted])
        return pa.RecordBatchReader.from_batches(shown, self._chosen(batches))

    def read_parts(
        self, store: Store, read: Callable[[Store, Any], Iterator[pa.RecordBatch]], parts: Iterable[Any]
    ) -> pa.RecordBatchReader:
        """The rows of parts of a table, each read when it is asked for by what reads the columns needed."""
        reader = PartReader(store, read, self.needed)
        batches = (batch for part in parts for batch in reader.batches(part))
        return self.stream(arrow_schema(self.needed.fields), batches)

    def _chosen(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            chosen = batch if self.condition is None else batch.filter(self.condition.mask(batch))
            if chosen.num_rows:
                yield chosen.select(list(self.wanted))


def arrow_reader(data: Any) -> pa.RecordBatchReader:
    """Whatever holds rows in Arrow's form as a stream: a table, batches, or what hands itself over as Arrow.

    Raises:
        InputError: It holds none.

    Example:
        >>> arrow_reader(pa.table({"id": [1, 2]})).read_all().num_rows
        2
    """
    if hasattr(data, "to_arrow") and not hasattr(data, "__arrow_c_stream__"):
        data = data.to_arrow()
    if not hasattr(data, "__arrow_c_stream__"):
        raise _no_rows(data)
    try:
        return _without_index(pa.RecordBatchReader.from_stream(data))
    except pa.ArrowInvalid:
        raise _no_rows(data) from None


def _no_rows(data: Any) -> InputError:
    return InputError(
        f"a {type(data).__name__} does not hold rows in Arrow's form",
        sides={
            "given": repr(data)[:80],
            "expected": "a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or polars frame",
        },
        next_step="For a Spark DataFrame use append; for a list of dicts, pyarrow.Table.from_pylist(rows).",
    )


def _without_index(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The rows without numbers that pandas gave them; an index that has a name is a column like others."""
    told = json.loads((reader.schema.metadata or {}).get(b"pandas", b"{}"))
    numbers = {each for each in told.get("index_columns", ()) if isinstance(each, str) and _UNNAMED.fullmatch(each)}
    names = [name for name in reader.schema.names if name not in numbers]
    if len(names) == len(reader.schema.names):
        return reader
    schema = pa.schema([reader.schema.field(name) for name in names])
    return pa.RecordBatchReader.from_batches(schema, (batch.select(names) for batch in reader))

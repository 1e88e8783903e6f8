"""Builds a split: batches of rows in, one Parquet file with an index inside out.

Rows go into row groups of `GROUP_ROWS`, small enough that fetching a few scattered rows reads little. Which columns get
a dictionary is decided by the first group. The index grows in a scratch folder, in at most `heap_bytes` of memory at a
time; its row number tells which row a document is, so the order of documents does not matter. At the end the files of
the index follow the last row group, the layout goes into the footer's metadata, and the footer ends the file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import chain
from types import TracebackType
from typing import IO, Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from halocline.errors import InputError
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.split.analyzers import register
from halocline.formats.index.split.bounds import SplitBounds
from halocline.formats.index.split.fields import ROW, FieldKind, IndexField, tantivy_schema
from halocline.formats.index.split.layout import KEY, Blob, SplitLayout, encode_layout
from halocline.formats.index.split.lengths import lengths_by_segment
from halocline.formats.index.split.library import guarded, library
from halocline.formats.index.split.presence import TermFilter, digest
from halocline.formats.index.split.values import indexed_values

GROUP_ROWS: Final = 8192
HEAP_BYTES: Final = 128_000_000
_LEVEL: Final = 3
_FEW: Final = 0.5
_LOCKS: Final = (".tantivy-writer.lock", ".tantivy-meta.lock")


@dataclass(frozen=True)
class BuiltSplit:
    """A split that has been written.

    Attributes:
        layout: What it says about its index.
        size: Its bytes.
        footer_start: Where the Parquet footer begins.
        min_values: The least value of each column that has an order, as text.
        max_values: The greatest.
    """

    layout: SplitLayout
    size: int
    footer_start: int
    min_values: dict[str, str] = field(default_factory=dict)
    max_values: dict[str, str] = field(default_factory=dict)

    def added(self, path: str, partition_values: dict[str, str | None], now_ms: int) -> SplitAdd:
        """The action that makes it part of a table."""
        return SplitAdd(
            path=path,
            partition_values=partition_values,
            size=self.size,
            modification_time=now_ms,
            data_change=True,
            min_values=self.min_values,
            max_values=self.max_values,
            num_records=self.layout.rows,
            footer_start_offset=self.footer_start,
            footer_end_offset=self.size,
            has_footer_offsets=True,
            num_merge_ops=0,
            uncompressed_size_bytes=sum(each.raw_length for each in self.layout.blobs),
        )


class SplitWriter:
    """Writes one split. A context: whoever leaves it without `close` leaves half a file and no scratch.

    Args:
        sink: A file to write to, at its beginning.
        schema: The columns of the rows.
        fields: What the index has of them.
        scratch: A folder for the index while it grows; the system's own if not given.
        heap_bytes: The memory for it.

    Raises:
        MissingExtraError: The library is not installed.

    Example:
        >>> import io
        >>> from halocline.formats.index.split.fields import fields_of
        >>> from halocline.schema import Field, Primitive, Struct
        >>> fields = fields_of(Struct([Field("id", Primitive("long"))]))
        >>> with SplitWriter(io.BytesIO(), pa.schema([("id", pa.int64())]), fields) as writer:
        ...     writer.write(pa.record_batch({"id": [3, 1, 2]}))
        ...     built = writer.close()
        >>> built.layout.rows, built.min_values, built.max_values
        (3, {'id': '1'}, {'id': '3'})
    """

    def __init__(
        self,
        sink: IO[bytes],
        schema: pa.Schema,
        fields: Sequence[IndexField],
        *,
        scratch: str | None = None,
        heap_bytes: int = HEAP_BYTES,
    ) -> None:
        self._sink = pa.PythonFile(sink, "w")
        self._schema = schema
        self._fields = list(fields)
        self._indexed = [each for each in self._fields if each.kind is not FieldKind.STORED]
        self._bounds = SplitBounds(schema)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._rows = 0
        self._unindexed: Counter[str] = Counter()
        self._digests = bytearray()
        self._parquet: pq.ParquetWriter | None = None
        self._folder = tempfile.mkdtemp(prefix="halocline-index-", dir=scratch)
        with guarded(self._folder):
            self._tantivy_schema = tantivy_schema(self._fields)
            self._index = library().Index(self._tantivy_schema, path=self._folder)
            register(self._index, (each.analyzer for each in self._fields if each.analyzer))
            self._writer = self._index.writer(heap_size=heap_bytes, num_threads=1)

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows.

        Raises:
            InputError: They have other columns.
        """
        if not batch.schema.equals(self._schema):
            raise InputError(
                "the rows have other columns than the split",
                condition="SCHEMA_MISMATCH",
                sides={"rows": str(batch.schema), "split": str(self._schema)},
                next_step="Cast the rows to the columns of the split first.",
            )
        self._add_documents(batch)
        self._waiting.append(batch)
        self._waiting_rows += len(batch)
        if self._waiting_rows >= GROUP_ROWS:
            self._write_groups(keep=True)

    def close(self) -> BuiltSplit:
        """Ends the file, and says what is in it."""
        self._write_groups(keep=False)
        writer = self._parquet or self._opened(pa.Table.from_batches([], self._schema))
        with guarded(self._folder):
            self._writer.commit()
            self._writer.wait_merging_threads()
            self._index.reload()
            terms = self._term_filter()
        lengths = lengths_by_segment(self._fields, self._file, self._folder)
        layout = SplitLayout(
            rows=self._rows,
            fields=self._fields,
            blobs=[self._blob(name, data) for name, data in self._index_files()],
            terms=self._blob("terms", terms),
            unindexed=dict(self._unindexed),
            lengths={column: int(sum(each.sum() for each in parts)) for column, parts in lengths.items()},
            library=f"tantivy {version('tantivy')}",
        )
        writer.add_key_value_metadata({KEY: encode_layout(layout)})
        start = self._sink.tell()
        writer.close()
        size = self._sink.tell()
        self._remove_scratch()
        return BuiltSplit(layout, size, start, *self._bounds.as_text())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._remove_scratch()

    def _remove_scratch(self) -> None:
        self._writer = self._index = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _add_documents(self, batch: pa.RecordBatch) -> None:
        self._bounds.add(batch)
        names = [ROW]
        columns: list[Any] = [range(self._rows, self._rows + len(batch))]
        for each in self._indexed:
            values, dropped = indexed_values(each, batch.column(each.column))
            names.append(each.name)
            columns.append(values)
            if dropped:
                self._unindexed[each.column] += dropped
            if each.kind is FieldKind.STRING and not each.hashed:
                distinct = set(chain.from_iterable(filter(None, values)) if each.repeated else values) - {None}
                self._digests += b"".join(digest(each.name, term) for term in distinct)
        made, schema, add = library().Document.from_dict, self._tantivy_schema, self._writer.add_document
        with guarded(self._folder):
            for row in zip(*columns, strict=True):
                add(made({name: value for name, value in zip(names, row, strict=True) if value is not None}, schema))
        self._rows += len(batch)

    def _write_groups(self, *, keep: bool) -> None:
        """Writes whole row groups, and unless they are to be kept, the rows that are left over."""
        table = pa.Table.from_batches(self._waiting, self._schema)
        whole = len(table) // GROUP_ROWS * GROUP_ROWS if keep else len(table)
        if whole:
            writer = self._parquet or self._opened(table)
            writer.write_table(table.slice(0, whole), row_group_size=GROUP_ROWS)
        self._waiting = table.slice(whole).combine_chunks().to_batches() if whole < len(table) else []
        self._waiting_rows = len(table) - whole

    def _opened(self, table: pa.Table) -> pq.ParquetWriter:
        self._parquet = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression="zstd",
            use_dictionary=_repetitive(table) or False,
            write_page_index=True,
            write_page_checksum=True,
        )
        return self._parquet

    def _index_files(self) -> Iterator[tuple[str, bytes]]:
        for name in sorted(os.listdir(self._folder)):
            if name not in _LOCKS:
                yield name, self._file(name)

    def _file(self, name: str) -> bytes:
        with open(os.path.join(self._folder, name), "rb") as file:
            return file.read()

    def _blob(self, name: str, raw: bytes) -> Blob:
        data = pa.Codec("zstd", compression_level=_LEVEL).compress(raw, asbytes=True)
        offset = self._sink.tell()
        self._sink.write(data)
        return Blob(name, offset, len(data), len(raw), zlib.crc32(data))

    def _term_filter(self) -> bytes:
        searcher = self._index.searcher()
        for each in self._indexed:
            if each.kind is FieldKind.TEXT:
                words = searcher.terms_with_prefix(each.name, "")
                self._digests += b"".join(digest(each.name, word) for word, _ in words)
        return TermFilter.of(bytes(self._digests)).to_bytes()


def _repetitive(table: pa.Table) -> list[str]:
    """The columns whose values come again and again, by the first rows."""
    sample = table.slice(0, GROUP_ROWS)
    return [
        name
        for name, column in zip(sample.column_names, sample.columns, strict=True)
        if not pa.types.is_nested(column.type) and pc.count_distinct(column).as_py() < _FEW * max(len(sample), 1)
    ]

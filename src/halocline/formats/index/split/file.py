"""The file of a split while it is written: rows first, then the files of its index, then the layout and the footer.

Rows go into row groups of `GROUP_ROWS`, small enough that fetching a few scattered rows reads little. Which columns get
a dictionary is decided by the first group. A file of the index is compressed piece by piece, so that memory does not
grow with it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import IO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from halocline.errors import InputError
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.split.bounds import SplitBounds
from halocline.formats.index.split.fields import IndexField
from halocline.formats.index.split.layout import KEY, Blob, Part, SplitLayout, encode_layout

GROUP_ROWS: Final = 8192
FOOTER_TAG: Final = "halocline.footer"
"""The tag of an add that holds the checksum of its Parquet footer, which has none of its own."""

_LEVEL: Final = 3
_FEW: Final = 0.5
_PIECE: Final = 8 * 1024**2


@dataclass(frozen=True)
class BuiltSplit:
    """A split that has been written.

    Attributes:
        layout: What it says about its index.
        size: Its bytes.
        footer_start: Where the Parquet footer begins.
        min_values: The least value of each column that has an order, as text.
        max_values: The greatest.
        footer_crc: The checksum of the Parquet footer.
    """

    layout: SplitLayout
    size: int
    footer_start: int
    min_values: dict[str, str] = field(default_factory=dict)
    max_values: dict[str, str] = field(default_factory=dict)
    footer_crc: int = 0

    def added(self, path: str, partition_values: dict[str, str | None], now_ms: int) -> SplitAdd:
        """The action that makes it part of a table."""
        return SplitAdd(
            path=path,
            partition_values=partition_values,
            size=self.size,
            modification_time=now_ms,
            data_change=True,
            tags={FOOTER_TAG: f"{self.footer_crc:08x}"},
            min_values=self.min_values,
            max_values=self.max_values,
            num_records=self.layout.rows,
            footer_start_offset=self.footer_start,
            footer_end_offset=self.size,
            has_footer_offsets=True,
            num_merge_ops=0,
            uncompressed_size_bytes=sum(each.raw_length for each in self.layout.blobs),
        )


@dataclass(frozen=True)
class IndexFiles:
    """An index that is complete, and what a layout says about it.

    Attributes:
        folder: Where its files lie.
        names: The files.
        fields: What it has of each column.
        parts: Which rows it numbers how.
        unindexed: How many values of a column are not in it, where some are not.
        lengths: How many words the texts of a column have together.
        terms: The filter of its terms.
    """

    folder: str
    names: Sequence[str]
    fields: Sequence[IndexField]
    parts: Sequence[Part]
    unindexed: dict[str, int]
    lengths: dict[str, int]
    terms: bytes


class _Checked:
    """A file that is written to, with a checksum of what was written since it was set to 0."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink
        self.crc = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        self.crc = zlib.crc32(data, self.crc)
        return self._sink.write(data)

    def flush(self) -> None:
        if not self._sink.closed:
            self._sink.flush()

    def close(self) -> None:
        self.closed = True


class SplitFile:
    """A split that is being written: `write` rows, then `finish` with an index over them.

    Args:
        sink: A file to write to, at its beginning.
        schema: The columns of the rows.
    """

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        self._tail = _Checked(sink)
        self._sink = pa.PythonFile(self._tail, "w")
        self._schema = schema
        self._bounds = SplitBounds(schema)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._parquet: pq.ParquetWriter | None = None
        self.rows = 0

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
        self._bounds.add(batch)
        self.rows += len(batch)
        self._waiting.append(batch)
        self._waiting_rows += len(batch)
        if self._waiting_rows >= GROUP_ROWS:
            self._write_groups(keep=True)

    def finish(self, index: IndexFiles) -> BuiltSplit:
        """Ends the file, and says what is in it."""
        self._write_groups(keep=False)
        writer = self._parquet or self._opened(pa.Table.from_batches([], self._schema))
        layout = SplitLayout(
            rows=self.rows,
            fields=list(index.fields),
            blobs=[self._blob(name, _pieces(os.path.join(index.folder, name))) for name in sorted(index.names)],
            terms=self._blob("terms", [index.terms]),
            parts=list(index.parts),
            unindexed=index.unindexed,
            lengths=index.lengths,
            library=f"tantivy {version('tantivy')}",
        )
        writer.add_key_value_metadata({KEY: encode_layout(layout)})
        start = self._sink.tell()
        self._tail.crc = 0
        writer.close()
        return BuiltSplit(layout, self._sink.tell(), start, *self._bounds.as_text(), footer_crc=self._tail.crc)

    def _write_groups(self, *, keep: bool) -> None:
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

    def _blob(self, name: str, pieces: Iterable[bytes]) -> Blob:
        codec = pa.Codec("zstd", compression_level=_LEVEL)
        offset, raw, crc = self._sink.tell(), 0, 0
        for piece in pieces:
            data = codec.compress(piece, asbytes=True)
            self._sink.write(data)
            raw, crc = raw + len(piece), zlib.crc32(data, crc)
        return Blob(name, offset, self._sink.tell() - offset, raw, crc)


def _pieces(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        # Also an empty file has a piece, so that it has a beginning and an end once compressed.
        while True:
            piece = file.read(_PIECE)
            if piece or not file.tell():
                yield piece
            if len(piece) < _PIECE:
                return


def _repetitive(table: pa.Table) -> list[str]:
    """The columns whose values come again and again, by the first rows."""
    sample = table.slice(0, GROUP_ROWS)
    return [
        name
        for name, column in zip(sample.column_names, sample.columns, strict=True)
        if not pa.types.is_nested(column.type) and pc.count_distinct(column).as_py() < _FEW * max(len(sample), 1)
    ]

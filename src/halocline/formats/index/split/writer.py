"""Builds a split: batches of rows in, one Parquet file with an index inside out.

The index grows in a scratch folder, in at most `heap_bytes` of memory at a time. Each document has the number of its
row and, above it, that of its *part*, one at random for each writer, so that indexes that are put together later still
tell their rows apart; the order of documents does not matter.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from types import TracebackType
from typing import IO, Any, Final, Self

import pyarrow as pa

from halocline.formats.index.split.analyzers import register, words
from halocline.formats.index.split.fields import ROW, FieldKind, IndexField, tantivy_schema
from halocline.formats.index.split.file import BuiltSplit, IndexFiles, SplitFile
from halocline.formats.index.split.layout import PART_BITS, Part
from halocline.formats.index.split.lengths import lengths_by_segment
from halocline.formats.index.split.library import guarded, library
from halocline.formats.index.split.presence import TermDigests, digest
from halocline.formats.index.split.scratch import remove_folder
from halocline.formats.index.split.values import indexed_values

HEAP_BYTES: Final = 128_000_000
_AT_ONCE: Final = 16_384
LOCKS: Final = (".tantivy-writer.lock", ".tantivy-meta.lock")
"""Files of an index that mean nothing once it is complete."""


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
        self._file = SplitFile(sink, schema)
        self._fields = list(fields)
        self._indexed = [each for each in self._fields if each.kind is not FieldKind.STORED]
        self._part = secrets.randbits(PART_BITS - 1)
        self._unindexed: Counter[str] = Counter()
        self._terms = TermDigests(scratch)
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
        start = self._file.rows
        self._file.write(batch)
        # Values become Python's in between, so only some rows are taken at a time.
        for at in range(0, len(batch), _AT_ONCE):
            self._add_documents(batch.slice(at, _AT_ONCE), (self._part << PART_BITS) + start + at)

    def close(self) -> BuiltSplit:
        """Ends the file, and says what is in it."""
        with guarded(self._folder):
            self._writer.commit()
            self._writer.wait_merging_threads()
        self._writer = None
        files = IndexFiles(
            folder=self._folder,
            names=[each for each in os.listdir(self._folder) if each not in LOCKS],
            fields=self._fields,
            parts=[Part(self._part, 0)],
            unindexed=dict(self._unindexed),
            lengths=total_lengths(self._folder, self._fields),
            terms=self._terms.made().to_bytes(),
        )
        built = self._file.finish(files)
        self._remove_scratch()
        return built

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._remove_scratch()

    def _remove_scratch(self) -> None:
        self._writer = self._index = None
        remove_folder(self._folder)

    def _add_documents(self, batch: pa.RecordBatch, first: int) -> None:
        names = [ROW]
        columns: list[Any] = [range(first, first + len(batch))]
        for each in self._indexed:
            values, dropped = indexed_values(each, batch.column(each.column))
            names.append(each.name)
            columns.append(values)
            if dropped:
                self._unindexed[each.column] += dropped
            self._terms.add(term_digests(each, values))
        made, schema, add = library().Document.from_dict, self._tantivy_schema, self._writer.add_document
        with guarded(self._folder):
            for row in zip(*columns, strict=True):
                add(made({name: value for name, value in zip(names, row, strict=True) if value is not None}, schema))


def term_digests(field: IndexField, values: Sequence[Any]) -> bytes:
    """What stands in a filter of terms for the values of some rows."""
    if field.hashed or not field.kind.is_words:
        return b""
    distinct = set(chain.from_iterable(filter(None, values)) if field.repeated else values) - {None}
    if field.kind is FieldKind.TEXT:
        # No word goes on behind the end of a line, so one call for all texts gives the words of each.
        distinct = set(words(field.analyzer, "\n".join(distinct)))
    return b"".join(digest(field.name, term) for term in distinct)


def total_lengths(folder: str, fields: Sequence[IndexField]) -> dict[str, int]:
    """How many words the texts of each column have together, in an index that lies in a folder."""

    def file(name: str) -> bytes:
        with open(os.path.join(folder, name), "rb") as opened:
            return opened.read()

    found = lengths_by_segment(fields, file, folder)
    return {column: int(sum(each.sum() for each in parts)) for column, parts in found.items()}

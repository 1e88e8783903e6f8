"""Opens a split: its layout, its rows by number, and its index unpacked and ready to be searched.

The rows and the index are read independently. Rows come from the row groups that hold them; pages are checked against
their checksums. The index is unpacked into a scratch folder, blob by blob, each after its checksum, and is gone when
the split is closed, unless a cache keeps it.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa

from halocline.errors import InputError
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.split.analyzers import register
from halocline.formats.index.split.cache import IndexCache
from halocline.formats.index.split.facts import KNOWN, SplitFacts, identity_of
from halocline.formats.index.split.fields import IndexField
from halocline.formats.index.split.file import FOOTER_TAG
from halocline.formats.index.split.layout import PART_BITS, Blob, SplitLayout, check_searchable, decode_layout
from halocline.formats.index.split.lengths import lengths_by_segment
from halocline.formats.index.split.library import damaged, guarded, library
from halocline.formats.index.split.location import below_root
from halocline.formats.index.split.presence import TermFilter
from halocline.formats.index.split.scratch import remove_folder
from halocline.formats.log.parquet_object import ParquetObject
from halocline.storage.base import Store

if TYPE_CHECKING:
    import tantivy

_MOST: Final = 4 * 1024**3
_GROUPS_AT_ONCE: Final = 8


class OpenedSplit:
    """A split that is being read. A context: leaving it removes the unpacked index, unless that is in a cache.

    Args:
        store: Where the table lies.
        path: The split's path in it.
        size: Its length, if the log has told it.
        scratch: A folder for the unpacked index; the system's own if not given.
        cache: Where unpacked indexes are kept for the next search; nowhere if not given.
        footer: Where its Parquet footer begins and what the checksum of it is, if the log has told that.
        facts: What is known of it already.

    Raises:
        MalformedError: It is no Parquet file, or its footer does not fit the checksum.
        NotFoundError: It does not exist.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        *,
        size: int | None = None,
        scratch: str | None = None,
        cache: IndexCache | None = None,
        footer: tuple[int, int] | None = None,
        facts: SplitFacts | None = None,
    ) -> None:
        self.store = store
        self.path = below_root(store, path)
        self._size = size
        self._facts = SplitFacts() if facts is None else facts
        if self._facts.footer is None:
            if footer is not None:
                self._check_footer(*footer)
            self._facts.footer = self.parquet.footer
        self._scratch = scratch
        self._cache = cache
        self._folder: str | None = None

    @classmethod
    def of(cls, store: Store, split: SplitAdd, *, scratch: str | None = None, cache: IndexCache | None = None) -> Self:
        """Opens a split of a table, and checks all that the log tells of it, unless this process has done so before.

        Raises:
            MalformedError: It is no Parquet file, or not the one that the log tells of.
            NotFoundError: It does not exist.
        """
        identity = identity_of(store, split)
        facts = KNOWN.of(identity)
        if facts is not None:
            return cls(store, split.path, size=split.size, scratch=scratch, cache=cache, facts=facts)
        crc, start = (split.tags or {}).get(FOOTER_TAG), split.footer_start_offset
        try:
            footer = None if crc is None or start is None else (start, int(crc, 16))
        except ValueError as error:
            raise damaged(split.path, f"the log has {crc!r} for a checksum of its footer") from error
        opened = cls(store, split.path, size=split.size, scratch=scratch, cache=cache, footer=footer)
        if split.num_records is not None and opened.parquet.rows != split.num_records:
            raise damaged(split.path, f"it has {opened.parquet.rows} rows, and the log says {split.num_records}")
        if footer is not None:
            opened._facts.footer_bytes = max(split.size - footer[0], 0)
            KNOWN.keep(identity, opened._facts)
        return opened

    def _check_footer(self, start: int, crc: int) -> None:
        data = self.store.get_range(self.path, start, max(self.store.head(self.path).size - start, 0))
        if zlib.crc32(data) != crc:
            raise damaged(self.path, "its footer does not fit its checksum")

    @cached_property
    def parquet(self) -> ParquetObject:
        """Its rows."""
        return ParquetObject(self.store, self.path, self._size, footer=self._facts.footer)

    @cached_property
    def _packed(self) -> ParquetObject:
        """Its rows, with text as dictionaries where the file has them: of many rows that are read few are taken."""
        footer, first = self._facts.footer, range(len(self.parquet.schema))
        if not self._facts.footer_bytes or not footer.num_row_groups or footer.num_columns != len(first):
            return self.parquet  # what a footer says of columns is looked at only once it fitted its checksum
        names = [
            self.parquet.schema.names[number]
            for number in first
            if pa.types.is_string(self.parquet.schema.types[number])
            and footer.row_group(0).column(number).has_dictionary_page
        ]
        return ParquetObject(self.store, self.path, self._size, footer=footer, dictionaries=names)

    @property
    def layout(self) -> SplitLayout:
        """What the split says about its index.

        Raises:
            MalformedError: It is missing or damaged.
            IncompatibleError: It is of a later version.
        """
        if self._facts.layout is None:
            layout = decode_layout(self.parquet.entries, self.path)
            if layout.rows != self.parquet.rows:
                raise damaged(self.path, f"it has {self.parquet.rows} rows, and its index has {layout.rows}")
            self._facts.layout = layout
        return self._facts.layout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Removes the unpacked index."""
        for name in ("index", "searcher"):
            self.__dict__.pop(name, None)
        if self._folder is not None:
            remove_folder(self._folder)
            self._folder = None

    @cached_property
    def fields(self) -> dict[str, IndexField]:
        """What the index has of each column."""
        return {each.column: each for each in self.layout.fields}

    @property
    def terms(self) -> TermFilter | None:
        """Which terms the split may have; None if nothing tells.

        Raises:
            MalformedError: The filter is damaged.
        """
        if self._facts.terms is None and self.layout.terms is not None:
            self._facts.terms = TermFilter(self._unpacked(self.layout.terms))
        return self._facts.terms

    @cached_property
    def index(self) -> tantivy.Index:
        """The index, unpacked.

        Raises:
            IncompatibleError: This release does not search such an index.
            MalformedError: It is damaged.
            MissingExtraError: The library is not installed.
        """
        check_searchable(self.layout, self.path)
        folder = self.index_folder()
        with guarded(self.path):
            opened = library().Index.open(folder)
            register(opened, (each.analyzer for each in self.layout.fields if each.analyzer))
        return opened  # type: ignore[no-any-return]

    def index_folder(self) -> str:
        """Where the index lies unpacked, as long as the split is open."""
        if self._cache is not None:
            known = f"{self.store.root}\n{self.path}\n{self.layout.blobs}"
            return self._cache.unpacked(blake2b(known.encode(), digest_size=16).hexdigest(), self._unpack)
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="halocline-split-", dir=self._scratch)
            self._unpack(self._folder)
        return self._folder

    def _unpack(self, folder: str) -> None:
        for blob in self.layout.blobs:
            if os.path.basename(blob.name) != blob.name or blob.name in ("", ".", ".."):
                raise damaged(self.path, f"a blob is called {blob.name!r}")
            with open(os.path.join(folder, blob.name), "wb") as file:
                file.write(self._unpacked(blob))

    @cached_property
    def searcher(self) -> tantivy.Searcher:
        """What searches the index.

        Raises:
            MalformedError: The index is damaged, or has another number of rows.
        """
        index = self.index
        with guarded(self.path):
            searcher = index.searcher()
        if searcher.num_docs != self.layout.rows:
            raise damaged(self.path, f"it has {self.layout.rows} rows, and its index has {searcher.num_docs}")
        return searcher

    def row_numbers(self, documents: Iterable[int]) -> np.ndarray:
        """The rows of the split that documents of the index are.

        Args:
            documents: The numbers that the index has of them.

        Raises:
            MalformedError: One of them is no row of the split.
        """
        numbers = np.fromiter(documents, dtype=np.int64)
        parts, positions = numbers >> PART_BITS, numbers & (2**PART_BITS - 1)
        known = np.array(sorted((each.number, each.offset) for each in self.layout.parts), dtype=np.int64).reshape(
            -1, 2
        )
        places = np.minimum(np.searchsorted(known[:, 0], parts), len(known) - 1)
        if len(numbers) and (not len(known) or (known[places, 0] != parts).any()):
            raise damaged(self.path, "its index has rows of a part that its layout does not know")
        rows = known[places, 1] + positions if len(numbers) else positions
        if len(rows) and rows.max() >= self.layout.rows:
            raise damaged(self.path, f"it has {self.layout.rows} rows, and its index has row {rows.max()}")
        return np.asarray(rows)

    def rows_having(self, field: IndexField, word: str) -> int:
        """How many rows have a word, deleted ones among them."""
        with guarded(self.path):
            return int(self.searcher.doc_freq(field.name, word))

    def total_length(self, column: str) -> int:
        """How many words the texts of a column have together, deleted rows among them.

        Raises:
            MalformedError: The index is damaged.
        """
        if column not in self.layout.lengths:
            return int(sum(each.sum() for each in self._lengths[column]))
        return self.layout.lengths[column]

    def lengths_at(self, column: str, places: np.ndarray) -> np.ndarray:
        """How many words the text of a column has at some places of the index.

        Args:
            column: The column.
            places: Rows of two numbers, the segment and the document.
        """
        found = np.empty(len(places), dtype=np.int64)
        for segment, lengths in enumerate(self._lengths[column]):
            here = places[:, 0] == segment
            found[here] = lengths[places[here, 1]]
        return found

    @cached_property
    def _lengths(self) -> dict[str, list[np.ndarray]]:
        blobs = {each.name: each for each in self.layout.blobs}

        def file(name: str) -> bytes:
            return self._unpacked(blobs[name])

        return lengths_by_segment(self.layout.fields, file, self.path)

    def rows(self, numbers: Sequence[int] | np.ndarray, columns: Sequence[str] | None = None) -> pa.Table:
        """Some rows, in the order of their numbers.

        Args:
            numbers: Row numbers, in ascending order.
            columns: The columns; all if not given.

        Raises:
            InputError: There is no such row or column.
            MalformedError: The rows are damaged.
        """
        chosen = self.parquet.schema.names if columns is None else list(columns)
        wanted = np.asarray(numbers, dtype=np.int64)
        unknown = [name for name in chosen if name not in self.parquet.schema.names]
        if unknown or (len(wanted) and (wanted[0] < 0 or wanted[-1] >= self.parquet.rows)):
            raise InputError(
                f"{self.path} has no such rows",
                sides={"asked for": f"{len(wanted)} rows of {', '.join(chosen)}", "has": f"{self.parquet.rows} rows"},
                next_step="Ask for rows and columns that the split has.",
            )
        sizes = np.asarray(self.parquet.group_rows, dtype=np.int64)
        begins = np.cumsum(sizes) - sizes
        group_of = np.searchsorted(begins + sizes, wanted, side="right")
        needed = np.unique(group_of)
        pieces: list[pa.RecordBatch] = []
        schema = pa.schema([self.parquet.schema.field(name) for name in chosen])
        source = self.parquet if len(needed) < _GROUPS_AT_ONCE else self._packed
        for first in range(0, len(needed), _GROUPS_AT_ONCE):
            groups = needed[first : first + _GROUPS_AT_ONCE]
            low, high = np.searchsorted(group_of, [groups[0], groups[-1] + 1])
            at = np.searchsorted(groups, group_of[low:high])
            places = np.cumsum(sizes[groups]) - sizes[groups]
            inside = wanted[low:high] - begins[groups][at] + places[at]
            read = source.batches(chosen, groups.tolist(), validates=False, threads=False)
            taken = pa.Table.from_batches(read).select(chosen).take(pa.array(inside))
            with self.parquet.reading():
                taken = taken.cast(schema)
                taken.validate(full=True)
            pieces += taken.to_batches()
        return pa.Table.from_batches(pieces, schema) if pieces else schema.empty_table()

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, a batch at a time.

        Raises:
            MalformedError: The rows are damaged.
        """
        return self.parquet.batches(self.parquet.schema.names if columns is None else columns)

    def _unpacked(self, blob: Blob) -> bytes:
        data = self.store.get_range(self.path, blob.offset, blob.length)
        if len(data) != blob.length or zlib.crc32(data) != blob.crc:
            raise damaged(self.path, f"{blob.name} does not fit its checksum")
        if blob.raw_length > _MOST:
            raise damaged(self.path, f"{blob.name} would have {blob.raw_length} bytes")
        try:
            raw: Any = pa.Codec("zstd").decompress(data, blob.raw_length, asbytes=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise damaged(self.path, f"{blob.name} cannot be decompressed: {error}") from error
        return bytes(raw)

"""Base files: Parquet, opened where they lie and read a batch at a time.

A column that has few values, as those have that say who wrote a row, can be asked for as a dictionary. Where that has
one value, its text is made once for all batches, which spares a third of what there is to decode and to copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from halocline.errors import MalformedError, NotFoundError, UnsupportedError
from halocline.formats.hudi.names import BaseFile
from halocline.formats.log.parquet_object import open_parquet
from halocline.storage.base import Store

BATCH_ROWS: Final = 64 * 1024
"""How many rows are read at once."""

_WHOLE: Final = 8 * 1024 * 1024
_DAMAGE: Final = (pa.ArrowException, OSError, ValueError)


class OpenBaseFile:
    """A base file that can be read. Made by `open_base_file`.

    Attributes:
        schema: Its columns.
    """

    def __init__(self, file: pq.ParquetFile, path: str) -> None:
        self._file: Final = file
        self._path: Final = path
        self._repeated: Final[dict[str, pa.Array]] = {}
        self.schema: Final[pa.Schema] = file.schema_arrow

    @property
    def num_rows(self) -> int:
        """How many rows it holds."""
        return int(self._file.metadata.num_rows)

    @property
    def footer(self) -> dict[bytes, bytes]:
        """What its footer says besides the schema."""
        return dict(self._file.metadata.metadata or {})

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Those of the columns that it has, a batch at a time.

        Raises:
            MalformedError: The file is damaged.
        """
        yield from self._batches(self._held(columns))

    def row_groups(self, first: Sequence[str], then: Sequence[str]) -> Iterator[tuple[pa.Table, Iterator[pa.Table]]]:
        """Row group by row group: some columns of all its rows at once, and these with others, a batch at a time.

        Raises:
            MalformedError: The file is damaged.
        """
        others = [name for name in self._held(then) if name not in first]
        for number in range(self._file.num_row_groups):
            with _reading(self._path):
                whole = self._file.read_row_group(number, columns=self._held(first))
            yield whole, self._joined(whole, others, number) if others else iter((whole,))

    def plain(self, rows: pa.Table) -> pa.Table:
        """Rows with text in place of dictionaries."""
        columns = [self._text(each) if pa.types.is_dictionary(each.type) else each for each in rows.columns]
        return pa.Table.from_arrays(columns, names=rows.schema.names)

    def _joined(self, whole: pa.Table, others: list[str], number: int) -> Iterator[pa.Table]:
        start, names = 0, [*whole.schema.names, *others]
        for batch in self._batches(others, number):
            part = whole.slice(start, batch.num_rows)
            start += batch.num_rows
            if part.num_rows != batch.num_rows:
                break
            yield pa.Table.from_arrays([*part.columns, *(batch.column(name) for name in others)], names=names)
        if start != whole.num_rows:
            raise _damaged(self._path, f"columns of {whole.num_rows} and of {start} rows")

    def _batches(self, held: list[str], *groups: int) -> Iterator[pa.RecordBatch]:
        batches = self._file.iter_batches(batch_size=BATCH_ROWS, row_groups=list(groups) or None, columns=held)
        while True:
            with _reading(self._path):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _held(self, columns: Sequence[str]) -> list[str]:
        return [name for name in columns if name in self.schema.names]

    def _text(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        chunks = column.chunks
        if len(chunks) != 1 or len(chunks[0].dictionary) != 1 or chunks[0].null_count or len(column) > BATCH_ROWS:
            return column.cast(column.type.value_type)
        value = chunks[0].dictionary[0]
        if value.as_py() not in self._repeated:
            self._repeated[value.as_py()] = pa.repeat(value, BATCH_ROWS)
        return pa.chunked_array([self._repeated[value.as_py()].slice(0, len(column))])


def open_base_file(store: Store, file: BaseFile, dictionaries: Sequence[str] = ()) -> OpenBaseFile:
    """Opens a base file.

    Args:
        store: Where it lies.
        file: The file.
        dictionaries: Columns of text that are given as dictionaries, if the file has all of them.

    Raises:
        MalformedError: It is no Parquet file.
        NotFoundError: It is not there any more.
        UnsupportedError: It is of a format that this release does not read.
    """
    check_format(file)
    try:
        with _reading(file.path):
            try:
                opened = _opened(store, file, dictionaries)
            except KeyError:  # a file without meta columns has none of them
                opened = _opened(store, file, ())
    except (FileNotFoundError, NotFoundError) as error:
        raise files_gone(store.root, error) from error
    return OpenBaseFile(opened, file.path)


def _opened(store: Store, file: BaseFile, dictionaries: Sequence[str]) -> pq.ParquetFile:
    names = list(dictionaries)
    return open_parquet(store, file.path, file.size, whole=_WHOLE, memory_map=True, read_dictionary=names)


def check_format(file: BaseFile) -> None:
    """Refuses a base file of a format that this release does not read."""
    if file.format != "parquet":
        raise UnsupportedError(
            f"{file.path} is a base file of format {file.format}, which this release does not read",
            sides={"file": file.format, "halocline reads": "parquet"},
            next_step="Rewrite the table with hoodie.table.base.file.format=PARQUET.",
        )


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except _DAMAGE as error:
        raise _damaged(path, str(error)[:200]) from error


def _damaged(path: str, found: str) -> MalformedError:
    return MalformedError(
        f"{path} is damaged",
        sides={"expected": "a Parquet file", "found": found},
        next_step="Restore the file from a copy.",
    )


def files_gone(table: str, error: Exception) -> NotFoundError:
    """The error for a file of the table that is not there."""
    return NotFoundError(
        f"a file of {table} is not there any more",
        condition="DATA_FILES_MISSING",
        sides={"timeline": "the file belongs to the table", "store": str(getattr(error, "message", error))},
        next_step="Open the table again; cleaning may have removed the file since. For older instants it is gone.",
    )

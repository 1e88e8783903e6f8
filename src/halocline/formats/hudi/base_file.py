"""Base files: Parquet, opened where they lie and read a batch at a time."""

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
        held = [name for name in columns if name in self.schema.names]
        batches = self._file.iter_batches(batch_size=BATCH_ROWS, columns=held)
        while True:
            with _reading(self._path):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def open_base_file(store: Store, file: BaseFile) -> OpenBaseFile:
    """Opens a base file.

    Raises:
        MalformedError: It is no Parquet file.
        NotFoundError: It is not there any more.
        UnsupportedError: It is of a format that this release does not read.
    """
    check_format(file)
    try:
        with _reading(file.path):
            opened = open_parquet(store, file.path, file.size, whole=_WHOLE, memory_map=True)
    except (FileNotFoundError, NotFoundError) as error:
        raise files_gone(store.root, error) from error
    return OpenBaseFile(opened, file.path)


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
        raise MalformedError(
            f"{path} is damaged",
            sides={"expected": "a Parquet file", "found": str(error)[:200]},
            next_step="Restore the file from a copy.",
        ) from error


def files_gone(table: str, error: Exception) -> NotFoundError:
    """The error for a file of the table that is not there."""
    return NotFoundError(
        f"a file of {table} is not there any more",
        condition="DATA_FILES_MISSING",
        sides={"timeline": "the file belongs to the table", "store": str(getattr(error, "message", error))},
        next_step="Open the table again; cleaning may have removed the file since. For older instants it is gone.",
    )

"""Parquet files of a log, opened where they lie.

Local files are read in place. Small remote objects are fetched whole; of large ones only the ranges that the asked-for
columns occupy. Whatever is wrong with the bytes becomes one `MalformedError` that names the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from halocline.formats.log.damage import malformed
from halocline.storage.base import Store
from halocline.storage.range_file import RangeFile

_WHOLE: Final = 32 * 1024 * 1024
DAMAGE: Final = (pa.ArrowException, OSError, ValueError, KeyError, NotImplementedError)
"""What Arrow raises when the bytes are not what they should be."""


class ParquetObject:
    """One Parquet file of a log.

    Args:
        store: Where it lies.
        path: Its path in the store.
        size: Its length, if a listing has told it.

    Raises:
        MalformedError: It is not a Parquet file.
        NotFoundError: It does not exist.
    """

    def __init__(self, store: Store, path: str, size: int | None = None) -> None:
        self.name = path.rpartition("/")[2]
        address = store.address(path)
        source: Any
        if address.startswith("/"):
            size = store.head(path).size
            source = address
        else:
            size = store.head(path).size if size is None else size
            source = pa.BufferReader(store.get(path)) if size <= _WHOLE else RangeFile(store, path, size)
        with self.reading():
            # Twelve-byte timestamps read as nanoseconds would wrap around outside of 1677 to 2262.
            self._file = pq.ParquetFile(
                source, pre_buffer=isinstance(source, RangeFile), coerce_int96_timestamp_unit="us"
            )
            self.schema: pa.Schema = self._file.schema_arrow
            self.metadata = self._file.metadata

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turns what Arrow raises into the error for damage."""
        try:
            yield
        except DAMAGE as error:
            raise malformed(self.name, f"cannot be read: {str(error)[:200]}") from error

    def has(self, *path: str) -> bool:
        """Whether there is a field of that path."""
        fields: Any = self.schema
        for step in path:
            index = fields.get_field_index(step)
            if index < 0:
                return False
            fields = fields.field(index).type
            if step != path[-1] and not pa.types.is_struct(fields):
                return False
        return True

    def groups_with(self, leaf: str, *, surely: bool = False) -> list[int]:
        """The row groups in which a leaf column has values.

        Args:
            leaf: The dotted path of the column.
            surely: Only those of which the footer says so; otherwise those of which it does not say the opposite.
        """
        with self.reading():
            groups = range(self.metadata.num_row_groups)
            return [group for group in groups if self._has_values(group, leaf, not surely)]

    def _has_values(self, group: int, leaf: str, otherwise: bool) -> bool:
        rows = self.metadata.row_group(group)
        for index in range(rows.num_columns):
            column = rows.column(index)
            if column.path_in_schema == leaf:
                statistics = column.statistics
                known = statistics is not None and statistics.has_null_count
                return bool(statistics.null_count < rows.num_rows) if known else otherwise
        return False

    def batches(self, columns: Sequence[str], groups: Sequence[int], rows: int = 65536) -> Iterator[pa.RecordBatch]:
        """The asked-for columns of some row groups, a batch at a time.

        Args:
            columns: Dotted paths; a struct brings all that is below it.
            groups: Which row groups.
            rows: How many rows at most in one batch.
        """
        if not groups:
            return
        with self.reading():
            batches = self._file.iter_batches(batch_size=rows, row_groups=list(groups), columns=list(columns))
        while True:
            with self.reading():
                batch = next(batches, None)
                if batch is None:
                    return
                # Text is checked here once; nothing after this expects bytes that are not UTF-8.
                batch.validate(full=True)
            yield batch

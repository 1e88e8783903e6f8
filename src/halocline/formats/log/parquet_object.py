"""Parquet files, opened where they lie.

Local files are read in place. Small remote objects are fetched whole; of large ones only the ranges that the asked-for
columns occupy. Whatever is wrong with the bytes becomes one `MalformedError` that names the file. Pages with a checksum
are checked against it.

A footer is believed in what can be checked, the number of rows, and in nothing else: no row is left out because of the
statistics in it. Looking at the description of a column chunk is not safe either: on damaged bytes Arrow may end the
process instead of raising an error. Reading the columns is, and that is all that happens here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from halocline.errors import MalformedError
from halocline.formats.log.damage import malformed
from halocline.storage.base import Store
from halocline.storage.range_file import RangeFile

_WHOLE: Final = 32 * 1024 * 1024
DAMAGE: Final = (pa.ArrowException, OSError, ValueError, KeyError, NotImplementedError)
"""What Arrow raises when the bytes are not what they should be."""


def open_parquet(
    store: Store, path: str, size: int | None = None, *, exact: bool = False, whole: int = 0, **options: Any
) -> pq.ParquetFile:
    """Opens a file where it lies: a local one in place, a remote one fetched at once up to a size, else range by range.

    Args:
        store: Where it lies.
        path: Its path.
        size: Its size in bytes, if that is known.
        exact: Whether a file of another size is refused. Of a remote one, the end is then not where it should be.
        whole: Up to which size a remote one is fetched at once.
        options: What else Arrow takes.

    Raises:
        NotFoundError: There is no such file.
        MalformedError: The file has another size.
    """
    address = store.address(path)
    source: Any = address
    if address.startswith("/"):
        status = store.head(path)
        if exact:
            check_size(path, size, status.size)
    else:
        size = size or store.head(path).size
        source = pa.BufferReader(store.get(path)) if size <= whole else RangeFile(store, path, size)
    # Twelve-byte timestamps read as nanoseconds would wrap around outside of 1677 to 2262.
    return pq.ParquetFile(source, pre_buffer=isinstance(source, RangeFile), coerce_int96_timestamp_unit="us", **options)


def check_size(path: str, logged: int | None, actual: int) -> None:
    """Refuse a file whose size is not the one that the log knows; without a size in the log, any is right.

    Example:
        >>> check_size("a.parquet", 10, 10)
    """
    if logged and logged > 0 and actual != logged:
        raise MalformedError(
            f"data file {path} has {actual} bytes, and {logged} by the log: it was cut, or another is in its place",
            sides={"log": f"{logged} bytes", "file": f"{actual} bytes"},
            next_step="Restore the file from a backup, or read an earlier version of the table.",
        )


class ParquetObject:
    """One Parquet file.

    Args:
        store: Where it lies.
        path: Its path.
        size: Its size in bytes, if that is known.
        footer: Its footer, if that has been read before; of a remote file then nothing is fetched but rows.
        dictionaries: Columns of text that are given as dictionaries, as they are in the file.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        size: int | None = None,
        *,
        footer: Any = None,
        dictionaries: Sequence[str] = (),
    ) -> None:
        self.name = path.rpartition("/")[2]
        with self.reading():
            whole = _WHOLE if footer is None else 0
            self._file = open_parquet(
                store,
                path,
                size,
                whole=whole,
                metadata=footer,
                read_dictionary=list(dictionaries),
                page_checksum_verification=True,
            )
            self.schema: pa.Schema = self._file.schema_arrow
            self.footer = footer = self._file.metadata
            self.group_rows = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
            self.rows: int = footer.num_rows
            self.entries: dict[bytes, bytes] = dict(footer.metadata or {})
        if sum(self.group_rows) != self.rows or min(self.group_rows, default=0) < 0:
            raise malformed(self.name, f"has {self.rows} rows, and {sum(self.group_rows)} in its row groups")

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

    @property
    def groups(self) -> int:
        """How many row groups there are."""
        return len(self.group_rows)

    def present(self, leaves: Sequence[str]) -> dict[str, dict[int, int]]:
        """How many rows have a value in each of some columns, by row group; groups without any are not named."""
        found: dict[str, dict[int, int]] = {leaf: {} for leaf in leaves}
        for group in range(self.groups) if leaves else ():
            for batch in self.batches(leaves, [group]):
                for leaf in leaves:
                    values = self._leaf(batch, leaf)
                    if values.null_count < len(values):
                        found[leaf][group] = found[leaf].get(group, 0) + len(values) - values.null_count
        return found

    def _leaf(self, batch: pa.RecordBatch, leaf: str) -> pa.Array:
        column, *steps = leaf.split(".")
        values = batch.column(column)
        for step in steps:
            values = self.children(values)[step]
        return values

    def children(self, column: pa.Array) -> dict[str, pa.Array]:
        """The children of a struct column, each with the nulls that were read from its own pages.

        Whether the struct itself is null is read from the pages of one child alone. So that goes only for children
        that cannot be null themselves.
        """
        if not pa.types.is_struct(column.type):
            raise malformed(self.name, f"has {column.type} in a column, expected a struct")
        fields = list(column.type)
        merged = None if all(field.nullable for field in fields) else column.flatten()
        return {
            field.name: column.field(number) if merged is None or field.nullable else merged[number]
            for number, field in enumerate(fields)
        }

    def batches(
        self,
        columns: Sequence[str],
        groups: Sequence[int] | None = None,
        *,
        validates: bool = True,
        threads: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """The asked-for columns of row groups, a batch at a time.

        Args:
            columns: The columns.
            groups: The row groups; all if not given.
            validates: Whether text is checked here; otherwise whoever takes rows out of a batch does it for these.
            threads: Whether columns are read side by side, which takes longer where there is little to read.
        """
        chosen = list(range(self.groups)) if groups is None else list(groups)
        expected = sum(self.group_rows[group] for group in chosen)
        if not expected:
            return
        with self.reading():
            batches = self._file.iter_batches(row_groups=chosen, columns=list(columns), use_threads=threads)
        while True:
            with self.reading():
                batch = next(batches, None)
                if batch is None:
                    break
                # Text is checked here once; nothing after this expects bytes that are not UTF-8.
                batch.validate(full=validates)
            expected -= len(batch)
            yield batch
        if expected:
            raise malformed(self.name, f"lacks {expected} of its rows")

"""The footers of Parquet files, read without Spark and many at a time.

A *footer* says what a file holds: its columns with their field ids, the number of rows, and bounds per row group. Local
files are opened in place. Of a remote file only the end is fetched, and then whatever ranges are asked for.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.delta.actions.locations import locate
from halocline.formats.log.parquet_object import check_size, open_parquet
from halocline.storage.base import Store

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE: Final = 16
_ID: Final = b"PARQUET:field_id"
_LOOK: Final = """
import sys
import pyarrow as pa, pyarrow.parquet as pq
read = sys.stdin.buffer.read
while size := read(8):
    footer = pq.read_metadata(pa.BufferReader(read(int.from_bytes(size, "big"))))
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            try:
                found = footer.row_group(group).column(number).statistics
                found and [found.null_count, found.has_min_max and (found.min_raw, found.max_raw)]
            except Exception:
                pass  # an error can be handled; only what ends the process is looked for
    sys.stdout.write(".")
    sys.stdout.flush()
"""
_DAMAGE: Final = (pa.ArrowException, OSError, ValueError)


def open_file(store: Store, path: str, size: int | None = None) -> pq.ParquetFile:
    """A data file of a table, by its decoded path, opened for reading; its size is looked up if it is not given.

    A file of another size is refused. Pages are checked against their checksums, where they have one.
    """
    holder, inner = locate(store, path)
    try:
        with needed(path):
            return open_parquet(holder, inner, size, exact=True, page_checksum_verification=True)
    except _DAMAGE as error:
        raise no_parquet(path, str(error)[:200]) from error


@contextmanager
def needed(path: str) -> Iterator[None]:
    """Turns what a store says of a file that is not there into the error for one that the log names."""
    try:
        yield
    except NotFoundError as error:
        raise no_file(path) from error


def footers(store: Store, files: Sequence[tuple[str, int | None]]) -> list[Any]:
    """The footers of files, in order, given the decoded path and, where known, the size of each."""
    return at_once(lambda file: _footer(store, *file), files)


def check_sizes(store: Store, files: Sequence[tuple[str, int]]) -> None:
    """Make sure that files have the sizes that the log knows; whether they exist is left to whoever reads them.

    Args:
        store: Where the table lies.
        files: The decoded path and the size of each.

    Raises:
        MalformedError: A file has another size.
    """
    step = -(-len(files) // _AT_ONCE) or 1
    at_once(lambda start: _check_sizes(store, files[start : start + step]), range(0, len(files), step))


def _check_sizes(store: Store, files: Sequence[tuple[str, int]]) -> None:
    for path, size in files:
        holder, inner = locate(store, path)
        with suppress(NotFoundError):
            check_size(path, size, holder.head(inner).size)


def check_foreign(store: Store, files: Sequence[tuple[str, int]]) -> None:
    """Makes sure that the column chunks of files which others wrote can be looked at.

    On damaged bytes Arrow may end the process instead of raising an error, so another process looks first.

    Args:
        store: Where the files lie.
        files: The decoded path and the size of each.
    """
    ends = at_once(lambda file: _end(store, *file), files)
    framed = b"".join(len(end).to_bytes(8, "big") + end for end in ends)
    looked = subprocess.run([sys.executable, "-c", _LOOK], input=framed, capture_output=True, check=False)
    if looked.returncode:
        path = files[min(len(looked.stdout), len(files) - 1)][0]
        raise no_parquet(path, "columns in its footer that cannot be read")


def no_parquet(path: str, found: str) -> MalformedError:
    """The error for a file whose bytes are not what they should be."""
    return MalformedError(
        f"{path} is not a Parquet file that can be read",
        sides={"file": path, "found": found},
        next_step="Restore the file from a backup, or read an earlier version of the table.",
    )


def no_file(path: str) -> NotFoundError:
    """The error for a file that a log names and that does not exist."""
    return NotFoundError(
        f"data file {path} does not exist",
        condition="DATA_FILES_MISSING",
        sides={"log": path, "folder": "no such file"},
        next_step="If a vacuum has deleted it, read a newer version, and start a stream with a new checkpoint; else "
        "restore the file from a backup, or a version of the table that does not need it.",
    )


def at_once(do: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """What a function returns for each item, several at a time; the first error ends it."""
    if len(items) <= 2:
        return [do(item) for item in items]
    with ThreadPoolExecutor(min(_AT_ONCE, len(items)), "halocline") as pool:
        return list(pool.map(do, items))


def field_paths(footer: Any) -> dict[int, tuple[str, ...]]:
    """The path of names in a file that each field id stands for; only fields of structs have ids that count."""
    return dict(_ids(footer.schema.to_arrow_schema(), ()))


def leaves(footer: Any) -> dict[tuple[str, ...], int]:
    """The number of the column chunk for each path of names, without those inside of lists and maps.

    Names may hold dots, so the dotted paths of the footer itself cannot be told apart; its order can.
    """
    found: dict[tuple[str, ...], int] = {}
    number = 0
    for path, type in leaf_types(footer.schema.to_arrow_schema()):
        if not pa.types.is_nested(type):
            found[path] = number
        number += _width(type)
    return found


def leaf_types(fields: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """The path and the type of everything in a schema that is no struct, lists and maps among it."""
    for field in fields:
        path, type = (*above, field.name), plain(field.type)
        if pa.types.is_struct(type):
            yield from leaf_types(type, path)
        else:
            yield path, type


def plain(type: pa.DataType) -> pa.DataType:
    """The type that is stored, where Arrow gives it a meaning of its own, such as variant."""
    return type.storage_type if isinstance(type, pa.BaseExtensionType) else type


def _end(store: Store, path: str, size: int) -> bytes:
    """A Parquet file that has only the footer of another."""
    tail = store.get_range(path, max(0, size - 8), min(size, 8))
    length = min(int.from_bytes(tail[:4], "little") + 8, size)
    return b"PAR1" + store.get_range(path, size - length, length)


def _footer(store: Store, path: str, size: int | None) -> Any:
    file = open_file(store, path, size)
    try:
        return file.metadata
    finally:
        file.close(force=True)


def _ids(fields: Any, above: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    for field in fields:
        path = (*above, field.name)
        identity = _field_id(field.metadata)
        if identity is not None:
            yield identity, path
        yield from _inner_ids(field.type, path)


def _inner_ids(type: pa.DataType, path: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    if pa.types.is_struct(type):
        yield from _ids(type, path)
    elif pa.types.is_map(type):
        yield from _inner_ids(type.key_type, (*path, "key"))
        yield from _inner_ids(type.item_type, (*path, "value"))
    elif pa.types.is_nested(type):
        yield from _inner_ids(type.value_type, (*path, "element"))


def _field_id(metadata: Mapping[bytes, bytes] | None) -> int | None:
    text = (metadata or {}).get(_ID)
    return None if text is None or int(text) < 0 else int(text)


def _width(type: pa.DataType) -> int:
    type = plain(type)
    if pa.types.is_struct(type):
        return sum(_width(field.type) for field in type)
    if pa.types.is_map(type):
        return _width(type.key_type) + _width(type.item_type)
    return _width(type.value_type) if pa.types.is_nested(type) else 1

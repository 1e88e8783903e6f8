"""The live files of a table, and the removed ones, as Arrow columns.

A *file list* has one row per logical file. It stays in Arrow from the checkpoint to the scan: a table of a million
files never becomes a million Python objects. `path` is decoded: a name below the table's root or a URL, in the one form
that can be compared. `log_path` is the same as the log spells it, for whoever writes it into the log again.

`ALL` names every column. A list may hold fewer, but `path` is always there, since a row without it means nothing.

A *tombstone* is a removed file that the log still remembers, so that it is not vacuumed too early and does not come
back. It lives until its retention has passed; a time of deletion that is missing counts as 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from halocline.errors import InputError
from halocline.formats.delta.actions.action import Add, DeletionVector, Remove
from halocline.formats.delta.actions.locations import Locations, needs_care
from halocline.formats.delta.log.action_types import TEXT_MAP, struct_type
from halocline.formats.log.damage import malformed

VECTOR: Final = struct_type(DeletionVector, on_disk=False)
_ADD: Final = struct_type(Add, on_disk=False, without=["path", "data_change"])
ALL: Final = pa.schema([("path", pa.string()), ("log_path", pa.string()), *_ADD])
"""The columns of a file list."""

TOMBSTONES: Final = pa.schema({"path": pa.string(), "deletion_timestamp": pa.int64(), "deletion_vector": VECTOR})
"""The columns of a list of removed files that the log remembers."""

TOMBSTONES_ON_DISK: Final = ("path", "deletionTimestamp", "deletionVector")
"""Names of the same columns in a checkpoint."""

LOG_PATH: Final = "log_path"
"""The path as it is written; no column of a checkpoint has this name."""

ON_DISK: Final = dict(zip(Add.__struct_fields__, Add.__struct_encode_fields__, strict=True)) | {LOG_PATH: LOG_PATH}
"""Names of the same columns in a checkpoint."""

_Offsets = npt.NDArray[np.int64]
_BLOCK: Final = 4096
_BEFORE_SLASH: Final = np.frombuffer(b":/.", np.uint8)
_FIRST_BYTES: Final = np.array([2 ** (8 * count) - 1 for count in range(9)], np.uint64)
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)  # odd, so that words which differ keep differing


def chosen(columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns asked for, in their order, all of them if none were named; `path` is always among them."""
    if columns is None:
        return tuple(ALL.names)
    unknown = [name for name in columns if name not in ALL.names]
    if unknown:
        raise InputError(
            f"a file list has no column {unknown[0]!r}",
            sides={"asked for": ", ".join(columns), "there are": ", ".join(ALL.names)},
        )
    return tuple(dict.fromkeys(["path", *columns]))


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """The Arrow schema of a file list with these columns."""
    return pa.schema([ALL.field(name) for name in columns])


def from_adds(
    adds: Sequence[Any],
    columns: Sequence[str] = tuple(ALL.names),
    *,
    paths: Sequence[str] | None = None,
    more: Sequence[Any] = (),
) -> pa.RecordBatch:
    """A file list out of actions.

    Args:
        adds: The actions, or values that have some of their fields.
        columns: Which columns.
        paths: The decoded paths, where these are not what the actions say.
        more: Values that have the other fields.
    """
    arrays: list[pa.Array] = []
    for name in columns:
        type = ALL.field(name).type
        if name == "path":
            arrays.append(pa.array([add.path for add in adds] if paths is None else paths, type))
            continue
        field = "path" if name == LOG_PATH else name
        values = list(map(attrgetter(field), more if more and not hasattr(adds[0], field) else adds))
        if values.count(None) == len(values):
            arrays.append(pa.nulls(len(values), type))
        elif type == TEXT_MAP:
            arrays.append(_text_maps(values))
        elif type == VECTOR:
            arrays.append(pa.array([vector and structs.asdict(vector) for vector in values], type))
        else:
            arrays.append(pa.array(values, type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(columns))


def on_disk(files: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns of a file list by their names on disk."""
    return {ON_DISK[name]: array for name, array in zip(files.schema.names, files.columns, strict=True)}


def _text_maps(values: list[dict[str, str | None] | None]) -> pa.Array:
    """Maps out of dictionaries; by their flat keys and items, which is several times faster than pair by pair."""
    whole = [{} if value is None else value for value in values]
    offsets = pa.array([0, *accumulate(map(len, whole))], pa.int32())
    keys = pa.array(list(chain.from_iterable(whole)), pa.string())
    items = pa.array(list(chain.from_iterable(map(dict.values, whole))), pa.string())
    missing = pa.array([value is None for value in values], pa.bool_()) if None in values else None
    return pa.MapArray.from_arrays(offsets, keys, items, mask=missing)


def vectors_in(column: pa.Array | pa.ChunkedArray) -> Iterator[DeletionVector | None]:
    """The descriptors in a column `deletion_vector`, row by row."""
    for row in column.to_pylist():
        yield DeletionVector(**row) if row is not None else None


def from_checkpoint(found: Mapping[str, pa.Array], fields: Iterable[pa.Field], kind: str, name: str) -> list[pa.Array]:
    """Columns of a checkpoint below `add` or `remove` in the types that they must have; null where there are none.

    The fields go by their names on disk. What a column of deletion vectors calls its parts is the fields' own affair.
    """
    arrays = []
    for field in fields:
        array, column = found.get(field.name), f"{kind}.{field.name}"
        if array is None:
            arrays.append(pa.nulls(len(found["path"]), field.type))
        elif field.name == "deletionVector":
            arrays.append(vectors_from_disk(array, field.type, column, name))
        else:
            arrays.append(typed(array, field.type, column, name))
    return arrays


def check_sizes(sizes: pa.Array, name: str) -> None:
    """Makes sure that every file of a checkpoint tells its size."""
    if len(sizes) and (sizes.null_count or pc.min(sizes).as_py() < 0):
        raise malformed(name, "has an add action without a size, or with one below 0")


def typed(array: pa.Array, type: pa.DataType, column: str, name: str) -> pa.Array:
    """The array in the type its column must have."""
    if array.type == type:
        return array
    if pa.types.is_integer(type) and not pa.types.is_integer(array.type) and not pa.types.is_null(array.type):
        raise malformed(name, f"has {array.type} in column {column}, expected {type}")
    try:
        return array.cast(type)
    except (pa.ArrowException, OverflowError) as error:
        raise malformed(name, f"has {array.type} in column {column}, expected {type}") from error


def vectors_from_disk(array: pa.Array, type: pa.DataType, column: str, name: str) -> pa.Array:
    """A column of deletion vectors in a checkpoint, in the type given, whose parts stand in the order of `VECTOR`."""
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), type)
    if not pa.types.is_struct(array.type):
        raise malformed(name, f"has {array.type} in column {column}, expected a struct")
    stored = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    nothing = pa.nulls(len(array))
    children = [
        typed(stored.get(label, nothing), field.type, f"{column}.{label}", name)
        for label, field in zip(DeletionVector.__struct_encode_fields__, type, strict=True)
    ]
    # Not every writer stores a null struct as null: a vector without a storage type is no vector.
    return pa.StructArray.from_arrays(children, fields=list(type), mask=pc.is_null(children[0]))


def vectors_to_disk(array: pa.Array, type: pa.DataType) -> pa.Array:
    """A column of deletion vectors of a file list, in the type given, whose parts stand in the order of `VECTOR`."""
    parts = [part.cast(field.type) for part, field in zip(array.flatten(), type, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=list(type), mask=pc.is_null(array))


def decoded_paths(paths: pa.Array, locations: Locations) -> pa.Array:
    """The paths of a checkpoint in the form that can be compared; untouched where they already have it."""
    if not len(paths) or _are_plain(paths):
        return paths
    decode = locations.decode
    return pa.array(
        [decode(path) if "%" in path or needs_care(path) else path for path in paths.to_pylist()], type=pa.string()
    )


def _are_plain(paths: pa.Array) -> bool:
    """Whether no path has escapes, dots, a scheme or a slash too many; looked for in all of them together."""
    for offsets, content in _blocks(paths):
        if b"%" in content or np.diff(offsets).min() <= len(".."):
            return False
        if b"/" in content:
            characters = np.frombuffer(content, np.uint8)
            slashes = np.flatnonzero(characters == ord("/"))
            before, after = characters[slashes - 1], characters[np.minimum(slashes + 1, len(characters) - 1)]
            marked = np.isin(before, _BEFORE_SLASH).any() or (after == ord(".")).any()
            if marked or (characters[offsets[:-1]] == ord("/")).any():
                return False
    return True


def _blocks(paths: pa.Array) -> Iterator[tuple[_Offsets, bytes]]:
    """Some paths at a time, few enough for the processor's cache: where each begins and ends, and their text."""
    _, ends, data = paths.buffers()
    for row in range(paths.offset, paths.offset + len(paths), _BLOCK):
        last = min(row + _BLOCK, paths.offset + len(paths))
        offsets = np.frombuffer(ends, np.int32, last - row + 1, row * np.dtype(np.int32).itemsize).astype(np.int64)
        start, end = int(offsets[0]), int(offsets[-1])
        yield offsets - start, b"" if data is None else data.slice(start, end - start).to_pybytes()


def check_unique(paths: pa.ChunkedArray, table: str) -> None:
    """Makes sure that no path is listed twice: its rows would be counted twice."""
    # Sorted hashes take a tenth of the memory and a quarter of the time of a set of paths. Only if two agree are the
    # paths compared.
    hashes = [_hashes(offsets, text) for chunk in paths.chunks for offsets, text in _blocks(chunk)]
    found = np.concatenate(hashes) if hashes else np.empty(0, np.uint64)
    found.sort()
    if not (found[1:] == found[:-1]).any():
        return
    twice = [row["values"] for row in pc.value_counts(paths).to_pylist() if row["counts"] > 1]
    if twice:
        raise malformed(f"the log of {table}", f"lists {twice[0]!r} more than once")


def _hashes(offsets: _Offsets, text: bytes) -> npt.NDArray[np.uint64]:
    """A number for each path, the same for the same path: eight bytes of all paths at once, then the next eight."""
    starts, lengths = offsets[:-1], np.diff(offsets)
    shortest, longest = int(lengths.min()), int(lengths.max())
    words = np.ndarray((len(text) + 1,), "<u8", text + bytes(8), strides=(1,))  # the one that begins at each byte
    found = lengths.astype(np.uint64)
    for at in range(0, shortest - 7, 8):
        found *= _FACTOR
        found += words[starts + at]
    for at in range(shortest // 8 * 8, longest, 8):
        # Paths that have ended keep their number: it must not depend on how long the others are.
        rows = np.flatnonzero(lengths > at)
        last = words[starts[rows] + at] & _FIRST_BYTES[np.minimum(lengths[rows] - at, 8)]
        found[rows] = found[rows] * _FACTOR + last
    return found


# ---------------------------------------------------------------------- removed files


def tombstones_from_removes(removes: Sequence[tuple[str, Remove]]) -> pa.RecordBatch:
    """Tombstones out of actions and their decoded paths."""
    columns: list[list[object]] = [
        [path for path, _ in removes],
        [remove.deletion_timestamp for _, remove in removes],
        [remove.deletion_vector and structs.asdict(remove.deletion_vector) for _, remove in removes],
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, TOMBSTONES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=TOMBSTONES)


def tombstones_from_checkpoint(found: Mapping[str, pa.Array], name: str) -> pa.RecordBatch:
    """Tombstones out of a checkpoint's columns, with their types made right."""
    fields = [pa.field(label, field.type) for label, field in zip(TOMBSTONES_ON_DISK, TOMBSTONES, strict=True)]
    return pa.RecordBatch.from_arrays(from_checkpoint(found, fields, "remove", name), schema=TOMBSTONES)

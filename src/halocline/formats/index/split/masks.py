"""Deletion masks: which rows of a split are gone, without writing the split anew.

A *mask* is a set of row numbers, kept as a Roaring bitmap. A small one is in the log itself; larger ones lie in files
of their own, several to a file, each with a checksum in the log. Masks only grow: a later one holds every row of an
earlier one.

Promise: a mask that is missing, damaged or of another size than the log says is an error, for going on without it would
bring deleted rows back.
"""

from __future__ import annotations

import uuid
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable
from typing import Final

import numpy as np
from msgspec.structs import replace
from pyroaring import BitMap

from halocline.errors import InputError, MalformedError, NotFoundError
from halocline.formats.index.log.actions import SplitAdd, SplitMask
from halocline.formats.index.split.location import below_root
from halocline.storage.base import Store

FOLDER: Final = "_deletion_masks"
"""Where files of masks lie, below the table's root."""

_IN_THE_LOG: Final = 2048


def deleted_rows(store: Store, split: SplitAdd) -> np.ndarray:
    """The numbers of the rows of a split that are deleted, in ascending order.

    Raises:
        MalformedError: The mask is missing or damaged, or names rows that the split does not have.

    Example:
        >>> from halocline.storage.memory import MemoryStore
        >>> store, split = MemoryStore(), SplitAdd("a.split.parquet", {}, 9, 0, True, num_records=5)
        >>> deleted_rows(store, write_masks(store, [(split, [3, 1])])[0]).tolist()
        [1, 3]
    """
    mask = split.deletion_mask
    if mask is None:
        return np.empty(0, dtype=np.int64)
    data = _bytes(store, mask, split.path)
    if len(data) != mask.length or zlib.crc32(data) != mask.crc:
        raise _damaged(split.path, "does not fit its checksum")
    try:
        rows = np.asarray(BitMap.deserialize(data).to_array(), dtype=np.int64)
    except ValueError as error:
        raise _damaged(split.path, str(error)) from error
    if len(rows) != mask.rows:
        raise _damaged(split.path, f"has {len(rows)} rows, and the log says {mask.rows}")
    if len(rows) and split.num_records is not None and rows[-1] >= split.num_records:
        raise _damaged(split.path, f"names row {rows[-1]} of {split.num_records}")
    return rows


def without_deleted(rows: np.ndarray, deleted: np.ndarray) -> np.ndarray:
    """Row numbers, without the deleted ones."""
    return rows if not len(deleted) else rows[~np.isin(rows, deleted)]


def write_masks(store: Store, deleted: Iterable[tuple[SplitAdd, Iterable[int]]]) -> list[SplitAdd]:
    """What the log has to say of splits once some more of their rows are deleted.

    Args:
        store: Where the table lies.
        deleted: Splits, each with the numbers of rows to delete; those that are deleted already may be among them.

    Raises:
        InputError: A split does not have such a row.
        MalformedError: A mask that a split has already is damaged.
    """
    described: list[tuple[SplitAdd, BitMap, bytes]] = []
    for split, numbers in deleted:
        rows = np.union1d(deleted_rows(store, split), np.fromiter(numbers, dtype=np.int64))
        if len(rows) and (rows[0] < 0 or rows[-1] >= (split.num_records or 0)):
            raise InputError(
                f"{split.path} has no row {rows[0] if rows[0] < 0 else rows[-1]}",
                sides={"asked for": f"{rows[0]} to {rows[-1]}", "has": f"{split.num_records} rows"},
                next_step="Find the rows of the split anew.",
            )
        bitmap = BitMap(rows.astype(np.uint32))
        bitmap.run_optimize()
        described.append((split, bitmap, bitmap.serialize()))
    path = f"{FOLDER}/mask-{uuid.uuid4()}.bin"
    content = bytearray()
    found = []
    for split, bitmap, data in described:
        mask = SplitMask(rows=len(bitmap), length=len(data), crc=zlib.crc32(data))
        if len(data) <= _IN_THE_LOG:
            mask = replace(mask, data=b64encode(data).decode("ascii"))
        else:
            mask = replace(mask, path=path, offset=len(content))
            content += data
        found.append(replace(split, deletion_mask=mask, data_change=True))
    if content:
        store.put_if_absent(path, bytes(content))
    return found


def _bytes(store: Store, mask: SplitMask, name: str) -> bytes:
    if mask.data is not None:
        try:
            return b64decode(mask.data, validate=True)
        except (Base64Error, ValueError) as error:
            raise _damaged(name, str(error)) from error
    if mask.path is None:
        raise _damaged(name, "is neither in the log nor in a file")
    try:
        return store.get_range(below_root(store, mask.path), mask.offset, mask.length)
    except (NotFoundError, InputError) as error:
        raise _damaged(name, f"{mask.path} cannot be read: {error.message}") from error


def _damaged(name: str, problem: str) -> MalformedError:
    return MalformedError(
        f"the deletion mask of {name} cannot be used: {problem}",
        condition="MALFORMED_SPLIT",
        sides={"split": name},
        next_step="Restore the mask from a backup. Without it deleted rows would come back.",
    )

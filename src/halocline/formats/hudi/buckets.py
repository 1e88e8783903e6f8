"""Bucket indexes: which file group a key belongs to, by its hash.

In a table with a bucket index every partition has at most one file group per *bucket*, whose number begins its file id.
A key belongs to bucket `hash % count`, so writers find its file group without looking for it, and every writer has to
place keys alike. The properties of a table do not say how many buckets there are; every key that lies somewhere does,
because the count divides the difference of its hash and its bucket.

The limits: keys are hashed whole, buckets are as many in every partition, and a key that releases of Apache Hudi
take apart differently (with a colon or a comma in a value) is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from halocline.errors import ConstraintError, UnsupportedError
from halocline.formats.hudi.properties import FOLDER
from halocline.formats.hudi.record_keys import EMPTY_KEY, NULL_KEY, key_columns, stored_key, written_key_columns
from halocline.formats.hudi.slices import FileSlice

if TYPE_CHECKING:
    from halocline.formats.hudi.snapshot import HudiSnapshot

BUCKETS: Final = "hoodie.bucket.index.num.buckets"
INDEX_TYPE: Final = "hoodie.index.type"

_MOST: Final = 100_000
_SAMPLED_SLICES: Final = 50
_NAMED: Final = re.compile(r"(?P<bucket>[0-9]{8})-")
_CONSISTENT: Final = f"{FOLDER}/.bucket_index"

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """How keys are placed.

    Attributes:
        count: How many buckets each partition has.
        named: Whether keys are `field:value` pairs.
    """

    count: int
    named: bool = False

    def of(self, keys: pa.Array) -> Numbers:
        """The bucket of each key.

        Raises:
            ConstraintError: A key is one that releases of Apache Hudi place differently.

        Example:
            >>> BucketIndex(4).of(pa.array(["k0", "k1"])).tolist()
            [0, 1]
        """
        return hashes(keys, named=self.named) % self.count


def bucket_of(file_id: str) -> int | None:
    """The bucket that a file group is named by; None if it is named otherwise.

    Example:
        >>> bucket_of("00000003-9675-4fc1-bf70-51717e9e5488-0")
        3
    """
    found = _NAMED.match(file_id)
    number = None if found is None else int(found["bucket"])
    return None if number is None or number >= _MOST else number


def bucket_file_id(bucket: int, random: str) -> str:
    """The id of a new file group.

    Example:
        >>> bucket_file_id(3, "0f1ba1a5-9675-4fc1-bf70-51717e9e5488")
        '00000003-9675-4fc1-bf70-51717e9e5488-0'
    """
    return f"{bucket:08}{random[8:]}-0"


def bucket_index(snapshot: HudiSnapshot, told: int = 0) -> BucketIndex | None:
    """The bucket index of a table; None if it has none.

    Args:
        snapshot: The table.
        told: How many buckets it has; 0 if its file groups are to tell.

    Raises:
        UnsupportedError: Rows are placed in a way that is not written here, or the count cannot be told.
    """
    config, table = snapshot.config, snapshot.store.root
    if any(meta.path.endswith(".hashing_meta") for meta in snapshot.store.list(_CONSISTENT)):
        raise _unwritable(table, "a bucket index with consistent hashing", "simple bucket indexes")
    numbers = [bucket_of(each.file_id) for each in snapshot.slices]
    held = bool(numbers) and None not in numbers
    stored = config.pairs.get(BUCKETS, "").strip() if config.pairs.get(INDEX_TYPE, "").upper() == "BUCKET" else ""
    given = told or (int(stored) if stored.isdigit() else 0)
    if not held and (numbers or not given):
        return None
    named = written_key_columns(config, stored_key(snapshot)).named
    if not numbers:
        return BucketIndex(given, named)
    top = max(each for each in numbers if each is not None)
    difference = _common_difference(snapshot, named)
    fitting = [each for each in range(top + 1, _MOST) if difference % each == 0] if difference or given else []
    if given:
        fitting = [each for each in fitting if each == given]
    if not fitting:
        raise _unwritable(
            table, f"buckets that the hashes of its keys do not explain{f' as {given}' if given else ''}", "whole keys"
        )
    if len(fitting) > 1:
        raise UnsupportedError(
            f"the few keys of {table} do not tell how many buckets it has",
            sides={"possible": ", ".join(map(str, fitting[:10])), "needed": "one number"},
            next_step='Say it: options={"halocline.hudi.buckets": "..."}, as hoodie.bucket.index.num.buckets has it.',
        )
    return BucketIndex(fitting[0], named)


def hashes(keys: pa.Array, *, named: bool) -> Numbers:
    """What buckets are told by: the hash that Java gives the list of a key's values.

    Raises:
        ConstraintError: A key is one that releases of Apache Hudi take apart differently.
    """
    texts = keys.to_pylist()
    values = [_values(text, named) for text in texts] if named else [[_plain(text)] for text in texts]
    found = np.ones(len(texts), np.uint32)
    with np.errstate(over="ignore"):
        for column in zip(*values, strict=True):
            found = found * np.uint32(31) + _text_hashes(column)
    return (found & np.uint32(0x7FFFFFFF)).astype(np.int64)


def _common_difference(snapshot: HudiSnapshot, named: bool) -> int:
    """What the number of buckets divides."""
    found = 0
    for slice in snapshot.slices[:_SAMPLED_SLICES]:
        bucket = bucket_of(slice.file_id) or 0
        for keys in _keys(snapshot, slice):
            differences = hashes(keys, named=named) - bucket
            found = math.gcd(found, int(np.gcd.reduce(differences)) if len(differences) else 0)
    return found


def _keys(snapshot: HudiSnapshot, slice: FileSlice) -> Iterator[pa.Array]:
    keys = key_columns(snapshot.config)
    reader = snapshot.reader(keys.names, merging=bool(slice.logs))
    yield from (keys.of(batch) for batch in reader.read(snapshot.store, slice))


def _plain(text: str) -> str:
    if ":" in text:
        raise _ambiguous(text)
    return text


def _values(text: str, named: bool) -> list[str]:
    pieces = [each.split(":") for each in text.split(",")]
    if any(len(each) != 2 or each[1] in (NULL_KEY, EMPTY_KEY) for each in pieces):
        raise _ambiguous(text)
    return [value for _, value in pieces]


def _text_hashes(texts: Iterable[str]) -> npt.NDArray[np.uint32]:
    """The hash that Java gives each text."""
    encoded = [each.encode("utf-16-le", "surrogatepass") for each in texts]
    found = np.zeros(len(encoded), np.uint32)
    lengths = np.array([len(each) for each in encoded])
    for length in np.unique(lengths):
        places = np.flatnonzero(lengths == length)
        units = np.frombuffer(b"".join(encoded[at] for at in places), "<u2").reshape(len(places), length // 2)
        each = np.zeros(len(places), np.uint32)
        for column in units.T:
            each = each * np.uint32(31) + column
        found[places] = each
    return found


def _ambiguous(text: str) -> ConstraintError:
    return ConstraintError(
        f"releases of Apache Hudi place the key {text!r:.80} in different buckets",
        sides={"row": "a colon, a comma, null or empty text in a value of the key", "table": "a bucket index"},
        next_step="Leave such rows out, or write them with the writer that made the table.",
    )


def _unwritable(table: str, found: str, possible: str) -> UnsupportedError:
    return UnsupportedError(
        f"rows of {table} cannot be placed: it has {found}",
        sides={"table": found, "halocline writes": f"tables without a bucket index, or with one by {possible}"},
        next_step="Write with the writer that made the table.",
    )

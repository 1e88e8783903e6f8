"""The filter in the footer of a base file that tells which keys it cannot hold.

Hudi's bloom index reads it, and so do writes here: a filter of rows of bits, each for a number of keys, serialised as
Java writes it and then as Base64. The simple kind has one row and no counts. The hash is the second Murmur hash,
chained: each hash is the seed of the next.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

TYPE_CODE: Final = "DYNAMIC_V0"
SIMPLE_CODE: Final = "SIMPLE"

_FALSE_POSITIVES: Final = 0.000000001
_FEWEST: Final = 100
_VERSION: Final = -1
_MURMUR: Final = 1
_HEAD: Final = struct.Struct(">iibi")
_COUNTS: Final = struct.Struct(">iii")
_FACTOR: Final = np.uint32(0x5BD1E995)

Hashes = npt.NDArray[np.uint32]


def bloom_filter(keys: Iterable[str], false_positives: float = _FALSE_POSITIVES, entries: int | None = None) -> str:
    """The filter of some keys.

    Args:
        keys: The keys of a file.
        false_positives: How often it may say that a key is there which is not.
        entries: How many keys it is for; as many as there are if not given.

    Example:
        >>> len(bloom_filter(["k000", "k001"], 0.01, 200))
        372
    """
    encoded = [each.encode() for each in keys]
    count = entries or max(len(encoded), _FEWEST)
    size = math.ceil(count * (-math.log(false_positives) / math.log(2) ** 2))
    hashes = math.ceil(math.log(2) * size / count)
    head = _HEAD.pack(_VERSION, hashes, _MURMUR, size)
    rows = [encoded[at : at + count] for at in range(0, len(encoded), count)] or [[]]
    last = len(rows[-1])
    pieces = [head, _COUNTS.pack(count, last, len(rows))]
    for row in rows:
        pieces += (head, _bits(row, hashes, size))
    return base64.b64encode(b"".join(pieces)).decode()


def may_hold(text: str, code: str, keys: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which of some keys a file may hold, as far as its filter tells; all if it is none that is known.

    Args:
        text: The filter.
        code: What kind of filter it is.
        keys: The keys.

    Example:
        >>> may_hold(bloom_filter(["k0"]), TYPE_CODE, ["k0", "k1"]).tolist()
        [True, False]
    """
    everything = np.ones(len(keys), bool)
    try:
        data = base64.b64decode(text, validate=True)
        version, hashes, kind, size = _HEAD.unpack_from(data)
        if (version, kind) != (_VERSION, _MURMUR) or code not in (TYPE_CODE, SIMPLE_CODE) or size < 1:
            return everything
        width, rows, at = (size + 7) // 8, 1, 0
        if code == TYPE_CODE:
            *_, rows = _COUNTS.unpack_from(data, _HEAD.size)
            at = _HEAD.size + _COUNTS.size
    except (ValueError, struct.error):
        return everything
    if len(data) != at + rows * (_HEAD.size + width):
        return everything
    filters = [
        np.unpackbits(
            np.frombuffer(data, np.uint8, width, at + row * (_HEAD.size + width) + _HEAD.size), bitorder="little"
        )
        for row in range(rows)
    ]
    found = np.zeros(len(keys), bool)
    for places, group in _by_length([each.encode() for each in keys]):
        held = np.ones((rows, len(group)), bool)
        for bits in _chained(group, hashes, size):
            for row, filter in enumerate(filters):
                held[row] &= filter[bits].astype(bool)
        found[places] = held.any(axis=0)
    return found


def _bits(keys: list[bytes], hashes: int, size: int) -> bytes:
    bits = np.zeros((size + 7) // 8 * 8, bool)
    for _, group in _by_length(keys):
        for found in _chained(group, hashes, size):
            bits[found] = True
    return np.packbits(bits, bitorder="little").tobytes()


def _chained(keys: npt.NDArray[np.uint8], hashes: int, size: int) -> Iterator[npt.NDArray[np.int64]]:
    """The bits of keys of one length, hash by hash."""
    seed = np.zeros(len(keys), np.uint32)
    for _ in range(hashes):
        seed = _murmur(keys, seed)
        yield np.abs(seed.view(np.int32).astype(np.int64)) % size


def _by_length(keys: list[bytes]) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]]:
    """Keys of one length, with where they stand."""
    lengths = np.array([len(key) for key in keys], np.int64)
    for length in np.unique(lengths).tolist():
        places = np.flatnonzero(lengths == length)
        joined = b"".join(keys[at] for at in places)
        yield places, np.frombuffer(joined, np.uint8).reshape(len(places), length)


def _murmur(keys: npt.NDArray[np.uint8], seed: Hashes) -> Hashes:
    """The hash of keys of one length. Bytes behind the last word are signed, and the last one weighs least."""
    length = keys.shape[1]
    found = seed ^ np.uint32(length)
    words = length // 4
    with np.errstate(over="ignore"):
        for word in np.ascontiguousarray(keys[:, : words * 4]).view("<u4").T if words else ():
            mixed = word * _FACTOR
            mixed = (mixed ^ (mixed >> np.uint32(24))) * _FACTOR
            found = (found * _FACTOR) ^ mixed
        left = keys[:, words * 4 :].view(np.int8).astype(np.int32).astype(np.uint32)
        if left.shape[1]:
            for behind, byte in enumerate(left.T[::-1]):
                found = found ^ (byte << np.uint32(8 * behind))
            found = found * _FACTOR
        found = (found ^ (found >> np.uint32(13))) * _FACTOR
        return np.asarray(found ^ (found >> np.uint32(15)), np.uint32)

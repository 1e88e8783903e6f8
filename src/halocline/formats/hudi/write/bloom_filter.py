"""The filter in the footer of a base file that tells which keys it cannot hold.

Hudi's bloom index reads it: a filter of rows of bits, each for a number of keys, serialised as Java writes it and then
as Base64. The hash is the second Murmur hash, chained: each hash is the seed of the next.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

TYPE_CODE: Final = "DYNAMIC_V0"

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


def _bits(keys: list[bytes], hashes: int, size: int) -> bytes:
    bits = np.zeros((size + 7) // 8 * 8, bool)
    for group in _by_length(keys):
        seed = np.zeros(len(group), np.uint32)
        for _ in range(hashes):
            seed = _murmur(group, seed)
            bits[np.abs(seed.view(np.int32).astype(np.int64)) % size] = True
    return np.packbits(bits, bitorder="little").tobytes()


def _by_length(keys: list[bytes]) -> list[npt.NDArray[np.uint8]]:
    groups: dict[int, list[bytes]] = {}
    for key in keys:
        groups.setdefault(len(key), []).append(key)
    return [np.frombuffer(b"".join(each), np.uint8).reshape(len(each), length) for length, each in groups.items()]


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

"""The filter of a split's terms: whether a term may be in it, told from a few bits.

It is a Bloom filter over fields and terms, ten bits for each, seven of which are set: what it says is missing is
missing, and one term in a hundred that is missing seems to be there. Looking takes a read of the filter alone, a tenth
of the index or less, so a search for a rare term opens only the splits that have it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import numpy as np

_BITS: Final = 10
_PROBES: Final = 7
_LEAST: Final = 64


class TermFilter:
    """Which terms a split may have.

    Example:
        >>> made = TermFilter.of(digest("f1", "timeout") + digest("f1", "error"))
        >>> made.may_have("f1", "timeout"), made.may_have("f1", "zebra"), made.may_have("f2", "timeout")
        (True, False, False)
    """

    __slots__ = ("_bits",)

    def __init__(self, data: bytes) -> None:
        self._bits = np.frombuffer(data, dtype=np.uint8)

    @staticmethod
    def of(digests: bytes) -> TermFilter:
        """The filter of some terms.

        Args:
            digests: Their digests, one after another; the same one may occur again.
        """
        halves = np.unique(np.frombuffer(digests, dtype=[("first", np.uint64), ("second", np.uint64)]))
        size = max(_LEAST, (len(halves) * _BITS + 7) // 8)
        bits = np.zeros(size * 8, dtype=np.bool_)
        for probe in range(_PROBES):
            bits[_places(halves["first"], halves["second"], probe, size)] = True
        return TermFilter(np.packbits(bits).tobytes())

    def may_have(self, field: str, term: str) -> bool:
        """False if the split does not have the term; true if it may."""
        halves = np.frombuffer(digest(field, term), dtype=np.uint64)
        places = [int(_places(halves[:1], halves[1:], probe, len(self._bits))[0]) for probe in range(_PROBES)]
        return all(self._bits[place >> 3] & (0x80 >> (place & 7)) for place in places)

    def to_bytes(self) -> bytes:
        """What the constructor takes."""
        return self._bits.tobytes()


def digest(field: str, term: str) -> bytes:
    """What stands for a term in a filter: sixteen bytes."""
    return blake2b(f"{field}\0{term}".encode(), digest_size=16).digest()


def _places(first: np.ndarray, second: np.ndarray, probe: int, size: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        return (first + second * np.uint64(probe)) % np.uint64(size * 8)

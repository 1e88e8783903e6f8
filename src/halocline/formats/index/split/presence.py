"""The filter of a split's terms: whether a term may be in it, told from a few bits.

It is a Bloom filter over fields and terms, ten bits for each, seven of which are set: what it says is missing is
missing, and one term in a hundred that is missing seems to be there. Looking takes a read of the filter alone, a tenth
of the index or less, so a search for a rare term opens only the splits that have it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from hashlib import blake2b
from typing import IO, Final

import numpy as np

_BITS: Final = 10
_PROBES: Final = 7
_WORD: Final = 2**64 - 1
_LEAST: Final = 64
_WAITING: Final = 4 * 1024**2
_PORTIONS: Final = 16
_HALVES: Final = np.dtype([("first", np.uint64), ("second", np.uint64)])


class TermFilter:
    """Which terms a split may have.

    Example:
        >>> made = TermFilter.of(digest("f1", "timeout") + digest("f1", "error"))
        >>> made.may_have("f1", "timeout"), made.may_have("f1", "zebra"), made.may_have("f2", "timeout")
        (True, False, False)
    """

    __slots__ = ("_bits",)

    def __init__(self, data: bytes) -> None:
        self._bits = data

    @staticmethod
    def of(digests: bytes) -> TermFilter:
        """The filter of some terms.

        Args:
            digests: Their digests, one after another; the same one may occur again.
        """
        found = TermDigests()
        found.add(digests)
        return found.made()

    def may_have(self, field: str, term: str) -> bool:
        """False if the split does not have the term; true if it may."""
        halves = digest(field, term)
        first, second = (int.from_bytes(half, "little") for half in (halves[:8], halves[8:]))
        # What `_places` does for many, which takes longer for one.
        places = (((first + second * probe) & _WORD) % (len(self._bits) * 8) for probe in range(_PROBES))
        return all(self._bits[place >> 3] & (0x80 >> (place & 7)) for place in places)

    @property
    def size(self) -> int:
        """How many bytes it takes."""
        return len(self._bits)

    def to_bytes(self) -> bytes:
        """What the constructor takes."""
        return self._bits


class TermDigests:
    """The digests of the terms of a split, until there is a filter of them.

    What does not fit into a few megabytes goes to files, in portions that are later looked at one by one, so that
    memory does not grow with the number of terms.

    Args:
        scratch: A folder for the files; the system's own if not given.
    """

    def __init__(self, scratch: str | None = None) -> None:
        self._scratch = scratch
        self._waiting = bytearray()
        self._files: list[IO[bytes]] = []

    def add(self, digests: bytes) -> None:
        """Takes in digests, one after another; the same one may occur again."""
        self._waiting += digests
        if len(self._waiting) > _WAITING:
            self._put_aside()

    def made(self) -> TermFilter:
        """The filter of all of them."""
        if self._files:
            self._put_aside()
        count = sum(len(each) for each in self._portions())
        size = max(_LEAST, (count * _BITS + 7) // 8)
        bits = np.zeros(size, dtype=np.uint8)
        for halves in self._portions():
            for probe in range(_PROBES):
                places = _places(halves["first"], halves["second"], probe, size)
                np.bitwise_or.at(bits, places >> np.uint64(3), (0x80 >> (places & np.uint64(7))).astype(np.uint8))
        for file in self._files:
            file.close()
        return TermFilter(bits.tobytes())

    def _put_aside(self) -> None:
        if not self._files:
            self._files = [tempfile.TemporaryFile(dir=self._scratch) for _ in range(_PORTIONS)]  # noqa: SIM115
        halves = _distinct(self._waiting)
        portion = halves["first"] % np.uint64(_PORTIONS)
        for number, file in enumerate(self._files):
            file.write(halves[portion == number].tobytes())
        self._waiting = bytearray()

    def _portions(self) -> Iterator[np.ndarray]:
        if not self._files:
            yield _distinct(self._waiting)
        for file in self._files:
            file.seek(0)
            yield _distinct(file.read())


def _distinct(digests: bytes | bytearray) -> np.ndarray:
    return np.unique(np.frombuffer(bytes(digests), dtype=_HALVES))


def digest(field: str, term: str) -> bytes:
    """What stands for a term in a filter: sixteen bytes."""
    return blake2b(f"{field}\0{term}".encode(), digest_size=16).digest()


def _places(first: np.ndarray, second: np.ndarray, probe: int, size: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        return (first + second * np.uint64(probe)) % np.uint64(size * 8)

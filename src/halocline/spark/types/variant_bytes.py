"""A variant in one spelling, so that two of them can be compared whatever they were packed in.

The same value can be packed in several ways: with other numbers for the keys, in integers of another width, or, once it
was shredded into columns and put together again, as a decimal with other zeros at its end. All of these are one value.
Everything else is told apart: types, every bit of text and bytes, the two zeros, and how often a time ticks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

_NAN: Final = struct.pack("<d", float("nan"))
_INTEGERS: Final = {3: 1, 4: 2, 5: 4, 6: 8}
_DECIMALS: Final = {8: 4, 9: 8, 10: 16}
_FIXED: Final = {0: 0, 1: 0, 2: 0, 11: 4, 12: 8, 13: 8, 17: 8, 18: 8, 19: 8, 20: 16}
_DOUBLE, _FLOAT, _BINARY, _STRING = 7, 14, 15, 16


def spelt_variant(value: bytes, metadata: bytes) -> bytes:
    """Return a variant in one spelling.

    Example:
        >>> byte, short, keys = bytes([3 << 2, 7]), bytes([4 << 2, 7, 0]), bytes([1, 0, 0])
        >>> spelt_variant(byte, keys) == spelt_variant(short, keys)
        True
    """
    return _Variant(metadata).spelt(value, 0)


class _Variant:
    def __init__(self, metadata: bytes) -> None:
        width = (metadata[0] >> 6) + 1
        count = _number(metadata, 1, width)
        ends = [_number(metadata, 1 + width * (1 + number), width) for number in range(count + 1)]
        start = 1 + width * (count + 2)
        self._keys = [metadata[start + ends[number] : start + ends[number + 1]] for number in range(count)]

    def spelt(self, value: bytes, at: int) -> bytes:
        """The spelling of what begins at a place."""
        basic, header = value[at] & 3, value[at] >> 2
        kinds: Mapping[int, Callable[[bytes, int, int], bytes]] = {2: self._object, 3: self._array}
        if basic == 1:
            return _sized(b"s", value[at + 1 : at + 1 + header])
        return kinds.get(basic, _primitive)(value, at, header)

    def _object(self, value: bytes, at: int, header: int) -> bytes:
        width, id_width, count_width = (header & 3) + 1, (header >> 2 & 3) + 1, 4 if header >> 4 & 1 else 1
        count = _number(value, at + 1, count_width)
        ids = at + 1 + count_width
        offsets = ids + id_width * count
        start = offsets + width * (count + 1)
        members = {
            self._keys[_number(value, ids + id_width * each, id_width)]: self.spelt(
                value, start + _number(value, offsets + width * each, width)
            )
            for each in range(count)
        }
        return _sized(b"o", b"".join(_sized(b"k", key) + members[key] for key in sorted(members)))

    def _array(self, value: bytes, at: int, header: int) -> bytes:
        width, count_width = (header & 3) + 1, 4 if header >> 2 & 1 else 1
        count = _number(value, at + 1, count_width)
        offsets = at + 1 + count_width
        start = offsets + width * (count + 1)
        elements = (self.spelt(value, start + _number(value, offsets + width * each, width)) for each in range(count))
        return _sized(b"a", b"".join(elements))


def _primitive(value: bytes, at: int, kind: int) -> bytes:
    at += 1
    if kind in _INTEGERS:
        return _exact(int.from_bytes(value[at : at + _INTEGERS[kind]], "little", signed=True), 0)
    if kind in _DECIMALS:
        return _exact(int.from_bytes(value[at + 1 : at + 1 + _DECIMALS[kind]], "little", signed=True), value[at])
    if kind in (_DOUBLE, _FLOAT):
        form, size = ("<d", 8) if kind == _DOUBLE else ("<f", 4)
        bits = value[at : at + size]
        return _sized(b"d" if kind == _DOUBLE else b"f", bits if _is_number(form, bits) else _NAN)
    if kind in (_BINARY, _STRING):
        size = _number(value, at, 4)
        return _sized(b"b" if kind == _BINARY else b"s", value[at + 4 : at + 4 + size])
    if kind in _FIXED:
        return _sized(b"p%d" % kind, value[at : at + _FIXED[kind]])
    raise ValueError(f"a variant holds a value of kind {kind}, which is not known here")


def _is_number(form: str, bits: bytes) -> bool:
    number: float = struct.unpack(form, bits)[0]
    return number == number


def _exact(number: int, scale: int) -> bytes:
    """A whole number or a decimal, without zeros at its end."""
    while scale and not number % 10:
        number, scale = number // 10, scale - 1
    return _sized(b"n", b"%de%d" % (number, scale))


def _sized(tag: bytes, content: bytes) -> bytes:
    return b"%b%d:%b" % (tag, len(content), content)


def _number(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "little")


def spelt(value: Any) -> bytes | None:
    """Return one spelling of a variant as PySpark has it; this is what a worker runs."""
    return None if value is None else spelt_variant(bytes(value.value), bytes(value.metadata))

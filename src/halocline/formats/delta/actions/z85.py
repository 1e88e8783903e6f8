"""Z85: bytes as printable text, four bytes to five characters, as deletion vectors spell ids and inline bitmaps.

Text stands for a multiple of four bytes. Whoever encodes other lengths pads first and remembers the length.
"""

from __future__ import annotations

from typing import Final

_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUE: Final = {character: value for value, character in enumerate(_ALPHABET)}


def encode(data: bytes) -> str:
    """The text for bytes whose length is a multiple of four."""
    if len(data) % 4:
        raise ValueError(f"{len(data)} bytes are not a multiple of 4")
    digits = []
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4], "big")
        group = []
        for _ in range(5):
            number, digit = divmod(number, 85)
            group.append(_ALPHABET[digit])
        digits += group[::-1]
    return "".join(digits)


def decode(text: str) -> bytes:
    """The bytes that a text stands for."""
    if len(text) % 5:
        raise ValueError(f"{len(text)} characters are not a multiple of 5")
    data = bytearray()
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            if character not in _VALUE:
                raise ValueError(f"{character!r} is not a character of Z85")
            number = number * 85 + _VALUE[character]
        if number >= 2**32:
            raise ValueError(f"{text[start : start + 5]!r} stands for more than four bytes")
        data += number.to_bytes(4, "big")
    return bytes(data)

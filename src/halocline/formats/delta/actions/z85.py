"""Z85: bytes as printable text, four bytes to five characters, as deletion vectors spell ids and inline bitmaps.

Text stands for a multiple of four bytes. Whoever encodes other lengths pads first and remembers the length.
"""

from __future__ import annotations

from base64 import b85decode, b85encode
from typing import Final

_ALPHABET: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
# Python's own base 85 counts the same way, in another alphabet.
_PYTHONS: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_ONLY_PYTHONS: Final = bytes(set(_PYTHONS) - set(_ALPHABET))
_TO_Z85: Final = bytes.maketrans(_PYTHONS, _ALPHABET)
_FROM_Z85: Final = bytes.maketrans(_ALPHABET + _ONLY_PYTHONS, _PYTHONS + bytes(len(_ONLY_PYTHONS)))


def encode(data: bytes) -> str:
    """The text for bytes whose length is a multiple of four."""
    if len(data) % 4:
        raise ValueError(f"{len(data)} bytes are not a multiple of 4")
    return b85encode(data).translate(_TO_Z85).decode("ascii")


def decode(text: str) -> bytes:
    """The bytes that a text stands for; a `ValueError` if it is no Z85."""
    if len(text) % 5:
        raise ValueError(f"{len(text)} characters are not a multiple of 5")
    try:
        return b85decode(text.encode("ascii").translate(_FROM_Z85))
    except ValueError as error:
        raise ValueError(f"{text[:80]!r} is no Z85: {error}") from None

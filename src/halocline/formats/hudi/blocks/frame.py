"""The frame of log files: where a block begins and ends, its type, its header and its content.

All numbers are big-endian. A block is

    magic `#HUDI#` · length of all that follows (8) · format version (4) · type (4) · header · content length (8) ·
    content · footer · length of all before (8)

and header and footer are a count (4) and that many entries of key (4), length (4) and UTF-8 text.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from halocline.errors import MalformedError, UnsupportedError

MAGIC: Final = b"#HUDI#"
FORMAT_VERSION: Final = 1

_LENGTH: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")
_PAIR: Final = struct.Struct(">ii")


class BlockType(IntEnum):
    """What a block holds, by the number that stands in it."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CHANGE_DATA = 6


class HeaderKey(IntEnum):
    """The keys of a block's header, by the number that stands in it."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8
    VERSION = 9


_TYPES: Final = frozenset(BlockType) - {BlockType.CORRUPT}
_KEYS: Final = frozenset(HeaderKey)


@dataclass(frozen=True, slots=True, eq=False)
class LogBlock:
    """One block of a log file.

    Attributes:
        path: The file it stands in.
        offset: Where in the file it begins.
        type: What it holds.
        header: Its header.
        content: Its content, as it lies in the file.
    """

    path: str
    offset: int
    type: BlockType
    header: Mapping[HeaderKey, str]
    content: memoryview

    @property
    def instant(self) -> str:
        """The instant that wrote it; empty in archives, whose blocks name none."""
        return self.header.get(HeaderKey.INSTANT_TIME, "")

    @property
    def is_partial(self) -> bool:
        """Whether its rows hold only the columns that changed."""
        return self.header.get(HeaderKey.IS_PARTIAL, "").lower() == "true"

    def __str__(self) -> str:
        return f"the {self.type.name.lower().replace('_', ' ')} block at byte {self.offset} of {self.path}"

    def malformed(self, expected: str, found: str) -> MalformedError:
        """The error for a block whose content is not what it should be."""
        return MalformedError(
            f"{self} is damaged",
            condition="MALFORMED_LOG",
            sides={"expected": expected, "found": found},
            next_step="Restore the file, or roll its instant back with the writer that made it.",
        )


@dataclass(frozen=True, slots=True)
class CorruptSpan:
    """Bytes of a log file that are no block.

    Attributes:
        path: The file.
        start: Where they begin.
        end: Where the next block begins, or the file ends.
        problem: What is wrong with the block that should be there.
    """

    path: str
    start: int
    end: int
    problem: str


def read_blocks(data: bytes, path: str) -> Iterator[LogBlock | CorruptSpan]:
    """The blocks of a log file, and what lies between them.

    A block whose two lengths disagree, or that is not followed by another block or the end, is no block; reading goes
    on where the next one begins.

    Raises:
        MalformedError: A block of the right length is wrong inside.
        UnsupportedError: A block has a type, a header key or a format version that this release does not know.

    Example:
        >>> data = encode_block(BlockType.COMMAND, {HeaderKey.INSTANT_TIME: "20250101000000000"}, b"")
        >>> [block.instant for block in read_blocks(data, "f.log")]
        ['20250101000000000']
        >>> [type(each).__name__ for each in read_blocks(data + data[:-1], "f.log")]
        ['LogBlock', 'CorruptSpan']
    """
    view, position = memoryview(data), 0
    while position < len(data):
        problem = _problem(data, position)
        if problem is None:
            end = position + len(MAGIC) + _LENGTH.size + _LENGTH.unpack_from(data, position + len(MAGIC))[0]
            yield _block(view, position, end, path)
        else:
            found = data.find(MAGIC, position + 1)
            end = len(data) if found < 0 else found
            yield CorruptSpan(path, position, end, problem)
        position = end


def encode_block(type: BlockType, header: Mapping[HeaderKey, str], content: bytes) -> bytes:
    """A block as it stands in a file.

    Example:
        >>> len(encode_block(BlockType.COMMAND, {}, b""))
        46
    """
    body = b"".join(
        (_PAIR.pack(FORMAT_VERSION, type), _encoded(header), _LENGTH.pack(len(content)), content, _INT.pack(0))
    )
    length = len(body) + _LENGTH.size
    return b"".join((MAGIC, _LENGTH.pack(length), body, _LENGTH.pack(len(MAGIC) + length)))


def _problem(data: bytes, start: int) -> str | None:
    """What is wrong with the block that should begin there; None if its frame is whole."""
    at = start + len(MAGIC)
    if data[start:at] != MAGIC:
        return "no block begins here"
    if at + _LENGTH.size > len(data):
        return "the file ends inside a block's length"
    (length,) = _LENGTH.unpack_from(data, at)
    end = at + _LENGTH.size + length
    if length < 2 * _LENGTH.size or end > len(data):
        return f"the block should have {length} bytes, and the file has {len(data) - at - _LENGTH.size}"
    (again,) = _LENGTH.unpack_from(data, end - _LENGTH.size)
    if again != length + len(MAGIC):
        return f"the block says {length} bytes at its beginning and {again - len(MAGIC)} at its end"
    if len(data) - end >= len(MAGIC) and data[end : end + len(MAGIC)] != MAGIC:
        return "neither a block nor the end of the file follows the block"
    return None


def _block(data: memoryview, start: int, end: int, path: str) -> LogBlock:
    at = start + len(MAGIC) + _LENGTH.size
    try:
        version, number = _PAIR.unpack_from(data, at)
        if version != FORMAT_VERSION:
            raise _unknown(path, start, "format version", version, str(FORMAT_VERSION))
        if number not in _TYPES:
            names = ", ".join(f"{each.value} {each.name}" for each in sorted(_TYPES))
            raise _unknown(path, start, "block type", number, names)
        header, at = _map(data, at + _PAIR.size, path, start)
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        content = data[at : at + length]
        _, after = _map(data, at + length, path, start)
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise _damaged(path, start, str(error)) from error
    if len(content) != length or after + _LENGTH.size != end:
        raise _damaged(path, start, f"its parts end at byte {after}, and its frame at {end - _LENGTH.size}")
    return LogBlock(path, start, BlockType(number), header, content)


def _map(data: memoryview, at: int, path: str, start: int) -> tuple[dict[HeaderKey, str], int]:
    (count,) = _INT.unpack_from(data, at)
    at += _INT.size
    if not 0 <= count <= len(data):
        raise ValueError(f"a header of {count} entries")
    entries: dict[HeaderKey, str] = {}
    for _ in range(count):
        key, length = _PAIR.unpack_from(data, at)
        at += _PAIR.size
        if not 0 <= length <= len(data) - at:
            raise ValueError(f"a header entry of {length} bytes")
        if key not in _KEYS:
            raise _unknown(path, start, "header key", key, f"0 to {max(HeaderKey)}")
        entries[HeaderKey(key)] = bytes(data[at : at + length]).decode()
        at += length
    return entries, at


def _encoded(entries: Mapping[HeaderKey, str]) -> bytes:
    pieces = [_INT.pack(len(entries))]
    for key, value in entries.items():
        text = value.encode()
        pieces += (_PAIR.pack(key, len(text)), text)
    return b"".join(pieces)


def _damaged(path: str, start: int, found: str) -> MalformedError:
    return MalformedError(
        f"the block at byte {start} of {path} is damaged",
        condition="MALFORMED_LOG",
        sides={"expected": "header, content and footer that fill the block", "found": found},
        next_step="Restore the file, or roll its instant back with the writer that made it.",
    )


def _unknown(path: str, start: int, noun: str, found: int, known: str) -> UnsupportedError:
    return UnsupportedError(
        f"the block at byte {start} of {path} has {noun} {found}, which this release does not know",
        sides={"file": f"{noun} {found}", "halocline knows": known},
        next_step="Compact the table with the writer that made it, or upgrade halocline.",
    )

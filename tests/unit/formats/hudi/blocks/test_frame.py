"""A log file is cut into the blocks that were put into it, and nothing else passes for a block."""

import struct

import pytest

from halocline.errors import MalformedError, UnsupportedError
from halocline.formats.hudi.blocks.frame import BlockType, CorruptSpan, HeaderKey, LogBlock, encode_block, read_blocks

HEADER = {HeaderKey.INSTANT_TIME: "20250101000000000", HeaderKey.SCHEMA: "{ä}"}
BLOCK = encode_block(BlockType.AVRO_DATA, HEADER, b"content")


def kinds(data: bytes) -> list[tuple[str, int]]:
    return [
        ("block", each.offset) if isinstance(each, LogBlock) else ("corrupt", each.start)
        for each in read_blocks(data, "f.log")
    ]


def test_blocks_come_back_as_they_were_written():
    first, second = read_blocks(BLOCK + encode_block(BlockType.COMMAND, {HeaderKey.IS_PARTIAL: "TRUE"}, b""), "f.log")
    assert (first.type, dict(first.header), bytes(first.content)) == (BlockType.AVRO_DATA, HEADER, b"content")
    assert (first.instant, first.is_partial) == ("20250101000000000", False)
    assert (second.type, second.offset, second.is_partial) == (BlockType.COMMAND, len(BLOCK), True)


def test_an_empty_file_has_no_blocks():
    assert kinds(b"") == []


@pytest.mark.parametrize("cut", range(1, len(BLOCK)))
def test_a_block_cut_short_at_any_byte_is_a_corrupt_span(cut):
    assert kinds(BLOCK + BLOCK[:cut]) == [("block", 0), ("corrupt", len(BLOCK))]


def test_reading_goes_on_behind_a_torn_block():
    torn = BLOCK[:-9]
    assert kinds(torn + BLOCK) == [("corrupt", 0), ("block", len(torn))]
    assert kinds(b"junk" + BLOCK) == [("corrupt", 0), ("block", 4)]


@pytest.mark.parametrize("length", [-1, 0, 15, 2**40, len(BLOCK)])
def test_a_wrong_length_is_a_corrupt_span_that_says_what_is_wrong(length):
    (found,) = read_blocks(BLOCK[:6] + struct.pack(">q", length) + BLOCK[14:], "f.log")
    assert isinstance(found, CorruptSpan)
    assert (found.start, found.end) == (0, len(BLOCK))
    assert "bytes" in found.problem


def patched(offset: int, value: int) -> bytes:
    return BLOCK[:offset] + struct.pack(">i", value) + BLOCK[offset + 4 :]


@pytest.mark.parametrize(
    ("offset", "value", "named"),
    [(14, 2, "format version 2"), (18, 2, "block type 2"), (18, 77, "block type 77"), (26, 10, "header key 10")],
)
def test_what_is_not_known_is_refused_by_name(offset, value, named):
    with pytest.raises(UnsupportedError, match=named) as caught:
        list(read_blocks(patched(offset, value), "f.log"))
    assert set(caught.value.sides) == {"file", "halocline knows"}


@pytest.mark.parametrize(("offset", "value"), [(22, -1), (22, 1), (22, 2**30), (30, 2**30), (30, 3)])
def test_a_frame_that_is_whole_and_wrong_inside_is_malformed(offset, value):
    with pytest.raises(MalformedError, match=r"byte 0 of f\.log is damaged"):
        list(read_blocks(patched(offset, value), "f.log"))

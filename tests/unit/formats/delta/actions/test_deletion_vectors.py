import struct
import uuid
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from halocline.errors import InputError, MalformedError
from halocline.formats.delta.actions.action import DeletionVector
from halocline.formats.delta.actions.deletion_vectors import (
    decode,
    encode,
    file_path,
    read_positions,
    write_file,
    z85_decode,
    z85_encode,
)
from halocline.storage.local import LocalStore
from halocline.storage.memory import MemoryStore

ID = uuid.UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
positions = st.sets(st.integers(0, 2**40), max_size=50)


def described(kind: str, where: str, data: bytes, cardinality: int, offset: int | None = 1) -> DeletionVector:
    return DeletionVector(
        storage_type=kind, path_or_inline_dv=where, offset=offset, size_in_bytes=len(data), cardinality=cardinality
    )


def inline(deleted) -> DeletionVector:
    data = encode(deleted)
    return described("i", z85_encode(data + bytes(-len(data) % 4)), data, len(set(deleted)), offset=None)


def framed(data: bytes, crc: int | None = None) -> bytes:
    return b"\x01" + struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data) if crc is None else crc)


def native(*buckets: list[int]) -> bytes:
    content = struct.pack("<ii", 1681511376, len(buckets))
    for bucket in buckets:
        data = BitMap(bucket).serialize()
        content += struct.pack("<i", len(data)) + data
    return content


@given(st.binary(max_size=40).map(lambda data: data + bytes(-len(data) % 4)))
def test_z85_comes_back(data):
    assert z85_decode(z85_encode(data)) == data


@pytest.mark.parametrize("text", ["abcd", "ab d~", "%%%%%", "#####"])
def test_text_that_is_no_z85_is_refused(text):
    with pytest.raises(ValueError, match=r"Z85|multiple|four bytes"):
        z85_decode(text)


@given(positions)
def test_inline_vectors_come_back(deleted):
    assert set(read_positions(MemoryStore(), inline(deleted))) == deleted


@given(st.lists(positions, min_size=1, max_size=4))
def test_vectors_in_one_file_come_back(vectors):
    store = MemoryStore()
    found = write_file(store, vectors, prefix="ab")
    assert [set(read_positions(store, each)) for each in found] == vectors
    assert len({each.unique_id for each in found}) == len(vectors)


def test_the_file_is_named_after_the_id_below_the_prefix():
    vector = described("u", "ab" + z85_encode(ID.bytes), b"", 0)
    assert file_path(MemoryStore(), vector) == f"ab/deletion_vector_{ID}.bin"


def test_an_absolute_vector_is_found(tmp_path):
    data = encode([4, 5])
    (tmp_path / "v 1.bin").write_bytes(framed(data))
    vector = described("p", f"file://{tmp_path}/v%201.bin", data, 2)
    assert list(read_positions(LocalStore(tmp_path / "table"), vector)) == [4, 5]


def test_a_vector_far_into_a_file_is_found():
    store = MemoryStore()
    found = write_file(store, [range(0, 900_000, 7), [1, 2]])
    assert found[1].offset is not None
    assert found[1].offset > 65536
    assert list(read_positions(store, found[1])) == [1, 2]


def test_the_native_encoding_is_read():
    data = native([1, 3], [], [5])
    assert list(decode(data, "x")) == [1, 3, 2 * 2**32 + 5]


def test_only_the_portable_encoding_is_written():
    assert encode([1])[:4] == (1681511377).to_bytes(4, "little")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 12,
        (1681511376).to_bytes(4, "big") + native([1])[4:],
        encode([1, 2])[:-1],
        native([1, 2])[:-1],
        native([1])[:6],
    ],
    ids=["empty", "no magic", "big-endian native", "cut", "native cut", "native header cut"],
)
def test_bytes_that_are_no_bitmap_are_damage(data):
    with pytest.raises(MalformedError) as caught:
        decode(data, "x")
    assert caught.value.condition == "MALFORMED_DELETION_VECTOR"


DATA = encode([3, 9])
NAME = f"deletion_vector_{ID}.bin"


@pytest.mark.parametrize(
    ("content", "change", "message"),
    [
        (framed(DATA), {"cardinality": 3}, "holds 2 positions"),
        (framed(DATA), {"size_in_bytes": len(DATA) - 1}, f"holds {len(DATA)} bytes"),
        (framed(DATA), {"offset": 5}, "ends before"),
        (framed(DATA, crc=1), {}, "fails the checksum"),
        (framed(DATA)[:-3], {}, "ends before"),
        (b"\x02" + framed(DATA)[1:], {}, "file version 02"),
        (b"", {}, "file version none"),
        (None, {}, "does not exist"),
        (framed(DATA), {"storage_type": "x"}, "storage type 'x'"),
        (framed(DATA), {"path_or_inline_dv": "short"}, "storage type"),
        (framed(DATA), {"path_or_inline_dv": "~" * 20}, "Z85"),
        (framed(DATA), {"path_or_inline_dv": "../" + z85_encode(ID.bytes)}, "leaves the table"),
        (framed(DATA), {"storage_type": "i", "path_or_inline_dv": "~~~~~"}, "Z85"),
    ],
)
def test_a_vector_that_is_not_what_the_log_says_is_an_error(content, change, message):
    store = MemoryStore()
    if content is not None:
        store.put(NAME, content)
    good = {"storage_type": "u", "path_or_inline_dv": z85_encode(ID.bytes), "offset": 1, "size_in_bytes": len(DATA)}
    with pytest.raises(MalformedError, match=message):
        read_positions(store, DeletionVector(**({"cardinality": 2} | good | change)))


def test_a_vector_without_offset_is_the_first_of_its_file():
    store = MemoryStore()
    store.put(NAME, framed(DATA))
    assert len(read_positions(store, described("u", z85_encode(ID.bytes), DATA, 2, offset=None))) == 2


def test_an_inline_vector_has_no_file():
    with pytest.raises(InputError, match="no file"):
        file_path(MemoryStore(), inline([1]))


def test_no_vectors_write_no_file():
    store = MemoryStore()
    assert write_file(store, []) == []
    assert list(store.list()) == []


def test_a_bitmap_is_taken_as_it_is():
    assert decode(encode(BitMap64([1, 2])), "x") == BitMap64([1, 2])

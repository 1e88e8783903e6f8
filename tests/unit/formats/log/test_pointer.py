import json

import pytest

from halocline.formats.log.names import DELTA
from halocline.formats.log.pointer import Pointer, checksum, decode_pointer, encode_pointer, read_pointer
from halocline.storage.memory import MemoryStore

SAMPLE = {
    "k0": "'v 0'",
    "checksum": "adsaskfljadfkjadfkj",
    "k1": {"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]},
}


def test_the_checksum_of_the_formats_own_sample_agrees():
    assert checksum(SAMPLE) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_a_pointer_comes_back_with_version_first():
    data = encode_pointer(Pointer(version=12, size=4, parts=2), {"v2Checkpoint": {"path": "ä b"}})
    assert list(json.loads(data)) == ["version", "size", "parts", "v2Checkpoint", "checksum"]
    pointer = decode_pointer(data)
    assert pointer is not None
    assert (pointer.version, pointer.size, pointer.parts) == (12, 4, 2)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"version":"ten","size":1}',
        b'{"size":1}',
        b'{"version":-1,"size":1}',
        b'{"version":1,"size":1,"checksum":"wrong"}',
        b'{"version":' + b"[" * 100_000,
        b'{"version":' + b"9" * 10_000 + b"}",
    ],
)
def test_a_pointer_that_cannot_be_trusted_is_no_pointer(data):
    assert decode_pointer(data) is None


def test_a_changed_byte_fails_the_checksum():
    data = encode_pointer(Pointer(version=12, size=4))
    assert decode_pointer(data.replace(b"12", b"13")) is None


def test_a_missing_pointer_is_none():
    assert read_pointer(MemoryStore(), DELTA) is None

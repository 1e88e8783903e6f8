"""Deletion vectors: which rows of a data file are gone.

A *deletion vector* is a set of row positions, counted from 0 in the Parquet file, kept as a Roaring bitmap. Its
*descriptor* in the log says where it is: in a file whose name encodes a UUID (`u`), in a file given by its URL (`p`) or
inline in the descriptor (`i`). A file holds many vectors, each framed by its length and its CRC-32.

Reading checks the frame, the checksum, the encoding and the number of positions; a vector that disagrees with its
descriptor is a `MalformedError`, because going on would bring deleted rows back. Two encodings are read, the portable
and the native one; only the portable one is written. UUIDs and inline bitmaps are spelt in *Z85*: four bytes to five
characters, so whoever encodes other lengths pads first and remembers the length.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterable, Sequence
from typing import Final

from pyroaring import BitMap, BitMap64

from halocline.errors import InputError, MalformedError, NotFoundError
from halocline.formats.delta.actions.action import DeletionVector
from halocline.formats.delta.actions.locations import Locations, locate
from halocline.storage.base import Store

_PORTABLE: Final = 1681511377
_NATIVE: Final = 1681511376
_FILE_VERSION: Final = 1
_UUID_CHARACTERS: Final = 20
_ALPHABET: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
# Python's own base 85 counts the same way, in another alphabet.
_PYTHONS: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_ONLY_PYTHONS: Final = bytes(set(_PYTHONS) - set(_ALPHABET))
_TO_Z85: Final = bytes.maketrans(_PYTHONS, _ALPHABET)
_FROM_Z85: Final = bytes.maketrans(_ALPHABET + _ONLY_PYTHONS, _PYTHONS + bytes(len(_ONLY_PYTHONS)))
# A vector this close to the beginning is fetched together with the file's version byte.
_NEAR: Final = 65536


def read_positions(store: Store, vector: DeletionVector) -> BitMap64:
    """The row positions that a vector deletes."""
    name = vector.unique_id
    if vector.storage_type == "i":
        try:
            data = z85_decode(vector.path_or_inline_dv)[: vector.size_in_bytes]
        except ValueError as error:
            raise _damaged(name, str(error)) from error
    else:
        data = _framed(store, vector)
    positions = decode(data, name)
    if len(positions) != vector.cardinality:
        raise _damaged(name, f"holds {len(positions)} positions, its descriptor says {vector.cardinality}")
    return positions


def file_path(store: Store, vector: DeletionVector) -> str:
    """The decoded path of the file that holds a vector, as paths in the log are: relative or a URL."""
    text = vector.path_or_inline_dv
    if vector.storage_type == "p":
        return Locations(store.root).decode(text)
    if vector.storage_type == "i":
        raise InputError("an inline deletion vector has no file")
    if vector.storage_type != "u" or len(text) < _UUID_CHARACTERS:
        raise _damaged(vector.unique_id, f"has storage type {vector.storage_type!r}, expected u, p or i")
    prefix, encoded = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
    try:
        name = f"deletion_vector_{uuid.UUID(bytes=z85_decode(encoded))}.bin"
    except ValueError as error:
        raise _damaged(vector.unique_id, str(error)) from error
    return Locations(store.root).decode(f"{prefix}/{name}".replace("%", "%25")) if prefix else name


def decode(data: bytes, name: str) -> BitMap64:
    """The positions in the bytes of a bitmap, magic number included."""
    magic = int.from_bytes(data[:4], "little")
    try:
        if magic == _PORTABLE:
            return BitMap64.deserialize(data[4:])
        if magic == _NATIVE:
            return _decode_native(data)
    except (ValueError, IndexError, struct.error) as error:
        raise _damaged(name, str(error)) from error
    raise _damaged(name, f"begins with {data[:4].hex() or 'nothing'}, which is no known encoding")


def encode(positions: Iterable[int]) -> bytes:
    """The bytes of a bitmap in the portable encoding."""
    bitmap = positions if isinstance(positions, BitMap64) else BitMap64(positions)
    bitmap.run_optimize()
    data: bytes = bitmap.serialize()
    return _PORTABLE.to_bytes(4, "little") + data


def write_file(store: Store, vectors: Sequence[Iterable[int]], *, prefix: str = "") -> list[DeletionVector]:
    """Writes vectors into one new file, and describes each in the same order."""
    file_id = uuid.uuid4()
    content = bytearray([_FILE_VERSION])
    described: list[DeletionVector] = []
    for positions in vectors:
        bitmap = BitMap64(positions)
        data = encode(bitmap)
        described.append(
            DeletionVector(
                storage_type="u",
                path_or_inline_dv=prefix + z85_encode(file_id.bytes),
                offset=len(content),
                size_in_bytes=len(data),
                cardinality=len(bitmap),
            )
        )
        content += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    if described:
        store.put_if_absent(file_path(store, described[0]), bytes(content))
    return described


def _framed(store: Store, vector: DeletionVector) -> bytes:
    """The bytes of a bitmap out of its file, with length and checksum checked."""
    path = file_path(store, vector)
    holder, inner = locate(store, path)
    offset = 1 if vector.offset is None else vector.offset
    start = 0 if offset <= _NEAR else offset
    frame_length = vector.size_in_bytes + 8
    try:
        fetched = holder.get_range(inner, start, offset - start + frame_length)
    except (NotFoundError, InputError) as error:
        raise _damaged(path, "does not exist") from error
    if start == 0 and fetched[:1] != bytes([_FILE_VERSION]):
        raise _damaged(path, f"has file version {fetched[:1].hex() or 'none'}, expected 01")
    frame = fetched[offset - start :]
    if len(frame) != frame_length:
        raise _damaged(path, f"ends before the vector at offset {offset} does")
    (length,) = struct.unpack(">I", frame[:4])
    data = frame[4:-4]
    if length != len(data):
        raise _damaged(path, f"holds {length} bytes at offset {offset}, the descriptor says {len(data)}")
    if struct.unpack(">I", frame[-4:])[0] != zlib.crc32(data):
        raise _damaged(path, f"fails the checksum of the vector at offset {offset}")
    return data


def z85_encode(data: bytes) -> str:
    """The text for bytes whose length is a multiple of four."""
    if len(data) % 4:
        raise ValueError(f"{len(data)} bytes are not a multiple of 4")
    return b85encode(data).translate(_TO_Z85).decode("ascii")


def z85_decode(text: str) -> bytes:
    """The bytes that a text stands for; a `ValueError` if it is no Z85."""
    if len(text) % 5:
        raise ValueError(f"{len(text)} characters are not a multiple of 5")
    try:
        return b85decode(text.encode("ascii").translate(_FROM_Z85))
    except ValueError as error:
        raise ValueError(f"{text[:80]!r} is no Z85: {error}") from None


def _decode_native(data: bytes) -> BitMap64:
    (count,) = struct.unpack_from("<i", data, 4)
    position, result = 8, BitMap64()
    for key in range(count):
        (size,) = struct.unpack_from("<i", data, position)
        position += 4
        if size < 0 or position + size > len(data):
            raise ValueError(f"bitmap {key} is longer than its vector")
        low = BitMap.deserialize(data[position : position + size])
        result.update(value + (key << 32) for value in low)
        position += size
    return result


def _damaged(name: str, problem: str) -> MalformedError:
    return MalformedError(
        f"deletion vector {name} {problem}",
        condition="MALFORMED_DELETION_VECTOR",
        sides={"deletion vector": name},
        next_step="Restore the file from a backup; without it the deleted rows cannot be told from the others.",
    )

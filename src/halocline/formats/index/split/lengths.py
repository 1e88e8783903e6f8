"""How many words the text of each row has, as the index keeps it: one byte for each row.

The library keeps lengths in a file for each *segment*, a part of an index that was written at once. Lengths up to forty
are exact; larger ones are rounded down to one of few. Which segment is which is said by the description of the index.
The library does not give lengths out, so the file is read here: the lengths of each field one after another, then a
table of where each field begins, then a checksum, which has been verified with the blob that the file was in.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from halocline.formats.index.split.fields import FieldKind, IndexField
from halocline.formats.index.split.library import damaged

DESCRIPTION: Final = "meta.json"
_CHECKED: Final = 1337


def _decoded(code: int) -> int:
    if code < 24:
        return code
    bits, shift = (code - 24) & 7, ((code - 24) >> 3) - 1
    return 24 + (bits if shift < 0 else (bits | 8) << shift)


LENGTHS: Final = np.array([_decoded(code) for code in range(256)], dtype=np.int64)
"""The length that each byte stands for."""


def lengths_by_segment(
    fields: Sequence[IndexField], file: Callable[[str], bytes], name: str
) -> dict[str, list[np.ndarray]]:
    """The lengths of each column of text: an array for each segment of the index, in the order of its documents.

    Args:
        fields: What the index has of each column.
        file: Gives a file of the index by its name.
        name: The split, for errors.

    Raises:
        MalformedError: A file is not what it should be.
    """
    inside = [each for each in fields if each.kind is not FieldKind.STORED]
    texts = {number: each.column for number, each in enumerate(inside, 1) if each.kind is FieldKind.TEXT}
    found: dict[str, list[np.ndarray]] = {column: [] for column in texts.values()}
    try:
        segments = json.loads(file(DESCRIPTION))["segments"]
        for segment in segments:
            rows = int(segment["max_doc"])
            parts = _parts(file(f"{segment['segment_id'].replace('-', '')}.fieldnorm")) if texts else {}
            for number, column in texts.items():
                codes = np.frombuffer(parts.get(number, b""), dtype=np.uint8)
                if len(codes) != rows:
                    raise damaged(name, f"it has the lengths of {len(codes)} texts for {rows} rows")
                found[column].append(LENGTHS[codes])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error) as error:
        raise damaged(name, f"the lengths of its texts cannot be read: {error}") from error
    return found


def _parts(data: bytes) -> dict[int, bytes]:
    """The bytes of each field in a file of several."""
    footer, magic = struct.unpack_from("<II", data, len(data) - 8)
    if magic != _CHECKED:
        raise ValueError("it does not end as it should")
    body = data[: len(data) - 8 - footer]
    (length,) = struct.unpack_from("<I", body, len(body) - 4)
    end = len(body) - 4 - length
    count, at = _number(body, end)
    starts: list[tuple[int, int]] = []
    offset = 0
    for _ in range(count):
        step, at = _number(body, at)
        offset += step
        (field,) = struct.unpack_from("<I", body, at)
        _, at = _number(body, at + 4)
        starts.append((field, offset))
    ends = [start for _, start in starts[1:]] + [end]
    return {field: body[start:stop] for (field, start), stop in zip(starts, ends, strict=True)}


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits to the byte, the last byte marked, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte & 128:
            return value, at
        shift += 7

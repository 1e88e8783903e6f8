"""Checkpoints: all that counts at a version, so that the commits before it need not be read.

A checkpoint is JSON lines: the protocol with both numbers and both feature sets, the metadata, the live splits, and the
skips that still count. A large one may be in parts; then the file under the checkpoint's own name lists them, and the
file is the commit point: parts that no such file names are left over from an attempt. One file is written here, which
every release reads that reads the table at all.

Writing one can be repeated: the same version has the same content, and whoever comes second replaces like by like.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

import msgspec

from halocline.errors import NotFoundError
from halocline.formats.index.log.actions import IndexAction, IndexLine, SplitAdd, decode_lines, encode_actions
from halocline.formats.index.log.encodings import decoded, encoded
from halocline.formats.log.damage import malformed
from halocline.formats.log.names import INDEX
from halocline.formats.log.pointer import Pointer
from halocline.storage.base import Store

INTERVAL: Final = 10
"""After so many commits a checkpoint is due."""


class _Parts(msgspec.Struct, rename="camel", frozen=True):
    version: int
    checkpoint_id: str
    parts: list[str]
    format: str = "json"


def checkpoint_path(version: int) -> str:
    """Where the checkpoint of a version lies."""
    return f"{INDEX.prefix(version)}.checkpoint.json"


def read_checkpoint(store: Store, path: str, version: int) -> list[IndexLine]:
    """The lines of a checkpoint, in one file or in parts.

    Raises:
        MalformedError: It is damaged, or a part is missing.
    """
    text = decoded(store.get(path), path)
    parts = _parts(text)
    if parts is None:
        return decode_lines(text, path)
    if parts.version != version or parts.format != "json":
        raise malformed(path, f"names parts of version {parts.version} as {parts.format}, expected {version} as json")
    lines: list[IndexLine] = []
    for name in parts.parts:
        part = f"{INDEX.folder}/{name}"
        try:
            lines += decode_lines(decoded(store.get(part), part), part)
        except NotFoundError as error:
            raise malformed(part, f"is missing, and {path} names it") from error
    return lines


def write_checkpoint(store: Store, version: int, actions: Iterable[IndexAction], *, compress: bool) -> None:
    """Writes the checkpoint of a version and points at it.

    Args:
        store: Where the table lies.
        version: The version.
        actions: All that counts at it, protocol and metadata first.
        compress: Whether the file is compressed.
    """
    listed = list(actions)
    data = encoded(encode_actions(listed), compress=compress)
    store.put(checkpoint_path(version), data)
    pointer = Pointer(version=version, size=len(listed), size_in_bytes=len(data))
    # The key of the format for live files is another one than Delta's, and a reader may insist on it.
    content = msgspec.to_builtins(pointer) | {
        "numFiles": sum(isinstance(each, SplitAdd) for each in listed),
        "createdTime": time.time_ns() // 1_000_000,
        "format": "json",
    }
    store.put(INDEX.pointer_path, msgspec.json.encode(content))


def _parts(text: bytes) -> _Parts | None:
    """The list of parts, if that is what the file is."""
    try:
        return msgspec.json.decode(text, type=_Parts)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None

"""The hint at the newest checkpoint, `_last_checkpoint`.

The file is overwritten in place and read without a lock, so it may be stale, torn or damaged. It is only ever a hint:
whatever cannot be trusted reads as "no hint", and the caller lists the log from its beginning. A checksum over the
content, where present, tells a torn file from a whole one.

The *canonical text* under the checksum has one entry per leaf, addressed by its path of keys. Keys and strings are
quoted and percent-encoded, parts of a path are joined by `+`, path and value by `=`, entries are sorted by path and
joined by commas; the entry `checksum` itself is left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from halocline.errors import NotFoundError
from halocline.formats.log.names import LogLayout
from halocline.storage.base import Store


class Pointer(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """What the hint says. Only `version` is needed to find a checkpoint; the rest describes it.

    Attributes:
        version: The version of the checkpoint.
        size: How many actions it holds.
        parts: How many parts it has, if it has several.
        size_in_bytes: Its length.
        num_of_add_files: How many live files it holds.
        tags: Free-form.
        v2_checkpoint: What is said of a V2 checkpoint; its `path` is the name of the file.
        checksum: MD5 of the canonical text.
    """

    version: int
    size: int
    parts: int | None = None
    size_in_bytes: int | None = None
    num_of_add_files: int | None = None
    tags: dict[str, str | None] | None = None
    v2_checkpoint: Any = None
    checksum: str | None = None


def read_pointer(store: Store, layout: LogLayout) -> Pointer | None:
    """The hint, or None if there is none that can be trusted."""
    try:
        return decode_pointer(store.get(layout.pointer_path))
    except NotFoundError:
        return None


def decode_pointer(data: bytes) -> Pointer | None:
    """Reads the hint; None if it is torn, damaged or fails its own checksum."""
    try:
        content = json.loads(data)
        pointer = msgspec.convert(content, Pointer)
        if pointer.version < 0 or (pointer.checksum is not None and pointer.checksum != checksum(content)):
            return None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return pointer


def encode_pointer(pointer: Pointer, more: Mapping[str, Any] | None = None) -> bytes:
    """The hint with its checksum. `version`, `size` and `parts` come first, so that a torn read stays sane."""
    content: dict[str, Any] = msgspec.to_builtins(pointer) | dict(more or {})
    content.pop("checksum", None)
    return json.dumps(content | {"checksum": checksum(content)}, separators=(",", ":"), ensure_ascii=False).encode()


def checksum(content: Mapping[str, Any]) -> str:
    """The MD5 of the canonical text, in hexadecimal."""
    leaves = sorted(_leaves({key: value for key, value in content.items() if key != "checksum"}, ""))
    text = ",".join(f"{path}={value}" for path, value in leaves)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _leaves(node: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(value, _join(path, _quoted(key)))
    elif isinstance(node, list):
        for position, value in enumerate(node):
            yield from _leaves(value, _join(path, str(position)))
    else:
        yield path, _quoted(node) if isinstance(node, str) else json.dumps(node)


def _join(path: str, part: str) -> str:
    return f"{path}+{part}" if path else part


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="-._~")}"'

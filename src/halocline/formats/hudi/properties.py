"""`hoodie.properties`: what holds for a whole Hudi table.

The file is in Java's format for properties. While it is being replaced, its backup stands in for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.log.names import LOG_FOLDERS
from halocline.storage.base import Store

FOLDER: Final = LOG_FOLDERS["hudi"]
FILES: Final = ("hoodie.properties", "hoodie.properties.backup")
VERSION: Final = "hoodie.table.version"

_LINE: Final = re.compile(r"((?:\\.|[^\\=:\s])+)\s*[=:\s]\s*(.*)")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    r"""The pairs of a properties file.

    Example:
        >>> parse("# a comment\nhoodie.table.version=6\nhoodie.table.create.schema={\\:}")
        {'hoodie.table.version': '6', 'hoodie.table.create.schema': '{:}'}
    """
    found: dict[str, str] = {}
    for line in re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text).splitlines():
        pair = None if line.lstrip()[:1] in ("", "#", "!") else _LINE.fullmatch(line.strip())
        if pair:
            found[_unescaped(pair[1])] = _unescaped(pair[2])
    return found


def properties(store: Store) -> dict[str, str]:
    """The properties of the table at the store's root.

    Raises:
        NotFoundError: There is no Hudi table.
        MalformedError: The file is not text.
    """
    for name in FILES:
        try:
            data = store.get(f"{FOLDER}/{name}")
        except NotFoundError:
            continue
        if not data:  # a writer has died while it replaced the file
            continue
        try:
            return parse(data.decode())
        except UnicodeDecodeError as error:
            raise MalformedError(
                f"{FOLDER}/{name} of {store.root} is not text",
                condition="MALFORMED_LOG",
                sides={"expected": "Java properties in UTF-8", "found": str(error)},
            ) from error
    raise NotFoundError(
        f"no Hudi table at {store.root}",
        condition="TABLE_NOT_FOUND",
        sides={"looked for": f"{FOLDER}/{FILES[0]}"},
        next_step="Check the path; a table is the folder that holds its log.",
    )


def table_version(found: Mapping[str, str], table: str) -> int:
    """The table version that the properties name.

    Raises:
        MalformedError: They name none, or it is no number.
    """
    text = found.get(VERSION, "").strip()
    if not text.isascii() or not text.isdigit():
        raise MalformedError(
            f"the properties of {table} name no table version",
            condition="MALFORMED_LOG",
            sides={"expected": f"{VERSION}=<number>", "found": f"{VERSION}={text}" if text else "nothing"},
        )
    return int(text)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _NAMED.get(found[2], found[2]), text)

r"""`hoodie.properties`: what holds for a whole Hudi table, in Java's format for properties.

Java replaces the file in steps: it copies it to a backup, deletes it, writes it anew and deletes the backup. So for a
moment only the backup is there, or the file is half written. The file counts if it is *whole*: it names the table, its
type and its version, and its checksum fits. Otherwise the backup stands in. The *checksum* is the CRC-32 of
`<database>.<table>`, so it tells a file of another table and a torn one, not a changed one.

`encode` writes what Java writes, to the byte, and keeps the order of the pairs.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.log.names import LOG_FOLDERS
from halocline.storage.base import Store

FOLDER: Final = LOG_FOLDERS["hudi"]
FILES: Final = ("hoodie.properties", "hoodie.properties.backup")
VERSION: Final = "hoodie.table.version"
NAME: Final = "hoodie.table.name"
TYPE: Final = "hoodie.table.type"
DATABASE: Final = "hoodie.database.name"
CHECKSUM: Final = "hoodie.table.checksum"

_REQUIRED: Final = (NAME, TYPE, VERSION)
_LINE: Final = re.compile(r"((?:\\.|[^\\=:\s])+)(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+|$)(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN: Final = {text: f"\\{name}" for name, text in _NAMED.items()} | {each: f"\\{each}" for each in "\\=:#!"}
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class StoredProperties:
    """The properties of a table, and the state of the file they were read from.

    Attributes:
        pairs: The properties, in the file's order.
        path: The file: the properties themselves, or their backup.
        etag: Its state, to replace it by.
    """

    pairs: Mapping[str, str]
    path: str
    etag: str | None


def parse(text: str) -> dict[str, str]:
    r"""The pairs of a properties file.

    Example:
        >>> parse("# a comment\nhoodie.table.version=6\nhoodie.table.create.schema={\\:}")
        {'hoodie.table.version': '6', 'hoodie.table.create.schema': '{:}'}
    """
    found: dict[str, str] = {}
    for line in re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text).splitlines():
        pair = None if line.lstrip()[:1] in ("", "#", "!") else _LINE.fullmatch(line.lstrip())
        if pair:
            found[_unescaped(pair[1])] = _unescaped(pair[2])
    return found


def encode(pairs: Mapping[str, str], written: datetime, *, created: bool = False) -> bytes:
    r"""The file, as Java writes it.

    Args:
        pairs: The properties.
        written: When it is written.
        created: Whether the table is new, which only the comment says.

    Example:
        >>> text = encode({"a b": " {é:}"}, datetime(2026, 11, 15, 11, 48, 5, tzinfo=UTC))
        >>> print(text.decode(), end="")
        #Updated at 2026-11-15T11:48:05Z
        #Sun Nov 15 11:48:05 UTC 2026
        a\ b=\ {\u00E9\:}
    """
    moment = written.astimezone(UTC)
    stamp = moment.isoformat().removesuffix("+00:00")
    day = f"{_DAYS[moment.weekday()]} {_MONTHS[moment.month - 1]} {moment:%d %H:%M:%S} UTC {moment.year}"
    lines = [f"#{'Properties saved on' if created else 'Updated at'} {stamp}Z", f"#{day}"]
    lines += [f"{_escaped(key, spaces=True)}={_escaped(value, spaces=False)}" for key, value in pairs.items()]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def checksum(pairs: Mapping[str, str]) -> str:
    """The checksum that belongs to a table of that name.

    Example:
        >>> checksum({"hoodie.table.name": "mor_event", "hoodie.database.name": ""})
        '1834617195'
    """
    return str(zlib.crc32(f"{pairs.get(DATABASE, '')}.{pairs[NAME]}".encode()))


def read_properties(store: Store) -> StoredProperties:
    """The properties of the table at the store's root, from the file or from the backup that stands in for it.

    Raises:
        NotFoundError: There is no Hudi table.
        MalformedError: Neither file is whole.
    """
    problems: dict[str, str] = {}
    for name in FILES:
        path = f"{FOLDER}/{name}"
        try:
            data, meta = store.fetch(path)
        except NotFoundError:
            continue
        try:
            pairs = parse(data.decode())
        except UnicodeDecodeError as error:
            problems[name] = f"is not text: {error}"
            continue
        problem = _problem(pairs)
        if problem is None:
            return StoredProperties(pairs, path, meta.etag)
        problems[name] = problem
    if not problems:
        raise NotFoundError(
            f"no Hudi table at {store.root}",
            condition="TABLE_NOT_FOUND",
            sides={"looked for": f"{FOLDER}/{FILES[0]}"},
            next_step="Check the path; a table is the folder that holds its log.",
        )
    raise MalformedError(
        f"the properties of {store.root} cannot be used: {FOLDER}/{' and '.join(problems)}",
        condition="MALFORMED_METADATA",
        sides={"expected": f"{', '.join(_REQUIRED)} and a fitting {CHECKSUM}", **problems},
        next_step="Restore the file from a copy; another writer may be replacing it just now.",
    )


def write_again(store: Store) -> None:
    """Writes the properties once more as they are, and whole where the file is torn.

    Whoever has read them before cannot replace them any more.

    Raises:
        ConflictError: Somebody else replaces them at this moment.
    """
    path = f"{FOLDER}/{FILES[0]}"
    try:
        before = store.head(path).etag
    except NotFoundError:
        before = None
    stored = read_properties(store)
    data = encode(stored.pairs, datetime.now(UTC))
    if (etag := stored.etag if stored.path == path else before) is None:
        store.put_if_absent(path, data)
    else:
        store.put_if_match(path, data, etag)


def properties(store: Store) -> dict[str, str]:
    """The properties of the table at the store's root.

    Raises:
        NotFoundError: There is no Hudi table.
        MalformedError: The file is damaged, and there is no backup.
    """
    return dict(read_properties(store).pairs)


def table_version(found: Mapping[str, str], table: str) -> int:
    """The table version that the properties name.

    Raises:
        MalformedError: They name none, or it is no number.
    """
    text = found.get(VERSION, "").strip()
    if not text.isascii() or not text.isdigit():
        raise MalformedError(
            f"the properties of {table} name no table version",
            condition="MALFORMED_METADATA",
            sides={"expected": f"{VERSION}=<number>", "found": f"{VERSION}={text}" if text else "nothing"},
        )
    return int(text)


def _problem(pairs: Mapping[str, str]) -> str | None:
    missing = [key for key in _REQUIRED if not pairs.get(key, "").strip()]
    if missing:
        return f"lacks {', '.join(missing)}"
    if CHECKSUM in pairs and pairs[CHECKSUM].strip() != checksum(pairs):
        return f"has checksum {pairs[CHECKSUM]!r} instead of {checksum(pairs)}"
    return None


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _NAMED.get(found[2], found[2]), text)


def _escaped(text: str, *, spaces: bool) -> str:
    """Java escapes every space of a key, and of a value the first character if it is one."""
    pieces = [_escaped_character(each) for each in text]
    if spaces:
        return "".join(r"\ " if each == " " else each for each in pieces)
    return r"\ " + "".join(pieces[1:]) if text.startswith(" ") else "".join(pieces)


def _escaped_character(each: str) -> str:
    if each in _WRITTEN:
        return _WRITTEN[each]
    if " " <= each <= "~":
        return each
    units = each.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))

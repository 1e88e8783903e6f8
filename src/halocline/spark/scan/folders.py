"""Partition columns out of the names of folders, where they say what the log says.

Spark turns folders such as `day=2024-01-31` into columns of its own: constant per file, pruned before any task starts,
also by values that only a join finds out. The log alone decides what a file's values are, so folders are used for a
file only after comparing each of its values with the log's. All other files get their values by other means.

Spark wants every file of one scan below one folder with the same names in the same order; a *layout* is a set of files
that fulfils it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from halocline.spark.types.partition_values import NULL_FOLDER, PartitionValues

MOST_LAYOUTS: Final = 4
"""More would cost more in planning than they save in reading."""

MOST_FOLDERS: Final = 4000
"""Spark parses the name of every folder while it plans."""

_TYPES: Final = frozenset({"string", "byte", "short", "integer", "long", "date", "boolean"})
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_UNSAFE: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")

_Parsed: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class FolderLayout:
    """Files whose folders Spark may trust.

    Attributes:
        names: The names of the folders, outermost first; more than the partition columns if others stand above them.
        files: The numbers of the files.
    """

    names: tuple[str, ...]
    files: list[int]


def layouts(
    addresses: Sequence[tuple[int, str]], values: PartitionValues, reserved: Collection[str]
) -> tuple[list[FolderLayout], list[int]]:
    """The layouts among some files, and the files that are in none.

    Files are given by number and unescaped address; reserved are the names, in lower case, of columns that they hold.
    """
    rest = [number for number, _ in addresses]
    if not values.columns or any(column.type.name not in _TYPES for column in values.columns):
        return [], rest
    parsed: dict[str, _Parsed | None] = {}
    agreed: dict[tuple[str, int], bool] = {}
    found: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    folders: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for number, address in addresses:
        folder = address.rpartition("/")[0]
        if folder not in parsed:
            parsed[folder] = _parse(folder, values, reserved)
        spelt = parsed[folder]
        if spelt is None:
            continue
        group = int(values.group_of[number])
        if (folder, group) not in agreed:
            agreed[folder, group] = _agrees(dict(spelt[1]), values, group)
        if agreed[folder, group]:
            layout = (spelt[0], tuple(name for name, _ in spelt[1]))
            found.setdefault(layout, []).append(number)
            folders.setdefault(layout, set()).add(folder)
    largest = sorted(found, key=lambda layout: len(found[layout]), reverse=True)[:MOST_LAYOUTS]
    chosen = [layout for layout in largest if len(folders[layout]) <= MOST_FOLDERS]
    taken = {number for layout in chosen for number in found[layout]}
    return [FolderLayout(names, found[base, names]) for base, names in chosen], [n for n in rest if n not in taken]


def folder_name(name: str, value: str | None) -> str:
    """The folder for one partition value, as Spark would name it.

    Example:
        >>> folder_name("at", "10:00"), folder_name("at", None)
        ('at=10%3A00', 'at=__HIVE_DEFAULT_PARTITION__')
    """
    return f"{_escape(name)}={_escape(value) if value else NULL_FOLDER}"


def parse_folder(folder: str) -> tuple[str, str | None]:
    """The partition column and the value that a folder's name stands for.

    Example:
        >>> parse_folder("at=10%3A00")
        ('at', '10:00')
    """
    name, _, value = folder.partition("=")
    return _unescape(name), None if value == NULL_FOLDER else _unescape(value)


def _parse(folder: str, values: PartitionValues, reserved: Collection[str]) -> _Parsed | None:
    """The folder above all that name values, and the names and values from there on."""
    segments = folder.split("/")
    pairs: list[tuple[str, str]] = []
    while segments and "=" in segments[-1]:
        name, _, value = segments.pop().partition("=")
        if not name or not value:
            return None
        pairs.insert(0, (_unescape(name), value))
    names = [name for name, _ in pairs]
    wanted = {column.key for column in values.columns}
    lowered = [name.lower() for name in names]
    if not wanted <= set(names) or len(set(lowered)) < len(lowered) or any(name in reserved for name in lowered):
        return None
    return "/".join(segments), tuple(pairs)


def _agrees(folders: dict[str, str], values: PartitionValues, group: int) -> bool:
    for column, text, canonical in zip(values.columns, values.texts[group], values.values[group], strict=True):
        name = folders[column.key]
        if name == NULL_FOLDER:
            if text is not None:
                return False
        elif text is None or text != canonical or _unescape(name) != text:
            return False
    return True


def _escape(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)

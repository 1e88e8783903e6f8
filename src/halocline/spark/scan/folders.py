"""Partition columns out of the names of folders, where they say what the log says.

Spark turns folders such as `day=2024-01-31` into columns of its own: constant per file, pruned before any task starts,
also by values that only a join finds out. The log alone decides what a file's values are, so folders are used for a
file only after comparing each of its values with the log's. All other files get their values by other means.

Spark wants every file of one scan below one folder with the same names in the same order; a *layout* is a set of files
that fulfils it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from halocline.formats.delta.actions.folders import NULL_FOLDER, unescaped
from halocline.spark.types.partition_values import PartitionValues

MOST_LAYOUTS: Final = 4
"""More would cost more in planning than they save in reading."""

MOST_FOLDERS: Final = 4000
"""Spark parses the name of every folder while it plans."""

_TYPES: Final = frozenset({"string", "byte", "short", "integer", "long", "date", "boolean"})

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


def _parse(folder: str, values: PartitionValues, reserved: Collection[str]) -> _Parsed | None:
    """The folder above all that name values, and the names and values from there on."""
    segments = folder.split("/")
    pairs: list[tuple[str, str]] = []
    while segments and "=" in segments[-1]:
        name, _, value = segments.pop().partition("=")
        if not name or not value:
            return None
        pairs.insert(0, (unescaped(name), value))
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
        elif text is None or text != canonical or unescaped(name) != text:
            return False
    return True

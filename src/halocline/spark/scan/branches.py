"""How the files of a scan are divided into branches.

A *branch* is a set of files that one native scan can read in one way: they name their columns alike, they all have
deletion vectors or none has, and their partition values come either from folders or from the log. Files that no native
scan can read are *strange*: Spark skips names that begin with `_` or `.`, cannot say a colon, needs the size of a file
and a file system for its address.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from halocline.formats.delta.actions.locations import is_absolute, locate
from halocline.spark.scan.arrow_scan import no_field_ids
from halocline.spark.scan.folders import FolderLayout, layouts
from halocline.spark.scan.footers import field_paths, footers
from halocline.spark.scan.sources import INNER_ROW, SourceFile
from halocline.spark.session.file_system import spark_address
from halocline.spark.types.file_columns import Names, read_fields
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.types.partition_values import PartitionValues
from halocline.storage.base import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_GROUPS: Final = 16
"""As many partition groups, at most, are scanned apart."""

LARGE_GROUP: Final = 64 * 1024 * 1024
"""And only if they have as many bytes on average: every scan costs time to plan."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Files that one native scan reads.

    Attributes:
        files: The files.
        names: How they name the columns.
        folders: The names of folders that give partition columns; None if folders do not count.
        dirty: Whether all of them have deletion vectors, or none.
    """

    files: list[SourceFile]
    names: Names
    folders: tuple[str, ...] | None
    dirty: bool

    @property
    def groups(self) -> list[int]:
        """The partition groups that occur."""
        return sorted({file.group for file in self.files})


@dataclass(frozen=True)
class Branches:
    """The files of one scan, divided."""

    spark: SparkSession
    store: Store
    files: pa.Table
    layout: FileLayout
    values: PartitionValues

    @cached_property
    def paths(self) -> list[str]:
        """The paths of the files."""
        return list(self.files["path"].to_pylist())

    def routed(self, base: str | None, too_large: Collection[int]) -> tuple[list[SourceFile], list[int]]:
        """The files that Spark reads below the root as it names it, and the numbers of the strange ones.

        Vectors that are too large to broadcast make their files strange; so does a root without a file system.
        """
        numbers = range(len(self.paths))
        # A column of such a name would hide the one by which Spark tells files and rows apart.
        taken = self._reserved(Names(self.layout.mapping_mode if self.layout.mapping_mode == "none" else "name"))
        if base is None or taken & {"_metadata", INNER_ROW}:
            return [], list(numbers)
        native, strange = [], []
        groups = self.values.group_of.tolist()
        for number, path, size in zip(numbers, self.paths, self.files["size"].to_pylist(), strict=True):
            address = None if not size or number in too_large or _is_strange(path) else self._address(base, path)
            if address is None or not size:
                strange.append(number)
            else:
                native.append(SourceFile(number, groups[number], address, size))
        return native, strange

    def divided(self, files: Sequence[SourceFile], dirty: Collection[int], *, folders: bool) -> Iterator[Branch]:
        """The branches of native files, of which those by some numbers have deletion vectors."""
        for names, alike in self._named(files):
            for is_dirty in (False, True):
                part = {file.number: file for file in alike if (file.number in dirty) is is_dirty}
                found: list[FolderLayout] = []
                rest = list(part)
                if folders and len({file.group for file in part.values()}) > 1:
                    addresses = [(file.number, file.address) for file in part.values()]
                    found, rest = layouts(addresses, self.values, self._reserved(names))
                for layout in found:
                    yield Branch([part[number] for number in layout.files], names, layout.names, is_dirty)
                for together in _by_group([part[number] for number in rest], split=not is_dirty):
                    yield Branch(together, names, None, is_dirty)

    def _named(self, files: Sequence[SourceFile]) -> Iterator[tuple[Names, Sequence[SourceFile]]]:
        """Files that name their columns alike; only a mapping by id has to look into them.

        Spark can match columns by id itself, but only while a setting of the session is on, and reads nulls when it
        is not. Names found in the footers cannot be switched off.
        """
        if self.layout.mapping_mode != "id":
            yield Names(self.layout.mapping_mode), files
            return
        found = footers(self.store, [(self.paths[file.number], file.size) for file in files])
        alike: list[tuple[_Dictionary, list[SourceFile]]] = []
        for file, footer in zip(files, found, strict=True):
            names = field_paths(footer)
            if not names:
                raise no_field_ids(self.paths[file.number])
            for dictionary, group in alike:
                if dictionary.takes(names):
                    group.append(file)
                    break
            else:
                alike.append((_Dictionary(names), [file]))
        for dictionary, group in alike:
            yield Names("id", {identity: path[-1] for identity, path in dictionary.paths.items()}), group

    def _reserved(self, names: Names) -> set[str]:
        return {field.name.lower() for field in read_fields(self.layout.data, names)}

    def _address(self, base: str, path: str) -> str | None:
        if not is_absolute(path):
            return f"{base}/{path}"
        holder, inner = locate(self.store, path)
        return spark_address(self.spark, holder.address(inner))


def _by_group(files: list[SourceFile], *, split: bool) -> list[list[SourceFile]]:
    """Files whose partition values only the log knows: apart if their groups are few and large, else all together.

    Apart, the values of a group are constants and cost nothing; together, every row looks up its file's.
    """
    groups: dict[int, list[SourceFile]] = {}
    for file in files:
        groups.setdefault(file.group, []).append(file)
    large = sum(file.size for file in files) >= len(groups) * LARGE_GROUP
    if split and large and 1 < len(groups) <= MOST_GROUPS:
        return list(groups.values())
    return [files] if files else []


class _Dictionary:
    """Field ids and the names that a set of files agrees on."""

    def __init__(self, paths: Mapping[int, tuple[str, ...]]) -> None:
        self.paths = dict(paths)
        self._ids = {path: identity for identity, path in paths.items()}

    def takes(self, paths: Mapping[int, tuple[str, ...]]) -> bool:
        """Adds the names of another file, unless one of them means something else here."""
        clash = any(
            self.paths.get(identity, path) != path or self._ids.get(path, identity) != identity
            for identity, path in paths.items()
        )
        if not clash:
            self.paths |= paths
            self._ids |= {path: identity for identity, path in paths.items()}
        return not clash


def _is_strange(path: str) -> bool:
    below, _, name = path.rpartition("/")
    colon = ":" in name or ":" in below.partition("://")[2 if is_absolute(path) else 0]
    return colon or name.startswith(".") or (name.startswith("_") and "=" not in name)

"""The files that a checkpoint consists of, Parquet or JSON, read alike: actions, and batches of columns about files.

A row belongs to an action if that action's required field is set; columns that are absent read as null.

Where only some files are asked for, the columns that decide it are read first, and the others, of which paths are the
longest, only in row groups that hold such a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.delta.actions.action import Add, Commit, Metadata, Remove, decode_metadata, malformed
from halocline.formats.log.parquet_object import ParquetObject
from halocline.storage.base import Store

FileColumns = Mapping[str, pa.Array]
"""The columns of one batch of file actions, by their names on disk; `path` is never null."""

# The field that every action of a kind has.
_REQUIRED: Final[Mapping[str, str]] = {
    "protocol": "minReaderVersion",
    "metaData": "id",
    "txn": "appId",
    "domainMetadata": "domain",
    "checkpointMetadata": "version",
    "sidecar": "path",
    "add": "path",
    "remove": "path",
}
_OTHERS: Final = tuple(key for key in _REQUIRED if key not in ("add", "remove"))
_NOT_READ: Final = frozenset({"cdc", "commitInfo"})
_MARKS: Final = ("size", "dataChange")
"""Short columns that every add has: by them files are counted where their paths are not read."""
TYPED_VALUES: Final = "partitionValues_parsed"
"""Partition values in the types of the table's columns, which a checkpoint may have beside their texts."""
_T = TypeVar("_T")


class Choice(NamedTuple):
    """Which files are asked for.

    Attributes:
        facts: The columns that decide it, by names below `add`.
        keep: Which files of a batch with these columns to keep; None for all of them.
    """

    facts: Sequence[str]
    keep: Callable[[FileColumns], pa.Array | None]

    @property
    def typed_values(self) -> list[str]:
        """Those of the facts that are partition values in typed columns."""
        return [each for each in self.facts if each.startswith(TYPED_VALUES)]

    @property
    def by_texts(self) -> Choice:
        """The same choice by the texts of partition values, which every file has."""
        names = dict.fromkeys("partitionValues" if each.startswith(TYPED_VALUES) else each for each in self.facts)
        return Choice(tuple(names), self.keep)


_NO_FILES: Final[FileColumns] = {"path": pa.nulls(0, pa.string())}


def filtered(found: FileColumns, keep: pa.Array | None) -> dict[str, pa.Array]:
    """The rows of a batch that are to be kept; all of them for None."""
    return {name: array if keep is None else array.filter(keep) for name, array in found.items()}


class ParquetPart:
    """A Parquet file of a checkpoint."""

    def __init__(self, store: Store, path: str, size: int | None = None) -> None:
        self.path = path
        self.file = ParquetObject(store, path, size)
        self.rows = self.file.rows

    def has(self, *path: str) -> bool:
        """Whether there is a column of that path."""
        return self.file.has(*path)

    @property
    def has_unknown_actions(self) -> bool:
        """Whether rows may be actions that are not known; those about files are, whatever their column is called."""
        others = set(self.file.schema.names) - _REQUIRED.keys()
        return bool(others) and not any(self.file.has(name, "path") for name in others - _NOT_READ)

    @cached_property
    def _present(self) -> dict[str, dict[int, int]]:
        """How many actions of each kind but files there are, by row group."""
        leaves = {key: f"{key}.{_REQUIRED[key]}" for key in _OTHERS if self.file.has(key, _REQUIRED[key])}
        found = self.file.present(list(leaves.values()))
        return {key: found[leaf] for key, leaf in leaves.items()}

    @property
    def other_actions(self) -> int:
        """How many actions are known and not about a file."""
        return sum(sum(groups.values()) for groups in self._present.values())

    def count_removes(self) -> int:
        """How many tombstones there are."""
        leaf = f"remove.{_REQUIRED['remove']}"
        return sum(self.file.present([leaf])[leaf].values()) if self.file.has("remove", "path") else 0

    def _rows(self, key: str) -> Iterator[dict[str, Any]]:
        """The rows of one kind of action, as JSON-like objects without nulls."""
        groups = self._present.get(key)
        if not groups:
            return
        for batch in self.file.batches([key], list(groups)):
            column = batch.column(key)
            with self.file.reading():
                present = column.filter(pc.is_valid(self.file.children(column)[_REQUIRED[key]]))
                rows = present.to_pylist()
            for row in rows:
                yield _without_nulls(row, column.type)

    def actions(self, key: str, kind: type[_T]) -> list[_T]:
        """The actions of one kind."""
        try:
            return [msgspec.convert(row, kind) for row in self._rows(key)]
        except (msgspec.MsgspecError, ValueError) as error:
            raise malformed(self.file.name, f"has a {key} action that cannot be read: {str(error)[:200]}") from error

    def metadata(self) -> list[Metadata]:
        """The metadata actions."""
        return [decode_metadata(msgspec.json.encode(row), self.file.name) for row in self._rows("metaData")]

    def adds(
        self, columns: Sequence[str], choice: Choice | None = None, groups: Sequence[int] | None = None
    ) -> Iterator[tuple[int, FileColumns]]:
        """How many files have been seen since the last batch, and those of them that are asked for."""
        if not self.file.has("add", "path"):
            return
        if choice is None:
            for batch in self._all_adds(columns, groups):
                yield len(batch["path"]), batch
        elif not choice.facts or not any(self.file.has("add", mark) for mark in _MARKS):
            for batch in self._all_adds([*columns, *choice.by_texts.facts], groups):
                yield len(batch["path"]), filtered(batch, choice.keep(batch))
        else:
            with_stats = "stats" in columns and self.file.has("add", "stats_parsed")
            for group in range(self.file.groups) if groups is None else groups:
                seen, mask = self._chosen(choice, group)
                yield seen, _NO_FILES
                if mask is not None:
                    for batch in self._files(
                        "add", [*columns, *(["stats_parsed"] if with_stats else [])], [group], mask
                    ):
                        yield 0, batch

    def _chosen(self, choice: Choice, group: int) -> tuple[int, pa.Array | None]:
        """How many files a row group holds, and which of its rows are asked for; None if none is."""
        seen, masks, typed = 0, [], choice.typed_values
        for batch in self.file.batches([f"add.{column}" for column in (*_MARKS, *choice.facts)], [group]):
            found = self.file.children(batch.column("add"))
            files = reduce(pc.or_, (pc.is_valid(found[mark]) for mark in _MARKS if mark in found))
            if typed and not _all_told(found.get(TYPED_VALUES), len(typed), files):
                return self._chosen(choice.by_texts, group)
            seen += files.true_count
            keep = choice.keep(found)
            masks.append(files if keep is None else pc.and_(files, keep))
        mask = pa.concat_arrays(masks) if masks else pa.nulls(0, pa.bool_())
        return seen, mask if mask.true_count else None

    def _all_adds(self, columns: Sequence[str], groups: Sequence[int] | None) -> Iterator[FileColumns]:
        if "stats" not in columns or "stats_parsed" in columns or not self.file.has("add", "stats_parsed"):
            yield from self._files("add", columns, groups)
        elif not self.file.has("add", "stats"):
            yield from self._files("add", [*columns, "stats_parsed"], groups)
        else:
            for group in range(self.file.groups) if groups is None else groups:
                yield from self._with_stats(columns, group)

    def _with_stats(self, columns: Sequence[str], group: int) -> Iterator[FileColumns]:
        """Files with statistics as text; with the typed ones as well from the first file on that has no text."""
        done = 0
        for batch in self._files("add", columns, [group]):
            if batch["stats"].null_count:
                break
            done += len(batch["path"])
            yield batch
        else:
            return
        for batch in self._files("add", [*columns, "stats_parsed"], [group]):
            length = len(batch["path"])
            if done < length:
                yield batch if not done else {name: array.slice(done) for name, array in batch.items()}
            done = max(0, done - length)

    def removes(self, columns: Sequence[str]) -> Iterator[FileColumns]:
        """The tombstones, with some of their columns."""
        if not self.file.has("remove", "path"):
            return
        yield from self._files("remove", columns, list(self.file.present(["remove.path"])["remove.path"]))

    def _files(
        self, key: str, columns: Sequence[str], groups: Sequence[int] | None = None, mask: pa.Array | None = None
    ) -> Iterator[FileColumns]:
        """The actions of one kind in some row groups, or those in some of their rows."""
        # The size goes with the path in every add; it tells an action without a path from no action at all.
        wanted = dict.fromkeys(f"{key}.{column}" for column in ("path", "size", *columns))
        row = 0
        for batch in self.file.batches(list(wanted), groups):
            found = self.file.children(batch.column(key))
            if mask is not None:
                found = filtered(found, mask.slice(row, len(batch)))
                row += len(batch)
            paths = found["path"]
            if paths.type != pa.string():
                with self.file.reading():
                    found["path"] = paths = paths.cast(pa.string())
            if key == "add":
                self._check_sizes(paths, found.get("size"))
            if paths.null_count:
                present = pc.is_valid(paths)
                found = {name: array.filter(present) for name, array in found.items()}
            if len(found["path"]):
                yield found

    def _check_sizes(self, paths: pa.Array, sizes: pa.Array | None) -> None:
        if sizes is None or not (paths.null_count or sizes.null_count):
            return
        if pc.any(pc.and_(pc.is_null(paths), pc.is_valid(sizes))).as_py():
            raise malformed(self.file.name, "has an add action without a path")


class JsonPart:
    """The top file of a V2 checkpoint in JSON."""

    """A JSON top file: few actions, so they become arrays in one go."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit

    def has(self, *path: str) -> bool:
        """Whether there is a column of that path."""
        return path[0] == "add" and path[1:2] not in (("stats_parsed",), (TYPED_VALUES,)) and bool(self._commit.adds)

    has_unknown_actions = True

    @property
    def rows(self) -> int:
        """How many actions there are."""
        return len(self._commit.actions)

    @property
    def other_actions(self) -> int:
        """How many actions are known and not about a file."""
        return self.rows - len(self._commit.adds) - self.count_removes()

    def count_removes(self) -> int:
        """How many tombstones there are."""
        return len(self._commit.removes)

    def actions(self, key: str, kind: type[_T]) -> list[_T]:
        """The actions of one kind."""
        return self._commit.of(kind)

    def metadata(self) -> list[Metadata]:
        """The metadata actions."""
        return self._commit.of(Metadata)

    def adds(
        self, columns: Sequence[str], choice: Choice | None = None, groups: Sequence[int] | None = None
    ) -> Iterator[tuple[int, FileColumns]]:
        """How many files have been seen since the last batch, and those of them that are asked for."""
        for batch in self._files(self._commit.adds, [*columns, *(choice.by_texts.facts if choice else ())]):
            yield len(batch["path"]), batch if choice is None else filtered(batch, choice.keep(batch))

    def removes(self, columns: Sequence[str]) -> Iterator[FileColumns]:
        """The tombstones, with some of their columns."""
        return self._files(self._commit.removes, columns)

    def _files(self, actions: Sequence[Add | Remove], columns: Sequence[str]) -> Iterator[FileColumns]:
        if actions:
            rows = [msgspec.to_builtins(action) for action in actions]
            names = dict.fromkeys(column.partition(".")[0] for column in ("path", *columns))
            yield {name: _array_of([row.get(name) for row in rows]) for name in names}


def _all_told(values: pa.Array | None, columns: int, files: pa.Array) -> bool:
    """Whether every file has its typed partition values; a null is one, or something that its writer could not read."""
    if values is None or not pa.types.is_struct(values.type) or values.type.num_fields < columns:
        return False
    return not any(pc.any(pc.and_(files, pc.is_null(each))).as_py() for each in values.flatten())


def _without_nulls(value: Any, type: pa.DataType) -> Any:
    """A row as JSON would have it: maps are objects, and fields that are null are absent."""
    if pa.types.is_map(type):
        return dict(value)
    if pa.types.is_struct(type):
        return {
            field.name: _without_nulls(value[field.name], field.type) for field in type if value[field.name] is not None
        }
    return value


def _array_of(values: list[Any]) -> pa.Array:
    """Objects whose values are all text, as in `partitionValues` and `tags`, become maps, others structs."""
    if any(isinstance(value, dict) for value in values):
        texts = all(inner is None or isinstance(inner, str) for value in values if value for inner in value.values())
        if texts:
            pairs = [None if value is None else list(value.items()) for value in values]
            return pa.array(pairs, type=pa.map_(pa.string(), pa.string()))
    return pa.array(values)

"""Checkpoints: the whole state of a table at one version, in columns.

A checkpoint is one Parquet file, several parts, or a *V2* one: a top file, Parquet or JSON, whose file actions may lie
in *sidecars* beside it. Which kind a file is shows only when it is opened. All kinds read the same here: the actions
that are not about files, and file actions in batches of Arrow arrays with only the asked-for columns.

A row belongs to an action if that action's required field is set; columns that are absent read as null.

A checkpoint never lists fewer files than it was written with and goes unnoticed. What is read is counted, and the count
is compared with a *witness* wherever there is one: the pointer, the checksum of the version, the tags of a V2
checkpoint. Where there is none, every row must be accounted for. No row is left out on the word of a footer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.delta.actions.action import (
    Add,
    CheckpointMetadata,
    Commit,
    DomainMetadata,
    Metadata,
    ProtocolAction,
    Remove,
    Sidecar,
    Txn,
    decode_commit,
    decode_metadata,
    malformed,
)
from halocline.formats.delta.log.commits import Header
from halocline.formats.log.names import LogLayout
from halocline.formats.log.parquet_object import ParquetObject
from halocline.formats.log.segment import CheckpointFiles
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
_SIDECARS: Final = "_sidecars"
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Witness:
    """What is said about a checkpoint elsewhere.

    Attributes:
        name: Where it is said.
        files: How many live files there are; None if that is not said.
        actions: How many actions there are, sidecars included; None if that is not said.
    """

    name: str
    files: int | None = None
    actions: int | None = None


@dataclass(frozen=True, slots=True)
class OtherActions:
    """What a checkpoint holds besides files.

    Attributes:
        header: Protocol and metadata.
        txns: The transaction of each application.
        domains: The live domains.
        sidecars: Where the file actions lie, if not in the checkpoint itself.
        mark: What makes it a V2 checkpoint; None if it is none.
    """

    header: Header
    txns: dict[str, Txn]
    domains: dict[str, DomainMetadata]
    sidecars: tuple[Sidecar, ...]
    mark: CheckpointMetadata | None

    @property
    def is_v2(self) -> bool:
        """Whether the checkpoint follows the V2 specification."""
        return self.mark is not None


class Checkpoint:
    """A checkpoint, whatever its kind."""

    def __init__(
        self,
        store: Store,
        layout: LogLayout,
        files: CheckpointFiles,
        witnesses: Callable[[], Iterable[Witness]] = tuple,
    ) -> None:
        self._store = store
        self._layout = layout
        self._witnesses = witnesses
        self.files = files

    @property
    def name(self) -> str:
        """Its first file's name."""
        return self.files.name

    @cached_property
    def _parts(self) -> list[_Parquet | _Json]:
        parts: list[_Parquet | _Json] = []
        for file in self.files.files:
            if file.name.endswith(".json"):
                parts.append(_Json(decode_commit(self._store.get(file.path), file.name)))
            else:
                parts.append(_Parquet(ParquetObject(self._store, file.path, file.size)))
        return parts

    @cached_property
    def others(self) -> OtherActions:
        """Everything that is not about a file."""
        protocols = self._all("protocol", ProtocolAction)
        metadata = [found for part in self._parts for found in part.metadata()]
        for key, count in (("protocol", len(protocols)), ("metaData", len(metadata))):
            if count > 1:
                raise malformed(self.name, f"holds {count} {key} actions, at most 1 is allowed")
        return OtherActions(
            header=Header(
                _with_lists_by_number(protocols[0]) if protocols else None, metadata[0] if metadata else None
            ),
            txns={txn.app_id: txn for txn in self._all("txn", Txn)},
            domains={domain.domain: domain for domain in self._all("domainMetadata", DomainMetadata)},
            sidecars=tuple(self._all("sidecar", Sidecar)),
            mark=next(iter(self._all("checkpointMetadata", CheckpointMetadata)), None),
        )

    def _all(self, key: str, kind: type[_T]) -> list[_T]:
        return [action for part in self._parts for action in part.actions(key, kind)]

    def adds(self, columns: Sequence[str]) -> Iterator[FileColumns]:
        """The live files; after the last one it is certain that none is missing.

        Args:
            columns: What to read below `add`, by names on disk; dots lead into structs. `path` always comes along, and
                `stats_parsed` where `stats` is asked for and missing.

        Raises:
            MalformedError: The checkpoint is damaged, or does not hold what it was written with.
        """
        unaccounted = files = 0
        for part in self._file_parts:
            here = 0
            for batch in part.adds(columns):
                here += len(batch["path"])
                yield batch
            files += here
            unaccounted += part.rows - here
        self._check_complete(files, unaccounted)

    def removes(self, columns: Sequence[str]) -> Iterator[FileColumns]:
        """The tombstones, read like `adds`."""
        for part in self._file_parts:
            yield from part.removes(columns)

    def _check_complete(self, files: int, unaccounted: int) -> None:
        """Compares the number of live files with what others say, and the number of rows if nobody says it."""
        told: list[Witness] = []
        for witness in (*self._own_witness(), *self._witnesses()):
            told.append(witness)
            if witness.files == files:
                break
        against = [witness for witness in told if witness.files not in (None, files)]
        if against and told[-1].files == files:
            _log.warning("%s says %s live files, and %s holds %d", against[0].name, against[0].files, self.name, files)
        elif against:
            raise self._incomplete(f"{files} live files", str(against[0].files), against[0].name)
        elif not told or told[-1].files is None:
            self._check_rows(unaccounted, told)

    def _own_witness(self) -> Iterator[Witness]:
        mark = self.others.mark
        number = None if mark is None or mark.tags is None else mark.tags.get("numOfAddFiles")
        if number is not None and number.isdecimal():
            yield Witness(f"tag numOfAddFiles of {self.name}", int(number))

    def _check_rows(self, unaccounted: int, told: Iterable[Witness]) -> None:
        rows = sum(part.rows for part in self._file_parts)
        for witness in told:
            if witness.actions not in (None, rows):
                raise self._incomplete(f"{rows} actions", str(witness.actions), witness.name)
        unaccounted -= sum(part.other_actions for part in self._file_parts)
        if unaccounted > 0 and not any(part.has_unknown_actions for part in self._file_parts):
            unaccounted -= sum(part.count_removes() for part in self._file_parts)
            if unaccounted > 0:
                raise malformed(self.name, f"has {unaccounted} rows that are no action")

    def _incomplete(self, found: str, told: str, witness: str) -> MalformedError:
        return MalformedError(
            f"{self.name} holds {found}, and {witness} says {told}",
            condition="MALFORMED_LOG",
            sides={"log file": self.name, "found": found, witness: told},
            next_step=f"Restore the file from a backup. If it is right, {witness} is wrong: delete that instead.",
        )

    def has(self, *path: str) -> bool:
        """Whether any file of the checkpoint has a column of that path below `add`."""
        return any(part.has("add", *path) for part in self._file_parts)

    @cached_property
    def _file_parts(self) -> list[_Parquet | _Json]:
        return [*self._parts, *(self._sidecar(sidecar) for sidecar in self.others.sidecars)]

    def _sidecar(self, sidecar: Sidecar) -> _Parquet:
        name = sidecar_name(sidecar)
        try:
            return _Parquet(ParquetObject(self._store, f"{self._layout.folder}/{_SIDECARS}/{name}"))
        except NotFoundError as error:
            raise malformed(self.name, f"needs sidecar {name}, which does not exist") from error


class _Parquet:
    def __init__(self, file: ParquetObject) -> None:
        self.file = file
        self.rows = file.rows

    def has(self, *path: str) -> bool:
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
        return sum(sum(groups.values()) for groups in self._present.values())

    def count_removes(self) -> int:
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
        try:
            return [msgspec.convert(row, kind) for row in self._rows(key)]
        except (msgspec.MsgspecError, ValueError) as error:
            raise malformed(self.file.name, f"has a {key} action that cannot be read: {str(error)[:200]}") from error

    def metadata(self) -> list[Metadata]:
        return [decode_metadata(msgspec.json.encode(row), self.file.name) for row in self._rows("metaData")]

    def adds(self, columns: Sequence[str]) -> Iterator[FileColumns]:
        if not self.file.has("add", "path"):
            return
        if "stats" not in columns or "stats_parsed" in columns or not self.file.has("add", "stats_parsed"):
            yield from self._files("add", columns)
        elif not self.file.has("add", "stats"):
            yield from self._files("add", [*columns, "stats_parsed"])
        else:
            for group in range(self.file.groups):
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
        if not self.file.has("remove", "path"):
            return
        yield from self._files("remove", columns, list(self.file.present(["remove.path"])["remove.path"]))

    def _files(self, key: str, columns: Sequence[str], groups: Sequence[int] | None = None) -> Iterator[FileColumns]:
        # The size goes with the path in every add; it tells an action without a path from no action at all.
        wanted = dict.fromkeys(f"{key}.{column}" for column in ("path", "size", *columns))
        for batch in self.file.batches(list(wanted), groups):
            found = self.file.children(batch.column(key))
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


class _Json:
    """A JSON top file: few actions, so they become arrays in one go."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit

    def has(self, *path: str) -> bool:
        return path[0] == "add" and path[1:2] != ("stats_parsed",) and bool(self._commit.adds)

    has_unknown_actions = True

    @property
    def rows(self) -> int:
        return len(self._commit.actions)

    @property
    def other_actions(self) -> int:
        return self.rows - len(self._commit.adds) - self.count_removes()

    def count_removes(self) -> int:
        return len(self._commit.removes)

    def actions(self, key: str, kind: type[_T]) -> list[_T]:
        return self._commit.of(kind)

    def metadata(self) -> list[Metadata]:
        return self._commit.of(Metadata)

    def adds(self, columns: Sequence[str]) -> Iterator[FileColumns]:
        return self._files(self._commit.adds, columns)

    def removes(self, columns: Sequence[str]) -> Iterator[FileColumns]:
        return self._files(self._commit.removes, columns)

    def _files(self, actions: Sequence[Add | Remove], columns: Sequence[str]) -> Iterator[FileColumns]:
        if actions:
            rows = [msgspec.to_builtins(action) for action in actions]
            names = dict.fromkeys(column.partition(".")[0] for column in ("path", *columns))
            yield {name: _array_of([row.get(name) for row in rows]) for name in names}


def sidecar_name(sidecar: Sidecar) -> str:
    """The name of a sidecar's file, which always lies in the log's own folder, whatever else its path says.

    Example:
        >>> sidecar_name(Sidecar("_delta_log/_sidecars/a%20b.parquet", 1, 2))
        'a b.parquet'
    """
    return unquote(sidecar.path).rpartition("/")[2]


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


def _with_lists_by_number(protocol: ProtocolAction) -> ProtocolAction:
    """Some writers store empty lists where the numbers allow none; they mean the same as no list."""
    return ProtocolAction(
        protocol.min_reader_version,
        protocol.min_writer_version,
        None if not protocol.reader_features and protocol.min_reader_version < 3 else protocol.reader_features,
        None if not protocol.writer_features and protocol.min_writer_version < 7 else protocol.writer_features,
    )

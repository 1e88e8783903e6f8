"""Checkpoints: the whole state of a table at one version, in columns.

A checkpoint is one Parquet file, several parts, or a *V2* one: a top file, Parquet or JSON, whose file actions may lie
in *sidecars* beside it. Which kind a file is shows only when it is opened. All kinds read the same here: the actions
that are not about files, and file actions in batches of Arrow arrays with only the asked-for columns.

A row belongs to an action if that action's required field is set; columns that are absent read as null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import NotFoundError
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
_SIDECARS: Final = "_sidecars"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class OtherActions:
    """What a checkpoint holds besides files.

    Attributes:
        header: Protocol and metadata.
        txns: The transaction of each application.
        domains: The live domains.
        sidecars: Where the file actions lie, if not in the checkpoint itself.
        is_v2: Whether the checkpoint follows the V2 specification.
    """

    header: Header
    txns: dict[str, Txn]
    domains: dict[str, DomainMetadata]
    sidecars: tuple[Sidecar, ...]
    is_v2: bool


class Checkpoint:
    """A checkpoint, whatever its kind.

    Args:
        store: Where the table lies.
        layout: The names of its log.
        files: The checkpoint's files, from `find_segment`.
    """

    def __init__(self, store: Store, layout: LogLayout, files: CheckpointFiles) -> None:
        self._store = store
        self._layout = layout
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
        """Everything that is not about a file.

        Raises:
            MalformedError: The checkpoint is damaged, or holds two of what it may hold one of.
        """
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
            is_v2=bool(self._all("checkpointMetadata", CheckpointMetadata)),
        )

    def _all(self, key: str, kind: type[_T]) -> list[_T]:
        return [action for part in self._parts for action in part.actions(key, kind)]

    def adds(self, columns: Sequence[str]) -> Iterator[FileColumns]:
        """The live files.

        Args:
            columns: What to read below `add`, by names on disk; dots lead into structs. `path` always comes along.
        """
        return self._file_actions("add", columns)

    def removes(self, columns: Sequence[str]) -> Iterator[FileColumns]:
        """The tombstones, read like `adds`."""
        return self._file_actions("remove", columns)

    def has(self, *path: str) -> bool:
        """Whether any file of the checkpoint has a column of that path below `add`."""
        return any(part.has("add", *path) for part in self._file_parts)

    @cached_property
    def has_text_stats(self) -> bool:
        """Whether statistics are surely there as text, so that the typed ones need not be read for it."""
        return all(part.has_text_stats() for part in self._file_parts)

    @cached_property
    def _file_parts(self) -> list[_Parquet | _Json]:
        return [*self._parts, *(self._sidecar(sidecar) for sidecar in self.others.sidecars)]

    def _sidecar(self, sidecar: Sidecar) -> _Parquet:
        name = sidecar_name(sidecar)
        try:
            return _Parquet(ParquetObject(self._store, f"{self._layout.folder}/{_SIDECARS}/{name}"))
        except NotFoundError as error:
            raise malformed(self.name, f"needs sidecar {name}, which does not exist") from error

    def _file_actions(self, key: str, columns: Sequence[str]) -> Iterator[FileColumns]:
        for part in self._file_parts:
            yield from part.file_actions(key, columns)


class _Parquet:
    def __init__(self, file: ParquetObject) -> None:
        self.file = file

    def has(self, *path: str) -> bool:
        return self.file.has(*path)

    def has_text_stats(self) -> bool:
        return set(self.file.groups_with("add.path")) <= set(self.file.groups_with("add.stats", surely=True))

    def rows(self, key: str) -> Iterator[dict[str, Any]]:
        """The rows of one kind of action, as JSON-like objects without nulls."""
        required = _REQUIRED[key]
        if not self.file.has(key, required):
            return
        for batch in self.file.batches([key], self.file.groups_with(f"{key}.{required}")):
            column = batch.column(key)
            with self.file.reading():
                present = column.filter(pc.is_valid(pc.struct_field(column, required)))
                rows = present.to_pylist()
            for row in rows:
                yield _without_nulls(row, column.type)

    def actions(self, key: str, kind: type[_T]) -> list[_T]:
        try:
            return [msgspec.convert(row, kind) for row in self.rows(key)]
        except (msgspec.MsgspecError, ValueError) as error:
            raise malformed(self.file.name, f"has a {key} action that cannot be read: {str(error)[:200]}") from error

    def metadata(self) -> list[Metadata]:
        return [decode_metadata(msgspec.json.encode(row), self.file.name) for row in self.rows("metaData")]

    def file_actions(self, key: str, columns: Sequence[str]) -> Iterator[FileColumns]:
        if not self.file.has(key, "path"):
            return
        # The size goes with the path in every action; it tells an action without a path from no action at all.
        wanted = dict.fromkeys(f"{key}.{column}" for column in ("path", "size", *columns))
        for batch in self.file.batches(list(wanted), self.file.groups_with(f"{key}.path")):
            column = batch.column(key)
            if not pa.types.is_struct(column.type):
                raise malformed(self.file.name, f"has {column.type} in column {key}, expected a struct")
            found = dict(zip((field.name for field in column.type), column.flatten(), strict=True))
            paths = found["path"]
            if paths.type != pa.string():
                with self.file.reading():
                    found["path"] = paths = paths.cast(pa.string())
            if paths.null_count:
                present = pc.is_valid(paths)
                if key == "add" and "size" in found and found["size"].null_count < paths.null_count:
                    raise malformed(self.file.name, "has an add action without a path")
                found = {name: array.filter(present) for name, array in found.items()}
            if len(found["path"]):
                yield found


class _Json:
    """A JSON top file: few actions, so they become arrays in one go."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit

    def has(self, *path: str) -> bool:
        return path[0] == "add" and path[1:2] != ("stats_parsed",) and bool(self._commit.adds)

    def has_text_stats(self) -> bool:
        return True

    def actions(self, key: str, kind: type[_T]) -> list[_T]:
        return self._commit.of(kind)

    def metadata(self) -> list[Metadata]:
        return self._commit.of(Metadata)

    def file_actions(self, key: str, columns: Sequence[str]) -> Iterator[FileColumns]:
        actions: Sequence[Add | Remove] = self._commit.adds if key == "add" else self._commit.removes
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

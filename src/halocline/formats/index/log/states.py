"""The state of a version in Avro, as IndexTables4Spark writes it from 0.4.5 on. It is only read here.

A state names its manifests. `manifests/...` and `state-v...` lie in the log's folder, a bare name beside the state.
Live is what the manifests hold and no tombstone names. Splits refer to their index schema by a key of the registry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from halocline.compat.protocol import Protocol
from halocline.errors import NotFoundError
from halocline.formats.index.log.actions import Count, IndexHeader, IndexMetadata, SplitAdd, decode_metadata
from halocline.formats.index.log.avro import read_container
from halocline.formats.log.damage import malformed
from halocline.formats.log.names import INDEX, LogEntry
from halocline.storage.base import Store


class _Manifest(msgspec.Struct, rename="camel", frozen=True):
    path: str
    num_entries: Count


class _State(msgspec.Struct, rename="camel", frozen=True):
    format_version: int
    state_version: int
    manifests: list[_Manifest]
    tombstones: list[str]
    schema_registry: dict[str, str] = {}
    protocol_version: int = 4
    metadata: str | None = None


@dataclass(frozen=True)
class AvroState:
    """A state, of which the manifests have not been read yet.

    Attributes:
        store: Where the table lies.
        file: The state's own file.
        header: The protocol as far as a number says it, and the metadata if the state has any.
        registry: Index schemas by their keys.
    """

    store: Store
    file: LogEntry
    header: IndexHeader
    registry: dict[str, str]
    _state: _State

    def files(self) -> dict[str, SplitAdd]:
        """The live splits by path.

        Raises:
            MalformedError: A manifest is missing, damaged, or has another number of entries than the state says.
        """
        found: dict[str, SplitAdd] = {}
        for manifest in self._state.manifests:
            in_log = manifest.path.startswith(("manifests/", INDEX.states))
            folder = INDEX.folder if in_log else self.file.path.rpartition("/")[0]
            path = f"{folder}/{manifest.path}"
            try:
                records = read_container(self.store.get(path), path)
            except NotFoundError as error:
                raise malformed(path, f"is missing, and {self.file.path} names it") from error
            if len(records) != manifest.num_entries:
                raise malformed(path, f"has {len(records)} entries, and {self.file.path} says {manifest.num_entries}")
            found |= ((add.path, add) for add in (_converted(each, SplitAdd, path) for each in records))
        for path in self._state.tombstones:
            found.pop(path, None)
        return found


def read_state(store: Store, file: LogEntry) -> AvroState:
    """Reads a state, without its manifests.

    Raises:
        MalformedError: It is damaged, or of a format that is not known.
    """
    records = read_container(store.get(file.path), file.path)
    if len(records) != 1:
        raise malformed(file.path, f"holds {len(records)} records instead of one")
    state: _State = _converted(records[0], _State, file.path)
    if state.format_version != 1 or state.state_version != file.version:
        said = f"format {state.format_version}, version {state.state_version}"
        raise malformed(file.path, f"says {said}, expected format 1, version {file.version}")
    metadata = None if state.metadata is None else _metadata(state.metadata, file.path)
    header = IndexHeader(Protocol.index(state.protocol_version, state.protocol_version), metadata)
    return AvroState(store, file, header, state.schema_registry, state)


def _metadata(text: str, name: str) -> IndexMetadata | None:
    try:
        body = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).get("metaData")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise malformed(name, f"has metadata that cannot be read: {error}") from error
    return None if body is None else decode_metadata(bytes(body), name)


def _converted(record: Any, kind: Any, name: str) -> Any:
    try:
        return msgspec.convert(record, kind)
    except msgspec.ValidationError as error:
        raise malformed(name, f"has a record that cannot be read: {error}") from error

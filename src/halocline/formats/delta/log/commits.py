"""What the commits after a checkpoint say, the newest word winning.

The *tail* is the JSON part of a segment: commits, or compactions in their place. It is read twice on purpose. First
only for its *header*, the newest protocol and metadata, without looking at file actions at all: a table of a newer
protocol may write those in a way that this release cannot read, and must be refused by name rather than as damage.
Then, once the protocol has been checked, for everything.

A logical file is told from others by its *key*: the decoded path, together with the id of its deletion vector if it
has one. Going from the newest action to the oldest, the first word on a key stands. One commit must not add a path
with two different vectors, nor add and remove the same logical file: its lines have no order, so that is damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from halocline.errors import NotFoundError
from halocline.formats.delta.actions.action import (
    Add,
    DeletionVector,
    DomainMetadata,
    Line,
    Metadata,
    ProtocolAction,
    Remove,
    Txn,
    decode_lines,
    decode_metadata,
    decoded,
    malformed,
)
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.log.names import FileKind, LogEntry
from halocline.storage.base import Store

Key: TypeAlias = str | tuple[str, str]
"""What tells logical files apart: a decoded path, or such a path and the id of a deletion vector."""

# Bytes of the tail that are kept between the two passes rather than fetched again.
_KEPT: Final = 16 * 1024 * 1024


class _HeaderLine(Struct, rename="camel", frozen=True, gc=False):
    protocol: ProtocolAction | None = None
    meta_data: Raw = Raw()


_decode_header = msgspec.json.Decoder(_HeaderLine).decode_lines


@dataclass(frozen=True, slots=True)
class Header:
    """The newest protocol and metadata that were found; None where there is none."""

    protocol: ProtocolAction | None = None
    metadata: Metadata | None = None

    @property
    def is_whole(self) -> bool:
        """Whether both were found."""
        return self.protocol is not None and self.metadata is not None

    def agrees_with(self, other: Header) -> bool:
        """Whether both mean the same table, though one came through a checkpoint, which keeps no order of lists."""
        return self._meaning == other._meaning

    @property
    def _meaning(self) -> object:
        protocol, metadata = self.protocol, self.metadata
        return (
            protocol
            and (
                (protocol.min_reader_version, protocol.min_writer_version),
                (set(protocol.reader_features or ()), set(protocol.writer_features or ())),
            ),
            metadata
            and (metadata.id, metadata.schema_string, tuple(metadata.partition_columns), dict(metadata.configuration)),
        )

    def over(self, older: Header) -> Header:
        """This one where it says something, the older one elsewhere."""
        return Header(self.protocol or older.protocol, self.metadata or older.metadata)


def key_of(path: str, vector: DeletionVector | None, locations: Locations) -> Key:
    """What tells a logical file from the others.

    Example:
        >>> key_of("a.parquet", None, Locations("lake/orders"))
        'a.parquet'
    """
    return path if vector is None else (path, locations.vector_id(vector))


@dataclass
class TailState:
    """Everything the tail says about files, transactions and domains, gathered from the newest file to the oldest.

    Attributes:
        locations: How the table's log spells paths.
        txns: The newest transaction of each application.
        domains: The newest word on each domain, tombstones included.
        adds: The live files it adds, with their decoded paths. They become columns when those are asked for.
        removes: The newest removals, by their decoded paths.
        keys: Every logical file it says something about.
    """

    locations: Locations
    txns: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    adds: list[tuple[str, Add]] = field(default_factory=list)
    removes: list[tuple[str, Remove]] = field(default_factory=list)
    keys: set[Key] = field(default_factory=set)

    def read(self, file: LogEntry, data: bytes) -> None:
        """Takes in what an older file says."""
        lines = decode_lines(data, file.name)
        if not lines and file.kind is FileKind.COMMIT:
            raise malformed(file.name, "is empty")
        decode, keys, adds = self.locations.decode, self.keys, self.adds
        has_vectors = False
        removed: set[Key] = set()
        for line in reversed(lines):
            add = line.add
            if add is not None:
                path = add.path
                # This runs once per file of the table: the common case makes no call.
                if "%" in path or "./" in path or ":/" in path or "//" in path or path[:1] in "/" or path[-1] == ".":
                    path = decode(path)
                key: Key = path
                if add.deletion_vector is not None:
                    key, has_vectors = (path, self.locations.vector_id(add.deletion_vector)), True
                if key not in keys:
                    keys.add(key)
                    adds.append((path, add))
                if line.remove is not None:
                    raise malformed(file.name, "has a line with more than one action")
                continue
            remove = line.remove
            if remove is not None:
                path = decode(remove.path)
                key = key_of(path, remove.deletion_vector, self.locations)
                removed.add(key)
                if key not in keys:
                    keys.add(key)
                    self.removes.append((path, remove))
            elif line.txn is not None:
                self.txns.setdefault(line.txn.app_id, line.txn)
            elif line.domain_metadata is not None:
                self.domains.setdefault(line.domain_metadata.domain, line.domain_metadata)
        if has_vectors or removed:
            self._check_one_word_per_file(lines, removed, file.name)

    def _check_one_word_per_file(self, lines: list[Line], removed: set[Key], name: str) -> None:
        added: dict[str, Key] = {}
        for add in (line.add for line in lines if line.add is not None):
            path = self.locations.decode(add.path)
            key = key_of(path, add.deletion_vector, self.locations)
            if added.setdefault(path, key) != key:
                raise malformed(name, f"adds {path!r} with two different deletion vectors")
            if key in removed:
                raise malformed(name, f"both adds and removes {path!r}")


class Tail:
    """The JSON files of a segment, read newest first."""

    def __init__(self, store: Store, files: Iterable[LogEntry]) -> None:
        self._store = store
        self._files = tuple(reversed(tuple(files)))
        self._kept: list[bytes] | None = [] if sum(file.size for file in self._files) <= _KEPT else None

    def _contents(self) -> Iterator[tuple[LogEntry, bytes]]:
        if self._kept is not None and len(self._kept) == len(self._files):
            yield from zip(self._files, self._kept, strict=True)
            return
        kept: list[bytes] | None = [] if self._kept is not None else None
        try:
            for file, data in zip(self._files, self._store.get_many(file.path for file in self._files), strict=True):
                if kept is not None:
                    kept.append(data)
                yield file, data
        except NotFoundError as error:
            raise NotFoundError(
                f"the log of {self._store.root} was cleaned up while it was being read: {error.message}",
                condition="VERSION_NOT_FOUND",
                sides={
                    "log had": f"commits {self._files[-1].version} to {self._files[0].end}",
                    "now gone": error.message,
                },
                next_step="Open the table again; if the version was asked for by number, it may be gone for good.",
            ) from error
        self._kept = kept

    def header(self) -> Header:
        """The newest protocol and metadata, without a look at anything else."""
        header = Header()
        for file, data in self._contents():
            # Nearly all commits only move files; searching the bytes is far cheaper than decoding them. JSON may also
            # spell a letter by its number.
            if b'"protocol"' in data or b'"metaData"' in data or b"\\u00" in data:
                header = header.over(_header_in(data, file.name))
                if header.is_whole:
                    break
        return header

    def check_newest(self) -> None:
        """Makes sure that the newest file was written to its end; what its file actions mean is left aside."""
        for file, data in self._contents():
            _header_in(data, file.name)
            if not data.strip():
                raise malformed(file.name, "is empty")
            return

    def state(self, locations: Locations) -> TailState:
        """Everything, the newest word winning."""
        state = TailState(locations)
        for file, data in self._contents():
            state.read(file, data)
        return state


def _header_in(data: bytes, name: str) -> Header:
    lines = decoded(_decode_header, data, name)
    protocols = [line.protocol for line in lines if line.protocol is not None]
    metadata = [bytes(line.meta_data) for line in lines if bytes(line.meta_data) not in (b"", b"null")]
    for key, found in (("protocol", len(protocols)), ("metaData", len(metadata))):
        if found > 1:
            raise malformed(name, f"holds {found} {key} actions, at most 1 is allowed")
    return Header(protocols[0] if protocols else None, decode_metadata(metadata[0], name) if metadata else None)

"""What the commits after a checkpoint say, the newest word winning.

The *tail* is the JSON part of a segment: commits, or compactions in their place. Its *header*, the newest protocol and
metadata, is found whatever the file actions beside it look like: a table of a newer protocol may write those in a way
that this release cannot read, and must be refused by name rather than as damage. Only once the protocol has been
checked does it count what they say: whatever is wrong with them comes up when they are asked for.

Most who open a table ask little of its tail: which files are live, under which names, of what size. So that is decoded
first, once for the header and the rest, and the other fields of an add only where they are asked for.

A logical file is told from others by its *key*: the decoded path, together with the id of its deletion vector if it
has one. Going from the newest action to the oldest, the first word on a key stands. One commit must not add a path
with two different vectors, nor add and remove the same logical file: its lines have no order, so that is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
from msgspec import Raw, Struct

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.delta.actions.action import (
    Add,
    Count,
    DeletionVector,
    DomainMetadata,
    Metadata,
    ProtocolAction,
    Remove,
    Txn,
    decode_metadata,
    decoded,
    malformed,
)
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.log.live_files import LOG_PATH, from_adds
from halocline.formats.log.names import FileKind, LogEntry
from halocline.storage.base import Store

Key: TypeAlias = str | tuple[str, str]
"""What tells logical files apart: a decoded path, or such a path and the id of a deletion vector."""

_Decode: TypeAlias = Callable[[bytes], list[Any]]
# Bytes of the tail that are kept once they were read, for fields that are decoded later. What lies on this machine is
# as soon read again.
_KEPT: Final = 64 * 1024 * 1024
_KEPT_NEAR: Final = 4 * 1024 * 1024
# Adds that become columns together.
_BATCH: Final = 32_768
# Paths with a slash that hold none of these, each after a line's end, are in the form in which paths are compared.
_CARE: Final = ("./", ":/", "//", ".\n", "\n/")
_DOTS: Final = frozenset(("", ".", ".."))
_add, _remove, _protocol, _meta_data = map(attrgetter, ("add", "remove", "protocol", "meta_data"))
_path, _vector = map(attrgetter, ("path", "deletion_vector"))


class _AddedFile(Struct, rename="camel", frozen=True, gc=False):
    path: str
    size: Count
    deletion_vector: DeletionVector | None = None


class _Line(Struct, rename="camel", frozen=True, gc=False):
    add: _AddedFile | None = None
    remove: Remove | None = None
    txn: Txn | None = None
    domain_metadata: DomainMetadata | None = None
    protocol: ProtocolAction | None = None
    meta_data: Raw = Raw()


class _HeaderLine(Struct, rename="camel", frozen=True, gc=False):
    protocol: ProtocolAction | None = None
    meta_data: Raw = Raw()


_decode_lines = msgspec.json.Decoder(_Line).decode_lines
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


@dataclass(frozen=True, slots=True)
class AddsOfFile:
    """The live files that one file of the tail adds, the last one first.

    Attributes:
        file: The file of the log.
        adds: What has been decoded of its adds.
        paths: Their decoded paths.
        chosen: Which of its adds they are; None if all.
    """

    file: LogEntry
    adds: Sequence[_AddedFile]
    paths: Sequence[str]
    chosen: Sequence[int] | None = None

    def more(self, decode: _Decode, data: bytes) -> Sequence[Any]:
        """Other fields of the same adds."""
        every = [line.add for line in reversed(decoded(decode, data, self.file.name)) if line.add is not None]
        return every if self.chosen is None else [every[number] for number in self.chosen]


@dataclass
class TailState:
    """Everything the tail says about files, transactions and domains, gathered from the newest file to the oldest.

    Attributes:
        locations: How the table's log spells paths.
        txns: The newest transaction of each application.
        domains: The newest word on each domain, tombstones included.
        adds: The live files it adds.
        removes: The newest removals, by their decoded paths.
        keys: Every logical file it says something about.
    """

    locations: Locations
    txns: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    adds: list[AddsOfFile] = field(default_factory=list)
    removes: list[tuple[str, Remove]] = field(default_factory=list)
    keys: set[Key] = field(default_factory=set)

    def with_older(self, file: LogEntry, lines: list[_Line]) -> TailState | None:
        """The same with what an older file says; None if that makes no sense."""
        try:
            self.read(file, lines)
        except MalformedError:
            return None
        return self

    def read(self, file: LogEntry, lines: list[_Line]) -> None:
        """Takes in what an older file says."""
        if not lines and file.kind is FileKind.COMMIT:
            raise malformed(file.name, "is empty")
        lines = lines[::-1]
        added = list(filter(None, map(_add, lines)))
        paths = list(map(_path, added))
        # This runs for every file of the table. The common case, files that are new and nothing special about their
        # names, goes through without a step of Python for each.
        new = set(paths)
        if (
            len(new) == len(paths)
            and not any(map(_remove, lines))
            and not any(map(_vector, added))
            and new.isdisjoint(self.keys)
            and not _need_care(new)
        ):
            self.keys |= new
            if paths:
                self.adds.append(AddsOfFile(file, added, paths))
        else:
            self._read_files(file, lines)
        for line in [line for line in lines if line.add is None]:
            if line.txn is not None:
                self.txns.setdefault(line.txn.app_id, line.txn)
            elif line.domain_metadata is not None:
                self.domains.setdefault(line.domain_metadata.domain, line.domain_metadata)

    def _read_files(self, file: LogEntry, lines: list[_Line]) -> None:
        """Takes in file actions one by one."""
        decode, keys = self.locations.decode, self.keys
        has_vectors = False
        number = -1
        adds: list[_AddedFile] = []
        paths: list[str] = []
        chosen: list[int] = []
        removed: set[Key] = set()
        for line in lines:
            add, remove = line.add, line.remove
            if add is not None:
                if remove is not None:
                    raise malformed(file.name, "has a line with more than one action")
                number += 1
                path = decode(add.path)
                key: Key = path
                if add.deletion_vector is not None:
                    key, has_vectors = (path, self.locations.vector_id(add.deletion_vector)), True
                if key not in keys:
                    keys.add(key)
                    adds.append(add)
                    paths.append(path)
                    chosen.append(number)
            elif remove is not None:
                path = decode(remove.path)
                key = key_of(path, remove.deletion_vector, self.locations)
                removed.add(key)
                if key not in keys:
                    keys.add(key)
                    self.removes.append((path, remove))
        if adds:
            self.adds.append(AddsOfFile(file, adds, paths, chosen))
        if has_vectors or removed:
            self._check_one_word_per_file(lines, removed, file.name)

    def _check_one_word_per_file(self, lines: list[_Line], removed: set[Key], name: str) -> None:
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
        self._locations = Locations(store.root)
        self._kept: dict[str, bytes] = {}
        self._room = _KEPT_NEAR if store.address().startswith("/") else _KEPT
        self._begun: tuple[TailState, int] | None = None
        """What the newest files say that have been read for the header, and how many they are."""

    def _contents(self, files: Sequence[LogEntry]) -> Iterator[tuple[LogEntry, bytes]]:
        # Decided once: another listing may keep more while this one goes on.
        kept = dict(self._kept)
        fetched = iter(self._store.get_many([file.path for file in files if file.path not in kept]))
        try:
            for file in files:
                data = kept.get(file.path)
                if data is None:
                    data = next(fetched)
                    self._room -= len(data)
                    if self._room >= 0:
                        self._kept[file.path] = data
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

    def header(self, after: int = -1) -> Header:
        """The newest protocol and metadata after a version, whatever else stands beside them."""
        header, done = Header(), 0
        state: TailState | None = TailState(self._locations)
        for file, data in self._contents([file for file in self._files if file.end > after]):
            lines = _readable(data, file.name)
            if _has_header(lines, data):
                header = header.over(_header_in(data, file.name))
            state = None if state is None or lines is None else state.with_older(file, lines)
            done += 1
            if header.is_whole:
                break
        self._begun = None if state is None else (state, done)
        return header

    def check_newest(self) -> None:
        """Makes sure that the newest file was written to its end; what its file actions mean is left aside."""
        for file, data in self._contents(self._files[:1]):
            _header_in(data, file.name)
            if not data.strip():
                raise malformed(file.name, "is empty")

    def state(self) -> TailState:
        """Everything but the fields of files that few ask for, the newest word winning."""
        state, done = self._begun or (TailState(self._locations), 0)
        self._begun = None
        for file, data in self._contents(self._files[done:]):
            state.read(file, decoded(_decode_lines, data, file.name))
        return state

    def files(self, state: TailState, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The live files that the tail adds, with some columns of a file list."""
        known = {"path", LOG_PATH, *_AddedFile.__struct_fields__}
        decode = _decoder_of(tuple(name for name in columns if name not in known))
        contents = repeat((None, b"")) if decode is None else self._contents([each.file for each in state.adds])
        adds: list[_AddedFile] = []
        paths: list[str] = []
        more: list[Any] = []
        for each, (_, data) in zip(state.adds, contents, strict=False):
            adds += each.adds
            paths += each.paths
            more += () if decode is None else each.more(decode, data)
            while len(adds) >= _BATCH:
                yield from_adds(adds[:_BATCH], columns, paths=paths[:_BATCH], more=more[:_BATCH])
                del adds[:_BATCH], paths[:_BATCH], more[:_BATCH]
        if adds:
            yield from_adds(adds, columns, paths=paths, more=more)


@lru_cache
def _decoder_of(names: tuple[str, ...]) -> _Decode | None:
    """What decodes these fields of adds and nothing else; None if there are none."""
    if not names:
        return None
    fields = [each for each in msgspec.structs.fields(Add) if each.name in names]
    some = msgspec.defstruct(
        "SomeOfAdd",
        [(each.name, each.type) if each.required else (each.name, each.type, each.default) for each in fields],
        rename="camel",
        frozen=True,
        gc=False,
    )
    line = msgspec.defstruct("LineOfAdd", [("add", some | None, None)], frozen=True, gc=False)
    return msgspec.json.Decoder(line).decode_lines


def _readable(data: bytes, name: str) -> list[_Line] | None:
    """The lines of a file; None if file actions, or anything else, cannot be read."""
    try:
        return decoded(_decode_lines, data, name)
    except MalformedError:
        return None


def _has_header(lines: list[_Line] | None, data: bytes) -> bool:
    """Whether a file holds a protocol or metadata, or may hold them if its lines cannot be read."""
    if lines is None:
        return b'"protocol"' in data or b'"metaData"' in data or b"\\u00" in data
    return any(map(_protocol, lines)) or any(map(_meta_data, lines))


def _need_care(paths: set[str]) -> bool:
    """Whether some path has to be decoded to be compared; looked for in all of them together."""
    text = "\n".join(paths)
    if "%" in text or not paths.isdisjoint(_DOTS):
        return True
    return "/" in text and any(sign in f"\n{text}\n" for sign in _CARE)


def _header_in(data: bytes, name: str) -> Header:
    """The protocol and metadata of one file, without a look at anything else in it."""
    lines: list[_HeaderLine] = decoded(_decode_header, data, name)
    protocols = [line.protocol for line in lines if line.protocol is not None]
    metadata = [bytes(line.meta_data) for line in lines if bytes(line.meta_data) not in (b"", b"null")]
    for key, found in (("protocol", len(protocols)), ("metaData", len(metadata))):
        if found > 1:
            raise malformed(name, f"holds {found} {key} actions, at most 1 is allowed")
    return Header(protocols[0] if protocols else None, decode_metadata(metadata[0], name) if metadata else None)

"""What the commits after a checkpoint say, the newest word winning.

The *tail* is the JSON part of a segment: commits, or compactions in their place. Its *header*, the newest protocol and
metadata, is found whatever the file actions beside it look like: a table of a newer protocol may write those in a way
that this release cannot read, and must be refused by name rather than as damage. Only once the protocol has been
checked does it count what they say. Every file is decoded once, and what was decoded for the header is kept.

A logical file is told from others by its *key*: the decoded path, together with the id of its deletion vector if it
has one. Going from the newest action to the oldest, the first word on a key stands. One commit must not add a path
with two different vectors, nor add and remove the same logical file: its lines have no order, so that is damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from halocline.errors import MalformedError, NotFoundError
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

# Bytes of the tail whose lines are kept between the two rather than decoded again.
_KEPT: Final = 64 * 1024 * 1024
# Paths with a slash that hold none of these, each after a line's end, are in the form in which paths are compared.
_CARE: Final = ("./", ":/", "//", ".\n", "\n/")
_DOTS: Final = frozenset(("", ".", ".."))


_ABSENT: Final = Line().meta_data


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

    def read(self, file: LogEntry, lines: list[Line]) -> None:
        """Takes in what an older file says."""
        if not lines and file.kind is FileKind.COMMIT:
            raise malformed(file.name, "is empty")
        lines = lines[::-1]
        added = [line.add for line in lines if line.add is not None]
        paths = [add.path for add in added]
        others = [line for line in lines if line.add is None]
        # This runs for every file of the table. The common case, files that are new and nothing special about their
        # names, goes through without a step of Python for each.
        new = set(paths)
        if (
            len(new) == len(paths)
            and not any(line.remove is not None for line in lines)
            and not any(add.deletion_vector is not None for add in added)
            and new.isdisjoint(self.keys)
            and not _need_care(new)
        ):
            self.keys |= new
            self.adds += zip(paths, added, strict=True)
        else:
            self._read_files(file, lines)
        for line in others:
            if line.txn is not None:
                self.txns.setdefault(line.txn.app_id, line.txn)
            elif line.domain_metadata is not None:
                self.domains.setdefault(line.domain_metadata.domain, line.domain_metadata)

    def _read_files(self, file: LogEntry, lines: list[Line]) -> None:
        """Takes in file actions one by one."""
        decode, keys = self.locations.decode, self.keys
        has_vectors = False
        removed: set[Key] = set()
        for line in lines:
            add, remove = line.add, line.remove
            if add is not None:
                if remove is not None:
                    raise malformed(file.name, "has a line with more than one action")
                path = decode(add.path)
                key: Key = path
                if add.deletion_vector is not None:
                    key, has_vectors = (path, self.locations.vector_id(add.deletion_vector)), True
                if key not in keys:
                    keys.add(key)
                    self.adds.append((path, add))
            elif remove is not None:
                path = decode(remove.path)
                key = key_of(path, remove.deletion_vector, self.locations)
                removed.add(key)
                if key not in keys:
                    keys.add(key)
                    self.removes.append((path, remove))
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
        self._decoded: list[list[Line] | None] = []
        """The lines of the newest files that have been read; None for those that cannot be, or are too many to keep."""

    def _contents(self, files: tuple[LogEntry, ...]) -> Iterator[tuple[LogEntry, bytes]]:
        try:
            yield from zip(files, self._store.get_many(file.path for file in files), strict=True)
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
        header, size = Header(), 0
        self._decoded = []
        for file, data in self._contents(tuple(file for file in self._files if file.end > after)):
            lines = _readable(data, file.name)
            size += len(data)
            self._decoded.append(lines if size <= _KEPT else None)
            if lines is not None:
                named = [line for line in lines if line.protocol is not None or line.meta_data is not _ABSENT]
                header = header.over(_header_of(named, file.name)) if named else header
            elif b'"protocol"' in data or b'"metaData"' in data or b"\\u00" in data:
                header = header.over(_header_in(data, file.name))
            if header.is_whole:
                break
        return header

    def check_newest(self) -> None:
        """Makes sure that the newest file was written to its end; what its file actions mean is left aside."""
        for file, data in self._contents(self._files[:1]):
            _header_in(data, file.name)
            if not data.strip():
                raise malformed(file.name, "is empty")

    def state(self, locations: Locations) -> TailState:
        """Everything, the newest word winning."""
        state = TailState(locations)
        known, self._decoded = self._decoded, []
        for file, lines in self._all_lines(known):
            state.read(file, lines)
        return state

    def _all_lines(self, known: list[list[Line] | None]) -> Iterator[tuple[LogEntry, list[Line]]]:
        """The lines of every file; those that were decoded for the header are not decoded again."""
        unread = tuple(file for file, lines in zip_longest(self._files, known) if lines is None)
        rest = self._contents(unread)
        for file, lines in zip_longest(self._files, known):
            yield file, decode_lines(next(rest)[1], file.name) if lines is None else lines


def _readable(data: bytes, name: str) -> list[Line] | None:
    """The lines of a file; None if file actions, or anything else, cannot be read."""
    try:
        return decode_lines(data, name)
    except MalformedError:
        return None


def _need_care(paths: set[str]) -> bool:
    """Whether some path has to be decoded to be compared; looked for in all of them together."""
    text = "\n".join(paths)
    if "%" in text or not paths.isdisjoint(_DOTS):
        return True
    return "/" in text and any(sign in f"\n{text}\n" for sign in _CARE)


def _header_in(data: bytes, name: str) -> Header:
    """The protocol and metadata of one file, without a look at anything else in it."""
    lines: list[_HeaderLine] = decoded(_decode_header, data, name)
    return _header_of(lines, name)


def _header_of(lines: Sequence[Line | _HeaderLine], name: str) -> Header:
    protocols = [line.protocol for line in lines if line.protocol is not None]
    metadata = [bytes(line.meta_data) for line in lines if bytes(line.meta_data) not in (b"", b"null")]
    for key, found in (("protocol", len(protocols)), ("metaData", len(metadata))):
        if found > 1:
            raise malformed(name, f"holds {found} {key} actions, at most 1 is allowed")
    return Header(protocols[0] if protocols else None, decode_metadata(metadata[0], name) if metadata else None)

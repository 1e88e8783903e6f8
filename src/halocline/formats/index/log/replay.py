"""What the files of a version add up to, the newest word winning.

The *header* is the protocol and the metadata. It is read first and alone: from the newest commit that says something,
then from the base. Only then are splits read. What one version adds up to can be carried on: `IndexState.after` is the
state after one more commit, which is how a table that is open already follows the log without reading it anew.

A commit that both adds and removes a split is damage, for its lines have no order. A base that cannot be read is left
aside if an older one and the commits since are all there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.index.log.actions import (
    IndexAction,
    IndexHeader,
    IndexLine,
    IndexMetadata,
    IndexTxn,
    SplitAdd,
    SplitSkip,
    decode_header,
    decode_lines,
    header_in,
)
from halocline.formats.index.log.checkpoints import read_checkpoint
from halocline.formats.index.log.encodings import decoded
from halocline.formats.index.log.states import AvroState, read_state
from halocline.formats.log.damage import malformed
from halocline.formats.log.names import INDEX, FileKind, LogEntry
from halocline.formats.log.segment import Segment, find_segment, list_files
from halocline.storage.base import Store


@dataclass(frozen=True)
class IndexState:
    """The live splits of a version, and the skips that count.

    Attributes:
        files: The live splits by path.
        skips: The newest skip of each split that has not been removed since.
        registry: Index schemas that splits refer to, by their keys.
        txns: The last version of its own that each application has written.
    """

    files: Mapping[str, SplitAdd] = field(default_factory=dict)
    skips: Mapping[str, SplitSkip] = field(default_factory=dict)
    registry: Mapping[str, str] = field(default_factory=dict)
    txns: Mapping[str, IndexTxn] = field(default_factory=dict)

    def after(self, commits: Iterable[tuple[str, Iterable[IndexLine]]]) -> IndexState:
        """The state after some more commits.

        Args:
            commits: The name and the lines of each, oldest first.

        Raises:
            MalformedError: A commit contradicts itself.
        """
        files, skips, txns = dict(self.files), dict(self.skips), dict(self.txns)
        for name, lines in commits:
            added: set[str] = set()
            removed: set[str] = set()
            for line in lines:
                if line.add is not None:
                    files[line.add.path] = line.add
                    added.add(line.add.path)
                elif line.remove is not None:
                    files.pop(line.remove.path, None)
                    skips.pop(line.remove.path, None)
                    removed.add(line.remove.path)
                elif (skip := line.mergeskip or line.skip) is not None:
                    skips[skip.path] = skip
                elif line.app_transaction is not None:
                    txns[line.app_transaction.app_id] = line.app_transaction
            if both := added & removed:
                raise malformed(name, f"both adds and removes {min(both)!r}")
        return IndexState(files, skips, self.registry, txns)

    def actions(self, header: IndexHeader, now_ms: int) -> list[IndexAction]:
        """All that counts, for a checkpoint; skips whose time has passed and that belong to no live split do not."""
        found: list[IndexAction] = [each for each in (header.protocol, header.metadata) if each is not None]
        found += self.txns.values()
        found += self.files.values()
        found += (each for each in self.skips.values() if each.path in self.files or each.rests_at(now_ms))
        return found


@dataclass(frozen=True, eq=False)
class IndexReplay:
    """The log up to one version. Made by `IndexReplay.open`.

    Attributes:
        store: Where the table lies.
        segment: The files of the version.
    """

    store: Store
    segment: Segment

    @staticmethod
    def open(store: Store, version: int | None = None) -> IndexReplay:
        """Finds the files of a version; the newest if not given.

        Raises:
            NotFoundError: There is no table, or no such version.
            MalformedError: A commit is missing.
        """
        return IndexReplay(store, find_segment(store, INDEX, version))

    @property
    def version(self) -> int:
        """The version."""
        return self.segment.version

    @cached_property
    def header(self) -> IndexHeader:
        """The newest protocol and metadata, of any table whatever its protocol.

        Raises:
            MalformedError: A file is damaged.
        """
        header = IndexHeader()
        for file, text in reversed(self._tail):
            if b'"protocol"' in text or b'"metaData"' in text or b"\\u00" in text:
                header = header.over(decode_header(text, file.name))
        return header.over(self._base_header())

    @property
    def metadata(self) -> IndexMetadata:
        """The newest metadata.

        Raises:
            MalformedError: There is none.
        """
        found = self.header.metadata
        if found is None:
            raise malformed(INDEX.folder, f"of {self.store.root} has no metadata up to version {self.version}")
        return found

    @cached_property
    def state(self) -> IndexState:
        """The live splits and skips.

        Raises:
            MalformedError: A file is damaged.
        """
        match self._base:
            case AvroState() as base:
                start = IndexState(base.files(), {}, base.registry)
            case IndexReplay() as base:
                start = base.state
            case lines:
                start = IndexState().after([("the checkpoint", lines)])
        return start.after((file.name, decode_lines(text, file.name)) for file, text in self._tail)

    @property
    def has_avro_state(self) -> bool:
        """Whether what counts is in an Avro state, perhaps with commits after it."""
        checkpoint = self.segment.checkpoint
        return checkpoint is not None and checkpoint.files[0].kind is FileKind.STATE

    def check_newest(self) -> None:
        """Makes sure that the newest commit was written to its end.

        Raises:
            MalformedError: It is empty, or not made of lines of JSON.
        """
        if self._tail:
            file, text = self._tail[-1]
            decode_lines(text, file.name)

    def following(self) -> IndexReplay | None:
        """The log up to the newest version, with what was read of it already; None if this is the newest.

        A log in which this version is another one, or gone, is that of another table, and is opened anew.

        Raises:
            NotFoundError: There is no table any more.
        """
        known = self.version
        listed = list_files(self.store, INDEX, first=known)
        if not self._is_in(listed):
            return IndexReplay.open(self.store)
        fresh = [file for file in listed if file.version > known]
        commits = tuple(file for file in fresh if file.kind is FileKind.COMMIT)
        newest = max((file.version for file in fresh), default=known)
        if newest == known:
            return None
        if [file.version for file in commits] != list(range(known + 1, newest + 1)):
            return IndexReplay.open(self.store)
        found = Segment(newest, self.segment.checkpoint, (*self.segment.commits, *commits))
        follower = IndexReplay(self.store, found)
        tail = [*self._tail, *_texts(self.store, commits)]
        lines = [(file.name, decode_lines(text, file.name)) for file, text in tail[len(self._tail) :]]
        later = IndexHeader()
        for name, some in reversed(lines):
            later = later.over(header_in(some, name))
        known_values = {"_tail": tail, "header": later.over(self.header), "_base": self.__dict__.get("_base")}
        if "state" in self.__dict__:
            known_values["state"] = self.state.after(lines)
        follower.__dict__.update({key: value for key, value in known_values.items() if value is not None})
        return follower

    def _is_in(self, listed: Iterable[LogEntry]) -> bool:
        """Whether what made this version is still what it was: its commit or, where that was cleaned up, its base."""
        base = self.segment.checkpoint
        own = self.segment.last_commit or (base.files[0] if base is not None else None)
        return own is not None and (any(each == own for each in listed) or _held(self.store, own))

    @cached_property
    def _tail(self) -> list[tuple[LogEntry, bytes]]:
        return list(_texts(self.store, self.segment.commits))

    @cached_property
    def _base(self) -> AvroState | IndexReplay | list[IndexLine]:
        """What the commits stand on; an older version where the checkpoint is damaged."""
        if self.segment.checkpoint is None:
            return []
        file = self.segment.checkpoint.files[0]
        try:
            if file.kind is FileKind.STATE:
                return read_state(self.store, file)
            return read_checkpoint(self.store, file.path, file.version)
        except MalformedError as damage:
            try:
                return IndexReplay(self.store, find_segment(self.store, INDEX, file.version, without=[file.path]))
            except (MalformedError, NotFoundError):
                raise damage from None

    def _base_header(self) -> IndexHeader:
        base = self._base
        if isinstance(base, IndexReplay):
            return base.header
        if not isinstance(base, AvroState):
            return header_in(base, INDEX.folder)
        earlier = self._earlier_header(base.file.version, base.header.metadata is None)
        said, protocol = earlier.protocol, base.header.protocol
        # A state knows the writer's number only; a number for readers and the lists are in the commits.
        if said is not None and protocol is not None:
            protocol = said if said.writer == protocol.writer else protocol.merged(said)
        return IndexHeader(protocol, base.header.metadata or earlier.metadata)

    def _earlier_header(self, version: int, needs_metadata: bool) -> IndexHeader:
        """What the commits up to a state say, as far as they are still there."""
        files = [each for each in list_files(self.store, INDEX) if each.kind is FileKind.COMMIT]
        header = IndexHeader()
        for file, text in _texts(self.store, reversed([each for each in files if each.version <= version])):
            header = header.over(decode_header(text, file.name))
            if header.protocol is not None and (header.metadata is not None or not needs_metadata):
                break
        return header


def _texts(store: Store, files: Iterable[LogEntry]) -> Iterator[tuple[LogEntry, bytes]]:
    wanted = list(files)
    try:
        for file, data in zip(wanted, store.get_many(file.path for file in wanted), strict=True):
            yield file, decoded(data, file.name)
    except NotFoundError as error:
        raise NotFoundError(
            f"the log of {store.root} was cleaned up while it was being read: {error.message}",
            condition="VERSION_NOT_FOUND",
            sides={"log had": f"commits up to {wanted[-1].version}", "now gone": error.message},
            next_step="Open the table again; if the version was asked for by number, it may be gone for good.",
        ) from error


def _held(store: Store, own: LogEntry) -> bool:
    """Whether a file is what it was, for which a listing is no witness: it may leave out files."""
    try:
        return INDEX.parse(store.head(own.path)) == own
    except NotFoundError:
        return False

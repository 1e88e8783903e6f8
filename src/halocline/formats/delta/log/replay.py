"""The state of a table at one version: a checkpoint, and the tail laid over it.

The tail's word on a logical file hides the checkpoint's. To tell which rows of a checkpoint are hidden, whole batches
of paths are compared with the tail's at once; only the few that meet are looked at one by one.

A checkpoint that is damaged, incomplete or lacks a sidecar is left out, whenever that is noticed, if an older one or
the log from its beginning leads to the same version; the result is the same table, only slower. If nothing does, the
damage is an error.

Threads that ask one opened version take turns: what has been read is kept, and a checkpoint that is left out goes
together with the tail and with all that was kept of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final, TypeVar

import pyarrow as pa

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.delta.actions.action import DomainMetadata, Txn
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.configuration.column_mapping import mode_of
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.log import live_files
from halocline.formats.delta.log.checkpoint_parts import FileColumns
from halocline.formats.delta.log.checkpoint_read import Checkpoint, OtherActions, Witness
from halocline.formats.delta.log.checksum import read_summary
from halocline.formats.delta.log.commits import Header, Tail, TailState
from halocline.formats.delta.log.listing import Hidden, Listing, Pruner, Workers
from halocline.formats.log.damage import malformed
from halocline.formats.log.following import following
from halocline.formats.log.names import DELTA
from halocline.formats.log.segment import Segment, find_segment
from halocline.storage.base import Store

_log = logging.getLogger(__name__)
_CHECKPOINTS_TRIED: Final = 4
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A version that was opened before: what opening a later one can start from.

    Attributes:
        segment: Its files.
        header: Its protocol and metadata.
        others: What its checkpoint says besides files; None if it has no checkpoint.
    """

    segment: Segment
    header: Header
    others: OtherActions | None


class Replay:
    """The log of one version, read piece by piece as it is asked for."""

    segment: Segment
    checkpoint: Checkpoint | None

    def __init__(
        self, store: Store, segment: Segment, workers: Workers | None = None, known: KnownVersion | None = None
    ) -> None:
        self.store = store
        self.workers = workers
        self.locations = Locations(store.root)
        self._known = known if known is not None and _leads_to(known.segment, segment) else None
        self._left_out: dict[str, MalformedError | NotFoundError] = {}
        self._turn = RLock()
        self._use(segment)

    def _use(self, segment: Segment) -> None:
        self._read: dict[str, Any] = {}
        self.segment = segment
        self._tail = Tail(self.store, segment.cover)
        files, known = segment.checkpoint, self._known
        others = known.others if known is not None and files == known.segment.checkpoint else None
        self.checkpoint = None if files is None else Checkpoint(self.store, DELTA, files, self._witnesses, others)

    def _witnesses(self) -> Iterator[Witness]:
        """What is said about the checkpoint elsewhere; the checksum of its version is only read if it must be."""
        pointer, checkpoint = self.segment.pointer, self.segment.checkpoint
        if pointer is not None:
            yield Witness(DELTA.pointer_path, pointer.num_of_add_files, pointer.size)
        first = next(iter(self.segment.checksums), None)
        if first is not None and checkpoint is not None and first.version == checkpoint.version:
            summary = read_summary(self.store, first.version)
            if summary is not None:
                yield Witness(first.path, summary.table_size.files)

    @staticmethod
    def open(
        store: Store, version: int | None = None, workers: Workers | None = None, known: KnownVersion | None = None
    ) -> Replay:
        """Finds the version and opens its checkpoint, or the next older one that can be opened.

        Workers, if there are any, list what the checkpoint holds. A version that is known, and is not after this one,
        saves time.
        """
        segment = None
        if known is not None and store.lists_whole_folders:
            segment = following(store, DELTA, known.segment, version)
        replay = Replay(store, segment or find_segment(store, DELTA, version), workers, known)
        replay.reading(lambda: replay.checkpoint and replay.checkpoint.others)
        return replay

    @property
    def known(self) -> KnownVersion:
        """What opening a later version can start from."""
        with self._turn:
            others = None if self.checkpoint is None else self.checkpoint.others
            return KnownVersion(self.segment, self.header, others)

    def reading(self, read: Callable[[], _T]) -> _T:
        """What reading the checkpoint gives; if that turns out to be damaged, the same without it."""
        with self._turn:
            while True:
                try:
                    return read()
                except (MalformedError, NotFoundError) as error:
                    self._leave_out_checkpoint(error)

    def _once(self, name: str, read: Callable[[], _T]) -> _T:
        """What is read by the first who asks, and kept."""
        with self._turn:
            if name not in self._read:
                self._read[name] = read()
            kept: _T = self._read[name]
            return kept

    def _leave_out_checkpoint(self, error: MalformedError | NotFoundError) -> None:
        checkpoint = self.checkpoint
        if checkpoint is not None:
            self._left_out |= dict.fromkeys((file.path for file in checkpoint.files.files), error)
        first = next(iter(self._left_out.values()), error)
        if checkpoint is None or len(set(self._left_out.values())) == _CHECKPOINTS_TRIED:
            raise first
        try:
            other = Replay(self.store, find_segment(self.store, DELTA, self.segment.version, without=self._left_out))
            other._left_out = self._left_out  # it may have to leave out more
            header = other.reading(lambda: other.header)
            if not header.agrees_with(self._read.get("header", header)):
                raise malformed(checkpoint.name, "holds another protocol or metadata than the commits lead to")
        except (MalformedError, NotFoundError) as found:
            raise first from found
        _log.warning("leaving out checkpoint %s of %s: %s", checkpoint.name, self.store.root, error.message)
        self._use(other.segment)

    @property
    def header(self) -> Header:
        """The newest protocol and metadata; nothing else of the tail is looked at."""
        return self._once("header", self._newest_header)

    def _newest_header(self) -> Header:
        known = self._known
        header = self._tail.header(after=-1 if known is None else known.segment.version)
        if known is not None:
            return header.over(known.header)
        if header.is_whole or self.checkpoint is None:
            return header
        return header.over(self.checkpoint.others.header)

    def check_newest(self) -> None:
        """Makes sure that the newest commit was written to its end: nobody can read a table that a torn one leaves."""
        self._tail.check_newest()

    @property
    def state(self) -> TailState:
        """Everything the tail says."""
        return self._once("state", lambda: self._tail.state())

    @property
    def txns(self) -> Mapping[str, Txn]:
        """The newest transaction of each application."""
        with self._turn:
            older = {} if self.checkpoint is None else self.checkpoint.others.txns
            return older | self.state.txns

    @property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The live domains."""
        with self._turn:
            older = {} if self.checkpoint is None else self.checkpoint.others.domains
            return {name: domain for name, domain in (older | self.state.domains).items() if not domain.removed}

    def files(self, columns: Sequence[str] | None = None, pruner: Pruner | None = None) -> pa.Table:
        """The live files."""
        wanted = live_files.chosen(columns)
        with self._turn:
            _ = self.state
            # First the checkpoint: the tail begins earlier if that has to be left out.
            older = self.reading(lambda: list(self._checkpoint_files(wanted, pruner)))
            batches = [*self.tail_files(wanted, pruner), *older]
        table = pa.Table.from_batches(batches, schema=live_files.schema_of(wanted))
        live_files.check_unique(table["path"], self.store.root)
        return table

    def tail_files(self, wanted: Sequence[str], pruner: Pruner | None = None) -> Iterator[pa.RecordBatch]:
        """The live files that the tail adds."""
        facts = () if pruner is None else pruner.facts
        for batch in self._tail.files(self.state, tuple(dict.fromkeys([*wanted, *facts]))):
            keep = None if pruner is None else pruner.keep(live_files.on_disk(batch))
            yield batch.select(wanted) if keep is None else batch.select(wanted).filter(keep)

    def _checkpoint_files(self, wanted: tuple[str, ...], pruner: Pruner | None) -> Iterator[pa.RecordBatch]:
        checkpoint = self.checkpoint
        if checkpoint is None:
            return iter(())
        facts = () if pruner is None else tuple(pruner.columns(checkpoint))
        listing = Listing(self.store, checkpoint.name, wanted, pruner, facts, self._hidden, self._zoneless)
        parts = checkpoint.file_parts
        return checkpoint.counted(map(listing.of, parts) if self.workers is None else listing.over(parts, self.workers))

    @property
    def _hidden(self) -> Hidden:
        return Hidden(self.state.keys, self.locations)

    def visible(self, batches: Iterable[FileColumns]) -> Iterator[dict[str, pa.Array]]:
        """What a checkpoint says of files on which the tail does not have the last word; see `Hidden.visible`."""
        hidden = self._hidden
        for batch in batches:
            found = hidden.visible(batch)
            if len(found["path"]):
                yield found

    @property
    def _zoneless(self) -> frozenset[tuple[str, ...]]:
        metadata = self.header.metadata
        return frozenset() if metadata is None else Schema.of(metadata.schema, mode_of(metadata.configuration)).zoneless

    def tombstones(self) -> pa.Table:
        """The files that were removed and are remembered, newest word only."""
        with self._turn:
            _ = self.state
            return pa.Table.from_batches(self.reading(lambda: list(self._tombstones())))

    def _tombstones(self) -> Iterator[pa.RecordBatch]:
        yield live_files.tombstones_from_removes(self.state.removes)
        if self.checkpoint is None:
            return
        for found in self.visible(self.checkpoint.removes(live_files.TOMBSTONES_ON_DISK)):
            yield live_files.tombstones_from_checkpoint(found, self.checkpoint.name)


def _leads_to(known: Segment, segment: Segment) -> bool:
    """Whether a later version follows from a known one: its commit is the very same file in the log."""
    last = known.last_commit
    return last is not None and last.etag is not None and last in (segment.checkpoint_commit, *segment.commits)

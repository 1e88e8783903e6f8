"""The state of a table at one version: a checkpoint, and the tail laid over it.

The tail's word on a logical file hides the checkpoint's. To tell which rows of a checkpoint are hidden, whole batches
of paths are compared with the tail's at once; only the few that meet are looked at one by one.

A checkpoint that is damaged, incomplete or lacks a sidecar is left out, whenever that is noticed, if an older one or
the log from its beginning leads to the same version; the result is the same table, only slower. If nothing does, the
damage is an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.delta.actions.action import DomainMetadata, Txn
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.configuration.column_mapping import mode_of
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.log import live_files
from halocline.formats.delta.log.checkpoint_parts import Choice, FileColumns, kept
from halocline.formats.delta.log.checkpoint_read import Checkpoint, Witness
from halocline.formats.delta.log.checksum import read_summary
from halocline.formats.delta.log.commits import Header, Key, Tail, TailState, key_of
from halocline.formats.delta.log.live_files import VECTOR, vectors_from_disk, vectors_in
from halocline.formats.delta.stats import json_writer
from halocline.formats.log.damage import malformed
from halocline.formats.log.names import DELTA
from halocline.formats.log.segment import Segment, find_segment
from halocline.storage.base import Store

_log = logging.getLogger(__name__)
_CHECKPOINTS_TRIED: Final = 4
_BATCH: Final = 65536
_T = TypeVar("_T")


class Pruner(Protocol):
    """Decides which files cannot hold a row that is asked for."""

    @property
    def facts(self) -> Sequence[str]:
        """What it needs to know of each file, by columns of a file list."""

    def columns(self, checkpoint: Checkpoint) -> Sequence[str]:
        """What it needs to know of each file, by names below `add` in a checkpoint."""

    def keep(self, facts: FileColumns) -> pa.Array | None:
        """Which files to keep, as a boolean array without nulls; None for all of them."""


class Replay:
    """The log of one version, read piece by piece as it is asked for."""

    segment: Segment
    checkpoint: Checkpoint | None

    def __init__(self, store: Store, segment: Segment) -> None:
        self.store = store
        self.locations = Locations(store.root)
        self._left_out: dict[str, MalformedError | NotFoundError] = {}
        self._use(segment)

    def _use(self, segment: Segment) -> None:
        for name in ("header", "state", "txns", "domains", "_zoneless"):
            self.__dict__.pop(name, None)
        self.segment = segment
        self._tail = Tail(self.store, segment.cover)
        files = segment.checkpoint
        self.checkpoint = None if files is None else Checkpoint(self.store, DELTA, files, self._witnesses)

    def _witnesses(self) -> Iterator[Witness]:
        """What is said about the checkpoint elsewhere; the checksum of its version is only read if it must be."""
        pointer, checkpoint = self.segment.pointer, self.segment.checkpoint
        if pointer is not None:
            yield Witness(DELTA.pointer_path, pointer.num_of_add_files, pointer.size)
        first = next(iter(self.segment.checksums), None)
        if first is not None and checkpoint is not None and first.version == checkpoint.version:
            summary = read_summary(self.store, first.version)
            if summary is not None:
                yield Witness(first.path, summary.tally.files)

    @staticmethod
    def open(store: Store, version: int | None = None) -> Replay:
        """Finds the version and opens its checkpoint, or the next older one that can be opened."""
        replay = Replay(store, find_segment(store, DELTA, version))
        replay.reading(lambda: replay.checkpoint and replay.checkpoint.others)
        return replay

    def reading(self, read: Callable[[], _T]) -> _T:
        """What reading the checkpoint gives; if that turns out to be damaged, the same without it."""
        while True:
            try:
                return read()
            except (MalformedError, NotFoundError) as error:
                self._leave_out_checkpoint(error)

    def _leave_out_checkpoint(self, error: MalformedError | NotFoundError) -> None:
        checkpoint = self.checkpoint
        if checkpoint is not None:
            self._left_out |= dict.fromkeys((file.path for file in checkpoint.files.files), error)
        first = next(iter(self._left_out.values()), error)
        if checkpoint is None or len(set(self._left_out.values())) == _CHECKPOINTS_TRIED:
            raise first
        try:
            other = Replay(self.store, find_segment(self.store, DELTA, self.segment.version, without=self._left_out))
            if not other.header.agrees_with(self.__dict__.get("header", other.header)):
                raise malformed(checkpoint.name, "holds another protocol or metadata than the commits lead to")
        except (MalformedError, NotFoundError) as found:
            raise first from found
        _log.warning("leaving out checkpoint %s of %s: %s", checkpoint.name, self.store.root, error.message)
        self._use(other.segment)

    @cached_property
    def header(self) -> Header:
        """The newest protocol and metadata; nothing else of the tail is looked at."""
        header = self._tail.header()
        if header.is_whole or self.checkpoint is None:
            return header
        return header.over(self.checkpoint.others.header)

    def check_newest(self) -> None:
        """Makes sure that the newest commit was written to its end: nobody can read a table that a torn one leaves."""
        self._tail.check_newest()

    @cached_property
    def state(self) -> TailState:
        """Everything the tail says."""
        return self._tail.state(self.locations)

    @cached_property
    def txns(self) -> Mapping[str, Txn]:
        """The newest transaction of each application."""
        older = {} if self.checkpoint is None else self.checkpoint.others.txns
        return older | self.state.txns

    @cached_property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The live domains."""
        older = {} if self.checkpoint is None else self.checkpoint.others.domains
        return {name: domain for name, domain in (older | self.state.domains).items() if not domain.removed}

    def files(self, columns: Sequence[str] | None = None, pruner: Pruner | None = None) -> pa.Table:
        """The live files."""
        wanted = live_files.chosen(columns)

        def listed() -> list[pa.RecordBatch]:
            return [*self._tail_files(wanted, pruner), *self._checkpoint_files(wanted, pruner)]

        _ = self.state
        batches = self.reading(listed)
        table = pa.Table.from_batches(batches, schema=live_files.schema_of(wanted))
        live_files.check_unique(table["path"], self.store.root)
        return table

    def _tail_files(self, wanted: Sequence[str], pruner: Pruner | None) -> Iterator[pa.RecordBatch]:
        adds = self.state.adds
        for start in range(0, len(adds), _BATCH):
            some = adds[start : start + _BATCH]
            if pruner is not None:
                keep = pruner.keep(live_files.on_disk(live_files.from_adds(some, ("path", *pruner.facts))))
                some = some if keep is None else list(compress(some, keep.to_pylist()))
            yield live_files.from_adds(some, wanted)

    def _checkpoint_files(self, wanted: Sequence[str], pruner: Pruner | None) -> Iterator[pa.RecordBatch]:
        checkpoint = self.checkpoint
        if checkpoint is None:
            return
        schema = live_files.schema_of(wanted)
        fields = [pa.field(live_files.ON_DISK[field.name], field.type) for field in schema]
        read = [field.name for field in fields if field.name != live_files.LOG_PATH]
        choice = None if pruner is None else Choice(pruner.columns(checkpoint), pruner.keep)
        for found in self.standing(checkpoint.adds(list(dict.fromkeys([*read, "deletionVector"])), choice)):
            if "stats" in wanted:
                found["stats"] = json_writer.of(found, self._zoneless)
            arrays = live_files.from_checkpoint(found, fields, "add", checkpoint.name)
            if "size" in wanted:
                live_files.check_sizes(arrays[wanted.index("size")], checkpoint.name)
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def standing(self, batches: Iterable[FileColumns]) -> Iterator[dict[str, pa.Array]]:
        """What a checkpoint says of files on which the tail does not have the last word.

        `path` is decoded, and `log_path` is the path as it is written.
        """
        hidden = _Hidden(self.state.keys, self.locations)
        for batch in batches:
            decoded = live_files.decoded_paths(batch["path"], self.locations)
            found = {**batch, live_files.LOG_PATH: batch["path"], "path": decoded}
            found = kept(found, hidden.keep(found))
            if len(found["path"]):
                yield found

    @cached_property
    def _zoneless(self) -> frozenset[tuple[str, ...]]:
        metadata = self.header.metadata
        return frozenset() if metadata is None else Schema.of(metadata.schema, mode_of(metadata.configuration)).zoneless

    def tombstones(self) -> pa.Table:
        """The files that were removed and are remembered, newest word only."""
        _ = self.state
        return pa.Table.from_batches(self.reading(lambda: list(self._tombstones())))

    def _tombstones(self) -> Iterator[pa.RecordBatch]:
        yield live_files.tombstones_from_removes(self.state.removes)
        if self.checkpoint is None:
            return
        for found in self.standing(self.checkpoint.removes(live_files.TOMBSTONES_ON_DISK)):
            yield live_files.tombstones_from_checkpoint(found, self.checkpoint.name)


class _Hidden:
    """The logical files on which the tail has the last word."""

    def __init__(self, keys: set[Key], locations: Locations) -> None:
        self._keys = keys
        self._locations = locations
        self._paths = pa.array({key if isinstance(key, str) else key[0] for key in keys}, type=pa.string())

    def keep(self, found: FileColumns) -> pa.Array | None:
        """Which rows of a checkpoint still stand; None for all."""
        if not len(self._paths):
            return None
        meets = pc.is_in(found["path"], value_set=self._paths)
        rows = pc.indices_nonzero(meets)
        if not len(rows):
            return None
        paths = found["path"].take(rows).to_pylist()
        stored = found.get("deletionVector", pa.nulls(len(meets))).take(rows)
        vectors = vectors_in(vectors_from_disk(stored, VECTOR, "deletionVector", "the checkpoint"))
        hidden = [
            row
            for row, path, vector in zip(rows.to_pylist(), paths, vectors, strict=True)
            if key_of(path, vector, self._locations) in self._keys
        ]
        if not hidden:
            return None
        return pc.invert(pc.is_in(pa.array(range(len(meets)), pa.int64()), value_set=pa.array(hidden, pa.int64())))

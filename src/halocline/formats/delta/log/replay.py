"""The state of a table at one version: a checkpoint, and the tail laid over it.

The tail's word on a logical file hides the checkpoint's. To tell which rows of a checkpoint are hidden, whole batches
of paths are compared with the tail's at once; only the few that meet are looked at one by one.

A checkpoint that cannot be opened is left out if an older one, or the log from its beginning, leads to the same
version; the result is the same table, only slower. If nothing does, the damage is an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.delta.actions.action import DeletionVector, DomainMetadata, Txn
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.configuration.column_mapping import mode_of
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.log import live_files
from halocline.formats.delta.log.checkpoint_read import Checkpoint, FileColumns
from halocline.formats.delta.log.commits import Header, Key, Tail, TailState, key_of
from halocline.formats.delta.log.tombstones import TOMBSTONES, from_checkpoint, from_removes
from halocline.formats.delta.stats import json_writer
from halocline.formats.log.names import DELTA
from halocline.formats.log.segment import Segment, find_segment
from halocline.storage.base import Store

_log = logging.getLogger(__name__)
_CHECKPOINTS_TRIED: Final = 4
_BATCH: Final = 65536


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
    """The log of one version, read piece by piece as it is asked for.

    Args:
        store: Where the table lies.
        segment: The files of the version.
    """

    def __init__(self, store: Store, segment: Segment) -> None:
        self.store = store
        self.segment = segment
        self.locations = Locations(store.root)
        self._tail = Tail(store, segment.cover)
        self.checkpoint = None if segment.checkpoint is None else Checkpoint(store, DELTA, segment.checkpoint)

    @staticmethod
    def open(store: Store, version: int | None = None) -> Replay:
        """Finds the version and opens its checkpoint, or the next older one that can be opened.

        Raises:
            NotFoundError: There is no table, or no such version.
            MalformedError: The log has a gap or is damaged.
        """
        without: set[str] = set()
        first_error: MalformedError | NotFoundError | None = None
        for _ in range(_CHECKPOINTS_TRIED):
            try:
                replay = Replay(store, find_segment(store, DELTA, version, without=without))
            except (MalformedError, NotFoundError):
                if first_error is not None:
                    raise first_error from None
                raise
            if replay.checkpoint is None:
                return replay
            try:
                _ = replay.checkpoint.others
            except (MalformedError, NotFoundError) as error:
                first_error = first_error or error
                without |= {file.path for file in replay.checkpoint.files.files}
                version = replay.segment.version
                _log.warning("leaving out checkpoint %s of %s: %s", replay.checkpoint.name, store.root, error.message)
            else:
                return replay
        assert first_error is not None
        raise first_error

    @cached_property
    def header(self) -> Header:
        """The newest protocol and metadata; nothing else of the tail is looked at."""
        header = self._tail.header()
        if header.is_whole or self.checkpoint is None:
            return header
        return header.over(self.checkpoint.others.header)

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
        """The live files.

        Args:
            columns: Which columns of `live_files.ALL`; all if not given.
            pruner: What to leave out.

        Raises:
            MalformedError: The log is damaged, or lists a path twice.
        """
        wanted = live_files.chosen(columns)
        batches = [*self._tail_files(wanted, pruner), *self._checkpoint_files(wanted, pruner)]
        table = pa.Table.from_batches(batches, schema=live_files.schema_of(wanted))
        live_files.check_unique(table["path"], self.store.root)
        return table

    def _tail_files(self, wanted: Sequence[str], pruner: Pruner | None) -> Iterator[pa.RecordBatch]:
        adds = self.state.adds
        for start in range(0, len(adds), _BATCH):
            some = adds[start : start + _BATCH]
            if pruner is not None:
                facts = live_files.from_adds(some, ("path", *pruner.facts))
                names = (live_files.ON_DISK[name] for name in facts.schema.names)
                keep = pruner.keep(dict(zip(names, facts.columns, strict=True)))
                some = some if keep is None else list(compress(some, keep.to_pylist()))
            yield live_files.from_adds(some, wanted)

    def _checkpoint_files(self, wanted: Sequence[str], pruner: Pruner | None) -> Iterator[pa.RecordBatch]:
        checkpoint = self.checkpoint
        if checkpoint is None:
            return
        hidden = _Hidden(self.state.keys, self.locations)
        schema = live_files.schema_of(wanted)
        read = [live_files.ON_DISK[name] for name in wanted if name != live_files.LOG_PATH]
        if "stats" in wanted and not checkpoint.has_text_stats and checkpoint.has("stats_parsed"):
            read.append("stats_parsed")
        read += ["deletionVector", *(pruner.columns(checkpoint) if pruner is not None else ())]
        for batch in checkpoint.adds(list(dict.fromkeys(read))):
            found = dict(batch)
            found[live_files.LOG_PATH] = found["path"]
            found["path"] = live_files.decoded_paths(found["path"], self.locations)
            found = _kept(found, hidden.keep(found))
            if pruner is not None:
                found = _kept(found, pruner.keep(found))
            if len(found["path"]):
                if "stats" in wanted:
                    found["stats"] = json_writer.of(found, self._zoneless)
                yield pa.RecordBatch.from_arrays(
                    live_files.from_checkpoint(found, wanted, checkpoint.name), schema=schema
                )

    @cached_property
    def _zoneless(self) -> frozenset[tuple[str, ...]]:
        metadata = self.header.metadata
        if metadata is None:
            return frozenset()
        columns = Schema.of(metadata.schema, mode_of(metadata.configuration)).walk()
        return frozenset(column.physical for column in columns if column.type.name == "timestamp_ntz")

    def tombstones(self) -> pa.Table:
        """The files that were removed and are remembered, newest word only."""
        batches = [from_removes(self.state.removes)]
        if self.checkpoint is not None:
            hidden = _Hidden(self.state.keys, self.locations)
            for batch in self.checkpoint.removes([field.name for field in TOMBSTONES]):
                found = dict(batch)
                found["path"] = live_files.decoded_paths(found["path"], self.locations)
                batches.append(from_checkpoint(_kept(found, hidden.keep(found)), self.checkpoint.name))
        return pa.Table.from_batches(batches)


def _kept(found: dict[str, pa.Array], keep: pa.Array | None) -> dict[str, pa.Array]:
    return found if keep is None else {name: array.filter(keep) for name, array in found.items()}


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
        stored = found.get("deletionVector")
        vectors = [None] * len(rows) if stored is None else [_vector(row) for row in stored.take(rows).to_pylist()]
        hidden = [
            row
            for row, path, vector in zip(rows.to_pylist(), paths, vectors, strict=True)
            if key_of(path, vector, self._locations) in self._keys
        ]
        if not hidden:
            return None
        return pc.invert(pc.is_in(pa.array(range(len(meets)), pa.int64()), value_set=pa.array(hidden, pa.int64())))


def _vector(row: Mapping[str, object] | None) -> DeletionVector | None:
    if row is None or row.get("storageType") is None:
        return None
    offset = row.get("offset")
    return DeletionVector(
        storage_type=str(row["storageType"]),
        path_or_inline_dv=str(row.get("pathOrInlineDv")),
        offset=offset if isinstance(offset, int) else None,
        size_in_bytes=0,
        cardinality=0,
    )

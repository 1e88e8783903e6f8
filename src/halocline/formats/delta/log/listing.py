"""How the file actions of a checkpoint become rows of a file list, here or elsewhere.

A `Listing` knows everything that is needed for it: which columns are asked for, which files a filter keeps, and on
which logical files the tail has the last word. It can be sent to other processes. A checkpoint is divided into
*shares*, row groups of one of its files that belong together, and whoever lists a share gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import HaloclineError
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.log import live_files
from halocline.formats.delta.log.checkpoint_parts import Choice, FileColumns, JsonPart, ParquetPart, filtered
from halocline.formats.delta.log.checkpoint_read import Checkpoint
from halocline.formats.delta.log.commits import Key, key_of
from halocline.formats.delta.log.live_files import VECTOR, vectors_from_disk, vectors_in
from halocline.formats.delta.stats import json_writer
from halocline.storage.base import Store

Counted = tuple[int, pa.RecordBatch | None]
"""How many files have been seen since the last batch, and what is listed of them."""

_SHARE_ROWS: Final = 100_000
_SEEN: Final = b"seen"


class Pruner(Protocol):
    """Decides which files cannot hold a row that is asked for."""

    @property
    def facts(self) -> Sequence[str]:
        """What it needs to know of each file, by columns of a file list."""

    def columns(self, checkpoint: Checkpoint) -> Sequence[str]:
        """What it needs to know of each file, by names below `add` in a checkpoint."""

    def keep(self, facts: FileColumns) -> pa.Array | None:
        """Which files to keep, as a boolean array without nulls; None for all of them."""


class Workers(Protocol):
    """Runs a function on many items elsewhere, several at once, and gives what it returned in their order."""

    def __call__(self, function: Callable[[Any], bytes], items: Sequence[Any]) -> Sequence[bytes]:
        """Runs it."""


class Share(NamedTuple):
    """Row groups of one Parquet file of a checkpoint.

    Attributes:
        path: The file.
        groups: The numbers of the row groups.
    """

    path: str
    groups: tuple[int, ...]


class Hidden:
    """The logical files on which the tail has the last word."""

    def __init__(self, keys: set[Key], locations: Locations) -> None:
        self._keys = keys
        self._locations = locations
        self._paths = pa.array({key if isinstance(key, str) else key[0] for key in keys}, type=pa.string())

    def visible(self, batch: FileColumns) -> dict[str, pa.Array]:
        """What a checkpoint says of the other files. `path` is decoded, and `log_path` is the path as it is written."""
        decoded = live_files.decoded_paths(batch["path"], self._locations)
        found = {**batch, live_files.LOG_PATH: batch["path"], "path": decoded}
        return filtered(found, self._keep(found))

    def _keep(self, found: FileColumns) -> pa.Array | None:
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


@dataclass(frozen=True)
class Listing:
    """How rows of a file list are made of one checkpoint.

    Attributes:
        store: Where the table lies.
        name: The checkpoint's name.
        wanted: The columns of the list.
        pruner: Decides which files are asked for; None for all.
        facts: What the pruner needs to know.
        hidden: The files on which the checkpoint does not have the last word.
        zoneless: Physical paths of columns whose timestamps have no zone.
    """

    store: Store
    name: str
    wanted: tuple[str, ...]
    pruner: Pruner | None
    facts: tuple[str, ...]
    hidden: Hidden
    zoneless: frozenset[tuple[str, ...]]

    def of(self, part: ParquetPart | JsonPart, groups: Sequence[int] | None = None) -> Iterator[Counted]:
        """The files in a part of the checkpoint, or in some of its row groups."""
        schema = live_files.schema_of(self.wanted)
        fields = [pa.field(live_files.ON_DISK[field.name], field.type) for field in schema]
        read = [field.name for field in fields if field.name != live_files.LOG_PATH]
        choice = None if self.pruner is None else Choice(self.facts, self.pruner.keep)
        for seen, batch in part.adds(list(dict.fromkeys([*read, "deletionVector"])), choice, groups):
            found = self.hidden.visible(batch) if len(batch["path"]) else {}
            if not found or not len(found["path"]):
                yield seen, None
                continue
            if "stats" in self.wanted:
                found["stats"] = json_writer.of(found, self.zoneless)
            arrays = live_files.from_checkpoint(found, fields, "add", self.name)
            if "size" in self.wanted:
                live_files.check_sizes(arrays[self.wanted.index("size")], self.name)
            yield seen, pa.RecordBatch.from_arrays(arrays, schema=schema)

    def over(self, parts: Sequence[ParquetPart | JsonPart], workers: Workers) -> Iterator[Iterator[Counted]]:
        """The files in each part, listed by workers."""
        shares = [_shares(part) if isinstance(part, ParquetPart) else [] for part in parts]
        answers = iter(workers(self.answer, [share for some in shares for share in some]))
        for part, some in zip(parts, shares, strict=True):
            yield self._taken(part, [(share, next(answers)) for share in some]) if some else self.of(part)

    def answer(self, share: Share) -> bytes:
        """The files in a share, as a message; nothing if it cannot be read, so that whoever asked finds out why."""
        try:
            listed = list(self.of(ParquetPart(self.store, share.path), share.groups))
        except HaloclineError:
            return b""
        schema = live_files.schema_of(self.wanted).with_metadata({_SEEN: str(sum(seen for seen, _ in listed))})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            for _, batch in listed:
                if batch is not None:
                    writer.write_batch(batch.replace_schema_metadata(schema.metadata))
        return bytes(sink.getvalue())

    def _taken(self, part: ParquetPart | JsonPart, answers: Sequence[tuple[Share, bytes]]) -> Iterator[Counted]:
        for share, answer in answers:
            if not answer:
                yield from self.of(part, share.groups)
                continue
            with pa.ipc.open_stream(answer) as reader:
                yield int(reader.schema.metadata[_SEEN]), None
                for batch in reader:
                    yield 0, batch.replace_schema_metadata(None)


def _shares(part: ParquetPart) -> list[Share]:
    """The row groups of a file, as many together as have about the rows of one share."""
    found: list[list[int]] = []
    rows = _SHARE_ROWS
    for group, more in enumerate(part.file.group_rows):
        if rows >= _SHARE_ROWS:
            found.append([])
            rows = 0
        found[-1].append(group)
        rows += more
    return [Share(part.path, tuple(groups)) for groups in found]

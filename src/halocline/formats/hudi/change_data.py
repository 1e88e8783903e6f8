"""How rows changed: one row per change, with the row before and the row after it.

The columns are `op` (`i`nsert, `u`pdate, `d`elete), `ts_ms` (the instant, under the name that Hudi gives it), `before`
and `after`. Writers of a table with `hoodie.table.cdc.enabled` log changes beside the rows, in change blocks, where a
change cannot be told from the files alone; where they logged both images, those are read as they are. Everything else
is told by comparing the slice before an instant with the one after it: a new row is an insert, one that carries the
instant is an update, one that is gone is a delete. Compaction and clustering change no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import InputError, UnsupportedError
from halocline.formats.hudi.blocks.content import rows_of
from halocline.formats.hudi.blocks.frame import BlockType, CorruptSpan, read_blocks
from halocline.formats.hudi.configuration import CDC, CDC_MODE, META_FIELDS, ChangeLogging
from halocline.formats.hudi.evolution import fit_table
from halocline.formats.hudi.incremental import RangeWrite, read_range
from halocline.formats.hudi.merge.entries import BlockFilter
from halocline.formats.hudi.row_changes import RowChanges
from halocline.formats.hudi.slice_reader import SliceReader
from halocline.formats.hudi.slices import FileGroup, FileSlice, data_files, file_groups
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.table_schema import COMMIT_TIME, META_COLUMNS
from halocline.formats.hudi.timeline.timeline import CommittedInstants
from halocline.storage.base import Store


def change_schema(snapshot: HudiSnapshot) -> pa.Schema:
    """The columns of changes."""
    row = pa.struct([each for each in snapshot.schema.columns if each.name not in META_COLUMNS])
    return pa.schema([("op", pa.string()), ("ts_ms", pa.string()), ("before", row), ("after", row)])


@dataclass(frozen=True, slots=True)
class ChangePart:
    """What one write did to one file group: a small value that can travel to where the work is done.

    Attributes:
        time: The instant of the write.
        before: The slice before it; None if there was none.
        after: The slice after it; None if the write replaced the group.
        logged: Files in which the writer logged both images; empty if the slices are compared.
    """

    time: str
    before: FileSlice | None
    after: FileSlice | None
    logged: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The size of its slices in bytes."""
        return sum(each.size for each in (self.before, self.after) if each is not None)


@dataclass(frozen=True)
class HudiChanges:
    """How rows changed in a range of time. Made by `change_range`.

    Attributes:
        parts: What was done, in order.
        output: The columns of changes.
        images: What reads slices.
        committed: Which instants took effect.
    """

    parts: tuple[ChangePart, ...]
    output: pa.Schema
    images: SliceReader
    committed: CommittedInstants

    def read(self, store: Store, part: ChangePart) -> Iterator[pa.RecordBatch]:
        """The changes of one part.

        Raises:
            NotFoundError: Cleaning has removed a file that is needed to tell.
        """
        if part.logged:
            return self._logged(store, part.logged)
        before = self._rows(store, part.before, _just_before(part.time))
        return self._told(part.time, before, self._rows(store, part.after, part.time))

    def _logged(self, store: Store, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Changes that the writer logged with both images."""
        for path in paths:
            for block in read_blocks(store.get(path), path):
                if isinstance(block, CorruptSpan):
                    raise InputError(f"{path} is damaged: {block.problem}", condition="MALFORMED_LOG")
                if block.type is BlockType.CHANGE_DATA:
                    yield from fit_table(rows_of(block), self.output, str(block)).to_batches()

    def _rows(self, store: Store, slice: FileSlice | None, as_of: str) -> pa.Table:
        """The rows of a slice as of an instant; none if there is no slice."""
        reader = replace(self.images, counting=BlockFilter(self.committed, as_of))
        batches = [] if slice is None else list(reader.read(store, slice))
        return pa.Table.from_batches(batches, reader.output)

    def _told(self, time: str, before: pa.Table, after: pa.Table) -> Iterator[pa.RecordBatch]:
        """Changes that the rows before and after an instant tell."""
        assert self.images.keys is not None
        if COMMIT_TIME not in after.schema.names:
            raise UnsupportedError(
                "rows without meta columns do not tell which of them a write changed",
                sides={"table": f"{META_FIELDS}=false", "needed": f"both images, {CDC_MODE}=DATA_BEFORE_AFTER"},
                next_step="Compare the rows of two instants: to_df(version=...).",
            )
        written = np.asarray(pc.equal(after[COMMIT_TIME], time).fill_null(False))
        told = RowChanges.told(self.images.keys.of(before), self.images.keys.of(after), written)
        for op, _, _, was, now in told.images(before, after, self.output.field("before").type):
            columns = [pa.repeat(op, len(was)), pa.repeat(time, len(was)), was, now]
            yield pa.RecordBatch.from_arrays(columns, schema=self.output)


def change_range(snapshot: HudiSnapshot, begin: str | None = None, end: str | None = None) -> HudiChanges:
    """How rows changed in a range of time, `(begin, end]`; times as in `halocline.formats.hudi.incremental`.

    Raises:
        InputError: The table does not log changes (`CHANGE_FEED_OFF`), or a time is none.
    """
    if snapshot.config.change_logging is None:
        raise InputError(
            f"{snapshot.store.root} does not log changes",
            condition="CHANGE_FEED_OFF",
            sides={"table": f"{CDC}=false", "needed": f"{CDC}=true, from the creation of the table on"},
            next_step="Read the range of rows instead: incremental(begin, end).",
        )
    found = file_groups(snapshot.timeline, data_files(snapshot.store))
    groups = {(each.partition, each.file_id): each for each in found}
    parts = (part for write in read_range(snapshot, begin, end).writes for part in _parts(snapshot, write, groups))
    images = snapshot.reader(merging=True)
    return HudiChanges(tuple(parts), change_schema(snapshot), images, snapshot.timeline.committed)


def read_changes(snapshot: HudiSnapshot, begin: str | None = None, end: str | None = None) -> Iterator[pa.RecordBatch]:
    """The changes of `change_range`, one part after the other.

    Raises:
        InputError: The table does not log changes (`CHANGE_FEED_OFF`), or a time is none.
        NotFoundError: Cleaning has removed a file that is needed to tell.
    """
    changes = change_range(snapshot, begin, end)
    for part in changes.parts:
        yield from changes.read(snapshot.store, part)


def _parts(
    snapshot: HudiSnapshot, write: RangeWrite, groups: Mapping[tuple[str, str], FileGroup]
) -> Iterator[ChangePart]:
    """What one write did, group by group."""
    if write.metadata.is_service:
        return
    time = write.instant.time
    for key in write.metadata.replaced:
        yield ChangePart(time, _at(groups.get(key), _just_before(time)), None)
    both = snapshot.config.change_logging is ChangeLogging.DATA_BEFORE_AFTER
    for partition, stat in write.metadata.stats:
        if stat.cdc_stats and both:
            inside = f"{partition}/" if partition else ""
            paths = (name if name.startswith(inside) else inside + name for name in stat.cdc_stats)
            yield ChangePart(time, None, None, tuple(paths))
        elif stat.file_id:
            group = groups.get((partition, stat.file_id))
            yield ChangePart(time, _at(group, _just_before(time)), _at(group, time))


def _at(group: FileGroup | None, as_of: str) -> FileSlice | None:
    return None if group is None else group.slice_at(as_of)


def _just_before(time: str) -> str:
    """The last time before that of an instant."""
    return str(int(time) - 1).zfill(len(time))

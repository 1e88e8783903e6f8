"""How rows changed: one row per change, with the row before and the row after it.

The columns are `op` (`i`nsert, `u`pdate, `d`elete), `ts_ms` (the instant, under the name that Hudi gives it), `before`
and `after`. Writers of a table with `hoodie.table.cdc.enabled` log changes beside the rows, in change blocks, where a
change cannot be told from the files alone; where they logged both images, those are read as they are. Everything else
is told by comparing the slice before an instant with the one after it: a new row is an insert, one that carries the
instant is an update, one that is gone is a delete. Compaction and clustering change no row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import InputError
from halocline.formats.hudi.blocks.content import rows_of
from halocline.formats.hudi.blocks.frame import BlockType, CorruptSpan, read_blocks
from halocline.formats.hudi.configuration import CDC, ChangeLogging
from halocline.formats.hudi.evolution import fit_table
from halocline.formats.hudi.incremental import RangeWrite, read_range
from halocline.formats.hudi.merge.entries import BlockFilter
from halocline.formats.hudi.record_keys import RECORD_KEY
from halocline.formats.hudi.slices import FileGroup, data_files, file_groups
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.table_schema import COMMIT_TIME, META_COLUMNS
from halocline.formats.hudi.timeline.metadata import WriteStat

_TABLE_SERVICES: Final = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
"""Operations that change no row."""

INSERT: Final = "i"
UPDATE: Final = "u"
DELETE: Final = "d"


def change_schema(snapshot: HudiSnapshot) -> pa.Schema:
    """The columns of changes."""
    row = pa.struct([each for each in snapshot.schema.columns if each.name not in META_COLUMNS])
    return pa.schema([("op", pa.string()), ("ts_ms", pa.string()), ("before", row), ("after", row)])


def read_changes(snapshot: HudiSnapshot, begin: str | None = None, end: str | None = None) -> Iterator[pa.RecordBatch]:
    """How rows changed in a range of time, `(begin, end]`; times as in `halocline.formats.hudi.incremental`.

    Raises:
        InputError: The table does not log changes (`CHANGE_FEED_OFF`), or a time is none.
        NotFoundError: Cleaning has removed a file that is needed to tell.
    """
    if snapshot.config.change_logging is None:
        raise InputError(
            f"{snapshot.store.root} does not log changes",
            condition="CHANGE_FEED_OFF",
            sides={"table": f"{CDC}=false", "needed": f"{CDC}=true, from the creation of the table on"},
            next_step="Read the range of rows instead: incremental(begin, end).",
        )
    reader = _ChangeReader(snapshot)
    for write in read_range(snapshot, begin, end).writes:
        yield from reader.changes(write)


class _ChangeReader:
    def __init__(self, snapshot: HudiSnapshot) -> None:
        self._snapshot: Final = snapshot
        self._schema: Final = change_schema(snapshot)
        groups = file_groups(snapshot.timeline, data_files(snapshot.store))
        self._groups: Final = {(each.partition, each.file_id): each for each in groups}
        self._images: Final = snapshot.reader(merging=True)

    def changes(self, write: RangeWrite) -> Iterator[pa.RecordBatch]:
        """What one write changed."""
        if write.metadata.compacted or write.metadata.operation_type in _TABLE_SERVICES:
            return
        time = write.instant.time
        for key in write.metadata.replaced:
            before = self._rows(self._groups.get(key), _just_before(time))
            yield from self._told(time, before, before.slice(0, 0))
        both = self._snapshot.config.change_logging is ChangeLogging.DATA_BEFORE_AFTER
        for partition, stat in write.metadata.stats:
            if stat.cdc_stats and both:
                yield from self._logged(partition, stat)
            elif stat.file_id:
                group = self._groups.get((partition, stat.file_id))
                yield from self._told(time, self._rows(group, _just_before(time)), self._rows(group, time))

    def _logged(self, partition: str, stat: WriteStat) -> Iterator[pa.RecordBatch]:
        """Changes that the writer logged with both images."""
        for name in stat.cdc_stats or ():
            path = name if not partition or name.startswith(f"{partition}/") else f"{partition}/{name}"
            for block in read_blocks(self._snapshot.store.get(path), path):
                if isinstance(block, CorruptSpan):
                    raise InputError(f"{path} is damaged: {block.problem}", condition="MALFORMED_LOG")
                if block.type is BlockType.CHANGE_DATA:
                    yield from fit_table(rows_of(block), self._schema, str(block)).to_batches()

    def _rows(self, group: FileGroup | None, as_of: str) -> pa.Table:
        """The rows of a group as of an instant; none before it was there."""
        reader = replace(self._images, counting=BlockFilter(self._snapshot.timeline.committed, as_of))
        slice = None if group is None else group.slice_at(as_of)
        batches = [] if slice is None else list(reader.read(self._snapshot.store, slice))
        return pa.Table.from_batches(batches, reader.output)

    def _told(self, time: str, before: pa.Table, after: pa.Table) -> Iterator[pa.RecordBatch]:
        """Changes that the rows before and after an instant tell."""
        held = pc.index_in(after[RECORD_KEY], before[RECORD_KEY].combine_chunks()).combine_chunks()
        written = np.asarray(pc.equal(after[COMMIT_TIME], time).fill_null(False))
        was = np.asarray(held.is_valid())
        gone = np.asarray(pc.invert(pc.is_in(before[RECORD_KEY], after[RECORD_KEY].combine_chunks())))
        updated, inserted = np.flatnonzero(written & was), np.flatnonzero(written & ~was)
        places = np.asarray(held.fill_null(0), np.int64)
        nothing = pa.nulls(0)
        for op, old, new in (
            (DELETE, pa.array(np.flatnonzero(gone)), nothing),
            (UPDATE, pa.array(places[updated]), pa.array(updated)),
            (INSERT, nothing, pa.array(inserted)),
        ):
            count = max(len(old), len(new))
            if count:
                images = [self._image(before, old, count), self._image(after, new, count)]
                columns = [pa.repeat(op, count), pa.repeat(time, count), *images]
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _image(self, rows: pa.Table, places: pa.Array, count: int) -> pa.Array:
        type = self._schema.field("before").type
        if not len(places):
            return pa.nulls(count, type)
        columns = [rows[field.name].take(places).combine_chunks() for field in type]
        return pa.StructArray.from_arrays(columns, fields=list(type))


def _just_before(time: str) -> str:
    """The last time before that of an instant."""
    return str(int(time) - 1).zfill(len(time))

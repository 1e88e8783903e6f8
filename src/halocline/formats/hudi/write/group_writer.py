"""Rows of one write into one file group: a small value that can travel to where the rows are.

New groups get a base file. In a copy-on-write table the rows of a group that is there are merged with its base file
into a new one, by the rule that readers of log files merge by; in a merge-on-read table they go to a log file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.hudi.blocks.deletes import DeletedKey
from halocline.formats.hudi.configuration import HudiTableConfig, TableType
from halocline.formats.hudi.merge.log_state import LogState, row_state
from halocline.formats.hudi.merge.merged_rows import BaseMerge
from halocline.formats.hudi.record_keys import RECORD_KEY
from halocline.formats.hudi.slice_reader import SliceReader
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.table_schema import COMMIT_TIME
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.formats.hudi.write.base_writer import with_meta_columns, write_base_file
from halocline.formats.hudi.write.log_writer import write_log_file
from halocline.storage.base import Store


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """A file group that a write goes to.

    Attributes:
        partition: The partition path.
        file_id: The file group.
        slice: Its newest slice; None if the group is new.
        log_instant: The instant in the names of its new log files, where a pending compaction has fixed it.
    """

    partition: str
    file_id: str
    slice: FileSlice | None = None
    log_instant: str | None = None


@dataclass(frozen=True)
class GroupWriter:
    """What writes rows into file groups.

    Attributes:
        store: Where the table lies.
        config: What it is.
        reader: Reads slices, with all columns that the table is going to have.
        schema: Those columns as Avro's JSON, without the meta columns.
        instant: The instant of the write.
        unique: Whether rows with the same key become one.
    """

    store: Store
    config: HudiTableConfig
    reader: SliceReader
    schema: str
    instant: str
    unique: bool = True

    def write(
        self, target: WriteTarget, rows: pa.Table, keys: pa.Array, deletes: pa.Array, token: str, task: int = 0
    ) -> WriteStat | None:
        """Writes rows, and takes others out; None if there is nothing to write.

        Args:
            target: The file group.
            rows: The rows, with the table's own columns.
            keys: Their keys.
            deletes: The keys to delete.
            token: The attempt.
            task: The number of the task.

        Raises:
            ConstraintError: A row has no key.
        """
        marked = with_meta_columns(rows, keys, target.partition, target.file_id, self.instant, task)
        marked = marked.select(self.reader.schema.names).cast(self.reader.output)
        gone = [DeletedKey(key, target.partition) for key in deletes.to_pylist()]
        if target.slice is None:
            alive = self._alive(self._state(marked, [])) if self.unique else marked
            return self._base(target, alive, token, None) if alive.num_rows else None
        state = self._state(marked, gone)
        if self.config.type is TableType.MERGE_ON_READ:
            return self._log(target, target.slice, state, token)
        return self._rewritten(target, target.slice, state, token)

    def _state(self, rows: pa.Table, deletes: list[DeletedKey]) -> LogState:
        assert self.reader.rule is not None
        assert self.reader.keys is not None
        return row_state(rows, deletes, self.reader.rule, self.reader.keys, self.reader.defaults)

    def _alive(self, state: LogState) -> pa.Table:
        return state.rows.filter(pa.array(~state.deleted))

    def _log(self, target: WriteTarget, slice: FileSlice, state: LogState, token: str) -> WriteStat:
        named = slice
        if target.log_instant is not None:
            # The pending compaction merges what it has planned to, so newer log files belong to what it will make.
            named = replace(slice, base=None, instant=target.log_instant)
        dead = state.keys.filter(pa.array(state.deleted)).to_pylist()
        rows = self._alive(state)
        return write_log_file(
            self.store,
            rows if rows.num_rows else None,
            [DeletedKey(key, target.partition) for key in dead],
            schema=self.schema,
            slice=named,
            layout=self.config.layout,
            token=token,
            instant=self.instant,
        )

    def _rewritten(self, target: WriteTarget, slice: FileSlice, state: LogState, token: str) -> WriteStat:
        assert self.reader.rule is not None
        assert self.reader.keys is not None
        batches = list(self.reader.read(self.store, slice))
        before = pa.Table.from_batches(batches, self.reader.output)
        merge = BaseMerge(state, self.reader.rule, self.reader.keys, self.reader.defaults)
        after = pa.concat_tables([self.reader.output.empty_table(), *merge.rows([before])])
        ours = np.asarray(pc.equal(after[COMMIT_TIME], self.instant).fill_null(False))
        new = ours & ~np.asarray(pc.is_in(after[RECORD_KEY], before[RECORD_KEY].combine_chunks()))
        inserted, written = int(new.sum()), int(ours.sum())
        counts = inserted, written - inserted, before.num_rows + inserted - after.num_rows
        return self._base(target, after, token, slice.instant, counts)

    def _base(
        self,
        target: WriteTarget,
        rows: pa.Table,
        token: str,
        previous: str | None,
        counts: tuple[int, int, int] | None = None,
    ) -> WriteStat:
        return write_base_file(
            self.store,
            rows,
            partition=target.partition,
            file_id=target.file_id,
            token=token,
            instant=self.instant,
            previous=previous,
            counts=counts,
        )

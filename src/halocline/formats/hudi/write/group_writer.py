"""Rows of one write into one file group: a small value that can travel to where the rows are.

New groups get a base file, and small ones that take new rows get another. In a copy-on-write table the rows of a group
that is there are merged with its base file into a new one, by the rule that readers of log files merge by; in a
merge-on-read table they go to a log file. Where the table logs changes, a base file that is written anew comes with a
file that tells them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.hudi.blocks.deletes import DeletedKey
from halocline.formats.hudi.configuration import HudiTableConfig, TableType
from halocline.formats.hudi.merge.log_state import LogState, row_state
from halocline.formats.hudi.merge.merged_rows import BaseMerge
from halocline.formats.hudi.row_changes import RowChanges
from halocline.formats.hudi.slice_reader import SliceReader
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.table_schema import COMMIT_TIME, META_COLUMNS
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.formats.hudi.write.base_writer import check_keys, with_meta_columns, write_base_file
from halocline.formats.hudi.write.change_log import change_rows, write_change_file
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
        takes_new: Whether new rows are added to it; its base file is written anew, whichever type the table has.
    """

    partition: str
    file_id: str
    slice: FileSlice | None = None
    log_instant: str | None = None
    takes_new: bool = False


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
        aside: Whether base files are put aside until they are known to count (see `files_aside`).
    """

    store: Store
    config: HudiTableConfig
    reader: SliceReader
    schema: str
    instant: str
    unique: bool = True
    aside: bool = False

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
        check_keys(keys)
        marked = rows
        if self.config.meta_fields:
            marked = with_meta_columns(rows, keys, target.partition, target.file_id, self.instant, task)
        marked = marked.select(self.reader.schema.names).cast(self.reader.output)
        gone = [DeletedKey(key, target.partition) for key in deletes.to_pylist()]
        if target.slice is None:
            alive = self._alive(self._state(marked, [])) if self.unique else marked
            return self._base(target, alive, token, None) if alive.num_rows else None
        state = self._state(marked, gone)
        if self.config.type is TableType.MERGE_ON_READ and not target.takes_new:
            return self._log(target, target.slice, state, token)
        return self._rewritten(target, target.slice, state, token, marked)

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
            tells_slice=self.config.change_logging is not None,
        )

    def _rewritten(
        self, target: WriteTarget, slice: FileSlice, state: LogState, token: str, rows: pa.Table
    ) -> WriteStat:
        assert self.reader.rule is not None
        assert self.reader.keys is not None
        batches = list(self.reader.read(self.store, slice))
        before = pa.Table.from_batches(batches, self.reader.output)
        if not self.unique:  # rows are added to what is there, whether it has their keys or not
            return self._base(target, pa.concat_tables([before, rows]), token, slice, (rows.num_rows, 0, 0))
        merge = BaseMerge(state, self.reader.rule, self.reader.keys, self.reader.defaults)
        after = pa.concat_tables([self.reader.output.empty_table(), *merge.rows([before])])
        keys = self.reader.keys.of(before), self.reader.keys.of(after)
        told = RowChanges.told(*keys, self._written(after, keys[1], state))
        inserted = len(told.inserted)
        counts = inserted, len(told.updated), before.num_rows + inserted - after.num_rows
        changes = self._logged(target, token, told, (before, after), keys)
        return self._base(target, after, token, slice, counts, changes)

    def _written(self, rows: pa.Table, keys: pa.Array, state: LogState) -> npt.NDArray[np.bool_]:
        """Which rows this write wrote. Where rows do not say, those of its keys: one that lost counts as well."""
        if self.config.meta_fields:
            return np.asarray(pc.equal(rows[COMMIT_TIME], self.instant).fill_null(False))
        return np.asarray(pc.is_in(keys, state.keys.filter(pa.array(~state.deleted))))

    def _logged(
        self,
        target: WriteTarget,
        token: str,
        told: RowChanges,
        rows: tuple[pa.Table, pa.Table],
        keys: tuple[pa.Array, pa.Array],
    ) -> dict[str, int]:
        """The change file that tells of the changes, if the table logs them."""
        if self.config.change_logging is None:
            return {}
        row = pa.struct([each for each in self.reader.output if each.name not in META_COLUMNS])
        return write_change_file(
            self.store,
            change_rows(told, *rows, keys, row, self.instant),
            logging=self.config.change_logging,
            schema=self.schema,
            partition=target.partition,
            file_id=target.file_id,
            token=token,
            instant=self.instant,
        )

    def _base(
        self,
        target: WriteTarget,
        rows: pa.Table,
        token: str,
        previous: FileSlice | None,
        counts: tuple[int, int, int] | None = None,
        changes: Mapping[str, int] | None = None,
    ) -> WriteStat:
        return write_base_file(
            self.store,
            rows,
            partition=target.partition,
            file_id=target.file_id,
            token=token,
            instant=self.instant,
            previous=None if previous is None else previous.instant,
            previous_base=None if previous is None else previous.base,
            counts=counts,
            changes=changes,
            aside=self.aside,
        )

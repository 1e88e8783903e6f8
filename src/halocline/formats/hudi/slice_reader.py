"""Reading one file slice: a small value that can travel to where the work is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.hudi.base_file import open_base_file
from halocline.formats.hudi.evolution import fit_table
from halocline.formats.hudi.merge.entries import BlockFilter, log_blocks
from halocline.formats.hudi.merge.log_state import Indices as Positions
from halocline.formats.hudi.merge.log_state import read_log_state
from halocline.formats.hudi.merge.merged_rows import BaseMerge
from halocline.formats.hudi.merge.rules import IS_DELETED, OPERATION, MergeRule
from halocline.formats.hudi.record_keys import KeyColumns
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.table_schema import COMMIT_TIME
from halocline.storage.base import Store


@dataclass(frozen=True, slots=True)
class CommitFilter:
    """Which rows count, by the instant that wrote them.

    Attributes:
        times: The instants; any if None.
        after: The instant after which they count; from the first on if None.
        until: The last one that counts; up to the newest if None.
    """

    times: frozenset[str] | None = None
    after: str | None = None
    until: str | None = None

    def chosen(self, table: pa.Table) -> pa.Table:
        """The rows that count."""
        if self.times is not None:
            table = table.filter(pc.is_in(table[COMMIT_TIME], pa.array(sorted(self.times), pa.string())))
        if self.after is not None:
            table = table.filter(pc.greater(table[COMMIT_TIME], self.after))
        if self.until is not None:
            table = table.filter(pc.less_equal(table[COMMIT_TIME], self.until))
        return table


@dataclass(frozen=True)
class SliceReader:
    """How the slices of a table are read.

    Attributes:
        schema: The columns of the table.
        columns: The columns to give, in order.
        counting: Which blocks of log files count.
        rule: How versions of a row are merged; None if the table has no log files.
        keys: Where the key of a row stands; None likewise.
        defaults: The defaults of columns.
        commits: Which rows count, by the instant that wrote them; all if None.
    """

    schema: pa.Schema
    columns: tuple[str, ...]
    counting: BlockFilter
    rule: MergeRule | None = None
    keys: KeyColumns | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    commits: CommitFilter | None = None

    def read(self, store: Store, slice: FileSlice) -> Iterator[pa.RecordBatch]:
        """The rows of a slice.

        Raises:
            MalformedError: A file is damaged.
            NotFoundError: A file is not there any more.
            SchemaError: A file does not fit the schema.
            UnsupportedError: A file holds what this release does not read.
        """
        for table in self._tables(store, slice):
            for batch in self._chosen(table).to_batches():
                if batch.num_rows:
                    yield batch

    def read_changed(self, store: Store, slice: FileSlice) -> Iterator[pa.RecordBatch]:
        """The rows of a slice that are not as its base file has them; see `read` for what it raises."""
        merge = self._merge(store, slice)
        if merge is None:
            return
        merging = self._merging(merge.rule, merge.keys)
        needed = self._needed(merging) if merge.fills else self._only(merging)
        for table in merge.changed(self._base(store, slice, needed)):
            for batch in self._chosen(table).to_batches():
                if batch.num_rows:
                    yield batch

    def read_gone(self, store: Store, slice: FileSlice) -> Iterator[Positions]:
        """The positions of the rows of a slice's base file that do not hold any more; see `read` for what it raises."""
        merge = self._merge(store, slice)
        if merge is not None:
            yield from merge.gone(self._base(store, slice, self._only(self._merging(merge.rule, merge.keys))))

    def _merge(self, store: Store, slice: FileSlice) -> BaseMerge | None:
        """What merges the log files of a slice into its base file; None if there is nothing to merge."""
        if not slice.logs or self.rule is None or self.keys is None:
            return None
        blocks = log_blocks(store, slice.logs, self.counting)
        if not blocks:
            return None
        needed = self._needed(self._merging(self.rule, self.keys))
        state = read_log_state(blocks, needed, self.rule, self.keys, self.defaults)
        return BaseMerge(state, self.rule, self.keys, self.defaults)

    def _only(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([each.with_nullable(True) for each in self.schema if each.name in names])

    @property
    def output(self) -> pa.Schema:
        """The columns that it gives."""
        return pa.schema([self.schema.field(name).with_nullable(True) for name in self.columns])

    def _tables(self, store: Store, slice: FileSlice) -> Iterator[pa.Table]:
        merge = self._merge(store, slice)
        if merge is None:
            yield from self._base(store, slice, self._needed(()))
            return
        yield from merge.rows(self._base(store, slice, self._needed(self._merging(merge.rule, merge.keys))))

    def _base(self, store: Store, slice: FileSlice, schema: pa.Schema) -> Iterator[pa.Table]:
        if slice.base is None:
            return
        for batch in open_base_file(store, slice.base).batches(schema.names):
            yield fit_table(batch, schema, slice.base.path, self.defaults)

    def _merging(self, rule: MergeRule, keys: KeyColumns) -> Sequence[str]:
        marker = () if rule.marker is None else (rule.marker.column,)
        return (*keys.names, *rule.ordering_fields, IS_DELETED, OPERATION, *marker)

    def _needed(self, more: Sequence[str]) -> pa.Schema:
        """The columns to read: those asked for, and those that the merge looks at."""
        wanted = {*self.columns, *more, *(() if self.commits is None else (COMMIT_TIME,))}
        return pa.schema([each.with_nullable(True) for each in self.schema if each.name in wanted])

    def _chosen(self, table: pa.Table) -> pa.Table:
        table = table if self.commits is None else self.commits.chosen(table)
        return table.select(self.columns)

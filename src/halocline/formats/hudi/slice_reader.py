"""Reading one file slice: a small value that can travel to where the work is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from halocline.formats.hudi.base_file import OpenBaseFile, open_base_file
from halocline.formats.hudi.blocks.frame import LogBlock
from halocline.formats.hudi.evolution import fit_table
from halocline.formats.hudi.merge.entries import BlockFilter, log_blocks
from halocline.formats.hudi.merge.log_state import read_log_state
from halocline.formats.hudi.merge.merged_rows import BaseMerge
from halocline.formats.hudi.merge.rules import IS_DELETED, OPERATION, MergeRule
from halocline.formats.hudi.names import BaseFile
from halocline.formats.hudi.record_keys import KeyColumns
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.table_schema import COMMIT_TIME, META_COLUMNS
from halocline.storage.base import Store

_FEW_VALUES: Final = (COMMIT_TIME, *META_COLUMNS[3:])
"""Columns that are the same in all rows of a file, or nearly so: they say which write wrote it, and where."""


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


@dataclass(frozen=True, slots=True)
class SliceHalves:
    """The rows of a slice in two halves: those of its base file that still hold, and those of its log files that do.

    Attributes:
        gone: The positions of the rows of the base file that do not hold any more.
        beaten: The numbers of the keys of the log files, in the order of these, whose rows the base file beats.
    """

    gone: BitMap64
    beaten: BitMap64


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

    def halves(self, store: Store, slice: FileSlice) -> SliceHalves | None:
        """The two halves of a slice, by the columns that the merge looks at; see `read` for what it raises.

        None if rows take values from older ones: such a slice is only read whole.
        """
        blocks = self._blocks(store, slice)
        if not blocks:
            return SliceHalves(BitMap64(), BitMap64())
        only = self._only(self._merging)
        merge = self._merge(blocks, only)
        if merge.fills or any(each.is_partial for each in blocks):
            return None
        keys = () if slice.base is None else self._row_groups(open_base_file(store, slice.base), slice.base, only)
        return SliceHalves(*map(BitMap64, merge.halves(each for each, _ in keys)))

    def read_changed(self, store: Store, slice: FileSlice, beaten: BitMap64) -> Iterator[pa.RecordBatch]:
        """The half of a slice that its log files hold; see `read` for what it raises."""
        if blocks := self._blocks(store, slice):
            rows = self._merge(blocks, self._needed(self._merging)).changed(np.asarray(beaten.to_array(), np.int64))
            yield from self._chosen(rows).to_batches()

    def _blocks(self, store: Store, slice: FileSlice) -> Sequence[LogBlock]:
        """What of its log files is merged into the base file of a slice."""
        return () if self.rule is None or not slice.logs else log_blocks(store, slice.logs, self.counting)

    def _merge(self, blocks: Sequence[LogBlock], schema: pa.Schema) -> BaseMerge:
        if self.rule is None or self.keys is None:
            raise TypeError("a reader without a rule merges nothing")
        state = read_log_state(blocks, schema, self.rule, self.keys, self.defaults)
        return BaseMerge(state, self.rule, self.keys, self.defaults)

    def _only(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([each.with_nullable(True) for each in self.schema if each.name in names])

    @property
    def output(self) -> pa.Schema:
        """The columns that it gives."""
        return pa.schema([self.schema.field(name).with_nullable(True) for name in self.columns])

    def _tables(self, store: Store, slice: FileSlice) -> Iterator[pa.Table]:
        blocks = self._blocks(store, slice)
        if not blocks:
            yield from self._base(store, slice, self._needed(()))
            return
        needed = self._needed(self._merging)
        merge = self._merge(blocks, needed)
        if merge.fills or slice.base is None:
            yield from merge.rows(self._base(store, slice, needed))
            return
        opened, beaten = open_base_file(store, slice.base, _FEW_VALUES), [np.empty(0, np.int64)]
        for keys, batches in self._row_groups(opened, slice.base, self._only(self._merging), needed.names):
            found = merge.met_in(keys)
            beaten.append(found.beaten)
            for batch in found.left(batches):
                yield fit_table(opened.plain(batch), needed, slice.base.path, self.defaults)
        yield merge.changed(np.concatenate(beaten))

    def _base(self, store: Store, slice: FileSlice, schema: pa.Schema) -> Iterator[pa.Table]:
        if slice.base is None:
            return
        opened = open_base_file(store, slice.base, _FEW_VALUES)
        for batch in opened.batches(schema.names):
            yield fit_table(opened.plain(pa.Table.from_batches([batch])), schema, slice.base.path, self.defaults)

    def _row_groups(
        self, opened: OpenBaseFile, base: BaseFile, schema: pa.Schema, then: Sequence[str] = ()
    ) -> Iterator[tuple[pa.Table, Iterator[pa.Table]]]:
        """Some columns of each row group as the table has them, and its batches with others as the file has them."""
        for whole, batches in opened.row_groups(schema.names, then):
            yield fit_table(whole, schema, base.path, self.defaults), batches

    @property
    def _merging(self) -> Sequence[str]:
        """The columns that the merge looks at."""
        if self.rule is None or self.keys is None:
            return ()
        marker = () if self.rule.marker is None else (self.rule.marker.column,)
        return (*self.keys.names, *self.rule.ordering_fields, IS_DELETED, OPERATION, *marker)

    def _needed(self, more: Sequence[str]) -> pa.Schema:
        """The columns to read: those asked for, and those that the merge looks at."""
        wanted = {*self.columns, *more, *(() if self.commits is None else (COMMIT_TIME,))}
        return pa.schema([each.with_nullable(True) for each in self.schema if each.name in wanted])

    def _chosen(self, table: pa.Table) -> pa.Table:
        table = table if self.commits is None else self.commits.chosen(table)
        return table.select(self.columns)

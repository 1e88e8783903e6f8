"""A Hudi table at an instant: what it is, which slices it consists of, and its rows.

A `HudiSnapshot` is made behind the gate: the table version is checked for the release that acts, before anything else
is read. One you hold is one you may read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property

import pyarrow as pa

from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.errors import InputError, NotFoundError, UnsupportedError
from halocline.formats.hudi.completeness import check_complete
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.merge.entries import BlockFilter
from halocline.formats.hudi.merge.rules import Dialect, MergeRule, Ordering, merge_rule
from halocline.formats.hudi.names import BaseFile, LogFile
from halocline.formats.hudi.properties import read_properties
from halocline.formats.hudi.record_keys import key_columns
from halocline.formats.hudi.slice_reader import SliceReader
from halocline.formats.hudi.slices import FileGroup, FileSlice, data_files, file_groups, files_beside_timeline
from halocline.formats.hudi.table_schema import TableSchema, table_schema
from halocline.formats.hudi.terms import has_rows_outside, table_terms
from halocline.formats.hudi.timeline.instant import CLEAN, checked_time, instant_text, order
from halocline.formats.hudi.timeline.metadata import CleanMetadata
from halocline.formats.hudi.timeline.timeline import HudiTimeline, pending_actions
from halocline.formats.log.gate import check_access, own_release
from halocline.html import ShownVersion
from halocline.storage.base import Store


class HudiQuery(StrEnum):
    """What of a table is read."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"


@dataclass(frozen=True, eq=False, repr=False)
class HudiSnapshot(ShownVersion):
    """A table at an instant. Made by `HudiSnapshot.load`.

    Attributes:
        store: Where the table lies.
        config: What it is.
        timeline: What was done to it.
        terms: What it requires of whoever uses it.
        as_of: The instant; None for the newest.
        dialect: Whose reading of the merge rule holds; None for that of the release that made the table.
        release: Who acts.
        operation: What was asked for.
        level: At which level of its ladder a fleet allows the table to be used; None without a fleet.
    """

    store: Store
    config: HudiTableConfig
    timeline: HudiTimeline
    terms: Terms
    as_of: str | None
    dialect: Dialect | None
    release: Release
    operation: str = "read"
    level: int | None = None

    @staticmethod
    def load(
        store: Store,
        *,
        as_of: str | datetime | None = None,
        dialect: Dialect | str | None = None,
        release: Release | str | None = None,
        operation: str = "read",
    ) -> HudiSnapshot:
        """Opens a table, if the release may.

        Args:
            store: Where the table lies.
            as_of: An instant, or a time; the newest instant if not given.
            dialect: Whose reading of the merge rule holds, `0.x` or `1.x`.
            release: Who acts; this release of Halocline if not given.
            operation: What it wants to do.

        Raises:
            IncompatibleError: The release does not know the table version.
            MalformedError: The properties or the timeline are damaged.
            NotFoundError: There is no table, or its files of that instant are gone.
            UnsupportedError: The table is of a kind that is not read.
        """
        pairs = read_properties(store).pairs
        actor = own_release() if release is None else Release.parse(release)
        terms = table_terms(pairs, store.root)
        check_access(actor, terms, operation, store.root)
        config = HudiTableConfig.parse(pairs, store.root)
        timeline = HudiTimeline.load(store, config)
        pending, outside = pending_actions(timeline.instants), has_rows_outside(store, pairs, timeline.instants)
        if pending or outside:
            terms = table_terms(pairs, store.root, pending, rows_outside=outside)
            check_access(actor, terms, operation, store.root)
        moment = None
        if as_of is not None:
            moment = instant_text(as_of, config) if isinstance(as_of, datetime) else checked_time(as_of)
        chosen = None if dialect is None else _dialect(dialect)
        snapshot = HudiSnapshot(store, config, timeline, terms, moment, chosen, actor, operation)
        if moment is not None:
            snapshot._check_begun(moment)
            snapshot._check_not_cleaned(moment)
        return snapshot

    @property
    def version(self) -> int:
        """The time of the last write that it shows, as a number; 0 if there is none."""
        times = (each.time for each in self.timeline.writes)
        shown = (time for time in times if self.as_of is None or order(time) <= order(self.as_of))
        return int(max(shown, key=order, default="0"))

    @property
    def protocol(self) -> Protocol:
        """What the table requires."""
        return self.terms.protocol

    def reopened(self, operation: str) -> HudiSnapshot:
        """The same instant for another operation, behind the gate once more.

        Raises:
            IncompatibleError: The release may not.
        """
        if operation == self.operation:
            return self
        check_access(self.release, self.terms, operation, self.store.root)
        return replace(self, operation=operation)

    def is_newest(self) -> bool:
        """Whether the properties and the timeline are as they were when it was opened."""
        config = HudiTableConfig.parse(read_properties(self.store).pairs, self.store.root)
        if config.pairs != self.config.pairs:
            return False
        return HudiTimeline.load(self.store, config).instants == self.timeline.instants

    def at_level(self, level: int) -> HudiSnapshot:
        """The same instant, used at a level of Hudi's ladder and no higher."""
        return replace(self, level=level)

    @cached_property
    def groups(self) -> tuple[FileGroup, ...]:
        """The file groups that hold rows at this instant."""
        replaced = self.timeline.replaced_groups(self.as_of)
        found = file_groups(self.timeline, self._files)
        return tuple(each for each in found if (each.partition, each.file_id) not in replaced)

    @cached_property
    def slices(self) -> tuple[FileSlice, ...]:
        """The file slices that hold the rows at this instant.

        Raises:
            MalformedError: A file or an instant of the table is not what it was.
            NotFoundError: A file of the table is lost.
        """
        found = tuple(found for group in self.groups if (found := group.slice_at(self.as_of)) is not None)
        check_complete(self.timeline, self._files, found, self.as_of)
        return found

    @cached_property
    def _files(self) -> tuple[BaseFile | LogFile, ...]:
        return (*data_files(self.store), *files_beside_timeline(self.timeline))

    @cached_property
    def schema(self) -> TableSchema:
        """The columns of the table at this instant."""
        return table_schema(self.timeline, self._newest_bases(), self.as_of)

    def reader(self, columns: Sequence[str] | None = None, *, merging: bool = True) -> SliceReader:
        """What reads the slices.

        Args:
            columns: The columns to give; all if not given.
            merging: Whether log files are merged; a read-optimised query leaves them aside.

        Raises:
            InputError: There is no such column.
            UnsupportedError: Rows are merged by code that only the table's owner has.
        """
        schema = self.schema.columns
        return SliceReader(
            schema=schema,
            columns=tuple(schema.names) if columns is None else _known(columns, schema),
            counting=BlockFilter(self.timeline.committed, self.as_of),
            rule=self._rule() if merging else None,
            keys=key_columns(self.config) if merging else None,
            defaults=self.schema.defaults,
        )

    def read(
        self, columns: Sequence[str] | None = None, *, query: HudiQuery | str = HudiQuery.SNAPSHOT
    ) -> Iterator[pa.RecordBatch]:
        """The rows, slice by slice.

        Args:
            columns: The columns to give; all if not given.
            query: `snapshot`, or `read_optimized`, which leaves log files aside.
        """
        merging = HudiQuery(query) is HudiQuery.SNAPSHOT and any(each.logs for each in self.slices)
        reader = self.reader(columns, merging=merging)
        for slice in self.slices:
            yield from reader.read(self.store, slice)

    def _rule(self) -> MergeRule:
        """The merge rule, without ordering fields that no row has: nothing compares by them, as in Apache Hudi."""
        rule, names = merge_rule(self.config, self.dialect), self.schema.columns.names
        nested = next((each for each in rule.ordering_fields if "." in each and each not in names), None)
        if nested is not None:
            raise UnsupportedError(
                f"rows of {self.store.root} are ordered by {nested}, which is inside another column",
                sides={"table": f"ordering field {nested}", "halocline orders by": "columns of the table itself"},
                next_step='Read without log files: query="read_optimized".',
            )
        held = tuple(each for each in rule.ordering_fields if each in names)
        if held:
            return replace(rule, ordering_fields=held)
        by_time = Ordering.COMMIT_TIME
        return replace(rule, ordering_fields=(), in_logs=by_time, with_base=by_time)

    def _newest_bases(self) -> Iterator[BaseFile]:
        bases = (each.base for each in self.slices if each.base is not None)
        return iter(sorted(bases, key=lambda each: order(each.instant), reverse=True))

    def _check_begun(self, as_of: str) -> None:
        """Refuses an instant before the first write of all."""
        first = min((each.time for each in self.timeline.writes), key=order, default=None)
        if first is None or order(as_of) >= order(first) or next(self.timeline.history(), None) is not None:
            return
        raise NotFoundError(
            f"{self.store.root} had no rows as of {as_of}",
            condition="VERSION_NOT_FOUND",
            sides={"asked for": as_of, "first write": first},
            next_step=f"Ask for {first} or a later instant.",
        )

    def _check_not_cleaned(self, as_of: str) -> None:
        """Refuses an instant whose files a cleaning may have removed."""
        cleans = [each for each in self.timeline.instants if each.action == CLEAN and each.is_completed]
        if not cleans:
            return
        newest = max(cleans, key=lambda each: order(each.time))
        said = CleanMetadata.parse(self.timeline.body(newest).record, newest.path)
        earliest = said.earliest_commit_to_retain or self.timeline.start or ""
        if order(as_of) < order(earliest):
            raise NotFoundError(
                f"the files of {self.store.root} as of {as_of} have been cleaned",
                condition="VERSION_NOT_FOUND",
                sides={"asked for": as_of, "kept": f"instants from {earliest} on"},
                next_step=f"Ask for {earliest} or a later instant.",
            )


def _dialect(dialect: Dialect | str) -> Dialect:
    if dialect not in tuple(Dialect):
        raise InputError(
            f"there is no dialect {dialect!r}",
            sides={"given": str(dialect), "known": ", ".join(Dialect)},
            next_step="Name one of them.",
        )
    return Dialect(dialect)


def _known(columns: Sequence[str], schema: pa.Schema) -> tuple[str, ...]:
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise InputError(
            f"there is no column {missing[0]!r}",
            condition="COLUMN_NOT_FOUND",
            sides={"asked for": ", ".join(missing), "table has": ", ".join(schema.names[:20])},
            next_step="Use one of the table's columns.",
        )
    return tuple(columns)

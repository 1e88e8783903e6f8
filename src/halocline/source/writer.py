"""Writing through the data source: workers write files, and the driver's side commits them as one version.

A `RowSink` is opened behind the gate before any row is computed. It goes to the workers, which fit the rows and write
files that nobody knows yet; then it commits, or it deletes what was written. The commit starts from the newest version,
which must still be the table that the rows were fitted to.

No SQL can be evaluated where this runs, so a table with rules or columns that need it is refused with the way to write
it, `Table.append`; see `halocline.spark.write.arrow_rules`. A table that does not exist is created with the least
protocol its columns need.

Under a fleet, the rows are written before the operation begins: files that no version refers to act on nobody. The
commit is the operation; it opens the table anew, and so goes by the levels of that moment.

Spark calls `abort` also after a commit whose outcome it did not learn. What is in the table by then, or may come to be
in it, is never deleted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from halocline.errors import (
    AlreadyExistsError,
    ConflictError,
    HaloclineError,
    InputError,
    NotFoundError,
    SchemaError,
    UnsupportedError,
)
from halocline.formats.base import TableFormat, formats_at
from halocline.formats.delta.actions.action import Metadata
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import system_clock
from halocline.formats.delta.configuration.commit_rules import check_removable
from halocline.formats.delta.configuration.table_configuration import TableConfiguration, new_table
from halocline.formats.delta.features.approval import approve_change
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.delta.stats.row_filter import RowFilter
from halocline.schema.types import Struct
from halocline.schema.visitor import nullable
from halocline.source.options import SourceOptions, check_replacing
from halocline.source.replacement import check_rows, replaced
from halocline.spark.scan.file_rows import shown_schema
from halocline.spark.session.file_system import remove_folder
from halocline.spark.types import input_schema
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.write import beginnings
from halocline.spark.write.arrow_fit import ArrowFit
from halocline.spark.write.arrow_rules import ArrowRules
from halocline.spark.write.arrow_write import ArrowWriter, WrittenFile
from halocline.table.delta.new_table import spelt
from halocline.table.delta.opened import Opened
from halocline.table.delta.rows.changes import Changed
from halocline.table.delta.rows.counts import figures
from halocline.table.delta.rows.files import Layout
from halocline.table.delta.write import Replacement, WriteRequest, target_state

OPERATION: Final = "write"


@dataclass(frozen=True)
class RowSink:
    """Where the rows of one DataFrame go.

    Attributes:
        asked: The options of the write.
        state: What the table is, or is going to be.
        before: What the table was when the sink was opened; None if it did not exist.
        writer: Writes files.
        fit: Fits rows.
        rules: Checks rows.
        request: What the write does with them.
        condition: Which rows are replaced, if not all.
    """

    asked: SourceOptions
    state: TableConfiguration
    before: Metadata | None
    writer: ArrowWriter
    fit: ArrowFit
    rules: ArrowRules
    request: WriteRequest
    condition: RowFilter | None

    @staticmethod
    def open(asked: SourceOptions, schema: Struct, *, overwrite: bool, is_stream: bool = False) -> RowSink:
        """Finds the table, or decides what it is going to be, and checks that rows with these columns fit."""
        request = _request(asked, overwrite, is_stream)
        opened = asked.opened(Opened)
        snapshot = _snapshot(opened)
        if snapshot is None and not asked.data_change:
            raise InputError(
                "a table that does not exist has no rows to lay out otherwise",
                sides={"given": "dataChange=false", "table": opened.url},
                next_step="Leave dataChange out.",
            )
        opened.check_may_change("write")
        if snapshot is None and not overwrite and not is_stream:
            # An overwrite means the files that are there, and a stream may have left some when it was killed.
            opened.check_free()
        state = _state(asked, request, opened, snapshot, schema)
        rules = ArrowRules.of(state, schema, opened.url, asked.zone)
        if overwrite and snapshot is not None:
            check_removable(state, "an overwrite", opened.url)
        condition = None
        if asked.replace_where is not None:
            condition = RowFilter.parse(asked.replace_where, state.columns, asked.zone)
            names = {name.lower() for name in state.partition_columns}
            whole = all(column.path[0].lower() in names for column in condition.columns)
            (request.replacement or Replacement()).check_layout(request.layout, about_partitions=whole)
        layout, configuration = FileLayout.of(state), state.metadata.configuration
        writer = ArrowWriter.of(opened.store, layout, configuration, max_records=asked.max_records)
        fit = ArrowFit(schema, writer.physical, opened.url)
        before = None if snapshot is None else snapshot.metadata
        return RowSink(asked, state, before, writer, fit, rules, request, condition)

    # ------------------------------------------------------------------ on workers

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[WrittenFile]:
        """Writes the rows of one task; if it fails, its files are gone."""
        files: list[WrittenFile] = []
        if self.before is None:
            beginnings.note(self.writer.store, self.writer.folder)
        if self.condition is not None:
            condition, partitions = self.condition, self.state.metadata.partition_columns
            batches = (check_rows(batch, condition, partitions) for batch in batches)
        try:
            for part in self.writer.write_in_parts(map(self.fit, map(self.rules.checked, batches))):
                files += part
        except BaseException:
            # The folder stays: another task may be about to put a file there.
            with contextlib.suppress(HaloclineError, OSError):
                self.writer.store.delete_many([file.path for file in files])
            raise
        return files

    # ------------------------------------------------------------------ on the driver's side

    def commit_batch(self, files: Sequence[WrittenFile]) -> int:
        """Makes files part of the table, as a write of its own."""
        operation = "WRITE" if self.before is not None else "CREATE TABLE AS SELECT"
        said = replace(self.request.said, operation=operation, parameters=self.request.parameters(self.state))
        return self.commit(files, said)

    def commit(self, files: Sequence[WrittenFile], said: CommitDescription) -> int:
        """Makes files part of the table; they are deleted if the transaction is in the table already."""
        opened = self.asked.opened(Opened, self.writer.store)
        with opened.operation("write"):
            return self._committed(opened, files, said)

    def _committed(self, opened: Opened, files: Sequence[WrittenFile], said: CommitDescription) -> int:
        before = self._found(opened)
        transaction = opened.transaction(before)
        changes = self.request.layout.data_change
        adds = [file.add(data_change=changes) for file in files]
        metrics, removal, again = figures(adds), Changed(), list[WrittenFile]()
        replacement = self.request.replacement
        is_changed = before is None or _described(before.metadata) != _described(self.state.metadata)
        if replacement is not None and before is not None:
            if self.condition is not None:
                found = transaction.files(self.condition.text)
                removal, staying = replaced(before, found, self.condition, self.asked.zone, data_change=changes)
                again = self._rewritten(before, staying)
                copied = [file.add(data_change=changes) for file in again]
                removal = replace(removal, adds=copied, rows=figures(copied)["numOutputRows"])
            else:
                removal = replacement.whole_files(self.asked.zone, before, transaction, adds, data_change=changes)
            metrics = replacement.metrics(adds, removal, 0)
        said = replace(said, metrics=metrics, user_metadata=self.request.said.user_metadata)
        configuration = self.state if is_changed else None
        version = transaction.commit([*removal.actions, *adds], said, configuration=configuration)
        if transaction.outcome is not None and not transaction.outcome.committed:
            self._delete([file.path for file in (*files, *again)])
        if self.before is None:
            beginnings.forget(self.writer.store)
        return version

    def _rewritten(self, before: Snapshot, staying: Iterator[pa.RecordBatch]) -> list[WrittenFile]:
        """Writes rows of the table again that stay."""
        fit = ArrowFit(shown_schema(before), self.writer.physical, before.store.root)
        return [file for part in self.writer.write_in_parts(map(fit, staying)) for file in part]

    @property
    def is_new(self) -> bool:
        """Whether the table did not exist when the sink was opened."""
        return self.before is None

    def _found(self, opened: Opened) -> Snapshot | None:
        """The newest version; None if the table is still to be created."""
        found = _snapshot(opened) if self.before is None else opened.snapshot(OPERATION)
        if found is None:
            return None
        if self.before is None and found.metadata.id != self.state.metadata.id:
            raise AlreadyExistsError(
                f"somebody else created {opened.url} meanwhile",
                sides={"found": f"version {found.version}", "expected": "no table"},
                next_step="Run the write again.",
            )
        expected = [_described(each) for each in (self.before, self.state.metadata) if each is not None]
        if _described(found.metadata) not in expected:
            raise ConflictError(
                f"the metadata of {opened.url} changed while rows were written; nothing was committed",
                condition="CONCURRENT_METADATA_CHANGE",
                sides={"found": f"version {found.version}", "expected": "the columns and properties of before"},
                next_step="Run the write again.",
            )
        return found

    # ------------------------------------------------------------------ leaving nothing behind

    def discard_others(self, files: Sequence[WrittenFile]) -> None:
        """Deletes what tasks left that did not count."""
        counted = {file.path for file in files}
        with contextlib.suppress(HaloclineError, OSError):
            self._delete([path for path in self._folder() if path not in counted])

    def discard_folder(self) -> None:
        """Deletes everything that was written, unless it is in the table."""
        self.discard(self._folder())

    def discard(self, paths: Sequence[str]) -> None:
        """Deletes files, unless they are in the table, or nobody can tell."""
        try:
            live = set(self.asked.snapshot("read").files(columns=["path"])["path"].to_pylist())
        except NotFoundError:
            live = set()
        except HaloclineError:
            return
        if not live.intersection(paths):
            self._delete(paths)

    def _folder(self) -> list[str]:
        return [meta.path for meta in self.writer.store.list(self.writer.folder)]

    def _delete(self, paths: Sequence[str]) -> None:
        store = self.writer.store
        with contextlib.suppress(HaloclineError, OSError):
            store.delete_many(list(paths))
        with contextlib.suppress(HaloclineError, OSError):
            if not self._folder():
                remove_folder(store, self.writer.folder)
                if self.before is None:
                    beginnings.forget(store, [self.writer.folder])


def _request(asked: SourceOptions, overwrite: bool, is_stream: bool) -> WriteRequest:
    """What the write is asked to do."""
    check_replacing(asked, overwrite=overwrite)
    return WriteRequest(
        # The batches of a stream have numbers of their own.
        CommitDescription("WRITE", txn=None if is_stream else asked.txn, user_metadata=asked.user_metadata),
        Layout(asked.max_records, asked.data_change),
        "overwrite" if asked.overwrite_schema else "merge" if asked.merge_schema else None,
        asked.partition_by if asked.overwrite_schema and asked.partition_by else None,
        replacement=Replacement(asked.replace_where, asked.partition_overwrite == "dynamic") if overwrite else None,
    )


def _snapshot(opened: Opened) -> Snapshot | None:
    """The newest version; None if there is no table yet."""
    formats = formats_at(opened.store)
    if formats and TableFormat.DELTA not in formats:
        raise UnsupportedError(
            f"{opened.url} is a table of another format, which the data source does not write",
            sides={"found": ", ".join(sorted(formats)), "written here": TableFormat.DELTA.value},
        )
    try:
        return opened.snapshot(OPERATION)
    except NotFoundError:
        if formats:
            raise
        return None


def _state(
    asked: SourceOptions, request: WriteRequest, opened: Opened, snapshot: Snapshot | None, schema: Struct
) -> TableConfiguration:
    """What the table is, or is going to be."""
    if snapshot is None:
        columns = nullable(input_schema.declared(schema))
        state = new_table(columns, spelt(columns, asked.partition_by, "partition"), created_ms=system_clock())
        approve_change(None, state, opened.approve)
        return state
    has = [name.lower() for name in snapshot.partition_columns]
    if asked.partition_by and not asked.overwrite_schema and [name.lower() for name in asked.partition_by] != has:
        raise SchemaError(
            f"{opened.url} is partitioned in another way",
            sides={"asked for": ", ".join(asked.partition_by), "table has": ", ".join(has) or "no partition columns"},
            next_step="Leave partitionBy out: it is for tables that do not exist yet, or with overwriteSchema.",
        )
    if request.schema_mode is None:
        return snapshot.configuration
    columns = input_schema.declared(schema)
    return target_state(opened, columns, snapshot, request.schema_mode, request.partition_by)


def _described(metadata: Metadata) -> tuple[object, ...]:
    """What rows are fitted to."""
    return metadata.schema_string, metadata.partition_columns, metadata.configuration

"""Writing through the data source: workers write files, and the driver's side commits them as one version.

A `RowSink` is opened behind the gate before any row is computed. It goes to the workers, which fit the rows and write
files that nobody knows yet; then it commits, or it deletes what was written. The commit starts from the newest version,
which must still be the table that the rows were fitted to.

No SQL can be evaluated where this runs, so a table with rules or columns that need it (CHECK constraints, invariants,
generated and identity columns, defaults, char and varchar) is refused with the way to write it: `Table.append`.
NOT NULL is checked. A table that does not exist is created with the least protocol its columns need.

Under a fleet, the rows are written before the operation begins: files that no version refers to act on nobody. The
commit is the operation; it opens the table anew, and so goes by the levels of that moment.

Spark calls `abort` also after a commit whose outcome it did not learn. What is in the table by then is never deleted.
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from halocline.errors import (
    AlreadyExistsError,
    ConflictError,
    HaloclineError,
    NotFoundError,
    SchemaError,
    UnsupportedError,
)
from halocline.formats.base import TableFormat, formats_at
from halocline.formats.delta.actions.action import Action, Add, Remove
from halocline.formats.delta.actions.locations import encoded_path
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import system_clock
from halocline.formats.delta.configuration import identity, properties
from halocline.formats.delta.configuration.column_mapping import MODE
from halocline.formats.delta.configuration.commit_rules import check_appendable
from halocline.formats.delta.configuration.table_configuration import TableConfiguration, new_table
from halocline.formats.delta.features.approval import approve_change
from halocline.formats.delta.log.file_actions import removes_from
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.schema.defaults import default_of
from halocline.schema.types import Struct
from halocline.schema.visitor import nullable
from halocline.source.options import SourceOptions
from halocline.spark.types import input_schema
from halocline.spark.types.columns import holds
from halocline.spark.write.arrow_fit import ArrowFit
from halocline.spark.write.arrow_write import ArrowWriter, WrittenFile
from halocline.spark.write.file_stats import Wanted
from halocline.spark.write.physical import Physical
from halocline.spark.write.rules import rules_of
from halocline.table.delta.opened import Opened

Written = WrittenFile
OPERATION: Final = "write"
_BUFFER: Final = 64 * 1024 * 1024
_CODEC: Final = "delta.parquet.compression.codec"


@dataclass(frozen=True)
class RowSink:
    """Where the rows of one DataFrame go.

    Attributes:
        asked: The options of the write.
        state: What the table is, or is going to be.
        is_new: Whether the table did not exist when the sink was opened.
        writer: Writes files.
        fit: Fits rows.
        overwrite: Whether the rows come in place of all others.
    """

    asked: SourceOptions
    state: TableConfiguration
    is_new: bool
    writer: ArrowWriter
    fit: ArrowFit
    overwrite: bool

    @staticmethod
    def open(asked: SourceOptions, schema: Struct, *, overwrite: bool) -> RowSink:
        """Finds the table, or decides what it is going to be, and checks that the rows fit.

        Args:
            asked: The options.
            schema: The columns of the rows.
            overwrite: Whether the rows come in place of all others.

        Raises:
            IncompatibleError: The release that acts may not write the table.
            SchemaError: The columns do not fit.
            UnsupportedError: The table has rules that need SQL.
        """
        opened = asked.opened()
        store, table = opened.store, opened.url
        state, is_new = _state(asked, opened, schema)
        _check_writable(state, table)
        metadata = state.metadata
        if overwrite and not is_new:
            check_appendable([Remove("all of them")], state, table)
        mode = properties.choice(metadata.configuration, MODE)
        physical = Physical(state.schema, metadata.partition_columns, mode)
        writer = ArrowWriter(
            store=store,
            folder=uuid.uuid4().hex,
            physical=physical,
            wanted=Wanted.of(state.schema, mode, metadata.partition_columns, metadata.configuration),
            codec=metadata.configuration.get(_CODEC, "snappy").lower(),
        )
        return RowSink(asked, state, is_new, writer, ArrowFit(schema, state.schema, physical, mode, table), overwrite)

    # ------------------------------------------------------------------ on workers

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[WrittenFile]:
        """Writes the rows of one task; if it fails, its files are gone."""
        files: list[WrittenFile] = []
        try:
            for part in self._sorted(batches):
                files += self.writer.write(part)
        except BaseException:
            self._delete([file.path for file in files])
            raise
        return files

    def _sorted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
        """The rows in parts that are each sorted by partition, so that a part has one file per partition."""
        keys = self.writer.physical.keys
        if not keys:
            yield (self.fit(batch) for batch in batches)
            return
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            held.append(self.fit(batch))
            size += held[-1].nbytes
            if size >= _BUFFER:
                yield _by_keys(held, keys)
                held, size = [], 0
        if held:
            yield _by_keys(held, keys)

    # ------------------------------------------------------------------ on the driver's side

    def commit_batch(self, files: Sequence[WrittenFile]) -> int:
        """Makes files part of the table, as a write of its own."""
        txn = None
        if self.asked.txn_app_id is not None and self.asked.txn_version is not None:
            txn = (self.asked.txn_app_id, self.asked.txn_version)
        parameters = {
            "mode": "Overwrite" if self.overwrite else "Append",
            "partitionBy": list(self.state.metadata.partition_columns),
        }
        operation = "CREATE TABLE AS SELECT" if self.is_new else "WRITE"
        return self.commit(files, CommitDescription(operation, parameters, txn=txn))

    def commit(self, files: Sequence[WrittenFile], said: CommitDescription) -> int:
        """Makes files part of the table; they are deleted if the transaction is in the table already.

        Raises:
            ConflictError: The table is not what the rows were fitted to.
        """
        opened = self.asked.opened(self.writer.store)
        with opened.operation("write"):
            return self._committed(opened, files, said)

    def _committed(self, opened: Opened, files: Sequence[WrittenFile], said: CommitDescription) -> int:
        before = self._found(opened)
        transaction = opened.transaction(before)
        actions: list[Action] = [_add(file) for file in files]
        if before is not None and self.overwrite:
            removed = removes_from(transaction.files(), timestamp_ms=system_clock(), data_change=True)
            actions = [*removed, *actions]
        metrics = {
            "numFiles": len(files),
            "numOutputRows": sum(file.num_records for file in files),
            "numOutputBytes": sum(file.size for file in files),
        }
        said = replace(said, metrics=metrics, user_metadata=self.asked.user_metadata)
        version = transaction.commit(actions, said, configuration=self.state if before is None else None)
        if transaction.outcome is not None and not transaction.outcome.committed:
            self._delete([file.path for file in files])
        return version

    def _found(self, opened: Opened) -> Snapshot | None:
        """The newest version; None if the table is still to be created."""
        store = opened.store
        try:
            found = opened.snapshot(OPERATION)
        except NotFoundError:
            if self.is_new:
                return None
            raise
        if self.is_new and found.metadata.id != self.state.metadata.id:
            raise AlreadyExistsError(
                f"somebody else created {store.root} meanwhile",
                sides={"found": f"version {found.version}", "expected": "no table"},
                next_step="Run the write again.",
            )
        mine, theirs = self.state.metadata, found.metadata
        if (mine.schema_string, mine.partition_columns, mine.configuration) != (
            theirs.schema_string,
            theirs.partition_columns,
            theirs.configuration,
        ):
            raise ConflictError(
                f"the metadata of {store.root} changed while rows were written; nothing was committed",
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
        local = store.address(self.writer.folder)
        with contextlib.suppress(HaloclineError, OSError):
            if local.startswith("/") and not self._folder():
                shutil.rmtree(local, ignore_errors=True)


def _state(asked: SourceOptions, opened: Opened, schema: Struct) -> tuple[TableConfiguration, bool]:
    """What the table is, or is going to be, and whether it is yet to be created."""
    store = opened.store
    formats = formats_at(store)
    if formats and TableFormat.DELTA not in formats:
        raise UnsupportedError(
            f"{store.root} is a table of another format, which the data source does not write",
            sides={"found": ", ".join(sorted(formats)), "written here": TableFormat.DELTA.value},
        )
    try:
        snapshot = opened.snapshot(OPERATION)
    except NotFoundError:
        if formats:
            raise
        columns = nullable(input_schema.declared(schema))
        state = new_table(columns, _spelt(columns, asked.partition_by), created_ms=system_clock())
        approve_change(None, state, opened.approve)
        return state, True
    has = [name.lower() for name in snapshot.partition_columns]
    if asked.partition_by and [name.lower() for name in asked.partition_by] != has:
        raise SchemaError(
            f"{store.root} is partitioned in another way",
            sides={"asked for": ", ".join(asked.partition_by), "table has": ", ".join(has) or "no partition columns"},
            next_step="Leave partitionBy out: it is for tables that do not exist yet.",
        )
    return snapshot.configuration, False


def _spelt(schema: Struct, names: Sequence[str]) -> list[str]:
    """Partition columns as the schema spells them; unknown ones are refused with the schema."""
    found = [(name, schema.get(name)) for name in names]
    return [name if field is None else field.name for name, field in found]


def _check_writable(state: TableConfiguration, table: str) -> None:
    """Refuses tables whose rows cannot be computed or checked without SQL."""
    schema, configuration = state.schema, state.metadata.configuration
    needs = [rule.name for rule in rules_of(schema, configuration) if not rule.name.startswith("NOT NULL")]
    needs += [f"identity column {each.name}" for each in identity.identity_columns(schema)]
    needs += [f"default of {field.name}" for field in schema.fields if default_of(field) is not None]
    needs += [f"variant column {field.name}" for field in schema.fields if holds(field.type, ("variant",))]
    if needs:
        raise UnsupportedError(
            f"the data source cannot write {table}: {needs[0]} needs SQL",
            sides={"table has": ", ".join(needs)[:300], "possible": "NOT NULL"},
            next_step=f'Use Table.for_path("{table}", spark).append(df); in a stream, with foreachBatch.',
        )


def _by_keys(batches: Sequence[pa.RecordBatch], keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(batches)
    yield from table.sort_by([(key, "ascending") for key in keys]).combine_chunks().to_batches()


def _add(file: WrittenFile) -> Add:
    return Add(
        encoded_path(file.path), file.partition_values, file.size, file.modification_time, True, stats=file.stats
    )

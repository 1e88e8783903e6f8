"""The files that one write adds to a table, from the first row to the commit or to nothing.

`RowFiles` is a context: inside it, rows are written and described as actions; `commit` makes them part of the table. If
the context is left without a commit, for whatever reason, every file is deleted again. The one exception is a commit
whose outcome nobody knows, because the store did not answer: its files may be live, so they stay, and vacuum decides.

Rows that only move to another file keep their ids where the table tracks rows: they are written with the hidden columns
that the table's properties name.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import msgspec
from pyroaring import BitMap64

from halocline.errors import HaloclineError, InputError, UnavailableError
from halocline.formats.delta.actions import deletion_vectors
from halocline.formats.delta.actions.action import Action, Add, Cdc, DeletionVector
from halocline.formats.delta.actions.locations import encoded_path
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration import identity
from halocline.formats.delta.configuration.column_mapping import mapped_field, physical_name
from halocline.formats.delta.configuration.identity import IdentityColumn
from halocline.formats.delta.configuration.row_tracking import PRESERVED_TAG
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.schema.types import Field, Primitive, Struct
from halocline.spark.scan.row_columns import RowColumns
from halocline.spark.types.assignment import Assignment, Casting
from halocline.spark.types.columns import missing, quoted, written_fields
from halocline.spark.write.guard import watched
from halocline.spark.write.identity_values import marks_in
from halocline.spark.write.row_plan import RowPlan
from halocline.spark.write.writer import WrittenFile, write_files
from halocline.storage.base import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHANGE_TYPE: Final = "_change_type"
_CHANGES: Final = "_change_data"
_ROW_ID_COLUMN: Final = "delta.rowTracking.materializedRowIdColumnName"
_ROW_VERSION_COLUMN: Final = "delta.rowTracking.materializedRowCommitVersionColumnName"
# Ids that no column of a table ever gets; the first two are what Iceberg sets aside for the same columns.
_ROW_ID_FIELD: Final = 2147483540
_ROW_VERSION_FIELD: Final = 2147483539
_CHANGE_TYPE_FIELD: Final = 2147483645
# Bounds of decimals have more digits than a float keeps.
_decode: Final = msgspec.json.Decoder(float_hook=Decimal).decode
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True)
class Layout:
    """How rows that come in are laid out.

    Args:
        max_records: The most rows of one file; None for as many as come together.
        data_change: Whether the table has other rows afterwards. If not, streams and change feeds skip the commit.
    """

    max_records: int | None = None
    data_change: bool = True

    def check(self, schema_mode: str | None) -> None:
        """Makes sure that it fits the rest of what is asked for.

        Raises:
            InputError: No row can be in a file, or the rows are to be the same in other columns.
        """
        if self.max_records is not None and self.max_records < 1:
            raise InputError("a file cannot hold fewer rows than one", sides={"given": str(self.max_records)})
        if not self.data_change and schema_mode is not None:
            raise InputError(
                "rows that stay what they are do not change the table's columns",
                sides={"given": f"data_change=False, schema_mode={schema_mode!r}"},
                next_step="Leave one of them out.",
            )


class RowFiles:
    """New files of one table, nobody's until they are committed.

    Args:
        store: The table's store.
        state: What the table is going to be.
        layout: How rows that come in are laid out.
    """

    def __init__(self, store: Store, state: TableConfiguration, layout: Layout | None = None) -> None:
        self.layout = layout or Layout()
        self._store = store
        self._state = state
        self._schema = state.schema
        self._mode = state.mapping_mode
        self._written: list[WrittenFile] = []
        self._others: list[str] = []
        self._marks: dict[str, int] = {}
        self._kept = False
        self._rewritten = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not self._kept:
            self._discard()

    # ------------------------------------------------------------------ writing

    def write(self, plan: RowPlan) -> list[Add]:
        """Writes new rows, and notes how far they have brought identity columns.

        Raises:
            ConstraintError: A row breaks a rule of the table.
        """
        rows = watched(plan.rows, plan.rules)
        files = self._save(rows.rows, self._schema, max_records=self.layout.max_records)
        if files:
            rows.check(self._store.root)
        if plan.numbered and files:
            physical = {self._physical(column): column for column in plan.numbered}
            self._marks |= marks_in(self._store, [(file.path, file.size) for file in files], physical)
        return [_add(file, data_change=self.layout.data_change) for file in files]

    def rewrite(self, rows: DataFrame, schema: Struct, *, data_change: bool) -> list[Add]:
        """Writes rows of the table again, which keep the ids that `identities` asked the scan for.

        Args:
            rows: The columns of a version, and the hidden ones if rows are tracked.
            schema: The schema of that version, which the table may have outgrown.
            data_change: Whether the table has other rows afterwards.
        """
        hidden = [(name, number) for name, number in self._hidden_columns() if name in rows.columns]
        names = [name for name, _ in hidden]
        added = [_hidden(name, "long", number) for name, number in hidden]
        files = self._save(self._grown(rows, schema, names), _with_fields(self._schema, added))
        self._rewritten = self._rewritten or bool(files)
        return [_add(_without_stats(file, names), data_change=data_change) for file in files]

    def write_changes(self, rows: DataFrame, schema: Struct) -> list[Cdc]:
        """Writes rows of the change feed: the columns of a version and `_change_type`."""
        added = [_hidden(CHANGE_TYPE, "string", _CHANGE_TYPE_FIELD)]
        rows = self._grown(rows, schema, [CHANGE_TYPE])
        files = self._save(rows, _with_fields(self._schema, added), under=_CHANGES)
        return [Cdc(encoded_path(file.path), file.partition_values, file.size) for file in files]

    def write_vectors(self, bitmaps: Sequence[BitMap64]) -> list[DeletionVector]:
        """Writes deletion vectors into one file and describes each."""
        vectors = deletion_vectors.write_file(self._store, bitmaps)
        self._rewritten = self._rewritten or bool(vectors)
        self._others += [deletion_vectors.file_path(self._store, vector) for vector in vectors[:1]]
        return vectors

    def identities(self) -> RowColumns:
        """The columns that a scan must add so that rewritten rows keep their ids; none if rows are not tracked."""
        stored = self._state.properties
        if not self._state.protocol.supports("rowTracking") or not stored.row_tracking:
            return RowColumns()
        row_id, version = (stored.get(key) for key in (_ROW_ID_COLUMN, _ROW_VERSION_COLUMN))
        return RowColumns(
            row_id=row_id, row_commit_version=version, stored_row_id=row_id, stored_row_commit_version=version
        )

    # ------------------------------------------------------------------ committing

    @property
    def configuration(self) -> TableConfiguration:
        """What the table is going to be, marks of identity columns moved."""
        if not self._marks:
            return self._state
        return self._state.with_metadata(identity.with_marks(self._state.metadata, self._marks))

    def has_changes(self, transaction: Transaction, files: Sequence[Action]) -> bool:
        """Whether there is anything to commit: files, or that the table becomes something else."""
        return bool(files) or transaction.before != self.configuration

    def changes_metadata(self, transaction: Transaction) -> bool:
        """Whether the commit replaces the table's metadata."""
        return transaction.before is None or transaction.before.metadata != self.configuration.metadata

    def commit(self, transaction: Transaction, files: Iterable[Action], said: CommitDescription) -> int:
        """Commits the files; see `Transaction.commit`. Where rows are tracked, it says that those kept their ids."""
        kept = {PRESERVED_TAG: "true"} if self._rewritten and self.identities().names else {}
        try:
            said = replace(said, tags={**said.tags, **kept})
            version = transaction.commit(files, said, configuration=self.configuration, uses_level=bool(self._others))
        except UnavailableError:
            self._kept = True
            raise
        self._kept = transaction.outcome is None or transaction.outcome.committed
        return version

    def figures(self, adds: Sequence[Add]) -> dict[str, int]:
        """The figures that a commit records of the files it adds."""
        records = {encoded_path(file.path): file.num_records for file in self._written}
        return {
            "numFiles": len(adds),
            "numOutputRows": sum(records.get(add.path, 0) for add in adds),
            "numOutputBytes": sum(add.size for add in adds),
        }

    # ------------------------------------------------------------------ small things

    def _save(
        self, rows: DataFrame, schema: Struct, under: str = "", max_records: int | None = None
    ) -> list[WrittenFile]:
        files = write_files(
            rows,
            table_url=self._store.root,
            schema=schema,
            partition_columns=self._state.metadata.partition_columns,
            mapping_mode=self._mode,
            configuration=self._state.metadata.configuration,
            under=under,
            max_records=max_records,
            store=self._store,
        )
        self._written += files
        return files

    def _grown(self, rows: DataFrame, schema: Struct, hidden: Sequence[str]) -> DataFrame:
        """Rows of an older schema with the columns and types that the table is going to have."""
        work, items = Assignment(Casting.WIDENING), []
        for field in written_fields(self._schema):
            before = schema.get(field.name)
            sql = missing(field.type)
            if before is not None:
                sql = work.value(quoted(before.name), before.type, field.type, "")
            items.append(f"{sql} AS {quoted(field.name)}")
        work.check(self._store.root)
        return rows.selectExpr(*items, *map(quoted, hidden))

    def _hidden_columns(self) -> list[tuple[str, int]]:
        columns = self.identities()
        named = ((columns.row_id, _ROW_ID_FIELD), (columns.row_commit_version, _ROW_VERSION_FIELD))
        return [(name, number) for name, number in named if name is not None]

    def _physical(self, column: IdentityColumn) -> str:
        return physical_name(self._schema.find([column.name])[1], self._mode)

    def _discard(self) -> None:
        """Deletes what was written; what cannot be deleted now is left to vacuum."""
        with contextlib.suppress(HaloclineError, OSError):
            self._store.delete_many([*(file.path for file in self._written), *self._others])
        for folder in {_folder(file.path) for file in self._written}:
            local = self._store.address(folder)
            if local.startswith("/"):
                shutil.rmtree(local, ignore_errors=True)


def _hidden(name: str, type: str, number: int) -> Field:
    return mapped_field(Field(name, Primitive(type)), number, name)


def _with_fields(schema: Struct, added: Sequence[Field]) -> Struct:
    return schema.with_fields([*schema.fields, *added])


def _folder(path: str) -> str:
    """The folder that one write has for itself."""
    first, _, rest = path.partition("/")
    return f"{first}/{rest.partition('/')[0]}" if first == _CHANGES else first


def _add(file: WrittenFile, *, data_change: bool) -> Add:
    return Add(
        encoded_path(file.path),
        file.partition_values,
        file.size,
        file.modification_time,
        data_change,
        stats=file.stats,
    )


def _without_stats(file: WrittenFile, names: Sequence[str]) -> WrittenFile:
    """Hidden columns are nobody's to prune by."""
    if not names:
        return file
    stats = _decode(file.stats)
    kept = {
        key: {name: each for name, each in value.items() if name not in names} if isinstance(value, dict) else value
        for key, value in stats.items()
    }
    return msgspec.structs.replace(file, stats=_encode(kept).decode())

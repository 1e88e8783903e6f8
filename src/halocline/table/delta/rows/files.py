"""The files that one write adds to a table, from the first row to the commit or to nothing.

`RowFiles` is a context: inside it, rows are written and described as actions; `commit` makes them part of the table. If
the context is left without a commit, for whatever reason, every file is deleted again. The one exception is a commit
whose outcome nobody knows, because the store did not answer or somebody pressed Ctrl-C: its files may be live, so they
stay, and vacuum decides.

Rows that only move to another file keep their ids where the table tracks rows: they are written with the hidden columns
that the table's properties name.

Rows are *marked* as deleted by vectors of the files that hold them. A vector only ever grows: the rows that a file has
lost already stay lost. A file that has lost its last row is not marked but removed. Whoever reads a vector relies on
the number of rows in the file, so a file whose statistics lack it gets it from its footer; its bounds hold still, but
may be of rows that are gone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

import msgspec
import pyarrow as pa
from pyroaring import BitMap64

from halocline.errors import HaloclineError, InputError
from halocline.formats.delta.actions import deletion_vectors
from halocline.formats.delta.actions.action import Action, Add, Cdc
from halocline.formats.delta.actions.locations import Locations, encoded_path, locate
from halocline.formats.delta.actions.statistics import num_records
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration import identity
from halocline.formats.delta.configuration.column_mapping import mapped_field, physical_name
from halocline.formats.delta.configuration.row_tracking import PRESERVED_TAG
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.features import row_ids
from halocline.formats.delta.log.file_actions import adds_from
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.commit import is_refused
from halocline.schema.types import Field, Primitive, Struct
from halocline.spark.scan.footers import at_once, footers
from halocline.spark.scan.frames import deleted_rows
from halocline.spark.scan.row_columns import RowColumns
from halocline.spark.session.file_system import remove_folder
from halocline.spark.types.assignment import Assignment, Casting
from halocline.spark.types.columns import missing, quoted, written_fields
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.write import beginnings
from halocline.spark.write.arrow_fit import ArrowFit
from halocline.spark.write.arrow_write import ArrowWriter
from halocline.spark.write.file_copies import FileCopier
from halocline.spark.write.guard import watched
from halocline.spark.write.identity_values import marks_in
from halocline.spark.write.row_plan import RowPlan
from halocline.spark.write.writer import WrittenFile, all_or_nothing, write_files
from halocline.storage.base import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEVEL: Final = 4
"""The level of Delta's ladder that brings deletion vectors."""

CHANGE_TYPE: Final = "_change_type"
_CHANGES: Final = "_change_data"
# Ids that no column of a table ever gets; the first two are what Iceberg sets aside for the same columns.
_ROW_ID_FIELD: Final = 2147483540
_ROW_VERSION_FIELD: Final = 2147483539
_CHANGE_TYPE_FIELD: Final = 2147483645
# Bounds of decimals have more digits than a float keeps.
_decode: Final = msgspec.json.Decoder(float_hook=Decimal).decode
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True)
class Layout:
    """How rows that come in are laid out: the most rows of one file, and whether the table has other rows afterwards.

    If it does not, streams and change feeds skip the commit.
    """

    max_records: int | None = None
    data_change: bool = True

    def __post_init__(self) -> None:
        if self.max_records is not None and self.max_records < 1:
            raise InputError("a file cannot hold fewer rows than one", sides={"given": str(self.max_records)})


class RowFiles:
    """New files of one table, nobody's until they are committed; `state` is what the table is going to be.

    Those of a table that is yet to be created are noted; see `halocline.spark.write.beginnings`.
    """

    def __init__(
        self, store: Store, state: TableConfiguration, layout: Layout | None = None, *, is_first: bool = False
    ) -> None:
        self.layout = layout or Layout()
        self._is_first = is_first
        self._noted: list[str] = []
        self.state = state
        self._store = store
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
            if self._noted:
                beginnings.forget(self._store, self._noted)

    # ------------------------------------------------------------------ writing

    def write(self, plan: RowPlan) -> list[Add]:
        """Writes new rows, which the table's rules judge, and notes how far they have brought identity columns."""
        rows = watched(plan.rows, plan.rules)
        files = self._save(rows.rows, self._schema, max_records=self.layout.max_records)
        if files:
            rows.check(self._store.root)
        if plan.numbered and files:
            fields = [(self._schema.find([column.name])[1], column) for column in plan.numbered]
            physical = {physical_name(field, self._mode): column for field, column in fields}
            self._marks |= marks_in(self._store, [(file.path, file.size) for file in files], physical)
        return [file.add(data_change=self.layout.data_change) for file in files]

    def write_arrow(self, columns: Struct, batches: Iterator[pa.RecordBatch]) -> list[Add]:
        """Writes new rows with these columns, which obey the table's rules, without Spark."""
        layout, configuration = FileLayout.of(self.state), self.state.metadata.configuration
        name = self._folder_name()
        writer = ArrowWriter.of(self._store, layout, configuration, name=name, max_records=self.layout.max_records)
        fit = ArrowFit(columns, writer.physical, self._store.root)
        with all_or_nothing(self._store, writer.folder):
            files = [file for part in writer.write_in_parts(map(fit, batches)) for file in part]
        self._written += files
        return [file.add(data_change=self.layout.data_change) for file in files]

    def rewrite(self, rows: DataFrame, schema: Struct, *, data_change: bool) -> list[Add]:
        """Writes rows of a version again, whose schema the table may have outgrown.

        They keep the ids that `identities` asked the scan for.
        """
        hidden = [(name, number) for name, number in self._hidden_columns() if name in rows.columns]
        names = [name for name, _ in hidden]
        added = [_hidden(name, "long", number) for name, number in hidden]
        files = self._save(self._grown(rows, schema, names), _with_fields(self._schema, added))
        self._rewritten = self._rewritten or bool(files)
        return [_without_stats(file, names).add(data_change=data_change) for file in files]

    def copier(self, spark: SparkSession, paths: Iterable[str]) -> FileCopier | None:
        """What writes files of the table again without Spark; see `halocline.spark.write.file_copies`.

        None where that cannot be, as where rows are tracked: Spark writes their ids beside them.
        """
        if self.state.tracks_rows:
            return None
        layout, configuration = FileLayout.of(self.state), self.state.metadata.configuration
        return FileCopier.find(spark, self._store, layout, configuration, self._folder_name(), paths)

    def keep(self, files: Sequence[WrittenFile], *, data_change: bool) -> list[Add]:
        """Takes in files that the `copier` has made."""
        self._written += files
        return [file.add(data_change=data_change) for file in files]

    def write_changes(self, rows: DataFrame, schema: Struct) -> list[Cdc]:
        """Writes rows of the change feed: the columns of a version and `_change_type`."""
        added = [_hidden(CHANGE_TYPE, "string", _CHANGE_TYPE_FIELD)]
        rows = self._grown(rows, schema, [CHANGE_TYPE])
        files = self._save(rows, _with_fields(self._schema, added), under=_CHANGES)
        return [Cdc(encoded_path(file.path), file.partition_values, file.size) for file in files]

    def mark(self, snapshot: Snapshot, files: pa.Table, rows: Mapping[int, BitMap64]) -> list[Add]:
        """Marks rows of files, given by position and the file's number in the list; files without a row left are out.

        All of the files are to be removed in the same commit.
        """
        before = deleted_rows(snapshot, files)
        adds, bitmaps = [], []
        for number, (add, count) in enumerate(_with_counts(snapshot, list(adds_from(files, data_change=True)))):
            bitmap = rows.get(number, BitMap64()) | before.get(number, BitMap64())
            if len(bitmap) < count:
                adds.append(add)
                bitmaps.append(bitmap)
        vectors = deletion_vectors.write_file(self._store, bitmaps)
        self._rewritten = self._rewritten or bool(vectors)
        self._others += [deletion_vectors.file_path(self._store, vector) for vector in vectors[:1]]
        loose = {"tightBounds": False}
        return [
            msgspec.structs.replace(add, deletion_vector=vector, stats=_with_stats(add.stats, loose))
            for add, vector in zip(adds, vectors, strict=True)
        ]

    def identities(self) -> RowColumns:
        """The columns that a scan must add so that rewritten rows keep their ids; none if rows are not tracked."""
        if not self.state.tracks_rows:
            return RowColumns()
        row_id, version = (self.state.properties.get(key) for key in (row_ids.ID_COLUMN, row_ids.VERSION_COLUMN))
        return RowColumns(
            row_id=row_id, row_commit_version=version, stored_row_id=row_id, stored_row_commit_version=version
        )

    # ------------------------------------------------------------------ committing

    @property
    def configuration(self) -> TableConfiguration:
        """What the table is going to be, marks of identity columns moved."""
        if not self._marks:
            return self.state
        return self.state.with_metadata(identity.with_marks(self.state.metadata, self._marks))

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
        except BaseException as error:
            self._kept = not is_refused(error)
            raise
        self._kept = transaction.outcome is None or transaction.outcome.committed
        if self._is_first and self._kept:
            beginnings.forget(self._store)
        return version

    # ------------------------------------------------------------------ small things

    def _save(
        self, rows: DataFrame, schema: Struct, under: str = "", max_records: int | None = None
    ) -> list[WrittenFile]:
        layout = FileLayout(schema, self.state.partition_columns, self._mode)
        configuration = self.state.metadata.configuration
        name = self._folder_name()
        files = write_files(rows, self._store, layout, configuration, under=under, name=name, max_records=max_records)
        self._written += files
        return files

    def _folder_name(self) -> str:
        """The name of a fresh folder."""
        name = uuid4().hex
        if self._is_first:
            self._noted.append(name)
            beginnings.note(self._store, name)
        return name

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

    def _discard(self) -> None:
        """Deletes what was written; what cannot be deleted now is left to vacuum."""
        with contextlib.suppress(HaloclineError, OSError):
            self._store.delete_many([*(file.path for file in self._written), *self._others])
        for folder in {_folder(file.path) for file in self._written}:
            remove_folder(self._store, folder)


def _hidden(name: str, type: str, number: int) -> Field:
    return mapped_field(Field(name, Primitive(type)), number, name)


def _with_fields(schema: Struct, added: Sequence[Field]) -> Struct:
    return schema.with_fields([*schema.fields, *added])


def _folder(path: str) -> str:
    """The folder that one write has for itself."""
    first, _, rest = path.partition("/")
    return f"{first}/{rest.partition('/')[0]}" if first == _CHANGES else first


def _without_stats(file: WrittenFile, names: Sequence[str]) -> WrittenFile:
    """Hidden columns are nobody's to prune by."""
    if not names:
        return file
    stats = _decode(file.stats)
    shown = {
        key: {name: value for name, value in part.items() if name not in names} if isinstance(part, dict) else part
        for key, part in stats.items()
    }
    return msgspec.structs.replace(file, stats=_encode(shown).decode())


def marks_rows(snapshot: Snapshot) -> bool:
    """Whether rows of a table are deleted by marking them; below the level that brings it, files are rewritten."""
    return (
        snapshot.protocol.supports("deletionVectors") and snapshot.properties.deletion_vectors and snapshot.gate(LEVEL)
    )


def _with_stats(stats: str | None, more: Mapping[str, Any]) -> str:
    return _encode({**(_decode(stats) if stats else {}), **more}).decode()


def _with_counts(snapshot: Snapshot, adds: list[Add]) -> list[tuple[Add, int]]:
    """The files, each with the number of rows in it, which also stands in its statistics."""
    locations = Locations(snapshot.store.root)

    def counted(add: Add) -> tuple[Add, int]:
        if (count := num_records(add.stats)) is not None:
            return add, count
        store, path = locate(snapshot.store, locations.decode(add.path))
        rows = int(footers(store, [(path, add.size)])[0].num_rows)
        return msgspec.structs.replace(add, stats=_with_stats(add.stats, {"numRecords": rows})), rows

    return at_once(counted, adds)

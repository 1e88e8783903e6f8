"""The rows of a table's files as Arrow batches of exactly the schema that Spark expects of a data source.

A file is a `ChangeFile`: where it lies, which of its rows count, and what they are. For a plain read every live file is
one whose rows were inserted. Deletion vectors are read by the worker that reads the file, so planning stays cheap.

The limits: a data source cannot be told which columns a query uses, so all columns of the schema are read; a schema
given by the user with fewer columns reads fewer. Variant columns, and void inside of others, cannot be handed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import msgspec
import pyarrow as pa

from halocline.errors import SchemaError, UnsupportedError
from halocline.formats.delta.log.file_actions import adds_from
from halocline.formats.delta.log.live_files import from_adds
from halocline.formats.delta.snapshot.change_feed import ChangeFile, ChangeKind
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.schema.types import Field, Primitive, Struct, is_void
from halocline.schema.visitor import map_types, nullable, without_metadata
from halocline.spark.scan.arrow_scan import ArrowFile, ArrowReader
from halocline.spark.scan.change_feed import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    mapping_mode,
    positions_left_out,
    with_change_type,
    with_size,
)
from halocline.spark.scan.not_null import NotNullArrays, is_complete
from halocline.spark.scan.packing import packed
from halocline.spark.types.columns import holds, kept_metadata
from halocline.spark.types.partition_values import PartitionColumn, PartitionValues
from halocline.storage.base import Store

_TASK_BYTES: Final = 64 * 1024 * 1024
_OPENING: Final = 4 * 1024 * 1024
"""What opening a file costs, in bytes that could be read meanwhile."""

_VOID: Final = Primitive("void")
_NOT_NULL: Final = NotNullArrays()
_CHANGE_FIELDS: Final = (
    Field(CHANGE_TYPE, Primitive("string")),
    Field(COMMIT_VERSION, Primitive("long")),
    Field(COMMIT_TIMESTAMP, Primitive("timestamp")),
)


def shown_schema(snapshot: Snapshot, *, changes: bool = False) -> Struct:
    """The columns of a version as the data source shows them; those of the change feed last."""
    shown = zip(_bare(snapshot.schema).fields, snapshot.schema.fields, strict=True)
    fields = [replace(each, metadata=_shown_metadata(field)) for each, field in shown]
    return Struct([*fields, *(_CHANGE_FIELDS if changes else ())])


def live_files(snapshot: Snapshot) -> list[ChangeFile]:
    """The live files of a version, in an order that is always the same."""
    files = change_files(snapshot, snapshot.files())
    return sorted(files, key=lambda each: (each.file.modification_time, each.path))


def change_files(snapshot: Snapshot, files: pa.Table) -> list[ChangeFile]:
    """Files of a version, whose rows count as inserted by it."""
    return [
        ChangeFile(path, add, ChangeKind.INSERT, snapshot.version, snapshot.timestamp_ms, without=add.deletion_vector)
        for path, add in zip(files["path"].to_pylist(), adds_from(files, data_change=True), strict=True)
    ]


def tasks(files: Sequence[ChangeFile]) -> list[list[ChangeFile]]:
    """The files in parts of similar size, one for each task.

    Example:
        >>> tasks([])
        []
    """
    # Workers need no statistics, which may be long.
    bare = (replace(each, file=msgspec.structs.replace(each.file, stats=None, tags=None)) for each in files)
    return list(packed(bare, lambda each: (each.file.size or 0) + _OPENING, _TASK_BYTES))


@dataclass(frozen=True)
class FileRows:
    """How rows of a table's files become batches of one schema.

    Attributes:
        store: The table's store.
        mode: The table's column mapping.
        fields: The columns of the table that are read.
        partitions: Those among them that the log knows.
        wanted: The columns to show, in order.
        zone: The zone of partition values without one.
    """

    store: Store
    mode: str
    fields: Sequence[Field]
    partitions: Sequence[Field]
    wanted: Sequence[Field]
    zone: str

    @staticmethod
    def of(snapshot: Snapshot, schema: Struct, *, zone: str = "UTC", changes: bool = False) -> FileRows:
        """Rows of a version's columns in the shape of a schema that Spark has."""
        extra = {each.name: each for each in _CHANGE_FIELDS} if changes else {}
        held = Struct([*snapshot.schema.fields, *extra.values()])
        check_columns(held, schema, any_case=True)
        read = []
        for each in schema.fields:
            _check_type(each, snapshot.store.root)
            _, found = held.find([each.name])
            if found.name not in extra and not is_void(found.type):
                read.append(found)
        names = {name.lower() for name in snapshot.partition_columns}
        return FileRows(
            store=snapshot.store,
            mode=snapshot.columns.mode,
            fields=[field for field in read if field.name.lower() not in names],
            partitions=[field for field in read if field.name.lower() in names],
            wanted=schema.fields,
            zone=zone,
        )

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches."""
        types = (
            (each, pa.null() if is_void(each.type) else _NOT_NULL.types.visit(each.type, None)) for each in self.wanted
        )
        return pa.schema([pa.field(each.name, type, each.nullable) for each, type in types])

    def read(self, files: Sequence[ChangeFile]) -> Iterator[pa.RecordBatch]:
        """The rows of some files that count."""
        adds, paths = [file.file for file in files], [file.path for file in files]
        listed = pa.Table.from_batches([from_adds(adds, paths=paths)])
        columns = [PartitionColumn.of(field, self.mode) for field in self.partitions]
        values = PartitionValues(listed, columns, self.zone)
        for number, file in enumerate(files):
            itself = file.kind is ChangeKind.RECORDED
            sized = with_size(self.store, file)
            part = ArrowFile(
                number=number,
                path=file.path,
                size=sized.file.size,
                deleted=positions_left_out(self.store, sized) or None,
                values=values.values[values.group_of[number]],
            )
            for batch in self._reader(itself).read(part):
                if batch.num_rows:
                    yield self._shaped(batch, file)

    def _reader(self, itself: bool) -> ArrowReader:
        fields = with_change_type(Struct(self.fields)).fields if itself else self.fields
        return ArrowReader(self.store, mapping_mode(self.mode, itself), fields, self.partitions, {})

    def _shaped(self, batch: pa.RecordBatch, file: ChangeFile) -> pa.RecordBatch:
        constants: dict[str, Any] = {
            COMMIT_VERSION: pa.scalar(file.version, pa.int64()),
            COMMIT_TIMESTAMP: pa.scalar(file.timestamp_ms * 1000, pa.timestamp("us", "UTC")),
            CHANGE_TYPE: pa.scalar(file.kind.value),
        }
        found = {name.lower(): number for number, name in enumerate(batch.schema.names)}
        schema = self.schema
        columns = []
        for field in schema:
            if field.name.lower() in found:
                columns.append(batch.column(found[field.name.lower()]))
            elif field.name in constants:
                columns.append(pa.repeat(constants[field.name], batch.num_rows))
            else:
                columns.append(pa.nulls(batch.num_rows, field.type))
        for field, column in zip(self.wanted, columns, strict=True):
            if not is_complete(field, column):
                raise SchemaError(
                    f"column {field.name} holds nulls, and its type allows none: {str(field)[:200]}",
                    sides={"file": file.path, "asked for": str(field)[:200]},
                    next_step="Give a schema that allows nulls.",
                )
        fitted = (
            column if is_void(field.type) else _NOT_NULL.visit(field.type, column)
            for field, column in zip(self.wanted, columns, strict=True)
        )
        return pa.RecordBatch.from_arrays(list(fitted), schema=schema)


def check_columns(held: Struct, schema: Struct, *, any_case: bool = False) -> None:
    """Makes sure that a table has the columns of a schema that Spark has.

    Raises:
        SchemaError: It has no such column, or of another type.
    """
    for field in schema.fields:
        found = held.get(field.name)
        named = found if found is None or not any_case else replace(found, name=field.name)
        if named is None or plain(Struct([named])) != plain(Struct([field])):
            raise SchemaError(
                f"the table has no column {field.name} of that type",
                sides={"asked for": str(field), "table has": ", ".join(map(str, held.fields))[:300]},
                next_step="Leave the schema out, or give columns that the table has.",
            )


def plain(schema: Struct) -> Struct:
    """The schema without what fields are annotated with, nulls allowed everywhere, void by one name."""
    return nullable(_bare(schema))


def _bare(schema: Struct) -> Struct:
    return without_metadata(cast(Struct, map_types(schema, lambda _, type: _VOID if is_void(type) else type)))


def _shown_metadata(field: Field) -> dict[str, Any]:
    return {key: value for key, value in kept_metadata(field).items() if not key.startswith("__")}


def _check_type(field: Field, table: str) -> None:
    hidden = holds(field.type, ("variant",)) or (not is_void(field.type) and holds(field.type, ("void", "null")))
    if hidden:
        raise UnsupportedError(
            f"column {field.name} of {table} has a type that only a native scan of Spark reads",
            sides={"needs Spark": str(field)[:200]},
            next_step="Use Table.for_path(path, spark).to_df(), or leave the column out, of columns= or of the schema.",
        )

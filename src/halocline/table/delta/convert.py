"""Folders of Parquet files that become tables where they lie.

No data is moved or read: footers give columns, row counts and statistics, names of folders give partition values. The
folder's files are the first version of the table, with the least protocol that their columns need. Files whose names
begin with `_` or `.`, and those in such folders, are not data, as everywhere.

Whoever writes to the folder while it is being converted is not noticed; whoever writes files to it afterwards writes
files that are not in the table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from halocline.errors import (
    AlreadyExistsError,
    InputError,
    MalformedError,
    NotFoundError,
    SchemaError,
    UnsupportedError,
)
from halocline.formats.base import TableFormat, formats_at
from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.actions.folders import parse_folder
from halocline.formats.delta.actions.locations import encoded_path
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.configuration.column_mapping import mode_of
from halocline.formats.delta.features.approval import approve_change
from halocline.formats.delta.log.action_types import TEXT_MAP
from halocline.schema.types import Field, Struct
from halocline.spark.scan.arrow_scan import is_julian
from halocline.spark.scan.footers import check_foreign, footers, leaf_types
from halocline.spark.types import input_schema
from halocline.spark.types.columns import quoted
from halocline.spark.types.file_layout import FileLayout
from halocline.spark.types.partition_values import PartitionColumn, PartitionValues
from halocline.spark.write.file_stats import Wanted, stats_text
from halocline.storage.base import ObjectMeta, Store
from halocline.table.delta.new_table import TableDeclaration, with_names_as_physical
from halocline.table.delta.opened import Opened
from halocline.table.delta.parquet_schema import columns_in, merged
from halocline.table.delta.property_values import property_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SINK: Final = "_spark_metadata"
_SAME: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.string())


def convert_folder(
    path: str | os.PathLike[str],
    spark: SparkSession | None = None,
    *,
    partition_by: Any = (),
    properties: Mapping[str, str] | None = None,
    collect_stats: bool = True,
    exist_ok: bool = False,
    options: Mapping[str, str] | None = None,
) -> Opened:
    """Makes a Delta table of a folder of Parquet files, where it lies.

    Args:
        path: The folder.
        spark: The session that the table is opened with. Converting needs it only to read `partition_by` as text.
        partition_by: The partition columns in the order of the folders, with their types: text such as
            `day DATE, country STRING`, or columns as `halocline.table.delta.new_table.column` makes them.
        properties: Properties of the table.
        collect_stats: Whether statistics are taken from the footers. Row counts always are.
        exist_ok: Open the Delta table that is there rather than fail.
        options: Settings, and options of the store.

    Raises:
        AlreadyExistsError: The folder is a table already, unless it may be one.
        NotFoundError: There are no Parquet files.
        SchemaError: Files disagree about their columns, or folders do not fit the partition columns.

    Example:
        >>> Table.convert_to_delta("lake/clicks", partition_by="day DATE").version  # doctest: +SKIP
        0
    """
    table = Opened.at(path, spark, options)
    store = table.store
    asked = property_values(properties)
    if exist_ok and formats_at(store) == (TableFormat.DELTA,):
        return table.found()
    with table.operation("convert"):
        partitions = input_schema.declared(partition_by).fields if partition_by else ()
        adds, declaration = _converted(store, partitions, asked, collect_stats)
        state = declaration.state(spark, store.root)
        approve_change(None, state, table.approve)
        parameters = {
            "numFiles": len(adds),
            "partitionedBy": list(state.metadata.partition_columns),
            "collectStats": collect_stats,
            "sourceFormat": "parquet",
        }
        said = CommitDescription("CONVERT", parameters, {"numConvertedFiles": len(adds)})
        table.transaction().commit(adds, said, configuration=state)
    return table


def _converted(
    store: Store, partitions: Sequence[Field], asked: Mapping[str, str], collect_stats: bool
) -> tuple[list[Add], TableDeclaration]:
    _check_free(store)
    found = list(_data_files(store))
    if not found:
        raise NotFoundError(
            f"there are no Parquet files in {store.root}",
            sides={"looked for": "files whose names begin with neither '_' nor '.'"},
        )
    values = [_values(meta.path, partitions) for meta in found]
    _check_values(found, values, partitions)
    opened = _footers(store, found)
    names = {field.name.lower() for field in partitions}
    inside = merged((meta.path, columns_in(footer, meta.path)) for meta, footer in zip(found, opened, strict=True))
    data = [field for field in inside.fields if field.name.lower() not in names]
    schema = with_names_as_physical(Struct([*data, *partitions]), asked)
    keys = [field.name for field in partitions]
    wanted = Wanted.of(FileLayout(schema, keys, mode_of(asked)), asked)
    if not collect_stats:
        wanted = Wanted({}, [], wanted.prefix)
    adds = [
        Add(
            encoded_path(meta.path),
            texts,
            meta.size,
            meta.modified_ms,
            True,
            stats=stats_text(footer, _trusted(wanted, footer)),
        )
        for meta, texts, footer in zip(found, values, opened, strict=True)
    ]
    return adds, TableDeclaration(schema, keys, properties=asked)


def _trusted(wanted: Wanted, footer: Any) -> Wanted:
    """Leaves out bounds that mean something else in this file than in one written here.

    Writers other than Spark's leave not-a-number out of the bounds of floating-point columns; unsigned numbers,
    timestamps of other units, and dates and times in the calendar of old releases of Spark are stored otherwise than
    they read.
    """
    types = dict(leaf_types(footer.schema.to_arrow_schema()))
    by_spark, in_old_calendar = "parquet-mr" in (footer.created_by or ""), is_julian(footer)
    kept = {
        path: type
        for path, type in wanted.bounds.items()
        if path in types
        and (types[path] in _SAME or _is_same(types[path], by_spark))
        and not (in_old_calendar and pa.types.is_temporal(types[path]))
    }
    return replace(wanted, bounds=kept)


def _is_same(type: pa.DataType, by_spark: bool) -> bool:
    if pa.types.is_timestamp(type):
        return bool(type.unit == "us")
    return pa.types.is_decimal(type) or (by_spark and pa.types.is_floating(type))


def _check_free(store: Store) -> None:
    if taken := formats_at(store):
        raise AlreadyExistsError(
            f"{store.root} is a {taken[0]} table already", sides={"asked for": "a Delta table made of loose files"}
        )
    if any(True for _ in store.list(_SINK)):
        raise UnsupportedError(
            f"{store.root} was written by a stream, which keeps its own list of files in {_SINK}",
            sides={"found": _SINK, "possible": "a folder in which every file counts"},
            next_step="Read it with Spark and write it to a new table.",
        )


def _data_files(store: Store) -> Iterator[ObjectMeta]:
    for meta in store.list():
        *folders, name = meta.path.split("/")
        hidden = name.startswith(("_", ".")) or any(
            folder.startswith(".") or (folder.startswith("_") and "=" not in folder) for folder in folders
        )
        if not hidden:
            yield meta


def _footers(store: Store, found: Sequence[ObjectMeta]) -> list[Any]:
    try:
        opened = footers(store, [(meta.path, meta.size) for meta in found])
        check_foreign(store, [(meta.path, meta.size) for meta in found])
        return opened
    except MalformedError as error:
        raise InputError(
            f"{store.root} holds a file that is no Parquet file",
            sides=error.sides,
            next_step="Move it out of the folder, or give it a name that begins with '_'.",
        ) from error


def _values(path: str, partitions: Sequence[Field]) -> dict[str, str | None]:
    """The partition values that the folders above a file stand for."""
    pairs = [parse_folder(folder) for folder in path.split("/")[:-1] if "=" in folder]
    expected = [field.name for field in partitions]
    if [name.lower() for name, _ in pairs] != [name.lower() for name in expected]:
        raise SchemaError(
            f"the folders of {path} do not fit the partition columns",
            sides={"given": ", ".join(expected) or "none", "found": ", ".join(name for name, _ in pairs) or "none"},
            next_step=_advice(pairs),
        )
    return {name: value or None for name, (_, value) in zip(expected, pairs, strict=True)}


def _advice(pairs: Sequence[tuple[str, str | None]]) -> str:
    """The partition columns to give, with types that the values of one file look like."""
    if not pairs:
        return "Leave partition_by out, or move the file into the folder of its partition."
    columns = ", ".join(
        f"{name if name.isidentifier() else quoted(name)} {_look(value or '')}" for name, value in pairs
    )
    return f"Give all that the folders name, in their order: partition_by='{columns}', or PARTITIONED BY ({columns})."


def _look(value: str) -> str:
    if re.fullmatch(r"-?[0-9]{1,18}", value):
        return "INT" if abs(int(value)) < 2**31 else "BIGINT"
    return "DATE" if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value) else "STRING"


def _check_values(
    found: Sequence[ObjectMeta], values: Sequence[Mapping[str, str | None]], partitions: Sequence[Field]
) -> None:
    """Makes sure that every value can be read as its column's type."""
    columns = [PartitionColumn.of(field, "none") for field in partitions]
    texts = pa.array([list(each.items()) for each in values], TEXT_MAP)
    try:
        PartitionValues(pa.table({"partition_values": texts}), columns)
    except MalformedError as error:
        raise SchemaError(
            f"a folder's name is no value of its partition column: {error.sides.get('value')}",
            sides=error.sides,
            next_step="Give the partition column another type.",
        ) from error

"""The columns of rows that are to be written, against those of the table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from halocline.errors import InputError, SchemaError, nearest
from halocline.formats.hudi.avro.from_arrow import avro_schema
from halocline.formats.hudi.record_keys import check_key_type
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.table_schema import META_COLUMNS
from halocline.schema.arrow import arrow_schema, struct_of_arrow
from halocline.schema.types import Struct
from halocline.spark.types import input_schema
from halocline.spark.types.assignment import Assignment, Casting
from halocline.table.hudi.writing import avro_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SchemaMode = Literal["merge"] | None


def columns_of_rows(df: DataFrame) -> Struct:
    """The columns of the rows, without those that Hudi adds itself."""
    found = input_schema.columns_of(input_schema.checked_frame(df))
    return found.with_fields(each for each in found.fields if each.name not in META_COLUMNS)


def columns_for(snapshot: HudiSnapshot, df: DataFrame, mode: SchemaMode) -> tuple[pa.Schema, str]:
    """The columns that the table is going to have with these rows; see `fitting_columns`."""
    return fitting_columns(snapshot, columns_of_rows(df), mode)


def fitting_columns(snapshot: HudiSnapshot, rows: Struct, mode: SchemaMode) -> tuple[pa.Schema, str]:
    """The columns that the table is going to have, and the same as Avro's JSON.

    Args:
        snapshot: The table.
        rows: The columns of the rows. Those that they lack become null, except those of the key and the partition, and
            those that must not be null.
        mode: `merge` lets the table grow by the columns that it lacks.

    Raises:
        SchemaError: A column is unknown to the table, has another type, or is one of the key and lacking.
    """
    if mode not in (None, "merge"):
        raise InputError(f"there is no schema_mode {mode!r}", sides={"given": str(mode), "known": "merge"})
    columns, text = snapshot.schema.columns, avro_text(snapshot)
    plain = pa.schema([each for each in columns if each.name not in META_COLUMNS])
    table = struct_of_arrow(plain)
    config = snapshot.config
    for name in (*config.record_keys, *(each.name for each in config.partition_fields)):
        if table.get(name) is not None and rows.get(name) is None:
            raise SchemaError(
                f"rows lack column {name}, which says where in {snapshot.store.root} they belong",
                sides={"rows have": ", ".join(rows.names), "needed": name},
                next_step="Give the columns of the key, and those of the partition.",
            )
    for name in config.record_keys:
        if name in plain.names:
            check_key_type(plain.field(name).type)
    new = []
    for field in rows.fields:
        held = table.get(field.name)
        if held is None:
            new.append(field)
        elif held.name != field.name:
            raise _misfit(snapshot, f"column {held.name} is spelt otherwise", held.name, field.name)
        work = Assignment(Casting.WIDENING)
        if held is not None:
            work.value("", field.type, held.type, field.name)
        for path, wide, narrow in work.problems:
            raise _misfit(snapshot, f"column {path} has another type", wide, narrow)
    for each in plain:
        if not each.nullable and rows.get(each.name) is None:
            raise _misfit(snapshot, f"column {each.name} must not be null", "NOT NULL", "no such column")
    if new and mode is None:
        name = new[0].name
        raise SchemaError(
            f"{snapshot.store.root} has no column {name}",
            sides={"rows have": name, "nearest": nearest(name, table.names) or "none"},
            next_step='Leave the column out, or let the table grow: schema_mode="merge".',
        )
    if not new:
        return columns, text
    more = arrow_schema(new)
    grown = json.loads(text)
    grown["fields"] += json.loads(avro_schema(more, snapshot.config.name))["fields"]
    return pa.schema([*columns, *more]), json.dumps(grown, separators=(",", ":"))


def _misfit(snapshot: HudiSnapshot, message: str, wanted: str, found: str) -> SchemaError:
    return SchemaError(
        f"{snapshot.store.root}: {message}",
        sides={"table has": wanted, "rows have": found},
        next_step="Cast or rename the column.",
    )

"""Rows that come as Arrow batches, fitted to the columns of a table.

Spark hands batches to a data source in the schema of the DataFrame, whatever that is. `ArrowFit` finds the table's
columns by name, at every depth, and lays them out as files want them: physical names, partition columns last and as the
text of folders. What cannot fit is refused before a row is seen; a null where the table allows none, when it comes.

The limits: a value may only grow on its way, as `halocline.spark.types.assignment` says, since nothing here evaluates
Spark's casts. Columns that rows come without become null.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import ConstraintError, SchemaError, nearest
from halocline.formats.delta.actions.action import repeated
from halocline.formats.delta.actions.folders import NULL_FOLDER
from halocline.formats.delta.configuration.column_mapping import physical_name
from halocline.schema.arrow import ArrowTypes
from halocline.schema.arrow_arrays import ArrowArrays
from halocline.schema.types import Field, Struct, decimal_of, is_void
from halocline.schema.visitor import types
from halocline.spark.scan.not_null import is_complete
from halocline.spark.types.assignment import Assignment, Casting
from halocline.spark.types.partition_values import TEXT_TYPES
from halocline.spark.write.physical import Physical, beyond_text


class ArrowFit:
    """Turns batches with the columns of a DataFrame into batches of rows as a table lays them out."""

    def __init__(self, columns: Struct, physical: Physical, table: str) -> None:
        self._physical = physical
        self._fitted = _Fitted(physical.mode)
        self._table = table
        self._check_names(columns)
        given = {each.name.lower(): (number, each) for number, each in enumerate(columns.fields)}
        wanted = [*physical.data, *physical.partitions]
        self._sources: list[tuple[Field, int | None]] = []
        for field in wanted:
            number, found = given.pop(field.name.lower(), (None, None))
            work = Assignment(Casting.WIDENING)
            if found is not None:
                work.value("", found.type, field.type, field.name)
            for path, wide, narrow in work.problems:
                raise self._misfit(f"column {path} has another type", wide, narrow)
            if found is None and not field.nullable:
                raise self._misfit(
                    f"column {field.name} must not be null",
                    "NOT NULL",
                    "no such column",
                    f"Give every row a value for {field.name}.",
                )
            self._sources.append((field, number))
        if extra := [name for name, (_, each) in given.items() if not is_void(each.type)]:
            near = nearest(extra[0], [field.name for field in wanted])
            raise self._misfit(
                f"the table has no column {extra[0]}",
                ", ".join(field.name for field in wanted),
                ", ".join(columns.names),
                (f"Did you mean {near}? " if near else "") + "Leave it out, or add it to the table: add_columns",
            )

    def _check_names(self, columns: Struct) -> None:
        """One of two columns of a name would be lost without a word."""
        for path, type in types(columns):
            if isinstance(type, Struct) and (twice := repeated(name.lower() for name in type.names)):
                name, spellings = ".".join((*path, twice)), [each for each in type.names if each.lower() == twice]
                raise self._misfit(
                    f"the rows have more than one column {name}", name, ", ".join(spellings), "Leave one of them out."
                )

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as files want them."""
        columns = []
        for field, number in self._sources:
            if number is None:
                columns.append(pa.nulls(batch.num_rows, self._fitted.types.visit(field.type, None)))
                continue
            array = batch.column(number)
            is_folded = self._physical.empty_is_null and field.type.name in TEXT_TYPES
            if is_folded and field in self._physical.partitions:
                # Empty text is null there, and must be judged as such.
                array = pc.if_else(pc.equal(pc.binary_length(array), 0), pa.scalar(None, array.type), array)
            self._check_nulls(array, field)
            columns.append(self._fitted.visit(field.type, array))
        count = len(self._physical.data)
        folders = zip(columns[count:], self._physical.partitions, strict=True)
        texts = [_folder_text(array, field) for array, field in folders]
        names = [*(field.name for field in self._physical.fields), *self._physical.keys]
        return pa.RecordBatch.from_arrays([*columns[:count], *texts], names=names)

    def _check_nulls(self, array: pa.Array, field: Field) -> None:
        if not field.nullable and array.null_count:
            raise self._null(field.name)
        if not is_complete(self._physical.schema.find([field.name])[1], array, in_null_structs=True):
            raise self._null(f"inside {field.name}")

    def _null(self, where: str) -> ConstraintError:
        return ConstraintError(
            f"{self._table}: a row breaks NOT NULL {where}; nothing was written",
            sides={"rule": f"NOT NULL {where}", "row": "holds a null there"},
            next_step="Correct the rows, or drop the rule first.",
        )

    def _misfit(self, message: str, wanted: Any, found: Any, next_step: str = "") -> SchemaError:
        return SchemaError(
            f"{self._table}: {message}",
            sides={"table has": str(wanted)[:300], "rows have": str(found)[:300]},
            next_step=next_step or "Cast the column; append with Spark casts by itself if told so (cast='ansi').",
        )


class _PhysicalTypes(ArrowTypes):
    """Arrow types with physical names."""

    def __init__(self, mode: str) -> None:
        self._mode = mode

    def field(self, field: Field) -> pa.Field:
        return pa.field(physical_name(field, self._mode), self.visit(field.type, None))


class _Fitted(ArrowArrays):
    """Values of a type of the table, out of those that rows bring."""

    def __init__(self, mode: str) -> None:
        self.types = _PhysicalTypes(mode)

    def children(self, type: Struct, context: pa.Array) -> list[pa.Array]:
        children = {child.name.lower(): part for child, part in zip(context.type, context.flatten(), strict=True)}
        return [children.get(each.name.lower(), pa.nulls(len(context))) for each in type.fields]


def logical_column(batch: pa.RecordBatch, field: Field) -> pa.Array:
    """A column of rows that fit, in the type and by the names that the table has; null if the rows lack it."""
    names = [name.lower() for name in batch.schema.names]
    if field.name.lower() not in names:
        return pa.nulls(batch.num_rows, _LOGICAL.types.visit(field.type, None))
    return _LOGICAL.visit(field.type, batch.column(names.index(field.name.lower())))


_LOGICAL: Final = _Fitted("none")


def _folder_text(array: pa.Array, field: Field) -> pa.Array:
    """Partition values as the text of folders, as Spark spells them: timestamps in UTC, bytes in hexadecimal."""
    type = field.type.name
    if type == "string":
        longer = pc.binary_join_element_wise(array, pa.scalar("_"), pa.scalar(""))
        return pc.if_else(pc.starts_with(array, NULL_FOLDER), longer, array)
    if type == "timestamp":
        array = array.cast(pa.timestamp("us"))
    if type in ("timestamp", "timestamp_ntz"):
        try:
            return _texts(array, _time_text)
        except OverflowError:
            raise beyond_text(field.name) from None
    if type == "binary":
        return _texts(array, lambda value: value.hex().upper())
    if type in ("float", "double"):
        number = np.float32 if type == "float" else np.float64
        return _texts(array, lambda value: _float_text(number(value)))
    if decimal_of(field.type) is not None:
        return _texts(array, lambda value: format(value, "f"))
    texts = array.cast(pa.string())
    if type == "date" and pc.any(pc.invert(pc.match_substring_regex(texts, r"^\d{4}-"))).as_py():
        raise beyond_text(field.name)
    return texts


def _texts(array: pa.Array, spell: Callable[[Any], str]) -> pa.Array:
    """Each value by its text; partitions have few values, and each is spelt once."""
    encoded = array.dictionary_encode()
    return pa.array([spell(value) for value in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def _time_text(value: datetime) -> str:
    text = value.isoformat(" ")
    return text.rstrip("0") if value.microsecond else text


def _float_text(value: np.floating[Any]) -> str:
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, trim="0")
    digits, _, power = np.format_float_scientific(value, trim="0").partition("e")
    return f"{digits}E{int(power)}"

"""Rows that come as Arrow batches, fitted to the columns of a table.

Spark hands batches to a data source in the schema of the DataFrame, whatever that is. `ArrowFit` finds the table's
columns by name, at every depth, and lays them out as files want them: physical names, partition columns last and as the
text of folders. What cannot fit is refused before a row is seen; a null where the table allows none, when it comes.

The limits: a value may only grow on its way (a small whole number into a larger one, single into double precision),
since nothing here evaluates Spark's casts. Columns that rows come without become null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import ConstraintError, InputError, SchemaError
from halocline.formats.delta.configuration.schema_edit import JsonType
from halocline.spark.scan.arrow_scan import arrow_type, unnested
from halocline.spark.types.columns import Field, Names, is_void
from halocline.spark.types.partition_values import NULL_FOLDER
from halocline.spark.write.physical import Physical

_GROWS: Final[Mapping[str, Sequence[str]]] = {
    "byte": ("short", "integer", "long"),
    "short": ("integer", "long"),
    "integer": ("long",),
    "float": ("double",),
}
_INNER: Final = ("elementType", "keyType", "valueType")


class ArrowFit:
    """Turns batches of a DataFrame into batches of physical rows.

    Args:
        offered: The columns of the rows, parsed.
        schema: The columns of the table, parsed.
        physical: How the table lays out rows.
        mode: The table's column mapping.
        table: The table's name, for messages.

    Raises:
        SchemaError: The columns do not fit.
    """

    def __init__(
        self, offered: Mapping[str, Any], schema: Mapping[str, Any], physical: Physical, mode: str, table: str
    ) -> None:
        self._physical = physical
        self._types = {each["name"]: each["type"] for each in schema["fields"]}
        self._names = Names("none" if mode == "none" else "name")
        self._table = table
        given = {each["name"].lower(): (number, each) for number, each in enumerate(offered["fields"])}
        wanted = [*physical.data, *physical.partitions]
        self._sources: list[tuple[Field, int | None, JsonType]] = []
        for field in wanted:
            number, found = given.pop(field["name"].lower(), (None, None))
            if found is not None and not _fits(found["type"], field["type"]):
                raise self._misfit(f"column {field['name']} has another type", field["type"], found["type"])
            if found is None and not field.get("nullable", True):
                raise self._misfit(f"column {field['name']} must not be null", "NOT NULL", "no such column")
            self._sources.append((field, number, found["type"] if found else "void"))
        if extra := [name for name, (_, each) in given.items() if not is_void(each["type"])]:
            raise self._misfit(
                f"the table has no column {extra[0]}",
                ", ".join(field["name"] for field in wanted),
                ", ".join(each["name"] for each in offered["fields"]),
            )

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as files want them.

        Raises:
            ConstraintError: A value is null and must not be.
        """
        columns = []
        for field, number, _ in self._sources:
            if number is None:
                columns.append(pa.nulls(batch.num_rows, self._type(field["type"])))
                continue
            array = batch.column(number)
            if field in self._physical.partitions and field["type"] in ("string", "binary"):
                # Empty text is null there, and must be judged as such.
                array = pc.if_else(pc.equal(pc.binary_length(array), 0), pa.scalar(None, array.type), array)
            self._check_nulls(array, field)
            columns.append(self._value(array, field["type"]))
        count = len(self._physical.data)
        folders = zip(columns[count:], self._physical.partitions, strict=True)
        texts = [_folder_text(array, field) for array, field in folders]
        names = [*(str(self._names.of(field)) for field in self._physical.data), *self._physical.keys]
        return pa.RecordBatch.from_arrays([*columns[:count], *texts], names=names)

    # ------------------------------------------------------------------ values

    def _value(self, array: pa.Array, type: JsonType) -> pa.Array:
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), self._type(type))
        if isinstance(type, str):
            return array if array.type == arrow_type(type) else array.cast(arrow_type(type))
        if type["type"] == "struct":
            children = {child.name.lower(): part for child, part in zip(array.type, array.flatten(), strict=True)}
            parts = [
                self._value(children[each["name"].lower()], each["type"])
                if each["name"].lower() in children
                else pa.nulls(len(array), self._type(each["type"]))
                for each in type["fields"]
            ]
            kinds = list(self._type(type))
            return pa.StructArray.from_arrays(parts, fields=kinds, mask=pc.is_null(array))
        offsets, inner = unnested(array)
        if type["type"] == "array":
            values = self._value(inner, type["elementType"])
            return pa.ListArray.from_arrays(offsets, values, type=self._type(type))
        keys, items = inner.flatten()
        return pa.MapArray.from_arrays(
            offsets, self._value(keys, type["keyType"]), self._value(items, type["valueType"])
        )

    def _type(self, type: JsonType) -> pa.DataType:
        """The Arrow type with physical names."""
        if isinstance(type, str):
            return arrow_type(type)
        if type["type"] == "struct":
            return pa.struct([pa.field(str(self._names.of(each)), self._type(each["type"])) for each in type["fields"]])
        if type["type"] == "array":
            return pa.list_(pa.field("element", self._type(type["elementType"])))
        return pa.map_(self._type(type["keyType"]), self._type(type["valueType"]))

    # ------------------------------------------------------------------ rules

    def _check_nulls(self, array: pa.Array, field: Field) -> None:
        if not field.get("nullable", True) and array.null_count:
            raise self._null(field["name"])
        if not _complete(array, self._types[field["name"]]):
            raise self._null(f"inside {field['name']}")

    def _null(self, where: str) -> ConstraintError:
        return ConstraintError(
            f"{self._table}: a row breaks NOT NULL {where}; nothing was written",
            sides={"rule": f"NOT NULL {where}", "row": "holds a null there"},
            next_step="Correct the rows, or drop the rule first.",
        )

    def _misfit(self, message: str, wanted: Any, found: Any) -> SchemaError:
        return SchemaError(
            f"{self._table}: {message}",
            sides={"table has": str(wanted)[:300], "rows have": str(found)[:300]},
            next_step="Cast or select the columns, or use Table.append, which casts and fills in by itself.",
        )


def _fits(found: JsonType, wanted: JsonType) -> bool:
    """Whether every value of one type is one of the other as well."""
    if isinstance(found, str) or isinstance(wanted, str):
        if found == wanted or (isinstance(found, str) and is_void(found)):
            return True
        return isinstance(found, str) and isinstance(wanted, str) and wanted in _GROWS.get(found, ())
    if found["type"] != wanted["type"]:
        return False
    if found["type"] == "struct":
        given = {each["name"].lower(): each for each in found["fields"]}
        for each in wanted["fields"]:
            match = given.pop(each["name"].lower(), None)
            fitting = each.get("nullable", True) if match is None else _fits(match["type"], each["type"])
            if not fitting:
                return False
        return not given
    return all(_fits(found[key], wanted[key]) for key in _INNER if key in wanted)


def _complete(array: pa.Array, type: JsonType) -> bool:
    """Whether nothing below a value is null that must not be; it holds where the parent is there at all."""
    if isinstance(type, str) or pa.types.is_null(array.type):
        return True
    present = array.drop_null()
    if type["type"] == "struct":
        children = {child.name.lower(): part for child, part in zip(array.type, present.flatten(), strict=True)}
        for each in type["fields"]:
            part = children.get(each["name"].lower())
            if part is None:
                continue
            if (not each.get("nullable", True) and part.null_count) or not _complete(part, each["type"]):
                return False
        return True
    _, inner = unnested(present)
    if type["type"] == "array":
        return (type.get("containsNull", True) or not inner.null_count) and _complete(inner, type["elementType"])
    keys, items = inner.flatten()
    if not type.get("valueContainsNull", True) and items.null_count:
        return False
    return _complete(keys, type["keyType"]) and _complete(items, type["valueType"])


def _folder_text(array: pa.Array, field: Field) -> pa.Array:
    """Partition values as the text of folders: timestamps in UTC, bytes in hexadecimal."""
    type = field["type"]
    if type == "string":
        if pc.any(pc.equal(array, NULL_FOLDER)).as_py():
            raise InputError(
                f"{NULL_FOLDER} stands for null in partition columns",
                sides={"column": field["name"], "value": NULL_FOLDER},
            )
        return array
    if type == "timestamp":
        array = array.cast(pa.timestamp("us"))
    if type in ("timestamp", "timestamp_ntz"):
        return _texts(array, lambda value: value.isoformat(" "))
    if type == "binary":
        return _texts(array, lambda value: value.hex().upper())
    if type in ("float", "double"):
        return _texts(array, _float_text)
    return array.cast(pa.string())


def _texts(array: pa.Array, spell: Any) -> pa.Array:
    return pa.array([None if value is None else spell(value) for value in array.to_pylist()], pa.string())


def _float_text(value: float) -> str:
    if value != value:
        return "NaN"
    return {float("inf"): "Infinity", float("-inf"): "-Infinity"}.get(value) or repr(value)

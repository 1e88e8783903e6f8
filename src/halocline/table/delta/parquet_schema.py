"""The columns of Parquet files, in the spelling of a table's log.

Files that Spark wrote carry their schema in Spark's own words, which is taken as it is. For others the types are what
Spark would read: whole numbers without a sign take the next longer type, timestamps are with or without a zone as the
file says, and the old twelve-byte timestamps are with one. How Arrow kept values before they were written, in a
dictionary as categories of pandas or as views, is of no account. Files that belong together are merged by name, without
regard to case; a column must have the same type in all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from halocline.errors import SchemaError, UnsupportedError
from halocline.schema.arrow import struct_of_arrow
from halocline.schema.json_edge import struct_from_json
from halocline.schema.types import DataType, Path, Struct
from halocline.schema.visitor import nullable, paired, with_parts, with_type
from halocline.spark.types import input_schema
from halocline.spark.types.columns import sql_type

_SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
_TYPES: Final[Mapping[pa.DataType, str]] = {
    pa.uint8(): "short",
    pa.uint16(): "integer",
    pa.uint32(): "long",
    pa.uint64(): "decimal(20,0)",
    pa.null(): "void",
    pa.string_view(): "string",
    pa.binary_view(): "binary",
}


def columns_in(footer: Any, file: str) -> Struct:
    """The columns of the file with a footer."""
    written = (footer.metadata or {}).get(_SPARK_SCHEMA)
    if written is not None:
        return nullable(input_schema.declared(struct_from_json(json.loads(written))))
    # Only the file itself knows twelve-byte timestamps.
    stored = (footer.schema.column(number).physical_type for number in range(footer.num_columns))

    def spark_type(type: pa.DataType) -> str | None:
        if next(stored) == "INT96":
            return "timestamp"
        if pa.types.is_dictionary(type):
            return struct_of_arrow([pa.field(file, type.value_type)], _TYPES.get).fields[0].type.name
        return _TYPES.get(type)

    try:
        return struct_of_arrow(footer.schema.to_arrow_schema(), spark_type)
    except UnsupportedError as error:
        next_step = "Rewrite the file with another type."
        raise UnsupportedError(f"{file}: {error.message}", sides=error.sides, next_step=next_step) from None


def merged(schemas: Iterable[tuple[str, Struct]]) -> Struct:
    """One schema for many files.

    Example:
        >>> from halocline.schema import Field, Primitive
        >>> one = Struct([Field("a", Primitive("long"))])
        >>> two = Struct([Field("A", Primitive("long")), Field("b", Primitive("date"))])
        >>> print(merged([("x", one), ("y", two)]))
        struct<a: long, b: date>
    """
    whole = Struct()
    origin: dict[Path, str] = {}
    seen: set[Struct] = set()
    for file, schema in schemas:
        if schema not in seen:  # most files of a folder are alike
            seen.add(schema)
            whole = _joined_structs(whole, schema, (), file, origin)
    return whole


def _joined_structs(left: Struct, right: Struct, path: Path, file: str, origin: dict[Path, str]) -> Struct:
    fields = []
    for field in left.fields:
        other, here = right.get(field.name), (*path, field.name)
        type = field.type if other is None else _joined(field.type, other.type, here, file, origin)
        fields.append(with_type(field, type))
    new = [field for field in right.fields if left.get(field.name) is None]
    origin |= {(*path, field.name): file for field in new}
    return left.with_fields([*fields, *new])


def _joined(left: DataType, right: DataType, path: Path, file: str, origin: dict[Path, str]) -> DataType:
    if isinstance(left, Struct) and isinstance(right, Struct):
        return _joined_structs(left, right, path, file, origin)
    if (inner := paired(left, right)) is not None:
        return with_parts(left, *(_joined(one, other, (*path, step), file, origin) for step, one, other in inner))
    if left != right:
        first = next((origin[path[:end]] for end in range(len(path), 0, -1) if path[:end] in origin), "another file")
        raise SchemaError(
            f"files disagree about the type of column {'.'.join(path)}",
            sides={first: sql_type(left), file: sql_type(right)},
            next_step="Rewrite one of the files, or move it out of the folder.",
        )
    return left

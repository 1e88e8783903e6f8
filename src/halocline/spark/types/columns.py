"""From the columns in files to the columns of a table.

A *physical* column is one as the files name it, a *logical* one as people do. The *read schema* is what Spark is told
to look for in the files; the *expressions* turn what it finds into the table's columns:

- renamed columns, at any depth, get their logical names. Spark still reads only the nested fields that a query uses;
- a column that a file lacks is null; columns of type void are in no file at all;
- floating-point columns are shielded from Spark's filter push-down. Many writers leave NaN out of the bounds in a
  footer, and Spark, for which NaN is greater than any number, would skip rows that a filter selects.

Read schemas carry no defaults and no field ids, so neither the session's settings nor metadata of the log can change
what a missing column means. Comments and the lengths of char and varchar are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import UnsupportedError
from halocline.formats.delta.configuration.column_mapping import field_id, physical_name
from halocline.schema import defaults
from halocline.schema.json_edge import in_delta_order, struct_from_json, thawed, to_json
from halocline.schema.types import Array, DataType, Field, Map, Path, Primitive, Struct, is_void, parts
from halocline.schema.visitor import Visitor, map_fields, nullable, types, without_metadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_DROPPED: Final = ("delta.", "parquet.field.", *defaults.ANNOTATIONS)
_FLOATS: Final = ("float", "double")
_SQL_TYPES: Final[Mapping[str, str]] = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "null": "void",
}


class Names:
    """How the files of one scan name the columns of a table; for mode `id`, by the field ids that they have.

    Example:
        >>> Names("none").of(Field("a", Primitive("long")))
        'a'
    """

    def __init__(self, mode: str = "none", by_id: Mapping[int, str] | None = None) -> None:
        self.mode: Final = mode
        self.by_id: Final = by_id

    def of(self, field: Field) -> str | None:
        """The name of a field in the files; None if they do not have it."""
        if self.by_id is not None:
            return self.by_id.get(field_id(field) or 0)
        return physical_name(field, self.mode)

    def in_files(self, field: Field) -> str | None:
        """The same, if there is anything in the field that files hold."""
        return None if self._holds_nothing(field.type) else self.of(field)

    def _holds_nothing(self, type: DataType) -> bool:
        if isinstance(type, Struct):
            return all(self.in_files(field) is None for field in type.fields)
        return is_void(type) or any(self._holds_nothing(part) for _, part in parts(type))


@dataclass(frozen=True, slots=True)
class Output:
    """One column of a scan.

    Attributes:
        name: Its logical name.
        sql: Spark SQL over the columns of the read schema.
        metadata: What to attach to the column; None if Spark keeps it by itself.
    """

    name: str
    sql: str
    metadata: Mapping[str, Any] | None = None

    def select(self) -> str:
        """The item for `DataFrame.selectExpr`."""
        return f"{self.sql} AS {quoted(self.name)}"


def read_fields(fields: Sequence[Field], names: Names) -> list[Field]:
    """The fields of the read schema; void columns, and those no file has, are left out.

    Example:
        >>> field = Field("a", Primitive("long"), nullable=False, metadata={"comment": "x", "delta.y": 1})
        >>> read_fields([field], Names()) == [Field("a", Primitive("long"), False, {"comment": "x"})]
        True
    """

    def read(_: Path, field: Field) -> Field | None:
        name = names.of(field)
        hidden = name is None or _is_hollow(field.type)
        return None if hidden else Field(name or "", field.type, field.nullable, kept_metadata(field))

    return list(map_fields(Struct(fields), read).fields)


def outputs(fields: Sequence[Field], names: Names) -> list[Output]:
    """The table's columns as expressions over the read schema.

    Example:
        >>> [output.select() for output in outputs([Field("a b", Primitive("double"))], Names())]
        ['nanvl(`a b`, `a b`) AS `a b`']
    """
    return [_output(field, names) for field in fields]


def _output(field: Field, names: Names) -> Output:
    metadata = kept_metadata(field)
    physical = names.in_files(field)
    if physical is None:
        return Output(field.name, missing(field.type), metadata or None)
    source = quoted(physical)
    sql = _FromFile(names).visit(field.type, (source, field.nullable))
    return Output(field.name, sql, metadata if metadata and sql != source else None)


def missing(type: DataType) -> str:
    """SQL for a null of the type.

    Example:
        >>> missing(Primitive("long"))
        'CAST(NULL AS bigint)'
    """
    return f"CAST(NULL AS {sql_type(type)})"


def quoted(name: str) -> str:
    """A column name as Spark SQL reads it, whatever characters it holds.

    Example:
        >>> quoted("a.b`c")
        '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """A text as Spark SQL reads it, however the session treats backslashes and quotes.

    Example:
        >>> text_literal("it's")
        "CAST(X'69742773' AS string)"
    """
    return f"CAST(X'{text.encode(errors='surrogatepass').hex().upper()}' AS string)"


def sql_type(type: DataType) -> str:
    """A type as Spark SQL reads it.

    Example:
        >>> sql_type(Array(Primitive("long")))
        'array<bigint>'
    """
    return _SQL_TYPE.visit(type, None)


def kept_metadata(field: Field) -> dict[str, Any]:
    """The metadata of a field that belongs to its readers rather than to the log."""
    return {key: thawed(value) for key, value in field.metadata.items() if not key.startswith(_DROPPED)}


def holds(type: DataType, wanted: Collection[str]) -> bool:
    """Whether a type is, or has anywhere inside, one of the primitives wanted.

    Example:
        >>> holds(Array(Primitive("variant")), ("variant",))
        True
    """
    return any(isinstance(each, Primitive) and each.name in wanted for _, each in types(type))


def spark_schema(fields: Sequence[Field]) -> Any:
    """A schema for Spark's reader or writer."""
    from pyspark.sql.types import StructType

    try:
        return StructType.fromJson(to_json(Struct(fields)))
    except Exception as error:  # PySpark raises its own error here in some releases, a KeyError in others
        raise UnsupportedError(
            "this PySpark does not know a type of the table",
            sides={"PySpark": str(error)[:200], "columns": ", ".join(str(field)[:60] for field in fields)},
            next_step="Upgrade PySpark, or leave the column out with columns=.",
        ) from error


def struct_of(schema: StructType) -> Struct:
    """A schema that Spark has."""
    return in_delta_order(struct_from_json(schema.jsonValue()))


def blank_frame(spark: SparkSession, schema: Struct) -> DataFrame:
    """A DataFrame without rows that has the columns of a table, for expressions to be analysed over."""
    plain = nullable(without_metadata(Struct(written_fields(schema))))
    return spark.createDataFrame([], spark_schema(plain.fields))


def written_fields(schema: Struct) -> list[Field]:
    """The columns of a table that rows have: all but those of type void."""
    return [field for field in schema.fields if not is_void(field.type)]


def without_void(fields: Sequence[Field]) -> list[Field]:
    """The same fields, with their logical names and all of their metadata, without what no file holds."""
    return list(map_fields(Struct(fields), lambda _, field: None if _is_hollow(field.type) else field).fields)


class _SqlType(Visitor[None, str]):
    def primitive(self, type: Primitive, context: None) -> str:
        return _SQL_TYPES.get(type.name, type.text)

    def struct(self, type: Struct, context: None) -> str:
        return f"struct<{', '.join(f'{quoted(each.name)}: {self.visit(each.type, None)}' for each in type.fields)}>"

    def array(self, type: Array, context: None) -> str:
        return f"array<{self.visit(type.element, None)}>"

    def map(self, type: Map, context: None) -> str:
        return f"map<{self.visit(type.key, None)}, {self.visit(type.value, None)}>"


_SQL_TYPE: Final = _SqlType()


def _is_hollow(type: DataType) -> bool:
    """Whether there is nothing in a type that a file holds; hollow fields of structs are gone already."""
    if isinstance(type, Struct):
        return not type.fields
    return is_void(type) or any(_is_hollow(part) for _, part in parts(type))


class Rebuilt(Visitor[tuple[str, bool], str]):
    """SQL for a value made anew, given SQL for it and whether it may be null; what stays the same is left alone."""

    def __init__(self) -> None:
        self.depth = 0

    def primitive(self, type: Primitive, context: tuple[str, bool]) -> str:
        return context[0]

    def part(self, field: Field, sql: str) -> str:
        """SQL for a field of a struct, given SQL for the struct."""
        return self.visit(field.type, (f"{sql}.{quoted(field.name)}", field.nullable))

    def struct(self, type: Struct, context: tuple[str, bool]) -> str:
        sql, may_be_null = context
        parts = {quoted(field.name): self.part(field, sql) for field in type.fields}
        if all(part == f"{sql}.{name}" for name, part in parts.items()):
            return sql
        return struct_sql(parts, f"{sql} IS NOT NULL" if may_be_null else "")

    def array(self, type: Array, context: tuple[str, bool]) -> str:
        element = self._variable()
        inner = self._below(type.element, element, type.contains_null)
        return array_sql(context[0], element, inner)

    def map(self, type: Map, context: tuple[str, bool]) -> str:
        key, value = f"{self._variable()}_key", self._variable()
        new_value = self._below(type.value, value, type.value_contains_null)
        return map_sql(context[0], (key, self._below(type.key, key, False)), (value, new_value))

    def _variable(self) -> str:
        return f"halocline_{self.depth}"

    def _below(self, type: DataType, variable: str, may_be_null: bool) -> str:
        self.depth += 1
        inner = self.visit(type, (variable, may_be_null))
        self.depth -= 1
        return inner


def struct_sql(parts: Mapping[str, str], present: str) -> str:
    """SQL for a struct of SQL by quoted names, null where the condition, if there is one, does not hold."""
    made = f"struct({', '.join(f'{sql} AS {name}' for name, sql in parts.items())})"
    return f"CASE WHEN {present} THEN {made} END" if present else made


def array_sql(sql: str, element: str, inner: str) -> str:
    """SQL for an array whose elements, by the name of a variable, become something else."""
    return sql if inner == element else f"transform({sql}, {element} -> {inner})"


def map_sql(sql: str, key: tuple[str, str], value: tuple[str, str]) -> str:
    """SQL for a map whose keys and values, each by the name of a variable, become something else."""
    for function, (variable, inner) in (("values", value), ("keys", key)):
        if inner != variable:
            sql = f"transform_{function}({sql}, ({key[0]}, {value[0]}) -> {inner})"
    return sql


class Everywhere(Visitor[tuple[str, int], str]):
    """A condition on all that is in a value, given SQL for the value and how deep it stands; empty if there is none."""

    def primitive(self, type: Primitive, context: tuple[str, int]) -> str:
        return ""

    def itself(self, sql: str, nullable: bool) -> str:
        """What is asked of a field, an element or a value of a map itself; by default nothing."""
        return ""

    def struct(self, type: Struct, context: tuple[str, int]) -> str:
        sql, depth = context
        parts: list[str] = []
        for field in type.fields:
            inner = f"{sql}.{quoted(field.name)}"
            parts += [self.itself(inner, field.nullable), self.visit(field.type, (inner, depth))]
        return _where_present(sql, parts) if depth else _all_of(parts)

    def array(self, type: Array, context: tuple[str, int]) -> str:
        sql, depth = context
        return _where_present(sql, [self._elements(type.element, type.contains_null, sql, depth)])

    def map(self, type: Map, context: tuple[str, int]) -> str:
        sql, depth = context
        values = self._elements(type.value, type.value_contains_null, f"map_values({sql})", depth)
        return _where_present(sql, [values, self._elements(type.key, True, f"map_keys({sql})", depth)])

    def _elements(self, type: DataType, nullable: bool, sql: str, depth: int) -> str:
        each = f"halocline_{depth}"
        found = _all_of([self.itself(each, nullable), self.visit(type, (each, depth + 1))])
        return f"forall({sql}, {each} -> {found})" if found else ""


def _all_of(conditions: Iterable[str]) -> str:
    return " AND ".join(filter(None, conditions))


def _where_present(sql: str, conditions: Iterable[str]) -> str:
    found = _all_of(conditions)
    return f"({sql} IS NULL OR ({found}))" if found else ""


class _FromFile(Rebuilt):
    """A value of the table, out of the value in a file.

    Floating-point numbers are shielded where Spark would push a filter on them down into files. A field of a struct
    that may be null is one that may, to Spark, when the struct is built anew.
    """

    def __init__(self, names: Names) -> None:
        super().__init__()
        self._names = names

    def primitive(self, type: Primitive, context: tuple[str, bool]) -> str:
        sql = context[0]
        return f"nanvl({sql}, {sql})" if not self.depth and type.name in _FLOATS else sql

    def part(self, field: Field, sql: str) -> str:
        name = self._names.in_files(field)
        if name is None:
            return missing(field.type)
        return self.visit(field.type, (f"{sql}.{quoted(name)}", field.nullable))

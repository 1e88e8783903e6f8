"""Columns in Spark SQL: names, types and constants as it reads them, and values made anew or judged at any depth."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import UnsupportedError
from halocline.schema import defaults
from halocline.schema.json_edge import in_delta_order, struct_from_json, thawed, to_json
from halocline.schema.types import Array, DataType, Field, Map, Primitive, Struct, decimal_of, is_void
from halocline.schema.visitor import Visitor, nullable, types, without_metadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_DROPPED: Final = ("delta.", "parquet.field.", *defaults.ANNOTATIONS)
FLOATS: Final = ("float", "double")
KEY: Final = "_key"
"""How the name of a variable ends that stands for the key of a map."""

SQL_TYPES: Final[Mapping[str, str]] = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "null": "void",
}
"""What SQL calls types that the log of a table calls otherwise."""

_FILLERS: Final[Mapping[str, str]] = {
    **{type: f"CAST(0 AS {SQL_TYPES.get(type, type)})" for type in ("byte", "short", "integer", "long", *FLOATS)},
    "string": "''",
    "binary": "X''",
    "boolean": "false",
    "date": "DATE'1970-01-01'",
    "timestamp": "TIMESTAMP'1970-01-01 00:00:00Z'",
    "timestamp_ntz": "TIMESTAMP_NTZ'1970-01-01 00:00:00'",
}


def missing(type: DataType) -> str:
    """SQL for a null of the type.

    Example:
        >>> missing(Primitive("long"))
        'CAST(NULL AS bigint)'
    """
    return f"CAST(NULL AS {cast_type(type)})"


def filler(type: DataType) -> str | None:
    """SQL for some value of the type that is not null, and in which nothing is that must not be; None if none is known.

    Example:
        >>> filler(Primitive("decimal(5,2)")), filler(Array(Primitive("string")))
        ('0.00BD', 'array(CAST(NULL AS string))')
    """
    if digits := decimal_of(type):
        return f"{0:.{digits[1]}f}BD"
    if isinstance(type, Array):
        return _filled("array", (type.element, type.contains_null))
    if isinstance(type, Map):
        return _filled("map", (type.key, False), (type.value, type.value_contains_null))
    return _FILLERS.get(type.name)


def _filled(function: str, *parts: tuple[DataType, bool]) -> str | None:
    found = [missing(type) if may_be_null else filler(type) for type, may_be_null in parts]
    return None if None in found else f"{function}({', '.join(filter(None, found))})"


def quoted(name: str) -> str:
    """A column name as Spark SQL reads it, whatever characters it holds.

    Example:
        >>> quoted("a.b`c")
        '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def selected(df: DataFrame, items: Sequence[str]) -> DataFrame:
    """What a DataFrame gives for items of SQL; itself if these are its own columns, which Spark would look at again."""
    own = [f"{name} AS {name}" for name in map(quoted, df.columns)]
    return df if list(items) == own else df.selectExpr(*items)


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


def cast_type(type: DataType) -> str:
    """A type as Spark SQL reads it in every session: `timestamp` alone is what `spark.sql.timestampType` says.

    Example:
        >>> cast_type(Array(Primitive("timestamp")))
        'array<timestamp_ltz>'
    """
    return _CAST_TYPE.visit(type, None)


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


class _SqlType(Visitor[None, str]):
    def primitive(self, type: Primitive, context: None) -> str:
        return SQL_TYPES.get(type.name, type.text)

    def struct(self, type: Struct, context: None) -> str:
        return f"struct<{', '.join(f'{quoted(each.name)}: {self.visit(each.type, None)}' for each in type.fields)}>"

    def array(self, type: Array, context: None) -> str:
        return f"array<{self.visit(type.element, None)}>"

    def map(self, type: Map, context: None) -> str:
        return f"map<{self.visit(type.key, None)}, {self.visit(type.value, None)}>"


class _CastType(_SqlType):
    def primitive(self, type: Primitive, context: None) -> str:
        return "timestamp_ltz" if type.name == "timestamp" else super().primitive(type, context)


_SQL_TYPE: Final = _SqlType()
_CAST_TYPE: Final = _CastType()


class Rebuilt(Visitor[tuple[str, bool], str]):
    """SQL for a value made anew, given SQL for it and whether it may be null; what stays the same is left alone."""

    def __init__(self) -> None:
        self.depth = 0

    def primitive(self, type: Primitive, context: tuple[str, bool]) -> str:
        return context[0]

    def part(self, field: Field, sql: str) -> str:
        """SQL for a field of a struct, given SQL for the struct."""
        return self.visit(field.type, (f"{sql}.{quoted(field.name)}", field.nullable))

    def struct(self, type: Struct, context: tuple[str, bool], *, anew: bool = False) -> str:
        """The struct; one of which nothing changes is made anew on demand only."""
        sql, may_be_null = context
        parts = {quoted(field.name): self.part(field, sql) for field in type.fields}
        if not anew and all(part == f"{sql}.{name}" for name, part in parts.items()):
            return sql
        return struct_sql(parts, f"{sql} IS NOT NULL" if may_be_null else "")

    def array(self, type: Array, context: tuple[str, bool]) -> str:
        element = self._variable()
        inner = self.below(type.element, element, type.contains_null)
        return array_sql(context[0], element, inner)

    def map(self, type: Map, context: tuple[str, bool]) -> str:
        key, value = f"{self._variable()}{KEY}", self._variable()
        new_value = self.below(type.value, value, type.value_contains_null)
        return map_sql(context[0], (key, self.below(type.key, key, False)), (value, new_value))

    def _variable(self) -> str:
        return f"halocline_{self.depth}"

    def below(self, type: DataType, variable: str, may_be_null: bool) -> str:
        """SQL for an element, a key or a value of a map, given the variable that stands for it."""
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

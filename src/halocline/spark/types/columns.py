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

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from halocline.errors import UnsupportedError
from halocline.formats.delta.configuration.schema_edit import FIELD_ID, PHYSICAL_NAME, JsonType

Field: TypeAlias = Mapping[str, Any]
"""A field of a struct as the log spells it."""

PARQUET_ID: Final = "parquet.field.id"
"""The metadata by which Spark writes a field's id into a file."""

_DROPPED: Final = ("delta.", "parquet.field.", "CURRENT_DEFAULT", "EXISTS_DEFAULT")
_FLOATS: Final = ("float", "double")
_VOID: Final = ("void", "null")
_INNER_TYPES: Final = ("elementType", "keyType", "valueType")
_SQL_TYPES: Final[Mapping[str, str]] = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


class Names:
    """How the files of one scan name the columns of a table.

    Args:
        mode: The table's column mapping: `none`, `name` or `id`.
        by_id: For mode `id`, the names that the files give each field id.

    Example:
        >>> Names("none").of({"name": "a", "metadata": {}})
        'a'
    """

    def __init__(self, mode: str = "none", by_id: Mapping[int, str] | None = None) -> None:
        self.mode: Final = mode
        self.by_id: Final = by_id

    def of(self, field: Field) -> str | None:
        """The name of a field in the files; None if they do not have it."""
        metadata = field.get("metadata") or {}
        if self.by_id is not None:
            return self.by_id.get(metadata[FIELD_ID])
        return str(field["name"] if self.mode == "none" else metadata[PHYSICAL_NAME])


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


def read_fields(fields: Sequence[Field], names: Names) -> list[dict[str, Any]]:
    """The fields of the read schema; void columns, and those no file has, are left out.

    Example:
        >>> field = {"name": "a", "type": "long", "nullable": False, "metadata": {"comment": "x", "delta.y": 1}}
        >>> read_fields([field], Names())
        [{'name': 'a', 'type': 'long', 'nullable': True, 'metadata': {'comment': 'x'}}]
    """
    return list(_read_fields(fields, names))


def outputs(fields: Sequence[Field], names: Names) -> list[Output]:
    """The table's columns as expressions over the read schema.

    Example:
        >>> [output.select() for output in outputs([{"name": "a b", "type": "double"}], Names())]
        ['nanvl(`a b`, `a b`) AS `a b`']
    """
    return [_output(field, names) for field in fields]


def _output(field: Field, names: Names) -> Output:
    name, metadata = str(field["name"]), kept_metadata(field)
    physical = names.of(field)
    if physical is None or _read_type(field["type"], names) is None:
        return Output(name, missing(field["type"]), metadata or None)
    source = quoted(physical)
    sql = _Rebuild(names).value(source, field["type"], shielded=True)
    return Output(name, sql, metadata if metadata and sql != source else None)


def missing(type: JsonType) -> str:
    """SQL for a null of the type.

    Example:
        >>> missing("long")
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


def sql_type(type: JsonType) -> str:
    """A type as Spark SQL reads it.

    Example:
        >>> sql_type({"type": "array", "elementType": "long", "containsNull": True})
        'array<bigint>'
    """
    if isinstance(type, str):
        return _SQL_TYPES.get(type, "void" if type in _VOID else type)
    if type["type"] == "struct":
        return f"struct<{', '.join(quoted(f['name']) + ': ' + sql_type(f['type']) for f in type['fields'])}>"
    if type["type"] == "array":
        return f"array<{sql_type(type['elementType'])}>"
    return f"map<{sql_type(type['keyType'])}, {sql_type(type['valueType'])}>"


def kept_metadata(field: Field) -> dict[str, Any]:
    """The metadata of a field that belongs to its readers rather than to the log."""
    return {key: value for key, value in (field.get("metadata") or {}).items() if not key.startswith(_DROPPED)}


def is_void(type: JsonType) -> bool:
    """Whether a column of this type is in no file."""
    return type in _VOID


def holds(type: JsonType, wanted: Collection[str]) -> bool:
    """Whether a type is, or has anywhere inside, one of the primitives wanted.

    Example:
        >>> holds({"type": "array", "elementType": "variant"}, ("variant",))
        True
    """
    if isinstance(type, str):
        return type in wanted
    if type["type"] == "struct":
        return any(holds(field["type"], wanted) for field in type["fields"])
    return any(holds(type[key], wanted) for key in _INNER_TYPES if key in type)


def spark_schema(fields: Sequence[Field]) -> Any:
    """A schema for Spark's reader or writer.

    Raises:
        UnsupportedError: The session's PySpark does not know a type.
    """
    from pyspark.sql.types import StructType

    full = [{"nullable": True, "metadata": {}, **field} for field in fields]
    try:
        return StructType.fromJson({"type": "struct", "fields": full})
    except Exception as error:  # PySpark raises its own error here in some releases, a KeyError in others
        raise UnsupportedError(
            "this PySpark does not know a type of the table",
            sides={"PySpark": str(error)[:200], "columns": ", ".join(f"{f['name']} {f['type']}"[:60] for f in fields)},
            next_step="Upgrade PySpark, or leave the column out with columns=.",
        ) from error


def without_void(fields: Sequence[Field]) -> list[dict[str, Any]]:
    """The same fields, with their logical names and all of their metadata, without what no file holds."""
    return list(_without_void(fields))


def _without_void(fields: Sequence[Field]) -> Iterator[dict[str, Any]]:
    logical = Names()
    for field in fields:
        type = field["type"]
        if _read_type(type, logical) is None:
            continue
        yield {**field, "type": _void_stripped(type)}


def _void_stripped(type: JsonType) -> JsonType:
    if isinstance(type, str):
        return type
    if type["type"] == "struct":
        return {"type": "struct", "fields": without_void(type["fields"])}
    inner = {key: _void_stripped(type[key]) for key in _INNER_TYPES if key in type}
    return {"type": type["type"], **inner, _nullability(inner): True}


def _nullability(inner: Collection[str]) -> str:
    return "containsNull" if "elementType" in inner else "valueContainsNull"


def _read_fields(fields: Sequence[Field], names: Names) -> Iterator[dict[str, Any]]:
    for field in fields:
        name, type = names.of(field), _read_type(field["type"], names)
        if name is not None and type is not None:
            yield {"name": name, "type": type, "nullable": True, "metadata": kept_metadata(field)}


def _read_type(type: JsonType, names: Names) -> JsonType | None:
    """The type to read; None if there is nothing of it in a file."""
    if isinstance(type, str):
        return None if is_void(type) else type
    if type["type"] == "struct":
        fields = read_fields(type["fields"], names)
        return {"type": "struct", "fields": fields} if fields else None
    inner = {key: _read_type(type[key], names) for key in _INNER_TYPES if key in type}
    if any(part is None for part in inner.values()):
        return None
    return {"type": type["type"], **inner, _nullability(inner): True}


class _Rebuild:
    """Writes the SQL that gives a value its logical names; the value itself where nothing changes."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._variables = 0

    def value(self, sql: str, type: JsonType, *, shielded: bool) -> str:
        """SQL for one value; `shielded` where Spark would push a filter on it down into files."""
        if isinstance(type, str):
            return f"nanvl({sql}, {sql})" if shielded and type in _FLOATS else sql
        if type["type"] == "struct":
            return self._struct(sql, type["fields"], shielded)
        if type["type"] == "array":
            element = self._variable()
            inner = self.value(element, type["elementType"], shielded=False)
            return sql if inner == element else f"transform({sql}, {element} -> {inner})"
        return self._map(sql, type)

    def _struct(self, sql: str, fields: Sequence[Field], shielded: bool) -> str:
        parts, same = [], True
        for field in fields:
            name = self._names.of(field)
            if name is None or _read_type(field["type"], self._names) is None:
                parts.append(f"{missing(field['type'])} AS {quoted(field['name'])}")
                same = False
                continue
            source = f"{sql}.{quoted(name)}"
            inner = self.value(source, field["type"], shielded=shielded)
            parts.append(f"{inner} AS {quoted(field['name'])}")
            same = same and inner == source and name == field["name"]
        return sql if same else f"CASE WHEN {sql} IS NOT NULL THEN struct({', '.join(parts)}) END"

    def _map(self, sql: str, type: Mapping[str, Any]) -> str:
        key, value = self._variable(), self._variable()
        for function, variable, part in (("values", value, "valueType"), ("keys", key, "keyType")):
            inner = self.value(variable, type[part], shielded=False)
            if inner != variable:
                sql = f"transform_{function}({sql}, ({key}, {value}) -> {inner})"
        return sql

    def _variable(self) -> str:
        self._variables += 1
        return f"halocline_{self._variables}"

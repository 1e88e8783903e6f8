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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from halocline.formats.delta.configuration.column_mapping import field_id, physical_name
from halocline.schema.types import DataType, Field, Path, Primitive, Struct, is_void, parts
from halocline.schema.visitor import map_fields, types
from halocline.spark.types.columns import FLOATS, KEY, Rebuilt, filler, kept_metadata, missing, quoted


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


def outputs(fields: Sequence[Field], names: Names, *, forgets_all: bool = False) -> list[Output]:
    """The table's columns as expressions over the read schema.

    Args:
        fields: The columns.
        names: How the files name them.
        forgets_all: Whether Spark takes everything in the files for nullable, whatever the read schema says. It is told
            of what is inside of columns then, and of columns of plain types later, by `reminders`.

    Example:
        >>> [output.select() for output in outputs([Field("a b", Primitive("double"))], Names())]
        ['nanvl(`a b`, `a b`) AS `a b`']
    """
    return [_output(field, names, _FromFile(names, forgets_all=forgets_all)) for field in fields]


def _output(field: Field, names: Names, from_file: _FromFile) -> Output:
    metadata = kept_metadata(field)
    physical = names.in_files(field)
    if physical is None:
        return Output(field.name, missing(field.type), metadata or None)
    source = quoted(physical)
    is_told_later = from_file.forgets_all and isinstance(field.type, Primitive)
    sql = from_file.whole(replace(field, nullable=True) if is_told_later else field, source)
    return Output(field.name, sql, metadata if metadata and sql != source else None)


def reminders(fields: Sequence[Field]) -> dict[str, str]:
    """SQL for columns of plain types that are never null, by name: it says so where Spark has forgotten it.

    A filter on such an expression leaves out no row group, so it comes after the condition.

    Example:
        >>> reminders([Field("a", Primitive("long"), nullable=False), Field("b", Primitive("long"))])
        {'a': 'coalesce(`a`, CAST(0 AS bigint))'}
    """
    told = [field for field in fields if isinstance(field.type, Primitive) and not field.nullable]
    made = {field.name: (quoted(field.name), filler(field.type)) for field in told}
    return {name: f"coalesce({sql}, {value})" for name, (sql, value) in made.items() if value is not None}


def without_void(fields: Sequence[Field]) -> list[Field]:
    """The same fields, with their logical names and all of their metadata, without what no file holds."""
    return list(map_fields(Struct(fields), lambda _, field: None if _is_hollow(field.type) else field).fields)


def _is_hollow(type: DataType) -> bool:
    """Whether there is nothing in a type that a file holds; hollow fields of structs are gone already."""
    if isinstance(type, Struct):
        return not type.fields
    return is_void(type) or any(_is_hollow(part) for _, part in parts(type))


class _Renamed(Rebuilt):
    """A value with the names that the table has for its fields.

    Floating-point numbers are shielded where Spark would push a filter on them down into files.
    """

    def __init__(self, names: Names) -> None:
        super().__init__()
        self._names = names

    def primitive(self, type: Primitive, context: tuple[str, bool]) -> str:
        sql = context[0]
        return f"nanvl({sql}, {sql})" if not self.depth and type.name in FLOATS else sql

    def part(self, field: Field, sql: str) -> str:
        name = self._names.in_files(field)
        return missing(field.type) if name is None else self.whole(field, f"{sql}.{quoted(name)}")

    def whole(self, field: Field, sql: str) -> str:
        """SQL for a column or a field, given SQL for what the file has of it."""
        return self.visit(field.type, (sql, field.nullable))


class _FromFile(_Renamed):
    """A value of the table, out of the value in a file.

    Spark *forgets* that a field is never null when a struct that may be null is built anew, and that anything is if
    files are read by a list of paths. It is told again by another value that is never used. Lists and maps of structs
    stay as they are: Spark would read all fields of the structs then.
    """

    def __init__(self, names: Names, *, forgets_all: bool) -> None:
        super().__init__(names)
        self.forgets_all = self._forgets = forgets_all
        self._renamed = _Renamed(names)

    def visit(self, type: DataType, context: tuple[str, bool]) -> str:
        sql, may_be_null = context
        self._renamed.depth = self.depth
        is_left = _holds_structs(type) or (not self.forgets_all and (may_be_null or not self._forgets))
        return sql if is_left and self._renamed.visit(type, context) == sql else super().visit(type, context)

    def whole(self, field: Field, sql: str) -> str:
        made = super().whole(field, sql)
        return made if field.nullable else self._reminded(made, field.type)

    def struct(self, type: Struct, context: tuple[str, bool], *, anew: bool = False) -> str:
        outside, may_be_null = self._forgets, context[1]
        self._forgets = outside or may_be_null
        made = super().struct(type, context, anew=outside and not may_be_null)
        self._forgets = outside
        return made

    def below(self, type: DataType, variable: str, may_be_null: bool) -> str:
        outside, self._forgets = self._forgets, self.forgets_all
        inner = super().below(type, variable, may_be_null)
        # Spark knows of keys, whatever the files say.
        reminded = inner if may_be_null or variable.endswith(KEY) else self._reminded(inner, type)
        self._forgets = outside
        return reminded

    def _reminded(self, sql: str, type: DataType) -> str:
        is_left = isinstance(type, Struct) or _holds_structs(type)
        value = filler(type) if self._forgets and not is_left else None
        return sql if value is None else f"coalesce({sql}, {value})"


def _holds_structs(type: DataType) -> bool:
    """Whether a type is a list or a map with structs in it."""
    return bool(parts(type)) and any(isinstance(each, Struct) for _, each in types(type))

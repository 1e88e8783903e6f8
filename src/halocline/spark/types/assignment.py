"""Which values may be stored in a column of another type, and how they get there.

There are three ways to assign, from strict to lenient; none ever wraps a number around or turns a value into null,
whatever the session says about ANSI:

- `WIDENING`, of rows that are written: every value of the one type is one of the other as well, so a number may only
  grow. What does not fit is refused by its type;
- `EXACT`, of values that an update or a merge assigns: numbers go into numbers, times into dates and times, any plain
  value into text, and text into any of these. A value that would lose its fraction or its time of day is refused when
  it comes; decimals and floating-point numbers are rounded to what their column holds;
- `ANSI`, of rows whose writer asks for it, and of SQL's INSERT: the same, but as Delta Spark stores values, where a
  fraction or a time of day that a column has no place for is cut off.

Inside structs, fields are matched by name without regard to case.

`Assignment` works on types alone and writes SQL. What does not fit by its type is collected, so that one message names
all of it; what only a value can tell becomes a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from halocline.errors import SchemaError, nearest, shortened
from halocline.schema.types import Array, DataType, Field, Map, Primitive, Struct, decimal_of, is_void
from halocline.spark.types.columns import (
    array_sql,
    cast_type,
    map_sql,
    missing,
    quoted,
    sql_type,
    struct_sql,
)

_WHOLE: Final[Mapping[str, int]] = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_RANK: Final = tuple(_WHOLE)
_APPROXIMATE: Final = ("float", "double")
_EXACT_IN: Final[Mapping[str, tuple[str, ...]]] = {
    "float": ("byte", "short"),
    "double": ("byte", "short", "integer", "float"),
}
_DIGITS_KEPT_IN: Final[Mapping[str, int]] = {"float": 6, "double": 15}
"""A decimal of at most so many digits comes back from a floating-point number as it went in."""
_TIMES: Final = ("date", "timestamp", "timestamp_ntz")
_PLAIN: Final = frozenset({*_WHOLE, *_APPROXIMATE, *_TIMES, "boolean", "binary", "string"})
_FROM_TEXT: Final = frozenset({*_WHOLE, *_APPROXIMATE, *_TIMES, "boolean", "binary"})
_MOST_SHOWN: Final = 5


class Casting(StrEnum):
    """What may become of a value on its way into a column of another type."""

    WIDENING = "widening"
    EXACT = "exact"
    ANSI = "ansi"


class Lacking(StrEnum):
    """What becomes of a field of a struct that an assigned struct lacks."""

    NULL = "null"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Fit:
    """What a value must meet to be stored, which only the value can tell.

    Attributes:
        path: The column.
        type: Its type, as SQL spells it.
        condition: SQL that is true for a value that fits, and for null.
        value: SQL for the value.
    """

    path: str
    type: str
    condition: str
    value: str


def is_number(type: DataType) -> bool:
    """Whether a type holds numbers.

    Example:
        >>> is_number(Primitive("decimal(10,2)")), is_number(Primitive("string"))
        (True, False)
    """
    return type.name in _WHOLE or type.name in _APPROXIMATE or decimal_of(type) is not None


def widens(source: DataType, target: DataType) -> bool:
    """Whether every value of one type is a value of another, and stays the same.

    Example:
        >>> [widens(Primitive("integer"), Primitive(target)) for target in ("long", "short", "decimal(12,2)", "float")]
        [True, False, True, False]
        >>> [widens(Primitive(source), Primitive("double")) for source in ("decimal(15,2)", "decimal(16,2)")]
        [True, False]
    """
    if target.name in _WHOLE:
        return source.name in _WHOLE and _RANK.index(source.name) <= _RANK.index(target.name)
    if target.name in _EXACT_IN:
        fixed = decimal_of(source)
        kept = fixed is not None and fixed[0] <= _DIGITS_KEPT_IN[target.name]
        return kept or source.name in (*_EXACT_IN[target.name], target.name)
    if (digits := decimal_of(target)) is None:
        return (source.name, target.name) == ("date", "timestamp_ntz")
    fixed = decimal_of(source) or ((_WHOLE[source.name], 0) if source.name in _WHOLE else None)
    return fixed is not None and digits[0] - digits[1] >= fixed[0] - fixed[1] and digits[1] >= fixed[1]


def is_assignable(source: DataType, target: DataType, casting: Casting) -> bool:
    """Whether values of one plain type may be stored in a column of another, as far as types can tell.

    Example:
        >>> [is_assignable(Primitive("long"), Primitive("integer"), casting) for casting in Casting]
        [False, True, True]
    """
    if not isinstance(source, Primitive) or not isinstance(target, Primitive):
        return False
    if source == target or is_void(source) or widens(source, target):
        return True
    if casting is Casting.WIDENING:
        return False
    if (is_number(source) and is_number(target)) or (source.name in _TIMES and target.name in _TIMES):
        return True
    if source.name == "string":
        return target.name in _FROM_TEXT or decimal_of(target) is not None
    return target.name == "string" and (source.name in _PLAIN or decimal_of(source) is not None)


class Assignment:
    """Writes the SQL that turns values into values of the table, and notes what does not fit.

    Attributes:
        problems: What does not fit by its type: the column, what the table has, and what was given.
        fits: What values must meet.

    Example:
        >>> work = Assignment(Casting.EXACT)
        >>> work.value("`n`", Primitive("integer"), Primitive("long"), "n")
        'CAST(`n` AS bigint)'
        >>> work.value("`m`", Primitive("long"), Primitive("integer"), "m"), work.fits[0].condition
        ('try_cast(`m` AS int)', '`m` IS NULL OR try_cast(`m` AS int) IS NOT NULL')
        >>> _ = work.value("`t`", Primitive("boolean"), Primitive("date"), "t")
        >>> work.problems
        [('t', 'date', 'boolean')]
    """

    def __init__(self, casting: Casting, lacking: Lacking = Lacking.NULL) -> None:
        self.problems: list[tuple[str, str, str]] = []
        self.fits: list[Fit] = []
        self._casting: Final = casting
        self._lacking: Final = lacking
        self._variables = 0
        self._castable = True
        self._meant: list[str] = []

    def value(
        self, sql: str, source: DataType, target: DataType, path: str, old: tuple[str, DataType] | None = None
    ) -> str:
        """SQL for a value of the target type; the same SQL where nothing has to be done.

        Fields that are kept come from the value that the column has now.
        """
        match source, target:
            case Primitive(), _ if is_void(source):
                return missing(target)
            case Struct(), Struct():
                return self._struct(sql, source, target, path, old)
            case Array(), Array():
                return self._array(sql, source, target, path)
            case Map(), Map():
                return self._map(sql, source, target, path)
        if is_assignable(source, target, self._casting):
            return sql if source == target else self._cast(sql, source, target, path)
        self.problems.append((path, sql_type(target), sql_type(source)))
        self._castable = self._castable and is_assignable(source, target, Casting.ANSI)
        return missing(target)

    def check(self, table: str) -> None:
        """Raises for everything noted so far that types can tell."""
        if not self.problems:
            return
        first = self.problems[:_MOST_SHOWN]
        raise SchemaError(
            f"the rows do not fit {table}: {shortened([path for path, _, _ in self.problems], _MOST_SHOWN)}",
            sides={
                "table": ", ".join(f"{path} {target}" for path, target, _ in first),
                "rows": ", ".join(f"{path} {source}" for path, _, source in first),
            },
            next_step=self._hint(),
        )

    def lacks(self, field: Field, target: Struct, before: str = "") -> None:
        """Notes that rows bring a field which the target lacks."""
        self.problems.append((f"{before}{field.name}", _LACKING, sql_type(field.type)))
        if near := nearest(field.name, target.names):
            self._meant.append(f"{before}{near}")

    def _hint(self) -> str:
        """What helps against everything that does not fit, and nothing that does not."""
        new = any(target == _LACKING for _, target, _ in self.problems)
        missing = any(source == "missing" for _, _, source in self.problems)
        other = any(target != _LACKING and source != "missing" for _, target, source in self.problems)
        hints = [f"Did you mean {' and '.join(self._meant)}?"] if self._meant else []
        if other:
            ansi = self._casting is Casting.WIDENING and self._castable
            hints.append(
                "Cast the columns, or ask for Spark's casts with cast='ansi'." if ansi else _CAST[self._casting]
            )
        if missing:
            hints.append("Give every column that is NOT NULL a value.")
        if new:
            hints.append(_NEW[self._casting])
        return " ".join(hints)

    def _struct(self, sql: str, source: Struct, target: Struct, path: str, old: tuple[str, DataType] | None) -> str:
        known = {field.name.lower(): field for field in source.fields}
        before = old[1] if old is not None and isinstance(old[1], Struct) else Struct()
        parts: dict[str, str] = {}
        same, kept = source.names == target.names, False
        for field in target.fields:
            here = f"{path}.{field.name}"
            given, was = known.pop(field.name.lower(), None), before.get(field.name)
            stays = None if old is None or was is None else (f"{old[0]}.{quoted(was.name)}", was.type)
            if given is None and stays is not None:
                after, kept = self.value(*stays, field.type, here), True
            elif given is None:
                if self._lacking is Lacking.REFUSED or not field.nullable:
                    self.problems.append(
                        (here, sql_type(field.type) + ("" if field.nullable else " NOT NULL"), "missing")
                    )
                after = missing(field.type)
            else:
                inner = f"{sql}.{quoted(given.name)}"
                after = self.value(inner, given.type, field.type, here, stays)
                same = same and after == inner
                kept = kept or (stays is not None and stays[0] in after)
            parts[quoted(field.name)] = after
        for field in known.values():
            self.lacks(field, target, f"{path}.")
        if same:
            return sql
        present = f"{sql} IS NOT NULL" + (f" OR {old[0]} IS NOT NULL" if kept and old is not None else "")
        return struct_sql(parts, present)

    def _array(self, sql: str, source: Array, target: Array, path: str) -> str:
        element, first = self._variable(), len(self.fits)
        inner = self.value(element, source.element, target.element, f"{path}.element")
        self._lift(first, sql, f"forall({sql}, {element} -> {{}})")
        return array_sql(sql, element, inner)

    def _map(self, sql: str, source: Map, target: Map, path: str) -> str:
        key, value = self._variable(), self._variable()
        inner = {}
        for part, variable, before, after in (
            ("value", value, source.value, target.value),
            ("key", key, source.key, target.key),
        ):
            first = len(self.fits)
            inner[variable] = self.value(variable, before, after, f"{path}.{part}")
            self._lift(first, sql, f"forall(map_{part}s({sql}), {variable} -> {{}})")
        return map_sql(sql, (key, inner[key]), (value, inner[value]))

    def _lift(self, first: int, sql: str, quantified: str) -> None:
        """Turns what the elements of a value must meet into what the value must meet."""
        for number, fit in enumerate(self.fits[first:], first):
            condition = f"{sql} IS NULL OR {quantified.format(fit.condition)}"
            self.fits[number] = replace(fit, condition=condition, value=sql)

    def _cast(self, sql: str, source: DataType, target: DataType, path: str) -> str:
        type = sql_type(target)
        if widens(source, target) or target.name == "string":
            return f"CAST({sql} AS {cast_type(target)})"
        cast = f"try_cast({sql} AS {cast_type(target)})"
        exact = self._casting is Casting.EXACT
        if source.name == "double" and target.name == "float":
            test = f"isnan({sql}) OR abs({cast}) < FLOAT('Infinity') OR abs({sql}) = DOUBLE('Infinity')"
        elif exact and is_number(source) and source.name not in _WHOLE and target.name in _WHOLE:
            test = f"coalesce({cast} = {sql}, false)"
        elif exact and target.name == "date" and source.name in _TIMES:
            test = f"CAST({cast} AS {cast_type(source)}) = {sql}"
        elif source.name in _TIMES or (is_number(source) and target.name in _APPROXIMATE):
            return f"CAST({sql} AS {cast_type(target)})"
        else:
            test = f"{cast} IS NOT NULL"
        self.fits.append(Fit(path, type, f"{sql} IS NULL OR {test}", sql))
        return cast

    def _variable(self) -> str:
        self._variables += 1
        return f"halocline_in_{self._variables}"


_LACKING: Final = "no such column"
_CAST: Final[Mapping[Casting, str]] = {
    Casting.WIDENING: "Cast the columns: nothing does it by itself.",
    Casting.EXACT: "Cast the values to the type of their column.",
    Casting.ANSI: "Cast the values to the type of their column.",
}
_NEW: Final[Mapping[Casting, str]] = {
    Casting.WIDENING: "New columns come in with schema_mode='merge'; else leave them out.",
    Casting.EXACT: "Add columns and fields first with add_columns; a merge lets new ones in with_schema_evolution().",
    Casting.ANSI: "New columns come in with schema_mode='merge'; else leave them out.",
}

"""Which values may be stored in a column of another type, and how they get there.

The rules are Spark's for assigning values under ANSI: numbers go into numbers, dates and times into dates and times,
any plain value into text; nothing else changes its kind. Inside structs, fields are matched by name without regard to
case. A value that its column cannot hold is an error and never wraps around or turns into null, whatever the session
says about ANSI.

`Assignment` works on types alone and writes SQL. What does not fit is collected, so that one message names all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from halocline.errors import ConstraintError, SchemaError
from halocline.schema.types import Array, DataType, Map, Primitive, Struct, decimal_of, is_void
from halocline.spark.types.columns import missing, quoted, sql_type, text_literal

_WHOLE: Final[Mapping[str, int]] = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_RANK: Final = tuple(_WHOLE)
_APPROXIMATE: Final = ("float", "double")
_TIMES: Final = ("date", "timestamp", "timestamp_ntz")
_PLAIN: Final = frozenset({*_WHOLE, *_APPROXIMATE, *_TIMES, "boolean", "binary", "string"})

_MARK: Final = "HALOCLINE_VALUE_UNFIT"
_FOUND: Final = re.compile(f"{_MARK}<(?P<column>.*?)><(?P<type>.*?)>(?P<value>.*?)</{_MARK}>", re.DOTALL)
_MOST_SHOWN: Final = 5


def is_number(type: DataType) -> bool:
    """Whether a type holds numbers.

    Example:
        >>> is_number(Primitive("decimal(10,2)")), is_number(Primitive("string"))
        (True, False)
    """
    return type.name in _WHOLE or type.name in _APPROXIMATE or decimal_of(type) is not None


def is_assignable(offered: DataType, wanted: DataType) -> bool:
    """Whether values of one plain type may be stored in a column of another.

    Example:
        >>> [is_assignable(Primitive(offered), Primitive("integer")) for offered in ("long", "string")]
        [True, False]
    """
    if not isinstance(offered, Primitive) or not isinstance(wanted, Primitive):
        return False
    if offered == wanted or is_void(offered):
        return True
    if is_number(offered) and is_number(wanted):
        return True
    if offered.name in _TIMES and wanted.name in _TIMES:
        return True
    return wanted.name == "string" and (offered.name in _PLAIN or decimal_of(offered) is not None)


def always_fits(offered: DataType, wanted: DataType) -> bool:
    """Whether every value of the one type has its place in the other, so that no value has to be looked at.

    Example:
        >>> [always_fits(Primitive("integer"), Primitive(wanted)) for wanted in ("long", "short", "decimal(12,2)")]
        [True, False, True]
    """
    if not (is_number(offered) and is_number(wanted)):
        return True
    if wanted.name in _APPROXIMATE:
        return True
    if wanted.name in _WHOLE:
        return offered.name in _WHOLE and _RANK.index(offered.name) <= _RANK.index(wanted.name)
    digits = decimal_of(wanted)
    assert digits is not None
    fixed = decimal_of(offered)
    if fixed is None and offered.name not in _WHOLE:
        return False
    whole = _WHOLE[offered.name] if fixed is None else fixed[0] - fixed[1]
    return digits[0] - digits[1] >= whole and digits[1] >= (0 if fixed is None else fixed[1])


class Assignment:
    """Writes the SQL that turns offered values into values of the table, and notes what does not fit.

    Attributes:
        problems: What does not fit: the column, what the table has, and what was offered.

    Example:
        >>> work = Assignment()
        >>> work.value("`n`", Primitive("integer"), Primitive("long"), "n")
        'CAST(`n` AS bigint)'
        >>> _ = work.value("`t`", Primitive("string"), Primitive("date"), "t")
        >>> work.problems
        [('t', 'date', 'string')]
    """

    def __init__(self) -> None:
        self.problems: list[tuple[str, str, str]] = []
        self._variables = 0

    def value(self, sql: str, offered: DataType, wanted: DataType, path: str) -> str:
        """SQL for a value of the wanted type; the same SQL where nothing has to be done."""
        match offered, wanted:
            case Primitive(), _ if is_void(offered):
                return missing(wanted)
            case Struct(), Struct():
                return self._struct(sql, offered, wanted, path)
            case Array(), Array():
                return self._array(sql, offered, wanted, path)
            case Map(), Map():
                return self._map(sql, offered, wanted, path)
        if is_assignable(offered, wanted):
            return sql if offered == wanted else _cast(sql, offered, wanted, path)
        self.problems.append((path, sql_type(wanted), sql_type(offered)))
        return missing(wanted)

    def check(self, table: str) -> None:
        """Raises for everything noted so far.

        Raises:
            SchemaError: Something does not fit.
        """
        if not self.problems:
            return
        first = self.problems[:_MOST_SHOWN]
        rest = f" and {len(self.problems) - len(first)} more" if len(self.problems) > len(first) else ""
        raise SchemaError(
            f"the rows do not fit {table}: {', '.join(path for path, _, _ in first)}{rest}",
            sides={
                "table": ", ".join(f"{path} {wanted}" for path, wanted, _ in first),
                "rows": ", ".join(f"{path} {offered}" for path, _, offered in first),
            },
            next_step="Change the rows, or let the table follow with schema_mode='merge' or 'overwrite'.",
        )

    def _struct(self, sql: str, offered: Struct, wanted: Struct, path: str) -> str:
        known = {field.name.lower(): field for field in offered.fields}
        parts, same = [], offered.names == wanted.names
        for field in wanted.fields:
            here = f"{path}.{field.name}"
            source = known.pop(field.name.lower(), None)
            if source is None:
                if not field.nullable:
                    self.problems.append((here, f"{sql_type(field.type)} NOT NULL", "missing"))
                parts.append(f"{missing(field.type)} AS {quoted(field.name)}")
                same = False
                continue
            before = f"{sql}.{quoted(source.name)}"
            after = self.value(before, source.type, field.type, here)
            parts.append(f"{after} AS {quoted(field.name)}")
            same = same and after == before
        for field in known.values():
            self.problems.append((f"{path}.{field.name}", "no such column", sql_type(field.type)))
        return sql if same else f"CASE WHEN {sql} IS NOT NULL THEN struct({', '.join(parts)}) END"

    def _array(self, sql: str, offered: Array, wanted: Array, path: str) -> str:
        element = self._variable()
        inner = self.value(element, offered.element, wanted.element, f"{path}.element")
        return sql if inner == element else f"transform({sql}, {element} -> {inner})"

    def _map(self, sql: str, offered: Map, wanted: Map, path: str) -> str:
        key, value = self._variable(), self._variable()
        both = (("values", value, offered.value, wanted.value), ("keys", key, offered.key, wanted.key))
        for function, variable, before, after in both:
            inner = self.value(variable, before, after, f"{path}.{function[:-1]}")
            if inner != variable:
                sql = f"transform_{function}({sql}, ({key}, {value}) -> {inner})"
        return sql

    def _variable(self) -> str:
        self._variables += 1
        return f"halocline_in_{self._variables}"


def unfit_value(error: BaseException, table: str) -> ConstraintError | None:
    """The value that a failed Spark job could not store in its column, or None if it failed for another reason."""
    found = _FOUND.search(str(error))
    if found is None:
        return None
    return ConstraintError(
        f"{table}: a value does not fit into column {found['column']}; nothing was written",
        sides={"column": f"{found['column']} {found['type']}", "value": found["value"][:200]},
        next_step="Correct the rows, or widen the column first.",
    )


def _cast(sql: str, offered: DataType, wanted: DataType, path: str) -> str:
    if always_fits(offered, wanted):
        return f"CAST({sql} AS {sql_type(wanted)})"
    tried = f"try_cast({sql} AS {sql_type(wanted)})"
    before, after = text_literal(f"{_MARK}<{path}><{sql_type(wanted)}>"), text_literal(f"</{_MARK}>")
    failed = f"raise_error(concat({before}, CAST({sql} AS string), {after}))"
    return f"CASE WHEN {sql} IS NULL OR {tried} IS NOT NULL THEN {tried} ELSE CAST({failed} AS {sql_type(wanted)}) END"

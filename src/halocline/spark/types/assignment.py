"""Which values may be stored in a column of another type, and how they get there.

The rules are Spark's for assigning values under ANSI: numbers go into numbers, dates and times into dates and times,
any plain value into text; nothing else changes its kind. Inside structs, fields are matched by name without regard to
case. A value that its column cannot hold is an error and never wraps around or turns into null, whatever the session
says about ANSI.

`Assignment` works on types alone and writes SQL. What does not fit is collected, so that one message names all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from halocline.errors import ConstraintError, SchemaError
from halocline.formats.delta.configuration.schema_edit import JsonType, decimal_of
from halocline.spark.types.columns import Field, is_void, missing, quoted, sql_type, text_literal

_WHOLE: Final[Mapping[str, int]] = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_RANK: Final = tuple(_WHOLE)
_APPROXIMATE: Final = ("float", "double")
_TIMES: Final = ("date", "timestamp", "timestamp_ntz")
_PLAIN: Final = frozenset({*_WHOLE, *_APPROXIMATE, *_TIMES, "boolean", "binary", "string"})

_MARK: Final = "HALOCLINE_VALUE_UNFIT"
_FOUND: Final = re.compile(f"{_MARK}<(?P<column>.*?)><(?P<type>.*?)>(?P<value>.*?)</{_MARK}>", re.DOTALL)
_MOST_SHOWN: Final = 5


def is_number(type: JsonType) -> bool:
    """Whether a type holds numbers.

    Example:
        >>> is_number("decimal(10,2)"), is_number("string")
        (True, False)
    """
    return isinstance(type, str) and (type in _WHOLE or type in _APPROXIMATE or decimal_of(type) is not None)


def is_assignable(offered: JsonType, wanted: JsonType) -> bool:
    """Whether values of one plain type may be stored in a column of another.

    Example:
        >>> is_assignable("long", "integer"), is_assignable("string", "integer")
        (True, False)
    """
    if not isinstance(offered, str) or not isinstance(wanted, str):
        return False
    if offered == wanted or is_void(offered):
        return True
    if is_number(offered) and is_number(wanted):
        return True
    if offered in _TIMES and wanted in _TIMES:
        return True
    return wanted == "string" and (offered in _PLAIN or decimal_of(offered) is not None)


def always_fits(offered: str, wanted: str) -> bool:
    """Whether every value of the one type has its place in the other, so that no value has to be looked at.

    Example:
        >>> always_fits("integer", "long"), always_fits("long", "integer"), always_fits("integer", "decimal(12,2)")
        (True, False, True)
    """
    if not (is_number(offered) and is_number(wanted)):
        return True
    if wanted in _APPROXIMATE:
        return True
    if wanted in _WHOLE:
        return offered in _WHOLE and _RANK.index(offered) <= _RANK.index(wanted)
    digits = decimal_of(wanted)
    assert digits is not None
    fixed = decimal_of(offered)
    if fixed is None and offered not in _WHOLE:
        return False
    whole = _WHOLE[offered] if fixed is None else fixed[0] - fixed[1]
    return digits[0] - digits[1] >= whole and digits[1] >= (0 if fixed is None else fixed[1])


class Assignment:
    """Writes the SQL that turns offered values into values of the table, and notes what does not fit.

    Attributes:
        problems: What does not fit: the column, what the table has, and what was offered.

    Example:
        >>> work = Assignment()
        >>> work.value("`n`", "integer", "long", "n")
        'CAST(`n` AS bigint)'
        >>> _ = work.value("`t`", "string", "date", "t")
        >>> work.problems
        [('t', 'date', 'string')]
    """

    def __init__(self) -> None:
        self.problems: list[tuple[str, str, str]] = []
        self._variables = 0

    def value(self, sql: str, offered: JsonType, wanted: JsonType, path: str) -> str:
        """SQL for a value of the wanted type; the same SQL where nothing has to be done."""
        if isinstance(offered, str) and is_void(offered):
            return missing(wanted)
        kinds = [type if isinstance(type, str) else type["type"] for type in (offered, wanted)]
        if kinds[0] == kinds[1] and isinstance(offered, Mapping) and isinstance(wanted, Mapping):
            if kinds[0] == "struct":
                return self._struct(sql, offered["fields"], wanted["fields"], path)
            if kinds[0] == "array":
                return self._array(sql, offered, wanted, path)
            if kinds[0] == "map":
                return self._map(sql, offered, wanted, path)
        if isinstance(offered, str) and isinstance(wanted, str) and is_assignable(offered, wanted):
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

    def _struct(self, sql: str, offered: Sequence[Field], wanted: Sequence[Field], path: str) -> str:
        known = {str(field["name"]).lower(): field for field in offered}
        parts, same = [], [field["name"] for field in offered] == [field["name"] for field in wanted]
        for field in wanted:
            name, here = field["name"], f"{path}.{field['name']}"
            source = known.pop(name.lower(), None)
            if source is None:
                if not field.get("nullable", True):
                    self.problems.append((here, f"{sql_type(field['type'])} NOT NULL", "missing"))
                parts.append(f"{missing(field['type'])} AS {quoted(name)}")
                same = False
                continue
            before = f"{sql}.{quoted(source['name'])}"
            after = self.value(before, source["type"], field["type"], here)
            parts.append(f"{after} AS {quoted(name)}")
            same = same and after == before
        for field in known.values():
            self.problems.append((f"{path}.{field['name']}", "no such column", sql_type(field["type"])))
        return sql if same else f"CASE WHEN {sql} IS NOT NULL THEN struct({', '.join(parts)}) END"

    def _array(self, sql: str, offered: Mapping[str, Any], wanted: Mapping[str, Any], path: str) -> str:
        element = self._variable()
        inner = self.value(element, offered["elementType"], wanted["elementType"], f"{path}.element")
        return sql if inner == element else f"transform({sql}, {element} -> {inner})"

    def _map(self, sql: str, offered: Mapping[str, Any], wanted: Mapping[str, Any], path: str) -> str:
        key, value = self._variable(), self._variable()
        for function, variable, part in (("values", value, "valueType"), ("keys", key, "keyType")):
            inner = self.value(variable, offered[part], wanted[part], f"{path}.{function[:-1]}")
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


def _cast(sql: str, offered: str, wanted: str, path: str) -> str:
    if always_fits(offered, wanted):
        return f"CAST({sql} AS {sql_type(wanted)})"
    tried = f"try_cast({sql} AS {sql_type(wanted)})"
    before, after = text_literal(f"{_MARK}<{path}><{sql_type(wanted)}>"), text_literal(f"</{_MARK}>")
    failed = f"raise_error(concat({before}, CAST({sql} AS string), {after}))"
    return f"CASE WHEN {sql} IS NULL OR {tried} IS NOT NULL THEN {tried} ELSE CAST({failed} AS {sql_type(wanted)}) END"

"""The partition values of files: text in the log, typed constants in a scan.

The log keeps a text, or null, per file and partition column. Empty text is null for every type in Delta tables; in
index tables it is a value of its own where the type has one. The names of folders usually say the same; they never
count, but where they agree with the log, Spark's own partition columns can be used, which prune natively and cost
nothing per row.

A *group* is one combination of values that files share. Only distinct values are parsed. A text that its type does not
allow is damage: a null in its place would be a wrong row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import MalformedError
from halocline.formats.delta.configuration.column_mapping import physical_name
from halocline.schema.types import DataType, Field, decimal_of
from halocline.schema.zones import zone_named
from halocline.spark.types.columns import (
    cast_type,
    filler,
    missing,
    text_literal,
)

_RANGES: Final[Mapping[str, int]] = {"byte": 7, "short": 15, "integer": 31, "long": 63}
_DATE: Final = re.compile(r"(?P<year>[+-]?\d{4,7})-(?P<month>\d{1,2})-(?P<day>\d{1,2})", re.ASCII)
_MOMENT: Final = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})(?:[ T](?P<time>\d{2}:\d{2}(?::\d{2})?)(?:\.(?P<fraction>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII,
)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?", re.ASCII)
_NO_NUMBERS: Final = {"nan": "NaN"} | {
    sign + word: "-Infinity" if sign == "-" else "Infinity" for sign in ("", "+", "-") for word in ("inf", "infinity")
}
_DIGITS: Final = Context(prec=80)
TEXT_TYPES: Final = ("string", "binary")
"""The types of partition columns that have an empty value."""


def kept_sql(sql: str, field: Field, partition_columns: Sequence[str]) -> str:
    """SQL for a value as the table is going to keep it: in a partition column, empty text is null.

    Whatever is worked out from the value, or demanded of it, must see it like that.

    Example:
        >>> from halocline.schema import Primitive
        >>> kept_sql("p", Field("p", Primitive("string")), ["p"])
        "nullif(p, '')"
    """
    empty = {"string": "''", "binary": "X''"}.get(field.type.name)
    return f"nullif({sql}, {empty})" if empty and field.name in partition_columns else sql


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A column by which a table is partitioned.

    Attributes:
        name: Its logical name.
        key: Its name in the log's partition values.
        type: Its type.
        nullable: Whether it may be null.
        empty_is_null: Whether empty text is null.
    """

    name: str
    key: str
    type: DataType
    nullable: bool = True
    empty_is_null: bool = True

    @staticmethod
    def of(field: Field, mode: str, *, empty_is_null: bool = True) -> PartitionColumn:
        """The partition column that a field of a table is; only text and bytes have an empty value."""
        without_empty = empty_is_null or field.type.name not in TEXT_TYPES
        return PartitionColumn(field.name, physical_name(field, mode), field.type, field.nullable, without_empty)


class PartitionValues:
    """The values of all files of a scan.

    Attributes:
        columns: The partition columns.
        group_of: For each file, the number of its group.
        texts: For each group, the text of each column as the log has it, with null for empty text that is null.
        values: The same, each text in the one spelling that Spark reads in any session.

    Example:
        >>> files = pa.table({"partition_values": pa.array([[("n", "07")]], pa.map_(pa.string(), pa.string()))})
        >>> from halocline.schema import Primitive
        >>> PartitionValues(files, [PartitionColumn("n", "n", Primitive("integer"))]).values
        [('7',)]
    """

    def __init__(self, files: pa.Table, columns: Sequence[PartitionColumn], zone: str = "UTC") -> None:
        self.columns: Final = tuple(columns)
        self.group_of, self.texts = _grouped(files, columns)
        spelt = []
        for number, column in enumerate(columns):
            canonical = _spelling(column, zone)
            distinct = {row[number] for row in self.texts}
            spelt.append({text: None if text is None else canonical(text) for text in distinct})
        self.values: Final = [tuple(spelt[n][text] for n, text in enumerate(row)) for row in self.texts]

    def differ(self, groups: Sequence[int]) -> bool:
        """Whether some column has more than one value in these groups."""
        return any(len({self.values[group][n] for group in groups}) > 1 for n in range(len(self.columns)))

    def sql(self, number: int, groups: Sequence[int], group_sql: str) -> str:
        """SQL for the value of one column, given SQL for the group of a row, which is used only where groups differ."""
        type = self.columns[number].type
        distinct = {self.values[group][number] for group in groups}
        if len(distinct) <= 1:
            text = next(iter(distinct), None)
            return missing(type) if text is None else _cast(text_literal(text), type)
        # One text, split by Spark into a constant array, is far cheaper to send than a literal per group. A filter
        # on the column then compares constants per file, so Spark skips files before it starts any task.
        known = [text for row in self.values if (text := row[number]) is not None]
        separator, nothing = _unused(known)
        nothing = nothing if "" in known else ""
        texts = [nothing if text is None else text for text in (row[number] for row in self.values)]
        array = f"split({text_literal(separator.join(texts))}, {text_literal(separator)})"
        if type.name in TEXT_TYPES:
            value = f"get({array}, {group_sql})"
            # Not `nullif`: Spark puts that into a projection of its own, through which all of `_metadata` would go.
            if None in distinct:
                value = f"CASE WHEN {value} <> {text_literal(nothing)} THEN {value} END"
            return _cast(value, type)
        return f"get(try_cast({array} AS array<{cast_type(type)}>), {group_sql})"

    def not_null(self, sql: str, number: int, groups: Sequence[int]) -> str:
        """SQL for a value that Spark knows is never null, if the column must not be null and is not in these groups."""
        column = self.columns[number]
        value = None if column.nullable else filler(column.type)
        known = value and all(self.values[group][number] is not None for group in groups)
        return f"coalesce({sql}, {value})" if known else sql

    def scalar(self, group: int, number: int, type: pa.DataType) -> Any:
        """The value of one column as an Arrow scalar."""
        return typed_scalar(self.values[group][number], type)


def typed_scalar(text: str | None, type: pa.DataType) -> Any:
    """An Arrow scalar out of a text in canonical spelling.

    Example:
        >>> typed_scalar("2024-02-29", pa.date32())
        <pyarrow.Date32Scalar: datetime.date(2024, 2, 29)>
        >>> typed_scalar("+20012-10-22", pa.date32()).cast(pa.int32())
        <pyarrow.Int32Scalar: 6590000>
    """
    if text is None:
        return pa.scalar(None, type)
    if pa.types.is_floating(type):
        return pa.scalar(float(text.rstrip("dDfF") if text[-1] in "dDfF" else text), type)
    if pa.types.is_decimal(type):
        return pa.scalar(Decimal(text), type)
    if pa.types.is_binary(type):
        return pa.scalar(text.encode(), type)
    if pa.types.is_date(type):
        # Arrow reads four digits of a year and no sign.
        return pa.scalar(int(np.datetime64(text.removeprefix("+"), "D").astype(np.int64)), pa.int32()).cast(type)
    return pa.scalar(text).cast(type)


def _grouped(
    files: pa.Table, columns: Sequence[PartitionColumn]
) -> tuple[npt.NDArray[np.int64], list[tuple[str | None, ...]]]:
    if not columns or not len(files):
        return np.zeros(len(files), np.int64), [()] if len(files) else []
    maps = files["partition_values"].combine_chunks()
    combined = np.zeros(len(files), np.int64)
    dictionaries: list[list[str | None]] = []
    for partition in columns:
        texts = pc.map_lookup(maps, partition.key, "first")
        if partition.empty_is_null:
            texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        encoded = texts.dictionary_encode()
        dictionary = [None, *encoded.dictionary.to_pylist()]
        codes = pc.fill_null(pc.add(encoded.indices.cast(pa.int64()), 1), 0).to_numpy(zero_copy_only=False)
        # Numbered anew after each column, so that the product of the cardinalities never overflows.
        combined = np.unique(combined * len(dictionary) + codes, return_inverse=True)[1].astype(np.int64).reshape(-1)
        dictionaries.append([dictionary[code] for code in codes])
    _, first, group_of = np.unique(combined, return_index=True, return_inverse=True)
    texts_of = [tuple(column[row] for column in dictionaries) for row in first.tolist()]
    return group_of.astype(np.int64).reshape(-1), texts_of


def _cast(sql: str, type: DataType) -> str:
    return sql if type.name == "string" else f"CAST({sql} AS {cast_type(type)})"


def _unused(texts: Sequence[str]) -> tuple[str, str]:
    """Return two characters that are in none of the texts, and that no regular expression gives a meaning to."""
    used = set().union(*texts)
    free = (char for char in map(chr, range(0xE000, 0xF8FF)) if char not in used)
    return next(free), next(free)


def _spelling(column: PartitionColumn, zone: str) -> Callable[[str], str]:
    type, digits = column.type.name, decimal_of(column.type)
    if type in TEXT_TYPES:
        return str
    spell = _SPELLINGS.get(type) if digits is None else partial(_fixed, *digits)
    if spell is None:
        raise MalformedError(
            f"column {column.name} of type {column.type} cannot be a partition column", condition="MALFORMED_METADATA"
        )
    where = zone_named(zone) if type == "timestamp" else UTC

    def checked(text: str) -> str:
        try:
            return spell(text, where)
        except (ValueError, KeyError, InvalidOperation, OverflowError):
            raise MalformedError(
                f"the log has {text!r} as the value of partition column {column.name}",
                condition="MALFORMED_LOG",
                sides={"value": repr(text), "column": f"{column.name} {column.type}"},
                next_step="Find the commit that added such a file, and rewrite the file.",
            ) from None

    return checked


def _whole_number(bits: int, text: str, _: Any) -> str:
    number = int(text)
    if not -(1 << bits) <= number < 1 << bits or "_" in text:
        raise ValueError(text)
    return str(number)


def _fixed(precision: int, scale: int, text: str, _: Any) -> str:
    number = Decimal(text)
    if not number.is_finite() or "_" in text:
        raise ValueError(text)
    kept = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _DIGITS)
    if kept.adjusted() >= precision - scale:
        raise ValueError(text)
    return format(kept, "f")


def _number(text: str, _: Any) -> str:
    stripped = text.strip()
    if (found := _NO_NUMBERS.get(stripped.lower())) is not None:
        return found
    if not _NUMBER.fullmatch(stripped):
        raise ValueError(text)
    return stripped


def _day(text: str, _: Any) -> str:
    found = _DATE.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    # Years repeat every 400, so any year can be checked by one that Python knows.
    date(int(found["year"]) % 400 + 2000, int(found["month"]), int(found["day"]))
    return f"{found['year']}-{found['month']:0>2}-{found['day']:0>2}"


def _moment(text: str, zone: Any) -> datetime:
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    moment = datetime.fromisoformat(f"{found['day']}T{found['time'] or '00:00'}")
    moment = moment.replace(microsecond=int((found["fraction"] or "").ljust(6, "0")[:6]))
    if found["zone"]:
        zone = datetime.fromisoformat(f"2000-01-01T00:00{found['zone']}").tzinfo
    return moment.replace(tzinfo=zone).astimezone(UTC)


_SPELLINGS: Final[Mapping[str, Callable[[str, Any], str]]] = {
    **{type: partial(_whole_number, bits) for type, bits in _RANGES.items()},
    **dict.fromkeys(("float", "double"), _number),
    "boolean": lambda text, _: {"true": "true", "false": "false"}[text.strip().lower()],
    "date": _day,
    "timestamp": lambda text, zone: _moment(text, zone).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0"),
    "timestamp_ntz": lambda text, zone: _moment(text, zone).strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0"),
}
"""The one spelling of a value by its type, given the zone of times without one."""

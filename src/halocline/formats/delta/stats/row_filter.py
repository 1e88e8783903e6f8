"""SQL predicates that are decided row by row, without an engine.

The tests of a predicate (see `halocline.formats.delta.stats.predicate`) say what whole files may hold. Most of them
also decide about single rows, once a literal means exactly one value of its column. A predicate with any other part is
refused here: nothing is guessed. Not-a-number is greater than every number and equal to itself, as Spark has it; text
of fixed length is compared with its blanks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import UnsupportedError
from halocline.formats.delta.configuration.schema import Column, Schema
from halocline.formats.delta.stats.bounds import Family, arrow_type_of, family_of
from halocline.formats.delta.stats.literal import LiteralKind
from halocline.formats.delta.stats.literal_ranges import range_for
from halocline.formats.delta.stats.predicate import (
    All,
    Always,
    AnyOf,
    Comparison,
    Never,
    NullTest,
    Operator,
    Predicate,
    StartsWith,
    Test,
)
from halocline.schema.char_types import is_padded, length_of
from halocline.schema.zones import zone_named

Mask = Callable[[Callable[[Column], pa.Array]], pa.Array]
_COMPARE: Final[Mapping[Operator, Any]] = {
    Operator.EQ: pc.equal,
    Operator.NE: pc.not_equal,
    Operator.LT: pc.less,
    Operator.LE: pc.less_equal,
    Operator.GT: pc.greater,
    Operator.GE: pc.greater_equal,
}


@dataclass(frozen=True)
class RowFilter:
    """A predicate that is decided row by row. Made by `RowFilter.parse`.

    Attributes:
        text: The predicate.
        columns: The columns that it speaks of.
    """

    text: str
    columns: tuple[Column, ...]
    _test: Test
    _zone: str

    @staticmethod
    def parse(text: str, schema: Schema, zone: str) -> RowFilter:
        """Reads a predicate."""
        predicate = Predicate.parse(text, schema)
        found = RowFilter(text, predicate.columns(), predicate.test, zone)
        found._mask(predicate.test)
        return found

    def mask(self, rows: pa.RecordBatch, empty_is_null: Collection[str] = ()) -> pa.Array:
        """Which rows the predicate is true for.

        Args:
            rows: The rows, by logical names; a column that they lack is null.
            empty_is_null: Names of columns in which empty text counts as null.
        """
        places = {name.lower(): number for number, name in enumerate(rows.schema.names)}
        folded = {name.lower() for name in empty_is_null}

        def value(column: Column) -> pa.Array:
            first = column.path[0].lower()
            if first not in places:
                return pa.nulls(rows.num_rows, pa.null())
            array = rows.column(places[first])
            for step in column.path[1:]:
                names = {child.name.lower(): number for number, child in enumerate(array.type)}
                array = array.flatten()[names[step.lower()]]
            if first in folded and pa.types.is_string(array.type):
                array = pc.if_else(pc.equal(array, ""), pa.scalar(None, array.type), array)
            return array

        met = self._mask(self._test)(value)
        return pa.repeat(met, rows.num_rows) if isinstance(met, pa.Scalar) else met

    def _mask(self, test: Test) -> Mask:
        match test:
            case All() | AnyOf():
                parts = [self._mask(part) for part in test.parts]
                both = pc.and_ if isinstance(test, All) else pc.or_
                return lambda value: reduce(both, (part(value) for part in parts))
            case Never() | Always():
                return lambda value: pa.scalar(isinstance(test, Always))
            case NullTest():
                return lambda value: pc.equal(pc.is_null(value(test.column)), test.is_null)
            case StartsWith() if family_of(test.column) is Family.TEXT:
                return lambda value: _true(pc.starts_with(_canonical(value(test.column), test.column), test.prefix))
            case Comparison():
                return self._comparison(test)
            case _:
                raise self._undecided("a part of it is beyond what is understood here")

    def _comparison(self, test: Comparison) -> Mask:
        family = family_of(test.column)
        if family is None:
            raise self._undecided(f"{test.column.name} is of type {test.column.type}")
        if test.column.declared is not None and is_padded(test.column.declared):
            return self._padded(test, length_of(test.column.declared))
        meant = range_for(test.literal, test.operator, test.column, family, zone_named(self._zone))
        if meant is False:
            return lambda value: pa.scalar(False)
        if meant is True or not meant.is_exact:
            raise self._undecided(f"{test.column.name} is compared with something of another type")
        literal = pa.scalar(meant.low, arrow_type_of(test.column, family))
        compare = _COMPARE[test.operator]
        if family is Family.FLOATING and test.operator in (Operator.GT, Operator.GE):
            return lambda value: _true(_or_nan(compare, _canonical(value(test.column), test.column), literal))
        return lambda value: _true(compare(_canonical(value(test.column), test.column), literal))

    def _padded(self, test: Comparison, length: int) -> Mask:
        """Text of fixed length: the shorter side gets blanks until both are as long."""
        if not test.is_padded or len(test.column.path) > 1:
            raise self._undecided(f"{test.column.name} is text of fixed length, which Spark compares as it is here")
        if test.literal.kind is not LiteralKind.TEXT:
            raise self._undecided(f"{test.column.name} is compared with something of another type")
        text = str(test.literal.value)
        width = max(length, len(text))
        literal, compare = pa.scalar(text.ljust(width)), _COMPARE[test.operator]
        return lambda value: _true(compare(pc.utf8_rpad(_canonical(value(test.column), test.column), width), literal))

    def _undecided(self, why: str) -> UnsupportedError:
        return UnsupportedError(
            f"without Spark it cannot be decided for which rows {self.text!r} is true",
            condition="PREDICATE_INVALID",
            sides={"condition": self.text, "needs Spark": why},
            next_step="With a session, Table.for_path(path, spark), to_df and overwrite take any condition.",
        )


def _or_nan(compare: Any, values: pa.Array, literal: pa.Scalar) -> pa.Array:
    return pc.or_kleene(compare(values, literal), pc.is_nan(values))


def _true(met: pa.Array) -> pa.Array:
    return pc.fill_null(met, False)


def _canonical(array: pa.Array, column: Column) -> pa.Array:
    """A column in the form in which literals are compared with it."""
    family = family_of(column)
    assert family is not None
    if family is Family.DATE and not pa.types.is_null(array.type):
        array = array.cast(pa.int32())
    return array.cast(arrow_type_of(column, family))

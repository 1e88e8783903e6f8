"""The table that a statement acts on, and what every translation needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import UnsupportedError
from halocline.spark.session.analysis import view_of
from halocline.spark.types.columns import quoted
from halocline.statements.references import Find, frame, path_of, references, shortened, with_names
from halocline.statements.text import BEGIN_A_QUERY, Reader, holds_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from halocline.delta.tables import DeltaTable
    from halocline.statements.runner import TableNames
    from halocline.table import Table

Translate = Callable[["StatementTarget"], "DataFrame | None"]
"""Does a statement, and tells what it did; None if it is Spark's to do."""

_AFTER_A_TABLE: Final = frozenset({"SET", "USING", "ON", "WHERE", "WHEN", "VALUES", "SELECT"})


class NotOursError(Exception):
    """Ends the translation of a statement whose table is not ours: Spark does it."""


@dataclass
class StatementTarget:
    """A statement under way.

    Attributes:
        spark: The session.
        names: What names stand for.
        reader: What is left of the statement.
        short: Aliases by which expressions know tables, for the names of these in full.
        prefix: The `WITH` before the statement, which queries in its expressions know.
    """

    spark: SparkSession
    names: TableNames
    reader: Reader
    parts: tuple[str, ...] = ()
    alias: str = ""
    prefix: str = ""
    short: dict[tuple[str, ...], str] = field(default_factory=dict)
    views: list[str] = field(default_factory=list)

    @property
    def find(self) -> Find:
        """Opens the table of a name."""
        return self.names.find

    def table(self) -> Table:
        """Takes a name, and opens its table.

        Raises:
            NotOursError: It is not ours.
        """
        self.parts = self.reader.name()
        table = self.find(self.parts)
        if table is None:
            raise NotOursError
        return table

    def own_table(self) -> Table:
        """Takes a name, or a path in quotes, for a statement that Spark does not know, so its table must be ours.

        Raises:
            NotFoundError: It is not.
        """
        if self.reader.is_text:
            self.parts = ("delta", self.reader.string())
            found = self.find(self.parts)
            assert found is not None, "a path stands for a table, or is refused"
            return found
        try:
            return self.table()
        except NotOursError:
            raise self.names.missing(self.parts) from None

    def take_alias(self) -> str:
        """Takes an alias, if there is one."""
        if self.reader.accept("AS") or (self.reader.word() not in _AFTER_A_TABLE and not self.reader.is_done):
            self.alias = self.reader.identifier()
        return self.alias

    @property
    def qualifiers(self) -> list[tuple[str, ...]]:
        """What columns of the table may be qualified with, the longest first."""
        if self.alias:
            return [(self.alias,)]
        if path_of(self.parts) is not None:
            return [self.parts]
        return [self.parts[at:] for at in range(len(self.parts))]

    def rows(self, query: str) -> DataFrame:
        """The rows of a query."""
        return frame(self.spark, query, self.find)

    def expression(self, text: str) -> str:
        """A condition or a value; tables of ours that it reads become views, for as long as the statement runs."""
        text = shortened(text, self.short)
        if not holds_query(text):
            return text
        text = _headed(text, self.prefix) if self.prefix else text
        before = "SELECT "
        found = references(self.spark, before + text, self.find)
        names = [view_of((before + text)[each.start : each.end]) for each in found]
        for name, each in zip(names, found, strict=True):
            each.rows.createOrReplaceTempView(quoted(name))
            self.views.append(name)
        return with_names(before + text, found, list(map(quoted, names))).removeprefix(before)

    def close(self) -> None:
        """Takes the views away that expressions needed."""
        for name in self.views:
            self.spark.catalog.dropTempView(name)

    def told(self, **figures: Any) -> DataFrame:
        """What was done, as one row."""
        kinds = {bool: "BOOLEAN", int: "BIGINT", str: "STRING"}
        schema = ", ".join(f"{name} {kinds[type(value)]}" for name, value in figures.items())
        return self.spark.createDataFrame([tuple(figures.values())], schema)

    def listed(self, names: Sequence[str], found: Sequence[Sequence[Any]]) -> DataFrame:
        """Rows of text."""
        schema = ", ".join(f"{name} STRING" for name in names)
        return self.spark.createDataFrame([tuple(map(_text, row)) for row in found], schema)

    def delta(self, table: Table) -> DeltaTable:
        """The table under the names of delta-spark, whose verbs tell what they did as DataFrames."""
        from halocline.delta.tables import DeltaTable
        from halocline.table import DeltaLakeTable

        if not isinstance(table, DeltaLakeTable):
            raise UnsupportedError(
                f"the statement is done on Delta tables, and {'.'.join(self.parts)} is a {table.format} table",
                sides={"statement": self.reader.text[:200]},
                next_step="Use the verbs of Table.for_path.",
            )
        return DeltaTable(table)

    def options(self) -> Mapping[str, str]:
        """Settings, and options of the store, for tables that are made."""
        return self.names.options()


def _headed(text: str, prefix: str) -> str:
    """An expression whose queries begin with a `WITH`, which those inside them know as well."""
    reader, pieces, at = Reader(text), list[str](), 0
    while not reader.is_done:
        if reader.word() != "(" or reader.word(1) not in BEGIN_A_QUERY:
            reader.at += 1
            continue
        reader.at += 1
        start = reader.tokens[reader.at].start
        own = reader.accept("WITH")
        if own and (reader.starts("RECURSIVE") or prefix.upper().startswith("WITH RECURSIVE")):
            reader.refuse("a WITH RECURSIVE and another WITH are not joined")
        pieces += [text[at:start], f"{prefix.rstrip()}, " if own else prefix]
        at = reader.tokens[reader.at].start
        reader.until()
    return "".join([*pieces, text[at:]])


def _text(value: Any) -> str | None:
    return None if value is None else str(value)

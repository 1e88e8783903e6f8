"""Running statements: which are ours, and which are Spark's."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from halocline.errors import InputError, NotFoundError, UnsupportedError, nearest
from halocline.spark.session.analysis import unlogged
from halocline.spark.session.session import check_running
from halocline.spark.session.variables import with_variables
from halocline.spark.types.columns import quoted
from halocline.statements import alter, create, maintain, rows
from halocline.statements.immediate import immediate, named
from halocline.statements.meant import mistyped, raise_mistyped, raise_unknown_name
from halocline.statements.references import frame, names_of_feeds, path_of, references, table_at
from halocline.statements.target import NotOursError, StatementTarget, Translate
from halocline.statements.text import Reader, bound, statements_of, with_parameters_apart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from halocline.table import Table


class TableNames(Protocol):
    """What names stand for."""

    def find(self, parts: tuple[str, ...]) -> Table | None:
        """Opens the table of a name; None if it is not ours."""

    def place(self, parts: tuple[str, ...], location: str | None) -> str | None:
        """Where a table of this name is to be made; None if it is not ours to make."""

    def missing(self, parts: tuple[str, ...]) -> NotFoundError:
        """What to say of a name that is not ours where only ours will do."""

    def known(self) -> Sequence[str]:
        """The names of all tables."""

    def options(self) -> Mapping[str, str]:
        """Settings, and options of the store, for tables that are made."""


@dataclass(frozen=True)
class PathNames:
    """Names that are paths, as in ``delta.`lake/orders` ``; all others are Spark's."""

    spark: SparkSession
    given: Mapping[str, str] = field(default_factory=dict)

    def find(self, parts: tuple[str, ...]) -> Table | None:
        """See `TableNames.find`."""
        from halocline.table import Table

        return table_at(parts, lambda path: Table.for_path(path, self.spark, options=self.given))

    def place(self, parts: tuple[str, ...], location: str | None) -> str | None:
        """See `TableNames.place`."""
        return path_of(parts)

    def missing(self, parts: tuple[str, ...]) -> NotFoundError:
        """See `TableNames.missing`."""
        name = ".".join(parts)
        return NotFoundError(
            f"{name} is a name, and only tables by path are known here",
            condition="TABLE_NOT_FOUND",
            sides={"given": name, "expected": "a path, as in delta.`lake/orders`"},
            next_step="Give the path, or use Lake.sql, which knows names.",
        )

    def known(self) -> Sequence[str]:
        """See `TableNames.known`."""
        return ()

    def options(self) -> Mapping[str, str]:
        """See `TableNames.options`."""
        return self.given


_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "(", "EXPLAIN", "INSERT", "MERGE"})
_CHANGES: Final = (("INSERT", "INTO"), ("INSERT", "OVERWRITE"), ("MERGE", "INTO"), ("DELETE", "FROM"), ("UPDATE",))
_UNKNOWN: Final = re.compile(r"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view (?P<name>`[^`]+`(?:\.`[^`]+`)*) ")
_NO_FEED: Final = "Could not resolve `table_changes`"
_TOLD: Final = re.compile(r"\[[A-Z][A-Z0-9_.]+\] [^\n]+")
_ON_TABLES: Final = frozenset(
    {
        "ALTER",
        "ANALYZE",
        "CACHE",
        "COMMENT",
        "CREATE",
        "DESC",
        "DESCRIBE",
        "DROP",
        "FSCK",
        "GENERATE",
        "MSCK",
        "REFRESH",
    }
    | {"REORG", "REPAIR", "REPLACE", "SHOW", "TRUNCATE", "UNCACHE", "UPDATE", "DELETE"}
)
"""What a statement begins with that is done to a table, and would be done to another one if Spark did it."""


def sql(
    spark: SparkSession,
    text: str,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Runs SQL in which ``delta.`path` `` names a table.

    Args:
        spark: The session.
        text: One statement, or several separated by semicolons.
        args: Values for the parameters of a single statement: a dict for `:name`, a list for `?`.
        options: Settings, and options of the store.

    Returns:
        What the last statement tells: rows, or figures of what it did.

    Raises:
        UnsupportedError: A statement is not understood as a whole; it has done nothing.

    Example:
        >>> sql(spark, "UPDATE delta.`lake/orders` SET late = true WHERE due < current_date()")  # doctest: +SKIP
    """
    return run(spark, text, PathNames(spark, dict(options or {})), args)


def run(
    spark: SparkSession, text: str, names: TableNames, args: Mapping[str, Any] | Sequence[Any] | None = None
) -> DataFrame:
    """Runs statements, and gives what the last of them tells."""
    if not hasattr(spark, "sql"):
        raise InputError(
            "SQL needs a Spark session",
            sides={"given": type(spark).__name__},
            next_step='hc.sql(spark, "SELECT …"), with spark = SparkSession.builder.getOrCreate().',
        )
    if not isinstance(text, str):
        raise InputError("SQL is text", sides={"given": type(text).__name__})
    by_name = isinstance(args, Mapping) and all(isinstance(each, str) for each in args)
    if not (args is None or by_name or (isinstance(args, Sequence) and not isinstance(args, str | bytes))):
        raise InputError(
            f"{args!r:.80} are no values for parameters",
            sides={"given": type(args).__name__, "expected": "a dict by name for :name, or a list for ?"},
        )
    check_running(spark)
    statements = statements_of(text)
    if not statements:
        raise InputError("there is no statement", sides={"given": text[:80]})
    if any(Reader(each).word() == "BEGIN" for each in statements):
        raise UnsupportedError(
            "scripts between BEGIN and END are not run here",
            sides={"given": text[:300], "possible": "statements separated by semicolons"},
            next_step="Run the statements one by one, and decide between them in Python.",
        )
    if args and len(statements) > 1:
        raise InputError("parameters belong to a single statement", sides={"statements": str(len(statements))})
    told = None
    for each in statements:
        told = _run_one(spark, each, names, args)
    assert told is not None
    return told


def _run_one(
    spark: SparkSession, text: str, names: TableNames, args: Mapping[str, Any] | Sequence[Any] | None
) -> DataFrame:
    text = with_variables(spark, text)
    if (inner := immediate(spark, text, args, names.find)) is not None:
        return run(spark, inner[0], names, inner[1])
    text, args = named(spark, text, args)
    translate, absent = _translator(Reader(text)), tuple[str, ...]()
    if translate is not None:
        target = StatementTarget(spark, names, Reader(bound(text, args)))
        try:
            told = translate(target)
        except NotOursError:
            told, absent = None, target.parts
        except Exception as error:
            _raise_missing(error, names, text)
            raise_mistyped(error, text)
            _raise_told(error, text)
            raise
        finally:
            target.close()
        if told is not None:
            return told
    return _passed_on(spark, with_parameters_apart(text) if args else text, names, args, absent)


def _translator(reader: Reader) -> Translate | None:
    """What a statement that begins so may be."""
    prefix = rows.prefix_of(reader)  # a WITH may stand before a change of rows
    word = reader.word()
    if word in rows.STATEMENTS:
        return rows.STATEMENTS[word]
    if prefix:
        return None
    return _statements().get(word)


def _statements() -> dict[str, Translate]:
    return {**create.STATEMENTS, **maintain.STATEMENTS, **alter.STATEMENTS}


def _passed_on(
    spark: SparkSession,
    text: str,
    names: TableNames,
    args: Mapping[str, Any] | Sequence[Any] | None,
    absent: tuple[str, ...],
) -> DataFrame:
    """What Spark tells of a statement, where tables of ours are DataFrames; `absent` is its table, and is not ours."""
    head = Reader(text).word()
    ours = head in _QUERIES or _makes_a_table(Reader(text))
    _refuse_changes(text, names)
    if not ours:
        if head in _ON_TABLES:
            _refuse_ours(text, names, head)
        if references(spark, text, names.find):
            if absent and names.known() and not spark.catalog.tableExists(".".join(map(quoted, absent))):
                raise names.missing(absent)
            raise UnsupportedError(
                f"{head} is not done with tables that Spark does not know",
                sides={"statement": text[:300]},
                next_step="To give a query a name, use Lake.register_views and Spark's own CREATE TEMPORARY VIEW.",
            )
    try:
        with unlogged():
            return frame(spark, text, names.find if ours else lambda parts: None, args)
    except Exception as error:  # Spark's classes differ between classic sessions and Connect
        _raise_missing(error, names, text)
        _raise_told(error, text)
        stopped = f"[PARSE_SYNTAX_ERROR] Syntax error at or near '{head}'".casefold() in str(error).casefold()
        known = {*_QUERIES, *_ON_TABLES, *_statements(), *rows.STATEMENTS}
        meant = nearest(head, known) if stopped and head not in known else ""
        if not meant:
            raise_mistyped(error, text)
            raise
        raise UnsupportedError(
            f"no statement begins with {head}",
            sides={"statement": text[:300], "nearest": meant},
            next_step=f"Did you mean {meant}? See docs/sql.md for what is understood.",
        ) from None


def _raise_missing(error: Exception, names: TableNames, text: str) -> None:
    """Tells of a name that Spark does not know either, with the nearest that is known."""
    raise_unknown_name(error)
    if names.known() and (unknown := _UNKNOWN.search(str(error))) is not None:
        raise names.missing(Reader(unknown["name"]).name()) from None
    if _NO_FEED in str(error):
        for parts in names_of_feeds(text):
            if names.find(parts) is None:
                raise names.missing(parts) from None


def _raise_told(error: Exception, text: str) -> None:
    """Tells in short what Java says against a statement; errors that PySpark has classes for stay as they are."""
    if type(error).__module__.partition(".")[0] == "py4j" and (told := _TOLD.search(str(error))) is not None:
        raise InputError(
            "Spark does not do the statement",
            sides={"statement": " ".join(text.split())[:300], "Spark says": told[0][:300]},
        ) from None


def _makes_a_table(reader: Reader) -> bool:
    """Whether Spark makes a table of its own, possibly with rows of ours; a view would keep them as they are now."""
    return reader.accept("CREATE") and (reader.accept("TABLE") or reader.accept("OR", "REPLACE", "TABLE"))


def _refuse_changes(text: str, names: TableNames) -> None:
    """Refuses a change of a table of ours within another statement: `FROM … INSERT INTO`, `EXPLAIN UPDATE`."""
    reader = Reader(text)
    for at in range(len(reader.tokens)):
        reader.at = at
        if any(reader.accept(*words) for words in _CHANGES):
            reader.accept("TABLE")
            with contextlib.suppress(UnsupportedError):  # no name, so a column is called like that
                if names.find(reader.name()) is not None:
                    reader.at = at
                    break
    else:
        return
    reader.refuse("rows of a table that Spark does not know are changed by statements of their own")


def _refuse_ours(text: str, names: TableNames, head: str) -> None:
    """Refuses a statement that begins with the name of a table of ours, after a few words."""
    reader = Reader(text)
    while not reader.is_done and reader.at < 6:
        start = reader.at
        try:
            parts = reader.name()
        except UnsupportedError:
            reader.at = start + 1
            continue
        if names.find(parts) is not None:
            _, meant = mistyped(text) or ("", "")
            raise UnsupportedError(
                f"{head} {'.'.join(parts)} is not done here",
                sides={"statement": text[:300], "table": "is not one of Spark's catalog"},
                next_step=(f"Did you mean {meant}? " if meant else "") + "See docs/sql.md for what is understood.",
            )

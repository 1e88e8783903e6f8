"""Names and statements that are computed: `IDENTIFIER(text)` and `EXECUTE IMMEDIATE text`.

Spark would look such a name up in its own catalog, and find nothing, or another table than the lake's. So both are put
in their place before anybody asks whose table it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from halocline.errors import InputError
from halocline.spark.session.analysis import first_line, unlogged
from halocline.spark.types.columns import quoted
from halocline.statements.references import Find, references
from halocline.statements.text import Reader, bound, words_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Args: TypeAlias = "Mapping[str, Any] | Sequence[Any] | None"
"""Values for parameters: by name, or in their order."""

_IDENTIFIER: Final = "IDENTIFIER"


def named(spark: SparkSession, text: str, args: Args) -> tuple[str, Args]:
    """A statement with the names that `IDENTIFIER` gives in their places, and the parameters that are left of it.

    Raises:
        InputError: What stands between its brackets is no constant text.
    """
    if _IDENTIFIER not in words_in(text):
        return text, args
    text = bound(text, args)
    reader, pieces, at = Reader(text), list[str](), 0
    while not reader.is_done:
        start = reader.tokens[reader.at].start
        if not reader.accept(_IDENTIFIER, "("):
            reader.at += 1
            continue
        parts = Reader(str(_value(spark, reader.until(), "IDENTIFIER"))).name()
        reader.expect(")")
        pieces += [text[at:start], ".".join(map(quoted, parts))]
        at = reader.tokens[reader.at - 1].end
    return "".join([*pieces, text[at:]]), None


def immediate(spark: SparkSession, text: str, args: Args, find: Find) -> tuple[str, Args] | None:
    """What `EXECUTE IMMEDIATE text [USING value [AS name], …]` runs, and its parameters; None if Spark is to do it."""
    if not Reader(text).starts("EXECUTE", "IMMEDIATE"):
        return None
    reader = Reader(bound(text, args))
    reader.expect("EXECUTE", "IMMEDIATE")
    statement = str(_value(spark, reader.until("INTO", "USING"), "EXECUTE IMMEDIATE"))
    if reader.starts("INTO"):
        if references(spark, statement, find):
            reader.refuse("variables are not filled from tables that Spark does not know: read the row in Python")
        return None
    given: Sequence[tuple[str, Any]] = ()
    if reader.accept("USING"):
        bracketed = reader.accept("(")
        given = reader.listed(lambda: _given(spark, reader))
        if bracketed:
            reader.expect(")")
    reader.end()
    if any(name for name, _ in given):
        return statement, reader.once(given)
    return statement, [value for _, value in given] or None


def _given(spark: SparkSession, reader: Reader) -> tuple[str, Any]:
    value = _value(spark, reader.until(",", "AS"), "USING")
    return reader.identifier() if reader.accept("AS") else "", value


def _value(spark: SparkSession, expression: str, what: str) -> Any:
    """What a constant expression comes to, session variables among it."""
    from pyspark.errors import PySparkException

    try:
        with unlogged():
            value = spark.sql(f"SELECT {expression}").collect()[0][0]
    except PySparkException as error:
        raise InputError(
            f"{what} takes a constant, and {expression} is none",
            sides={"given": expression[:200], "Spark says": first_line(error)},
        ) from None
    if value is None and what != "USING":
        raise InputError(f"{what} is given no text", sides={"given": expression[:200], "which is": "NULL"})
    return value

"""What a mistyped name or word of a statement is likely to mean, once Spark has said that it knows neither.

Spark is asked first: a session may have functions and data sources of its own whose names are like ours.
"""

from __future__ import annotations

import re
from typing import Final

from halocline.errors import InputError, UnsupportedError, nearest
from halocline.statements.references import FORMATS
from halocline.statements.text import Reader

_SEARCH: Final = "halocline_search"
_FUNCTIONS: Final = ("table_changes", _SEARCH)
_NO_FUNCTION: Final = re.compile(r"Could not resolve `(?P<name>[^`]+)` to a table-valued function")
_NO_SOURCE: Final = re.compile(r"Failed to find the data source: (?P<name>\w+)")
_SYNTAX: Final = re.compile(r"\[PARSE_SYNTAX_ERROR\] Syntax error at or near (?:'(?P<word>\w+)')?")
_PHRASES: Final = tuple(
    tuple(phrase.split())
    for phrase in (
        "CREATE TABLE",
        "CREATE OR REPLACE TABLE",
        "DEEP CLONE",
        "DESC DETAIL",
        "DESC EXTENDED",
        "DESC HISTORY",
        "DESCRIBE DETAIL",
        "DESCRIBE EXTENDED",
        "DESCRIBE HISTORY",
        "REPLACE TABLE",
        "REPLACE WHERE",
        "SHALLOW CLONE",
        "SHOW COLUMNS",
        "SHOW CREATE TABLE",
        "SHOW PARTITIONS",
        "SHOW TABLES",
        "SHOW TBLPROPERTIES",
        "TIMESTAMP AS OF",
        "VERSION AS OF",
    )
)
"""Words that belong together; the ones around a mistyped one tell what it stands for."""
_WORDS: Final = frozenset(word for phrase in _PHRASES for word in phrase) | {"FORMATTED", "FROM", "SELECT", "VALUES"}


def raise_unknown_name(error: Exception) -> None:
    """Tells of a table function or a format that Spark does not know, where its name is like one of ours."""
    if (function := _NO_FUNCTION.search(str(error))) is not None:
        name = function["name"]
        if name.casefold() == _SEARCH:
            raise InputError(
                f"{_SEARCH} is not known to this session",
                sides={"session": "has not been told of it", "function": f"{_SEARCH}('lake/logs', 'timeout')"},
                next_step="hc.register(spark) makes it known.",
            ) from None
        if name.casefold() not in _FUNCTIONS and nearest(name, _FUNCTIONS):
            raise InputError.unknown(f"there is no table function {name}", name, _FUNCTIONS) from None
    if (source := _NO_SOURCE.search(str(error))) is not None and nearest(source["name"], FORMATS):
        raise InputError.unknown(f"there is no format {source['name']}", source["name"], sorted(FORMATS)) from None


def raise_mistyped(error: Exception, text: str) -> None:
    """Tells of a word at which Spark stops, where it is like one that a statement of ours has."""
    stopped = _SYNTAX.search(str(error))
    if stopped is None or type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
        return
    given, meant = mistyped(text) or (stopped["word"] or "", "")
    if not meant and given.upper() not in _WORDS:
        meant = nearest(given, _WORDS)
    if meant:
        raise UnsupportedError(
            f"the statement is not done, for {given} is not understood",
            sides={"statement": text[:300], "given": given, "nearest": meant},
            next_step=f"Did you mean {meant}? See docs/sql.md for what is understood.",
        ) from None


def mistyped(text: str) -> tuple[str, str] | None:
    """A word that differs from one of ours while all those around it are right, and the one it is like.

    Example:
        >>> mistyped("SELECT * FROM orders VERSON AS OF 3")
        ('VERSON', 'VERSION')
    """
    reader = Reader(text)
    words = [reader.word(ahead) for ahead in range(len(reader.tokens))]
    for phrase in _PHRASES:
        for at in range(len(words) - len(phrase) + 1):
            differ = [pair for pair in zip(words[at:], phrase, strict=False) if pair[0] != pair[1]]
            if len(differ) == 1 and differ[0][0] not in _WORDS and nearest(differ[0][0], differ[0][1:]):
                return differ[0]
    return None

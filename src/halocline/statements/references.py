"""Tables of ours within queries and expressions, and the DataFrames that take their place.

sqlglot tells which names are those of tables, and which stand for a `WITH`. A query that sqlglot cannot make sense of
goes to Spark as it is, unless it names a table of ours, which Spark would not find, or take for one of its own.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from halocline.errors import InputError, UnsupportedError, nearest
from halocline.spark.types.columns import quoted
from halocline.statements.text import Reader, SqlToken, holds_query, tokens_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from sqlglot import exp

    from halocline.table import Table

FORMATS: Final = frozenset({"delta", "hudi", "index", "halocline"})
"""What comes before a path in a name such as ``delta.`lake/orders` ``."""

Find = Callable[[tuple[str, ...]], "Table | None"]
"""Opens the table that a name stands for; None if it is not ours."""

_ENDS_WHERE: Final = (
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "QUALIFY",
    "WINDOW",
    "CLUSTER",
    "DISTRIBUTE",
    "SORT",
)
_COUNTS: Final = re.compile(r"\s*SELECT\s+count\s*\(", re.IGNORECASE)
_NAME_PARTS: Final = frozenset({"this", "db", "catalog", "alias"})
_BEFORE_A_TABLE: Final = frozenset({"FROM", "JOIN", "TABLE", "INTO", "USING", ","})
_SEVERAL: Final = frozenset({"JOIN", "UNION", "EXCEPT", "INTERSECT", "MINUS", "LATERAL", "PIVOT", "UNPIVOT", "WITH"})


@dataclass(frozen=True)
class _Reference:
    """A table of ours in a text: where its name and time stand, and the DataFrame for it.

    Attributes:
        alias: What it is to be called there; empty where the text says so itself.
        names: The parts of its name, by all of which columns may be qualified as well; empty where the alias counts.
    """

    start: int
    end: int
    rows: DataFrame
    alias: str
    names: tuple[str, ...] = ()


def path_of(parts: Sequence[str]) -> str | None:
    """The path in a name such as ``delta.`lake/orders` ``; None if the name is none of these.

    Raises:
        InputError: A path stands behind a format that there is not, but whose name is like one of ours.
    """
    if len(parts) != 2:
        return None
    format, path = parts
    if format.lower() in FORMATS:
        return path
    if "/" in path and nearest(format, FORMATS):
        raise InputError.unknown(f"there is no format {format}", format, sorted(FORMATS))
    return None


def table_at(parts: Sequence[str], open: Callable[[str], Table]) -> Table | None:
    """The table of a name such as ``delta.`lake/orders` ``; None if the name is none of these.

    Raises:
        InputError: The table is of another format than the name says.
    """
    path = path_of(parts)
    if path is None:
        return None
    table, said = open(path), parts[0].lower()
    if said not in ("halocline", table.format):
        raise InputError(
            f"{path} is a table of another format",
            sides={"given": f"{said}.`{path}`", "table": f"is a {table.format} table"},
            next_step=f"Call it {table.format}.`{path}`.",
        )
    return table


def frame(spark: SparkSession, text: str, find: Find, args: Any = None) -> DataFrame:
    """The rows of a query, where tables of ours are DataFrames."""
    start = _explained(text)
    counted = _counted(spark, text, find) if not start else None
    if counted is not None:
        return counted
    found = references(spark, text[start:], find)
    if not found:
        return spark.sql(text, **({"args": args} if args else {}))
    query, frames = substituted(text[start:], found)
    given: dict[str, Any] = {**frames, **({"args": args} if args else {})}
    return spark.sql(_escaped(text[:start]) + query, **given)


def _counted(spark: SparkSession, text: str, find: Find) -> DataFrame | None:
    """How many rows a table of ours has, which its log may know, where a query asks for that and nothing else."""
    from sqlglot import exp

    tree = _parsed(text) if _COUNTS.match(text) else None
    if not isinstance(tree, exp.Select) or any(
        given for name, given in tree.args.items() if name.rstrip("_") not in ("expressions", "from")
    ):
        return None
    (shown, *more), clause = tree.expressions, tree.args.get("from_") or tree.args.get("from")
    if (
        more
        or clause is None
        or shown.unalias()
        not in (
            exp.Count(this=exp.Star(), big_int=True),
            exp.Count(this=exp.Literal.number(1), big_int=True),
        )
    ):
        return None
    source = clause.this
    if source not in list(_tables(tree)) or {name for name, given in source.args.items() if given} - _NAME_PARTS:
        return None
    opened = find(tuple(each.name for each in source.parts))
    if opened is None or opened.format != "delta":
        return None
    name = shown.alias or "count(1)"
    return spark.createDataFrame([(opened.count(),)], f"`{name.replace('`', '``')}` BIGINT NOT NULL")


def _explained(text: str) -> int:
    """Where the query begins that is to be explained; 0 for one that is to be run."""
    reader = Reader(text)
    if not reader.accept("EXPLAIN"):
        return 0
    if reader.word() in ("EXTENDED", "CODEGEN", "COST", "FORMATTED"):
        reader.at += 1
    return len(text) - len(reader.rest())


def references(spark: SparkSession, text: str, find: Find) -> list[_Reference]:
    """The tables of ours in a query, in the order of the text."""
    from sqlglot import exp

    tree = _parsed(text)
    if tree is None or isinstance(tree, exp.Alias):  # TABLE orders, by which sqlglot understands two columns
        return _none_of_ours(text, find)
    found = list(_change_feeds(text, find))
    for table in _tables(tree):
        parts = table.parts
        names = tuple(each.name for each in parts)
        if not all(names) or (len(names) == 1 and _is_cte(table, names[0])):
            continue
        opened = find(names)
        if opened is None:
            continue
        start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
        at, end = _moment(spark, text, table, end)
        alias = "" if table.args.get("alias") or table.args.get("sample") or table.args.get("pivots") else names[-1]
        where = _pruning(text, end) if not at else None
        rows = opened.to_df(**at) if where is None else _pruned(opened, where)
        alone = "" if path_of(names) else alias
        found.append(_Reference(start, end, rows, alone, names if alone else ()))
    return sorted(_told_apart(found), key=lambda each: each.start)


def _told_apart(found: Sequence[_Reference]) -> Iterator[_Reference]:
    """References under other aliases where tables of several names, such as `a.t` and `b.t`, would have the same."""
    called: dict[str, set[tuple[str, ...]]] = {}
    for each in found:
        called.setdefault(each.alias.lower(), set()).add(tuple(map(str.lower, each.names)))
    for each in found:
        yield replace(each, alias=".".join(each.names)) if len(called[each.alias.lower()]) > 1 else each


def names_of_feeds(text: str) -> Iterator[tuple[str, ...]]:
    """The names of the tables whose `table_changes` a text asks for."""
    for _, reader in _calls_for_changes(text):
        yield Reader(reader.string()).name()


def _calls_for_changes(text: str) -> Iterator[tuple[SqlToken, Reader]]:
    """The calls of `table_changes`, with a reader that stands at their arguments."""
    reader = Reader(text)
    for at, token in enumerate(reader.tokens):
        reader.at = at + 1
        if token.word == "TABLE_CHANGES" and not token.is_quoted and not reader.is_done and reader.accept("("):
            yield token, reader


def _change_feeds(text: str, find: Find) -> Iterator[_Reference]:
    """The calls of `table_changes('table', first [, last])` on tables of ours, by versions or times."""
    for token, reader in _calls_for_changes(text):
        opened = find(Reader(reader.string()).name())
        if opened is None:
            continue
        span: list[Any] = []
        while reader.accept(","):
            span.append(reader.whole_number() if reader.word().isdigit() else reader.string())
        if not 1 <= len(span) <= 2:
            reader.refuse("table_changes takes a table, the first version or time, and perhaps the last")
        reader.expect(")")
        yield _Reference(token.start, reader.tokens[reader.at - 1].end, opened.changes(*span), "")


def substituted(text: str, found: Sequence[_Reference]) -> tuple[str, dict[str, DataFrame]]:
    """The text as `SparkSession.sql` formats it, and the DataFrames that it names."""
    frames = {f"halocline_{number}": each.rows for number, each in enumerate(found)}
    return with_names(text, found, [f"{{{name}}}" for name in frames], _escaped), frames


def with_names(text: str, found: Sequence[_Reference], names: Sequence[str], told: Callable[[str], str] = str) -> str:
    """The text with other names for the tables in it; columns that are qualified with all of a name stay theirs."""
    short = {each.names: each.alias for each in found if len(each.names) > 1}
    pieces, at = list[str](), 0
    for name, each in zip(names, found, strict=True):
        alias = f" AS {quoted(each.alias)}" if each.alias else ""
        pieces += [told(shortened(text[at : each.start], short)), name, told(alias)]
        at = each.end
    return "".join([*pieces, told(shortened(text[at:], short))])


def shortened(text: str, short: Mapping[tuple[str, ...], str]) -> str:
    """A text in which columns that are qualified with a long name, `sales.orders.id`, are so with a short one."""
    tokens = tokens_of(text) if short else []
    pieces, at = list[str](), 0
    for number, token in enumerate(tokens):
        name = next((name for name in short if _qualified(tokens, number, name)), None)
        if name is not None:
            pieces += [text[at : token.start], quoted(short[name])]
            at = tokens[number + 2 * len(name) - 1].start
    return "".join([*pieces, text[at:]])


def without_qualifier(text: str, qualifiers: Sequence[tuple[str, ...]], reader: Reader) -> str:
    """An expression whose columns are not qualified, where the verb knows the columns of one table only."""
    tokens = tokens_of(text)
    if holds_query(text):
        if any(_qualified(tokens, at, name) for at in range(len(tokens)) for name in qualifiers):
            reader.refuse("a subquery speaks of the table by its name: use MERGE")
        return text
    if {(name,) for name in _variables(tokens)} & {tuple(map(str.lower, name)) for name in qualifiers}:
        reader.refuse("a variable of a function is called as the table is: give it another name")
    pieces, at, number = list[str](), 0, 0
    while number < len(tokens):
        length = next((len(name) * 2 for name in qualifiers if _qualified(tokens, number, name)), 0)
        if length:
            pieces.append(text[at : tokens[number].start])
            number += length
            at = tokens[number].start if number < len(tokens) else len(text)
            continue
        number += 1
    return "".join([*pieces, text[at:]])


def _qualified(tokens: Sequence[SqlToken], number: int, name: tuple[str, ...]) -> bool:
    """Whether a name and a dot stand here, and nothing before that it would belong to."""
    if number and tokens[number - 1].word == "." and not tokens[number - 1].is_quoted:
        return False
    wanted = [part for each in name for part in (each, ".")]
    given = tokens[number : number + len(wanted)]
    return len(given) == len(wanted) and all(
        each.word.lower() == part.lower() and each.kind not in ("STRING", "RAW_STRING")
        for each, part in zip(given, wanted, strict=True)
    )


def _variables(tokens: Sequence[SqlToken]) -> Iterator[str]:
    """What functions such as `x -> x + 1` and `(x, y) -> x + y` call their arguments."""
    for arrow in (at for at, each in enumerate(tokens) if at and each.kind == "ARROW"):
        start = arrow - 1
        while start and tokens[arrow - 1].word == ")" and tokens[start].word != "(":
            start -= 1
        yield from (each.word.lower() for each in tokens[start:arrow])


# ---------------------------------------------------------------------- what sqlglot tells


def _parsed(text: str) -> exp.Expression | None:
    import sqlglot
    from sqlglot import errors, exp

    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it says what it cannot parse, and so do we
    try:
        trees = sqlglot.parse(text, dialect="databricks")
    except (errors.ParseError, errors.TokenError):
        return None
    tree: Any = trees[0] if len(trees) == 1 else None
    return None if tree is None or isinstance(tree, exp.Command) else tree


def _tables(tree: exp.Expression) -> Iterator[exp.Table]:
    from sqlglot import exp

    for node in tree.find_all(exp.Table):
        alias = node.args.get("alias")
        if alias is not None and isinstance(alias.this, exp.Parameter):
            raise UnsupportedError(
                "a time after @ is not understood",
                sides={"given": node.sql(dialect="databricks")},
                next_step="Write VERSION AS OF 3, or TIMESTAMP AS OF '2026-11-01'.",
            )
        if all(isinstance(each, exp.Identifier) for each in node.parts):  # no function
            yield node


def _is_cte(table: exp.Table, name: str) -> bool:
    """Whether a name stands for a `WITH`: one of the query around it, and of those before it if it is in one itself."""
    node: Any = table
    within: Any = None
    while node is not None:
        clause = node.args.get("with_")
        if clause is not None:
            inside = next((at for at, each in enumerate(clause.expressions) if each is within), None)
            visible = (
                clause.expressions if inside is None or clause.args.get("recursive") else clause.expressions[:inside]
            )
            if any(each.alias.lower() == name.lower() for each in visible):
                return True
        if type(node).__name__ == "CTE":
            within = node
        node = node.parent
    return False


def _none_of_ours(text: str, find: Find) -> list[_Reference]:
    """Refuses a text that is not understood where it names a table of ours."""
    from halocline.statements.meant import mistyped  # which knows the formats from here

    reader = Reader(text)
    for at in range(len(reader.tokens)):
        reader.at = at
        before = reader.word(-1)
        try:
            parts = reader.name()
        except UnsupportedError:
            continue
        by_path = len(parts) == 2 and parts[0].lower() in FORMATS and reader.tokens[reader.at - 1].kind == "IDENTIFIER"
        if by_path or (before in _BEFORE_A_TABLE and find(parts) is not None):
            _, meant = mistyped(text) or ("", "")
            raise UnsupportedError(
                f"the statement names {'.'.join(parts)} in a way that is not understood",
                sides={"statement": text[:300]},
                next_step=(f"Did you mean {meant}? " if meant else "")
                + "Put it in simpler words, or use Table.for_path.",
            )
    return []


# ---------------------------------------------------------------------- time, and files that need not be read


def _moment(spark: SparkSession, text: str, table: exp.Table, end: int) -> tuple[dict[str, Any], int]:
    """The version or time that a reference asks for, and where that ends in the text."""
    if table.args.get("version") is None:
        return {}, end
    reader = Reader(text)
    reader.at = next(at for at, each in enumerate(reader.tokens) if each.start >= end)
    reader.accept("FOR")
    at = moment(spark, reader, table.args["version"].expression)
    return at, reader.tokens[reader.at - 1].end


def moment(spark: SparkSession, reader: Reader, parsed: Any = None) -> dict[str, Any]:
    """Takes `VERSION AS OF 3` or `TIMESTAMP AS OF expression`, as the arguments of a verb."""
    if reader.accept("VERSION", "AS", "OF"):
        return {"version": reader.whole_number()}
    reader.expect("TIMESTAMP", "AS", "OF")
    text = reader.until() if parsed is None else _taken(reader, parsed)
    milliseconds = spark.sql(f"SELECT unix_millis(try_cast(({text}) AS TIMESTAMP)) AS at").collect()[0][0]
    if milliseconds is None:
        expected = "'2026-11-01', '2026-11-01 12:30:00', or an expression such as current_timestamp() - INTERVAL 1 DAY"
        raise InputError(f"{text} is not a time", sides={"given": text, "expected": expected})
    return {"timestamp": milliseconds}


def _taken(reader: Reader, parsed: exp.Expression) -> str:
    """Takes the expression that sqlglot has found there: as many tokens as mean the same by themselves."""
    start = reader.at
    while not reader.is_done:
        reader.at += 1
        alone = _parsed(reader.slice(start))
        if alone is not None and alone == parsed:
            reader.accept("(", ")")  # current_timestamp means the same with and without
            return reader.slice(start)
    reader.at = start
    reader.refuse("the time is not understood")


def _pruning(text: str, end: int) -> str | None:
    """The condition of a query on one table and nothing else, by which files can be left out."""
    reader = Reader(text)
    words = [reader.word(ahead) for ahead in range(len(reader.tokens))]
    if words[0] != "SELECT" or words.count("SELECT") != 1 or words.count("FROM") != 1 or _SEVERAL & set(words):
        return None
    reader.at = next((at for at, each in enumerate(reader.tokens) if each.start >= end), len(words))
    if not reader.accept("WHERE"):
        return None
    condition = reader.until(*_ENDS_WHERE)
    # It is asked twice then, so it must come out the same: no functions.
    tokens = tokens_of(condition)
    calls = (one for one, other in pairwise(tokens) if other.word == "(" and _is_name(one))
    return condition if next(calls, None) is None else None


def _is_name(token: SqlToken) -> bool:
    return token.kind == "IDENTIFIER" or (token.word[:1].isalpha() and token.word not in ("IN", "AND", "OR", "NOT"))


def _pruned(opened: Table, where: str) -> DataFrame:
    """The rows that meet a condition, if it speaks of the table's columns alone; else all of them."""
    try:
        return opened.to_df(where=where)
    except Exception:  # parameters, or columns that only the query knows: it is the query's own condition that counts
        return opened.to_df()


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")

"""`halocline sql`: statements on the tables of a lake, given on the line, from a pipe, or typed in."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table

from halocline.cli.output import FINE, OutputFormat, OutputOption, columns, emit, emit_error, emit_stopped
from halocline.cli.spark_session import session, stoppable
from halocline.errors import HaloclineError, InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from halocline.lake.lake import Lake

_MOST_SHOWN: Final = 100
_QUIT: Final = ("quit", "exit", "\\q")


def show(
    lake: Annotated[str, typer.Argument(metavar="LAKE", help="A folder or URL with tables below it, or a lake.toml.")],
    execute: Annotated[list[str] | None, typer.Option("--execute", "-e", help="Statements; may be repeated.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most so many rows.")] = _MOST_SHOWN,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Run SQL on the tables of a lake, by name.

    Without -e, statements are read from the terminal or from standard input; each ends with a semicolon. What each
    tells is shown; as JSON, it is a document for each, in their order.
    """
    from halocline.lake.lake import Lake

    talk = not execute and sys.stdin.isatty()
    statements = [] if talk else _given(execute or [sys.stdin.read()])
    found = Lake.open(lake)  # one that is not there is told before Spark starts
    if not (talk or statements):
        raise InputError("there is no statement", next_step=f"halocline sql {shlex.quote(str(lake))} -e 'SELECT 1'")
    found.session = session("halocline sql")
    if talk:
        return _talk(found, limit, output)
    _run_each(found, statements, limit, output)
    return FINE


def _given(texts: Sequence[str]) -> list[str]:
    from halocline.statements.text import statements_of

    return [each for text in texts for each in statements_of(text)]


def _run_each(lake: Lake, statements: Sequence[str], limit: int, output: OutputFormat) -> None:
    """Runs statements one after the other, and shows what each tells as soon as it is done."""
    for number, each in enumerate(statements):
        with _told_if_stopped(each, number), _told_if_failed(number, len(statements)):
            _run(lake, each, limit, output)


@contextlib.contextmanager
def _told_if_failed(before: int, of: int) -> Iterator[None]:
    """Says of a statement among several which one has failed, and what is done and is not done beside it."""
    try:
        yield
    except HaloclineError as error:
        if of > 1:
            done, rest = _statements(before), _statements(of - before - 1)
            error.sides["among several"] = f"number {before + 1}; {done} before it done, {rest} after it not run"
        raise


def _statements(number: int) -> str:
    return f"{number} statement{'' if number == 1 else 's'}"


@contextlib.contextmanager
def _told_if_stopped(text: str, before: int = 0) -> Iterator[None]:
    """Says what Ctrl-C has stopped, and what is done all the same."""
    try:
        yield
    except KeyboardInterrupt:
        done = f" {before} before it {'are' if before > 1 else 'is'} done." if before else ""
        words = " ".join(text.split())
        kept = "A change is done as a whole or not at all, and DESCRIBE HISTORY tells which."
        if words.upper().startswith("VACUUM"):
            kept = "Files that it has deleted are gone; it can be run again for the others."
        raise KeyboardInterrupt(f"The statement was: {words[:80]}.{done} {kept}") from None


def statements_in(lines: Iterator[str | None]) -> Iterator[str]:
    """The statements of lines, each as soon as its semicolon has come.

    None among the lines drops what was typed so far. What no semicolon has ended when the lines end is not a statement:
    half of a `DELETE` deletes more than the whole.
    """
    from halocline.statements.text import tokens_of

    pending = ""
    for line in lines:
        if line is None:
            pending = ""
            continue
        if not pending.strip() and line.strip().rstrip(";").lower() in _QUIT:
            return
        pending += line
        try:
            tokens = tokens_of(pending)
        except HaloclineError:  # a quote that is still open
            continue
        if tokens and tokens[-1].kind == "SEMICOLON":
            yield pending
            pending = ""
    if pending.strip():
        raise InputError(
            "the last statement was not run: no semicolon ended it",
            sides={"statement": " ".join(pending.split())[:300]},
        )


def _talk(lake: Lake, limit: int, output: OutputFormat) -> int:
    """Asks for statements until the input ends; what goes wrong is told, and the talk goes on."""
    keys = "A statement ends with a semicolon; Ctrl-C stops it; quit ends the talk."
    sys.stdout.write(f"{len(lake):,} tables in {lake.place}. {keys}\n")
    for text in statements_in(_typed()):
        try:
            _run_each(lake, _given([text]), limit, output)
        except HaloclineError as error:
            emit_error(output, error)
        except KeyboardInterrupt as stopped:
            emit_stopped(stopped)
    return FINE


def _typed() -> Iterator[str | None]:
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - gives the prompt a memory and keys to move
    prompt = "lake> "
    while True:
        try:
            line = input(prompt)
        except EOFError:
            sys.stdout.write("\n")
            return
        except KeyboardInterrupt:
            sys.stdout.write("\n")
            yield None
            prompt = "lake> "
            continue
        yield line + "\n"
        prompt = "lake> " if line.rstrip().endswith(";") else "   -> "


def _run(lake: Lake, text: str, limit: int, output: OutputFormat) -> None:
    from halocline.spark.session.analysis import first_line, unlogged

    try:
        with unlogged(), stoppable(lake.spark):  # what Spark says is told below, without its stack
            told = lake.sql(text)
            rows = told.limit(limit + 1).collect()
    except Exception as error:
        # Spark's classes differ between classic sessions and Connect; what is neither its nor ours is a defect.
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise InputError(
            "Spark does not do the statement",
            sides={"statement": " ".join(text.split())[:300], "Spark says": first_line(error)},
        ) from None
    emit(output, [row.asDict(recursive=True) for row in rows[:limit]], *_shown(told, rows, limit))


def _shown(told: DataFrame, rows: list[Any], limit: int) -> Iterator[Table | str]:
    if told.columns:
        table = columns(*told.columns)
        for row in rows[:limit]:
            table.add_row(*("NULL" if value is None else str(value) for value in row))
        yield table
    yield f"more than {limit:,} rows: --limit shows more" if len(rows) > limit else _count(len(rows))


def _count(number: int) -> str:
    return f"({number:,} row{'' if number == 1 else 's'})"

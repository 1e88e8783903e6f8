"""`halocline survey`: every table of a lake, who uses it, and what stands in the way of a target."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from halocline.cli.inspect import age_text, size_text
from halocline.cli.output import (
    ANSWER_STYLES,
    FINE,
    INCOMPATIBLE,
    OutputFormat,
    OutputOption,
    columns,
    emit,
)
from halocline.compat.answer import Answer
from halocline.compat.release import Release
from halocline.errors import shortened
from halocline.place_names import with_place_names

if TYPE_CHECKING:
    from halocline.lake.judging import TableSurvey
    from halocline.lake.survey import LakeSurvey

_MOST_SHOWN: Final = 50


def show(
    lake: Annotated[str, typer.Argument(metavar="LAKE", help="A folder or URL with tables below it, or a lake.toml.")],
    enable: Annotated[list[str] | None, typer.Option("--enable", help="The target: a feature switched on.")] = None,
    drop: Annotated[list[str] | None, typer.Option("--drop", help="The target: a feature taken out.")] = None,
    table_version: Annotated[
        int | None, typer.Option("--table-version", help="The target: the version of Hudi tables.")
    ] = None,
    client: Annotated[
        list[str] | None, typer.Option("--client", help="Judge this release against every table, too.")
    ] = None,
    fleet: Annotated[
        str, typer.Option("--fleet", envvar="HALOCLINE_FLEET", help="Ask this fleet who uses the tables.")
    ] = "",
    html: Annotated[Path | None, typer.Option("--html", help="Write one page that stands alone to this file.")] = None,
    journal: Annotated[
        Path | None, typer.Option("--journal", help="Note what was looked at; a survey that ended early goes on.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Survey at most so many tables.")] = None,
    after: Annotated[str | None, typer.Option("--after", help="Only tables behind this name.")] = None,
    every: Annotated[bool, typer.Option("--all", help=f"Show more than {_MOST_SHOWN} tables as text.")] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Show every table of a lake, who uses it, and what stands in the way of a target.

    The exit code is 2 if a table is damaged, a user cannot use one, or something stands in the way.
    """
    # Imported here: every command loads this module, and most open no lake.
    from halocline.lake.journal import check_writable
    from halocline.lake.lake import Lake

    # Refused before a long survey, not after it.
    for each in client or ():
        Release.parse(each)
    if html is not None:
        check_writable(html)
    with _told_if_stopped(journal) as progress:
        if after is not None or limit is not None:
            found = Lake.discover(lake, limit=limit, after=after, progress=progress.found)
        else:
            found = Lake.open(lake, progress=progress.found)
        survey = found.survey(
            enable=enable or (),
            drop=drop or (),
            table_version=table_version,
            clients=client or (),
            fleet=fleet,
            journal=journal,
            progress=progress.looked,
        )
    if html is not None:
        html.write_text(survey.to_html(), encoding="utf-8")
    judged = [_judged(survey, each) for each in client or ()]
    emit(output, survey.to_dict(), _table(survey, every), *_lines(survey, every, html), *judged)
    return INCOMPATIBLE if survey.damaged or survey.failing or survey.stuck else FINE


@contextmanager
def _told_if_stopped(journal: Path | None) -> Iterator[_Progress]:
    """Shows how far it is, and says how to go on if Ctrl-C ends it."""
    progress = _Progress()
    try:
        with progress:
            yield progress
    except KeyboardInterrupt:
        kept = (
            f"They are kept in {journal}: the same command goes on from there."
            if journal is not None
            else "With --journal FILE they are kept, and the same command goes on from there."
        )
        raise KeyboardInterrupt(f"{progress.told}. {kept}") from None


class _Progress:
    """A bar on standard error, where there is somebody to see it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._shown = Progress(*parts, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
        self._finding = self._shown.add_task("finding tables", total=None)
        self._looking = self._shown.add_task("looking at tables", total=None, visible=False)
        self.told = "No table was looked at"

    def __enter__(self) -> _Progress:
        self._shown.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.stop()

    def found(self, tables: int) -> None:
        self._shown.update(self._finding, completed=tables)

    def looked(self, done: int, total: int) -> None:
        self.told = f"{done:,} of {total:,} tables were looked at"
        self._shown.update(self._looking, completed=done, total=total, visible=True)


def _table(survey: LakeSurvey, every: bool) -> Table:
    titles = ["table", "format", "protocol", "in use", "files", "size", "last writer", "used by", "findings"]
    table = columns(*titles, *(["in the way"] if survey.target else []))
    now_ms = time.time_ns() // 1_000_000
    # Those that need a look come first, so that a long list can be cut.
    tables = sorted(survey.tables, key=lambda each: (not _needs_a_look(each), each.name))
    for each in tables if every else tables[:_MOST_SHOWN]:
        facts = each.facts
        if each.damage is not None:
            table.add_row(
                each.name, facts.format, Text("damaged", "bold red"), Text(with_place_names(each.damage), "red")
            )
            continue
        last = facts.writers[0] if facts.writers else None
        seen = "" if last is None or last.last_ms is None else f" {age_text(now_ms - last.last_ms)}"
        row: list[str | Text] = [
            each.name,
            facts.format,
            "" if facts.terms is None else facts.terms.protocol.partition("|")[0] + _closed(facts.terms.protocol),
            ", ".join(name for name in facts.terms.in_use if ":" not in name) if facts.terms else "",
            "" if facts.files is None else f"{facts.files:,}",
            "" if facts.size is None else size_text(facts.size),
            "" if last is None else f"{last.release}{seen}",
            _users(each),
            ", ".join(flaw.code for flaw in facts.flaws),
        ]
        table.add_row(*row, *(["; ".join(each.in_the_way)] if survey.target else []))
    return table


def _needs_a_look(each: TableSurvey) -> bool:
    return bool(each.damage is not None or each.in_the_way or each.facts.flaws or each.worst not in (None, Answer.OK))


def _closed(protocol: str) -> str:
    return ", …)" if "|" in protocol else ""


def _users(each: TableSurvey) -> Text:
    pieces = [Text(str(user.client.release), ANSWER_STYLES[user.outlook.now.answer]) for user in each.users[:4]]
    more = [Text(f"and {len(each.users) - 4} more")] if len(each.users) > 4 else []
    loud = each.worst not in (None, Answer.OK)
    return Text(", ").join([*pieces, *more]) + (Text(f" ({each.worst})") if loud else Text())


def _judged(survey: LakeSurvey, client: str) -> str:
    """How many tables a release may read and write, and which of them it may not, with the reason of the first."""
    from halocline.lake.judging import why

    release, total = Release.parse(client), len(survey.tables) - len(survey.damaged)
    told = []
    for operation in ("read", "write"):
        cannot = survey.refusals(release, operation)
        first = next(iter(cannot.items()), None)
        names = "" if first is None else f", not {shortened(list(cannot))} ({first[1].answer}: {why(first[1])})"
        told.append(f"{operation}s {total - len(cannot):,} of {total:,}{names}")
    return f"{release} {'; '.join(told)}"


def _lines(survey: LakeSurvey, every: bool, html: Path | None) -> Iterator[str]:
    total = len(survey.tables)
    if total > _MOST_SHOWN and not every:
        yield f"and {total - _MOST_SHOWN:,} more tables: --all, --html FILE or --output json shows them"
    formats: dict[str, int] = {}
    for each in survey.tables:
        formats[each.facts.format] = formats.get(each.facts.format, 0) + 1
    size = sum(each.facts.size or 0 for each in survey.tables)
    counted = ", ".join(f"{number:,} {name}" for name, number in sorted(formats.items()))
    flawed = sum(bool(each.facts.flaws) for each in survey.tables)
    yield f"{total:,} tables ({counted or 'none'}) · {size_text(size)} · {len(survey.damaged):,} damaged · " + (
        f"{flawed:,} with findings · {len(survey.failing):,} with users who cannot"
    )
    if survey.target:
        free = total - len(survey.stuck) - len(survey.damaged)
        yield f"Target: {survey.target}.  In the way: {len(survey.stuck):,} tables.  Free: {free:,}."
    for path, reason in list(survey.unsearched.items())[:10]:
        yield f"not searched: {path} ({reason})"
    if survey.after is not None:
        command = shlex.join(["halocline", "survey", survey.place, "--after", survey.after])
        yield f"Not searched to its end.  Next: {command}"
    if html is not None:
        yield f"page written to {html}"

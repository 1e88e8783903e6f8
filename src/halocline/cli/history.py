"""`halocline history`: which client and server versions work together, and whether a history is in order."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import RenderableType

from halocline.cli.commands import NamedGroup
from halocline.cli.output import FINE, INCOMPATIBLE, OutputFormat, OutputOption, columns, emit
from halocline.compat.history import Diff, History, HistoryVerdict, Minimum, in_words

app = typer.Typer(
    name="history",
    cls=NamedGroup,
    help="Two sides of a wire: which client and server versions work together, feature by feature.",
    no_args_is_help=True,
)

NameArgument = Annotated[str, typer.Argument(help="A shipped history (see: halocline history list) or a TOML file.")]
ClientOption = Annotated[str, typer.Option("--client", help="The client's version.")]
ServerOption = Annotated[str, typer.Option("--server", help="The server's version.")]
FlagOption = Annotated[list[str] | None, typer.Option("--flag", help="A build flag that is on; may be repeated.")]


@app.command("list")
def list_histories(output: OutputOption = OutputFormat.TEXT) -> None:
    """List the shipped histories."""
    histories = [History.load(name) for name in History.shipped()]
    table = columns("name", "features", "released", "about")
    for each in histories:
        table.add_row(each.name, str(len(each.lifetimes)), str(each.released), each.summary)
    facts = [
        {"name": h.name, "features": len(h.lifetimes), "released": str(h.released), "summary": h.summary}
        for h in histories
    ]
    emit(output, facts, table)


@app.command()
def show(
    name: NameArgument,
    at: Annotated[str | None, typer.Option("--at", help="Show the minima and ranges of this version.")] = None,
    flag: FlagOption = None,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show a history, or what it says about one version."""
    history = History.load(name)
    if at is None:
        _show_all(history, output)
    else:
        _show_version(history, at, flag or [], output)


@app.command()
def check(
    name: NameArgument,
    client: ClientOption,
    server: ServerOption,
    flag: FlagOption = None,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Can this client and this server work together? Exits 0 if so, and 2 if not or if it is not known."""
    verdict = History.load(name).check(client=client, server=server, flags=flag or [])
    emit(output, verdict.to_dict(), *_verdict_lines(verdict))
    raise typer.Exit(FINE if verdict.ok else INCOMPATIBLE)


@app.command("min-server")
def min_server(
    name: NameArgument, client: ClientOption, flag: FlagOption = None, output: OutputOption = OutputFormat.TEXT
) -> None:
    """Print the least server that can serve a client; what forces it goes to standard error."""
    least = History.load(name).explain_min_server(client, flags=flag or [])
    _emit_minimum(output, {"history": name, "client": client, "minServer": str(least.version)}, least)


@app.command("min-client")
def min_client(
    name: NameArgument, server: ServerOption, flag: FlagOption = None, output: OutputOption = OutputFormat.TEXT
) -> None:
    """Print the least client that a server can serve; what forces it goes to standard error."""
    least = History.load(name).explain_min_client(server, flags=flag or [])
    _emit_minimum(output, {"history": name, "server": server, "minClient": str(least.version)}, least)


@app.command()
def lint(name: NameArgument, output: OutputOption = OutputFormat.TEXT) -> None:
    """Look for what will hurt a side: order, reuse, infinite or falling minima, stale constants. Exits 2 if found."""
    history = History.load(name)
    findings = history.lint()
    lines = [f"{finding.rule:<26}{finding.text}" for finding in findings]
    count = f"{len(findings)} finding{'' if len(findings) == 1 else 's'}"
    summary = f"{history.name}: {len(history.lifetimes)} features, {count if findings else 'nothing to complain about'}"
    facts = {"history": history.name, "findings": [finding.to_dict() for finding in findings]}
    emit(output, facts, *lines, summary)
    raise typer.Exit(INCOMPATIBLE if findings else FINE)


@app.command()
def diff(
    name: NameArgument,
    old: Annotated[str, typer.Argument(help="The older state: a shipped history or a TOML file.")],
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show what changed since an older state. Exits 2 if that rewrites what the older one had released."""
    found = History.load(name).diff(History.load(old))
    facts = {
        "new": found.new,
        "old": found.old,
        "released": str(found.released),
        "changes": [change.to_dict() for change in found.changes],
    }
    emit(output, facts, *_diff_lines(found))
    raise typer.Exit(INCOMPATIBLE if found.rewrites else FINE)


@app.command()
def changelog(name: NameArgument, output: OutputOption = OutputFormat.TEXT) -> None:
    """Print the history as Markdown, newest release first."""
    history = History.load(name)
    markdown = history.changelog()
    emit(output, {"history": history.name, "markdown": markdown}, markdown.rstrip("\n"))


def _show_all(history: History, output: OutputFormat) -> None:
    table = columns("feature", "server provides", "client requires", "client uses optionally")
    for each in history.lifetimes:
        table.add_row(each.id, str(each.provided), str(each.required), str(each.optional) if each.optional else "")
    begins = f"from {history.begins} " if history.begins else ""
    lines: list[RenderableType] = [
        f"{history.name} · {len(history.lifetimes)} features · {begins}to {history.released}"
    ]
    lines += [history.summary] if history.summary else []
    lines.append(table)
    lines += [f"yanked      {each.span}" for each in history.yanked]
    lines += [f"misreports  {each.version} says it is {each.reports}" for each in history.misreports]
    lines += [f"build flag  {flag}: {about}" for flag, about in history.flags]
    features = [
        {
            "id": each.id,
            "name": each.name,
            "summary": each.summary,
            "provided": [str(span) for span in each.provided],
            "required": [str(span) for span in each.required],
            "optional": [str(span) for span in each.optional],
            "inert": [str(span) for span in each.inert],
            "fallback": each.fallback,
        }
        for each in history.lifetimes
    ]
    facts = {
        "name": history.name,
        "summary": history.summary,
        "released": str(history.released),
        "unknownBefore": str(history.begins) if history.begins else None,
        "features": features,
        "yanked": [str(each.span) for each in history.yanked],
        "reportsAs": {str(each.version): str(each.reports) for each in history.misreports},
        "flags": dict(history.flags),
        "sources": list(history.sources),
    }
    emit(output, facts, *lines)


def _show_version(history: History, version: str, flags: list[str], output: OutputFormat) -> None:
    servers, clients = history.servers_for(version, flags=flags), history.clients_for(version, flags=flags)
    server, client = history.min_server(version, flags=flags), history.min_client(version, flags=flags)
    facts = {
        "history": history.name,
        "version": version,
        "minServer": str(server),
        "minClient": str(client),
        "servers": [str(span) for span in servers],
        "clients": [str(span) for span in clients],
        "peers": [str(span) for span in servers & clients],
    }
    emit(
        output,
        facts,
        f"as a client   minimum server {server}; can use servers: {in_words(servers)}",
        f"as a server   minimum client {client}; accepts clients: {in_words(clients)}",
        f"as either     works with: {in_words(servers & clients)}",
    )


def _emit_minimum(output: OutputFormat, facts: dict[str, object], least: Minimum) -> None:
    facts |= {
        "features": list(least.features),
        "firstUsable": str(least.usable) if least.usable else None,
        "notes": list(least.notes),
    }
    emit(output, facts, str(least.version))
    if output is OutputFormat.TEXT:
        # Standard output holds the number alone, so that $(…) can take it.
        comments = [f"forced by {', '.join(least.features)}"] if least.features else []
        sys.stderr.write("".join(f"{line}\n" for line in (*comments, *least.notes)))


def _verdict_lines(verdict: HistoryVerdict) -> list[str]:
    pair = f"client {verdict.client} can use server {verdict.server}"
    lines = [f"{verdict.answer}: {reason.text}" for reason in verdict.reasons] or [f"{verdict.answer}: {pair}"]
    lines += [f"note: {note}" for note in verdict.notes]
    if verdict.servers:
        lines.append(f"servers this client can use: {in_words(verdict.servers)}")
    if verdict.clients:
        lines.append(f"clients this server accepts: {in_words(verdict.clients)}")
    return [*lines, verdict.fix] if verdict.fix else lines


def _diff_lines(found: Diff) -> list[str]:
    lines = [f"{change.kind:<12}{change}" for change in found.changes]
    rewrites = len(found.rewrites)
    verdict = (
        f"{rewrites} of {len(found.changes)} changes rewrite what was released up to {found.released}"
        if rewrites
        else f"{len(found.changes)} changes; what was released up to {found.released} stands as it was"
    )
    return [*lines, f"{found.old} → {found.new}: {verdict}"]

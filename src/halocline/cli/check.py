"""`halocline check`: which clients can use a table, now and after a change."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from halocline.cli.fleet_users import FleetOption, FleetUsers
from halocline.cli.inspect import TableArgument, age_text
from halocline.cli.output import ANSWER_STYLES, FINE, INCOMPATIBLE, OutputFormat, OutputOption, columns, emit
from halocline.compat.answer import in_one_line
from halocline.compat.breaks import READING, WRITING, Client, Forecast, Outlook, forecast, newest_known, next_step
from halocline.compat.release import Release
from halocline.compat.reports import FeatureProposal, Writers
from halocline.compat.verdict import Verdict
from halocline.errors import InputError


def show(
    table: TableArgument,
    client: Annotated[
        list[str] | None,
        typer.Option("--client", help="A release, e.g. deltalake@1.6.6; if left out, all that log and fleet name."),
    ] = None,
    operation: Annotated[
        str | None,
        typer.Option("--operation", help="read, write or finer; if left out, what the log saw them do, or read."),
    ] = None,
    enable: Annotated[list[str] | None, typer.Option("--enable", help="A feature to be switched on.")] = None,
    drop: Annotated[list[str] | None, typer.Option("--drop", help="A feature to be taken out.")] = None,
    truncate_history: Annotated[
        bool | None,
        typer.Option("--truncate-history/--keep-history", help="How to drop; both ways are shown if left out."),
    ] = None,
    fleet: FleetOption = "",
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Show which clients can use a table, now and after a change. The exit code is 2 if one cannot."""
    # Imported here: every command loads this module, and most open no table.
    from halocline.formats.base import detect_format, inspector_of
    from halocline.storage import open_store

    if truncate_history is not None and not drop:
        raise InputError(
            "history is kept or truncated when a feature is dropped, and none is",
            sides={"given": f"truncate history: {str(truncate_history).lower()}", "drop": "nothing"},
            next_step="Name the feature: --drop deletionVectors",
        )
    store = open_store(table)
    inspector = inspector_of(detect_format(store))
    proposal = inspector.propose(store, enable=enable or (), drop=drop or (), truncate_history=truncate_history)
    asked_of = (operation,) if operation else None
    clients = [Client(Release.parse(each), asked_of or READING) for each in client or ()]
    if not clients:
        told = [each.client for each in FleetUsers(fleet, store).users]
        clients = [replace(each, operations=asked_of or each.operations) for each in told]
        seen = _observed(inspector.writers(store), proposal.now.protocol.format, table, asked_of, needed=not told)
        # The fleet's word stands where the log tells no more of the same release; a reader there may write here.
        clients += [each for each in seen if not any(_covers(known, each) for known in clients)]
    found = forecast(clients, proposal.now, *proposal.ways.values())
    asked = [*(f"enable {each}" for each in enable or ()), *(f"drop {each}" for each in drop or ())]
    cannot = [each.now for each in found.outlooks if not each.now.ok]
    broken = {way: found.broken(at) for at, way in enumerate(proposal.ways)}
    steps = [_next_step(found, at) for at in range(len(found.after))] or [_now_step(found)]
    facts: dict[str, Any] = {
        "table": table,
        "version": proposal.version,
        "change": asked,
        "protocol": {"now": str(proposal.now.protocol)}
        | {way: str(terms.protocol) for way, terms in proposal.ways.items()},
        "clients": [each.to_dict(list(proposal.ways)) for each in found.outlooks],
        "wouldBreak": {way: [_shown(each.client) for each in outlooks] for way, outlooks in broken.items()},
        "cannotNow": [str(each.release) for each in cannot],
        "next": "; ".join(dict.fromkeys(filter(None, steps))),
    }
    emit(output, facts, _table(found, proposal), *_verdict_lines(found, proposal, cannot))
    still = all(found.still_unable(at) for at in range(len(proposal.ways))) if proposal.ways else bool(cannot)
    return INCOMPATIBLE if any(broken.values()) or still else FINE


def _covers(known: Client, other: Client) -> bool:
    """Whether one client is judged for all that another of the same release does."""
    return known.release == other.release and set(other.operations) <= set(known.operations)


def _shown(client: Client) -> str:
    """A client for people: its release, and its name if it has one."""
    return f"{client.name} ({client.release})" if client.name else str(client.release)


def _observed(
    writers: Writers, format: str, table: str, operations: tuple[str, ...] | None, *, needed: bool
) -> list[Client]:
    """Those who wrote the table; where one of them had to be inferred, also the newest of every product."""
    found = [replace(each.client, operations=operations or WRITING) for each in writers.named]
    inferred = [each.client for each in writers.observed if each.inferred]
    others = [*inferred, *newest_known(format)] if inferred else []
    found += [replace(each, operations=operations or READING) for each in others]
    if not found and needed:
        raise InputError(
            f"no commit of {table} names who wrote it, so there is no client to check",
            sides={"log": "names no writer", "needed": "at least one client"},
            next_step=f"halocline check {shlex.quote(table)} --client deltalake@1.6.6",
        )
    return found


def _table(found: Forecast, proposal: FeatureProposal) -> Table:
    table = columns("client", "now", *proposal.ways, "why", "evidence", "known from")
    now_ms = time.time_ns() // 1_000_000
    for each in found.outlooks:
        client, given = each.client, [verdict.answer for verdict in (each.now, *each.after)]
        answers = [Text(str(answer), style=ANSWER_STYLES[answer]) for answer in given]
        age = "" if client.last_ms is None else f" {age_text(now_ms - client.last_ms)}"
        table.add_row(_shown(client), *answers, _why(each), _how_known(each), f"{client.known_from}{age}")
    return table


def _loudest(outlook: Outlook) -> Verdict:
    return max((outlook.now, *outlook.after), key=lambda verdict: verdict.answer.loudness)


def _how_known(outlook: Outlook) -> str:
    """How the loudest verdict is known: measured, from source, or said by the vendor."""
    return str(_loudest(outlook).evidence or "")


def _why(outlook: Outlook) -> str:
    """The reasons of the loudest verdict that is not `ok`; only those about what comes in, if there are any."""
    loudest = _loudest(outlook)
    named = {reason.feature for reason in loudest.reasons}
    # A mode says nothing new where the feature itself is the reason.
    reasons = [each for each in loudest.reasons if each.feature.partition(":")[0] not in named - {each.feature}]
    gained = loudest.protocol.features - outlook.now.protocol.features
    return in_one_line([each for each in reasons if each.feature in gained] or reasons)


def _verdict_lines(found: Forecast, proposal: FeatureProposal, cannot: Sequence[Verdict]) -> Iterator[str]:
    total = len(found.outlooks)
    if not proposal.ways:
        yield f"Cannot: {len(cannot)} of {total}." + _then(_now_step(found))
    for at, (way, terms) in enumerate(proposal.ways.items()):
        broken = found.broken(at)
        silently = [_shown(each.client) for each in broken if each.after[at].wrong]
        where = f" ({way})" if len(proposal.ways) > 1 else ""
        loud = f" Silently wrong: {', '.join(silently)}." if silently else ""
        still = found.still_unable(at)
        told = f" Cannot, before and after: {len(still)}." if still else ""
        yield f"Would break{where}: {len(broken)} of {total}.{loud}{told}" + _then(_next_step(found, at))
        yield f"Protocol{where}: {proposal.now.protocol} becomes {terms.protocol}"


def _next_step(found: Forecast, way: int) -> str:
    still = (each.after[way] for each in found.still_unable(way))
    return found.next_step(way) or next_step(still, present=found.now.protocol.features)


def _now_step(found: Forecast) -> str:
    """What would help those who cannot as things are."""
    return next_step((each.now for each in found.outlooks if not each.now.ok), present=found.now.protocol.features)


def _then(step: str) -> str:
    return f"  Next: {step}." if step else ""

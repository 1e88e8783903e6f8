"""`halocline fleet`: where a fleet stands, what is in the way, and moving its levels up and down."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halocline.cli import explore as explorer
from halocline.cli.commands import NamedGroup
from halocline.cli.fleet_audit import audit_log, keys
from halocline.cli.fleet_calls import FleetCall, RequiredReason, command, view, write
from halocline.cli.output import FINE, INCOMPATIBLE, emit
from halocline.cli.serve import Rise
from halocline.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halocline.compat.terms import ProtocolChange
    from halocline.fleet.answers import LadderStatus
    from halocline.fleet.core.ladder import Ladder

app = typer.Typer(
    name="fleet", cls=NamedGroup, help="Who is there, at which level, and what is in the way.", no_args_is_help=True
)
downgrade = typer.Typer(
    name="downgrade", cls=NamedGroup, help="Let a level fall, phase by phase.", no_args_is_help=True
)
ladders = typer.Typer(
    name="ladders", cls=NamedGroup, help="The ladders that the fleet stands on.", no_args_is_help=True
)
member = typer.Typer(name="member", cls=NamedGroup, help="Declare or remove members by hand.", no_args_is_help=True)
for _group in (downgrade, ladders, member, audit_log, keys):
    app.add_typer(_group)
app.command("explore", hidden=True)(explorer.explore)

LevelArgument = Annotated[
    str, typer.Argument(metavar="LADDER=LEVEL", help="For example hudi=8, or delta=deletionVectors.")
]
FeatureOption = Annotated[str, typer.Option(metavar="FEATURE", help="The level that brings this feature.")]
LadderArgument = Annotated[str, typer.Argument(metavar="LADDER", help="For example hudi.")]
LimitOption = Annotated[int, typer.Option(min=0, help="At most so many; 0 for all.")]
ReasonOption = Annotated[str, typer.Option(help="Why; lands in the audit log.")]


@app.callback()
def _fleet(
    context: typer.Context,
    at: Annotated[
        str | None, typer.Option("--at", envvar="HALOCLINE_FLEET", help="The fleet, e.g. grpc://127.0.0.1:7470.")
    ] = None,
    identity: Annotated[str, typer.Option(help="Who you are, for the audit log.")] = "",
    key: Annotated[
        str, typer.Option(help="The key of a command whose answer was lost, to give it again without doing it twice.")
    ] = "",
) -> None:
    """Who is there, at which level, and what is in the way.

    A secret is taken from HALOCLINE_FLEET_SECRET; files for TLS from HALOCLINE_FLEET_CA, _CERT and _KEY.
    """
    context.obj = (at, identity, key)


@command(app)
def describe(call: FleetCall) -> None:
    """Show every ladder: level, settled level, members, and what is in the way of the next."""
    call.ask(lambda fleet: fleet.describe(), view().describe)


@command(app)
def members(
    call: FleetCall,
    also_past: Annotated[
        bool, typer.Option("--all", help="Also every client that was ever greeted, or refused.")
    ] = False,
    limit: LimitOption = 200,
) -> None:
    """Show the members, with which release, and what each supports and uses."""
    now = int(datetime.now(UTC).timestamp() * 1000)
    shown = partial(view().members, now_ms=now)
    call.ask(lambda fleet: fleet.members(also_past=also_past, limit=limit), shown)


@command(app, "who-blocks")
def who_blocks(
    call: FleetCall,
    feature: Annotated[str, typer.Argument(help="For example deletionVectors.")],
    limit: LimitOption = 200,
) -> None:
    """Show the members that keep a feature from being used. Exits 2 if there are any."""
    shown = partial(view().affected, verb="blocks it")
    answer = call.ask(lambda fleet: fleet.who_blocks(feature, limit=limit), shown)
    raise typer.Exit(INCOMPATIBLE if answer.affected else FINE)


@command(app, "who-breaks")
def who_breaks(
    call: FleetCall,
    remove: Annotated[str, typer.Option(metavar="FEATURE", help="A feature that the services would lose.")] = "",
    level: Annotated[str, typer.Option("--raise", metavar="LADDER=LEVEL", help="A level that would rise.")] = "",
    table: Annotated[str, typer.Option(metavar="TABLE", help="A table that would gain or lose features.")] = "",
    enable: Annotated[list[str] | None, typer.Option(help="With --table: a feature to be switched on.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="With --table: a feature to be taken out.")] = None,
    truncate_history: Annotated[bool, typer.Option(help="With --drop: old versions go rather than stay.")] = False,
    limit: LimitOption = 200,
) -> None:
    """Show the members that would break if a feature went, a level rose, or a table changed. Exits 2 if any would."""
    if sum(map(bool, (remove, level, table))) != 1 or bool(table) != bool(enable or drop):
        raise InputError("say one of --remove FEATURE, --raise LADDER=LEVEL, or --table TABLE with --enable or --drop")
    ladder, number = _level(call, level) if level else ("", 0)
    change = _table_change(table, enable or [], drop or [], truncate_history) if table else None
    answer = call.ask(
        lambda fleet: fleet.who_breaks(remove=remove, ladder=ladder, level=number, change=change, limit=limit),
        partial(view().affected, verb="would break"),
    )
    raise typer.Exit(INCOMPATIBLE if answer.affected else FINE)


def _table_change(table: str, enable: list[str], drop: list[str], truncate_history: bool) -> ProtocolChange:
    from halocline.compat.terms import ProtocolChange
    from halocline.formats.base import detect_format, inspector_of
    from halocline.storage import open_store
    from halocline.storage.location import Location

    store = open_store(table)
    proposal = inspector_of(detect_format(store)).propose(
        store, enable=enable, drop=drop, truncate_history=truncate_history
    )
    (after,) = proposal.ways.values()
    return ProtocolChange(Location.parse(store.root).url, proposal.now, after)


@command(app, "raise")
def raise_level(
    call: FleetCall,
    level: LevelArgument,
    feature: FeatureOption = "",
    reason: ReasonOption = "",
    force: Annotated[
        bool, typer.Option("--force", help="Go over the heads of members that do not speak; needs a reason.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what is in the way.")] = False,
) -> None:
    """Raise a level. Exits 2 if something is in the way."""
    ladder, number = _level(call, level, feature)
    if dry_run:
        answer = call.ask(lambda fleet: fleet.plan_raise(ladder, number), view().raise_plan)
        raise typer.Exit(INCOMPATIBLE if answer.blockers else FINE)
    call.do(lambda fleet: fleet.raise_level(ladder, number, reason=reason, force=force))


@command(app)
def policy(
    call: FleetCall,
    ladder: LadderArgument,
    rises: Annotated[Rise, typer.Argument(help="By itself when every member can, or by hand.")],
    reason: ReasonOption = "",
) -> None:
    """Decide whether a level rises by itself."""
    call.do(lambda fleet: fleet.set_policy(ladder, rises, reason=reason))


@command(app)
def hold(
    call: FleetCall,
    ladder: LadderArgument,
    reason: RequiredReason,
    name: Annotated[str, typer.Option(help="Tells this hold from others on the ladder.")] = "hold",
    level: Annotated[
        str, typer.Option(help="The highest level allowed, or what it brings; where it stands if not given.")
    ] = "",
    until: Annotated[str, typer.Option(help="A date, or a span such as 12h or 30d; until released if not given.")] = "",
) -> None:
    """Keep a level from rising."""
    try:
        end = int(view().until(until, datetime.now(UTC)).timestamp() * 1000) if until else None
    except (ValueError, OverflowError) as error:
        raise InputError(f"{until!r} is no time", sides={"expected": "2026-12-01, 12h or 30d"}) from error
    highest = _level(call, f"{ladder}={level}")[1] if level else None
    call.do(lambda fleet: fleet.hold(ladder, reason, name=name, level=highest, until_ms=end))


@command(app)
def release(
    call: FleetCall,
    ladder: LadderArgument,
    name: Annotated[str, typer.Argument(help="The hold.")] = "hold",
    reason: ReasonOption = "",
) -> None:
    """End a hold."""
    call.do(lambda fleet: fleet.release(ladder, name, reason=reason))


@command(downgrade)
def validate(call: FleetCall, level: LevelArgument, feature: FeatureOption = "") -> None:
    """Show what letting a level fall would take. Exits 2 if something is in the way."""
    ladder, number = _level(call, level, feature)
    answer = call.ask(lambda fleet: fleet.plan_downgrade(ladder, number), view().downgrade_plan)
    raise typer.Exit(INCOMPATIBLE if answer.blockers else FINE)


@command(downgrade)
def start(call: FleetCall, level: LevelArgument, reason: RequiredReason, feature: FeatureOption = "") -> None:
    """Close the gates above a level, and wait for every member to follow."""
    ladder, number = _level(call, level, feature)
    call.do(lambda fleet: fleet.start_downgrade(ladder, number, reason))


@command(downgrade)
def clean(call: FleetCall, ladder: LadderArgument, reason: ReasonOption = "") -> None:
    """Pass the point of no return: tables are rewritten for the lower level."""
    call.do(lambda fleet: fleet.clean_downgrade(ladder, reason=reason))


@command(downgrade)
def finish(call: FleetCall, ladder: LadderArgument, reason: ReasonOption = "") -> None:
    """Let the level fall, everything having been cleaned."""
    call.do(lambda fleet: fleet.finish_downgrade(ladder, reason=reason))


@command(downgrade)
def cancel(call: FleetCall, ladder: LadderArgument, reason: ReasonOption = "") -> None:
    """Open the gates again, unless the point of no return is past."""
    call.do(lambda fleet: fleet.cancel_downgrade(ladder, reason=reason))


@command(downgrade)
def status(call: FleetCall) -> None:
    """Show the downgrades that are under way."""
    call.ask(lambda fleet: fleet.describe(), view().downgrades)


@command(ladders)
def declare(
    call: FleetCall, file: Annotated[Path, typer.Argument(help="TOML with name, level, policy and [[rung]]s.")]
) -> None:
    """Add a ladder of your own, or rungs on top of one."""
    ladder, level, policy = _read_ladder(file)
    call.do(lambda fleet: fleet.declare_ladder(ladder, level=level, policy=policy))


@command(ladders, "show")
def show_ladders(
    call: FleetCall, ladder: Annotated[str, typer.Argument(metavar="[LADDER]", help="Only this one.")] = ""
) -> None:
    """Show the levels of each ladder: what each brings, and which releases have it."""
    with call.client() as fleet:
        known = fleet.describe().ladders
    shown = [_ladder(ladder, known)] if ladder else known
    emit(call.output, view().ladder_facts(shown), *view().ladders(shown))


@command(member)
def remove(
    call: FleetCall,
    identity: Annotated[str, typer.Argument(help="The member.")],
    reason: RequiredReason,
    force: Annotated[bool, typer.Option("--force", help="Vouch that it no longer acts; do not wait.")] = False,
) -> None:
    """Take a member out; one that speaks counts until its lease has run out."""
    call.do(lambda fleet: fleet.remove_member(identity, reason, force=force))


@command(member, "declare")
def declare_member(
    call: FleetCall,
    identity: Annotated[str, typer.Argument(help="How to call it.")],
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="What it runs, e.g. trino@426.")],
    reads: Annotated[list[str] | None, typer.Option(metavar="TABLE", help="May be repeated.")] = None,
    writes: Annotated[list[str] | None, typer.Option(metavar="TABLE", help="May be repeated.")] = None,
    ladder: Annotated[str, typer.Option(help="The ladder that these tables are on.")] = "delta",
    unlisted: Annotated[
        bool, typer.Option("--unlisted", help="The release exists, though it is newer than those that are known.")
    ] = False,
) -> None:
    """Note a member that never calls. What its release supports is looked up."""
    from halocline.fleet.core.events import Observe
    from halocline.fleet.core.ladders import supported_by
    from halocline.fleet.core.state import Provenance, TableUse
    from halocline.storage.location import public_url

    operations = [op for op, tables in (("read", reads or not writes), ("write", writes)) if tables]
    uses = frozenset(
        TableUse(public_url(table), ladder, operation)
        for operation, tables in (("read", reads), ("write", writes))
        for table in tables or ()
    )
    role = "writer" if writes else "reader"
    supported = supported_by(release, operations)
    declared = Observe(identity, release, Provenance.DECLARED, "", None, supported, uses, role, unlisted)
    call.do(lambda fleet: fleet.observe(declared))


@app.command("export")
def export(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="Where to write it; standard output if not given.")] = None,
) -> None:
    """Write everything durable as JSON: a backup."""
    with FleetCall(context).client() as fleet:
        write(fleet.export(), file)


@command(app, "import")
def restore(
    call: FleetCall,
    file: Annotated[Path, typer.Argument(help="What `halocline fleet export` wrote.")],
    reason: RequiredReason,
) -> None:
    """Put a backup in the place of everything. No member may hold a lease meanwhile."""
    try:
        document = file.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from error
    call.ask(lambda fleet: fleet.restore(document, reason), lambda done: [f"imported, epoch {done.epoch}"])


def _level(call: FleetCall, text: str, feature: str = "") -> tuple[str, int]:
    """A level by its number, or by a feature that it brings, for which the fleet is asked."""
    ladder, found, named = text.partition("=")
    wanted = named or feature
    if not ladder or not wanted or (found and (feature or not named)):
        raise InputError(
            f"{text!r} is no level of a ladder",
            sides={"expected": "LADDER=LEVEL, e.g. hudi=8, or LADDER --feature NAME"},
        )
    if wanted.isdigit():
        return ladder, int(wanted)
    with call.client() as fleet:
        rungs = _ladder(ladder, fleet.describe().ladders).rungs
    brings = {name: rung.level for rung in rungs for name in view().features_of(ladder, rung)}
    by_name = {name.casefold(): level for name, level in brings.items()}
    if wanted.casefold() not in by_name:
        message, step = f"no level of {ladder} brings {wanted!r}", f"halocline fleet ladders show {ladder}"
        raise NotFoundError.unknown(message, wanted, brings, condition="FEATURE_UNKNOWN", next_step=step)
    return ladder, by_name[wanted.casefold()]


def _ladder(name: str, known: Sequence[LadderStatus]) -> LadderStatus:
    by_name = {each.ladder: each for each in known}
    if name not in by_name:
        raise NotFoundError.unknown(f"there is no ladder {name}", name, by_name)
    return by_name[name]


def _read_ladder(file: Path) -> tuple[Ladder, int | None, str]:
    """The ladder that a file describes, the level it begins at, and its policy."""
    from halocline.fleet.core.ladder import Ladder, LadderLevel, Rung

    try:
        described = tomllib.loads(file.read_text(encoding="utf-8"))
        rungs = tuple(
            Rung(
                each["level"],
                tuple(LadderLevel(*needed) for needed in each.get("requires", {}).items()),
                each.get("changes_data", False),
                frozenset(each.get("features", [])),
                tuple(each.get("provided_by", [])),
                each.get("summary", ""),
            )
            for each in described["rung"]
        )
        return Ladder(described["name"], rungs), described.get("level"), described.get("policy", "manual")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{file} does not describe a ladder: {error}",
            sides={"expected": "name = …, then [[rung]] tables with level, features, provided_by, summary"},
        ) from error

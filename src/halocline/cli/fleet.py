"""`halocline fleet`: where a fleet stands, who is in the way, and moving its levels up and down."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halocline.cli import explore as explorer
from halocline.cli.output import FINE, INCOMPATIBLE, Format, OutputOption, emit
from halocline.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from halocline.fleet.member.admin import AdminClient
    from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb

app = typer.Typer(name="fleet", help="Who is there, at which level, and what is in the way.", no_args_is_help=True)
downgrade = typer.Typer(name="downgrade", help="Let a level fall, phase by phase.", no_args_is_help=True)
ladders = typer.Typer(name="ladders", help="The ladders that the fleet stands on.", no_args_is_help=True)
member = typer.Typer(name="member", help="Declare or remove members by hand.", no_args_is_help=True)
for _group in (downgrade, ladders, member):
    app.add_typer(_group)
app.command("explore")(explorer.explore)

LevelArgument = Annotated[str, typer.Argument(metavar="LADDER=LEVEL", help="For example hudi=8.")]
LadderArgument = Annotated[str, typer.Argument(metavar="LADDER", help="For example hudi.")]
ReasonOption = Annotated[str, typer.Option(help="Why; lands in the audit log.")]


@app.callback()
def _fleet(
    context: typer.Context,
    at: Annotated[
        str | None, typer.Option("--at", envvar="HALOCLINE_FLEET", help="The fleet, e.g. grpc://127.0.0.1:7470.")
    ] = None,
    identity: Annotated[str, typer.Option(help="Who you are, for the audit log.")] = "",
) -> None:
    """Who is there, at which level, and what is in the way.

    A secret is taken from HALOCLINE_FLEET_SECRET; files for TLS from HALOCLINE_FLEET_CA, _CERT and _KEY.
    """
    context.obj = (at, identity)


@app.command()
def describe(context: typer.Context, output: OutputOption = Format.TEXT) -> None:
    """Show every ladder: level, settled level, members, and what is in the way of the next."""
    pb, view = _parts()
    _ask(context, output, "Describe", pb.DescribeRequest(), pb.DescribeResponse, view.describe)


@app.command()
def members(
    context: typer.Context,
    everybody: Annotated[bool, typer.Option("--all", help="Also everybody who was ever greeted, or refused.")] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Show who is there, with which release, and what each supports and uses."""
    pb, view = _parts()
    now = int(datetime.now(UTC).timestamp() * 1000)
    request = pb.MembersRequest(all=everybody)
    _ask(context, output, "Members", request, pb.MembersResponse, lambda answer: view.members(answer, now))


@app.command("who-blocks")
def who_blocks(
    context: typer.Context,
    feature: Annotated[str, typer.Argument(help="For example deletionVectors.")],
    output: OutputOption = Format.TEXT,
) -> None:
    """Show who keeps a feature from being used. Exits 2 if somebody does."""
    pb, view = _parts()
    request = pb.WhoBlocksRequest(feature=feature)
    answer = _ask(context, output, "WhoBlocks", request, pb.AffectedResponse, lambda a: view.affected(a, "blocks it"))
    raise typer.Exit(INCOMPATIBLE if answer.affected else FINE)


@app.command("who-breaks")
def who_breaks(
    context: typer.Context,
    remove: Annotated[str, typer.Option(metavar="FEATURE", help="A feature that the services would lose.")] = "",
    level: Annotated[str, typer.Option("--raise", metavar="LADDER=LEVEL", help="A level that would rise.")] = "",
    table: Annotated[str, typer.Option(metavar="TABLE", help="A table that would gain or lose features.")] = "",
    enable: Annotated[list[str] | None, typer.Option(help="With --table: a feature to be switched on.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="With --table: a feature to be taken out.")] = None,
    truncate_history: Annotated[bool, typer.Option(help="With --drop: old versions go rather than stay.")] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Show who would break if a feature went, a level rose, or a table changed. Exits 2 if somebody would."""
    pb, view = _parts()
    if sum(map(bool, (remove, level, table))) != 1 or bool(table) != bool(enable or drop):
        raise InputError("say one of --remove FEATURE, --raise LADDER=LEVEL, or --table TABLE with --enable or --drop")
    ladder, number = _level(level) if level else ("", 0)
    change = _table_change(table, enable or [], drop or [], truncate_history) if table else None
    request = pb.WhoBreaksRequest(remove=remove, ladder=ladder, level=number, change=change)
    answer = _ask(context, output, "WhoBreaks", request, pb.AffectedResponse, lambda a: view.affected(a, "would break"))
    raise typer.Exit(INCOMPATIBLE if answer.affected else FINE)


def _table_change(table: str, enable: list[str], drop: list[str], truncate_history: bool) -> pb.TableChange:
    from halocline.fleet.wire.messages import to_table_change
    from halocline.formats.delta.features.support import propose
    from halocline.formats.delta.log.header import read_header
    from halocline.storage import open_store
    from halocline.storage.location import Location

    store = open_store(table)
    proposal = propose(read_header(store), enable=enable, drop=drop, truncate_history=truncate_history)
    (after,) = proposal.ways.values()
    return to_table_change(Location.parse(store.root).url, proposal.now, after)


@app.command("raise")
def raise_level(
    context: typer.Context,
    level: LevelArgument,
    reason: ReasonOption = "",
    force: Annotated[
        bool, typer.Option("--force", help="Go over the heads of members that do not speak; needs a reason.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what is in the way.")] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Raise a level. Exits 2 if something is in the way."""
    pb, view = _parts()
    ladder, number = _level(level)
    if dry_run:
        request = pb.LevelRequest(ladder=ladder, level=number)
        answer = _ask(context, output, "PlanRaise", request, pb.Plan, lambda a: view.plan(a, "raise"))
        raise typer.Exit(INCOMPATIBLE if answer.blockers else FINE)
    _do(context, output, "Raise", pb.RaiseRequest(ladder=ladder, level=number, reason=reason, force=force))


class Rise(StrEnum):
    """What makes a level rise."""

    AUTO = "auto"
    MANUAL = "manual"


@app.command()
def policy(
    context: typer.Context,
    ladder: LadderArgument,
    rises: Annotated[Rise, typer.Argument(help="By itself when everybody can, or by hand.")],
    reason: ReasonOption = "",
    output: OutputOption = Format.TEXT,
) -> None:
    """Decide whether a level rises by itself."""
    pb, _ = _parts()
    _do(context, output, "SetPolicy", pb.SetPolicyRequest(ladder=ladder, policy=rises, reason=reason))


@app.command()
def hold(
    context: typer.Context,
    ladder: LadderArgument,
    reason: Annotated[str, typer.Option(help="Why; lands in the audit log.")],
    name: Annotated[str, typer.Option(help="Tells this hold from others on the ladder.")] = "hold",
    level: Annotated[int, typer.Option(help="The highest level allowed; where it stands if not given.")] = 0,
    until: Annotated[str, typer.Option(help="A date, or a span such as 12h or 30d; until released if not given.")] = "",
    output: OutputOption = Format.TEXT,
) -> None:
    """Keep a level from rising."""
    pb, view = _parts()
    try:
        end = int(view.until(until, datetime.now(UTC)).timestamp() * 1000) if until else 0
    except (ValueError, OverflowError) as error:
        raise InputError(f"{until!r} is no time", sides={"expected": "2026-12-01, 12h or 30d"}) from error
    request = pb.PlaceHoldRequest(ladder=ladder, name=name, reason=reason, level=level, until_ms=end)
    _do(context, output, "PlaceHold", request)


@app.command()
def release(
    context: typer.Context,
    ladder: LadderArgument,
    name: Annotated[str, typer.Argument(help="The hold.")] = "hold",
    reason: ReasonOption = "",
    output: OutputOption = Format.TEXT,
) -> None:
    """End a hold."""
    pb, _ = _parts()
    _do(context, output, "ReleaseHold", pb.ReleaseHoldRequest(ladder=ladder, name=name, reason=reason))


@downgrade.command()
def validate(context: typer.Context, level: LevelArgument, output: OutputOption = Format.TEXT) -> None:
    """Show what letting a level fall would take. Exits 2 if something is in the way."""
    pb, view = _parts()
    ladder, number = _level(level)
    request = pb.LevelRequest(ladder=ladder, level=number)
    answer = _ask(context, output, "PlanDowngrade", request, pb.Plan, lambda a: view.plan(a, "downgrade"))
    raise typer.Exit(INCOMPATIBLE if answer.blockers else FINE)


@downgrade.command()
def start(
    context: typer.Context,
    level: LevelArgument,
    reason: Annotated[str, typer.Option(help="Why; lands in the audit log.")],
    output: OutputOption = Format.TEXT,
) -> None:
    """Close the gates above a level, and wait for everybody to follow."""
    pb, _ = _parts()
    ladder, number = _level(level)
    _do(context, output, "StartDowngrade", pb.DowngradeRequest(ladder=ladder, target=number, reason=reason))


@downgrade.command()
def clean(
    context: typer.Context, ladder: LadderArgument, reason: ReasonOption = "", output: OutputOption = Format.TEXT
) -> None:
    """Pass the point of no return: tables are rewritten for the lower level."""
    pb, _ = _parts()
    _do(context, output, "CleanDowngrade", pb.DowngradeRequest(ladder=ladder, reason=reason))


@downgrade.command()
def finish(
    context: typer.Context, ladder: LadderArgument, reason: ReasonOption = "", output: OutputOption = Format.TEXT
) -> None:
    """Let the level fall, everything having been cleaned."""
    pb, _ = _parts()
    _do(context, output, "FinishDowngrade", pb.DowngradeRequest(ladder=ladder, reason=reason))


@downgrade.command()
def cancel(
    context: typer.Context, ladder: LadderArgument, reason: ReasonOption = "", output: OutputOption = Format.TEXT
) -> None:
    """Open the gates again, unless the point of no return is past."""
    pb, _ = _parts()
    _do(context, output, "CancelDowngrade", pb.DowngradeRequest(ladder=ladder, reason=reason))


@downgrade.command()
def status(context: typer.Context, output: OutputOption = Format.TEXT) -> None:
    """Show the downgrades that are under way."""
    pb, view = _parts()

    def shown(answer: Any) -> list[Any]:
        moving = [each for each in answer.ladders if each.HasField("downgrade")]
        return [line for each in moving for line in view.downgrade(each)] or ["no ladder is on its way down"]

    _ask(context, output, "Describe", pb.DescribeRequest(), pb.DescribeResponse, shown)


@ladders.command()
def declare(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="TOML with name, level, policy and [[rung]]s.")],
    output: OutputOption = Format.TEXT,
) -> None:
    """Add a ladder of your own, or rungs on top of one."""
    pb, _ = _parts()
    _do(context, output, "DeclareLadder", _ladder_request(pb, file))


@member.command()
def remove(
    context: typer.Context,
    identity: Annotated[str, typer.Argument(help="The member.")],
    reason: Annotated[str, typer.Option(help="Why; lands in the audit log.")],
    force: Annotated[bool, typer.Option("--force", help="Vouch that it no longer acts; do not wait.")] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Take a member out; one that speaks counts until its lease has run out."""
    pb, _ = _parts()
    _do(context, output, "RemoveMember", pb.RemoveMemberRequest(identity=identity, reason=reason, force=force))


@member.command("declare")
def declare_member(
    context: typer.Context,
    identity: Annotated[str, typer.Argument(help="How to call it.")],
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="What it runs, e.g. trino@426.")],
    reads: Annotated[list[str] | None, typer.Option(metavar="TABLE", help="May be repeated.")] = None,
    writes: Annotated[list[str] | None, typer.Option(metavar="TABLE", help="May be repeated.")] = None,
    ladder: Annotated[str, typer.Option(help="The ladder that these tables are on.")] = "delta",
    output: OutputOption = Format.TEXT,
) -> None:
    """Note somebody who never calls. What its release supports is looked up."""
    pb, _ = _parts()
    from halocline.fleet.core.ladders import supported_by
    from halocline.storage.location import Location

    operations = [op for op, tables in (("read", reads or not writes), ("write", writes)) if tables]
    supported = supported_by(release, operations)
    uses = [
        pb.TableUse(table=Location.parse(table).url, ladder=ladder, operation=operation)
        for operation, tables in (("read", reads), ("write", writes))
        for table in tables or ()
    ]
    request = pb.ObserveRequest(
        identity=identity,
        release=release,
        provenance="declared",
        supported={name: pb.LevelRange(lo=each.lo, hi=each.hi) for name, each in supported.items()},
        tables=uses,
        role="writer" if writes else "reader",
    )
    _do(context, output, "Observe", request)


@app.command()
def audit(
    context: typer.Context,
    actor: Annotated[str, typer.Option(help="Only what this one asked for.")] = "",
    action: Annotated[str, typer.Option(help="Only this kind, e.g. raise.")] = "",
    about: Annotated[str, typer.Option(help="Only about this, e.g. hudi=8.")] = "",
    refused: Annotated[bool, typer.Option("--refused", help="Only what was refused.")] = False,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 50,
    output: OutputOption = Format.TEXT,
) -> None:
    """Show what was decided, newest first."""
    pb, view = _parts()
    request = pb.AuditRequest(actor=actor, action=action, subject=about, refused_only=refused, limit=limit)
    _ask(context, output, "Audit", request, pb.AuditResponse, view.audit)


@app.command("export")
def export(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="Where to write it; standard output if not given.")] = None,
) -> None:
    """Write everything durable as JSON: a backup."""
    with _client(context) as client:
        document = client.export()
    if file is None:
        sys.stdout.write(document.decode() + "\n")
    else:
        file.write_bytes(document)
        typer.echo(f"{len(document):,} bytes written to {file}")


@app.command("import")
def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="What `halocline fleet export` wrote.")],
    reason: Annotated[str, typer.Option(help="Why; lands in the audit log.")],
    output: OutputOption = Format.TEXT,
) -> None:
    """Put a backup in the place of everything. Nobody may hold a lease meanwhile."""
    from halocline.fleet.wire.messages import plain

    try:
        document = file.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from error
    with _client(context) as client:
        answer = client.restore(document, reason)
    emit(output, plain(answer), f"imported, epoch {answer.epoch}")


def _parts() -> tuple[Any, Any]:
    """The messages and the views; imported late because other commands do without them."""
    try:
        from halocline.cli import fleet_view
        from halocline.fleet.wire.proto.v1 import fleet_pb2
    except ImportError as error:
        raise MissingExtraError("the fleet's client", "fleet") from error
    return fleet_pb2, fleet_view


def _client(context: typer.Context) -> AdminClient:
    _parts()
    from halocline.fleet.member.admin import AdminClient
    from halocline.fleet.wire.endpoint import Endpoint

    at, identity = context.obj
    return AdminClient(Endpoint.from_environment(at), identity)


def _ask(
    context: typer.Context, output: Format, call: str, request: Any, kind: Any, shown: Callable[[Any], list[Any]]
) -> Any:
    from halocline.fleet.wire.messages import plain

    with _client(context) as client:
        answer = client.ask(call, request, kind)
    emit(output, plain(answer), *shown(answer))
    return answer


def _do(context: typer.Context, output: Format, call: str, request: Any) -> None:
    from halocline.fleet.wire.messages import plain
    from halocline.fleet.wire.status import readable

    with _client(context) as client:
        answer = client.command(call, request)
    emit(output, plain(answer), *(map(readable, answer.decisions) if answer.decisions else ["nothing changed"]))


def _level(text: str) -> tuple[str, int]:
    ladder, found, level = text.partition("=")
    if not found or not level.isdigit() or not ladder:
        raise InputError(f"{text!r} is no level of a ladder", sides={"expected": "LADDER=LEVEL, e.g. hudi=8"})
    return ladder, int(level)


def _ladder_request(pb: Any, file: Path) -> Any:
    import tomllib

    try:
        said = tomllib.loads(file.read_text(encoding="utf-8"))
        rungs = [
            pb.Rung(
                level=each["level"],
                requires=[pb.Requirement(ladder=name, level=n) for name, n in each.get("requires", {}).items()],
                changes_data=each.get("changes_data", False),
                features=each.get("features", []),
                provided_by=each.get("provided_by", []),
                summary=each.get("summary", ""),
            )
            for each in said["rung"]
        ]
        return pb.DeclareLadderRequest(
            name=said["name"], rungs=rungs, level=said.get("level", 0), policy=said.get("policy", "manual")
        )
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{file} does not describe a ladder: {error}",
            sides={"expected": "name = …, then [[rung]] tables with level, features, provided_by, summary"},
        ) from error

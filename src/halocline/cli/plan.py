"""`halocline plan`: what must move, in what order, so that nobody is broken at any moment."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from halocline.cli.output import ERROR, FINE, OutputFormat, emit
from halocline.compat.release import Release
from halocline.errors import MalformedError, NotFoundError
from halocline.place_names import with_place_names

if TYPE_CHECKING:
    from halocline.plan.proposal import RolloutProposal

CHANGES: Final = 2
"""The exit code of a plan that has something to do."""


class PlanOutput(StrEnum):
    """How a plan is shown."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


class HistoryChoice(StrEnum):
    """What becomes of old versions that use a feature which is dropped."""

    KEEP = "keep"
    TRUNCATE = "truncate"


LakeArgument = Annotated[str, typer.Argument(help="A folder or URL with tables below it, a table, or a lake.toml.")]
FleetOption = Annotated[
    str, typer.Option("--fleet", envvar="HALOCLINE_FLEET", help="Ask this fleet who uses the tables, with what.")
]


def show(
    lake: LakeArgument,
    enable: Annotated[
        list[str] | None, typer.Option("--enable", help="A feature that Delta or index tables are to use.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option("--drop", help="A feature that Delta tables are to lose.")] = None,
    history: Annotated[
        HistoryChoice | None, typer.Option("--history", help="How to drop; both ways are compared if left out.")
    ] = None,
    table_version: Annotated[
        int, typer.Option("--table-version", help="The table version that Hudi tables are to have: 6, 8 or 9.")
    ] = 0,
    release: Annotated[
        list[str] | None, typer.Option("--release", help="What a product is to have, e.g. hudi@1.2.0.")
    ] = None,
    available: Annotated[
        list[str] | None,
        typer.Option("--available", help="A release that can be had; of other products, all that are known."),
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option("--select", help="Tables that it is about, e.g. 'sales.*'; all if left out.")
    ] = None,
    members: Annotated[str, typer.Option("--members", help="A members.toml: who uses the tables.")] = "",
    fleet: FleetOption = "",
    accept_unknown: Annotated[
        list[str] | None,
        typer.Option("--accept-unknown", help="A member that may stay although nothing is known of it."),
    ] = None,
    may_stop: Annotated[
        list[str] | None, typer.Option("--may-stop", help="A member that may stop for a while if nothing else helps.")
    ] = None,
    policy: Annotated[str, typer.Option("--policy", help="A policy.toml that the plan must keep to.")] = "",
    out: Annotated[str, typer.Option("--out", help="Keep the plan in this file, for halocline apply.")] = "",
    output: Annotated[
        PlanOutput, typer.Option("--output", "-o", help="Show the plan as text, JSON, Markdown or HTML.")
    ] = PlanOutput.TEXT,
) -> int:
    """Plan a rollout: waves of members and moves of tables in which nobody is broken at any moment.

    Nothing is changed. The exit code is 0 if there is nothing to do, 2 if there is, and 1 if there is no safe plan. An
    older plan in the file of --out goes in any case, unless it was begun: then it is what goes on with it, or back.
    """
    # Imported here: every command loads this module, and most plan nothing.
    from halocline.lake.lake import Lake
    from halocline.plan.core.plan import Plan
    from halocline.plan.policy import RolloutPolicy
    from halocline.plan.proposal import propose_rollout
    from halocline.plan.target import Target

    if out:
        _discard_older(out)
    target = Target(
        tuple(enable or ()),
        tuple(drop or ()),
        None if history is None else history is HistoryChoice.TRUNCATE,
        table_version,
        tuple(map(Release.parse, release or ())),
        tuple(select or ()),
    )
    with Console(stderr=True).status("Looking for tables …") as bar:
        proposals = propose_rollout(
            Lake.open(lake),
            target,
            members_file=members,
            fleet=fleet,
            available=tuple(map(Release.parse, available or ())),
            accepted=accept_unknown or (),
            may_stop=may_stop or (),
            progress=lambda count: bar.update(f"{count:,} tables read …"),
        )
    best = proposals[0]
    if isinstance(best.found, Plan):
        if policy:
            RolloutPolicy.read(policy).check(best.found)
        if out and not best.found.is_empty:
            best.gathered.saved(best.found).save(out)
    _show(output, proposals, out)
    if not isinstance(best.found, Plan):
        return ERROR
    return FINE if best.found.is_empty else CHANGES


def _discard_older(out: str) -> None:
    """Take away a plan that nobody has begun; one that was is needed to go on with it, and for the way back."""
    from halocline.plan.apply.journal import BEGUN, Journal
    from halocline.plan.file import SavedPlan

    try:
        saved = SavedPlan.read(out)
        begun = Journal.open(saved.lake, saved.plan.id).has(BEGUN)
    except (NotFoundError, MalformedError):
        begun = False
    if not begun:
        SavedPlan.discard(out)


def _show(output: PlanOutput, proposals: Sequence[RolloutProposal], out: str) -> None:
    from halocline.plan.core.plan import Plan
    from halocline.plan.explanation import explain
    from halocline.plan.rendering import to_html, to_markdown, to_text

    best = proposals[0]
    told = explain(best.found, users=best.gathered.rollout.users)
    if output is PlanOutput.JSON:
        found = best.found
        facts = best.gathered.saved(found).to_dict() if isinstance(found, Plan) else {}
        emit(
            OutputFormat.JSON,
            {
                **facts,
                "safe": isinstance(found, Plan),
                "summary": told.summary,
                "blockers": [] if isinstance(found, Plan) else [_facts(each) for each in found.blockers],
                "inTheWay": [] if isinstance(found, Plan) else [*found.members, *found.tables],
                "ways": [each.told for each in proposals if each.way],
                "leftOut": best.gathered.left_out,
            },
        )
        return
    render = {PlanOutput.MARKDOWN: to_markdown, PlanOutput.HTML: to_html}.get(output, to_text)
    sys.stdout.write(render(told) + "\n")
    if output is PlanOutput.TEXT:
        notes = [f"Ways: {each.told}." for each in proposals if len(proposals) > 1]
        notes += [
            f"Left out: {name}, {with_place_names(why)}" for name, why in sorted(best.gathered.left_out.items())[:5]
        ]
        if isinstance(best.found, Plan) and not best.found.is_empty:
            kept = f"Next: halocline apply {shlex.quote(str(out))}" if out else ""
            notes.append(kept or "Keep it with --out FILE, to apply exactly this.")
        sys.stdout.write("".join(f"{each}\n" for each in notes))


def _facts(trouble: object) -> dict[str, str]:
    """A trouble for programs."""
    return {name: str(getattr(trouble, name)) for name in ("member", "table", "verdict", "step")}

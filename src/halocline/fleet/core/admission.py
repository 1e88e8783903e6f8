"""Who may join a fleet, and who may go on.

One question in three parts, each with its own refusal: is the release one we can judge, is this life of the member a
new one, and do the fleet and the member provide what the other requires? The last is asked in both directions and by
exact sets: the fleet's level must be in the member's range, the member must have the features of that level, and the
fleet's services must have those that the member needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from halocline.fleet.core.effects import Refusal
from halocline.fleet.core.state import Fleet, MemberKey, Report, TableUse, known_release

REMOVED_STEP: Final = "See by whom and why with: halocline fleet audit --action remove. Start it again to come back."


def admissible(fleet: Fleet, report: Report) -> Refusal | None:
    """Why a report cannot be admitted to the fleet as it stands, or None."""
    return next(_objections(fleet, report), None)


def _objections(fleet: Fleet, report: Report) -> Iterator[Refusal]:
    yield from _unjudgeable(report)
    yield from _replayed(fleet, report)
    yield from _uncovered(fleet, report)
    yield from _featureless(fleet, report)
    yield from misused(fleet, report, report.tables)


def renewable(fleet: Fleet, key: MemberKey) -> Refusal | None:
    """Why the lease of this life cannot be prolonged, or None.

    Once it has expired, was removed or has been followed by another life, it never can.
    """
    member = fleet.members.get(key)
    latest = fleet.incarnations.get(key.identity, 0)
    older = member is not None and member.generation < fleet.generation
    if member is not None and not member.removed and not older and latest == key.incarnation:
        return None
    if older and latest == key.incarnation:
        return lost_life(fleet, key)
    if member is not None and member.removed:
        message, step = f"{key.identity} was removed by an operator", REMOVED_STEP
    elif latest > key.incarnation:
        message = f"another process joined as {key.identity}"
        step = "Give each process a name of its own, or stop the other one."
    else:
        message = f"{key.identity} is not a member, or no longer one"
        step = "Stop acting, then join again with a higher incarnation."
    sides = (("you are", str(key)), ("latest", str(latest or "none")))
    return Refusal("INCARNATION_ENDED", message, key.identity, sides, next_step=step)


def lost_life(fleet: Fleet, key: MemberKey) -> Refusal:
    """Return the refusal for a life that is from before the store was put back, or knows what came after that."""
    message = f"the fleet's store was put back to an earlier state, and this life of {key.identity} is from before that"
    step = "Stop acting, then join again with a higher incarnation."
    sides = (("you are", str(key)), ("latest", str(key.incarnation)), ("generation", str(fleet.generation)))
    return Refusal("INCARNATION_ENDED", message, key.identity, sides, next_step=step)


def misused(fleet: Fleet, report: Report, tables: Iterable[TableUse]) -> Iterator[Refusal]:
    """What is wrong with the tables that a member uses: each must be on a ladder, and at a level, in its range."""
    for use in sorted(tables):
        supported = report.supported.get(use.ladder)
        recorded = fleet.tables.get((use.table, use.ladder))
        if supported is None:
            yield Refusal(
                "VERSION_UNKNOWN",
                f"{report.identity} uses {use.table} but does not say which levels of {use.ladder} it supports",
                subject=use.ladder,
                sides=(("you support", _ranges(report)), ("table", f"{use.table} on ladder {use.ladder}")),
                next_step=f"Join again with a range for {use.ladder}.",
            )
        elif recorded is not None and recorded.level not in supported:
            yield _incompatible(fleet, report, use.ladder, recorded.level, f"table {use.table} is at")


def _unjudgeable(report: Report) -> Iterator[Refusal]:
    if known_release(report.release) is None:
        yield Refusal(
            "VERSION_UNKNOWN",
            f"{report.identity} does not say which version it runs",
            sides=(("you are", report.release or "nothing"), ("expected", "product@version, e.g. deltalake@1.6.6")),
            next_step="Report a released version; 0 and text without a number count as none.",
        )


def _replayed(fleet: Fleet, report: Report) -> Iterator[Refusal]:
    latest = fleet.incarnations.get(report.identity, 0)
    if not latest and report.incarnation <= fleet.floor:
        yield _forgotten(report, fleet.floor)
    known = fleet.members.get(report.key)
    again = known is not None and not known.removed and known.generation >= fleet.generation
    again = again and known is not None and _same(known.report, report)
    if report.incarnation < latest or (report.incarnation == latest and not again):
        yield replayed(report, latest)


def replayed(report: Report, latest: int) -> Refusal:
    """The refusal for a life that was here before, or is another's."""
    return Refusal(
        "INCARNATION_REPLAYED",
        f"{report.identity} was already here in incarnation {latest}",
        subject=report.identity,
        sides=(("you are", str(report.key)), ("latest", str(latest))),
        next_step=f"Join with an incarnation above {latest}; the process's start time will do.",
    )


def _forgotten(report: Report, floor: int) -> Refusal:
    """The refusal for a life that may have been here, among those that are no longer remembered one by one."""
    lowest = str(floor + 1)
    return Refusal(
        "INCARNATION_REPLAYED",
        f"incarnation {report.incarnation} of {report.identity} is older than what is remembered",
        subject=report.identity,
        sides=(("you are", str(report.key)), ("latest", str(report.incarnation)), ("lowest", lowest)),
        next_step=f"Join with incarnation {lowest} or higher; the process's start time will do.",
    )


def _same(known: Report, report: Report) -> bool:
    """Whether it is the same join sent again; the tables in use may have changed meanwhile."""
    return (known.release, known.supported, known.features) == (report.release, report.supported, report.features)


def _uncovered(fleet: Fleet, report: Report) -> Iterator[Refusal]:
    for ladder, supported in sorted(report.supported.items()):
        ladder_state = fleet.ladder_states.get(ladder)
        if ladder_state is None:
            continue
        if ladder_state.level not in supported:
            yield _incompatible(fleet, report, ladder, ladder_state.level, "the fleet is at")
        elif ladder_state.limit not in supported:
            yield _incompatible(fleet, report, ladder, ladder_state.limit, "the fleet is on its way down to")


def _incompatible(fleet: Fleet, report: Report, ladder: str, level: int, which: str) -> Refusal:
    fix = fix_for(fleet, report, ladder, level)
    return Refusal(
        "INCOMPATIBLE_VERSION",
        f"{which} level {level} of {ladder}, which {report.identity} does not support",
        subject=f"{ladder}={level}",
        sides=(("fleet", f"{ladder} {level}"), ("you are", f"{report.release}, which supports {_ranges(report)}")),
        fix=fix,
        next_step=f"Use {fix}." if fix else f"Use a release that supports level {level} of {ladder}.",
    )


def fix_for(fleet: Fleet, report: Report, ladder: str, level: int) -> str:
    """The release of the member's own product that supports the level, if one is known."""
    rung = fleet.ladders[ladder].rung(level) if ladder in fleet.ladders else None
    return rung.release_for(report.product) if rung else ""


def _featureless(fleet: Fleet, report: Report) -> Iterator[Refusal]:
    for ladder in sorted(report.supported.keys() & fleet.ladder_states.keys()):
        level = fleet.ladder_states[ladder].level
        for feature in sorted(fleet.ladders[ladder].features_at(level) - report.features):
            fix = fix_for(fleet, report, ladder, level)
            yield Refusal(
                "INCOMPATIBLE_VERSION",
                f"level {level} of {ladder} needs feature {feature}, which {report.identity} does not provide",
                subject=feature,
                sides=(("fleet", f"{ladder} {level}"), ("you are", f"{report.release} without {feature}")),
                fix=fix,
                next_step=f"Use {fix}." if fix else f"Use a release with {feature}.",
            )
    for feature in sorted(report.needs - fleet.terms.provides):
        yield Refusal(
            "INCOMPATIBLE_VERSION",
            f"{report.identity} needs feature {feature}, which this fleet does not provide",
            subject=feature,
            sides=(("fleet provides", ", ".join(sorted(fleet.terms.provides)) or "nothing"), ("you need", feature)),
            next_step=f"Upgrade the fleet's services to a release with {feature}, or use an older client.",
        )


def _ranges(report: Report) -> str:
    return ", ".join(f"{ladder} {levels}" for ladder, levels in sorted(report.supported.items())) or "nothing"

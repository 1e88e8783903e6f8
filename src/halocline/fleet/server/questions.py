"""What operators ask a fleet: where it stands, its members, what is in the way, which members would break.

Every answer is worked out from one state and changes nothing. Which members break when a table changes, and which keep
a feature of tables from being used, is decided by `halocline.compat.breaks`; whether a member provides a feature of a
ladder is known from its own report. If nothing is known of a member, it counts as in the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Final

from halocline.compat.breaks import breaks
from halocline.compat.features import FORMATS, features
from halocline.compat.terms import ProtocolChange, Terms, base
from halocline.compat.verdict import Verdict
from halocline.errors import NotFoundError
from halocline.fleet import answers
from halocline.fleet.core.downgrade import plan_downgrade
from halocline.fleet.core.ladder import LadderLevel
from halocline.fleet.core.ladder_state import Downgrade
from halocline.fleet.core.level import Blocker, BlockerKind, effective_policy, holds_on, plan_raise
from halocline.fleet.core.members import who_needs, who_uses
from halocline.fleet.core.state import Member, MemberKey, Provenance, State
from halocline.fleet.server.coordinator import Coordinator
from halocline.fleet.usage.users import client_of
from halocline.fleet.wire.handshake import Peer

_MEMBER_KINDS: Final = frozenset(
    {BlockerKind.TOO_OLD, BlockerKind.TOO_NEW, BlockerKind.UNKNOWN, BlockerKind.LACKS_FEATURE}
)


def describe(state: State, at: int, coordinator: Coordinator, server: Peer) -> answers.FleetStatus:
    """Where the fleet stands on every ladder, and what is in the way of the next level."""
    terms = state.fleet.terms
    return answers.FleetStatus(
        server=answers.ServerStatus(
            server.product, server.version, _features(server.provides), _features(server.requires)
        ),
        epoch=state.epoch,
        clock_ms=coordinator.clock.wall(),
        terms=answers.TermsStatus(terms.lease, terms.margin, terms.window, terms.development),
        ladders=tuple(_ladder(state, name, at) for name in sorted(state.fleet.ladder_states)),
        tables=tuple(each for _, each in sorted(state.fleet.tables.items())),
        coordinator=coordinator.address,
        store=coordinator.store.description,
        active_since_ms=coordinator.since,
    )


def _features(items: Mapping[str, int]) -> tuple[answers.FeatureLevel, ...]:
    return tuple(answers.FeatureLevel(name, level) for name, level in sorted(items.items()))


def _ladder(state: State, name: str, at: int) -> answers.LadderStatus:
    fleet = state.fleet
    ladder_state, ladder = fleet.ladder_states[name], fleet.ladders[name]
    following = ladder.above(ladder_state.level)
    blockers = plan_raise(state, name, following, at).blockers if following else ()
    running = ladder_state.downgrade
    return answers.LadderStatus(
        ladder=name,
        level=ladder_state.level,
        settled=ladder_state.settled,
        limit=ladder_state.limit,
        revision=ladder_state.revision,
        policy=effective_policy(fleet, name, at),
        levels=ladder.levels,
        next=following or 0,
        live=sum(1 for member in fleet.live(at) if member.uses(name)),
        blockers=_blockers(state, blockers, at),
        holds=tuple(
            answers.HoldStatus(hold.ladder, hold.name, hold.level, hold.until or 0, hold.reason, hold.actor)
            for hold in holds_on(fleet, name, at)
        ),
        downgrade=_downgrade(state, name, running, at) if running else None,
    )


def _downgrade(state: State, ladder: str, running: Downgrade, at: int) -> answers.DowngradeStatus:
    return answers.DowngradeStatus(
        running.target,
        running.phase,
        running.free,
        running.past_return,
        running.started,
        running.actor,
        running.reason,
        plan_downgrade(state, ladder, running.target, at).waiting,
    )


def _blockers(state: State, found: Iterable[Blocker], at: int) -> tuple[answers.BlockerStatus, ...]:
    """What is in the way, with how long a member that speaks can be silent before it no longer is."""
    left = {str(key): max(presence.until - at, 0) for key, presence in state.presences.items()}
    return tuple(
        answers.BlockerStatus(each.kind, each.who, each.text, each.fix, each.speaks, left.get(each.who, 0))
        for each in found
    )


def members(
    state: State, at: int, clients: Mapping[MemberKey, str], seen: Iterable[answers.SeenClient] = ()
) -> answers.FleetMembers:
    """The members that are registered, and on request every client that was ever greeted."""
    known = sorted(state.fleet.members.items())
    return answers.FleetMembers(
        tuple(member(state, key, each, at, clients.get(key, "")) for key, each in known), tuple(seen)
    )


def member(state: State, key: MemberKey, of: Member, at: int, client: str = "") -> answers.MemberStatus:
    """One member, with what its last heartbeat said."""
    report, presence = of.report, state.presences.get(key)
    said = {each.name: getattr(report, each.name) for each in fields(report)}
    return answers.MemberStatus(
        **said,
        provenance=of.provenance,
        since_ms=of.since,
        last_seen_ms=of.last_seen or 0,
        lease_left_ms=max(presence.until - at, 0) if presence else 0,
        views=presence.views if presence else {},
        removed=of.removed,
        live=of.live(at, state.fleet.terms.window),
        client=client,
    )


def table_users(state: State, table: str, at: int) -> answers.TableUsers:
    """The members that use a table, and the levels it requires."""
    users = who_uses(state, table, at)
    return answers.TableUsers(
        tuple(member(state, each.report.key, each, at) for each in users),
        tuple(each for key, each in sorted(state.fleet.tables.items()) if key[0] == table),
    )


def plan_to_raise(state: State, to: LadderLevel, at: int) -> answers.LevelPlan:
    """What raising a level would meet."""
    ladder, level = to
    plan = plan_raise(state, ladder, level, at)
    return answers.LevelPlan(ladder, plan.level, level, _blockers(state, plan.blockers, at), plan.checked)


def plan_to_downgrade(state: State, to: LadderLevel, at: int) -> answers.LevelPlan:
    """What letting a level fall would take."""
    ladder, level = to
    plan = plan_downgrade(state, ladder, level, at)
    blockers = _blockers(state, plan.blockers, at)
    return answers.LevelPlan(
        ladder, plan.level, level, blockers, free=plan.free, tables=plan.tables, waiting=plan.waiting
    )


# Who is affected.


def who_breaks_by_raise(state: State, ladder: str, level: int, at: int) -> answers.AffectedMembers:
    """The members that a level would leave behind."""
    plan = plan_raise(state, ladder, level, at)
    by_name = {str(key): each for key, each in state.fleet.members.items()}
    found = [
        _affected(by_name[each.who], each.text, each.fix, at, state, ladder)
        for each in plan.blockers
        if each.kind in _MEMBER_KINDS and each.who in by_name
    ]
    return answers.AffectedMembers(tuple(found), len(plan.checked))


def who_breaks_by_removal(
    state: State, feature: str, at: int, seen: Iterable[answers.SeenClient]
) -> answers.AffectedMembers:
    """The members, and the callers of the past, that require a feature of the services."""
    live = who_needs(state, feature, at)
    text = f"requires {feature}"
    found = [_affected(each, text, "a release that does without", at, state) for each in live]
    here = {each.report.identity for each in live}
    window = state.fleet.terms.window
    for each in seen:
        if each.identity not in here and feature in each.requires and each.last_ms + window > at:
            release = each.release or each.client
            fix = "a release that does without"
            found.append(answers.AffectedMember(each.identity, release, text, fix, Provenance.REPORTED, each.last_ms))
            here.add(each.identity)
    return answers.AffectedMembers(tuple(found), sum(1 for _ in state.fleet.live(at)))


def who_breaks_by_change(state: State, change: ProtocolChange, at: int) -> answers.AffectedMembers:
    """The live members that use a table and break when its terms change."""
    users = {str(each.report.key): each for each in who_uses(state, change.table, at)}
    broken = breaks(change.before, change.after, [client_of(each, table=change.table) for each in users.values()])
    found = [_affected_by(users[each.client.name], each.verdict, at, state) for each in broken]
    return answers.AffectedMembers(tuple(found), len(users))


def who_blocks(state: State, feature: str, at: int) -> answers.AffectedMembers:
    """The live members that keep a feature of a ladder, or of a table format in one of its modes, from being used."""
    formats = [name for name in FORMATS if base(feature) in features(name)]
    rungs = {
        name: rung
        for name, ladder in sorted(state.fleet.ladders.items())
        for rung in ladder.rungs
        if feature in rung.features
    }
    live = sorted(state.fleet.live(at), key=lambda each: each.report.key)
    if not formats and not rungs and not any(feature in each.report.features for each in live):
        raise NotFoundError(
            f"neither a ladder nor a table format nor a member knows the feature {feature[:100]!r}",
            sides={"ladders": ", ".join(sorted(state.fleet.ladders)) or "none", "formats": ", ".join(FORMATS)},
        )
    concerned = [each for each in live if (not formats and not rungs) or any(map(each.uses, (*formats, *rungs)))]
    by_table: dict[str, Verdict] = {}
    for name in formats:
        clients = [client_of(each, ladder=name) for each in concerned if each.uses(name)]
        by_table |= {each.client.name: each.verdict for each in breaks(None, Terms.using(name, [feature]), clients)}
    found = []
    for each in concerned:
        verdict = by_table.get(str(each.report.key))
        if verdict is not None:
            found.append(_affected_by(each, verdict, at, state))
        elif not any(map(each.uses, formats)) and feature not in each.report.features:
            rung = next((rung for name, rung in rungs.items() if each.uses(name)), None)
            release = rung.release_for(each.report.product) if rung is not None else None
            text = f"{each.report.release} does not provide {feature}"
            found.append(_affected(each, text, release or f"a release with {feature}", at, state))
    return answers.AffectedMembers(tuple(found), len(concerned))


def _affected_by(of: Member, verdict: Verdict, at: int, state: State) -> answers.AffectedMember:
    fix = "find out what it runs, or remove it" if verdict.unknown else "no release that does is known"
    return _affected(of, str(verdict), str(verdict.fix or fix), at, state)


def _affected(of: Member, text: str, fix: str, at: int, state: State, ladder: str = "") -> answers.AffectedMember:
    report = of.report
    return answers.AffectedMember(
        who=report.identity if of.speaks else str(report.key),
        release=report.release,
        text=text,
        fix=fix,
        provenance=of.provenance,
        last_seen_ms=of.last_seen or 0,
        tables=tuple(sorted(use for use in report.tables if not ladder or use.ladder == ladder)),
        live=of.live(at, state.fleet.terms.window),
    )

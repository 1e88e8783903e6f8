"""What people ask a fleet: where it stands, who is there, who is in the way, who would break.

Every answer is worked out from one state and changes nothing. Who breaks when a table changes, and who keeps a feature
of tables from being used, is decided by `halocline.compat.breaks`; whether a member provides a feature of a ladder is
known from its own report. If nothing is known of a member, it counts as in the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from halocline.compat.breaks import breaks
from halocline.compat.features import FORMATS, features
from halocline.compat.terms import Terms, base
from halocline.compat.verdict import Verdict
from halocline.errors import NotFoundError
from halocline.fleet.core.downgrade import plan_downgrade
from halocline.fleet.core.ladder_state import Hold
from halocline.fleet.core.level import Blocker, BlockerKind, effective_policy, holds_on, plan_raise
from halocline.fleet.core.members import who_needs, who_uses
from halocline.fleet.core.state import Member, MemberKey, State, TableLevel, TableUse
from halocline.fleet.store import Seen
from halocline.fleet.usage.users import client_of
from halocline.fleet.wire import messages
from halocline.fleet.wire.handshake import Peer
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb

_MEMBER_KINDS: Final = frozenset(
    {BlockerKind.TOO_OLD, BlockerKind.TOO_NEW, BlockerKind.UNKNOWN, BlockerKind.LACKS_FEATURE}
)


@dataclass(frozen=True, slots=True)
class Place:
    """Who answers: facts that are not in the state."""

    server: Peer
    coordinator: str
    store: str
    since: int
    wall: int


def describe(state: State, at: int, place: Place) -> pb.DescribeResponse:
    """Where the fleet stands on every ladder, and what is in the way of the next level."""
    terms = state.fleet.terms
    return pb.DescribeResponse(
        server=messages.to_peer(place.server),
        epoch=state.epoch,
        clock_ms=place.wall,
        terms=pb.Terms(
            lease_ms=terms.lease, margin_ms=terms.margin, window_ms=terms.window, development=terms.development
        ),
        ladders=[_ladder(state, name, at) for name in sorted(state.fleet.ladder_states)],
        tables=[_table(each) for _, each in sorted(state.fleet.tables.items())],
        coordinator=place.coordinator,
        store=place.store,
        active_since_ms=place.since,
    )


def _ladder(state: State, name: str, at: int) -> pb.LadderStatus:
    fleet = state.fleet
    ladder_state, ladder = fleet.ladder_states[name], fleet.ladders[name]
    following = ladder.above(ladder_state.level)
    blockers = plan_raise(state, name, following, at).blockers if following else ()
    downgrade = None
    if ladder_state.downgrade:
        running = ladder_state.downgrade
        downgrade = pb.Downgrade(
            target=running.target,
            phase=running.phase,
            free=running.free,
            past_return=running.past_return,
            started_ms=running.started,
            actor=running.actor,
            reason=running.reason,
            waiting=plan_downgrade(state, name, running.target, at).waiting,
        )
    return pb.LadderStatus(
        ladder=name,
        level=ladder_state.level,
        settled=ladder_state.settled,
        limit=ladder_state.limit,
        revision=ladder_state.revision,
        policy=effective_policy(fleet, name, at),
        levels=ladder.levels,
        next=following or 0,
        live=sum(1 for member in fleet.live(at) if member.uses(name)),
        blockers=[blocker(state, each, at) for each in blockers],
        holds=[_hold(each) for each in holds_on(fleet, name, at)],
        downgrade=downgrade,
    )


def blocker(state: State, of: Blocker, at: int) -> pb.Blocker:
    """Something in the way, with how long a member that speaks can be silent before it no longer is."""
    left = next((each.until - at for key, each in state.presences.items() if str(key) == of.who), 0)
    return pb.Blocker(kind=of.kind, who=of.who, text=of.text, fix=of.fix, speaks=of.speaks, lease_left_ms=max(left, 0))


def _hold(of: Hold) -> pb.Hold:
    return pb.Hold(
        ladder=of.ladder, name=of.name, level=of.level, until_ms=of.until or 0, reason=of.reason, actor=of.actor
    )


def _table(of: TableLevel) -> pb.TableLevel:
    return pb.TableLevel(table=of.table, ladder=of.ladder, level=of.level, since_ms=of.since)


def members(state: State, at: int, clients: dict[MemberKey, str], seen: Iterable[Seen] = ()) -> pb.MembersResponse:
    """Everybody who is registered, and on request everybody who was ever greeted."""
    known = sorted(state.fleet.members.items())
    return pb.MembersResponse(
        members=[member(state, key, each, at, clients.get(key, "")) for key, each in known],
        sightings=[
            pb.Sighting(
                identity=each.last.identity,
                client=each.last.client,
                release=each.last.release,
                role=each.last.role,
                outcome=each.last.outcome,
                first_ms=each.first_ms,
                last_ms=each.last.at_ms,
                times=each.times,
                requires=each.last.requires,
            )
            for each in seen
        ],
    )


def member(state: State, key: MemberKey, of: Member, at: int, client: str = "") -> pb.Member:
    """One member, with what its last heartbeat said."""
    report, presence = of.report, state.presences.get(key)
    return pb.Member(
        identity=report.identity,
        incarnation=report.incarnation,
        release=report.release,
        role=report.role,
        provenance=of.provenance,
        supported=messages.to_ranges(report.supported),
        features=sorted(report.features),
        needs=sorted(report.needs),
        development=report.development,
        tables=messages.to_table_uses(report.tables),
        since_ms=of.since,
        last_seen_ms=of.last_seen or 0,
        lease_left_ms=max(presence.until - at, 0) if presence else 0,
        views=messages.to_views(presence.views) if presence else {},
        removed=of.removed,
        live=of.live(at, state.fleet.terms.window),
        client=client,
    )


def table_users(state: State, table: str, at: int) -> pb.TableUsersResponse:
    """Who uses a table, and the levels it requires."""
    users = who_uses(state, table, at)
    return pb.TableUsersResponse(
        members=[member(state, each.report.key, each, at) for each in users],
        levels=[_table(each) for key, each in sorted(state.fleet.tables.items()) if key[0] == table],
    )


def plan_to_raise(state: State, ladder: str, level: int, at: int) -> pb.Plan:
    """What raising a level would meet."""
    plan = plan_raise(state, ladder, level, at)
    return pb.Plan(
        ladder=ladder,
        level=plan.level,
        target=level,
        blockers=[blocker(state, each, at) for each in plan.blockers],
        checked=plan.checked,
    )


def plan_to_downgrade(state: State, ladder: str, level: int, at: int) -> pb.Plan:
    """What letting a level fall would take."""
    plan = plan_downgrade(state, ladder, level, at)
    return pb.Plan(
        ladder=ladder,
        level=plan.level,
        target=level,
        blockers=[blocker(state, each, at) for each in plan.blockers],
        free=plan.free,
        tables=[_table(each) for each in plan.tables],
        waiting=plan.waiting,
    )


# Who is affected.


def who_breaks_by_raise(state: State, ladder: str, level: int, at: int) -> pb.AffectedResponse:
    """The members that a level would leave behind."""
    plan = plan_raise(state, ladder, level, at)
    by_name = {str(key): each for key, each in state.fleet.members.items()}
    found = [
        _affected(by_name[each.who], each.text, each.fix, at, state, ladder)
        for each in plan.blockers
        if each.kind in _MEMBER_KINDS and each.who in by_name
    ]
    return pb.AffectedResponse(affected=found, checked=len(plan.checked))


def who_breaks_by_removal(state: State, feature: str, at: int, seen: Iterable[Seen]) -> pb.AffectedResponse:
    """The members, and the callers of the past, that require a feature of the services."""
    live = who_needs(state, feature, at)
    text = f"requires {feature}"
    found = [_affected(each, text, "a release that does without", at, state) for each in live]
    here = {each.report.identity for each in live}
    window = state.fleet.terms.window
    for each in seen:
        last = each.last
        if last.identity not in here and feature in last.requires and last.at_ms + window > at:
            found.append(
                pb.Affected(
                    who=last.identity,
                    release=last.release or last.client,
                    text=text,
                    fix="a release that does without",
                    provenance="reported",
                    last_seen_ms=last.at_ms,
                )
            )
            here.add(last.identity)
    return pb.AffectedResponse(affected=found, checked=sum(1 for _ in state.fleet.live(at)))


def who_breaks_by_change(state: State, table: str, before: Terms | None, after: Terms, at: int) -> pb.AffectedResponse:
    """The live members that use a table and break when its terms change."""
    users = {str(each.report.key): each for each in who_uses(state, table, at)}
    broken = breaks(before, after, [client_of(each, table=table) for each in users.values()])
    found = [_affected_by(users[each.client.name], each.verdict, at, state) for each in broken]
    return pb.AffectedResponse(affected=found, checked=len(users))


def who_blocks(state: State, feature: str, at: int) -> pb.AffectedResponse:
    """The live members that keep a feature from being used.

    Args:
        state: The fleet.
        feature: A feature of a ladder or of a table format, there also in one of its modes: `columnMapping:id`.
        at: When.

    Raises:
        NotFoundError: Nobody has ever heard of the feature.
    """
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
    return pb.AffectedResponse(affected=found, checked=len(concerned))


def _affected_by(of: Member, verdict: Verdict, at: int, state: State) -> pb.Affected:
    fix = "find out what it runs, or remove it" if verdict.unknown else "no release that does is known"
    return _affected(of, str(verdict), str(verdict.fix or fix), at, state)


def _affected(of: Member, text: str, fix: str, at: int, state: State, ladder: str = "") -> pb.Affected:
    report = of.report
    tables: Iterator[TableUse] = (use for use in report.tables if not ladder or use.ladder == ladder)
    return pb.Affected(
        who=str(report.key) if not of.speaks else report.identity,
        release=report.release,
        text=text,
        fix=fix,
        provenance=of.provenance,
        last_seen_ms=of.last_seen or 0,
        tables=messages.to_table_uses(tables),
        live=of.live(at, state.fleet.terms.window),
    )

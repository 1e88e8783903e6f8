"""What operators ask a fleet: where it stands, its members, what is in the way, which members would break.

Every answer is worked out from one state and changes nothing. Which members break when a table changes, and which keep
a feature of tables from being used, is decided by `halocline.compat.breaks`; whether a member provides a feature of a
ladder is known from its own report. If nothing is known of a member, it counts as in the way.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from heapq import nsmallest
from itertools import islice
from typing import Final, TypeVar

from halocline.compat.breaks import Client, breaks
from halocline.compat.features import FORMATS, features
from halocline.compat.terms import Terms, base
from halocline.compat.verdict import Verdict
from halocline.errors import NotFoundError
from halocline.fleet import answers
from halocline.fleet.core.downgrade import plan_downgrade
from halocline.fleet.core.ladder import LadderLevel, Rung
from halocline.fleet.core.ladder_state import Downgrade
from halocline.fleet.core.level import Blocker, effective_policy, holds_on, objecting, objections, plan_raise
from halocline.fleet.core.members import who_uses
from halocline.fleet.core.state import Member, MemberKey, Provenance, State
from halocline.fleet.server.coordinator import Coordinator
from halocline.fleet.usage.users import client_of
from halocline.fleet.wire.handshake import Peer

_MOST_TABLES: Final = 20
"""Of a member that is affected, so many of its tables are named."""
_MOST_LEVELS: Final = 1_000
_T = TypeVar("_T")


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
        tables=tuple(state.fleet.tables[key] for key in nsmallest(_MOST_LEVELS, state.fleet.tables)),
        coordinator=coordinator.address,
        store=coordinator.store.description,
        active_since_ms=coordinator.since,
        generation=state.fleet.generation,
    )


def _features(items: Mapping[str, int]) -> tuple[answers.FeatureLevel, ...]:
    return tuple(answers.FeatureLevel(name, level) for name, level in sorted(items.items()))


def _ladder(state: State, name: str, at: int) -> answers.LadderStatus:
    fleet = state.fleet
    ladder_state, ladder = fleet.ladder_states[name], fleet.ladders[name]
    following = ladder.above(ladder_state.level)
    plan = plan_raise(state, name, following, at) if following else None
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
        live=plan.asked if plan else sum(1 for member in fleet.live(at) if member.uses(name)),
        blockers=_blockers(state, plan.blockers, at) if plan else (),
        holds=tuple(
            answers.HoldStatus(hold.ladder, hold.name, hold.level, hold.until or 0, hold.reason, hold.actor)
            for hold in holds_on(fleet, name, at)
        ),
        downgrade=_downgrade(state, name, running, at) if running else None,
        blocking=plan.blocking if plan else 0,
        rungs=tuple(map(_rung, ladder.rungs)),
    )


def _rung(rung: Rung) -> answers.RungStatus:
    requires = tuple(answers.Requirement(*each) for each in rung.requires)
    return answers.RungStatus(rung.level, requires, rung.changes_data, rung.features, rung.provided_by, rung.summary)


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

    def left(who: str) -> int:
        presence = state.presences.get(MemberKey.parse(who))
        return max(presence.until - at, 0) if presence else 0

    return tuple(
        answers.BlockerStatus(each.kind, each.who, each.text, each.fix, each.speaks, left(each.who)) for each in found
    )


def plan_to_raise(state: State, to: LadderLevel, at: int) -> answers.LevelPlan:
    """What raising a level would meet."""
    plan = plan_raise(state, *to, at)
    blockers = _blockers(state, plan.blockers, at)
    return answers.LevelPlan(
        to.ladder, plan.level, to.level, blockers, plan.checked, blocking=plan.blocking, asked=plan.asked
    )


def plan_to_downgrade(state: State, to: LadderLevel, at: int) -> answers.LevelPlan:
    """What letting a level fall would take."""
    plan = plan_downgrade(state, *to, at)
    return answers.LevelPlan(
        to.ladder,
        plan.level,
        to.level,
        _blockers(state, plan.blockers, at),
        free=plan.free,
        tables=plan.tables,
        waiting=plan.waiting,
        blocking=len(plan.blockers),
        asked=plan.awaited,
    )


def member(state: State, key: MemberKey, of: Member, at: int, client: str = "") -> answers.MemberStatus:
    """One member, with what its last heartbeat said."""
    report, presence = of.report, state.presences.get(key)
    said = {each.name: getattr(report, each.name) for each in fields(report)}
    views = presence.views if presence else {}
    return answers.MemberStatus(
        **said,
        provenance=of.provenance,
        since_ms=of.since,
        last_seen_ms=of.last_seen or 0,
        lease_left_ms=max(presence.until - at, 0) if presence else 0,
        views={name: answers.ViewStatus(view.revision, view.level) for name, view in views.items()},
        removed=of.removed,
        live=of.live(at, state.fleet.terms.window),
        client=client,
        seen_as=of.seen_as,
    )


def table_users(state: State, table: str, at: int) -> answers.TableUsers:
    """The members that use a table, with what they do to this one, and the levels it requires."""
    users = []
    for each in who_uses(state, table, at):
        used = frozenset(use for use in each.report.tables if use.table == table)
        users.append(replace(member(state, each.report.key, each, at), tables=used))
    levels = (state.fleet.tables.get((table, ladder)) for ladder in sorted(state.fleet.ladders))
    return answers.TableUsers(tuple(users), tuple(each for each in levels if each is not None))


# Long answers, page by page, in the order of the members' keys.


def members(state: State, page: answers.Page, at: int, clients: Mapping[MemberKey, str]) -> answers.FleetMembers:
    """The members that are registered."""
    known = state.fleet.members
    found, following = _paged(((key, known[key]) for key in _keys(state, page)), page)
    shown = (member(state, key, each, at, clients.get(key, "")) for key, each in found)
    return answers.FleetMembers(tuple(shown), next=following)


def who_breaks_by_raise(state: State, query: answers.BreakQuery, at: int) -> answers.AffectedMembers:
    """The members that a level would leave behind."""
    fleet, ladder, level = state.fleet, query.ladder, query.level
    known = (fleet.members[key] for key in _keys(state, query))
    broken = ((each.report.key, each) for each in objecting(fleet, known, ladder, level, at))
    found, following = _paged(broken, query)
    affected = tuple(
        _affected(each, why.text, why.fix, at, state, ladder)
        for _, each in found
        for why in objections(fleet, each, ladder, level)
    )
    checked = sum(1 for each in fleet.live(at) if each.uses(ladder))
    return answers.AffectedMembers(affected, checked, following)


def who_breaks_by_removal(
    state: State, query: answers.BreakQuery, at: int, seen: Iterable[answers.SeenClient]
) -> answers.AffectedMembers:
    """The members, and the callers of the past, that require a feature of the services."""
    text, fix = f"requires {query.remove}", "a release that does without"
    needing = [each for each in state.fleet.live(at) if query.remove in each.report.needs]
    found = {each.report.key: _affected(each, text, fix, at, state) for each in needing}
    here = {key.identity for key in found}
    for each in seen:
        if each.identity not in here:
            release = each.release or each.client
            past = answers.AffectedMember(each.identity, release, text, fix, Provenance.REPORTED, each.last_ms)
            found[MemberKey(each.identity, 0)] = past
    after = MemberKey.parse(query.after)
    ordered = ((key, each) for key, each in sorted(found.items(), key=lambda item: item[0]) if key > after)
    shown, following = _paged(ordered, query)
    return answers.AffectedMembers(tuple(each for _, each in shown), sum(1 for _ in state.fleet.live(at)), following)


def who_breaks_by_change(state: State, query: answers.BreakQuery, at: int) -> answers.AffectedMembers:
    """The live members that use a table and break when its terms change."""
    change, after = query.change, MemberKey.parse(query.after)
    assert change is not None
    users = who_uses(state, change.table, at)
    judge = _Judge(change.before, change.after)
    judged = (
        (each, judge(client_of(each, table=change.table)))
        for each in users
        if not query.after or each.report.key > after
    )
    broken = ((each.report.key, (each, verdict)) for each, verdict in judged if verdict is not None)
    found, following = _paged(broken, query)
    return answers.AffectedMembers(
        tuple(_affected_by(each, verdict, at, state) for _, (each, verdict) in found), len(users), following
    )


def who_blocks(state: State, query: answers.BlockQuery, at: int) -> answers.AffectedMembers:
    """The live members that keep a feature of a ladder, or of a table format in one of its modes, from being used."""
    feature, fleet = query.feature, state.fleet
    formats = [name for name in FORMATS if base(feature) in features(name)]
    rungs = {
        name: rung
        for name, ladder in sorted(fleet.ladders.items())
        for rung in ladder.rungs
        if feature in rung.features
    }
    if not formats and not rungs and not any(feature in each.report.features for each in fleet.live(at)):
        raise NotFoundError(
            f"neither a ladder nor a table format nor a member knows the feature {feature[:100]!r}",
            sides={"ladders": ", ".join(sorted(fleet.ladders)) or "none", "formats": ", ".join(FORMATS)},
        )
    places = (*formats, *rungs)
    judges = {name: _Judge(None, Terms.using(name, [feature])) for name in formats}

    def blocking() -> Iterator[tuple[MemberKey, answers.AffectedMember]]:
        for key in _keys(state, query):
            each = fleet.members[key]
            if not each.live(at, fleet.terms.window) or (places and not any(map(each.uses, places))):
                continue
            used = [name for name in formats if each.uses(name)]
            verdicts = (judges[name](client_of(each, ladder=name)) for name in used)
            verdict = next((found for found in verdicts if found is not None), None)
            if verdict is not None:
                yield key, _affected_by(each, verdict, at, state)
            elif not used and feature not in each.report.features:
                rung = next((rung for name, rung in rungs.items() if each.uses(name)), None)
                release = rung.release_for(each.report.product) if rung is not None else None
                text = f"{each.report.release} does not provide {feature}"
                yield key, _affected(each, text, release or f"a release with {feature}", at, state)

    found, following = _paged(blocking(), query)
    checked = sum(1 for each in fleet.live(at) if not places or any(map(each.uses, places)))
    return answers.AffectedMembers(tuple(each for _, each in found), checked, following)


def _keys(state: State, page: answers.Page) -> list[MemberKey]:
    """The keys of the members on this page and after it."""
    keys = sorted(state.fleet.members)
    return keys[bisect_right(keys, MemberKey.parse(page.after)) :] if page.after else keys


def _paged(items: Iterable[tuple[MemberKey, _T]], page: answers.Page) -> tuple[list[tuple[MemberKey, _T]], str]:
    """As many as fit on a page, and where the next one begins; nothing if this is the last."""
    found = list(islice(items, page.size + 1))
    more = len(found) > page.size
    shown = found[: page.size]
    return shown, str(shown[-1][0]) if more else ""


class _Judge:
    """Which clients break when terms change. A fleet of thousands runs few releases, so each is judged once."""

    def __init__(self, before: Terms | None, after: Terms) -> None:
        self._terms = (before, after)
        self._known: dict[Client, Verdict | None] = {}

    def __call__(self, client: Client) -> Verdict | None:
        alike = replace(client, name="", known_from="", last_ms=None)
        if alike not in self._known:
            broken = breaks(*self._terms, [alike])
            self._known[alike] = broken[0].verdict if broken else None
        return self._known[alike]


def _affected_by(of: Member, verdict: Verdict, at: int, state: State) -> answers.AffectedMember:
    fix = "find out what it runs, or remove it" if verdict.unknown else "no release that does is known"
    return _affected(of, str(verdict), str(verdict.fix or fix), at, state)


def _affected(of: Member, text: str, fix: str, at: int, state: State, ladder: str = "") -> answers.AffectedMember:
    report = of.report
    used = (use for use in report.tables if not ladder or use.ladder == ladder)
    return answers.AffectedMember(
        who=report.identity if of.speaks else str(report.key),
        release=report.release,
        text=text,
        fix=fix,
        provenance=of.provenance,
        last_seen_ms=of.last_seen or 0,
        tables=tuple(nsmallest(_MOST_TABLES, used)),
        live=of.live(at, state.fleet.terms.window),
    )

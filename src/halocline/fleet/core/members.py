"""Members come, stay, go, and are seen.

A member that speaks is registered by its key until it leaves, is forgotten by force, or a tick finds its lease run out.
Every life of it counts by itself: a new one does not make the old one harmless, which may still be acting. A lease that
has run out but was not yet acted upon can be renewed, since no other member has been told that it is gone; once a tick
has ended it, it cannot.

A member that does not speak has one record under its identity. It counts while it was seen recently, and one that was
declared until an operator removes it. What an operator declared outranks what is observed: a trace adds the tables that
it shows, and where it shows another release than the declared one the two *contradict* each other. Both are then shown,
the log says so, and no level rises over that member until an operator declares anew what it runs, or removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from heapq import nsmallest
from typing import Final

from halocline.errors import shortened
from halocline.fleet.core.admission import REMOVED_STEP, lost_life, misused, replayed
from halocline.fleet.core.draft import Draft
from halocline.fleet.core.effects import Admit, Refusal, Refuse, RefusedError, Renew
from halocline.fleet.core.events import Heartbeat, Join, Leave, Observe, RemoveMember
from halocline.fleet.core.history import lost_generation, newest_lost
from halocline.fleet.core.ladder_state import UNHEARD, View
from halocline.fleet.core.state import (
    MOST_LIVES,
    MOST_SILENT,
    MOST_USES,
    Member,
    MemberKey,
    Presence,
    Provenance,
    Report,
    State,
    known_release,
    written,
)

MOST_SWEPT: Final = 5_000
"""Records that one sweep forgets, so that it takes no longer than other steps."""
AHEAD: Final = 10 * 60_000
"""By how much a clock that saw a member may be ahead of ours."""
UNKNOWN_PRODUCT: Final = "unknown"
"""What a trace names that does not know which product it is from."""
_FEW: Final = 5
_CLOCK_STEP: Final = "Set the clock of the machine that saw it, for example with NTP."


def join(draft: Draft, message: Join) -> None:
    """Admits a member, or says why not."""
    report = message.report
    if draft.rules.foreign(draft.fleet, message.views):
        _notice_restore(draft, report.identity, message.views)
        # It has to begin another life: what this one heard counts for nothing here.
        draft.refuse(report.identity, "join", replayed(report, report.incarnation), report.incarnation)
        return
    refusal = draft.rules.admissible(draft.fleet, report)
    if refusal is not None:
        draft.refuse(report.identity, "join", refusal, report.incarnation)
        return
    key = report.key
    known = draft.fleet.members.get(key)
    if known is not None and known.credential != message.credential:
        draft.refuse(report.identity, "join", replayed(report, report.incarnation), report.incarnation)
        return
    if key not in draft.fleet.members:
        _register(draft, report, message.credential)
    elif report.tables != draft.fleet.members[key].report.tables:
        draft.put("members", key, replace(draft.fleet.members[key], report=report))
    # A join that is sent again says nothing about what the member has heard: the first answer may still be on its way.
    _renew(draft, key, draft.presence(key))
    epoch, lease, ladder_states = draft.state.epoch, draft.fleet.terms.lease, draft.fleet.announcements()
    draft.add(Admit(report.identity, report.incarnation, message.sent, epoch, lease, ladder_states))


def _register(draft: Draft, report: Report, credential: str) -> None:
    for replaced in draft.rules.replaces(draft.fleet, report):
        _forget(draft, replaced)
    ladder_states = draft.fleet.ladder_states
    admitted = {
        ladder: ladder_states[ladder].announced(ladder).view for ladder in report.supported if ladder in ladder_states
    }
    generation = draft.fleet.generation
    member = Member(
        report, Provenance.REPORTED, draft.at, admitted=admitted, credential=credential, generation=generation
    )
    draft.put("members", report.key, member)
    draft.put("incarnations", report.identity, report.incarnation)
    draft.audit(report.identity, "join", str(report.key), f"{report.release} as {report.role}")


def heartbeat(draft: Draft, message: Heartbeat) -> None:
    """Renews a lease and learns what the member acts under."""
    key = message.key
    refusal = draft.rules.renewable(draft.fleet, key)
    member = draft.fleet.members.get(key)
    if draft.rules.foreign(draft.fleet, message.views):
        _notice_restore(draft, message.identity, message.views)
        refusal = refusal or lost_life(draft.fleet, key)
    if refusal is None and member is not None and message.tables is not None:
        refusal = next(misused(draft.fleet, member.report, message.tables), None)
    if refusal is not None or member is None:
        if refusal is not None:
            draft.add(Refuse(message.identity, refusal, message.incarnation))
        return
    presence = draft.presence(key)
    if message.seq <= presence.seq:
        return
    if message.tables is not None and message.tables != member.report.tables:
        draft.put("members", key, replace(member, report=replace(member.report, tables=message.tables)))
    ladder_states = draft.fleet.ladder_states
    views = dict(presence.views)
    for ladder, view in message.views.items():
        known = views.get(ladder, UNHEARD)
        if ladder in ladder_states and known.revision < view.revision <= ladder_states[ladder].revision:
            views[ladder] = view
    _renew(draft, key, replace(presence, seq=message.seq, views=views))
    lagging = tuple(
        ladder_states[ladder].announced(ladder)
        for ladder in member.report.supported
        if ladder in ladder_states and message.views.get(ladder, UNHEARD).revision < ladder_states[ladder].revision
    )
    epoch, lease = draft.state.epoch, draft.fleet.terms.lease
    draft.add(Renew(message.identity, message.incarnation, message.seq, message.sent, epoch, lease, lagging))


def _notice_restore(draft: Draft, identity: str, views: Mapping[str, View]) -> None:
    """Raises the generation if what a member knows proves that the store was put back: all members join anew.

    Every ladder gets a revision that is newer than what was lost, so that whoever is connected hears at once where the
    fleet stands now.
    """
    lost = lost_generation(draft.fleet, views)
    if lost is None:
        return
    draft.put("generation", (), lost + 1)
    for ladder, state in list(draft.fleet.ladder_states.items()):
        newest = max(state.revision, newest_lost(draft.fleet, ladder, views))
        draft.change_ladder(ladder, revision=newest + 1, marks=())
    detail = f"generation {lost + 1}: {identity} knows what the store has lost, so all members join anew"
    draft.audit("fleet", "restore", "everything", detail)


def leave(draft: Draft, message: Leave) -> None:
    """Forgets a member that has stopped acting. One that is not known, or no longer, is gone already."""
    key = MemberKey(message.identity, message.incarnation)
    if key in draft.fleet.members and draft.fleet.members[key].speaks:
        _forget(draft, key)
        draft.audit(message.identity, "leave", str(key))


def expire(draft: Draft) -> None:
    """Ends the members whose lease has run out: the fleet no longer waits for them, and they cannot come back."""
    over = [key for key, presence in draft.state.presences.items() if draft.rules.run_out(presence.until, draft.at)]
    for key in over:
        draft.put("members", key, draft.rules.remains(draft.fleet.members[key]))
        draft.remember(key, None)
        draft.audit("fleet", "expire", str(key), "its lease has run out")


def sweep(draft: Draft) -> None:
    """Forgets what no longer counts, so that a fleet does not grow for ever.

    Members that do not speak go when they were not seen for long enough. Of identities that are not registered the
    oldest incarnations go, so many at a time, and from then on the floor keeps those lives out.
    """
    fleet, window = draft.fleet, draft.fleet.terms.window
    for key in [key for key, member in fleet.members.items() if not member.live(draft.at, window)][:MOST_SWEPT]:
        _forget(draft, key)
        draft.audit("fleet", "forget", key.identity, "it was not seen for long enough")
    too_many = len(fleet.incarnations) - MOST_LIVES
    if too_many > 0:
        here = {key.identity for key in fleet.members}
        former = ((life, name) for name, life in fleet.incarnations.items() if name not in here)
        oldest = nsmallest(min(too_many, MOST_SWEPT), former)
        for _, name in oldest:
            draft.put("incarnations", name, None)
        if oldest and oldest[-1][0] > fleet.floor:
            draft.put("floor", (), oldest[-1][0])


def remove(draft: Draft, command: RemoveMember) -> None:
    """Takes every life of a member out."""
    keys = [key for key in draft.fleet.members if key.identity == command.identity]
    if not keys:
        message, step = f"no member is called {command.identity}", "See who is there: halocline fleet members"
        raise RefusedError(Refusal("NOT_FOUND", message, command.identity, next_step=step))
    if not command.reason:
        message = f"removing {command.identity} needs a reason"
        raise RefusedError(Refusal("ARGUMENT_INVALID", message, command.identity))
    for key in keys:
        member = draft.fleet.members[key]
        if not member.speaks or draft.rules.forgets(command):
            _forget(draft, key)
        elif not member.removed:
            draft.put("members", key, replace(member, removed=True))
        if member.speaks:
            message = f"{key.identity} was removed: {command.reason}"
            refusal = Refusal("INCARNATION_ENDED", message, key.identity, next_step=REMOVED_STEP)
            draft.add(Refuse(key.identity, refusal, key.incarnation))
    how = "by force, vouched to be gone" if command.force else "counts until its lease has run out"
    draft.audit(command.actor, "remove", command.identity, f"{command.reason} ({how})")


def observe(draft: Draft, command: Observe) -> None:
    """Notes a member that does not speak."""
    key = MemberKey(command.identity, 0)
    before = draft.fleet.members.get(key)
    if command.provenance is Provenance.REPORTED:
        message = f"{command.identity} did not report: only a member itself can"
        raise RefusedError(Refusal("ARGUMENT_INVALID", message))
    seen = command.seen
    if seen is not None and not 0 <= seen <= draft.at + AHEAD:
        message = f"{command.identity} cannot have been seen {(seen - draft.at) / 1000:,.0f} s from now"
        sides = (("seen", str(seen)), ("now", str(draft.at)))
        raise RefusedError(Refusal("ARGUMENT_INVALID", message, command.identity, sides, next_step=_CLOCK_STEP))
    if _is_explained(draft.fleet.members.values(), command) and not _is_declared(before):
        if before is not None:
            _forget(draft, key)
            draft.audit("fleet", "forget", key.identity, "its commits are those of a member that is known")
        return
    if before is None and _silent(draft.fleet.members) >= MOST_SILENT:
        raise RefusedError(_too_many(command.identity, f"the fleet knows {MOST_SILENT:,} members that do not speak"))
    told = Report(command.identity, 0, command.release, command.role, command.supported, tables=command.tables)
    declares = command.provenance is Provenance.DECLARED
    if before is None:
        after = Member(told, command.provenance, draft.at, last_seen=seen, declared=draft.at if declares else 0)
    else:
        after = _declared(draft, before, told) if declares else _seen(before, told, command)
    if len(after.report.tables) > MOST_USES:
        raise RefusedError(_too_many(command.identity, f"{command.identity} uses {MOST_USES:,} tables"))
    if after == before:
        return
    draft.put("members", key, after)
    if before is None or (declares and after != replace(before, declared=after.declared)):
        # What is merely seen again every minute is not a decision; what an operator declares is.
        draft.audit(command.actor, "observe", command.identity, _noted(after.report, after.provenance))
    elif after.seen_as != before.seen_as:
        detail = f"declared to run {after.report.release}, seen to run {after.seen_as}"
        draft.audit(command.actor, "contradict", command.identity, detail)


def _is_declared(member: Member | None) -> bool:
    return member is not None and member.provenance is Provenance.DECLARED


def _declared(draft: Draft, before: Member, told: Report) -> Member:
    """The member as an operator declares it: only the tables that were seen are kept of what was known before."""
    report = replace(told, tables=before.report.tables | told.tables)
    return replace(before, report=report, provenance=Provenance.DECLARED, declared=draft.at, seen_as="")


def _seen(before: Member, told: Report, command: Observe) -> Member:
    """The member as a trace shows it. What was declared stays, and so does what a newer trace has shown."""
    tables, seen = before.report.tables | told.tables, command.seen
    older = before.last_seen is not None and (seen is None or seen < before.last_seen)
    last_seen = before.last_seen if older else seen
    if _is_declared(before):
        since = seen is None or seen >= before.declared
        seen_as = told.release if since and _contradicts(before.report, told, command.provenance) else before.seen_as
        return replace(before, report=replace(before.report, tables=tables), last_seen=last_seen, seen_as=seen_as)
    # An older trace tells which other tables it uses, but not what it runs now.
    report = replace(before.report if older else told, tables=tables)
    provenance = min(before.provenance, command.provenance, key=list(Provenance).index)
    return replace(before, report=report, last_seen=last_seen, provenance=provenance)


def _contradicts(declared: Report, told: Report, provenance: Provenance) -> bool:
    """Return whether a trace shows another release than was declared. What is inferred is the lowest that it can be."""
    known, shown = known_release(declared.release), known_release(told.release)
    if known is None or known == shown:
        # What is declared as unknown keeps levels down already.
        return False
    product = told.release.partition("@")[0]
    if shown is None or product != known.product:
        return product not in ("", known.product, UNKNOWN_PRODUCT)
    return provenance is not Provenance.INFERRED or shown.version > known.version


def _noted(report: Report, provenance: Provenance) -> str:
    used = [f"{use.operation}s {use.table}" for use in nsmallest(_FEW, report.tables)]
    told = [shortened(used, total=len(report.tables))] if used else []
    return ", ".join([report.release, str(provenance), *told])


def _is_explained(members: Iterable[Member], command: Observe) -> bool:
    """Whether an inferred writer without a name is one that is known by name.

    Commits that name nobody tell that there is a writer, and the lowest release that it can be. Where members of the
    same product are known to write the same tables, the commits are theirs, and no further writer is assumed.
    """
    nameless = command.identity.startswith(f"{command.release}-")
    if command.provenance is not Provenance.INFERRED or not nameless:
        return False
    release, unexplained = known_release(command.release), {use.table for use in command.tables}
    if release is None:
        return not unexplained
    same: dict[str, bool] = {}
    for member in members:
        report = member.report
        if report.release not in same:
            same[report.release] = report.product == release.product
        if same[report.release] and member.provenance is not Provenance.INFERRED:
            unexplained -= unexplained & written(report.tables)
    return not unexplained


def _silent(members: Mapping[MemberKey, Member]) -> int:
    return sum(not member.speaks for member in members.values()) if len(members) >= MOST_SILENT else 0


def _too_many(identity: str, message: str) -> Refusal:
    step = "Take out those that are gone: halocline fleet member remove NAME --reason '…'"
    return Refusal("TOO_MANY", f"{message} already, and counts no more", identity, next_step=step)


def who_uses(state: State, table: str, at: int) -> tuple[Member, ...]:
    """The live members that use a table, in the order of their keys."""
    using = (member for member in state.fleet.live(at) if any(use.table == table for use in member.report.tables))
    return tuple(sorted(using, key=lambda member: member.report.key))


def _renew(draft: Draft, key: MemberKey, presence: Presence) -> None:
    until = draft.rules.coordinator_lease(draft.at, draft.fleet.terms)
    draft.remember(key, replace(presence, until=max(presence.until, until)))


def _forget(draft: Draft, key: MemberKey) -> None:
    draft.put("members", key, None)
    draft.remember(key, None)

"""Commands and questions of operators, as they arrive over the wire.

Each call needs a right. A command becomes an event of the core under the name of whoever asked; what the core decided,
or why it did not, is the answer. Force needs the right of that name and a reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from halocline.errors import ConflictError, InputError, MalformedError
from halocline.fleet.core.effects import Audit, Refuse
from halocline.fleet.core.events import (
    CancelDowngrade,
    Cause,
    CleanDowngrade,
    DeclareLadder,
    FinishDowngrade,
    MoveTable,
    Observe,
    PlaceHold,
    Raise,
    ReleaseHold,
    RemoveMember,
    SetPolicy,
    SetTerms,
    StartDowngrade,
)
from halocline.fleet.core.ladder_state import Policy
from halocline.fleet.core.state import FleetTerms, Provenance, RecordChange
from halocline.fleet.server import questions
from halocline.fleet.server.auth import Claims, Right
from halocline.fleet.server.greeting import Greeter
from halocline.fleet.server.service import FleetService, RejectedError
from halocline.fleet.store import Query, Seen
from halocline.fleet.store.codec import KINDS, decode
from halocline.fleet.wire import messages
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb
from halocline.fleet.wire.status import Rejection

RIGHTS: Final[dict[str, Right]] = {
    "MoveTable": Right.JOIN,
    "TableUsers": Right.OBSERVE,
    "Leave": Right.JOIN,
    "Session": Right.JOIN,
    "Describe": Right.OBSERVE,
    "Members": Right.OBSERVE,
    "WhoBlocks": Right.OBSERVE,
    "WhoBreaks": Right.OBSERVE,
    "PlanRaise": Right.PLAN,
    "Raise": Right.RAISE,
    "SetPolicy": Right.RAISE,
    "PlaceHold": Right.RAISE,
    "ReleaseHold": Right.RAISE,
    "PlanDowngrade": Right.PLAN,
    "StartDowngrade": Right.RAISE,
    "CleanDowngrade": Right.RAISE,
    "FinishDowngrade": Right.RAISE,
    "CancelDowngrade": Right.RAISE,
    "DeclareLadder": Right.RAISE,
    "Observe": Right.JOIN,
    "RemoveMember": Right.RAISE,
    "SetTerms": Right.RAISE,
    "Audit": Right.OBSERVE,
    "Export": Right.OBSERVE,
    "Import": Right.FORCE,
}
"""What each call needs. The handshake needs none: it is what gives them."""

CHUNK: Final = 256 * 1024
LARGEST_IMPORT: Final = 256 * 1024 * 1024


class Commands:
    """Carries out what operators ask of a service."""

    def __init__(self, service: FleetService, greeter: Greeter) -> None:
        self._service = service
        self._greeter = greeter

    # Questions.

    async def Describe(self, _: pb.DescribeRequest, __: Claims) -> pb.DescribeResponse:
        """Where the fleet stands."""
        service = self._service
        coordinator = service.coordinator
        place = questions.Place(
            service.wire.server(),
            coordinator.address,
            service.store.description,
            coordinator.since,
            service.clock.wall(),
        )
        return questions.describe(service.state(), service.clock.now(), place)

    async def Members(self, request: pb.MembersRequest, _: Claims) -> pb.MembersResponse:
        """Who is there, and who ever was."""
        seen = await self._seen() if request.all else ()
        state = self._service.state()
        return questions.members(state, self._service.clock.now(), self._greeter.clients, seen)

    async def WhoBlocks(self, request: pb.WhoBlocksRequest, _: Claims) -> pb.AffectedResponse:
        """Who keeps a feature from being used."""
        feature = messages.bounded("feature", request.feature, 128)
        return questions.who_blocks(self._service.state(), feature, self._service.clock.now())

    async def WhoBreaks(self, request: pb.WhoBreaksRequest, _: Claims) -> pb.AffectedResponse:
        """Who would break if a feature went, a level rose or a table changed."""
        now = self._service.clock.now()
        if sum(map(bool, (request.remove, request.ladder, request.HasField("change")))) != 1:
            raise InputError("ask for one of these: a feature to be removed, a ladder and its level, a table's change")
        if request.remove:
            feature = messages.bounded("feature", request.remove, 128)
            seen = await self._seen()
            return questions.who_breaks_by_removal(self._service.state(), feature, now, seen)
        if request.HasField("change"):
            change = request.change
            table = messages.bounded("table", change.table, messages.LONGEST_TABLE)
            before = messages.table_terms(change.before) if change.HasField("before") else None
            after = messages.table_terms(change.after)
            return questions.who_breaks_by_change(self._service.state(), table, before, after, now)
        state, ladder = self._service.state(), messages.ladder_name(request.ladder)
        self._known_level(ladder, request.level)
        return questions.who_breaks_by_raise(state, ladder, request.level, now)

    async def PlanRaise(self, request: pb.LevelRequest, _: Claims) -> pb.Plan:
        """What raising a level would meet."""
        state = self._service.state()
        return questions.plan_to_raise(
            state, messages.ladder_name(request.ladder), request.level, self._service.clock.now()
        )

    async def PlanDowngrade(self, request: pb.LevelRequest, _: Claims) -> pb.Plan:
        """What letting a level fall would take."""
        state = self._service.state()
        return questions.plan_to_downgrade(
            state, messages.ladder_name(request.ladder), request.level, self._service.clock.now()
        )

    async def TableUsers(self, request: pb.TableUsersRequest, _: Claims) -> pb.TableUsersResponse:
        """Who uses a table."""
        table = messages.bounded("table", request.table, messages.LONGEST_TABLE)
        return questions.table_users(self._service.state(), table, self._service.clock.now())

    async def Audit(self, request: pb.AuditRequest, _: Claims) -> pb.AuditResponse:
        """What was decided."""
        query = Query(
            request.actor[:200],
            request.action[:40],
            request.subject[:1000],
            request.refused_only,
            request.since_ms,
            request.before,
            request.limit or 100,
        )
        found = await self._service.read(lambda store: store.audit(query))
        return pb.AuditResponse(
            entries=[
                pb.AuditEntry(
                    number=each.number,
                    at_ms=each.audit.at,
                    epoch=each.epoch,
                    actor=each.audit.actor,
                    action=each.audit.action,
                    subject=each.audit.subject,
                    detail=each.audit.detail,
                    refused=each.audit.refused,
                )
                for each in found
            ]
        )

    # Commands.

    async def Raise(self, request: pb.RaiseRequest, claims: Claims) -> pb.CommandResponse:
        """Raises a level."""
        reason = self._reason(request.reason, request.force, claims, "force a level")
        ladder = messages.ladder_name(request.ladder)
        return await self._do(Raise(ladder, request.level, claims.actor, reason, request.force))

    async def SetPolicy(self, request: pb.SetPolicyRequest, claims: Claims) -> pb.CommandResponse:
        """Decides whether a level rises by itself."""
        policy = _policy(request.policy)
        ladder = messages.ladder_name(request.ladder)
        return await self._do(SetPolicy(ladder, policy, claims.actor, messages.bounded("reason", request.reason)))

    async def PlaceHold(self, request: pb.PlaceHoldRequest, claims: Claims) -> pb.CommandResponse:
        """Keeps a level from rising."""
        return await self._do(
            PlaceHold(
                messages.ladder_name(request.ladder),
                messages.matched("hold", request.name),
                messages.bounded("reason", request.reason),
                claims.actor,
                request.level or None,
                request.until_ms or None,
            )
        )

    async def ReleaseHold(self, request: pb.ReleaseHoldRequest, claims: Claims) -> pb.CommandResponse:
        """Ends a hold."""
        name = messages.bounded("hold", request.name, 64)
        reason = messages.bounded("reason", request.reason)
        return await self._do(ReleaseHold(messages.ladder_name(request.ladder), name, claims.actor, reason))

    async def StartDowngrade(self, request: pb.DowngradeRequest, claims: Claims) -> pb.CommandResponse:
        """Closes the gates."""
        reason = messages.bounded("reason", request.reason)
        ladder = messages.ladder_name(request.ladder)
        return await self._do(StartDowngrade(ladder, request.target, claims.actor, reason))

    async def CleanDowngrade(self, request: pb.DowngradeRequest, claims: Claims) -> pb.CommandResponse:
        """Passes the point of no return."""
        reason = messages.bounded("reason", request.reason)
        return await self._do(CleanDowngrade(messages.ladder_name(request.ladder), claims.actor, reason))

    async def FinishDowngrade(self, request: pb.DowngradeRequest, claims: Claims) -> pb.CommandResponse:
        """Lets the level fall."""
        reason = messages.bounded("reason", request.reason)
        return await self._do(FinishDowngrade(messages.ladder_name(request.ladder), claims.actor, reason))

    async def CancelDowngrade(self, request: pb.DowngradeRequest, claims: Claims) -> pb.CommandResponse:
        """Opens the gates again."""
        reason = messages.bounded("reason", request.reason)
        return await self._do(CancelDowngrade(messages.ladder_name(request.ladder), claims.actor, reason))

    async def DeclareLadder(self, request: pb.DeclareLadderRequest, claims: Claims) -> pb.CommandResponse:
        """Adds a ladder, or rungs on top of one."""
        policy = _policy(request.policy or Policy.MANUAL)
        return await self._do(DeclareLadder(messages.ladder(request), claims.actor, request.level or None, policy))

    async def Observe(self, request: pb.ObserveRequest, claims: Claims) -> pb.CommandResponse:
        """Notes somebody who does not speak."""
        if request.provenance not in set(Provenance):
            raise InputError(f"{request.provenance[:40]!r} is no provenance", sides={"known": ", ".join(Provenance)})
        if request.provenance == Provenance.DECLARED:
            claims.require(Right.RAISE, "declare members")
        return await self._do(
            Observe(
                request.identity,
                messages.bounded("release", request.release, messages.LONGEST_RELEASE),
                Provenance(request.provenance),
                claims.actor,
                request.seen_ms or None,
                messages.ranges(request.supported),
                messages.table_uses(request.tables),
                messages.matched("role", request.role or "reader"),
            )
        )

    async def RemoveMember(self, request: pb.RemoveMemberRequest, claims: Claims) -> pb.CommandResponse:
        """Takes a member out."""
        reason = self._reason(request.reason, request.force, claims, "vouch that a member is gone")
        return await self._do(RemoveMember(request.identity, claims.actor, reason, request.force))

    async def SetTerms(self, request: pb.SetTermsRequest, claims: Claims) -> pb.CommandResponse:
        """Changes what the fleet agrees on."""
        asked = request.terms
        terms = FleetTerms(
            asked.lease_ms,
            asked.margin_ms,
            asked.window_ms,
            asked.development,
            self._service.state().fleet.terms.provides,
        )
        return await self._do(SetTerms(terms, claims.actor, messages.bounded("reason", request.reason)))

    async def MoveTable(self, request: pb.MoveTableRequest, claims: Claims) -> pb.CommandResponse:
        """Notes the level that a table requires."""
        table = messages.bounded("table", request.table, messages.LONGEST_TABLE)
        ladder = messages.ladder_name(request.ladder)
        return await self._do(MoveTable(table, ladder, request.level, claims.actor))

    # Backup.

    async def export(self) -> list[bytes]:
        """Everything durable as a JSON document, in pieces."""
        document = msgspec.json.encode(await self._service.read(lambda store: store.export()))
        return [document[start : start + CHUNK] for start in range(0, len(document), CHUNK)]

    async def restore(self, document: bytes, reason: str, claims: Claims) -> pb.CommandResponse:
        """Puts a backup in the place of everything.

        Raises:
            ConflictError: Somebody holds a lease and may be acting.
            MalformedError: The document is not an export.
        """
        reason = self._reason(reason, True, claims, "import a backup")
        changes = backup(document)
        state = self._service.state()
        speaking = sorted(str(key) for key, _ in state.fleet.speaking())
        if speaking:
            raise ConflictError(
                f"{len(speaking)} members hold a lease and may be acting",
                sides={"members": ", ".join(speaking[:10])},
                next_step="Stop them, wait for one lease, then import.",
            )
        newer = _newest_incarnations(changes, state.fleet.incarnations)
        audit = Audit(self._service.clock.now(), claims.actor, "import", "everything", reason)
        await self._service.exclusively(lambda coordinator: coordinator.restore(newer, audit))
        return pb.CommandResponse(epoch=self._service.coordinator.epoch, decisions=["import everything"])

    async def _seen(self) -> list[Seen]:
        await self._service.remember_now()
        return await self._service.read(lambda store: store.seen())

    def _reason(self, reason: str, force: bool, claims: Claims, what: str) -> str:
        bounded = messages.bounded("reason", reason)
        if force:
            claims.require(Right.FORCE, what)
            if not bounded.strip():
                raise InputError("force needs a reason", next_step="Say why with --reason; it lands in the audit log.")
        return bounded

    def _known_level(self, ladder: str, level: int) -> None:
        known = self._service.state().fleet.ladders.get(ladder)
        if known is None or known.rung(level) is None:
            levels = ", ".join(map(str, known.levels)) if known else "no such ladder"
            raise InputError(f"there is no level {level} of {ladder}", sides={"levels": levels})

    async def _do(self, command: Cause) -> pb.CommandResponse:
        effects = await self._service.submit(command)
        for effect in effects:
            # Only a refusal without an incarnation answers the operator; others tell a member that it is out.
            if isinstance(effect, Refuse) and effect.incarnation is None:
                self._service.metrics.refused(type(command).__name__.lower(), effect.refusal.condition)
                raise RejectedError(Rejection(effect.refusal))
        decided = [
            f"{each.action} {each.subject} {each.detail}".rstrip() for each in effects if isinstance(each, Audit)
        ]
        return pb.CommandResponse(epoch=self._service.coordinator.epoch, decisions=decided)


def _policy(text: str) -> Policy:
    if text not in set(Policy):
        raise InputError(f"{text[:40]!r} is no policy", sides={"known": ", ".join(Policy)})
    return Policy(text)


def backup(document: bytes) -> list[RecordChange]:
    """The records of an export.

    Raises:
        MalformedError: It is not one, or of a newer form.
    """
    try:
        found: Any = msgspec.json.decode(document)
        if found["format"] != 1:
            raise MalformedError(
                f"this export has format {found['format']}, written by halocline {found.get('halocline')}",
                sides={"known": "format 1"},
                next_step="Import it with the release that wrote it, or a later one.",
            )
        records = [(each["kind"], each["key"], each["value"]) for each in found["records"]]
    except (msgspec.DecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise MalformedError(
            "this is no export of a fleet", next_step="Make one with: halocline fleet export"
        ) from error
    return [
        decode(kind, msgspec.json.encode({"key": key, "value": value}).decode())
        for kind, key, value in records
        if kind in KINDS
    ]


def _newest_incarnations(changes: Iterable[RecordChange], known: Any) -> list[RecordChange]:
    """A backup with the incarnations that were used since: an old life must not come back through it."""
    newest = dict(known)
    kept = []
    for change in changes:
        if change.kind == "incarnations":
            newest[change.key] = max(change.value, newest.get(change.key, 0))
        else:
            kept.append(change)
    return [*kept, *(RecordChange("incarnations", name, value) for name, value in newest.items())]

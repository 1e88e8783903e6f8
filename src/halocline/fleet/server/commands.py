"""What operators ask of a coordinator: questions and commands.

Each call needs a right. A command becomes an event of the core under the name of the operator; what the core decided,
or why it did not, is the answer. Force needs the right of that name and a reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from halocline.errors import InputError, MalformedError
from halocline.fleet import answers
from halocline.fleet.core.effects import Audit, Refuse
from halocline.fleet.core.events import Command, Observe, Raise, RemoveMember, SetTerms
from halocline.fleet.core.state import Provenance, RecordChange, State
from halocline.fleet.server import questions
from halocline.fleet.server.auth import Claims, Right
from halocline.fleet.server.greeting import Greeter
from halocline.fleet.server.service import FleetService, RejectedError
from halocline.fleet.store.codec import decode
from halocline.fleet.wire import calls
from halocline.fleet.wire.calls import CHUNK, Call
from halocline.fleet.wire.messages import bounded
from halocline.fleet.wire.status import Rejection

_Q = TypeVar("_Q")
_A = TypeVar("_A")

_NEEDED: Final[dict[Right, tuple[str, ...]]] = {
    Right.OBSERVE: ("TableUsers", "Describe", "Members", "WhoBlocks", "WhoBreaks", "Audit", "Export"),
    Right.JOIN: ("MoveTable", "Leave", "Session", "Observe"),
    Right.PLAN: ("PlanRaise", "PlanDowngrade"),
    Right.RAISE: (
        *("Raise", "SetPolicy", "PlaceHold", "ReleaseHold", "DeclareLadder", "RemoveMember", "SetTerms"),
        *("StartDowngrade", "CleanDowngrade", "FinishDowngrade", "CancelDowngrade"),
    ),
    Right.FORCE: ("Import",),
}
RIGHTS: Final = {call: right for right, names in _NEEDED.items() for call in names}
"""What each call needs. The handshake needs none: it is what gives them."""

LARGEST_IMPORT: Final = 256 * 1024 * 1024


class Commands:
    """Carries out what operators ask of a service."""

    def __init__(self, service: FleetService, greeter: Greeter) -> None:
        self._service = service
        self._greeter = greeter
        self._answers: dict[str, Callable[[Any], Awaitable[Any]]] = {
            calls.DESCRIBE.name: self._describe,
            calls.MEMBERS.name: self._members,
            calls.TABLE_USERS.name: partial(self._worked_out, questions.table_users),
            calls.WHO_BLOCKS.name: partial(self._worked_out, questions.who_blocks),
            calls.WHO_BREAKS.name: self._who_breaks,
            calls.PLAN_RAISE.name: partial(self._worked_out, questions.plan_to_raise),
            calls.PLAN_DOWNGRADE.name: partial(self._worked_out, questions.plan_to_downgrade),
            calls.AUDIT.name: self._audit,
        }

    async def answer(self, call: Call[_Q, _A], request: _Q, claims: Claims) -> _A:
        """What a question is answered, or what a command led to."""
        ask: Any = self._answers.get(call.name) or partial(self._command, claims)
        answer: _A = await ask(request)
        return answer

    # Questions.

    async def _describe(self, _: None) -> answers.FleetStatus:
        service = self._service
        return questions.describe(service.state(), service.clock.now(), service.coordinator, service.wire.server)

    async def _members(self, also_past: bool) -> answers.FleetMembers:
        seen = await self._seen() if also_past else ()
        return questions.members(self._service.state(), self._service.clock.now(), self._greeter.clients, seen)

    async def _worked_out(self, question: Callable[[State, _Q, int], _A], asked: _Q) -> _A:
        """The answer to a question that the state alone decides."""
        return question(self._service.state(), asked, self._service.clock.now())

    async def _who_breaks(self, query: answers.BreakQuery) -> answers.AffectedMembers:
        now = self._service.clock.now()
        if query.remove:
            seen = await self._seen()
            return questions.who_breaks_by_removal(self._service.state(), query.remove, now, seen)
        state = self._service.state()
        if query.change is not None:
            return questions.who_breaks_by_change(state, query.change, now)
        known = state.fleet.ladders.get(query.ladder)
        if known is None or known.rung(query.level) is None:
            levels = ", ".join(map(str, known.levels)) if known else "no such ladder"
            raise InputError(f"there is no level {query.level} of {query.ladder}", sides={"levels": levels})
        return questions.who_breaks_by_raise(state, query.ladder, query.level, now)

    async def _audit(self, query: answers.AuditQuery) -> answers.AuditEntries:
        return answers.AuditEntries(tuple(await self._service.read(lambda store: store.audit(query))))

    async def _seen(self) -> list[answers.SeenClient]:
        await self._service.remember_now()
        return await self._service.read(lambda store: store.seen())

    # Commands.

    async def _command(self, claims: Claims, anonymous: Command) -> answers.CommandResult:
        command: Command = anonymous.by(claims.actor)
        match command:
            case Raise(force=True):
                _require_force(claims, command.reason, "force a level")
            case RemoveMember(force=True):
                _require_force(claims, command.reason, "vouch that a member is gone")
            case Observe(provenance=Provenance.DECLARED):
                claims.require(Right.RAISE, "declare members")
            case SetTerms():
                provides = self._service.state().fleet.terms.provides
                command = replace(command, terms=replace(command.terms, provides=provides))
        effects = await self._service.submit(command)
        for effect in effects:
            # Only a refusal without an incarnation answers the operator; others tell a member that it is out.
            if isinstance(effect, Refuse) and effect.incarnation is None:
                self._service.metrics.refusals.labels(type(command).__name__.lower(), effect.refusal.condition).inc()
                raise RejectedError(Rejection(effect.refusal))
        audits = [effect for effect in effects if isinstance(effect, Audit)]
        decided = tuple(f"{each.action} {each.subject} {each.detail}".rstrip() for each in audits)
        return answers.CommandResult(self._service.coordinator.epoch, decided)

    # Backup.

    async def export(self) -> list[bytes]:
        """Everything durable as a JSON document, in pieces."""
        document = msgspec.json.encode(await self._service.read(lambda store: store.export()))
        return [document[start : start + CHUNK] for start in range(0, len(document), CHUNK)]

    async def restore(self, document: bytes, reason: str, claims: Claims) -> answers.CommandResult:
        """Puts a backup in the place of everything.

        Raises:
            ConflictError: A member holds a lease and may be acting.
            MalformedError: The document is not an export.
        """
        _require_force(claims, bounded("reason", reason), "import a backup")
        changes = backup(document)
        audit = Audit(self._service.clock.now(), claims.actor, "import", "everything", reason)
        await self._service.exclusively(lambda coordinator: coordinator.restore(changes, audit))
        return answers.CommandResult(self._service.coordinator.epoch, ("import everything",))


def _require_force(claims: Claims, reason: str, deed: str) -> None:
    claims.require(Right.FORCE, deed)
    if not reason.strip():
        raise InputError("force needs a reason", next_step="Say why with --reason; it lands in the audit log.")


def backup(document: bytes) -> list[RecordChange]:
    """The records of an export."""
    try:
        found: Any = msgspec.json.decode(document)
        if found["format"] != 1:
            raise MalformedError(
                f"this export has format {found['format']}, written by halocline {found.get('halocline')}",
                sides={"known": "format 1"},
                next_step="Import it with the release that wrote it, or a later one.",
            )
        records = [(str(each["kind"]), each["key"], each["value"]) for each in found["records"]]
    except (msgspec.DecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise MalformedError(
            "this is no export of a fleet", next_step="Make one with: halocline fleet export"
        ) from error
    return [decode(kind, msgspec.json.encode({"key": key, "value": value}).decode()) for kind, key, value in records]

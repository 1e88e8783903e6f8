"""What operators ask of a coordinator: questions and commands.

Each call needs a right; see `halocline.fleet.server.rights`. A command becomes an event of the core under the name of
the operator; what the core decided, or why it did not, is the answer. Force needs the right of that name and a reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from halocline.compat.knowledge import Knowledge
from halocline.errors import InputError, MalformedError, nearest
from halocline.fleet import answers
from halocline.fleet.core.effects import Audit, Refuse, Repeat
from halocline.fleet.core.events import Command, Observe, Once, SetTerms
from halocline.fleet.core.state import DoneCommand, Fleet, Provenance, RecordChange, State, known_release
from halocline.fleet.server import questions
from halocline.fleet.server.auth import Claims, Right
from halocline.fleet.server.coordinator import Coordinator
from halocline.fleet.server.decider import RejectedError
from halocline.fleet.server.greeting import Greeter
from halocline.fleet.server.rights import Rule, check_request
from halocline.fleet.server.service import FleetService
from halocline.fleet.store.codec import decode
from halocline.fleet.wire import calls
from halocline.fleet.wire.calls import CHUNK, Call
from halocline.fleet.wire.messages import bounded
from halocline.fleet.wire.status import Rejection

UNKNOWN_RELEASE: Final = "unknown"
"""What a member is declared to run of which that is not known."""
_ROLES: Final = ("reader", "writer")
_PAST: Final = "#"
_MOST_SEEN: Final = 10_000
LARGEST_IMPORT: Final = 256 * 1024 * 1024


class OperatorCalls:
    """Carries out what operators ask of a service."""

    def __init__(self, service: FleetService, greeter: Greeter) -> None:
        self._service = service
        self._greeter = greeter
        self._questions: dict[str, Callable[[Any, int], Any]] = {
            calls.DESCRIBE.name: self._describe,
            calls.MEMBERS.name: self._members,
            calls.TABLE_USERS.name: self._from_state(questions.table_users),
            calls.WHO_BLOCKS.name: self._from_state(questions.who_blocks),
            calls.WHO_BREAKS.name: self._who_breaks,
            calls.PLAN_RAISE.name: self._from_state(questions.plan_to_raise),
            calls.PLAN_DOWNGRADE.name: self._from_state(questions.plan_to_downgrade),
            calls.AUDIT.name: lambda query, _: answers.AuditEntries(tuple(service.store.audit(query))),
            calls.KEYS.name: lambda *_: answers.SigningKeys(tuple(service.store.keys())),
        }

    async def answer(self, call: Call[Any, Any], request: bytes, claims: Claims, key: str = "") -> bytes:
        """What a question is answered, or what a command led to.

        A question is worked out and put into bytes in another thread, so that it holds up no heartbeat.
        """
        asked, question = call.request.decode(request), self._questions.get(call.name)
        if question is None:
            digest = hashlib.sha256(call.name.encode() + request).hexdigest()
            return call.answer.encode(await self._command(call, claims, asked, key, digest))
        check_request(claims, call.name, asked)
        self._service.state()
        now = self._service.clock.now()
        if call in (calls.MEMBERS, calls.AUDIT) or (call is calls.WHO_BREAKS and asked.remove):
            await self._service.decider.remember_now()
        return await self._service.read(lambda _: call.answer.encode(question(asked, now)))

    # Questions, in a thread of their own.

    def _from_state(self, question: Callable[[State, Any, int], Any]) -> Callable[[Any, int], Any]:
        """A question that the state alone decides."""
        return lambda asked, now: question(self._service.state(), asked, now)

    def _describe(self, _: None, now: int) -> answers.FleetStatus:
        service = self._service
        return questions.describe(service.state(), now, service.coordinator, service.wire.server)

    def _members(self, query: answers.MembersQuery, now: int) -> answers.FleetMembers:
        """The members, then those who were here; a page of the latter begins with how many came before it."""
        if not query.after.startswith(_PAST):
            found = questions.members(self._service.state(), query, now, self._greeter.clients)
            return found if found.next or not query.all else replace(found, next=f"{_PAST}0")
        before = int(query.after.removeprefix(_PAST) or 0)
        seen = self._service.store.seen(offset=before, limit=query.size + 1)
        more = f"{_PAST}{before + query.size}" if len(seen) > query.size else ""
        return answers.FleetMembers(sightings=tuple(seen[: query.size]), next=more)

    def _who_breaks(self, query: answers.BreakQuery, now: int) -> answers.AffectedMembers:
        state = self._service.state()
        if query.remove:
            since = now - state.fleet.terms.window
            seen = self._service.store.seen(requires=query.remove, since_ms=since, limit=_MOST_SEEN)
            return questions.who_breaks_by_removal(state, query, now, seen)
        if query.change is not None:
            return questions.who_breaks_by_change(state, query, now)
        known = state.fleet.ladders.get(query.ladder)
        if known is None or known.rung(query.level) is None:
            levels = ", ".join(map(str, known.levels)) if known else "no such ladder"
            raise InputError(f"there is no level {query.level} of {query.ladder}", sides={"levels": levels})
        return questions.who_breaks_by_raise(state, query, now)

    # Commands.

    async def _command(
        self, call: Call[Any, Any], claims: Claims, anonymous: Any, key: str, digest: str
    ) -> answers.CommandResult:
        service = self._service
        _check_reason(check_request(claims, call.name, anonymous), anonymous)
        if isinstance(anonymous, calls.DropKey):
            await service.drop_key(anonymous.id, claims.actor, anonymous.reason)
            return answers.CommandResult(service.coordinator.epoch, (f"key {anonymous.id} dropped",))
        command: Command = anonymous.by(claims.actor)
        match command:
            case Observe(provenance=Provenance.DECLARED):
                _check_declared(command, service.state().fleet)
            case Observe():
                service.access.check_speaks_for(claims.credential, command.identity, claims.identity)
            case SetTerms():
                provides = service.state().fleet.terms.provides
                command = replace(command, terms=replace(command.terms, provides=provides))
        named = Once(_named(claims, key), digest, command) if key else command
        effects = await service.submit(named)
        for effect in effects:
            # Only a refusal without an incarnation answers the operator; others tell a member that it is out.
            if isinstance(effect, Refuse) and effect.incarnation is None:
                service.metrics.refusals.labels(type(command).__name__.lower(), effect.refusal.condition).inc()
                raise RejectedError(Rejection(effect.refusal))
        before = next((effect.decisions for effect in effects if isinstance(effect, Repeat)), None)
        decided = tuple(str(effect) for effect in effects if isinstance(effect, Audit))
        return answers.CommandResult(service.coordinator.epoch, decided if before is None else before)

    # Backup.

    async def export(self) -> AsyncIterator[bytes]:
        """Everything durable as a JSON document, in pieces."""
        await self._service.decider.remember_now()
        pieces = await self._service.read(lambda store: _chunks(store.export()))
        while piece := await self._service.read(lambda _: next(pieces, b"")):
            yield piece

    async def restore(self, document: bytes, reason: str, claims: Claims, key: str = "") -> answers.CommandResult:
        """Puts a backup in the place of everything; one that is sent again under its key is not put there again.

        Raises:
            ConflictError: A member holds a lease and may be acting.
            MalformedError: The document is not an export.
        """
        _check_reason(check_request(claims, calls.IMPORT.name, None), calls.Chunk(b"", bounded("reason", reason)))
        changes = await self._service.read(lambda _: backup(document))
        audit = Audit(self._service.clock.now(), claims.actor, "import", "everything", reason)
        done = DoneCommand(audit.at, hashlib.sha256(document).hexdigest(), (str(audit),))
        named = _named(claims, key)

        def put(coordinator: Coordinator) -> None:
            known = coordinator.state.fleet.answered.get(named) if coordinator.state else None
            if known is None or known.digest != done.digest:
                coordinator.restore([*changes, RecordChange("answered", named, done)], audit)

        await self._service.exclusively(put)
        return answers.CommandResult(self._service.coordinator.epoch, done.decisions)


def _named(claims: Claims, key: str) -> str:
    """A command's key, apart from those of others."""
    return f"{claims.identity}/{bounded('key', key, 100)}"


def _check_declared(member: Observe, fleet: Fleet) -> None:
    """A member that is declared runs something that is known, or is said to run what is not."""
    if member.role not in _ROLES:
        sides = {"nearest": nearest(member.role, _ROLES) or "none", "roles": ", ".join(_ROLES)}
        raise InputError(f"a member that does not speak is no {member.role!r}", sides=sides)
    if member.release == UNKNOWN_RELEASE:
        return
    release = known_release(member.release)
    declared = {
        known_release(each) for ladder in fleet.ladders.values() for rung in ladder.rungs for each in rung.provided_by
    }
    products = {*Knowledge.load().products, *(each.product for each in declared if each)}
    step = (
        f"If it is not known what {member.identity} runs, declare it as {UNKNOWN_RELEASE}: it then keeps levels down."
    )
    product = member.release.partition("@")[0]
    if product not in products:
        sides = {"nearest": nearest(product, products) or "none", "known": ", ".join(sorted(products))}
        raise InputError(f"no product {product!r} is known", sides=sides, next_step=step)
    if release is None:
        sides = {"given": member.release, "expected": f"{product}@VERSION"}
        raise InputError(f"{member.identity} is declared without a version", sides=sides, next_step=step)
    known = Knowledge.load().find(product)
    if known is None or release in declared or member.unlisted:
        return
    if not known.can_have(release.version) or (release.version >= known.first and not known.knows(release.version)):
        nearest_release = f"{known.name}@{known.newest}"
        sides = {"nearest": nearest_release, "known": f"{known.name} {known.first} to {known.newest}"}
        newer = f"Give --unlisted if {member.release} exists all the same."
        raise InputError(f"no release {member.release} is known", sides=sides, next_step=f"{newer} {step}")


def _chunks(document: Mapping[str, Any]) -> Iterator[bytes]:
    """A document in pieces of a good size, put into bytes item by item, so that other threads have their turn."""
    piece = bytearray()
    for number, (name, value) in enumerate(document.items()):
        piece += (b"," if number else b"{") + msgspec.json.encode(name) + b":"
        if isinstance(value, int | str):
            piece += msgspec.json.encode(value)
            continue
        piece += b"["
        for count, item in enumerate(value):
            piece += (b"," if count else b"") + msgspec.json.encode(item)
            if len(piece) >= CHUNK:
                yield bytes(piece)
                piece.clear()
        piece += b"]"
    yield bytes(piece + b"}")


def _check_reason(rule: Rule, request: Any) -> None:
    if rule.right is Right.FORCE and not request.reason.strip():
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

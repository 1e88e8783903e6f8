"""Greeting a caller: the server's half of the handshake.

In this order, and the first no ends it: is the caller let in, is this the active coordinator, are the clocks close
enough, do both ends of the wire fit, and may it join the fleet as it stands. Whatever the outcome, the server remembers
who called with what.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from halocline.fleet.core.effects import Admit, Refusal, Refuse
from halocline.fleet.core.events import Join
from halocline.fleet.core.state import MemberKey
from halocline.fleet.server.audit import host_of
from halocline.fleet.server.auth import Claims, Grant, denied
from halocline.fleet.server.dates import witness_of
from halocline.fleet.server.decider import RejectedError
from halocline.fleet.server.rights import rule_of
from halocline.fleet.server.service import FleetService
from halocline.fleet.store import Sighting
from halocline.fleet.wire.handshake import Objection, Peer, Role, judge, refusal
from halocline.fleet.wire.messages import feature_names
from halocline.fleet.wire.session import Admission, Greeting, Welcome
from halocline.fleet.wire.status import Rejection


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is at the other end of a connection, before it has said anything."""

    peer: str
    names: tuple[str, ...] = ()


class Greeter:
    """Greets callers on behalf of a service."""

    def __init__(self, service: FleetService) -> None:
        self._service = service
        wire = service.wire
        # Fleets run few releases, so most answers are known already.
        self._judge = lru_cache(256)(lambda client, role: judge(client, wire.server, wire, role))
        self.clients: dict[MemberKey, str] = {}

    async def greet(self, greeting: Greeting, caller: Caller) -> Welcome:
        """Answers a handshake."""
        service, report, client = self._service, greeting.membership, greeting.client
        credential = service.access.credential(greeting.secret, caller.names)
        grant = await self._let_in(greeting, caller, service.access.granted(credential))
        state = service.state()
        objections = self._judge(client, Role.MEMBER if report else Role.OPERATOR)
        release = report.release if report else ""
        now = service.clock.now()
        requires = tuple(sorted(client.requires))
        sighting = Sighting(greeting.identity, client.release, release, greeting.role, "greeted", requires, now)
        if (witness := witness_of(grant, credential, host_of(caller.peer))) is not None:
            service.dates.note(witness, greeting.clock_ms - service.clock.wall())
        problem = self._too_far(greeting) or self._misfit(objections, client) or self._too_late(greeting)
        if problem is not None:
            self._saw(sighting, problem.refusal)
            service.count_refusal(greeting.identity, "handshake", problem.refusal)
            raise RejectedError(problem)
        admission = None
        if report is not None:
            report = replace(report, needs=report.needs | feature_names(client.requires))
            admission = await self._admit(Join(report, greeting.sent, credential, greeting.views), sighting)
            self._note_client(report.key, client.release)
        self._saw(replace(sighting, outcome="joined" if report else "greeted"))
        claims = Claims(
            greeting.identity,
            report.incarnation if report else 0,
            greeting.role,
            release or client.release,
            service.coordinator.epoch or state.epoch,
            grant.name,
            grant.rights,
            now + service.settings.token_ms,
            credential,
        )
        token = service.tokens().issue(claims)
        rights = frozenset[str](grant.rights)
        server, wall = service.wire.server, service.clock.wall()
        return Welcome(server, claims.epoch, wall, token, claims.expires_ms, rights, admission=admission)

    def _note_client(self, key: MemberKey, release: str) -> None:
        """Remembers with which program a member speaks, and forgets it of those who are no longer here."""
        self.clients[key] = release
        present = self._service.state().fleet.members
        if len(self.clients) > 2 * len(present) + 100:
            self.clients = {known: name for known, name in self.clients.items() if known in present}

    async def _let_in(self, greeting: Greeting, caller: Caller, grant: Grant | None) -> Grant:
        if grant is None:
            shown = "a secret that is not known" if greeting.secret else "neither a secret nor a known certificate"
            problem = Refusal(
                "TOKEN_INVALID",
                f"{greeting.identity} showed {shown}",
                sides=(("from", caller.peer),),
                next_step="Set HALOCLINE_FLEET_SECRET, or use a certificate that the access file names.",
            )
            self._service.count_refusal(caller.peer, "handshake", problem)
            raise RejectedError(Rejection(problem))
        needed = rule_of("Handshake", greeting).right
        if needed not in grant.rights or not grant.speaks_for(greeting.identity):
            deed = needed if needed not in grant.rights else f"speak for {greeting.identity}"
            rejection = Rejection.of(denied(grant.name, deed, needed, grant.rights))
            self._service.count_refusal(greeting.identity, "handshake", rejection.refusal)
            raise RejectedError(rejection)
        return grant

    def _misfit(self, objections: tuple[Objection, ...], client: Peer) -> Rejection | None:
        if not objections:
            return None
        return Rejection(refusal(objections, client, self._service.wire.server), objections)

    def _too_far(self, greeting: Greeting) -> Rejection | None:
        ours = self._service.clock.wall()
        apart = greeting.clock_ms - ours
        allowed = self._service.settings.skew_ms
        if abs(apart) <= allowed:
            return None
        problem = Refusal(
            "CLOCK_SKEW",
            f"the clock of {greeting.identity} is {abs(apart) / 1000:,.0f} s {'ahead' if apart > 0 else 'behind'}",
            subject=greeting.identity,
            sides=(
                ("yours", str(greeting.clock_ms)),
                ("ours", str(self._service.clock.wall())),
                ("allowed", f"{allowed} ms"),
            ),
            next_step="Set the clock, for example with NTP.",
        )
        return Rejection(problem)

    def _too_late(self, greeting: Greeting) -> Rejection | None:
        """A life that claims to begin in the future would keep every later one out."""
        report, latest = greeting.membership, self._service.clock.wall() + self._service.settings.skew_ms
        if report is None or report.incarnation <= latest:
            return None
        message = f"incarnation {report.incarnation} of {greeting.identity} lies in the future"
        step = "Use the time at which the process started, in milliseconds since 1970."
        return Rejection(Refusal("ARGUMENT_INVALID", message, greeting.identity, next_step=step))

    async def _admit(self, join: Join, sighting: Sighting) -> Admission:
        for effect in await self._service.submit(join):
            if isinstance(effect, Admit):
                # Three heartbeats fit into a lease, so that two may be lost.
                return Admission(effect.sent, effect.lease, max(effect.lease // 3, 1), effect.announcements)
            if isinstance(effect, Refuse):
                self._saw(sighting, effect.refusal)
                self._service.metrics.refusals.labels("join", effect.refusal.condition).inc()
                if effect.refusal.condition == "INCOMPATIBLE_VERSION":
                    self._service.metrics.denied(effect.refusal.subject)
                raise RejectedError(Rejection(effect.refusal))
        raise self._service.elsewhere()

    def _saw(self, sighting: Sighting, problem: Refusal | None = None) -> None:
        outcome = problem.condition if problem else sighting.outcome
        self._service.decider.remember(replace(sighting, outcome=outcome))
        self._service.metrics.handshakes.labels(outcome).inc()
        if problem is not None:
            self._service.metrics.incompatible(sighting.release or sighting.client)

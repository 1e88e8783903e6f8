"""A link: one caller's way to a fleet, from the handshake on.

The caller says what it is, hears what the coordinator is, and judges that by itself. If either end refuses, the link
is *refused* for good: nothing more is sent over it. Otherwise the token from the handshake goes with every call; when
it has expired the handshake is done again. Of several coordinators the active one is found by asking, since the others
answer where it is.

A refusal that is about one life of a member, and not about what it runs, does not close the link: the member may come
back in another life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, TypeVar

import grpc

from halocline.errors import HaloclineError
from halocline.fleet.core.clock import Clock, SystemClock
from halocline.fleet.core.events import Join
from halocline.fleet.wire import messages
from halocline.fleet.wire.endpoint import Endpoint
from halocline.fleet.wire.handshake import Objection, Peer, Role, Wire, judge, refusal
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb
from halocline.fleet.wire.proto.v1.fleet_pb2_grpc import AdminStub, FleetStub
from halocline.fleet.wire.status import FailedCall, failed_call

DEADLINE: Final = 10.0
"""Seconds after which a call that was not answered has failed."""

_ABOUT_ONE_LIFE: Final = frozenset({"INCARNATION_ENDED", "INCARNATION_REPLAYED"})
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a handshake ended with.

    Args:
        server: The coordinator as it presented itself.
        epoch: Under which it acts.
        rights: What the caller may do.
        notes: What is worth knowing and decides nothing.
        skew_ms: By how much the coordinator's date is ahead of ours, as far as the answer's travel lets us know.
        expires_ms: When the token expires, by the coordinator's date.
        admission: Set if the caller was admitted as a member.
    """

    server: Peer
    epoch: int
    rights: frozenset[str]
    notes: tuple[str, ...]
    skew_ms: int
    expires_ms: int
    admission: pb.Admission | None


class LinkError(Exception):
    """A call failed; carries everything the answer said. Never leaves this package."""

    def __init__(self, failure: FailedCall) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


class Link:
    """One caller's way to a fleet.

    Args:
        endpoint: Where the fleet is, and what to be let in with.
        identity: Who calls.
        role: What it does, e.g. `reader` or `operator`.
        wire: What we speak; another release's to emulate it.
        clock: Where the time comes from.
        deadline: Seconds that a call may take.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        identity: str,
        role: str,
        *,
        wire: Wire | None = None,
        clock: Clock | None = None,
        deadline: float = DEADLINE,
    ) -> None:
        self.endpoint = endpoint
        self.identity = identity
        self.role = role
        self.deadline = deadline
        self.refused: HaloclineError | None = None
        self.agreement: Agreement | None = None
        self._wire = wire or Wire.current()
        self._clock = clock or SystemClock()
        self._lock = Lock()
        self._target = endpoint.targets[0]
        self._channel: grpc.Channel | None = None
        self._token = ""
        self._active = ""

    @property
    def address(self) -> str:
        """The coordinator that was called last."""
        return self._target

    def handshake(self, join: Join | None = None) -> Agreement:
        """Greets the active coordinator, and asks to be admitted if `join` is given.

        Raises:
            LinkError: Nobody could be reached, or either end refused.
        """
        self._stop_if_refused()
        request = self._request(join)
        kind = Role.MEMBER if join else Role.OPERATOR
        response = self._greet(request)
        server = messages.side(response.server)
        objections = judge(self._wire.client(kind), server, self._wire, kind)
        if objections:
            self._refuse_ourselves(objections, server, kind)
        self._token = response.token
        self.agreement = Agreement(
            server,
            response.epoch,
            frozenset(response.rights),
            tuple(response.notes),
            response.clock_ms - self._clock.wall(),
            response.token_expires_ms,
            response.admission if response.HasField("admission") else None,
        )
        return self.agreement

    def ask(
        self, call: Callable[[FleetStub, AdminStub, dict[str, Any]], _Answer], *, harmless: bool = False
    ) -> _Answer:
        """Makes a call with the token, after a handshake if there is none yet or it has expired.

        Args:
            call: Gets the stubs and the options to pass on: metadata and deadline.
            harmless: Whether the call may be made twice, if it is not known what became of the first.

        Raises:
            HaloclineError: The fleet refused, or was not reached.
        """
        try:
            if not self._token:
                self.handshake()
            try:
                return self._called(call)
            except LinkError as failed:
                expired = failed.failure.code is grpc.StatusCode.UNAUTHENTICATED
                if not (expired or "active" in failed.failure.hints or (harmless and failed.failure.transient)):
                    raise
                self.handshake()
                return self._called(call)
        except LinkError as failed:
            raise failed.failure.error from None

    def options(self) -> dict[str, Any]:
        """What goes with every call: the token, and a deadline."""
        self._stop_if_refused()
        return {"metadata": (("authorization", f"Bearer {self._token}"),), "timeout": self.deadline}

    def renew_token(self, token: str) -> None:
        """Uses a fresh token from now on."""
        self._token = token

    def stubs(self) -> tuple[FleetStub, AdminStub]:
        """The calls of the coordinator that the channel leads to."""
        with self._lock:
            if self._channel is None:
                self._channel = self.endpoint.channel(self._target)
            return FleetStub(self._channel), AdminStub(self._channel)

    def close(self) -> None:
        """Closes the channel; it is opened again when needed."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _greet(self, request: pb.HandshakeRequest) -> pb.HandshakeResponse:
        failed: LinkError | None = None
        for target in self._targets():
            if target != self._target:
                self.close()
                self._target = target
            try:
                fleet, _ = self.stubs()
                return fleet.Handshake(request, timeout=self.deadline)
            except grpc.RpcError as error:
                failed = LinkError(failed_call(error, target))
                self._active = failed.failure.hints.get("active", "")
                if not failed.failure.transient:
                    if failed.failure.error.condition not in _ABOUT_ONE_LIFE:
                        self.refused = failed.failure.error
                    raise failed from None
        self.close()
        assert failed is not None
        raise failed from None

    def _targets(self) -> Iterator[str]:
        """The coordinators to ask: the last one, then where it sends us, then the others."""
        asked = set()
        for target in (self._target, *self.endpoint.targets):
            if target not in asked:
                asked.add(target)
                yield target
            if self._active and self._active not in asked:
                asked.add(self._active)
                yield self._active

    def _request(self, join: Join | None) -> pb.HandshakeRequest:
        return pb.HandshakeRequest(
            client=messages.to_peer(self._wire.client(Role.MEMBER if join else Role.OPERATOR)),
            identity=self.identity,
            role=self.role,
            secret=self.endpoint.secret,
            clock_ms=self._clock.wall(),
            sent=join.sent if join else self._clock.now(),
            membership=messages.to_membership(join.report) if join else None,
        )

    def _refuse_ourselves(self, objections: tuple[Objection, ...], server: Peer, kind: Role) -> None:
        told_why = refusal(objections, self._wire.client(kind), server)
        self.refused = told_why.error()
        self.close()
        violations = tuple((str(each.kind), each.subject, each.text) for each in objections)
        code = grpc.StatusCode.FAILED_PRECONDITION
        raise LinkError(FailedCall(self.refused, code, told_why.subject, told_why.fix, violations=violations))

    def _stop_if_refused(self) -> None:
        if self.refused is not None:
            raise LinkError(FailedCall(self.refused, grpc.StatusCode.FAILED_PRECONDITION))

    def _called(self, call: Callable[[FleetStub, AdminStub, dict[str, Any]], _Answer]) -> _Answer:
        try:
            return call(*self.stubs(), self.options())
        except grpc.RpcError as error:
            raise LinkError(failed_call(error, self._target)) from None

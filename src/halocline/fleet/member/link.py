"""A link: one caller's connection to a fleet, from the handshake on.

The caller says what it is, hears what the coordinator is, and judges that by itself. If either end refuses, the link
is *refused* for good: nothing more is sent over it. Otherwise the token from the handshake goes with every call. Of
several coordinators the active one is found by asking, since the others answer where it is.

A refusal that is about one life of a member, and not about what it runs, does not close the link: the member may come
back in another life.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Any, Final, TypeVar

import grpc

from halocline.errors import HaloclineError
from halocline.fleet.core.clock import Clock, SystemClock
from halocline.fleet.core.events import Heartbeat, Join
from halocline.fleet.core.state import MemberKey
from halocline.fleet.wire import calls
from halocline.fleet.wire.calls import Call
from halocline.fleet.wire.endpoint import Endpoint
from halocline.fleet.wire.handshake import Objection, Peer, Role, Wire, judge, refusal
from halocline.fleet.wire.messages import session_message, to_heartbeat
from halocline.fleet.wire.session import Greeting, SessionMessage, Welcome
from halocline.fleet.wire.status import FailedCall, failed_call

DEADLINE: Final = 10.0
"""Seconds after which a call that was not answered has failed."""

_TRANSFER_S: Final = 600.0
"""The same for one that carries a backup."""

_SESSION_S: Final = 3600.0
"""Seconds after which a session ends by itself and both ends are checked again."""

_ABOUT_ONE_LIFE: Final = frozenset({"INCARNATION_ENDED", "INCARNATION_REPLAYED"})
_Q = TypeVar("_Q")
_A = TypeVar("_A")


class LinkError(Exception):
    """A call failed; carries everything the answer said. Never leaves this package."""

    def __init__(self, failure: FailedCall) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


class MemberSession:
    """An open session of a member: iterate to hear what the coordinator sends."""

    def __init__(self, call: Any, key: MemberKey, address: str) -> None:
        self._call = call
        self._key = key
        self._address = address

    def __iter__(self) -> Iterator[SessionMessage]:
        try:
            for data in self._call:
                message = session_message(self._key, data)
                if message is not None:
                    yield message
        except grpc.RpcError as error:
            raise LinkError(failed_call(error, self._address)) from None

    def cancel(self) -> None:
        """Ends the session at once."""
        self._call.cancel()


class Link:
    """One caller's connection to a fleet.

    Attributes:
        refused: Why nothing more is sent, once either end has refused.
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

    @property
    def greeted(self) -> bool:
        """Whether a handshake has given us a token."""
        return bool(self._token)

    def handshake(self, join: Join | None = None) -> Welcome:
        """Greets the active coordinator, and asks to be admitted if `join` is given."""
        self._stop_if_refused()
        kind = Role.MEMBER if join else Role.OPERATOR
        client, wall = self._wire.client(kind), self._clock.wall()
        sent, report, views = (join.sent, join.report, join.views) if join else (self._clock.now(), None, {})
        greeting = Greeting(client, self.identity, self.role, self.endpoint.secret, wall, sent, report, views)
        welcome = self._greet(calls.HANDSHAKE.request.encode(greeting))
        objections = judge(client, welcome.server, self._wire, kind)
        if objections:
            self._refuse_ourselves(objections, client, welcome.server)
        self._token = welcome.token
        return welcome

    def call(self, call: Call[_Q, _A], request: _Q, deadline: float | None = None, key: str = "") -> _A:
        """Makes a call with the token, once; a command with its key."""
        self._stop_if_refused()
        method: Any = self._open().unary_unary(call.path)
        return call.answer.decode(self._answered(method, call.request.encode(request), deadline, key))

    def download(self, call: Call[None, _A]) -> list[_A]:
        """Makes a call that is answered in pieces."""
        self._stop_if_refused()
        method: Any = self._open().unary_stream(call.path)
        pieces = self._answered(_listed(method), call.request.encode(None), _TRANSFER_S)
        return [call.answer.decode(piece) for piece in pieces]

    def upload(self, call: Call[_Q, _A], pieces: Iterator[_Q], key: str) -> _A:
        """Makes a call that is asked in pieces."""
        self._stop_if_refused()
        method: Any = self._open().stream_unary(call.path)
        return call.answer.decode(self._answered(method, map(call.request.encode, pieces), _TRANSFER_S, key))

    def session(self, key: MemberKey, beats: Iterator[Heartbeat]) -> MemberSession:
        """Opens the session of a member. The heartbeats are taken from another thread, as they come."""
        self._stop_if_refused()
        method: Any = self._open().stream_stream(calls.SESSION)
        call = method(map(to_heartbeat, beats), metadata=self._metadata(), timeout=_SESSION_S)
        return MemberSession(call, key, self._target)

    def renew_token(self, token: str) -> None:
        """Uses a fresh token from now on."""
        self._token = token

    def close(self) -> None:
        """Closes the channel; it is opened again when needed."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _open(self) -> grpc.Channel:
        with self._lock:
            if self._channel is None:
                self._channel = self.endpoint.channel(self._target)
            return self._channel

    def _metadata(self, key: str = "") -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self._token}"), *(((calls.KEY, key),) if key else ()))

    def _answered(self, method: Any, request: Any, deadline: float | None = None, key: str = "") -> Any:
        try:
            return method(request, metadata=self._metadata(key), timeout=deadline or self.deadline)
        except grpc.RpcError as error:
            raise LinkError(failed_call(error, self._target)) from None

    def _greet(self, request: bytes) -> Welcome:
        failed: LinkError | None = None
        for target in self._targets():
            if target != self._target:
                self.close()
                self._target = target
            try:
                method: Any = self._open().unary_unary(calls.HANDSHAKE.path)
                return calls.HANDSHAKE.answer.decode(method(request, timeout=self.deadline))
            except grpc.RpcError as error:
                failed = LinkError(failed_call(error, target))
                self._active = failed.failure.hints.get("active", "")
                if not failed.failure.later:
                    if failed.failure.error.condition not in _ABOUT_ONE_LIFE:
                        self.refused = failed.failure.error
                    raise failed from None
        self.close()
        assert failed is not None
        raise failed from None

    def _targets(self) -> Iterator[str]:
        """The coordinators to ask: the last one, then where it sends us, then the others."""
        tried = set()
        for target in (self._target, *self.endpoint.targets):
            if target not in tried:
                tried.add(target)
                yield target
            if self._active and self._active not in tried:
                tried.add(self._active)
                yield self._active

    def _refuse_ourselves(self, objections: tuple[Objection, ...], client: Peer, server: Peer) -> None:
        self.refused = refusal(objections, client, server).error()
        self.close()
        self._stop_if_refused()

    def _stop_if_refused(self) -> None:
        if self.refused is not None:
            raise LinkError(FailedCall(self.refused, grpc.StatusCode.FAILED_PRECONDITION))


def _listed(method: Any) -> Any:
    return lambda request, **options: list(method(request, **options))

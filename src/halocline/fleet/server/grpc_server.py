"""The gRPC side of a coordinator.

Calls arrive as bytes and are decoded here, so that garbage is refused like anything else: with a typed status, counted
and written down. Every call but the handshake needs a token. Every call has a deadline of our own, whatever the caller
set. Health checks say `SERVING` on the active coordinator only, so that load balancers follow it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from halocline.errors import DeniedError, HaloclineError, InputError, InternalError
from halocline.fleet.core.effects import Announce, Effect, Refusal, Refuse, Renew
from halocline.fleet.core.events import Leave
from halocline.fleet.core.state import MemberKey
from halocline.fleet.server.auth import Claims
from halocline.fleet.server.commands import LARGEST_IMPORT, OperatorCalls
from halocline.fleet.server.decider import RejectedError
from halocline.fleet.server.greeting import Caller, Greeter
from halocline.fleet.server.rights import check_call
from halocline.fleet.server.service import FleetService
from halocline.fleet.server.sessions import Session
from halocline.fleet.wire import calls
from halocline.fleet.wire.calls import SERVICES, Call, Chunk
from halocline.fleet.wire.endpoint import LARGEST_ANSWER, LARGEST_REQUEST
from halocline.fleet.wire.messages import heartbeat
from halocline.fleet.wire.session import FreshToken, SessionBegun
from halocline.fleet.wire.status import Rejection

_log = logging.getLogger(__name__)
_DEADLINE_S: Final = 15.0
_TRANSFER_S: Final = 600.0
_MOST_CALLS: Final = 50_000

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", LARGEST_REQUEST),
    ("grpc.max_send_message_length", LARGEST_ANSWER),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_ping_strikes", 5),
    # Who connects and says nothing, or has nothing under way, makes room for others; members have a session.
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 300_000),
    # Connections are renewed now and then, so that both ends are checked again and load moves.
    ("grpc.max_connection_age_ms", 3_600_000),
    ("grpc.max_connection_age_grace_ms", 10_000),
    ("grpc.max_concurrent_streams", 100),
    # Two coordinators on one port would each get half of the calls.
    ("grpc.so_reuseport", 0),
)

Context = Any
"""`grpc.aio.ServicerContext`, whose type parameters say nothing where messages are bytes."""


@dataclass(frozen=True, slots=True)
class Tls:
    """What a server shows, and what it asks of callers.

    Args:
        client_authority: File with the certificates that sign those of clients; then every client must show one.
    """

    certificate: Path
    key: Path
    client_authority: Path | None = None

    def files(self) -> dict[str, Any]:
        """The files as HTTP's server wants them."""
        files: dict[str, Any] = {"ssl_certfile": str(self.certificate), "ssl_keyfile": str(self.key)}
        if self.client_authority is not None:
            files |= {"ssl_ca_certs": str(self.client_authority), "ssl_cert_reqs": ssl.CERT_REQUIRED}
        return files

    def credentials(self) -> grpc.ServerCredentials:
        """The files as gRPC wants them; they are read again at every handshake."""
        return grpc.dynamic_ssl_server_credentials(self._read(), self._read_again, self.client_authority is not None)

    def _read(self) -> Any:
        try:
            pair = (self.key.read_bytes(), self.certificate.read_bytes())
            authority = self.client_authority.read_bytes() if self.client_authority else None
        except OSError as error:
            raise InputError(f"{error.filename} cannot be read: {error.strerror}") from error
        return grpc.ssl_server_certificate_configuration([pair], authority)

    def _read_again(self) -> Any:
        """The files as they are at a handshake; None, which leaves everything as it was, if they cannot be read."""
        try:
            return self._read()
        except InputError as error:
            _log.error("the former certificate stays in use: %s", error)
            return None


class FleetServer:
    """A service that can be called over gRPC."""

    def __init__(self, service: FleetService, listen: str, tls: Tls | None = None) -> None:
        self.service = service
        self.port = 0
        self._listen = listen
        self._tls = tls
        self._greeter = Greeter(service)
        self._commands = OperatorCalls(service, self._greeter)
        self._health: Any = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None
        self._background: set[asyncio.Task[Any]] = set()

    def bind(self) -> int:
        """Takes the port without answering yet."""
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=_MOST_CALLS)
        server.add_generic_rpc_handlers(tuple(self._handlers(name) for name in SERVICES))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection(
            (*SERVICES, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME), server
        )
        try:
            if self._tls is None:
                self.port = server.add_insecure_port(self._listen)
            else:
                self.port = server.add_secure_port(self._listen, self._tls.credentials())
        except RuntimeError as error:
            raise InputError(
                f"cannot listen on {self._listen}",
                sides={"problem": str(error)[:200]},
                next_step="Is another coordinator running there? Choose another address with --listen.",
            ) from error
        self._server = server
        return self.port

    async def start(self) -> None:
        """Begins to answer."""
        if self._server is None:
            self.bind()
        assert self._server is not None
        self.service.on_active.append(self._report_health)
        await self._set_health(self.service.active)
        await self._server.start()

    async def stop(self, grace: float = 1.0) -> None:
        """Ends all calls."""
        await self._health.enter_graceful_shutdown()
        self.service.sessions.end_all()
        if self._server is not None:
            await self._server.stop(grace)

    # Health.

    def _report_health(self, active: bool) -> None:
        task = asyncio.ensure_future(self._set_health(active))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _set_health(self, active: bool) -> None:
        serving = health_pb2.HealthCheckResponse.SERVING
        status = serving if active else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *SERVICES):
            await self._health.set(name, status)

    # Calls.

    def _handlers(self, service: str) -> grpc.GenericRpcHandler:
        unary = grpc.unary_unary_rpc_method_handler
        found: dict[str, Any] = {
            call.name: unary(partial(self._unary, call)) for call in calls.UNARY if call.service == service
        }
        if service == calls.EXPORT.service:
            found[calls.EXPORT.name] = grpc.unary_stream_rpc_method_handler(self._export)
            found[calls.IMPORT.name] = grpc.stream_unary_rpc_method_handler(self._import)
        else:
            found["Session"] = grpc.stream_stream_rpc_method_handler(self._session)
        return grpc.method_handlers_generic_handler(service, found)

    async def _unary(self, call: Call[Any, Any], request: bytes, context: Context) -> bytes:
        return await self._answered(call.name, context, lambda: self._called(call, request, context))

    async def _called(self, call: Call[Any, Any], request: bytes, context: Context) -> bytes:
        if call is calls.HANDSHAKE:
            caller = Caller(context.peer(), _names(context))
            return call.answer.encode(await self._greeter.greet(call.request.decode(request), caller))
        claims = self._claims(call.name, context)
        if call is calls.LEAVE:
            call.request.decode(request)
            await self.service.submit(Leave(claims.identity, claims.incarnation))
            return call.answer.encode(None)
        self._check_member(claims)
        return await self._commands.answer(call, request, claims, _metadata(context, calls.KEY))

    async def _answered(
        self, name: str, context: Context, called: Callable[[], Awaitable[bytes]], deadline: float = _DEADLINE_S
    ) -> bytes:
        """Makes a call, and turns whatever goes wrong into a status."""
        try:
            async with asyncio.timeout(deadline):
                result = await called()
        except Exception as problem:
            await self._refuse(name, context, problem)
        self.service.metrics.calls.labels(name, "OK").inc()
        return result

    async def _refuse(self, name: str, context: Context, problem: Exception) -> NoReturn:
        match problem:
            case TimeoutError():
                rejection = Rejection(Refusal("UNAVAILABLE", f"{name} took too long"))
            case RejectedError():
                rejection = problem.rejection
            case HaloclineError():
                rejection = Rejection.of(problem)
                if problem.condition in ("ARGUMENT_INVALID", "MALFORMED", "TOKEN_INVALID", "DENIED"):
                    self.service.count_refusal(context.peer(), name.lower(), rejection.refusal)
            case _:
                _log.error("%s failed, which is a bug", name, exc_info=problem)
                rejection = Rejection.of(InternalError(f"{name} failed; the coordinator's log says more"))
        self.service.metrics.calls.labels(name, rejection.code.name).inc()
        await _abort(context, rejection)
        raise AssertionError("abort always raises")

    async def _export(self, request: bytes, context: Context) -> None:
        async def called() -> bytes:
            self._claims("Export", context)
            calls.EXPORT.request.decode(request)
            async for piece in self._commands.export():
                await context.write(calls.EXPORT.answer.encode(Chunk(piece)))
            return b""

        await self._answered("Export", context, called, _TRANSFER_S)

    async def _import(self, _: Any, context: Context) -> bytes:
        async def called() -> bytes:
            claims = self._claims("Import", context)
            document, reason = bytearray(), ""
            while (piece := await context.read()) is not grpc.aio.EOF:
                chunk = calls.IMPORT.request.decode(piece)
                reason = reason or chunk.reason
                document += chunk.data
                if len(document) > LARGEST_IMPORT:
                    raise InputError(f"an import has at most {LARGEST_IMPORT:,} bytes")
            key = _metadata(context, calls.KEY)
            return calls.IMPORT.answer.encode(await self._commands.restore(bytes(document), reason, claims, key))

        return await self._answered("Import", context, called, _TRANSFER_S)

    # Sessions.

    async def _session(self, _: Any, context: Context) -> None:
        session: Session | None = None

        async def opened() -> bytes:
            nonlocal session
            session = self._open(context)
            await session.flush()
            return b""

        await self._answered("Session", context, opened)
        assert session is not None
        try:
            while not session.over:
                up = await context.read()
                if up is grpc.aio.EOF:
                    break
                await self._take(session, up, context)
        except asyncio.CancelledError:
            if not session.over:
                raise
            # We ended it ourselves. gRPC takes a cancelled handler for a caller that has gone and tells it nothing.
            current = asyncio.current_task()
            assert current is not None
            current.uncancel()
            refusal = Refusal("UNAVAILABLE", "the session was ended", next_step="Begin a new one.")
            await _abort(context, Rejection(refusal))
        finally:
            self.service.sessions.drop(session)

    async def _take(self, session: Session, up: bytes, context: Context) -> None:
        """Takes up a heartbeat. The answer comes by itself; only what cannot be taken up ends the session here."""
        try:
            self._beat(session, up)
        except (HaloclineError, RejectedError) as problem:
            await self._refuse("Heartbeat", context, problem)

    def _open(self, context: Context) -> Session:
        claims = self._claims("Session", context)
        if not claims.incarnation:
            raise InputError("only a member has a session", next_step="Make a handshake with a membership first.")
        task = asyncio.current_task()
        assert task is not None
        session = Session(claims, context.write, task.cancel)
        state = self.service.state()
        self.service.sessions.add(session)
        session.put(Announce(state.fleet.announcements()))
        session.put(SessionBegun(state.epoch))
        return session

    def _beat(self, session: Session, up: bytes) -> None:
        event = heartbeat(session.key, up)
        if session.too_fast(self.service.clock.now()):
            raise RejectedError(Rejection(Refusal("TOO_MANY", "heartbeats come too fast")))
        self.service.decider.beat(event, partial(self._answer, session))

    def _answer(self, session: Session, effects: tuple[Effect, ...] | None) -> None:
        if effects is None:
            session.end()
            return
        for effect in effects:
            if isinstance(effect, Renew):
                self.service.metrics.beats.inc()
                session.put(effect)
            elif isinstance(effect, Refuse):
                session.put(effect.refusal)
        self._refresh(session)
        self.service.sessions.flush_soon(session)

    def _refresh(self, session: Session) -> None:
        """Gives a member a fresh token once half of the old one's life is over."""
        claims, now, life = session.claims, self.service.clock.now(), self.service.settings.token_ms
        if claims.expires_ms - now > life // 2:
            return
        try:
            claims = self.service.authorised(claims)
        except DeniedError:
            session.end()
            return
        session.claims = replace(claims, epoch=self.service.coordinator.epoch, expires_ms=now + life)
        session.put(FreshToken(self.service.tokens().issue(session.claims), session.claims.expires_ms))

    def _check_member(self, claims: Claims) -> None:
        """A token that was given to a member is good for as long as that member is one."""
        member = self.service.state().fleet.members.get(MemberKey(claims.identity, claims.incarnation))
        older = member is not None and member.generation < self.service.state().fleet.generation
        if claims.incarnation and (member is None or member.removed or older):
            problem = f"{claims.identity} is no longer a member"
            raise DeniedError(problem, condition="TOKEN_INVALID", next_step="Join again.")

    def _claims(self, name: str, context: Context) -> Claims:
        """Who calls, if the token is good and gives the right that the call needs."""
        token = _metadata(context, "authorization").removeprefix("Bearer ")
        claims = self.service.authorised(self.service.tokens().check(token, self.service.clock.now()))
        check_call(claims, name)
        state = self.service.state()
        if claims.epoch > state.epoch:
            # Its token was given by a coordinator that came after us, and we have not noticed yet.
            raise self.service.elsewhere()
        return claims


async def _abort(context: Context, rejection: Rejection) -> None:
    status = rejection.status()
    await context.abort(status.code, status.details, status.trailing_metadata)


def _metadata(context: Context, name: str) -> str:
    """What the caller sent under that name beside its request."""
    return next((value for key, value in context.invocation_metadata() if key == name and isinstance(value, str)), "")


def _names(context: Context) -> tuple[str, ...]:
    """The names that the caller's certificate bears."""
    shown = context.auth_context()
    found = (*shown.get("x509_subject_alternative_name", ()), *shown.get("x509_common_name", ()))
    return tuple(name.decode(errors="replace") for name in found)

"""The HTTP side of a coordinator: metrics, health, and room for more.

Other parts mount their routes by giving them to `build_app`; each gets the service from `service_of(request)` and may
ask `require(request, right)` who is calling. Bodies are bounded before they are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import grpc
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from halocline.errors import DeniedError, HaloclineError, InputError
from halocline.fleet.server.auth import Right
from halocline.fleet.server.connections import Connections, origin_of
from halocline.fleet.server.decider import RejectedError
from halocline.fleet.server.metrics import CONTENT_TYPE
from halocline.fleet.server.rights import METRICS, RIGHTS
from halocline.fleet.server.service import FleetService
from halocline.fleet.wire.status import Rejection

_log = logging.getLogger(__name__)
LARGEST_BODY: Final = 1 << 20
_PATIENCE_S: Final = 10.0
_CODES: Final = {
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 503,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.UNAVAILABLE: 503,
}
"""What gRPC's codes are called here; everything else is a failure of our own."""


def build_app(service: FleetService, routes: Sequence[BaseRoute] = (), *, guarded: bool = False) -> Starlette:
    """An application for a service, with what other parts add; `guarded` if metrics are not for everyone to see."""
    app = Starlette(
        routes=[
            Route("/metrics", _metrics),
            Route("/health", _health),
            Route("/health/active", _active),
            *routes,
        ],
        exception_handlers={
            HaloclineError: _refused,
            RejectedError: _refused,
            HTTPException: _plain,
            Exception: _bug,
        },
    )
    app.state.service = service
    app.state.guarded = guarded
    return app


def service_of(request: Request) -> FleetService:
    """The service that a route belongs to."""
    service: FleetService = request.app.state.service
    return service


class AdmittedCaller(NamedTuple):
    """Who calls, for the audit log, and what it showed."""

    actor: str
    credential: str


async def require(request: Request, right: Right) -> str:
    """Return who calls, if it may."""
    return (await caller_of(request, right)).actor


async def caller_of(request: Request, right: Right) -> AdmittedCaller:
    """Return who calls, if it may: by a secret, or by a token from a handshake, as `Authorization: Bearer …`."""
    service = service_of(request)
    shown = request.headers.get("authorization", "").removeprefix("Bearer ")
    peer = request.client.host if request.client else "unknown"
    if shown.count(".") == 2:
        claims = service.authorised(service.tokens().check(shown, service.clock.now()))
        claims.require(right, f"do that ({right})")
        return AdmittedCaller(claims.actor, claims.credential)
    credential = service.access.credential(shown)
    grant = service.access.granted(credential)
    if grant is None or right not in grant.rights:
        condition = "TOKEN_INVALID" if grant is None else "DENIED"
        problem = DeniedError(f"{peer} may not do that", condition=condition, sides={"needed": right})
        service.count_refusal(peer, "http", Rejection.of(problem).refusal)
        raise problem
    return AdmittedCaller(peer if grant.name == "anonymous" else grant.name, credential)


async def body_of(request: Request) -> bytes:
    """The JSON that was sent, if it is not too large and arrives in time.

    Nothing else is taken, and nothing from a browser: a page can have it send forms and plain text to any address, and
    JSON to one whose name it has made its own.
    """
    if "origin" in request.headers:
        raise HTTPException(403, "nothing is taken from the page of a browser")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, f"expected application/json, not {kind[:40] or 'nothing'}")
    data = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE_S):
            async for piece in request.stream():
                data += piece
                if len(data) > LARGEST_BODY:
                    raise InputError(f"the body has more than {LARGEST_BODY:,} bytes")
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {_PATIENCE_S:g} s") from None
    return bytes(data)


async def _metrics(request: Request) -> Response:
    if request.app.state.guarded:
        await require(request, RIGHTS[METRICS])
    service = service_of(request)
    return Response(await service.read(lambda _: service.metrics.text()), headers={"content-type": CONTENT_TYPE})


async def _health(request: Request) -> Response:
    """Whether it leads, or follows with a store that it has just reached; and why not."""
    service = service_of(request)
    why = service.unready()
    facts = {
        "live": True,
        "ready": not why,
        "why": why,
        "active": service.active,
        "epoch": service.coordinator.epoch,
        "at": service.active_address,
    }
    return JSONResponse(facts, status_code=503 if why else 200)


async def _active(request: Request) -> Response:
    active = service_of(request).active
    return JSONResponse({"active": active}, status_code=200 if active else 503)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HaloclineError | RejectedError)
    rejection = error.rejection if isinstance(error, RejectedError) else Rejection.of(error)
    code, told = _CODES.get(rejection.code, 500), rejection.refusal.error().to_dict()
    if code == 500:
        _log.error("an HTTP call failed: %s", error)
    return JSONResponse({"error": told}, status_code=code, headers={"retry-after": "2"} if code == 503 else None)


async def _plain(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": {"message": error.detail}}, status_code=error.status_code, headers=error.headers)


async def _bug(_: Request, error: Exception) -> Response:
    _log.error("an HTTP call failed, which is a bug", exc_info=error)
    return JSONResponse({"error": {"condition": "INTERNAL_ERROR", "message": "see the log"}}, status_code=500)


class HttpServer:
    """Serves an application inside the running event loop."""

    def __init__(
        self, app: Callable[..., Awaitable[Any]], host: str, port: int, tls: Mapping[str, str] | None = None
    ) -> None:
        self.port = port
        files: dict[str, Any] = dict(tls or {})
        config = uvicorn.Config(
            app,
            http=_protocol(Connections()),
            **files,
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=30,
            h11_max_incomplete_event_size=64 * 1024,
        )
        self._server = _Quiet(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to answer."""
        # The socket is ours: where uvicorn cannot have one, it would end the whole process.
        listening = self._bound()
        self.port = listening.getsockname()[1]
        self._task = asyncio.ensure_future(self._server.serve(sockets=[listening]))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.01)

    def _bound(self) -> socket.socket:
        config = self._server.config
        family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
        listening = socket.socket(family)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((config.host, config.port))
        except OSError as error:
            listening.close()
            raise InputError(
                f"cannot listen on {config.host}:{config.port}",
                sides={"problem": error.strerror or str(error)},
                next_step="Choose another address with --http, or none with --http off.",
            ) from error
        return listening

    def reload(self) -> None:
        """Shows the certificate as it is on disk now to whoever connects from now on.

        An authority of clients is added, not taken away: what its certificates may do is for the access file to say.
        """
        config = self._server.config
        if config.ssl is not None:
            config.ssl.load_cert_chain(str(config.ssl_certfile), config.ssl_keyfile)
            if config.ssl_ca_certs:
                config.ssl.load_verify_locations(config.ssl_ca_certs)

    async def stop(self) -> None:
        """Ends all calls."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task


def _protocol(connections: Connections) -> Any:
    """What makes the protocol of a connection; for uvicorn the protocol itself."""
    return partial(_Impatient, connections=connections)


class _Impatient(H11Protocol):
    """Cuts off whoever does not finish the head of a request, does not read what it asked for, or has too many.

    Their connections would otherwise be kept until there are too many to answer others.
    """

    _waiting: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self._open = connections
        self._address = ""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._address = origin_of(str((transport.get_extra_info("peername") or ("",))[0]))
        self._wait()
        self._open.add(self._address, self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.drop(self._address, self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.is_idle:
            self._wait()

    def on_response_complete(self) -> None:
        self._open.answered(self._address, self)
        super().on_response_complete()

    def cut(self) -> None:
        """Ends the connection at once."""
        self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(_PATIENCE_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(_PATIENCE_S, self._cut)

    def _cut(self) -> None:
        self._waiting = None
        if self.is_idle and not self.transport.is_closing():
            self.transport.close()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or bool(self.cycle.response_complete)


class _Quiet(uvicorn.Server):
    """Leaves signals to the process that it is a part of."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield

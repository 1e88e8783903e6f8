"""Running a coordinator: store, service, gRPC and HTTP in one process.

`Hosting` is what `halocline serve` runs. `embedded` runs the same in a thread of another program, for tests, notebooks
and demonstrations.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import os
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from starlette.routing import BaseRoute

from halocline.addresses import Address
from halocline.errors import InputError, UnavailableError
from halocline.fleet.core.clock import Clock, SystemClock
from halocline.fleet.core.events import DeclareLadder
from halocline.fleet.core.ladder_state import Policy
from halocline.fleet.core.ladders import shipped
from halocline.fleet.core.state import FleetTerms
from halocline.fleet.server.auth import Access
from halocline.fleet.server.coordinator import Coordinator
from halocline.fleet.server.grpc_server import FleetServer, Tls
from halocline.fleet.server.http import HttpServer, build_app
from halocline.fleet.server.lineage import routes as lineage_routes
from halocline.fleet.server.service import FleetService, ServiceSettings
from halocline.fleet.store import AuditArchive, FleetStore, open_fleet_store
from halocline.fleet.wire.endpoint import DEFAULT_PORT
from halocline.fleet.wire.handshake import Wire

_log = logging.getLogger(__name__)
_WATCH_S: Final = 1.0
_SWITCH_S: Final = 0.001
_MOST_FILES: Final = 65_536
Routes = Callable[[FleetService], Sequence[BaseRoute]]


@dataclass(frozen=True, slots=True)
class Config:
    """How to run a coordinator.

    Args:
        store: A file for SQLite, or a URL of PostgreSQL; kept as an address, which shows no password.
        listen: `host:port` for gRPC; port 0 for any that is free.
        http: `host:port` for HTTP, or nothing to leave it out.
        advertise: Where others reach us, if that is not where we listen.
        access: Who is let in, or the file that says so; every client if not given, which only loopback allows.
        tls: What to show and to ask; in the clear if not given, which only the loopback address allows.
        insecure: Allow other addresses without access or TLS, because something else takes care of it.
        policy: What makes levels rise in a new fleet.
        terms: What a new fleet agrees on.
        ladders: The ladders that every fleet has; those of the table formats if not given.
        settings: How the service behaves.
        wire: What we speak; another release's to emulate it.
        audit_archive: The file that takes decisions before the store forgets them; beside a SQLite file, or in the
            current folder, if not given.
        routes: What other parts add to HTTP; the lineage of those who never call if not given.
    """

    store: str | Address = "halocline-fleet.db"
    listen: str = f"127.0.0.1:{DEFAULT_PORT}"
    http: str = f"127.0.0.1:{DEFAULT_PORT + 1}"
    advertise: str = ""
    access: Access | Path | None = None
    tls: Tls | None = None
    insecure: bool = False
    policy: Policy = Policy.MANUAL
    terms: FleetTerms | None = None
    ladders: tuple[DeclareLadder, ...] | None = None
    settings: ServiceSettings = field(default_factory=ServiceSettings)
    wire: Wire | None = None
    routes: Routes | None = lineage_routes
    audit_archive: Path | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "store", Address.parse(self.store))
        places = [each for each in (self.listen, self.http) if each]
        public = next((each for each in places if not _is_loopback(address(each)[0])), None)
        if public is None or self.insecure:
            return
        if self.tls is None:
            raise InputError(
                f"{public} can be reached from other machines, and nothing would be encrypted",
                next_step="Give --tls-cert and --tls-key, or --insecure if something else encrypts.",
            )
        if self.access is None:
            raise InputError(
                f"{public} can be reached from other machines, and every client could do everything",
                next_step="Give --access FILE, or --insecure if something else decides who gets here.",
            )


class Hosting:
    """A running coordinator."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, config: Config, *, clock: Clock | None = None, store: FleetStore | None = None) -> None:
        self.config = config
        self.port = 0
        self.http_port = 0
        self._clock = clock or SystemClock()
        self._store = store
        self._grpc: FleetServer | None = None
        self._http: HttpServer | None = None
        self._watching: asyncio.Future[None] | None = None
        self.service: FleetService = None  # type: ignore[assignment]

    async def start(self) -> None:
        """Opens the store, takes the ports, and begins to answer."""
        config = self.config
        self.loop = asyncio.get_running_loop()
        if self._store is None:
            self._store = await asyncio.to_thread(open_fleet_store, config.store)
        store = self._store
        wire = config.wire or Wire.current()
        ladders = config.ladders
        if ladders is None:
            ladders = tuple(DeclareLadder(each.ladder, "halocline", None, config.policy) for each in shipped().values())
        coordinator = Coordinator(
            store,
            self._clock,
            name=f"{socket.gethostname()}/{os.getpid()}/{token_hex(4)}",
            address="",
            ladders=ladders,
            provides=frozenset(wire.server.provides),
            terms=config.terms,
        )
        access = Access.load(config.access) if isinstance(config.access, Path) else config.access or Access.open()
        settings = config.settings
        if settings.archive is None and (file := config.audit_archive or store.archive_file()) is not None:
            settings = replace(settings, archive=AuditArchive(file))
        self.service = FleetService(coordinator, access=access, wire=wire, settings=settings)
        self._grpc = FleetServer(self.service, config.listen, config.tls)
        self.port = self._grpc.bind()
        coordinator.address = config.advertise or _outward(config.listen, self.port)
        await self.service.start()
        await self._grpc.start()
        if config.http:
            host, port = address(config.http)
            routes = config.routes(self.service) if config.routes else ()
            public = not _is_loopback(host)
            app = build_app(self.service, routes, guarded=public and config.access is not None)
            self._http = HttpServer(app, host, port, config.tls.files() if public and config.tls else None)
            await self._http.start()
            self.http_port = self._http.port

        access_file = [config.access] if isinstance(config.access, Path) else []
        if watched := [*access_file, *((config.tls.certificate, config.tls.key) if config.tls else ())]:
            self._watching = asyncio.ensure_future(self._watch(watched))

    def reload(self) -> None:
        """Reads access and certificates again; if they cannot be read, what was said before stays."""
        if self._http is not None:
            try:
                self._http.reload()
            except (OSError, ssl.SSLError) as error:
                _log.error("the former certificate stays in use: %s", error)
        if isinstance(self.config.access, Path):
            try:
                self.service.change_access(Access.load(self.config.access))
                _log.info("access was read again from %s", self.config.access)
            except InputError as error:
                _log.error("access stays as it was: %s", error)

    async def _watch(self, files: Sequence[Path]) -> None:
        """Reads files again when one has changed."""
        before = [_stamp(each) for each in files]
        while True:
            await asyncio.sleep(_WATCH_S)
            if (now := [_stamp(each) for each in files]) != before:
                before = now
                self.reload()

    async def stop(self) -> None:
        """Stops answering, gives up the lease, and closes the store."""
        if self._watching is not None:
            self._watching.cancel()
        if self._http is not None:
            await self._http.stop()
        if self._grpc is not None:
            await self._grpc.stop()
        if self.service is not None:
            await self.service.stop()
        if self._store is not None:
            await asyncio.to_thread(self._store.close)

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"{'grpcs' if self.config.tls else 'grpc'}://{_outward(self.config.listen, self.port)}"

    @property
    def http_address(self) -> str:
        """Where HTTP is spoken; nothing if it is not."""
        public = self.config.http and not _is_loopback(address(self.config.http)[0])
        scheme = "https" if public and self.config.tls else "http"
        return f"{scheme}://{_outward(self.config.http, self.http_port)}" if self.http_port else ""


def devote(hosting: Hosting) -> None:
    """Sets the interpreter of a process that does nothing but host, once it has started.

    What was read when it took over stays for long, so the collector need not look through it again and again; and
    threads that work out answers give way to heartbeats sooner than is usual. Each connection takes a file: with few of
    them callers who merely connect would keep all others out, so we take as many as the system lets us have.
    """
    _allow_files()
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(10_000, 20, 50)
    gc.freeze()
    hosting.service.on_active.append(lambda active: gc.freeze() if active else None)


def _allow_files() -> None:
    try:
        import resource
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    # Some systems say that there is no limit, and have one.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST_FILES if hard == resource.RLIM_INFINITY else hard, hard))


def address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535 or not host:
        raise InputError(f"{text[:100]!r} is no address", sides={"expected": "host:port"})
    return host.strip("[]"), int(port)


def _outward(listen: str, port: int) -> str:
    """Where others reach what listens there: an address that stands for all of a machine's is none to call."""
    host = address(listen)[0]
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"{shown}:{port}"


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def embedded(config: Config | None = None, **options: Any) -> Iterator[Hosting]:
    """Runs a coordinator in a thread of this process for the length of a `with` block.

    Without a configuration it keeps nothing: the store is in memory and the ports are any that are free.

    Example:
        >>> with embedded() as hosting:
        ...     hosting.address.startswith("grpc://127.0.0.1:")
        True
    """
    chosen = config or Config(store=":memory:", listen="127.0.0.1:0", http="127.0.0.1:0")
    hosting = Hosting(chosen, **options)
    ready = threading.Event()
    problem: list[BaseException] = []
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        over = asyncio.Event()
        loops.append((asyncio.get_running_loop(), over))
        try:
            await hosting.start()
            ready.set()
            await over.wait()
        except BaseException as error:
            problem.append(error)
        finally:
            ready.set()
            await hosting.stop()

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="halocline-coordinator", daemon=True)
    thread.start()
    ready.wait(30)
    if problem:
        thread.join(10)
        raise problem[0]
    try:
        yield hosting
    finally:
        loop, over = loops[0]
        loop.call_soon_threadsafe(over.set)
        thread.join(15)
        if thread.is_alive():
            raise UnavailableError("the embedded coordinator did not stop")

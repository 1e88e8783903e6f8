"""Belonging to a fleet: how a driver becomes a member, and what it asks of its fleet.

`connect` gives a `FleetHandle`. With an address the driver greets the fleet, joins it, keeps its lease alive in the
background, reports which tables it reads and writes, and stands in front of its tables as their gatekeeper. Without one
it works alone: every gate is open, and the tables decide by their protocol. A Spark session with
`spark.halocline.fleet=grpc://host:port` does the same when the first table is opened with it, once per process.

Promise: a gate is closed until this member has heard that it is open, and when its lease has run out. One operation
asks one snapshot, so that it does not change its mind half-way. While the fleet is not reached, reads and writes go on,
nothing new is switched on, and the error says since when.

Limits: the driver is the member; executors do nothing and open no channel. A lease is checked before acting, and a
process can stall between the two: then the table's own commit stops it.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from halocline.compat.release import Release
from halocline.errors import InputError, needs_extra
from halocline.fleet.core.ladders import supported_by
from halocline.fleet.core.state import LevelRange, Report, fitted_identity
from halocline.fleet.member.handle import FleetHandle
from halocline.formats.log.gate import UNCHECKED, own_release
from halocline.spark.session.settings import FleetRole, Settings
from halocline.table import gatekeeper as front
from halocline.table.gatekeeper import ALONE, Gatekeeper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_WAIT_S: Final = 10.0
_WAIT_ON_OPENING_S: Final = 3.0
_DOES: Final = {"reader": ("read",), "writer": ("read", "write")}
_once = Lock()
_sources: dict[tuple[str, str, str, str], FleetHandle] = {}


def connect(
    address: str | None = None,
    *,
    name: str | None = None,
    release: str | None = None,
    role: str = "writer",
    spark: SparkSession | None = None,
    token: str = "",
    supported: Mapping[str, tuple[int, int]] | None = None,
    features: Iterable[str] = (),
    install: bool = True,
    wait: float = _WAIT_S,
) -> FleetHandle:
    """Makes this process a member of a fleet, or lets it work alone.

    Args:
        address: `grpc://host:port`, `grpcs://` for TLS; what the session says if left out; alone if neither does.
        name: Who this is, the same across restarts; made of the application's name if left out.
        release: What works on tables, e.g. `deltalake@1.0.2` to be taken for it; this release of Halocline if left out.
        role: `reader`, or `writer`, who also reads.
        spark: The session whose settings count.
        token: The secret to be let in with; `HALOCLINE_FLEET_SECRET` if left out. Files for TLS are named there, too.
        supported: Ranges of levels on ladders of your own, as (lowest, highest); those of the formats are known.
        features: What this process provides, where levels of your own ladders ask for it.
        install: Whether to stand in front of every table of the process; if not, see `FleetHandle.acting`.
        wait: Seconds to wait for the fleet. If it is not reached by then, the member goes on trying in the background.

    Raises:
        IncompatibleError: The fleet does not admit this release; the error names what it lacks and what would do.
        DeniedError: The fleet does not let us in.
        InputError: A name, release or address cannot be one.

    Example:
        >>> with connect(name="notebook") as fleet:
        ...     fleet.alone, fleet.gate("delta", 4), fleet.level("delta")
        (True, True, None)
    """
    where = address or Settings.read(spark=spark).fleet
    runs = str(Release.exact(release)) if release is not None else str(own_release())
    who = name or _name(spark)
    if where is None:
        return FleetHandle(who, runs)
    ranges = {ladder: LevelRange(*levels) for ladder, levels in (supported or {}).items()}
    report = _report(who, runs, role, ranges, frozenset(features))
    joined = _joined(where, report, token, install, wait)
    if install:
        _register(spark, Settings(fleet=where, fleet_name=who, fleet_role=FleetRole(role)), joined)
    return joined


def join_once(settings: Settings, release: str, spark: SparkSession | None, short_lived: bool) -> Gatekeeper | None:
    """Joins the fleet that settings name, unless this process has a gatekeeper already.

    Called when a table is opened. Inside a task of Spark nothing happens. The processes in which Spark plans and
    commits for a data source serve one session after the other. Each is a member of its own, for as long as it is asked
    for the same fleet, and leaves a trace under the application's name.

    Returns:
        The gatekeeper of a process of a data source; None where it is installed in front of all tables.
    """
    if _inside_task() or settings.fleet is None:
        return None
    runs = str(own_release()) if release == str(UNCHECKED) else release
    who = settings.fleet_name or _name(spark)
    with _once:
        if short_lived:
            return _of_source(settings.fleet, who, runs, settings.fleet_role)
        if front.installed() is ALONE:
            joined = _joined(settings.fleet, _report(who, runs, settings.fleet_role), "", True, _WAIT_ON_OPENING_S)
            _register(spark, replace(settings, fleet_name=who), joined)
    return None


def _of_source(address: str, name: str, release: str, role: str) -> Gatekeeper:
    """The member that a process of a data source is, which changes with what it is asked for."""
    asked = (address, name, release, role)
    if asked not in _sources:
        while _sources:
            _sources.popitem()[1].close()
        trace = f"{name}.source"
        report = _report(f"{trace}.{os.getpid()}", release, role)
        _sources[asked] = _joined(address, report, "", False, _WAIT_ON_OPENING_S, trace)
    return _sources[asked].gatekeeper


def _register(spark: SparkSession | None, settings: Settings, joined: FleetHandle) -> None:
    """Makes the data source of a session part of the fleet, too: Spark runs it in processes of its own.

    Whoever cannot be served by it has not connected, so the member leaves again.
    """
    if spark is not None:
        from halocline.source.data_source import register

        try:
            register(spark, settings)
        except BaseException:
            joined.close()
            raise


def _report(
    name: str,
    release: str,
    role: str,
    ranges: Mapping[str, LevelRange] | None = None,
    features: frozenset[str] = frozenset(),
) -> Report:
    """What this process says about itself. A build that was not released says so, and raises no level by itself."""
    if role not in _DOES:
        raise InputError.unknown(f"{role!r} is no role of a member", role, _DOES)
    supported = supported_by(release, _DOES[role]) | dict(ranges or {})
    unreleased = Release.exact(release).version.is_pre_release
    return Report(name, 0, release, role, supported, features, development=unreleased)


def _joined(address: str, report: Report, token: str, install: bool, wait: float, trace: str = "") -> FleetHandle:
    with needs_extra("the fleet's client", "fleet"):
        from halocline.fleet.member.gatekeeper import FleetGatekeeper
        from halocline.fleet.member.loop import MemberLoop
        from halocline.fleet.wire.endpoint import Endpoint
    endpoint = Endpoint.from_environment(address)
    if token:
        endpoint = replace(endpoint, secret=token)
    member = MemberLoop(endpoint, report, on_change=lambda _: keeper.forget_refusals())
    keeper = FleetGatekeeper(member, str(endpoint), trace)
    handle = FleetHandle(report.identity, report.release, keeper)
    try:
        if not member.start(wait):
            _log.warning(
                "the fleet at %s is not reached; going on without it, and nothing new is switched on", endpoint
            )
    except BaseException:
        handle.close()
        raise
    if install:
        handle.install()
    return handle


def _setting(spark: SparkSession | None, key: str) -> str | None:
    value: Any = None if spark is None else spark.conf.get(key, None)
    return value or None


def _name(spark: SparkSession | None) -> str:
    app, run = _setting(spark, "spark.app.name"), _setting(spark, "spark.app.id")
    told = f"{app}.{run}" if app and run else f"{socket.gethostname()}:{os.getpid()}"
    return fitted_identity(told, "driver")


def _inside_task() -> bool:
    try:
        from pyspark import TaskContext
    except ImportError:
        return False
    return TaskContext.get() is not None

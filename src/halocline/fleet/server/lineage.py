"""Lineage: those who never call, reported by the OpenLineage events that their engines send.

An engine with an OpenLineage integration posts a *run event* for every job: which datasets it read and wrote, and in a
facet of the run, `processing_engine`, what runs it. Pointing an existing configuration at a coordinator's
`/api/v1/lineage` is all it takes; the job becomes a member of the fleet that counts until it has not been seen for a
while.

An engine that is a product itself (Trino) is a fact, with provenance `observed`. Where the event names only the engine
around the library that matters (Spark, not its Delta library), the possible range of that library is worked out from
which releases go together, the lowest of them stands for the job, and the provenance is `inferred`.

Datasets become tables by their namespace and name. Which are tables, and of which format, is told by the facets
`storage` and `catalog`, or known because the fleet has seen that table before; all other datasets are left out, and the
answer counts them.

Limits: an event says what an engine chose to tell. Reads by path are sometimes missing from events, and so are change
feeds. Events are bounded in size, in datasets and in the length of names.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from halocline.compat.features import FORMATS
from halocline.compat.release import Release
from halocline.errors import HaloclineError, InputError
from halocline.fleet.core.effects import Refuse
from halocline.fleet.core.state import Fleet, Provenance, TableUse
from halocline.fleet.server.decider import RejectedError
from halocline.fleet.server.http import body_of, caller_of, service_of
from halocline.fleet.server.rights import LINEAGE, RIGHTS
from halocline.fleet.server.service import FleetService
from halocline.fleet.usage.traces import UsageTrace, identity_of
from halocline.fleet.wire import messages
from halocline.fleet.wire.status import Rejection
from halocline.spans import Span
from halocline.storage.location import public_url
from halocline.storage.services import SERVICES
from halocline.versions import Version

PATH: Final = "/api/v1/lineage"
_MOST_DATASETS: Final = 256
_MOST_LINKS: Final = 16
_UNKNOWN: Final = "unknown@0"

LadderOf = Callable[[str], str | None]
"""The ladder of a table that is known already; None for one that is not."""


class _Named(msgspec.Struct):
    namespace: str = ""
    name: str = ""
    facets: dict[str, Any] = msgspec.field(default_factory=dict)


class _Run(msgspec.Struct, rename="camel"):
    run_id: str = ""
    facets: dict[str, Any] = msgspec.field(default_factory=dict)


class RunEvent(msgspec.Struct, rename="camel"):
    """What is used of a run event; everything else in it is ignored."""

    event_time: datetime
    run: _Run
    job: _Named
    event_type: str = ""
    inputs: list[_Named] = msgspec.field(default_factory=list)
    outputs: list[_Named] = msgspec.field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LineageReport:
    """What an event was understood to say.

    Args:
        release_range: The lowest and the highest release that the job can be running, for people.
    """

    trace: UsageTrace | None
    ignored: int
    release_range: str


def parse(body: bytes) -> RunEvent:
    """A run event from the bytes of its JSON."""
    try:
        event = msgspec.json.decode(body, type=RunEvent)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            "this is no OpenLineage run event",
            sides={"problem": str(error)[:200], "expected": "a JSON object with eventTime, run and job"},
        ) from None
    if event.event_time.tzinfo is None:
        raise InputError("the eventTime of a run event needs a time zone", sides={"given": str(event.event_time)})
    if len(event.inputs) + len(event.outputs) > _MOST_DATASETS:
        raise InputError(
            "the run event names too many datasets",
            sides={"given": str(len(event.inputs) + len(event.outputs)), "at most": str(_MOST_DATASETS)},
        )
    return event


def understood(event: RunEvent, now_ms: int, ladder_of: LadderOf = lambda _: None) -> LineageReport:
    """What an event says about who uses which tables.

    Example:
        >>> event = parse(b'''{"eventTime": "2026-11-15T06:00:00Z", "job": {"namespace": "prod", "name": "load"},
        ...     "run": {"runId": "1", "facets": {"processing_engine": {"name": "spark", "version": "3.5.1"}}},
        ...     "inputs": [{"namespace": "s3://lake", "name": "orders",
        ...                 "facets": {"storage": {"storageLayer": "delta"}}}]}''')
        >>> found = understood(event, 1_800_000_000_000)
        >>> found.trace.release, found.release_range, [use.table for use in found.trace.uses]
        ('delta-spark@3.0.0', 'delta-spark 3.0.0 to 3.3.2', ['s3://lake/orders'])
    """
    release, provenance, shown = _release(event)
    uses = set[TableUse]()
    ignored = 0
    for operation, datasets in (("read", event.inputs), ("write", event.outputs)):
        for dataset in datasets:
            found = _table(dataset, ladder_of)
            ignored += found is None
            uses |= {TableUse(*found, operation)} if found else set()
    if not uses:
        return LineageReport(None, ignored, shown)
    seen = min(int(event.event_time.timestamp() * 1000), now_ms)
    writes = any(use.operation == "write" for use in uses)
    identity = identity_of(event.job.name or event.run.run_id, event.job.namespace)
    trace = UsageTrace(identity, release, provenance, seen, frozenset(uses), "writer" if writes else "reader")
    return LineageReport(trace, ignored, shown)


def routes(_: FleetService) -> Sequence[BaseRoute]:
    """The route that takes events, for `halocline.fleet.server.http.build_app`."""
    return (Route(PATH, _post, methods=["POST"]),)


async def _post(request: Request) -> Response:
    caller = await caller_of(request, RIGHTS[LINEAGE])
    service = service_of(request)
    body, fleet, now = await body_of(request), service.state().fleet, service.clock.wall()
    # In another thread: whatever an event makes us do, heartbeats go on.
    reading = await service.read(lambda _: understood(parse(body), now, _known_ladders(fleet)))
    if reading.trace is not None:
        service.access.check_speaks_for(caller.credential, reading.trace.identity, caller.actor)
        for effect in await service.submit(reading.trace.event(caller.actor)):
            if isinstance(effect, Refuse) and effect.incarnation is None:
                raise RejectedError(Rejection(effect.refusal))
    return JSONResponse(_answer(reading), status_code=201)


def _answer(reading: LineageReport) -> dict[str, Any]:
    trace = reading.trace
    return {
        "member": trace.identity if trace else None,
        "release": reading.release_range,
        "provenance": str(trace.provenance) if trace else None,
        "tables": sorted({use.table for use in trace.uses}) if trace else [],
        "ignored": reading.ignored,
    }


def _known_ladders(fleet: Fleet) -> LadderOf:
    """The ladders of the tables that the fleet has heard of; it is looked through once for an event, if at all."""

    @cache
    def known() -> dict[str, str]:
        used = {use.table: use.ladder for each in fleet.members.values() for use in each.report.tables}
        return used | dict(fleet.tables.keys())

    return lambda table: known().get(table)


# What an engine runs.


@dataclass(frozen=True, slots=True)
class _Line:
    versions: Span
    library: str
    first: str
    last: str


@cache
def _engines() -> dict[str, tuple[str, tuple[_Line, ...]]]:
    text = resources.files("halocline.fleet.core").joinpath("data", "engines.toml").read_text(encoding="utf-8")
    return {
        each["name"]: (
            each.get("product", ""),
            tuple(
                _Line(Span.parse(line["versions"]), line["library"], line["first"], line["last"])
                for line in each.get("line", ())
            ),
        )
        for each in tomllib.loads(text)["engine"]
    }


def _release(event: RunEvent) -> tuple[str, Provenance, str]:
    """What a job runs: the lowest release that it can be, how sure that is, and the range for people."""
    facet = event.run.facets.get("processing_engine")
    told = facet if isinstance(facet, dict) else {}
    name, text = str(told.get("name", "")).strip().lower(), str(told.get("version", "")).strip()
    version = Version.parse(text)
    product, lines = _engines().get(name, ("", ()))
    if product and version.known:
        release = str(Release(product, version))[: messages.LONGEST_RELEASE]
        return release, Provenance.OBSERVED, release
    line = next((each for each in lines if version.known and version in each.versions), None)
    if line is not None:
        shown = f"{line.library} {line.first}" + ("" if line.first == line.last else f" to {line.last}")
        return f"{line.library}@{line.first}", Provenance.INFERRED, shown
    return _UNKNOWN, Provenance.INFERRED, f"unknown: {name or 'no engine'} {text}".strip()[:100]


# Which tables.


def _table(dataset: _Named, ladder_of: LadderOf) -> tuple[str, str] | None:
    """The place and ladder of a dataset that is a table."""
    told = _format(dataset)
    for place in _places(dataset):
        try:
            table = messages.table_url(public_url(place))
        except HaloclineError:
            continue
        ladder = told or ladder_of(table)
        if ladder is not None:
            return table, ladder
    return None


def _format(dataset: _Named) -> str | None:
    for facet, key in (("storage", "storageLayer"), ("catalog", "framework")):
        told = dataset.facets.get(facet)
        named = str(told.get(key, "")).lower() if isinstance(told, dict) else ""
        if named in FORMATS:
            return named
    return None


def _places(dataset: _Named) -> Iterator[str]:
    yield from _place(dataset.namespace, dataset.name)
    links = dataset.facets.get("symlinks")
    identifiers = links.get("identifiers") if isinstance(links, dict) else ()
    listed = _dicts(identifiers)
    if len(listed) > _MOST_LINKS:
        raise InputError(f"{dataset.name[:40]!r} has {len(listed):,} symlinks", sides={"at most": str(_MOST_LINKS)})
    for each in listed:
        yield from _place(str(each.get("namespace", "")), str(each.get("name", "")))


def _dicts(values: Any) -> list[dict[str, Any]]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _place(namespace: str, name: str) -> Iterator[str]:
    """OpenLineage's naming: `file` and a path, or the bucket's URL and a key."""
    if namespace in ("file", "file:", "file://") and name.startswith("/"):
        yield name
    elif namespace.partition("://")[0].lower() in SERVICES and "://" in namespace and name.strip("/"):
        yield f"{namespace.rstrip('/')}/{name.strip('/')}"

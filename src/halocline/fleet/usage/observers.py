"""Observing who writes a table, from the history that the table keeps itself.

Writers of Delta tables name themselves in what they commit: `commitInfo` holds the engine and its version. Every
release that is named there becomes a trace of its own for that table, so that a table which two releases write shows
both, and each is forgotten on its own when it has not been seen for long enough. Hudi's commits have no place for a
name, and those of IndexTables4Spark have none. There, the lowest release that writes the table's version is *inferred*:
the writer runs that or a later one.

The limit: readers leave nothing in a history, and commits that name no writer stay anonymous;
`ObservedWriters.unnamed` counts them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from halocline.compat.knowledge import Knowledge
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.verdict import can
from halocline.fleet.core.state import Provenance, TableUse
from halocline.fleet.usage.traces import UsageTrace, identity_of
from halocline.formats.base import TableFormat, detect_format
from halocline.formats.delta.snapshot.inspection import writers
from halocline.formats.hudi.properties import properties, table_version
from halocline.formats.hudi.timeline.timeline import active_writes
from halocline.formats.index.history import writers_of
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.protocol import LEGACY
from halocline.storage.base import Store
from halocline.storage.location import Location

OPERATIONS: Final = ("read", "write")
"""What a writer does: it reads before it writes."""


@dataclass(frozen=True, slots=True)
class ObservedWriters:
    """What a table's history tells about who writes it."""

    traces: tuple[UsageTrace, ...]
    unnamed: int


def observed(store: Store) -> ObservedWriters:
    """Those whom the history of a table tells of."""
    format = detect_format(store)
    match format:
        case TableFormat.DELTA:
            return _of_delta(store)
        case TableFormat.HUDI:
            return _of_hudi(store)
        case TableFormat.INDEX:
            return _of_index(store)


def _of_delta(store: Store) -> ObservedWriters:
    found = writers(store)
    traces = (_trace(store, "delta", str(each.release), Provenance.OBSERVED, each.last_ms) for each in found.observed)
    return ObservedWriters(tuple(traces), found.unnamed)


def _of_hudi(store: Store) -> ObservedWriters:
    version = table_version(properties(store), store.root)
    commits = active_writes(store)
    if not commits:
        return ObservedWriters((), 0)
    last = max(each.written_ms for each in commits)
    lowest = _lowest_writer("hudi", Protocol.hudi(version))
    return ObservedWriters((_trace(store, "hudi", lowest, Provenance.INFERRED, last),), len(commits))


def _of_index(store: Store) -> ObservedWriters:
    found = writers_of(store)
    traces = [_trace(store, "index", str(each), Provenance.OBSERVED, last) for each, _, last in found.named]
    if found.unnamed:
        protocol = IndexReplay.open(store).header.protocol or LEGACY
        lowest = _lowest_writer("indextables4spark", protocol)
        traces.append(_trace(store, "index", lowest, Provenance.INFERRED, found.last_unnamed_ms))
    return ObservedWriters(tuple(traces), found.unnamed)


def _lowest_writer(name: str, protocol: Protocol) -> str:
    """The first release known to write such a table; an unknown one, which passes no check, if there is none."""
    product = Knowledge.load().product(name)
    for bound in product.boundaries(protocol.format, "write"):
        release = Release(product.name, bound)
        if can(release, protocol, "write").ok:
            return str(release)
    return f"{product.name}@unknown"


def _trace(store: Store, ladder: str, release: str, provenance: Provenance, seen_ms: int | None) -> UsageTrace:
    table = Location.parse(store.root).url
    uses = frozenset(TableUse(table, ladder, operation) for operation in OPERATIONS)
    # A writer whose clock is ahead was seen no later than now.
    seen = None if seen_ms is None else min(seen_ms, time.time_ns() // 1_000_000)
    return UsageTrace(identity_of(release, table), release, provenance, seen, uses, "writer")

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

from halocline.compat.reports import Observed
from halocline.fleet.core.state import Provenance, TableUse
from halocline.fleet.usage.traces import UsageTrace, identity_of
from halocline.formats.base import detect_format, inspector_of
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
    """Who wrote the table at the store's root, whatever its format."""
    format = detect_format(store)
    found = inspector_of(format).writers(store)
    traces = (
        _trace(store, str(format), each, Provenance.INFERRED if each.inferred else Provenance.OBSERVED)
        for each in found.observed
        if each.commits
    )
    return ObservedWriters(tuple(traces), found.unnamed)


def _trace(store: Store, ladder: str, writer: Observed, provenance: Provenance) -> UsageTrace:
    table, release = Location.parse(store.root).url, str(writer.release)
    uses = frozenset(TableUse(table, ladder, operation) for operation in OPERATIONS)
    # A writer whose clock is ahead was seen no later than now.
    seen = None if writer.last_ms is None else min(writer.last_ms, time.time_ns() // 1_000_000)
    return UsageTrace(identity_of(release, table), release, provenance, seen, uses, "writer")

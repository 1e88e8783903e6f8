"""Observing who writes a table, from the history that the table keeps itself.

Writers name themselves in what they commit: Delta's `commitInfo` holds the engine and its version. Every release that
is named there becomes a trace of its own for that table, so that a table which two releases write shows both, and each
is forgotten on its own when it has not been seen for long enough.

The limit: readers leave nothing in a history, and commits that name nobody stay anonymous; `Writers.unnamed` counts
them.
"""

from __future__ import annotations

from typing import Final

from halocline.fleet.places import canonical
from halocline.fleet.state import Provenance, TableUse
from halocline.fleet.traces import Trace, identity_of
from halocline.formats.delta.inspection import writers
from halocline.storage.base import Store

OPERATIONS: Final = ("read", "write")
"""What a writer does: it reads before it writes."""


def observed(store: Store, ladder: str = "delta") -> tuple[Trace, ...]:
    """A trace for every release that the log of a table names as a writer, the busiest first.

    Args:
        store: Where the table lies.
        ladder: The ladder of its format.

    Raises:
        MalformedError: A commit cannot be read.
        NotFoundError: There is no table.

    Example:
        >>> from halocline.formats.delta.actions import CommitInfo, Metadata, ProtocolAction, encode_commit
        >>> from halocline.formats.log.names import DELTA
        >>> from halocline.storage.memory import MemoryStore
        >>> store = MemoryStore("observers")
        >>> info = CommitInfo({"timestamp": 1700000000000, "engineInfo": "delta-rs:py-1.0.2"})
        >>> _ = store.put(DELTA.commit_path(0), encode_commit([info, ProtocolAction(1, 2), Metadata("1")]))
        >>> [(trace.release, trace.seen_ms) for trace in observed(store)]
        [('deltalake@1.0.2', 1700000000000)]
    """
    table = canonical(store.root)
    uses = frozenset(TableUse(table, ladder, operation) for operation in OPERATIONS)
    return tuple(
        Trace(
            identity_of(str(each.release), table),
            str(each.release),
            Provenance.OBSERVED,
            each.last_ms,
            uses,
            "writer",
        )
        for each in writers(store).observed
    )

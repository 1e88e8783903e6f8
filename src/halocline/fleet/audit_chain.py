"""The audit log as a chain: each entry carries a hash of itself and of the one before it.

Whoever changes, inserts or takes out an entry in the middle breaks the chain there.

Promise: what `broken` passes is what was written, from the oldest entry that is kept on.

Limit: the oldest entries are forgotten after a while, so the beginning is taken as it is, and whoever can write to the
store can cut off the end or make a whole chain anew. A hash that was noted elsewhere shows that: it must be found in
the chain later on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from halocline.fleet.answers import AuditEntry


def chained(previous: str, entry: AuditEntry) -> str:
    """The hash of an entry that follows the one with the hash `previous`."""
    facts = (entry.at_ms, entry.epoch, entry.actor, entry.action, entry.subject, entry.detail, entry.refused)
    return hashlib.sha256(previous.encode() + msgspec.json.encode(facts)).hexdigest()


def broken(entries: Iterable[AuditEntry]) -> AuditEntry | None:
    """The first entry, of all in the order in which they were written, that does not follow from the one before."""
    previous: str | None = None
    for entry in entries:
        # What was written before there were hashes has none; after the first that has one, each must.
        if previous is not None and entry.hash != chained(previous, entry):
            return entry
        previous = entry.hash or previous
    return None

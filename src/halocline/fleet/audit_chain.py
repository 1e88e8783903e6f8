"""The audit log as a chain: each entry carries a hash of itself and of the one before it.

Whoever changes, inserts or takes out an entry in the middle breaks the chain there.

The oldest entries are forgotten after a while. An entry of the log says each time how many there were, and the hash of
the last of them, which the oldest that is kept follows from. A log of which nothing was forgotten begins with an entry
that follows from none. So entries that were taken out at the beginning are missed as well.

Promise: what `broken` and `beginning_problem` pass is what was written, from the oldest entry that is kept on, and
nothing between it and what was forgotten is missing.

Limit: whoever can write to the store can cut off the end or make a whole chain anew. A hash that was noted elsewhere
shows that: it must be found in the chain later on, or in the archive. Of entries that an older release forgot, or wrote
without hashes, only the number of the first one behind them is known.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from halocline.fleet.answers import AuditEntry

FLEET: Final = "fleet"
PRUNED: Final = "prune"
"""Who writes, and what it is called, when entries are forgotten."""
_BEGINNING: Final = re.compile(
    r"(?P<forgotten>\d+) entries forgotten so far, (?P<by_age>\d+) of them by age; "
    r"the log goes on from entry (?P<number>\d+), (?P<hash>[0-9a-f]{64}|whose hash is not known)"
)


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a log begins.

    Args:
        forgotten: How many entries there were before it.
        by_age: How many of them were too old; the others were too many.
        number: The last one that was forgotten.
        hash: Its hash; nothing if it is not known.
    """

    forgotten: int = 0
    by_age: int = 0
    number: int = 0
    hash: str = ""

    @staticmethod
    def of(entry: AuditEntry) -> Beginning | None:
        """What an entry says about it; None if it says nothing."""
        found = _BEGINNING.fullmatch(entry.detail) if (entry.actor, entry.action) == (FLEET, PRUNED) else None
        if found is None:
            return None
        known = found["hash"] if len(found["hash"]) == 64 else ""
        return Beginning(int(found["forgotten"]), int(found["by_age"]), int(found["number"]), known)

    @staticmethod
    def of_log(entries: Iterable[AuditEntry]) -> Beginning | None:
        """Where the log of these entries must begin, as the newest says that says so; None if nothing was forgotten."""
        return next(filter(None, map(Beginning.of, sorted(entries, key=lambda entry: -entry.number))), None)

    def __str__(self) -> str:
        return (
            f"{self.forgotten} entries forgotten so far, {self.by_age} of them by age; the log goes on from entry "
            f"{self.number}, {self.hash or 'whose hash is not known'}"
        )


def beginning_problem(entries: Sequence[AuditEntry]) -> str:
    """Why the first of all entries is not the one that the log begins with; nothing if it is."""
    if not entries:
        return ""
    first, begins = entries[0], Beginning.of_log(entries)
    if begins is None:
        is_first, where = first.hash == chained("", first), "the first of all, and no entry says that any was forgotten"
    else:
        is_first = first.hash == chained(begins.hash, first) if begins.hash else first.number == begins.number + 1
        where = f"what follows entry {begins.number:,}, the last that was forgotten"
    return "" if is_first else f"entry {first.number:,}, the oldest, is not {where}"


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

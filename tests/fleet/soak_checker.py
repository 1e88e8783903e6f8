"""Looks at what a soak has left behind, and says what should not be.

It shares nothing with what it checks: no line of it comes from the package. What it looks at are *samples*, which
members write of themselves by the machine's own clock, and the rows of the database.

A sample of a member says: between `before` and `after` I asked my gate, it was open up to `level`, and I hold a lease
`until` then; I run levels `lo` to `hi`. A member is *surely active* at a time if samples before and after it belong to
one life and the lease that the earlier one told of had not ended. Where it is not sure, nothing is claimed.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

LONGEST_QUESTION = 5
"""Milliseconds. A gate that took longer to ask says too little about when."""


class Sample(NamedTuple):
    """What a member said of itself."""

    before: int
    after: int
    process: str
    life: int
    until: int
    level: int
    lo: int
    hi: int


class Entry(NamedTuple):
    """A row of the audit log."""

    number: int
    at_ms: int
    epoch: int
    actor: str
    action: str
    subject: str
    detail: str
    refused: str
    hash: str


def early_use(samples: Iterable[Sample]) -> Iterator[str]:
    """Moments at which a member used a level while another was surely active that does not understand it."""
    by_process: dict[str, list[Sample]] = defaultdict(list)
    for each in samples:
        by_process[each.process].append(each)
    ordered = {name: sorted(found) for name, found in by_process.items()}
    begins = {name: [each.before for each in found] for name, found in ordered.items()}
    for name, found in ordered.items():
        for user in found:
            if user.level == 0 or user.after - user.before > LONGEST_QUESTION:
                continue
            for other, theirs in ordered.items():
                active = _surely_active(theirs, begins[other], user.before, user.after) if other != name else None
                if active is not None and not active.lo <= user.level <= active.hi:
                    yield f"{name} uses {user.level} at {user.before} while {other} runs {active.lo} to {active.hi}"


def _surely_active(samples: Sequence[Sample], begins: Sequence[int], before: int, after: int) -> Sample | None:
    at = bisect_right(begins, before) - 1
    if at < 0 or at + 1 >= len(samples):
        return None
    first, later = samples[at], samples[at + 1]
    alive = first.life == later.life and first.until > after and later.until >= first.until
    return first if alive and first.after <= before else None


def broken_log(entries: Sequence[Entry]) -> Iterator[str]:
    """What is wrong with the audit log: its chain, the order of epochs, levels that jump, holds that did not hold."""
    previous, epoch = "", 0
    level: dict[str, int] = {}
    holds: dict[tuple[str, str], int] = {}
    for each in entries:
        facts = [each.at_ms, each.epoch, each.actor, each.action, each.subject, each.detail, each.refused]
        text = json.dumps(facts, separators=(",", ":"), ensure_ascii=False)
        if hashlib.sha256((previous + text).encode()).hexdigest() != each.hash:
            yield f"entry {each.number} does not follow from the one before"
        previous = each.hash
        if each.epoch < epoch:
            yield f"entry {each.number} was written under epoch {each.epoch} after epoch {epoch}"
        epoch = max(epoch, each.epoch)
        if not each.refused:
            yield from _followed(each, level, holds)


def _followed(entry: Entry, level: dict[str, int], holds: dict[tuple[str, str], int]) -> Iterator[str]:
    moved = re.match(r"(?:done: )?(\w+) (\d+) to (\d+)", entry.detail)
    if entry.action in ("raise", "downgrade") and moved:
        ladder, source, target = moved[1], int(moved[2]), int(moved[3])
        if level.get(ladder, source) != source:
            yield f"entry {entry.number} moves {ladder} from {source}, but it stood at {level[ladder]}"
        if target < source and entry.action == "raise":
            yield f"entry {entry.number} raises {ladder} from {source} to {target}"
        for (held, name), most in holds.items():
            if held == ladder and source < target and target > most:
                yield f"entry {entry.number} raises {ladder} to {target}, above the hold {name} at {most}"
        level[ladder] = target
    elif entry.action == "hold":
        ladder, _, most = entry.subject.partition("=")
        holds[ladder, entry.detail.split()[0]] = int(most)
    elif entry.action == "release":
        holds.pop((entry.subject, entry.detail.split()[0].rstrip(":")), None)


def wrong_commands(entries: Sequence[Entry], done: Iterable[str], unknown: Iterable[str]) -> Iterator[str]:
    """Commands, by the tag in their reason, that were acknowledged and are not there once, or done more than once."""
    written = [each.detail for each in entries if not each.refused]
    for tag in done:
        count = sum(tag in detail.split() for detail in written)
        if count != 1:
            yield f"{tag} was acknowledged and is in the log {count} times"
    for tag in unknown:
        count = sum(tag in detail.split() for detail in written)
        if count > 1:
            yield f"{tag} was done {count} times"


def falling(epochs: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Epochs, or revisions of the ladder, that the database was seen to lose."""
    for (epoch, revision), (later, newer) in pairwise(epochs):
        if later < epoch or newer < revision:
            yield f"the store went from epoch {epoch}, revision {revision} to {later}, {newer}"


def read_samples(lines: Iterable[str]) -> Iterator[Sample]:
    """Samples as members write them; a line that was cut off by the death of its writer is left out."""
    for line in lines:
        parts: list[Any] = line.split()
        if len(parts) == len(Sample._fields) and line.endswith("\n"):
            yield Sample(int(parts[0]), int(parts[1]), parts[2], *map(int, parts[3:]))

"""Who did what to a table: one entry per completed action, from the active timeline and from what lies before it.

No action names the release that did it; see `halocline.formats.hudi`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from halocline.errors import InputError
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.instant import WRITES, moment_of, order
from halocline.formats.hudi.timeline.metadata import CommitMetadata
from halocline.html import ShownEntry


@dataclass(frozen=True, slots=True, repr=False)
class HudiHistoryEntry(ShownEntry):
    """One completed action.

    Attributes:
        instant: When it began, as the table spells it; `to_df(version=…)` takes it if it was a write.
        action: What it was, e.g. `commit`.
        completion: When it was completed, spelt likewise; None if the table does not say.
        moment: When it began, as a time; None if the text is no time of a calendar.
        operation: What kind of write it was, e.g. `UPSERT`; None for other actions.
        written: How many rows it wrote, new and changed; None for other actions.
        deleted: How many rows it deleted; None for other actions.
    """

    instant: str
    action: str
    completion: str | None
    moment: datetime | None
    operation: str | None = None
    written: int | None = None
    deleted: int | None = None

    @property
    def version(self) -> int:
        """The instant as a number."""
        return int(self.instant)

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "version": self.version,
            "timestamp": None if self.moment is None else self.moment.isoformat(timespec="milliseconds"),
            "completion": self.completion,
            "action": self.action,
            "operation": self.operation,
            "numWrites": self.written,
            "numDeletes": self.deleted,
        }


def history(snapshot: HudiSnapshot, limit: int | None = None) -> list[HudiHistoryEntry]:
    """The completed actions up to a snapshot's instant, newest first.

    Args:
        snapshot: Where to begin.
        limit: How many entries at most; all if not given.

    Raises:
        InputError: The limit is negative.
        MalformedError: An action cannot be read.
    """
    if limit is not None and limit < 0:
        raise InputError(f"a history cannot have {limit} entries", sides={"limit": str(limit), "possible": "0 or more"})
    as_of = snapshot.as_of
    entries = (each for each in _entries(snapshot) if as_of is None or order(each.instant) <= order(as_of))
    return list(islice(entries, limit))


def _entries(snapshot: HudiSnapshot) -> Iterator[HudiHistoryEntry]:
    timeline, config = snapshot.timeline, snapshot.config
    done = (each for each in timeline.instants if each.is_completed)
    for each in sorted(done, key=lambda instant: order(instant.time), reverse=True):
        said = timeline.commit_metadata(each) if each.action in WRITES else None
        yield _entry(each.time, each.action, each.completion, moment_of(each.time, config), said)
    for older in sorted(timeline.history(), key=lambda each: order(each.time), reverse=True):
        place = f"{older.time} in the history of {snapshot.store.root}"
        said = CommitMetadata.parse(older.body, place) if older.action in WRITES and older.body else None
        yield _entry(older.time, older.action, older.completion, moment_of(older.time, config), said)


def _entry(
    instant: str, action: str, completion: str | None, moment: datetime | None, said: CommitMetadata | None
) -> HudiHistoryEntry:
    if said is None:
        return HudiHistoryEntry(instant, action, completion, moment)
    stats = [stat for _, stat in said.stats]
    written = sum(each.num_writes or 0 for each in stats)
    deleted = sum(each.num_deletes or 0 for each in stats)
    return HudiHistoryEntry(instant, action, completion, moment, said.operation_type, written, deleted)

"""The journal of a rollout: entries one after the other, each an object of its own that is never changed.

The number of an entry is its name, and the store takes each name once, so two processes that write at the same time
are noticed. Each entry has the token of the lease that it was written under; behind an entry with a greater one no
older holder writes any more. Reading all entries gives what has been done.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

import msgspec

from halocline.errors import AlreadyExistsError, ConflictError, MalformedError
from halocline.lake.file import LakeFile
from halocline.storage import open_store
from halocline.storage.base import Store
from halocline.table.opening import placed

FOLDER: Final = "_halocline/rollouts"
PLAN_FILE: Final = "plan.json"

BEGUN, UPGRADED, MOVING, MOVED, VERIFIED, WAITING = "begun", "upgraded", "moving", "moved", "verified", "waiting"
STAGE_DONE, FINISHED, CONFIRMED, TAKEN_BACK = "stage done", "finished", "confirmed", "taken back"
TAKEN_OVER = "taken over"
NOT_COMPARED: Final = "rows not compared"
"""What is in the detail of `VERIFIED` where not all rows could be compared."""


class JournalEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that happened.

    Attributes:
        kind: What.
        stage: In which stage, from 1; 0 for the rollout as a whole.
        subject: To whom, or to what.
        detail: What to know about it.
        by: Who did it.
        at_ms: When.
        token: The token of the lease that it was written under; 0 for none.
        fingerprint: The state of the table that it tells of, right after that; empty for none.
    """

    kind: str
    stage: int = 0
    subject: str = ""
    detail: str = ""
    by: str = ""
    at_ms: int = 0
    token: int = 0
    fingerprint: str = ""


@dataclass
class Journal:
    """The journal of one plan, in the lake that the plan is about.

    Attributes:
        store: Where the lake lies.
        plan: The plan's id.
        by: Who writes.
        token: The token of the lease under which is written; 0 for none.
    """

    store: Store
    plan: str
    by: str = ""
    token: int = 0
    entries: list[JournalEntry] = field(default_factory=list)
    _newest: JournalEntry | None = None
    _by_subject: dict[tuple[str, int], dict[str, JournalEntry]] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @staticmethod
    def open(place: str, plan: str, by: str = "", token: int = 0) -> Journal:
        """The journal of a plan, with everything that was written so far.

        Example:
            >>> journal = Journal.open("memory://journal-example", "3f2a", "ana@laptop")
            >>> journal.write(BEGUN)
            >>> [each.kind for each in Journal.open("memory://journal-example", "3f2a").entries]
            ['begun']
        """
        journal = Journal(home_of(place), plan, by, token)
        journal.catch_up()
        return journal

    def catch_up(self) -> None:
        """Reads what others have written since."""
        while True:
            path = self._path(len(self.entries))
            if not self.store.exists(path):
                return
            try:
                entry = msgspec.json.decode(self.store.get(path), type=JournalEntry)
            except msgspec.DecodeError as error:
                raise MalformedError(
                    f"an entry of the journal of plan {self.plan} cannot be read",
                    sides={"entry": path, "problem": str(error)[:200]},
                    next_step="Put the entry back from a copy of the lake; what was done is known by all of them.",
                ) from error
            self._take(entry)

    def write(self, kind: str, stage: int = 0, subject: str = "", detail: str = "", fingerprint: str = "") -> None:
        """Adds an entry.

        Raises:
            ConflictError: Somebody else writes to the same journal, or has taken the rollout over.
        """
        with self._lock:
            self._check_token()
            now_ms = time.time_ns() // 1_000_000
            entry = JournalEntry(kind, stage, subject, detail, self.by, now_ms, self.token, fingerprint)
            try:
                self.store.put_if_absent(self._path(len(self.entries)), msgspec.json.encode(entry))
            except AlreadyExistsError:
                self.catch_up()
                self._check_token()
                other = self.entries[-1].by if self.entries else "somebody"
                raise ConflictError(
                    f"{other} applies plan {self.plan} as well",
                    sides={"you are": self.by, "wrote meanwhile": other},
                    next_step="See what is being done: halocline status",
                ) from None
            self._take(entry)

    def _check_token(self) -> None:
        """Refuses whoever has held the lease before somebody else did: it woke up too late."""
        newest = self._newest
        if newest is not None and newest.token > self.token:
            raise ConflictError(
                f"{newest.by} has taken over the rollout of plan {self.plan}",
                condition="ROLLOUT_RUNNING",
                sides={"you are": f"{self.by}, token {self.token}", "took over": f"{newest.by}, token {newest.token}"},
                next_step="See how far it is: halocline status LAKE --watch",
            )

    def keep(self, plan: bytes) -> None:
        """Keeps the plan itself next to its journal, for those who look at the lake."""
        self.store.put(f"{FOLDER}/{self.plan}/{PLAN_FILE}", plan)

    def has(self, kind: str, stage: int = 0, subject: str = "") -> bool:
        """Whether there is such an entry."""
        return subject in self._by_subject.get((kind, stage), {})

    def subjects(self, kind: str, stage: int) -> set[str]:
        """Those that an entry of a kind tells of, in a stage."""
        return set(self._by_subject.get((kind, stage), {}))

    def last(self, kind: str, stage: int) -> JournalEntry | None:
        """The newest entry of a kind, in a stage."""
        found = self._by_subject.get((kind, stage), {})
        return max(found.values(), key=lambda each: each.at_ms, default=None)

    def last_of(self, kind: str, stage: int, subject: str) -> JournalEntry | None:
        """The newest entry of a kind about one subject, in a stage."""
        return self._by_subject.get((kind, stage), {}).get(subject)

    def _take(self, entry: JournalEntry) -> None:
        self.entries.append(entry)
        if self._newest is None or entry.token >= self._newest.token:
            self._newest = entry
        self._by_subject.setdefault((entry.kind, entry.stage), {})[entry.subject] = entry

    def _path(self, number: int) -> str:
        return f"{FOLDER}/{self.plan}/{number:06d}.json"


def home_of(place: str) -> Store:
    """Where the rollouts of a lake are kept: at its prefix, which all who work on it share; else next to its file."""
    if not place.endswith(".toml"):
        return open_store(place)
    said = LakeFile.read(place)
    return placed(said.prefix or place.rpartition("/")[0] or ".", None, said.options)[0]


def rollouts(place: str) -> list[str]:
    """The ids of the plans that were applied to a lake, the one that was begun last at the end."""
    found = [each for each in home_of(place).list(FOLDER) if each.path.endswith(f"/{PLAN_FILE}")]
    return [each.path.split("/")[-2] for each in sorted(found, key=lambda each: (each.modified_ms, each.path))]


def kept_plan(place: str, plan: str) -> bytes:
    """The plan itself, as it was applied."""
    return home_of(place).get(f"{FOLDER}/{plan}/{PLAN_FILE}")

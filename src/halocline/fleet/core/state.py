"""What a coordinator knows: the durable truth about a fleet, and what it remembers of members in between.

A `Fleet` is what the store holds: members, levels, holds, tables, the epoch. A `State` is a fleet as one coordinator
knows it, together with a `Presence` per member: when its lease runs out and what it last said it acts under. Presences
are not durable, because heartbeats are too frequent; a coordinator that takes over gives every member a full lease.

All values are immutable; the mappings inside them are never changed in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple
from weakref import ref

from halocline.addresses import hide_secrets, unsigned
from halocline.compat.release import Release
from halocline.errors import InputError
from halocline.fleet.core.ladder import Ladder
from halocline.fleet.core.ladder_state import UNHEARD, Announcement, Hold, LadderState, View

MOST_LIVES: Final = 20_000
"""Identities without a registered life whose last incarnation is remembered one by one."""
MOST_SILENT: Final = 20_000
"""Members that do not speak."""
MOST_ANSWERED: Final = 10_000
ANSWERED_MS: Final = 24 * 3_600_000
"""How many commands are remembered, and for how long, so that one that is sent again is not done again."""
MOST_USES: Final = 4096
"""Tables that one member uses, counted once for each operation."""
MOST_TABLES: Final = 100_000
"""Tables whose level is recorded."""
LONGEST_LEASE: Final = 24 * 3_600_000
"""What is agreed on for longer than this cannot be told to members, nor be waited for."""
LONGEST_WINDOW: Final = 3_650 * 24 * 3_600_000
_IDENTITY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}")
_UNFIT = re.compile(r"[^A-Za-z0-9_.:@-]+")


@dataclass(frozen=True, slots=True)
class LevelRange:
    """The levels of a ladder that a release supports, both ends included."""

    lo: int
    hi: int

    def __post_init__(self) -> None:
        if not 1 <= self.lo <= self.hi:
            raise InputError(f"{self.lo} to {self.hi} is no range of levels", sides={"expected": "1 <= lo <= hi"})

    def __contains__(self, level: int) -> bool:
        return self.lo <= level <= self.hi

    def __str__(self) -> str:
        return f"{self.lo} to {self.hi}"


class Provenance(StrEnum):
    """How we know of a member, the most certain first. Only one that reports has a lease."""

    REPORTED = "reported"
    OBSERVED = "observed"
    INFERRED = "inferred"
    DECLARED = "declared"


@dataclass(frozen=True, slots=True, order=True)
class TableUse:
    """A table that a member uses, the ladder it is on, and the operation.

    The table is its address without secrets: one table, whatever those who use it signed its URL with.
    """

    table: str
    ladder: str
    operation: str = "read"

    def __post_init__(self) -> None:
        if (table := unsigned(self.table)) != self.table:
            object.__setattr__(self, "table", table)


@lru_cache(maxsize=1 << 17)
def shared_use(use: TableUse) -> TableUse:
    """An equal value that members share: thousands of them use the same tables."""
    return use


_WRITTEN: Final[dict[int, tuple[ref[frozenset[TableUse]], frozenset[str]]]] = {}


def written(uses: frozenset[TableUse]) -> frozenset[str]:
    """The tables that are written, remembered for as long as the uses are: to look at a million of them takes long.

    They are known by where they are in memory, as comparing them takes as long.
    """
    place = id(uses)
    known = _WRITTEN.get(place)
    if known is None:
        found = frozenset(use.table for use in uses if use.operation.startswith("write"))
        known = _WRITTEN[place] = (ref(uses, lambda _: _WRITTEN.pop(place, None)), found)
    return known[1]


@dataclass(frozen=True, slots=True)
class Report:
    """What a member says, or is known, about itself.

    Args:
        incarnation: Grows with every start, e.g. the start time; 0 for members that do not speak.
        release: `product@version`. Text that names no known version is kept, and never passes a check.
        supported: The range per ladder it uses. A ladder that is absent is one it does not use.
        features: What it provides.
        needs: What it requires the fleet to provide.
    """

    identity: str
    incarnation: int
    release: str
    role: str = "reader"
    supported: Mapping[str, LevelRange] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    development: bool = False
    tables: frozenset[TableUse] = frozenset()

    def __post_init__(self) -> None:
        if not _IDENTITY.fullmatch(self.identity):
            raise InputError(
                f"{hide_secrets(self.identity)[:200]!r} cannot identify a member",
                sides={"expected": "a letter or digit, then at most 127 letters, digits, . _ : @ -"},
            )
        if self.incarnation < 0:
            raise InputError(f"incarnation {self.incarnation} of {self.identity} is negative")

    @property
    def key(self) -> MemberKey:
        """Which member this is about."""
        return MemberKey(self.identity, self.incarnation)

    @property
    def product(self) -> str:
        """The product it names, or nothing."""
        release = known_release(self.release)
        return release.product if release else ""


def fitted_identity(text: str, default: str, longest: int = 128) -> str:
    """An identity that a member can have, made of any text.

    Example:
        >>> fitted_identity("nightly load (prod)", "client"), fitted_identity("!", "client")
        ('nightly-load-prod', 'client')
    """
    return _UNFIT.sub("-", hide_secrets(text)).strip("-_.:@")[:longest] or default


class MemberKey(NamedTuple):
    """One life of a member: the same identity started again is another key."""

    identity: str
    incarnation: int

    def __str__(self) -> str:
        return f"{self.identity}#{self.incarnation}" if self.incarnation else self.identity

    @staticmethod
    def parse(text: str) -> MemberKey:
        """The key that is written like this."""
        identity, _, life = text.partition("#")
        return MemberKey(identity, int(life) if life.isdigit() else 0)


@lru_cache(maxsize=4096)
def known_release(text: str) -> Release | None:
    """The release that `text` names; None if it names none, or one whose version is unknown or zero."""
    try:
        release = Release.exact(text)
    except InputError:
        return None
    return release if release.version.known and not release.version.is_zero else None


@dataclass(frozen=True, slots=True)
class Member:
    """The durable record of a member.

    Args:
        last_seen: When a member that does not speak was last seen; None for one that speaks, and for one that was
            declared and never seen.
        admitted: The view that a joining member was given, per ladder. It acts under these or newer ones.
        removed: An operator took it out: its lease is not renewed, and it counts until that has run out.
        credential: What it was let in by; another one cannot speak for this life.
        excused: Levels, per ladder, that were raised over its head by force.
        declared: When an operator last said what it runs; 0 if none did.
        seen_as: The release that it was seen to run since, where that contradicts what was declared.
        generation: The fleet's when this life was admitted.
    """

    report: Report
    provenance: Provenance
    since: int
    last_seen: int | None = None
    admitted: Mapping[str, View] = field(default_factory=dict)
    removed: bool = False
    excused: Mapping[str, int] = field(default_factory=dict)
    credential: str = ""
    declared: int = 0
    seen_as: str = ""
    generation: int = 0

    @property
    def speaks(self) -> bool:
        """Whether it joined by itself and so has a lease."""
        return self.provenance is Provenance.REPORTED

    def live(self, at: int, window: int) -> bool:
        """Whether it counts: one that speaks while it is registered, any other by when it was last seen."""
        return self.speaks or self.provenance is Provenance.DECLARED or (self.last_seen or 0) + window > at

    def uses(self, ladder: str) -> bool:
        """Whether it counts on that ladder.

        A member that speaks uses the ladders it reports a range for. Any other uses those of the tables it was seen
        with, and every ladder if nothing is known about it.
        """
        known = self.report.supported
        if ladder in known or self.speaks:
            return ladder in known
        tables = self.report.tables
        return any(use.ladder == ladder for use in tables) if tables else not known


@dataclass(frozen=True, slots=True)
class TableLevel:
    """The level that a table requires on its ladder, and since when; the table as `TableUse` has it."""

    table: str
    ladder: str
    level: int
    since_ms: int

    def __post_init__(self) -> None:
        if (table := unsigned(self.table)) != self.table:
            object.__setattr__(self, "table", table)


@dataclass(frozen=True, slots=True)
class DoneCommand:
    """A command that was done: when, which, and what it led to."""

    at: int
    digest: str
    decisions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FleetTerms:
    """What a fleet agrees on. Times are in milliseconds, or whatever unit the events use.

    Args:
        lease: How long a member may act after it sent a heartbeat that was answered.
        margin: By how much a member's clock may fall behind within one lease.
        window: How long a member that does not speak counts after it was last seen.
        development: Whether builds that were not released may raise a level.
        provides: The features that the fleet's services provide to members.
    """

    lease: int = 15_000
    margin: int = 3_000
    window: int = 30 * 24 * 3_600_000
    development: bool = False
    provides: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        longest = (("lease", 1, LONGEST_LEASE), ("margin", 0, LONGEST_LEASE), ("window", 0, LONGEST_WINDOW))
        for name, least, most in longest:
            if not least <= (value := getattr(self, name)) <= most:
                raise InputError(f"a {name} of {value:,} ms cannot be", sides={"allowed": f"{least} to {most:,} ms"})


@dataclass(frozen=True, slots=True)
class Fleet:
    """The durable truth.

    Args:
        epoch: The newest coordinator's; the store refuses commits of any other.
        incarnations: The highest one ever admitted, by identity: an older one never comes back.
        floor: What an incarnation must be above if nothing is remembered of its identity.
        holds: By (ladder, name).
        tables: By (table, ladder).
        answered: The commands that were done lately, by their keys.
        generation: Rises when the store was put back to an earlier state; older lives have to be begun anew.
        seal_key: What announcements are sealed with. It never leaves the store.
    """

    epoch: int = 0
    terms: FleetTerms = field(default_factory=FleetTerms)
    ladders: Mapping[str, Ladder] = field(default_factory=dict)
    ladder_states: Mapping[str, LadderState] = field(default_factory=dict)
    members: Mapping[MemberKey, Member] = field(default_factory=dict)
    incarnations: Mapping[str, int] = field(default_factory=dict)
    floor: int = 0
    holds: Mapping[tuple[str, str], Hold] = field(default_factory=dict)
    tables: Mapping[tuple[str, str], TableLevel] = field(default_factory=dict)
    answered: Mapping[str, DoneCommand] = field(default_factory=dict)
    generation: int = 0
    seal_key: str = field(default="", repr=False)

    def live(self, at: int) -> Iterator[Member]:
        """The members that count."""
        return (member for member in self.members.values() if member.live(at, self.terms.window))

    def speaking(self) -> Iterator[tuple[MemberKey, Member]]:
        """The members that hold a lease."""
        return ((key, member) for key, member in self.members.items() if member.speaks)

    def announcements(self) -> tuple[Announcement, ...]:
        """What a member is told when it joins."""
        return tuple(ladder_state.announced(ladder) for ladder, ladder_state in self.ladder_states.items())


@dataclass(frozen=True, slots=True)
class RecordChange:
    """One record of a fleet to be written: its kind, its key, and the value, or None to delete it.

    The kind is a field of `Fleet`; those in `SINGLE` are single records with an empty key.
    """

    kind: str
    key: tuple[Any, ...] | str
    value: Any


SINGLE = frozenset({"epoch", "terms", "floor", "generation", "seal_key"})


def applied(fleet: Fleet, changes: Iterable[RecordChange]) -> Fleet:
    """The fleet after a commit; what a store does, in one line of thought."""
    fields: dict[str, Any] = {}
    for change in changes:
        if change.kind in SINGLE:
            fields[change.kind] = change.value
            continue
        records = fields.setdefault(change.kind, dict(getattr(fleet, change.kind)))
        if change.value is None:
            records.pop(change.key, None)
        else:
            records[change.key] = change.value
    return replace(fleet, **fields)


@dataclass(frozen=True, slots=True)
class Presence:
    """What a coordinator remembers of a member between two of its heartbeats.

    Args:
        until: When its lease has surely run out, by the coordinator's clock.
        seq: The number of the last heartbeat; one that is not higher is a duplicate.
        views: The oldest view, per ladder, that it said it acts under.
    """

    until: int
    seq: int
    views: Mapping[str, View]


@dataclass(frozen=True, slots=True)
class State:
    """A fleet as one coordinator knows it.

    Args:
        epoch: Under which this coordinator acts; 0 until it has taken over.
        weighed: The fleet of which is known that no level rises in it by itself.
        mark: This coordinator's own; what it announces is known by it.
    """

    epoch: int = 0
    fleet: Fleet = field(default_factory=Fleet)
    presences: Mapping[MemberKey, Presence] = field(default_factory=dict)
    weighed: Fleet | None = field(default=None, compare=False, repr=False)
    mark: str = ""

    def views(self, ladder: str) -> Iterator[tuple[MemberKey, View]]:
        """What each member that speaks and uses the ladder is known to act under."""
        members = self.fleet.members
        for key, presence in self.presences.items():
            if ladder in members[key].report.supported:
                yield key, presence.views.get(ladder, UNHEARD)

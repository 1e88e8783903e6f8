"""What a fleet answers: values that an operator's program reads.

Each class stands for one answer of the coordinator, or a part of one, at the moment it was asked. They are plain facts:
no answer holds a connection, and asking again is the only way to see a change. Times end in `_ms` and are milliseconds,
since 1970 or left to go; 0 means that there is none, as each field says. Words that a later coordinator may add to,
such as phases and kinds, are text, so that an answer of a newer one can be read.

`plain` gives the same facts as JSON values, `readable` a text with dates in place of milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, Final

from halocline.compat.terms import ProtocolChange
from halocline.fleet.core.state import Report, TableLevel, TableUse

LARGEST_PAGE: Final = 100
"""Items. A message is put together in one go, in which no other thread has its turn."""
_MOMENT = re.compile(r"(?<=until )\d{13}\b")


@dataclass(frozen=True, slots=True)
class FeatureLevel:
    """A feature of the wire, and how much of it there is."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The coordinator's program: what it is, what it provides to clients and requires of them."""

    product: str
    version: str
    provides: tuple[FeatureLevel, ...] = ()
    requires: tuple[FeatureLevel, ...] = ()


@dataclass(frozen=True, slots=True)
class TermsStatus:
    """What the fleet agrees on; see `halocline.fleet.core.state.FleetTerms`."""

    lease_ms: int
    margin_ms: int
    window_ms: int
    development: bool


@dataclass(frozen=True, slots=True)
class BlockerStatus:
    """One thing in the way of a level; see `halocline.fleet.core.level.Blocker`.

    Args:
        lease_left_ms: How long until a silent member stops blocking; 0 if it does not by itself.
    """

    kind: str
    who: str
    text: str
    fix: str = ""
    speaks: bool = True
    lease_left_ms: int = 0


@dataclass(frozen=True, slots=True)
class HoldStatus:
    """A hold in force; `until_ms` is 0 if only a release ends it."""

    ladder: str
    name: str
    level: int
    until_ms: int
    reason: str
    actor: str


@dataclass(frozen=True, slots=True)
class DowngradeStatus:
    """A downgrade that is under way, and the members it waits for."""

    target: int
    phase: str
    free: bool
    past_return: bool
    started_ms: int
    actor: str
    reason: str
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Requirement:
    """A level of another ladder."""

    ladder: str
    level: int


@dataclass(frozen=True, slots=True)
class RungStatus:
    """What a level brings; see `halocline.fleet.core.ladder.Rung`."""

    level: int
    requires: tuple[Requirement, ...] = ()
    changes_data: bool = False
    features: frozenset[str] = frozenset()
    provided_by: tuple[str, ...] = ()
    summary: str = ""


@dataclass(frozen=True, slots=True)
class LadderStatus:
    """Where the fleet stands on a ladder.

    Args:
        level: What every live member supports.
        settled: What every live member is known to act under, or above.
        limit: What gates open up to.
        revision: Grows with every change that members are told.
        policy: What makes the level rise now: `auto`, `manual`, or `hold` while it is held.
        next: The next level up; 0 at the top.
        live: How many live members use it.
        blockers: What is in the way of the next level, of very much the first.
        blocking: How much is in the way.
        rungs: What each level brings.
    """

    ladder: str
    level: int
    settled: int
    limit: int
    revision: int
    policy: str
    levels: tuple[int, ...] = ()
    next: int = 0
    live: int = 0
    blockers: tuple[BlockerStatus, ...] = ()
    holds: tuple[HoldStatus, ...] = ()
    downgrade: DowngradeStatus | None = None
    blocking: int = 0
    rungs: tuple[RungStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """Where a fleet stands, and who answers for it; `tables` has the levels of tables, of very many the first.

    `generation` rises with an import, and when it was found that the store was put back to an earlier state.

    Example:
        >>> from halocline.fleet.member.admin import AdminClient
        >>> from halocline.fleet.server.hosting import embedded
        >>> with embedded() as hosting, AdminClient(hosting.address) as fleet:
        ...     fleet.describe().ladder("hudi").levels
        (6, 8, 9)
    """

    server: ServerStatus
    epoch: int
    clock_ms: int
    terms: TermsStatus
    ladders: tuple[LadderStatus, ...]
    tables: tuple[TableLevel, ...]
    coordinator: str
    store: str
    active_since_ms: int
    generation: int = 0

    def ladder(self, name: str) -> LadderStatus:
        """Where it stands on that ladder; KeyError if it has none of that name."""
        return {each.ladder: each for each in self.ladders}[name]


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """What a member knows of a ladder: the revision it heard and the level its gates open up to."""

    revision: int
    level: int


@dataclass(frozen=True, slots=True)
class MemberStatus(Report):
    """A member of the fleet: what it said of itself, and what is known of it.

    Args:
        provenance: How the fleet knows of it.
        since_ms: When it joined or was first noted.
        last_seen_ms: When a member that does not speak was last seen; 0 if never.
        lease_left_ms: How long its lease runs; 0 without one.
        views: What it acts under, per ladder, as its last heartbeat said.
        removed: Whether an operator took it out.
        live: Whether it counts.
        client: The program that speaks for it, as `product@version`.
        seen_as: The release that it was seen to run, where that contradicts what was declared.
    """

    provenance: str = ""
    since_ms: int = 0
    last_seen_ms: int = 0
    lease_left_ms: int = 0
    views: Mapping[str, ViewStatus] = field(default_factory=dict)
    removed: bool = False
    live: bool = True
    client: str = ""
    seen_as: str = ""


@dataclass(frozen=True, slots=True)
class SeenClient:
    """A client that made handshakes of one kind: when first, when last, and how often.

    Args:
        client: The program that spoke, as `product@version`.
        release: What it said works on tables.
        outcome: `joined`, `greeted`, or the condition with which it was refused.
        requires: What it required of the coordinator.
    """

    identity: str
    client: str
    release: str
    role: str
    outcome: str
    first_ms: int
    last_ms: int
    times: int
    requires: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetMembers:
    """The members, and on request every client that ever made a handshake; `next` begins the next page, if any."""

    members: tuple[MemberStatus, ...] = ()
    sightings: tuple[SeenClient, ...] = ()
    next: str = ""

    def __len__(self) -> int:
        return len(self.members) + len(self.sightings)


@dataclass(frozen=True, slots=True)
class TableUsers:
    """The members that use a table, and the level it requires per ladder."""

    members: tuple[MemberStatus, ...] = ()
    levels: tuple[TableLevel, ...] = ()


@dataclass(frozen=True, slots=True)
class AffectedMember:
    """A member that blocks a feature or would break, why, and what it must upgrade to."""

    who: str
    release: str
    text: str
    fix: str
    provenance: str
    last_seen_ms: int = 0
    tables: tuple[TableUse, ...] = ()
    live: bool = False


@dataclass(frozen=True, slots=True)
class AffectedMembers:
    """The members that are affected, of how many that were checked; `next` begins the next page, if there is one."""

    affected: tuple[AffectedMember, ...]
    checked: int
    next: str = ""

    def __len__(self) -> int:
        return len(self.affected)


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """What raising a level would meet, or letting one fall would take.

    Args:
        blockers: What is in the way, of very much the first; nothing if it can be done.
        checked: The members that were checked for a raise, of very many the first.
        free: Of a downgrade: whether no data needs cleaning.
        tables: Of a downgrade: the tables that are above the target.
        waiting: Of a downgrade: the members that have not closed their gates, of very many the first.
        blocking: How much is in the way.
        asked: How many were checked, or are waited for.
    """

    ladder: str
    level: int
    target: int
    blockers: tuple[BlockerStatus, ...] = ()
    checked: tuple[str, ...] = ()
    free: bool = False
    tables: tuple[TableLevel, ...] = ()
    waiting: tuple[str, ...] = ()
    blocking: int = 0
    asked: int = 0


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key that tokens are signed with, by its name; never the key itself."""

    id: str
    made_ms: int


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The keys of tokens, newest first: that one signs, and all are accepted."""

    keys: tuple[SigningKey, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command led to: one line for each entry in the audit log, and the coordinator's epoch."""

    epoch: int
    decisions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a long answer: what comes after `next` of the page before, and how much; 0 for the usual."""

    after: str = ""
    limit: int = 0

    @property
    def size(self) -> int:
        """How much at most."""
        return min(self.limit or LARGEST_PAGE, LARGEST_PAGE)


@dataclass(frozen=True, slots=True)
class MembersQuery(Page):
    """Which members; with `all` also every client that made a handshake."""

    all: bool = False


@dataclass(frozen=True, slots=True)
class BlockQuery(Page):
    """Which members keep a feature from being used."""

    feature: str = ""


@dataclass(frozen=True, slots=True)
class BreakQuery(Page):
    """Which members would break if the services lost a feature, a ladder's level rose, or a table changed."""

    remove: str = ""
    ladder: str = ""
    level: int = 0
    change: ProtocolChange | None = None


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which entries of the audit log to show, newest first; empty fields do not limit.

    The first page of what was refused has calls of strangers, too, which are counted and have no number.

    Args:
        action: What was decided, e.g. `raise`.
        subject: About whom or what, e.g. `hudi=8`.
        before: Only entries with a lower number.
    """

    actor: str = ""
    action: str = ""
    subject: str = ""
    refused_only: bool = False
    since_ms: int = 0
    before: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry of the audit log; `refused` is the condition code if it was refused, `hash` chains it to the others."""

    number: int
    at_ms: int
    epoch: int
    actor: str
    action: str
    subject: str
    detail: str = ""
    refused: str = ""
    hash: str = ""


@dataclass(frozen=True, slots=True)
class AuditEntries:
    """Entries of the audit log, newest first."""

    entries: tuple[AuditEntry, ...] = ()


def plain(answer: Any) -> Any:
    """An answer as JSON values: camel case names, empty fields included.

    Example:
        >>> plain(CommandResult(3, ("raise hudi=8",)))
        {'epoch': 3, 'decisions': ['raise hudi=8']}
    """
    if is_dataclass(answer):
        return {_camel(each.name): plain(getattr(answer, each.name)) for each in fields(answer)}
    if isinstance(answer, Mapping):
        return {key: plain(value) for key, value in sorted(answer.items())}
    if isinstance(answer, frozenset):
        answer = tuple(sorted(answer))
    return [plain(each) for each in answer] if isinstance(answer, tuple) else answer


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def readable(text: str) -> str:
    """A text of the core with its times, which are milliseconds there, as dates.

    Example:
        >>> readable("held at 6 until 1796083200000 or a release")
        'held at 6 until 2026-12-01 00:00:00 or a release'
    """
    return _MOMENT.sub(lambda found: str(datetime.fromtimestamp(int(found[0]) // 1000, UTC).replace(tzinfo=None)), text)

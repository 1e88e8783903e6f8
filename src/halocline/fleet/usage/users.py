"""The users of a table: those known to use it.

A *user* is a member together with what it does to one table and how that is known. Who of them would break if the table
required more is decided by `halocline.compat.breaks`; `User.client` is the user as it is judged there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from halocline.compat.breaks import Client
from halocline.compat.release import Release
from halocline.fleet.answers import MemberStatus
from halocline.fleet.core.state import Member, Provenance
from halocline.fleet.usage.traces import UsageTrace


@dataclass(frozen=True, slots=True)
class User:
    """A client that uses a table.

    Args:
        operations: What it does to the table, e.g. `read` and `write.append`.
        last_seen_ms: When it was last seen; 0 for one that holds a lease, or was declared and never seen.
    """

    name: str
    release: str
    operations: tuple[str, ...]
    provenance: Provenance
    last_seen_ms: int = 0
    lease_left_ms: int = 0
    provides: frozenset[str] = frozenset()

    @staticmethod
    def of_member(member: MemberStatus, table: str) -> User:
        """A member as the fleet tells of it."""
        used = (use.operation for use in member.tables if use.table == table)
        return User(
            member.identity,
            _judged(member.release, member.seen_as),
            operations_of(used, member.role),
            Provenance(member.provenance),
            member.last_seen_ms,
            member.lease_left_ms,
            frozenset(member.features),
        )

    @staticmethod
    def of_trace(trace: UsageTrace, table: str) -> User:
        """A client that left a trace."""
        operations = tuple(sorted({use.operation for use in trace.uses if use.table == table}))
        return User(trace.identity, trace.release, operations, trace.provenance, trace.seen_ms or 0)

    @property
    def client(self) -> Client:
        """The user as it is judged when a table changes."""
        seen = self.last_seen_ms or None
        release = Release.reported(self.release)
        return Client(release, self.operations, str(self.provenance), seen, self.name, self.provides)

    @property
    def verbs(self) -> str:
        """What it does, in words: `reads`, `writes`, `reads and writes`."""
        roots = {operation.partition(".")[0] for operation in self.operations}
        return " and ".join(f"{root}s" for root in ("read", "write") if root in roots) or "uses"

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "name": self.name,
            "release": self.release,
            "operations": list(self.operations),
            "provenance": str(self.provenance),
            "lastSeen": self.last_seen_ms or None,
            "leaseLeft": self.lease_left_ms or None,
        }


def known_users(members: Iterable[MemberStatus], traces: Iterable[UsageTrace], table: str) -> tuple[User, ...]:
    """The users that a fleet tells of and those that were just observed, each once.

    The fleet's word stands where both know the same one, unless the trace is newer and no operator declared it.
    """
    found = {each.identity: User.of_member(each, table) for each in members}
    for trace in traces:
        known = found.get(trace.identity)
        if known is not None and known.provenance in (Provenance.DECLARED, Provenance.REPORTED):
            continue
        if known is None or known.last_seen_ms < (trace.seen_ms or 0):
            found[trace.identity] = User.of_trace(trace, table)
    return tuple(found[name] for name in sorted(found))


def operations_of(used: Iterable[str], role: str) -> tuple[str, ...]:
    """What a member does to tables: what it is known to do, or else what its role suggests."""
    known = {each for each in used if each.partition(".")[0] in ("read", "write")}
    return tuple(sorted(known)) or (("write",) if role == "writer" else ("read",))


def _judged(release: str, seen_as: str) -> str:
    """The release that a member is judged by: none that is known if it was seen to run another than was declared."""
    return f"{release} or {seen_as}" if seen_as else release


def client_of(member: Member, *, table: str = "", ladder: str = "") -> Client:
    """A member as it is judged when a table changes."""
    report = member.report
    used = (
        use.operation
        for use in report.tables
        if (not table or use.table == table) and (not ladder or use.ladder == ladder)
    )
    return Client(
        Release.reported(_judged(report.release, member.seen_as)),
        operations_of(used, report.role),
        str(member.provenance),
        member.last_seen,
        str(report.key),
        report.features,
    )

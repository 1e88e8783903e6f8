"""The users of a table: known_users known to use it, and who of them would break if it required more.

A *user* is a member together with what it does to one table and how that is known. `would_break` puts the one question
of the package, "may it?", for each of them: as the table is now, and as it would be. Unknown is old: a user that nobody
can judge breaks as soon as the table requires anything new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from halocline.compat.answer import Answer
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.verdict import Verdict, can
from halocline.errors import InputError
from halocline.fleet.core.state import Provenance
from halocline.fleet.usage.traces import UsageTrace
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who uses a table.

    Args:
        name: Who it is.
        release: What it runs; text that names no release cannot be judged.
        operations: What it does to the table, e.g. `read` and `write.append`.
        provenance: How we know.
        last_seen_ms: When it was last seen; 0 for one that holds a lease, or was declared and never seen.
        lease_left_ms: How long its lease runs; 0 for one that does not speak.
    """

    name: str
    release: str
    operations: tuple[str, ...]
    provenance: Provenance
    last_seen_ms: int = 0
    lease_left_ms: int = 0

    @staticmethod
    def of_member(member: pb.Member, table: str) -> User:
        """A member as the fleet tells of it."""
        used = {use.operation for use in member.tables if use.table == table}
        operations = tuple(sorted(used)) or (("write",) if member.role == "writer" else ("read",))
        return User(
            member.identity,
            member.release,
            operations,
            Provenance(member.provenance),
            member.last_seen_ms,
            member.lease_left_ms,
        )

    @staticmethod
    def of_trace(trace: UsageTrace, table: str) -> User:
        """Somebody who left a trace."""
        operations = tuple(sorted({use.operation for use in trace.uses if use.table == table}))
        return User(trace.identity, trace.release, operations, trace.provenance, trace.seen_ms or 0)

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


@dataclass(frozen=True, slots=True)
class Broken:
    """A user that would break, and the verdict that says so; no verdict if its release names nothing."""

    user: User
    verdict: Verdict | None

    @property
    def why(self) -> str:
        """The reason, for people."""
        return "its release cannot be judged" if self.verdict is None else str(self.verdict)


def known_users(members: Iterable[pb.Member], traces: Iterable[UsageTrace], table: str) -> tuple[User, ...]:
    """The users that a fleet tells of and those that were just observed, each once.

    The fleet's word stands where both know the same one, unless the trace is newer.
    """
    found = {each.identity: User.of_member(each, table) for each in members}
    for trace in traces:
        known = found.get(trace.identity)
        if known is None or known.last_seen_ms < (trace.seen_ms or 0):
            found[trace.identity] = User.of_trace(trace, table)
    return tuple(found[name] for name in sorted(found))


def would_break(
    users: Iterable[User], before: Protocol | None, after: Protocol, enabled: frozenset[str]
) -> tuple[Broken, ...]:
    """Those who could not use the table any more, or only with wrong results.

    Args:
        users: Everybody who uses it.
        before: What it requires now; None for a table that is being created.
        after: What it would require.
        enabled: The features that would be in use.

    Example:
        >>> finance = User("finance", "deltalake@1.0.2", ("read",), Provenance.REPORTED)
        >>> after = Protocol.parse("(3,7|R: deletionVectors|W: deletionVectors)")
        >>> [each.why for each in would_break([finance], Protocol.delta(1, 2), after, frozenset({"deletionVectors"}))]
        ['refused: reads deletionVectors from 1.3.2']
    """
    return tuple(broken for user in users if (broken := _judged(user, before, after, enabled)) is not None)


def _judged(user: User, before: Protocol | None, after: Protocol, enabled: frozenset[str]) -> Broken | None:
    had = enabled if before is None else frozenset(each for each in enabled if before.supports(each.partition(":")[0]))
    try:
        release = Release.parse(user.release)
    except InputError:
        return Broken(user, None)
    worst: Verdict | None = None
    # Where both are refused, writing counts: what helps a writer helps it to read as well.
    for operation in sorted(user.operations, reverse=True):
        later = can(release, after, operation, enabled=enabled)
        if later.ok:
            continue
        if before is not None:
            if after.requires(operation, enabled) <= before.requires(operation, had):
                continue
            now = can(release, before, operation, enabled=had)
            if now.answer is later.answer and later.answer is not Answer.UNKNOWN:
                continue
        if worst is None or later.answer.loudness > worst.answer.loudness:
            worst = later
    return None if worst is None else Broken(user, worst)

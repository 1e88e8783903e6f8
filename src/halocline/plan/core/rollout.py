"""What a planner is given, as values that make sense: tables, members, goals, and the releases that can be had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from halocline.compat.knowledge import Knowledge
from halocline.compat.metadata import TableMetadata
from halocline.compat.product import checked_operation
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.errors import InputError, NotFoundError

WRITE: Final = "write"


@dataclass(frozen=True, slots=True)
class TableMove:
    """One step of one table.

    Args:
        action: What is done, as a command to people: `enable deletionVectors`, `move to table version 8`.
        after: The terms of the table afterwards.
        reversible: Whether the table can be brought back to what it was.
        note: What to know about it, as a clause.
    """

    action: str
    after: Terms
    reversible: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class RolloutTable:
    """A table, and what it is to become.

    Args:
        name: Its name, or its URL.
        terms: What it asks of whoever uses it, as things are.
        moves: The steps it is to go, in order.
        raised: The terms it has once a writer has moved it up by itself, by table version.
        fingerprint: The state that all of this was read from.
    """

    name: str
    terms: Terms
    moves: tuple[TableMove, ...] = ()
    raised: Mapping[int, Terms] = field(default_factory=dict)
    fingerprint: str = ""

    @property
    def target(self) -> Terms:
        """The terms it is to have."""
        return self.moves[-1].after if self.moves else self.terms


@dataclass(frozen=True, slots=True)
class TableAccess:
    """What a member does to a table.

    Attributes:
        table: The table.
        operations: What is done to it; whoever writes also reads.
        writes: Whether one of these writes.
    """

    table: str
    operations: tuple[str, ...]
    writes: bool = field(init=False)

    def __post_init__(self) -> None:
        given = {checked_operation(each) for each in self.operations}
        writes = any(each.partition(".")[0] == WRITE for each in given)
        reads = {"read"} if writes else set()
        if not given:
            raise InputError(f"nothing is said to be done to {self.table}", next_step="Name read or write.")
        object.__setattr__(self, "operations", tuple(sorted(given | reads)))
        object.__setattr__(self, "writes", writes)


@dataclass(frozen=True, slots=True)
class RolloutMember:
    """A program that uses tables.

    Args:
        name: Its name in the fleet.
        release: What it runs.
        uses: What it does to which tables.
        pinnable: Whether it can be told not to move tables up by itself, where its release has a switch for that.
        provides: The features that it says it provides; counts where nothing is known about its release.
        known_from: How we know of it.
    """

    name: str
    release: Release
    uses: tuple[TableAccess, ...]
    pinnable: bool = True
    provides: frozenset[str] = frozenset()
    known_from: str = "given"

    @staticmethod
    def of(
        name: str,
        release: str | Release,
        *,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
        pinnable: bool = True,
    ) -> RolloutMember:
        """A member that reads and writes these tables.

        Example:
            >>> RolloutMember.of("silver", "hudi@0.15.0", reads=["bronze"], writes=["silver"]).uses[1].operations
            ('read', 'write')
        """
        written = dict.fromkeys(writes)
        read = [each for each in dict.fromkeys(reads) if each not in written]
        uses = [*(TableAccess(each, ("read",)) for each in read), *(TableAccess(each, (WRITE,)) for each in written)]
        return RolloutMember(name, Release.parse(release), tuple(uses), pinnable)


@dataclass(frozen=True)
class Rollout:
    """What is to happen, to what, and with what.

    Args:
        tables: The tables.
        members: Those that use them.
        goals: The release that each product is to have.
        available: The releases that can be had; of a product without any, those at which something changes.
        accepted: The members of which `unknown` is accepted.
        may_stop: The members that may stop for a while.
        knowledge: What is known about products; what ships with Halocline if left out.

    Example:
        >>> gold = RolloutMember.of("gold", "trino@426", reads=["orders"])
        >>> Rollout((), (gold,))
        Traceback (most recent call last):
        ...
        halocline.errors.NotFoundError: NOT_FOUND: gold uses orders, which is not part of the rollout
          given    orders
          nearest  none
          known    none
        Add the table, or take it out of what gold uses.
    """

    tables: tuple[RolloutTable, ...]
    members: tuple[RolloutMember, ...]
    goals: tuple[Release, ...] = ()
    available: tuple[Release, ...] = ()
    accepted: frozenset[str] = frozenset()
    may_stop: frozenset[str] = frozenset()
    knowledge: Knowledge | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _no_name_twice("table", [each.name for each in self.tables])
        _no_name_twice("member", [each.name for each in self.members])
        _no_name_twice("product", [each.product for each in self.goals])
        known = {each.name for each in self.tables}
        for member in self.members:
            for use in member.uses:
                if use.table not in known:
                    message = f"{member.name} uses {use.table}, which is not part of the rollout"
                    step = f"Add the table, or take it out of what {member.name} uses."
                    raise NotFoundError.unknown(message, use.table, sorted(known), next_step=step)
        members = {each.name for each in self.members}
        for name in sorted((self.accepted | self.may_stop) - members):
            raise NotFoundError.unknown(f"there is no member {name!r}", name, sorted(members))

    @property
    def known(self) -> Knowledge:
        """What is known about products."""
        return self.knowledge or Knowledge.load()

    @property
    def users(self) -> dict[str, list[str]]:
        """The members that use each table, by name."""
        found: dict[str, list[str]] = {}
        for member in self.members:
            for use in member.uses:
                found.setdefault(use.table, []).append(member.name)
        return found

    def releases_of(self, product: str) -> tuple[Release, ...]:
        """The releases of a product that can be had, lowest first."""
        named = sorted(each for each in {*self.available, *self.goals} if each.product == product)
        found = self.known.find(product)
        if any(each.product == product for each in self.available) or found is None:
            return tuple(named)
        bounds = {*(bound for format in found.formats for bound in found.boundaries(format, WRITE))}
        bounds |= {*(bound for format in found.formats for bound in found.boundaries(format, "read"))}
        bounds |= {found.last} if found.last else set()
        return tuple(sorted({*named, *(Release(product, each) for each in bounds)}))


def at_version(terms: Terms, version: int) -> Terms:
    """The terms of a Hudi table at another table version, as far as its terms alone tell.

    Example:
        >>> "completionTime" in (at_version(Terms(Protocol.hudi(6), frozenset()), 8).in_use or ())
        True
    """
    protocol = Protocol.hudi(version)
    brought = Terms.of(protocol, TableMetadata({})).in_use or frozenset()
    return Terms(protocol, brought | (terms.features_in_use & protocol.features))


def _no_name_twice(what: str, names: list[str]) -> None:
    if len(set(names)) != len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise InputError(f"there are two {what}s of the name {twice!r}", next_step=f"Give each {what} its own name.")

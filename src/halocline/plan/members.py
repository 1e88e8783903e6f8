"""Who uses the tables of a lake: from a file, from a fleet, and from what the tables themselves tell.

`members.toml` names members and the releases that can be had:

    [releases]
    hudi = ["0.15.0", "1.2.0"]

    [[members]]
    name = "silver-job"
    release = "hudi@0.15.0"
    reads = ["bronze.*"]                # names of tables, where * stands for any characters
    writes = ["silver.trips"]
    pinnable = true                     # whether it can be kept from moving tables up by itself

A fleet's word counts before the file's, and both before what a log tells: a release that a log names as a writer is
taken for a member of its own only if no member of the same product is known to write that table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from halocline.compat.release import Release
from halocline.errors import InputError
from halocline.fleet.answers import MemberStatus
from halocline.fleet.usage.traces import UsageTrace
from halocline.fleet.usage.users import operations_of
from halocline.lake.file import LakeClient
from halocline.plan.core.rollout import RolloutMember, TableAccess
from halocline.plan.toml_file import read_toml, records, texts, unusable
from halocline.storage.location import Location

_KEYS: Final = ("releases", "members")
_MEMBER_KEYS: Final = ("name", "release", "reads", "writes", "pinnable")


@dataclass(frozen=True, slots=True)
class NamedMember:
    """A member as a file names it: its tables may be patterns."""

    name: str
    release: Release
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    pinnable: bool = True
    known_from: str = "given"

    def among(self, tables: Iterable[str]) -> RolloutMember:
        """The member with the tables that its patterns fit."""
        uses = []
        for table in tables:
            writes = any(fnmatchcase(table, each) for each in self.writes)
            if writes or any(fnmatchcase(table, each) for each in self.reads):
                uses.append(TableAccess(table, ("write",) if writes else ("read",)))
        return RolloutMember(self.name, self.release, tuple(uses), self.pinnable, known_from=self.known_from)


@dataclass(frozen=True, slots=True)
class MembersFile:
    """What a `members.toml` says."""

    members: tuple[NamedMember, ...] = ()
    available: tuple[Release, ...] = ()

    @staticmethod
    def read(path: str | Path) -> MembersFile:
        """Reads a file.

        Raises:
            NotFoundError: There is none.
            InputError: It is not TOML, or says what is not understood.
        """
        raw = read_toml(path, _KEYS)
        had = raw.get("releases", {})
        if not isinstance(had, Mapping):
            raise unusable(f"releases of {path}", had, 'product = ["1.0.0", "1.1.0"], once for each')
        available = tuple(
            Release.parse(f"{product}@{version}")
            for product, versions in had.items()
            for version in texts(versions, f"releases.{product} of {path}")
        )
        members = tuple(_member(each, place) for place, each in records(raw, "members", _MEMBER_KEYS, str(path)))
        return MembersFile(members, available)


def gathered(
    tables: Mapping[str, str],
    *,
    named: Iterable[NamedMember] = (),
    declared: Iterable[LakeClient] = (),
    fleet: Iterable[MemberStatus] = (),
    traces: Iterable[UsageTrace] = (),
) -> tuple[RolloutMember, ...]:
    """Everybody who is known to use these tables, each once, in order of name.

    Args:
        tables: Where each table lies, by name.
        named: Those of a file.
        declared: Those that `lake.toml` declares.
        fleet: Those of a fleet.
        traces: Those whom logs tell of.
    """
    by_place = {Location.parse(place).url: name for name, place in tables.items()}
    found: dict[str, RolloutMember] = {}
    for client in declared:
        each = NamedMember(client.name, client.release, client.reads, client.writes, known_from="declared")
        found[each.name] = each.among(tables)
    for each in named:
        found[each.name] = each.among(tables)
    for status in fleet:
        if status.live and not status.removed:
            pinnable = found[status.identity].pinnable if status.identity in found else True
            used = _uses((use.table, use.operation) for use in status.tables)
            member = RolloutMember(
                status.identity,
                Release.reported(status.release),
                tuple(
                    TableAccess(by_place[place], operations_of(operations, status.role))
                    for place, operations in used.items()
                    if place in by_place
                ),
                pinnable,
                provides=frozenset(status.features),
                known_from=str(status.provenance),
            )
            found[status.identity] = _with_uses_of(member, found.get(status.identity))
    writers = {(use.table, each.release.product) for each in found.values() for use in each.uses if use.writes}
    for trace in traces:
        release = Release.reported(trace.release)
        used = _uses((use.table, use.operation) for use in trace.uses)
        own = [by_place[place] for place in used if place in by_place]
        if own and not any((table, release.product) in writers for table in own):
            access = tuple(
                TableAccess(by_place[place], operations) for place, operations in used.items() if place in by_place
            )
            found.setdefault(
                trace.identity, RolloutMember(trace.identity, release, access, known_from=str(trace.provenance))
            )
    return tuple(found[name] for name in sorted(found) if found[name].uses)


def _with_uses_of(member: RolloutMember, known: RolloutMember | None) -> RolloutMember:
    """A fleet knows what a member has done so far; a file may know what else it does."""
    if known is None:
        return member
    operations: dict[str, set[str]] = {}
    for use in (*known.uses, *member.uses):
        operations.setdefault(use.table, set()).update(use.operations)
    uses = tuple(TableAccess(table, tuple(sorted(each))) for table, each in sorted(operations.items()))
    return RolloutMember(member.name, member.release, uses, member.pinnable, member.provides, member.known_from)


def _uses(found: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    by_table: dict[str, set[str]] = {}
    for table, operation in found:
        if operation.partition(".")[0] in ("read", "write"):
            by_table.setdefault(table, set()).add(operation)
    return {table: tuple(sorted(each)) for table, each in sorted(by_table.items())}


def _member(raw: Mapping[str, Any], where: str) -> NamedMember:
    for needed in ("name", "release"):
        if not isinstance(raw.get(needed), str):
            sides = {"expected": "name = '…' and release = 'product@version'"}
            raise InputError(f"{where} has no {needed}", sides=sides)
    pinnable = raw.get("pinnable", True)
    if not isinstance(pinnable, bool):
        raise unusable(f"pinnable in {where}", pinnable, "true or false")
    return NamedMember(
        raw["name"],
        Release.parse(raw["release"]),
        texts(raw.get("reads", []), f"reads in {where}"),
        texts(raw.get("writes", []), f"writes in {where}"),
        pinnable,
    )

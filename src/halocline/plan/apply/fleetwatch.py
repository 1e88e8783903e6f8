"""Watching members: which release each of them runs now.

A fleet tells of those that speak; a `members.toml` is read again each time, so that whoever deploys by hand says so
there; and an operator can confirm a member by name. A member that only a log told of is assumed to be where the plan
has it, until an operator confirms it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from halocline.compat.release import Release
from halocline.fleet.answers import MemberStatus
from halocline.fleet.member.admin import AdminClient
from halocline.lake.file import LakeFile
from halocline.plan.core.rollout import RolloutMember, TableAccess
from halocline.plan.file import SavedPlan
from halocline.plan.members import MembersFile, gathered

_ONLY_IN_LOGS: Final = ("observed", "inferred")


@dataclass(frozen=True, slots=True)
class SeenMembers:
    """What is known of the members now.

    Attributes:
        members: Those that use tables of the plan.
        silent: The names of those in the plan of which nothing tells any more: they have stopped.
    """

    members: tuple[RolloutMember, ...]
    silent: frozenset[str]

    def release_of(self, name: str) -> Release | None:
        """What a member runs; None if nothing tells of it."""
        return next((each.release for each in self.members if each.name == name), None)


@dataclass
class FleetWatch:
    """Where members are looked for.

    Attributes:
        saved: The plan, and how members are known.
        members_file: The file that tells of them.
        fleet: The fleet that tells of them.
        confirmed: What members run by the word of an operator.
    """

    saved: SavedPlan
    members_file: str = ""
    fleet: str = ""
    confirmed: dict[str, Release | None] = field(default_factory=dict)

    def speaks(self, name: str) -> bool:
        """Whether anything would tell that a member runs something else, or stands still."""
        known = self.saved.known_from.get(name, "given")
        if known == "given":
            return bool(self.members_file)
        return bool(self.fleet) and known not in _ONLY_IN_LOGS

    def look(self) -> SeenMembers:
        """What every member runs now."""
        said = MembersFile.read(self.members_file).members if self.members_file else ()
        told: tuple[MemberStatus, ...] = ()
        if self.fleet:
            with AdminClient(self.fleet) as admin:
                told = admin.members().members
        lake = self.saved.lake
        declared = LakeFile.read(lake).clients if lake.endswith(".toml") else ()
        found = {
            each.name: each for each in gathered(dict(self.saved.places), named=said, declared=declared, fleet=told)
        }
        for name, was in self.saved.plan.members:
            if name not in found and not self.speaks(name):
                found[name] = self._as_planned(name, was)
        silent = frozenset(name for name, _ in self.saved.plan.members if name not in found)
        members = (
            replace(each, release=self.confirmed.get(each.name) or each.release)
            for each in found.values()
            if self.confirmed.get(each.name, each.release) is not None
        )
        return SeenMembers(tuple(members), silent | {name for name, each in self.confirmed.items() if each is None})

    def _as_planned(self, name: str, was: str) -> RolloutMember:
        uses = tuple(TableAccess(table, tuple(each)) for table, each in self.saved.uses.get(name, {}).items())
        return RolloutMember(name, Release.reported(was), uses, known_from=self.saved.known_from.get(name, "given"))


def moved_since(saved: SavedPlan, sighting: SeenMembers, names: Iterable[str]) -> dict[str, str]:
    """The members, of these names, that run something else than when the plan was made, and what."""
    was = dict(saved.plan.members)
    found = {}
    for name in names:
        now = sighting.release_of(name)
        if now is not None and str(now) != was.get(name, str(now)):
            found[name] = str(now)
    return found

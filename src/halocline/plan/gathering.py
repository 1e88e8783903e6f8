"""Gathering a rollout: the tables of a lake from their logs, and everybody who is known to use them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final

from halocline.compat.knowledge import Knowledge
from halocline.compat.release import Release
from halocline.errors import HaloclineError, NotFoundError, needs_extra
from halocline.fleet.answers import MemberStatus
from halocline.fleet.usage.observers import observed
from halocline.fleet.usage.traces import UsageTrace
from halocline.formats.base import detect_format, inspector_of
from halocline.lake.lake import Lake, LakeEntry
from halocline.plan.core.plan import Plan
from halocline.plan.core.rollout import Rollout, RolloutTable
from halocline.plan.file import SavedPlan
from halocline.plan.members import MembersFile, gathered
from halocline.plan.tables import rollout_table
from halocline.plan.target import Target
from halocline.table.opening import placed

_AT_ONCE: Final = 16


@dataclass(frozen=True)
class Gathered:
    """A rollout, and where it was found.

    Attributes:
        rollout: What is to happen.
        places: Where each table lies.
        left_out: Tables that could not be read, and why.
        lake: Where the lake lies.
        members_file: The file of members.
        fleet: The fleet that was asked.
    """

    rollout: Rollout
    places: dict[str, str]
    left_out: dict[str, str] = field(default_factory=dict)
    lake: str = ""
    members_file: str = ""
    fleet: str = ""

    def saved(self, plan: Plan) -> SavedPlan:
        """A plan for this rollout, to be kept."""
        uses = {each.name: {use.table: list(use.operations) for use in each.uses} for each in self.rollout.members}
        known = {each.name: each.known_from for each in self.rollout.members}
        return SavedPlan(plan, self.lake, self.places, uses, known, self.members_file, self.fleet)


def gather(
    lake: Lake,
    target: Target,
    *,
    members_file: str = "",
    fleet: str = "",
    available: Iterable[Release] = (),
    accepted: Iterable[str] = (),
    may_stop: Iterable[str] = (),
    progress: Callable[[int], None] | None = None,
) -> Gathered:
    """Reads tables and asks who uses them.

    A table that cannot be read is left out and told, as long as the target is not about it alone.

    Raises:
        NotFoundError: There is no such file, or no member of a name that was given.
        UnavailableError: The fleet is not reached.
        HaloclineError: Not one table could be read.
    """
    said = MembersFile.read(members_file) if members_file else MembersFile()
    entries = list(lake)
    _check_selected(target, [each.name for each in entries])
    tables, traces, left_out = list[RolloutTable](), list[UsageTrace](), dict[str, str]()
    first: HaloclineError | None = None
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="halocline-plan") as pool:
        for at, found in enumerate(pool.map(lambda each: _read(lake, each, target), entries), 1):
            if isinstance(found, HaloclineError):
                first = first or found
                left_out[entries[at - 1].name] = found.message
            else:
                tables.append(found[0])
                traces += found[1]
            if progress is not None:
                progress(at)
    if first is not None and not tables:
        raise first
    places = {each.name: each.url for each in entries if each.name not in left_out}
    members = gathered(
        places, named=said.members, declared=lake.clients, fleet=_members_of(fleet) if fleet else (), traces=traces
    )
    asked = tuple(available)
    _check_products((*target.releases, *asked), {each.release.product for each in members})
    rollout = Rollout(
        tuple(tables),
        members,
        target.releases,
        tuple(dict.fromkeys((*asked, *said.available))),
        frozenset(accepted),
        frozenset(may_stop),
    )
    return Gathered(rollout, places, left_out, _anywhere(lake.place), _anywhere(members_file), fleet)


def both_ways(target: Target) -> tuple[Target, ...]:
    """The target for each way of dropping that it leaves open: history kept, history truncated."""
    if not target.drop or target.truncate is not None:
        return (target,)
    return replace(target, truncate=False), replace(target, truncate=True)


def _check_selected(target: Target, names: Sequence[str]) -> None:
    for pattern in target.select:
        if not any(fnmatchcase(each, pattern) for each in names):
            step = "See what there is: halocline survey LAKE"
            raise NotFoundError.unknown(f"no table of the lake is called {pattern}", pattern, names, next_step=step)


def _check_products(asked: Iterable[Release], run: set[str]) -> None:
    known = Knowledge.load()
    for release in asked:
        if release.product not in run and known.find(release.product) is None:
            message = f"no member runs {release.product}, and nothing is known of it"
            raise NotFoundError.unknown(message, release.product, sorted({*run, *known.files}))


def _anywhere(place: str) -> str:
    """A place that means the same in whichever folder a plan is applied."""
    return os.path.abspath(place) if place and "://" not in place else place


def _members_of(fleet: str) -> tuple[MemberStatus, ...]:
    # Only who names a fleet needs its client; the core alone plans by files and logs.
    with needs_extra("the fleet's client", "fleet"):
        from halocline.fleet.member.admin import AdminClient

    with AdminClient(fleet) as admin:
        return admin.members().members


def _read(lake: Lake, entry: LakeEntry, target: Target) -> tuple[RolloutTable, tuple[UsageTrace, ...]] | HaloclineError:
    try:
        store = placed(entry.url, lake.session, lake.options)[0]
        inspector_of(detect_format(store)).check_readable(store)
        return rollout_table(entry.name, store, target), observed(store).traces
    except HaloclineError as error:
        return error

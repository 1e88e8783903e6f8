"""Walking the stages of a plan, from wherever the journal says that it stands.

A wave is done when every member of it was seen with its new release. A table moves when its gate is open: nobody who is
known to use it now would break, and the fleet, if there is one, stands at the level that the move needs; levels that
nobody is in the way of are raised on the way. What is not possible yet is *waited* for, and whoever looks is told for
whom, and since when.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from halocline.errors import (
    ConflictError,
    NotFoundError,
    UnavailableError,
)
from halocline.fleet.member.connect import connect
from halocline.formats.log.fence import fenced
from halocline.plan.apply.as_planned import AsPlanned, stale
from halocline.plan.apply.fleetwatch import FleetWatch, SeenMembers, moved_since
from halocline.plan.apply.journal import (
    BEGUN,
    CONFIRMED,
    FINISHED,
    MOVED,
    STAGE_DONE,
    TAKEN_BACK,
    UPGRADED,
    VERIFIED,
    WAITING,
    Journal,
)
from halocline.plan.apply.lease import RolloutLease
from halocline.plan.apply.levels import make_room
from halocline.plan.apply.table_move import TableMover
from halocline.plan.apply.takeover import holding_lake
from halocline.plan.apply.walk import ApplyOptions, Pause, Paused, Reporter
from halocline.plan.core.plan import MemberUpgrade, PlannedMove, Stage
from halocline.plan.file import SavedPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TABLES_AT_ONCE: Final = 4


def apply_plan(
    saved: SavedPlan,
    watch: FleetWatch,
    reporter: Reporter,
    *,
    by: str,
    spark: SparkSession | None = None,
    options: ApplyOptions | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Pause | None:
    """Applies exactly this plan, from where it stands.

    Args:
        saved: The plan, and where to apply it.
        watch: Where members are looked for.
        reporter: Who is told how it goes.
        by: Who applies it.
        spark: The session for rows; needed to verify, and for moves that write rows.
        options: How.
        sleep: What waits.

    Returns:
        What it waits for, if it does not wait itself; None if everything is done.

    Raises:
        ConflictError: Tables or members have moved since the plan was made, or somebody else applies one.
    """
    chosen = options or ApplyOptions()
    chosen.policy.check(saved.plan)
    with holding_lake(saved.lake, by, saved.plan.id) as lease, _in_front_of_tables(watch, saved.plan.id):
        journal = Journal.open(saved.lake, saved.plan.id, by, lease.token)
        check_not_taken_back(journal)
        return _Walk(saved, watch, reporter, journal, lease, spark, chosen, sleep).run()


@contextmanager
def _in_front_of_tables(watch: FleetWatch, plan: str) -> Iterator[None]:
    """Makes whoever applies a plan a member of the fleet, so that each table asks it before it moves."""
    if not watch.fleet:
        yield
        return
    with connect(watch.fleet, name=f"rollout-{plan}", install=False) as handle, handle.acting():
        yield


def check_not_taken_back(journal: Journal) -> None:
    """Refuses a plan that somebody is taking back, or has taken back."""
    taken = journal.last(TAKEN_BACK, 0)
    if taken is not None:
        raise ConflictError(
            f"plan {journal.plan} was taken back by {taken.by}",
            condition="PLAN_STALE",
            sides={"plan": journal.plan, "taken back by": f"plan {taken.subject}"},
            next_step="Plan again: halocline plan LAKE --out FILE",
        )


@dataclass
class _Walk:
    saved: SavedPlan
    watch: FleetWatch
    reporter: Reporter
    journal: Journal
    lease: RolloutLease
    spark: SparkSession | None
    options: ApplyOptions
    sleep: Callable[[float], None]
    _sighting: SeenMembers | None = None
    _to_confirm: set[str] = field(default_factory=set)
    _compared: int = 0

    @property
    def _as_planned(self) -> AsPlanned:
        return AsPlanned(self.saved, self.journal)

    @property
    def _mover(self) -> TableMover:
        return TableMover(
            self.saved, self.watch, self.reporter, self.journal, self.spark, self.options, seen=self._seen
        )

    def run(self) -> Pause | None:
        if not self.journal.has(BEGUN):
            self._check_not_moved()
            self._compared = 1
            self.journal.keep(self.saved.encode())
            self.journal.write(BEGUN, detail=f"{len(self.saved.plan.stages)} stages")
        self._to_confirm = set(self.options.confirmed)
        self._check_confirmed()
        self._confirmed_so_far()
        for number, stage in enumerate(self.saved.plan.stages, 1):
            if self.journal.has(STAGE_DONE, number):
                continue
            done = len(self.journal.subjects(MOVED if stage.moves else UPGRADED, number))
            self.reporter.stage(number, stage, done)
            pause = self._until_done(number, stage)
            if pause is not None:
                return pause
            self.journal.write(STAGE_DONE, number)
        if not self.journal.has(FINISHED):
            self.journal.write(FINISHED)
        return None

    def _check_confirmed(self) -> None:
        """Refuses the word for a member that is to get nothing: it is mistyped, and would be waited for for ever."""
        awaited = {each.member for each in self.saved.plan.upgrades}
        for name in sorted(self._to_confirm - awaited):
            message = f"no stage of plan {self.saved.plan.id} waits for {name!r}"
            step = "Confirm a member that gets another release: halocline status FILE"
            raise NotFoundError.unknown(message, name, sorted(awaited), next_step=step)

    def _confirmed_so_far(self) -> None:
        """What an operator vouched for counts from the wave on in which it was taken at its word."""
        for number, stage in enumerate(self.saved.plan.stages, 1):
            done = self.journal.subjects(CONFIRMED, number)
            self.watch.confirmed |= {each.member: each.after for each in stage.upgrades if each.member in done}
        self._sighting = None

    def _until_done(self, number: int, stage: Stage) -> Pause | None:
        while True:
            try:
                self.lease.check()
                if self._compared < number:
                    self._as_planned.check(number)
                    self._compared = number
                self._check_window()
                self._check_soaked(number)
                self._check_members_stay(number)
                if stage.moves:
                    self._move_tables(number, stage.moves)
                else:
                    self._see_members(number, stage.upgrades)
                return None
            except Paused as paused:
                reason = paused
            except UnavailableError as error:
                # A fleet or a store that is away for a while is no reason to give up what may take days.
                reason = Paused((), error.message)
            pause = self._noted(number, reason)
            self.reporter.waiting(pause)
            if not self.options.wait:
                return pause
            self.sleep(self.options.poll_s)
            self._sighting = None

    def _noted(self, number: int, paused: Paused) -> Pause:
        """A pause, with the time since when it is the same one."""
        told = f"{paused.why}: {', '.join(paused.subjects)}" if paused.subjects else paused.why
        last = self.journal.last(WAITING, number)
        if last is None or last.detail != told:
            self.journal.write(WAITING, number, detail=told)
            last = self.journal.last(WAITING, number)
        since = last.at_ms if last else 0
        return Pause(number, paused.subjects, paused.why, since, paused.until_ms)

    # ------------------------------------------------------------------ before anything is done

    def _check_not_moved(self) -> None:
        """Refuses a plan for other tables or members than there are."""
        tables = self._as_planned.changes(0)
        members = moved_since(self.saved, self._seen(), dict(self.saved.plan.members))
        if tables or members:
            sides = {f"table {name}": change for name, change in list(tables.items())[:5]}
            releases = dict(self.saved.plan.members)
            sides |= {
                f"member {name}": f"was {releases[name]}, is {found}" for name, found in list(members.items())[:5]
            }
            raise stale(f"{len(tables)} tables and {len(members)} members have moved since the plan was made", sides)

    def _check_window(self) -> None:
        window = self.options.policy.quiet(datetime.now(UTC))
        if window is not None:
            raise Paused((), f"{window.reason}, until {window.until:%Y-%m-%d %H:%M} UTC", _ms(window.until))

    def _check_soaked(self, number: int) -> None:
        """A wave runs for a while before the next stage begins."""
        done = self.journal.last(STAGE_DONE, number - 1)
        if done is None or not self.saved.plan.stages[number - 2].upgrades:
            return
        until = done.at_ms + int(self.options.policy.soak_s * 1000)
        if until > time.time_ns() // 1_000_000:
            moment = datetime.fromtimestamp(until / 1000, UTC)
            raise Paused((), f"stage {number - 1} soaks until {moment:%Y-%m-%d %H:%M:%S} UTC", until)

    # ------------------------------------------------------------------ members

    def _seen(self) -> SeenMembers:
        if self._sighting is None:
            self._sighting = self.watch.look()
        return self._sighting

    def _make_room(self, upgrades: Sequence[MemberUpgrade]) -> None:
        """Lets the fleet fall to a level at which the releases of a wave are admitted."""
        if self.watch.fleet:
            reason, note = f"plan {self.saved.plan.id}", self.reporter.note
            awaited = make_room(self.watch.fleet, upgrades, self.saved.uses, reason, note)
            if awaited:
                raise Paused((), awaited)

    def _see_members(self, number: int, upgrades: Sequence[MemberUpgrade]) -> None:
        done = self.journal.subjects(UPGRADED, number)
        self._make_room([each for each in upgrades if each.member not in done])
        missing: list[str] = []
        for each in upgrades:
            if each.member in done:
                continue
            if each.member in self._to_confirm:
                # A word counts for one wave: the next release of the same member is another matter.
                self._to_confirm.discard(each.member)
                self.watch.confirmed[each.member] = each.after
                self.journal.write(CONFIRMED, number, each.member, str(each.after or "stopped"))
            if self.journal.has(CONFIRMED, number, each.member) or self._arrived(each):
                self.journal.write(UPGRADED, number, each.member, str(each.after or "stopped"))
                self.reporter.step(number, each.member, str(each.after or "stopped"))
            else:
                missing.append(each.member)
        self._sighting = None
        if missing:
            mute = [name for name in missing if not self.watch.speaks(name)]
            hint = f" ({len(mute)} of them never will: --confirm {mute[0]})" if mute else ""
            raise Paused(missing, f"waits for {len(missing)} of {len(upgrades)} members to report their release{hint}")

    def _arrived(self, upgrade: MemberUpgrade) -> bool:
        now = self._seen().release_of(upgrade.member)
        if upgrade.after is None:
            return now is None
        if now is None or upgrade.before == upgrade.after:
            return False  # a switch that was thrown does not show: an operator says so
        if now not in (upgrade.before, upgrade.after) and upgrade.before is not None:
            raise ConflictError(
                f"{upgrade.member} runs {now}, which the plan does not have it run",
                condition="PLAN_STALE",
                sides={"plan": f"{upgrade.before}, then {upgrade.after}", "member": str(now)},
                next_step="Plan again from where things are: halocline plan LAKE --out FILE",
            )
        return now == upgrade.after

    # ------------------------------------------------------------------ tables

    def _move_tables(self, number: int, moves: Sequence[PlannedMove]) -> None:
        verified = self.journal.subjects(VERIFIED, number)
        left = [each for each in moves if each.table not in verified]
        self._seen()
        with ThreadPoolExecutor(self.options.policy.tables_at_once or _TABLES_AT_ONCE, "halocline-move") as pool:
            # Each runs as this thread does: for the same member of the fleet, under the same settings.
            running = [pool.submit(copy_context().run, self._tried, number, each) for each in left]
            try:
                found = [each.result() for each in running]
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        paused = [(each.table, pause) for each, pause in zip(left, found, strict=True) if pause is not None]
        if paused:
            names = [name for name, _ in paused]
            raise Paused(names, paused[0][1].why, min(pause.until_ms for _, pause in paused))

    def _tried(self, number: int, move: PlannedMove) -> Paused | None:
        """Moves a table; what it waits for if it cannot be moved yet."""
        try:
            self._check_window()
            with fenced(self.lease.check):
                self._mover.move(number, move)
        except Paused as paused:
            return paused
        return None

    def _check_members_stay(self, number: int) -> None:
        """No member may be back where it was before its wave."""
        expected: dict[str, MemberUpgrade] = {}
        for stage in self.saved.plan.stages[: number - 1]:
            expected |= {each.member: each for each in stage.upgrades}
        # Those whose next release has come are waited for by name.
        for each in self.saved.plan.stages[number - 1].upgrades:
            expected.pop(each.member, None)
        back = [
            f"{name} ({now})"
            for name, each in expected.items()
            if (now := self._seen().release_of(name)) is not None and now != each.after
        ]
        if back:
            raise Paused(back, "waits for members that are back at another release")


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)

"""What `halocline apply` and `halocline rollback` share: their options, and the bars that show how it goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from halocline.cli.output import ERROR, FINE, STOPPED, emit_stopped
from halocline.cli.plan import CHANGES, FleetOption
from halocline.cli.spark_session import session, stoppable
from halocline.errors import InputError, needs_extra, shortened
from halocline.progress import telling

if TYPE_CHECKING:
    from halocline.plan.apply.status import RolloutStatus
    from halocline.plan.apply.walk import Pause
    from halocline.plan.core.plan import Stage
    from halocline.plan.file import SavedPlan

PlanArgument = Annotated[str, typer.Argument(help="The file that halocline plan --out has made.")]


class WalkOptions(NamedTuple):
    """The options of a walk, and what they were set to."""

    members: Annotated[str, typer.Option("--members", help="A members.toml that tells what members run.")] = ""
    fleet: FleetOption = ""
    verify: Annotated[
        str, typer.Option("--verify", help="How much of the rows is compared around a move: sample, full or none.")
    ] = "sample"
    policy: Annotated[str, typer.Option("--policy", help="A policy.toml: soaking, windows, tables at once.")] = ""
    confirm: Annotated[
        list[str] | None, typer.Option("--confirm", help="A member that was given its release and does not report it.")
    ] = None
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for members and gates, or say for whom and stop.")
    ] = True
    poll: Annotated[float, typer.Option("--poll", min=0.0, help="How often members are looked at, in seconds.")] = 2.0


def walk(saved: SavedPlan, asked: WalkOptions) -> int:
    """Applies a plan and shows how it goes."""
    with needs_extra("the fleet's client", "fleet"):
        from halocline.fleet.member.admin import operator_name
        from halocline.plan.apply.engine import apply_plan
        from halocline.plan.apply.fleetwatch import FleetWatch
        from halocline.plan.apply.status import uncompared
        from halocline.plan.apply.verify import Verify
        from halocline.plan.apply.walk import ApplyOptions
        from halocline.plan.policy import RolloutPolicy

    if asked.verify not in list(Verify):
        raise InputError.unknown(f"rows cannot be verified by {asked.verify!r}", asked.verify, Verify)
    verify, policy = Verify(asked.verify), RolloutPolicy.read(asked.policy) if asked.policy else RolloutPolicy()
    options = ApplyOptions(verify, policy, frozenset(asked.confirm or ()), asked.wait, asked.poll)
    watch = FleetWatch(saved, asked.members or saved.members_file, asked.fleet or saved.fleet)
    with _told_if_stopped(saved), ProgressBars(saved) as bars, telling(bars.detail):
        compares = verify is not Verify.NONE and any(saved.plan.moves)
        with bars.starting("Starting Spark") if compares else nullcontext():
            spark = session(f"halocline plan {saved.plan.id}") if compares else None
        with stoppable(spark, bars.stopping):
            pause = apply_plan(saved, watch, bars, by=operator_name(), spark=spark, options=options)
    if pause is None:
        sys.stdout.write(f"Plan {saved.plan.id} is done: {len(saved.plan.stages)} stages.\n")
        blind = uncompared(saved) if verify is not Verify.NONE else {}
        for table, detail in blind.items():
            sys.stdout.write(f"  {table}: {detail}\n")
        return ERROR if blind else FINE
    sys.stdout.write(f"Plan {saved.plan.id} waits: {told(pause)}\n")
    return CHANGES


@contextmanager
def _told_if_stopped(saved: SavedPlan) -> Iterator[None]:
    """Says how far a plan has come, and how to go on, if Ctrl-C ends the walk."""
    try:
        yield
    except KeyboardInterrupt:
        from halocline.plan.apply.status import status_of

        raise KeyboardInterrupt(f"{_how_far(status_of(saved))} The same command goes on from there.") from None


def _how_far(status: RolloutStatus) -> str:
    """Where a walk that was stopped stands, in a sentence."""
    total = len(status.stages)
    at = next((each for each in status.stages if each.state != "done"), None)
    if status.state == "not begun":
        return f"Plan {status.plan}: nothing was done."
    if at is None:
        return f"Plan {status.plan}: all {total} stages are done."
    return f"Plan {status.plan} stands at stage {at.number} of {total}, with {at.done} of {at.total} {at.work} done."


class ProgressBars:
    """One bar per stage; piped, one line for each thing that happens."""

    def __init__(self, saved: SavedPlan) -> None:
        self._total = len(saved.plan.stages)
        self._console = Console(soft_wrap=True, highlight=False)
        self._live = self._console.is_terminal
        shown = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}"),
        )
        self._progress = Progress(*shown, console=self._console, disable=not self._live)
        self._bars: dict[int, TaskID] = {}
        self._waiting = ""
        self._stopping = False

    def __enter__(self) -> ProgressBars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @contextmanager
    def starting(self, what: str) -> Iterator[None]:
        """Something has to start before the first stage begins."""
        shown = self._progress.add_task(what, total=None, detail="")
        try:
            yield
        finally:
            self._progress.remove_task(shown)

    def stage(self, number: int, stage: Stage, done: int) -> None:
        """A stage begins."""
        count = len(stage.moves) or len(stage.upgrades)
        title = f"Stage {number} of {self._total}: {'tables' if stage.moves else 'members'}"
        self._bars[number] = self._progress.add_task(title, total=count, completed=done, detail="")
        self._line(f"{title}, {done} of {count} done")

    def step(self, number: int, subject: str, detail: str = "") -> None:
        """One more is done."""
        self._progress.update(self._bars[number], advance=1, detail=subject)
        self._line(f"  {subject}: {detail}")

    def waiting(self, pause: Pause) -> None:
        """Nothing can be done now; told once for each thing that is waited for."""
        text = told(pause)
        self._progress.update(self._bars[pause.stage], detail=text)
        if text != self._waiting:
            self._waiting = text
            self._line(f"  {text}")

    def detail(self, text: str) -> None:
        """What is done now, beside the bar of its stage; a line of its own would get between the bars."""
        if self._bars and not self._stopping:
            self._progress.update(self._bars[max(self._bars)], detail=text)

    def stopping(self) -> None:
        """Ctrl-C: what is under way is brought to an end, which may take a while; a second one waits for nothing."""
        if self._stopping:
            self._progress.stop()
            emit_stopped(KeyboardInterrupt("At once: what was under way is seen to when the same command goes on."))
            sys.stdout.flush()
            os._exit(STOPPED)
        self.detail("stopping; Ctrl-C again waits for nothing")
        self._stopping = True

    def note(self, text: str) -> None:
        """Something to know."""
        self._console.print(f"  {text}", markup=False)

    def _line(self, text: str) -> None:
        if not self._live:
            self._console.print(text, markup=False)


def told(pause: Pause) -> str:
    """A pause in words: what for, for whom, and since when."""
    names = shortened(pause.subjects, 5)
    since = datetime.fromtimestamp(pause.since_ms / 1000, UTC)
    return f"{pause.why}{f': {names}' if names else ''} (since {since:%H:%M:%S} UTC)"

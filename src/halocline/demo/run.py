"""The story: a lake in use, a survey, a plan, its stages while everybody works on, and all of it back again."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table as Grid
from rich.text import Text

from halocline._version import __version__
from halocline.compat.release import Release
from halocline.demo.lake import EVENTS, NOTES, ORDERS, make_lake
from halocline.demo.ledger import Ledger, StateChange
from halocline.demo.orchestrator import Orchestrator
from halocline.demo.pipelines import (
    Pipeline,
    Workplace,
    add_up,
    append_notes,
    append_orders,
    delete_orders,
    search_notes,
    upsert_events,
)
from halocline.demo.real_clients import RealClient, environment
from halocline.demo.report import DemoReport
from halocline.demo.story import Story
from halocline.errors import IncompatibleError
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.member.connect import connect
from halocline.fleet.server.hosting import Config, embedded
from halocline.lake.lake import Lake
from halocline.plan.apply.backwards import note_taken_back, saved_way_back
from halocline.plan.apply.engine import apply_plan
from halocline.plan.apply.fleetwatch import FleetWatch
from halocline.plan.apply.levels import raise_level
from halocline.plan.apply.takeover import holding_lake
from halocline.plan.apply.walk import ApplyOptions
from halocline.plan.core.plan import Plan
from halocline.plan.explanation import explain
from halocline.plan.proposal import propose_rollout
from halocline.plan.rendering import to_text
from halocline.plan.target import Target
from halocline.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halocline.plan.file import SavedPlan

REAL: Final = {"finance": ("deltalake@1.0.2", "deltalake@1.6.6"), "lookup": ("hudi-rs@0.4.0", "hudi-rs@0.5.0")}
"""The real clients, with the release that each has and the one that it is to get."""

AVAILABLE: Final = ("hudi@1.0.2", "delta-spark@3.2.0", "trino@470", *(new for _, new in REAL.values()))
OWN: Final = f"halocline@{__version__}"
TARGET: Final = Target(enable=("deletionVectors",), table_version=8)


def demo(report_path: Path, *, real_clients: bool = True) -> bool:
    """Runs the demo, and says whether everything held.

    Args:
        report_path: Where the report goes.
        real_clients: Whether other implementations are installed and take part.
    """
    warnings.simplefilter("ignore")
    logging.getLogger("halocline").addHandler(logging.NullHandler())
    ledger = Ledger()
    with tempfile.TemporaryDirectory(prefix="halocline-demo-") as temporary, contextlib.ExitStack() as stack:
        folder = Path(temporary)
        story = Story(ledger, {f"file://{folder}/lake": "lake", f"{folder}/lake": "lake"})
        story.console.print("[bold]Halocline[/]: a lake moves to newer versions, and back, while everybody uses it")
        environments = stack.enter_context(ThreadPoolExecutor(2))
        made = {
            release: environments.submit(environment, folder / "environments", release)
            for releases in (REAL.values() if real_clients else ())
            for release in releases
        }
        with story.stage("start Spark and a coordinator"):
            # Spark first: it starts a process, which one full of gRPC's threads should not do.
            spark = stack.enter_context(local_spark(folder))
            config = Config(store=str(folder / "fleet.db"), listen="127.0.0.1:0", http="127.0.0.1:0")
            hosting = stack.enter_context(embedded(config))
        story.say(f"Spark {spark.version} in local mode; the fleet's coordinator at {hosting.address}")
        with story.stage("make the lake"):
            place = Workplace(spark, hosting.address, ledger, make_lake(folder / "lake", spark, ledger))
        with story.stage("install real clients"):
            missing = {release: why for release, each in made.items() if (why := each.result()) is not None}
        pipelines = {each.name: each for each in _pipelines(place, folder / "environments")}
        for name, releases in REAL.items():
            if not real_clients or any(each in missing for each in releases):
                why = next((missing[each] for each in releases if each in missing), "left out on request")
                story.say(f"{name} does not take part: {why}", "yellow")
                del pipelines[name]
        with AdminClient(hosting.address, "operator") as admin, _watched(admin, place):
            try:
                _tell(story, place, admin, pipelines, folder)
            except Exception as error:
                ledger.failure("demo", error)
                story.check(f"the story was told to its end; {type(error).__name__}: {error}", False)
            finally:
                for each in pipelines.values():
                    each.stop()
        _result(story, place, report_path)
    return story.ok


def _pipelines(place: Workplace, environments: Path) -> Iterator[Pipeline]:
    yield Pipeline(place, "ingest", EVENTS, "hudi@0.15.0", upsert_events, writes=True)
    yield Pipeline(place, "quality", EVENTS, "hudi@0.15.0", add_up)
    yield Pipeline(place, "orders", ORDERS, "delta-spark@2.2.0", append_orders, writes=True)
    yield Pipeline(place, "erasure", ORDERS, "delta-spark@2.2.0", delete_orders, writes=True)
    yield Pipeline(place, "dashboard", ORDERS, "trino@426", add_up)
    yield Pipeline(place, "support", NOTES, OWN, append_notes, writes=True)
    yield Pipeline(place, "helpdesk", NOTES, OWN, search_notes)
    yield RealClient(place, "finance", ORDERS, REAL["finance"][0], environments)
    yield RealClient(place, "lookup", EVENTS, REAL["lookup"][0], environments)


def _tell(story: Story, place: Workplace, admin: AdminClient, pipelines: dict[str, Pipeline], folder: Path) -> None:
    """What happens, from the first rows to the way back."""
    everyone = list(pipelines.values())
    old = {name: each.release for name, each in pipelines.items()}
    story.chapter("1  A lake in use")
    raise_level(place.fleet, "index", _level(place, NOTES), "as the table is", story.say)
    for each in everyone:
        each.start()
    with story.stage("all pipelines begin"):
        _busy(everyone, 2)
    lake = Lake.discover(str(folder / "lake"))
    with story.stage("survey"):
        survey = lake.survey(fleet=place.fleet)
    story.show(_surveyed(survey))
    story.say(f"{len(everyone)} pipelines at work: {place.ledger.line()}")

    story.chapter("2  A plan")
    available = [Release.parse(each) for each in AVAILABLE]
    with story.stage("plan"):
        proposal = propose_rollout(lake, TARGET, fleet=place.fleet, available=available)[0]
    plan = proposal.found
    story.check("there is a plan in which nobody is broken at any moment", isinstance(plan, Plan))
    assert isinstance(plan, Plan)
    story.show(to_text(explain(plan, title=f"Plan {plan.id}")))

    story.chapter("3  Applied while everybody works on")
    saved = proposal.gathered.saved(plan)
    _apply(story, place, pipelines, saved, "apply")
    story.check("the Hudi table is at version 8", _protocol(place, EVENTS) == "hudi(8)")
    story.check("deletion vectors are on", "deletionVectors" in _protocol(place, ORDERS))
    late = _refused(lambda: connect(place.fleet, name="export", release="deltalake@1.0.2", role="reader").close())
    story.check("the fleet does not admit a late old reader, by name", late is not None and "export" in late.message)
    with story.stage("work at the new versions"):
        _busy(everyone, 3)
    story.check(f"everybody works on: {place.ledger.line()}", not place.ledger.failed)

    story.chapter("4  All of it back again")
    back, way = saved_way_back(saved, FleetWatch(saved, fleet=place.fleet))
    story.check("the way back is open to the very beginning", not way.why)
    with holding_lake(saved.lake, "demo", saved.plan.id) as lease:
        note_taken_back(saved, back, lease)
    story.show(to_text(explain(back.plan, title=f"The way back from {plan.id}")))
    _apply(story, place, pipelines, back, "take it back")
    story.check("the Hudi table is at version 6 again", _protocol(place, EVENTS) == "hudi(6)")
    story.check("deletion vectors are gone", "deletionVectors" not in _protocol(place, ORDERS))
    with story.stage("work at the old versions"):
        _busy(everyone, 3)
    released = {name: each.release for name, each in pipelines.items()}
    story.check("every pipeline runs what it ran at first", released == {name: old[name] for name in released})


def _apply(story: Story, place: Workplace, pipelines: dict[str, Pipeline], saved: SavedPlan, title: str) -> None:
    orchestrator = Orchestrator(story, pipelines)
    watch = FleetWatch(saved, fleet=place.fleet)
    with story.stage(title):
        apply_plan(saved, watch, orchestrator, by="demo", spark=place.spark, options=ApplyOptions(poll_s=0.5))
        orchestrator.join()


def _refused(attempt: Callable[[], None]) -> IncompatibleError | None:
    """The refusal of something that should be refused."""
    try:
        attempt()
    except IncompatibleError as error:
        return error
    return None


def _level(place: Workplace, name: str) -> int:
    return Table.for_path(place.tables[name]).terms.protocol.reader


def _protocol(place: Workplace, name: str) -> str:
    return str(Table.for_path(place.tables[name]).terms.protocol)


def _busy(pipelines: Sequence[Pipeline], steps: int) -> None:
    """Waits until every pipeline has done some more steps."""
    goals = {each: each.done + steps for each in pipelines}
    _until("every pipeline at work", lambda: all(each.done >= goal for each, goal in goals.items()))


def _until(text: str, holds: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:g} s for: {text}")
        time.sleep(0.1)


@contextlib.contextmanager
def _watched(admin: AdminClient, place: Workplace) -> Iterator[None]:
    """Notes when levels and tables change, for the picture."""
    over = Flag()

    def watch() -> None:
        seen: dict[str, str] = {}
        while not over.wait(0.5):
            with contextlib.suppress(Exception):
                now = {f"level of {each.ladder}": str(each.level) for each in admin.describe().ladders}
                for name, path in place.tables.items():
                    now[name] = str(Table.for_path(path).terms.protocol).replace("|", " ").partition(" W:")[0]
                for name, state in now.items():
                    if seen.get(name) != state:
                        place.ledger.became(name, state)
                seen |= now

    watcher = Thread(target=watch, name="watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(10)


def _surveyed(survey: Any) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for title in ("table", "format", "protocol", "used by"):
        grid.add_column(title)
    for each in survey.tables:
        facts = each.facts
        users = sorted({f"{user.client.name} ({user.client.release})" for user in each.users if user.client.name})
        grid.add_row(facts.name, facts.format, facts.terms.protocol if facts.terms else "", ", ".join(users))
    return grid


def _result(story: Story, place: Workplace, report_path: Path) -> None:
    """One screen, and the report."""
    ledger = place.ledger
    story.chapter("Result")
    for name, path in place.tables.items():
        table = Table.for_path(path, place.spark)
        version = table.version
        (row,) = table.to_df(version=version).selectExpr("count(*) AS n", "sum(amount) AS s").collect()
        story.check(
            f"{name} holds exactly the rows that were written and not deleted: {row['n']:,}",
            (row["n"], row["s"]) == ledger.expected(name, version),
        )
    wrong = ledger.wrong()
    story.check("nothing failed", not ledger.failed)
    story.check("nothing was wrong", not wrong)
    figures = {
        "reads": len(ledger.reads),
        "writes": ledger.writes,
        "tried again": ledger.retried,
        "failed": len(ledger.failed),
        "wrong": len(wrong),
    }
    grid = Grid(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=False)
    grid.add_column(justify="right")
    grid.add_column()
    for name, number in figures.items():
        grid.add_row(f"{number:,}", Text(name, style="bold" if name in ("failed", "wrong") else ""))
    for stage in story.stages:
        grid.add_row(f"{stage.end - stage.start:.1f} s", stage.title)
    story.show(grid)
    problems = [*ledger.failed[:10], *(f"wrong: {each}" for each in wrong[:10])]
    for problem in problems:
        story.say(problem, "red")
    rows: dict[str, list[StateChange]] = defaultdict(list)
    for event in ledger.events:
        rows[event.name].append(event)
    report = DemoReport(
        "A lake moved to newer versions, and back",
        ledger.now,
        figures,
        rows,
        story.stages,
        story.checks,
        [each.at for each in ledger.reads],
        problems,
    )
    report_path.write_text(report.page(), encoding="utf-8")
    held = sum(holds for _, holds in story.checks)
    style = "bold green" if story.ok else "bold red"
    story.console.print(Text(f"{held} of {len(story.checks)} checks hold. The report: {report_path}", style=style))


@contextlib.contextmanager
def local_spark(folder: Path) -> Iterator[SparkSession]:
    """A Spark session without its noise: what the JVM says goes to a file."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    stderr = os.dup(2)
    log = os.open(folder / "spark.log", os.O_WRONLY | os.O_CREAT)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    session = None
    try:
        sys.stderr.flush()
        os.dup2(log, 2)
        builder = SparkSession.builder.master("local[2]").appName("halocline-demo")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        os.dup2(stderr, 2)
        yield session
    finally:
        os.dup2(log, 2)
        if session is not None:
            session.stop()
        os.dup2(stderr, 2)
        os.close(log)

"""One table, four pipelines, one feature on and off again, and nobody is ever in the way of anonymous.

Everything runs on this machine: Spark in local mode, the fleet's coordinator in this process with a file for its state,
and pipelines that act as releases of other products: what that release would refuse is refused. They read and write all
the while, and every single read is checked against what the version it read must hold.

    make demo

Ends with 0 only if nothing failed, nothing was wrong, and every step of the story went as told.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ledger import Ledger
from pipelines import Eraser, Pipeline, Place, Reader, SilentReader, Writer, orders
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

import halocline as hc
from halocline.errors import HaloclineError, IncompatibleError
from halocline.fleet.answers import LadderStatus, TableUsers
from halocline.fleet.core.ladder_state import Policy
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.server.hosting import Config, embedded
from halocline.table.gatekeeper import ALONE, acting

FEATURE = "deletionVectors"
SWITCH = {"delta.enableDeletionVectors": "true"}


class Progress:
    """A line that is drawn anew while something is waited for."""

    def __init__(self, text: str, story: Story) -> None:
        self.text = text
        self.story = story

    def __rich__(self) -> Text:
        ledger = self.story.ledger
        return Text(f"{self.text} … {ledger.line() if ledger else ''}", overflow="ellipsis", no_wrap=True, style="dim")


class Story:
    """Tells what happens, and remembers whether it was what should."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
        self.began = time.monotonic()
        self.checks: list[tuple[str, bool]] = []
        self.place = ""
        self.ledger: Ledger | None = None

    def chapter(self, title: str) -> None:
        self.console.print()
        self.console.rule(f"[bold]{title}", align="left", style="blue")

    def say(self, text: str | Text) -> None:
        line = Grid.grid(padding=(0, 2, 0, 0))
        line.add_row(Text(f"{time.monotonic() - self.began:6.1f} s", style="dim"), self.short(text))
        self.console.print(line)

    def show(self, error: HaloclineError) -> None:
        """An error as a user would see it."""
        for line in str(error).splitlines():
            inner = len(line) - len(line.lstrip())
            self.console.print(
                Padding(self.short(Text(line.strip(), style="yellow")), (0, 0, 0, 10 + inner), expand=False)
            )

    def short(self, text: str | Text) -> Text:
        """The text with the table's name instead of its place in a temporary folder."""
        made = Text(text) if isinstance(text, str) else text
        return Text(made.plain.replace(self.place, "lake/orders") if self.place else made.plain, style=made.style)

    def check(self, what: str, holds: bool) -> None:
        self.checks.append((what, holds))
        self.say(Text(f"{'✓' if holds else '✗'} {what}", style="green" if holds else "bold red"))

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Shows what is waited for, and how the pipelines are doing meanwhile."""
        if not self.console.is_terminal:
            yield
            return
        with self.console.status(Progress(text, self)):
            yield

    @property
    def ok(self) -> bool:
        return all(holds for _, holds in self.checks)


class Fleet:
    """The operator's hand on the fleet."""

    def __init__(self, address: str) -> None:
        self.admin = AdminClient(address, "operator")

    def ladder(self) -> LadderStatus:
        return self.admin.describe().ladder("delta")

    def users(self, table: str) -> TableUsers:
        return self.admin.table_users(table)

    def table_level(self, table: str) -> int:
        return next((each.level for each in self.users(table).levels if each.ladder == "delta"), 0)


def until(what: str, holds: Callable[[], bool], seconds: float = 60) -> None:
    """Waits until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:g} s for: {what}")
        time.sleep(0.1)


def busy(pipelines: Sequence[Pipeline], steps: int) -> None:
    """Waits until every pipeline has done some more steps."""
    goals = {each: each.done + steps for each in pipelines}
    until("everybody at work", lambda: all(each.done >= goal for each, goal in goals.items()))


@contextlib.contextmanager
def local_spark(folder: Path) -> Iterator[Any]:
    """A Spark session without its noise: what the JVM says goes to a file."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    stderr = os.dup(2)
    log = os.open(folder / "spark.log", os.O_WRONLY | os.O_CREAT)
    try:
        sys.stderr.flush()
        os.dup2(log, 2)
        spark = (
            SparkSession.builder.master("local[2]")
            .appName("halocline-demo")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.sql.catalogImplementation", "in-memory")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .getOrCreate()
        )
        os.dup2(stderr, 2)
        yield spark
    finally:
        os.dup2(log, 2)
        if (session := SparkSession.getActiveSession()) is not None:
            session.stop()
        os.dup2(stderr, 2)
        os.close(log)


def main() -> int:
    """Tells the story."""
    warnings.simplefilter("ignore")
    story = Story()
    story.console.print("[bold]Halocline[/]: a table gains a feature, and loses it, while everybody uses it")
    with tempfile.TemporaryDirectory(prefix="halocline-demo-") as temporary:
        folder = Path(temporary)
        logging.getLogger("halocline").addHandler(logging.NullHandler())
        with story.waiting("starting Spark"), contextlib.ExitStack() as stack:
            config = Config(store=str(folder / "fleet.db"), listen="127.0.0.1:0", http="127.0.0.1:0")
            # Spark first: it starts a process, which one full of gRPC's threads should not do.
            spark = stack.enter_context(local_spark(folder))
            hosting = stack.enter_context(embedded(config))
            kept = stack.pop_all()
        with kept:
            story.say(f"Spark {spark.version} in local mode; the fleet's coordinator at {hosting.address}")
            ledger = story.ledger = Ledger()
            path = str(folder / "lake" / "orders")
            first = range(500)
            # Deletes and appends go on side by side: an append that a delete has not seen does not stop it.
            properties = {"delta.isolationLevel": "WriteSerializable"}
            table = hc.Table.create(path, orders(spark, 0, first), properties=properties)
            story.place = table.url
            ledger.wrote(table.version, 0, first)
            lineage = f"http://127.0.0.1:{hosting.http_port}/api/v1/lineage"
            place = Place(path, spark, hosting.address, lineage, ledger, story.began)
            pipelines = {
                "ingest": Writer(place, "ingest", "delta-spark@2.2.0"),
                "erasure": Eraser(place, "erasure", "halocline@0.1.0"),
                "finance": Reader(place, "finance", "deltalake@1.0.2"),
                "dashboard": SilentReader(place, "dashboard", "trino@426"),
            }
            try:
                tell(story, place, Fleet(hosting.address), pipelines)
            except Exception as error:
                story.check(f"the story was told to its end; {type(error).__name__}: {error}", False)
            finally:
                for each in pipelines.values():
                    each.stop()
            finish(story, place, hc.Table.for_path(path, spark))
    return 0 if story.ok else 1


def tell(story: Story, place: Place, fleet: Fleet, pipelines: dict[str, Pipeline]) -> None:
    """What happens, from the first batch to the way back."""
    everybody = list(pipelines.values())
    url = hc.Table.for_path(place.table).url

    story.chapter("1  Four pipelines share lake/orders")
    for each in everybody:
        each.start()
    with story.waiting("everybody begins"):
        busy(everybody, 2)
        fleet.admin.set_policy("delta", Policy.AUTO, reason="rise as far as all can")
    users_of(story, fleet, url)
    story.say(f"protocol {hc.Table.for_path(place.table).protocol}; {place.ledger.line()}")

    with hc.connect(place.fleet, name="operator-notebook", spark=place.spark) as operator:
        story.chapter("2  Switch deletion vectors on?")
        orders_table = hc.Table.for_path(place.table, place.spark)
        before = orders_table.protocol
        refusal = refused(lambda: orders_table.set_properties(SWITCH))
        story.check("refused, and nothing has changed", refusal is not None and orders_table.protocol == before)
        if refusal is not None:
            story.show(refusal)
            named = {"finance", "dashboard", "ingest"}
            story.check(
                "it names everybody who would break",
                {name for name in named if any(side.startswith(name) for side in refusal.sides)} == named,
            )

        story.chapter("3  Roll them, one by one")
        for name, release in (
            ("finance", "deltalake@1.6.6"),
            ("dashboard", "trino@430"),
            ("ingest", "delta-spark@4.0.0"),
        ):
            old = pipelines[name].release
            with story.waiting(f"{name} becomes {release}"):
                pipelines[name].roll(release)
            status = fleet.ladder()
            left = ", ".join(sorted({each.who.partition("#")[0] for each in status.blockers})) or "nobody"
            story.say(f"{name}: {old} → {release}   level {status.level}; in the way of {status.next}: {left}")
            with story.waiting("mixed releases at work"):
                busy(everybody, 1)
            if name == "finance":
                partly = refused(lambda: orders_table.set_properties(SWITCH))
                names = set(partly.sides) if partly else set()
                story.check("still refused, and finance is no longer named", bool(names) and "finance" not in names)
        with story.waiting("the level rises and settles"):
            until("level 4", lambda: fleet.ladder().settled == 4 and operator.gate("delta", 4))
        status = fleet.ladder()
        story.check(
            "the level has risen to 4 by itself, and is settled: everybody has heard",
            (status.level, status.settled, status.policy) == (4, 4, "auto"),
        )

        story.chapter("4  Switch deletion vectors on")
        altered = orders_table.set_properties(SWITCH)
        story.say(str(altered))
        story.check("the table has the feature", orders_table.features().get(FEATURE) == "enabled")
        with story.waiting("the table's level follows"):
            until("the table's level", lambda: fleet.table_level(url) == 4)
        marked = place.ledger.marked
        with story.waiting("rows are marked from now on"):
            until("deletes that mark rows", lambda: place.ledger.marked >= marked + 3)
            busy(everybody, 2)
        story.check(f"deletes mark rows, and everybody reads on: {place.ledger.line()}", not place.ledger.failed)

    story.chapter("5  A late old reader")
    late = refused(lambda: hc.connect(place.fleet, name="export", release="deltalake@1.0.2", role="reader").close())
    story.check("the fleet does not admit it, by name", late is not None and "export" in late.message)
    if late is not None:
        story.show(late)
    with acting(ALONE):
        around = refused(lambda: hc.Table.for_path(place.table, place.spark, release="deltalake@1.0.2"))
    story.check(
        "one that goes around the fleet is stopped by the table",
        around is not None and around.condition == "READER_TOO_OLD",
    )

    story.chapter("6  The way back")
    fleet.admin.hold("delta", "totals look odd", name="look-first")
    story.say(f"hold on delta: “totals look odd”; policy is now {fleet.ladder().policy}")
    fleet.admin.start_downgrade("delta", 3, "bring it back")
    story.say("downgrade to level 3: gates are closing")
    with story.waiting("everybody closes the gate"):
        until("gates closed", lambda: fleet.ladder().downgrade.phase == "closed")
    marked = place.ledger.marked
    story.say("closed: nobody begins anything of level 4 any more; it could still be cancelled")
    with story.waiting("deletes rewrite files again"):
        deletes = place.ledger.deletes
        until("deletes go on", lambda: place.ledger.deletes >= deletes + 2)
    story.check("deletes go on without marking rows", place.ledger.marked == marked)
    fleet.admin.clean_downgrade("delta", reason="clean lake/orders")
    story.say("cleaning: past the point of no return")
    with hc.connect(place.fleet, name="operator-notebook", spark=place.spark):
        orders_table = hc.Table.for_path(place.table, place.spark)
        with story.waiting("deletion vectors leave the table"):
            orders_table.drop_feature_support(FEATURE)
            orders_table.snapshot()
            until("the table's level falls", lambda: 0 < fleet.table_level(url) <= 3)
        story.say(f"protocol {orders_table.protocol}")
        story.check("the table has lost the feature", FEATURE not in orders_table.features())
    fleet.admin.finish_downgrade("delta", reason="done")
    with story.waiting("settling"):
        until("level 3", lambda: fleet.ladder().settled == 3)
    status = fleet.ladder()
    story.check(
        "the fleet stands at level 3 again, and rises only when somebody asks",
        (status.level, status.settled, status.policy) == (3, 3, "manual"),
    )
    old_reader = hc.connect(place.fleet, name="export", release="deltalake@1.0.2", role="reader", install=False)
    with old_reader, old_reader.acting():
        place.releases.append((place.now(), "export", "deltalake@1.0.2"))
        old = hc.Table.for_path(place.table, place.spark, release="deltalake@1.0.2")
        seen = Reader.read(old, "export")
        place.ledger.saw(seen)
    story.check(f"the late old reader is admitted now, and reads {seen.count:,} rows", seen.count > 0)
    with story.waiting("everybody goes on"):
        busy(everybody, 2)


def refused(attempt: Callable[[], Any]) -> IncompatibleError | None:
    """The refusal of something that should be refused."""
    try:
        attempt()
    except IncompatibleError as error:
        return error
    return None


def users_of(story: Story, fleet: Fleet, url: str) -> None:
    """Who uses the table, and how that is known."""
    grid = Grid(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for title in ("who", "release", "does", "known because"):
        grid.add_column(title)
    for each in fleet.users(url).members:
        does = " and ".join(sorted({f"{use.operation.partition('.')[0]}s" for use in each.tables}))
        grid.add_row(each.identity, each.release, does, f"{each.provenance}")
    story.console.print(grid)
    status = fleet.ladder()
    story.say(f"the fleet is at level {status.level} of delta, policy {status.policy}; {status.live} members count")


def finish(story: Story, place: Place, table: hc.Table) -> None:
    """One screen: what was done, what went wrong, who was at which version when."""
    ledger = place.ledger
    story.chapter("Result")
    truth = ledger.truth(table.version)
    last = table.to_df().selectExpr("count(*) AS n", "sum(amount) AS s").collect()[0]
    story.check("the table holds exactly the rows that were written and not deleted", (last["n"], last["s"]) == truth)
    if (elsewhere := read_elsewhere(place.table)) is not None:
        story.check("another implementation (deltalake) reads the same rows", elsewhere == truth)
    wrong = ledger.wrong()
    grid = Grid(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=False)
    grid.add_column(justify="right")
    grid.add_column()
    grid.add_row(f"{len(ledger.reads):,}", "reads, each checked against its version")
    grid.add_row(f"{ledger.writes:,}", "appends")
    grid.add_row(f"{ledger.deletes:,}", f"deletes, {ledger.marked:,} of them by marking rows")
    grid.add_row(f"{ledger.retried:,}", "commits that lost a race and were done again")
    grid.add_row(f"{len(ledger.failed):,}", Text("failed", style="bold"))
    grid.add_row(f"{len(wrong):,}", Text("wrong", style="bold"))
    grid.add_row(f"{table.version:,}", "versions of the table")
    story.console.print(grid)
    story.console.print()
    when = Grid(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for title in ("who", "ran", "then"):
        when.add_column(title)
    for name in dict.fromkeys(name for _, name, _ in place.releases):
        ran = [f"{release} from {at:.0f} s" for at, each, release in place.releases if each == name]
        when.add_row(name, ran[0], ", ".join(ran[1:]))
    story.console.print(when)
    for problem in [*ledger.failed[:5], *(f"wrong: {read} is not {ledger.truth(read.version)}" for read in wrong[:5])]:
        story.console.print(Text(problem, style="red"))
    story.check("nothing failed", not ledger.failed)
    story.check("nothing was wrong", not wrong)
    seconds = time.monotonic() - story.began
    story.check(f"all of it in {seconds:.0f} s", seconds < 180)
    failed = [what for what, holds in story.checks if not holds]
    verdict = f"{len(story.checks) - len(failed)} of {len(story.checks)} checks hold"
    story.console.print(Text(verdict, style="bold green" if not failed else "bold red"))


def read_elsewhere(path: str) -> tuple[int, int] | None:
    """What another implementation reads, if one is installed."""
    try:
        from deltalake import DeltaTable
    except ImportError:
        return None
    amounts = DeltaTable(path).to_pyarrow_table(columns=["amount"])["amount"]
    return len(amounts), sum(amounts.to_pylist())


if __name__ == "__main__":
    sys.exit(main())

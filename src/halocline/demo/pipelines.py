"""Pipelines: threads that use one table all the while, each acting as a release, until they are stopped.

A pipeline belongs to the fleet by its name. Rolling it ends its membership and begins another with the new release, as
a restart of the process would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from halocline.demo.ledger import Ledger
from halocline.errors import ConflictError, NotFoundError
from halocline.fleet.member.connect import connect
from halocline.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halocline.fleet.member.handle import FleetHandle

BATCH = 200
"""Rows of one write."""


@dataclass(frozen=True)
class Workplace:
    """What pipelines share.

    Attributes:
        spark: The session.
        fleet: The address of the fleet.
        ledger: Where they note what they did and saw.
        tables: The path of each table by its name.
    """

    spark: SparkSession
    fleet: str
    ledger: Ledger
    tables: dict[str, str]


Step = Callable[["Pipeline", Any], None]
"""One read or write of a table that has just been opened as the pipeline's release."""


class Pipeline(Thread):
    """Does its step again and again.

    Attributes:
        release: What it runs as.
        done: How many steps it has done.
        cursor: How many writes it has done: the next one is told by it, so that one that lost a race is the same again.
    """

    def __init__(
        self, place: Workplace, name: str, table: str, release: str, step: Step, *, writes: bool = False
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.place = place
        self.table = table
        self.release = release
        self.writes = writes
        self.done = 0
        self.cursor = 0
        self._step = step
        self._wanted = release
        self._over = Event()
        self._rolled = Event()

    def roll(self, release: str) -> None:
        """Restarts it as another release, and waits until that has done its first step."""
        self._rolled.clear()
        self._wanted = release
        if not self._rolled.wait(90):
            raise TimeoutError(f"{self.name} did not come back as {release}")

    def stop(self) -> None:
        """Lets it finish its step and go."""
        self._over.set()
        self.join(90)

    def run(self) -> None:
        """One life after the other, each as the release that is wanted then."""
        while not self._over.is_set():
            self.release = self._wanted
            role = "writer" if self.writes else "reader"
            try:
                member = connect(self.place.fleet, name=self.name, release=self.release, role=role, install=False)
                with member, member.acting():
                    self.place.ledger.became(self.name, self.release)
                    self._work(member)
            except Exception as error:
                self.place.ledger.failure(self.name, error)
                self._over.wait(1)

    def _open(self) -> Any:
        """The table, as its release may open it."""
        return Table.for_path(self.place.tables[self.table], self.place.spark, release=self.release)

    def _work(self, member: FleetHandle) -> None:
        while not self._over.is_set() and self._wanted == self.release:
            try:
                self._step(self, self._open())
                self.done += 1
                if self.release == self._wanted:
                    self._rolled.set()
            except ConflictError:
                self.place.ledger.lost_race()
            except Exception as error:
                self.place.ledger.failure(f"{self.name} as {self.release}", error)
                self._over.wait(1)
            self._over.wait(0.5 if self.writes else 0.3)


def add_up(pipeline: Pipeline, table: Any) -> None:
    """Reads the newest version: how many rows there are, and the sum of their amounts.

    It asks for the version by its number, to know which one it saw; history may be truncated before it gets there.
    """
    version = table.version
    try:
        df = table.to_df(version=version)
    except NotFoundError:
        return pipeline.place.ledger.lost_race()
    (row,) = df.selectExpr("count(*) AS n", "coalesce(sum(amount), 0) AS s").collect()
    pipeline.place.ledger.saw(pipeline.name, pipeline.table, version, row["n"], row["s"])


def append_orders(pipeline: Pipeline, table: Any) -> None:
    """Appends a batch of new rows."""
    number = pipeline.cursor + 1
    first = number * BATCH
    version = table.append(rows(pipeline.place.spark, first, BATCH, number))
    pipeline.place.ledger.wrote(pipeline.table, version, BATCH, amounts(first, BATCH))
    pipeline.cursor = number


def append_notes(pipeline: Pipeline, table: Any) -> None:
    """Appends a batch of notes."""
    number = pipeline.cursor + 1
    first = number * BATCH
    version = table.append(notes(pipeline.place.spark, first, BATCH, number))
    pipeline.place.ledger.wrote(pipeline.table, version, BATCH, amounts(first, BATCH))
    pipeline.cursor = number


def search_notes(pipeline: Pipeline, table: Any) -> None:
    """Searches for a word that every note has, so that every row must be found."""
    version = table.version
    found = table.search("parcel", columns=["amount"], version=version)
    (row,) = found.selectExpr("count(*) AS n", "coalesce(sum(amount), 0) AS s").collect()
    pipeline.place.ledger.saw(pipeline.name, pipeline.table, version, row["n"], row["s"])


def upsert_events(pipeline: Pipeline, table: Any) -> None:
    """Upserts a batch, half of whose rows are there already; those get a cent more."""
    number = pipeline.cursor + 1
    half = BATCH // 2
    first = number * half
    new = rows(pipeline.place.spark, first + half, half, number)
    changed = rows(pipeline.place.spark, first, half, number).selectExpr("id", "batch", "amount + 1 AS amount")
    version = table.upsert(changed.unionAll(new))
    pipeline.place.ledger.wrote(pipeline.table, version, half, amounts(first + half, half) + half)
    pipeline.cursor = number


def delete_orders(pipeline: Pipeline, table: Any) -> None:
    """Deletes every fourth row of the next batch, once that is there."""
    number = pipeline.cursor
    first = number * BATCH
    if table.to_df(where=f"batch = {number}").limit(1).count() == 0:
        return
    changed = table.delete(f"batch = {number} AND id % 4 = 0")
    gone = [amount(id) for id in range(first, first + BATCH) if id % 4 == 0]
    pipeline.place.ledger.wrote(pipeline.table, changed.version, -len(gone), -sum(gone))
    pipeline.cursor = number + 1


def amount(id: int) -> int:
    """The amount of a row, in cents; the same formula in Python and in Spark."""
    return id * 7919 % 10_000


def amounts(first: int, number: int) -> int:
    """The sum over a run of rows."""
    return sum(map(amount, range(first, first + number)))


def rows(spark: SparkSession, first: int, number: int, batch: int) -> Any:
    """A run of rows as a DataFrame of one partition."""
    return spark.range(first, first + number, 1, 1).selectExpr(
        "id", f"{batch}L AS batch", "CAST(id * 7919 % 10000 AS BIGINT) AS amount"
    )


def notes(spark: SparkSession, first: int, number: int, batch: int) -> Any:
    """The same with a text that people search."""
    return rows(spark, first, number, batch).selectExpr(
        "*", "concat('parcel ', id, if(id % 10 = 0, ' is delayed by snow', ' was delivered')) AS note"
    )

"""Pipelines that use one table all the while, each acting as a release, until they are stopped.

A pipeline is a thread. Most belong to the fleet: they join with their name and release, and say which tables they use.
One never calls; all that is known of it are the lineage events that its engine sends. Rolling a pipeline ends its
membership and begins another with the new release, as a restart of the process would.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from threading import Event, Thread
from typing import Any

from ledger import AMOUNT_SQL, Ledger, Read

import halocline as hc
from halocline.errors import ConflictError
from halocline.fleet.member.handle import FleetHandle


@dataclass
class Place:
    """Everything that pipelines share."""

    table: str
    spark: Any
    fleet: str
    lineage: str
    ledger: Ledger
    began: float = field(default_factory=time.monotonic)
    releases: list[tuple[float, str, str]] = field(default_factory=list)

    def now(self) -> float:
        """Seconds since the story began."""
        return time.monotonic() - self.began


class Pipeline(Thread):
    """Does its step again and again."""

    role = "reader"
    pause = 0.2

    def __init__(self, place: Place, name: str, release: str) -> None:
        super().__init__(name=name, daemon=True)
        self.place = place
        self.release = release
        self.done = 0
        self._wanted = release
        self._over = Event()
        self._rolled = Event()

    def roll(self, release: str) -> None:
        """Restarts it as another release, and waits until that has done its first step."""
        self._wanted = release
        self._rolled.clear()
        if not self._rolled.wait(60):
            raise TimeoutError(f"{self.name} did not come back as {release}")

    def stop(self) -> None:
        """Lets it finish its step and go."""
        self._over.set()
        self.join(60)

    def run(self) -> None:
        while not self._over.is_set():
            self.release = self._wanted
            try:
                with self.belonging() as member:
                    self.place.releases.append((self.place.now(), self.name, self.release))
                    self._work(member)
            except Exception as error:
                self.place.ledger.refailed(self.name, error)
                self._over.wait(1)

    def _work(self, member: FleetHandle) -> None:
        while not self._over.is_set() and self._wanted == self.release:
            try:
                # The fleet waits for what is under way before a gate counts as closed.
                with member.operation(self.name):
                    self.step(hc.Table.for_path(self.place.table, self.place.spark, release=self.release))
                self.done += 1
                if self.release == self._wanted:
                    self._rolled.set()
            except ConflictError:
                self.place.ledger.again()
            except Exception as error:
                self.place.ledger.refailed(self.name, error)
            self._over.wait(self.pause)

    @contextmanager
    def belonging(self) -> Iterator[FleetHandle]:
        """One life as a member of the fleet."""
        place = self.place
        member = hc.connect(place.fleet, name=self.name, release=self.release, role=self.role, install=False)
        with member, member.acting():
            yield member

    def step(self, table: hc.Table) -> None:
        """One read or write."""
        raise NotImplementedError


class Reader(Pipeline):
    """Adds the orders up."""

    def step(self, table: hc.Table) -> None:
        self.place.ledger.saw(self.read(table, self.name))

    @staticmethod
    def read(table: hc.Table, who: str) -> Read:
        version = table.version
        row = table.to_df(version=version).selectExpr("count(*) AS n", "coalesce(sum(amount), 0) AS s").collect()[0]
        return Read(who, version, row["n"], row["s"])


class SilentReader(Reader):
    """Adds the orders up and never speaks to the fleet; its engine sends lineage events."""

    @contextmanager
    def belonging(self) -> Iterator[FleetHandle]:
        with hc.connect(name=self.name, release=self.release, role=self.role) as alone, alone.acting():
            yield alone

    def step(self, table: hc.Table) -> None:
        super().step(table)
        self.tell(table.url)

    def tell(self, url: str) -> None:
        """Posts the run event that an engine's OpenLineage integration would."""
        product, _, version = self.release.partition("@")
        event = {
            "eventType": "COMPLETE",
            "eventTime": datetime.now(UTC).isoformat(),
            "producer": "https://example.org/lineage",
            "run": {
                "runId": f"{self.name}-{self.done}",
                "facets": {"processing_engine": {"name": product, "version": version}},
            },
            "job": {"namespace": "bi", "name": self.name},
            "inputs": [
                {
                    "namespace": "file",
                    "name": url.removeprefix("file://"),
                    "facets": {"storage": {"storageLayer": "delta", "fileFormat": "parquet"}},
                }
            ],
            "outputs": [],
        }
        posted = urllib.request.Request(
            self.place.lineage, json.dumps(event).encode(), {"content-type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(posted, timeout=10) as answer:
            assert answer.status == 201, answer.status


class Writer(Pipeline):
    """Appends orders, a batch at a time, each exactly once."""

    role = "writer"
    pause = 0.5
    size = 500
    numbers = count(1)

    def step(self, table: hc.Table) -> None:
        number = next(self.numbers)
        ids = range(number * self.size, (number + 1) * self.size)
        version = table.append(orders(self.place.spark, number, ids), txn=(self.name, number))
        self.place.ledger.wrote(version, number, ids)


class Eraser(Pipeline):
    """Deletes a part of the orders of an older batch, as people ask for their data to go."""

    role = "writer"
    pause = 0.6

    def __init__(self, place: Place, name: str, release: str) -> None:
        super().__init__(place, name, release)
        self.next = 0

    def step(self, table: hc.Table) -> None:
        ledger = self.place.ledger
        if self.next not in ledger.batches:
            return
        batch, ids = self.next, ledger.batches[self.next]
        changed = table.delete(f"batch = {batch} AND id % 3 = 0")
        marked = changed.metrics.get("numDeletionVectorsAdded", 0) > 0
        ledger.deleted(changed.version, [id for id in ids if id % 3 == 0], marked=marked)
        self.next += 1


def orders(spark: Any, batch: int, ids: range) -> Any:
    """A batch of orders as a DataFrame of one partition."""
    return spark.range(ids.start, ids.stop, 1, 1).selectExpr(
        "id", f"{batch} AS batch", f"CAST({AMOUNT_SQL} AS BIGINT) AS amount"
    )

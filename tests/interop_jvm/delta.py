"""Delta Spark and Halocline as two sides that take the same SQL."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import halocline as hc
from tests.compat.delta_spark import DeltaSpark, delta_spark_releases
from tests.compat.environments import Worker
from tests.interop_jvm.maven import NoEngineError

RELEASE = "4.4.0"
SWITCH = "HALOCLINE_DELTA_JVM"
"""What must be set, since the environment is fetched from PyPI and Maven Central."""


def name(path: Path) -> str:
    """A table at a path, as SQL names it."""
    return f"delta.`{path}`"


class Side(Protocol):
    """Who runs SQL on tables at paths."""

    def run(self, *statements: str) -> list[list[str]]:
        """Runs statements, and returns the rows of the last as text, in order."""


@dataclass(frozen=True)
class Attempt:
    """What became of a statement.

    Attributes:
        note: What was said against it; nothing if it was done.
        rows: Its rows as text, in order.
        version: The newest version of the table after it.
    """

    note: str
    rows: list[list[str]]
    version: int


@dataclass
class Theirs:
    """Delta Spark, in a process that starts with its first job."""

    release: str = RELEASE
    _worker: Worker = field(init=False)

    def __post_init__(self) -> None:
        if not os.environ.get(SWITCH):
            raise NoEngineError(f"{SWITCH} is not set; run make interop-jvm")
        found: DeltaSpark = next(each for each in delta_spark_releases() if each.version == self.release)
        if problem := found.prepare():
            raise NoEngineError(problem)
        self._worker = found.worker()

    def run(self, *statements: str) -> list[list[str]]:
        rows: list[list[str]] = self._ask({"operation": "statements", "statements": statements})["rows"]
        return rows

    def attempt(self, *statements: str) -> str:
        """What it says against it; nothing if it does it."""
        answer = self._worker.do({"operation": "statements", "statements": statements})
        return "" if answer["outcome"] == "done" else str(answer["note"])

    def attempts(self, path: Path, statements: Sequence[str]) -> list[Attempt]:
        """Runs statements that concern a table, and goes on after what fails."""
        job = {"operation": "attempts", "path": str(path), "statements": [*statements]}
        return [Attempt(**each) for each in self._ask(job)["found"]]

    def written(self, path: Path, query: str, mode: str, by: Sequence[str] = (), **options: str) -> str:
        """Writes the rows of a query as DataFrames are; what it says against it, nothing if it does it."""
        job = {"operation": "written", "path": str(path), "query": query, "mode": mode, "by": [*by]}
        answer = self._worker.do({**job, "options": options})
        return "" if answer["outcome"] == "done" else str(answer["note"])

    def feed(self, path: Path) -> list[list[str]]:
        """What happened to the rows of a table: the kind of change, its version, `id` and `value`."""
        rows: list[list[str]] = self._ask({"operation": "feed", "path": str(path), "columns": ["id", "value"]})["rows"]
        return rows

    def stream(self, source: Path, target: Path, checkpoint: Path, **options: str) -> None:
        """Copies by a stream what is new in a table into another."""
        paths = {"path": str(source), "target": str(target), "checkpoint": str(checkpoint)}
        self._ask({"operation": "stream", "options": options, **paths})

    def count_by_stream(self, source: Path, target: Path, checkpoint: Path, mode: str) -> str:
        """Counts rows by `value` in a stream of a mode; what it says against it, nothing if it does it."""
        paths = {"path": str(source), "target": str(target), "checkpoint": str(checkpoint)}
        answer = self._worker.do({"operation": "stream", "counts": "value", "mode": mode, **paths})
        return "" if answer["outcome"] == "done" else str(answer["note"])

    def close(self) -> None:
        self._worker.stop()

    def _ask(self, job: dict[str, Any]) -> dict[str, Any]:
        answer = self._worker.do(job)
        assert answer["outcome"] == "done", f"Delta Spark {self.release}: {answer['note']} {job}"
        return answer


@dataclass
class Ours:
    """Halocline, in this process."""

    spark: Any

    def run(self, *statements: str) -> list[list[str]]:
        found: Sequence[Any] = []
        for text in statements:
            found = hc.sql(self.spark, text).collect()
        return sorted([str(value) for value in row] for row in found)

    def attempts(self, path: Path, statements: Sequence[str]) -> list[Attempt]:
        """Runs statements that concern a table, and goes on after what fails."""
        found = []
        for text in statements:
            note, rows = "", []
            try:
                rows = self.run(text)
            except Exception as error:
                note = str(error) or type(error).__name__
            found.append(Attempt(note, rows, newest(path)))
        return found

    def written(self, path: Path, query: str, mode: str, by: Sequence[str] = (), **options: str) -> str:
        """Writes the rows of a query as DataFrames are; what is said against it, nothing if it is done."""
        into = hc.sql(self.spark, query).write.format("halocline").mode(mode).options(**options)
        try:
            (into.option("partitionBy", ",".join(by)) if by else into).save(str(path))
        except Exception as error:
            return str(error) or type(error).__name__
        return ""

    def stream(self, source: Path, target: Path, checkpoint: Path, **options: str) -> None:
        """Copies by a stream what is new in a table into another."""
        rows = self.spark.readStream.format("halocline").options(**options).load(str(source))
        into = rows.writeStream.format("halocline").option("checkpointLocation", str(checkpoint))
        into.trigger(availableNow=True).start(str(target)).awaitTermination()

    def count_by_stream(self, source: Path, target: Path, checkpoint: Path, mode: str) -> str:
        """Counts rows by `value` in a stream of a mode; what is said against it, nothing if it is done."""
        rows = self.spark.readStream.format("halocline").load(str(source)).groupBy("value").count()
        into = rows.writeStream.format("halocline").option("checkpointLocation", str(checkpoint)).outputMode(mode)
        try:
            into.trigger(availableNow=True).start(str(target)).awaitTermination()
        except Exception as error:
            return str(error)
        return ""


def said(side: Side, *statements: str) -> str:
    """What is said against it; nothing if it is done."""
    try:
        side.run(*statements)
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


def everything(table: str, but: str = "") -> str:
    """A query for all rows, each as JSON, so that both sides spell values alike."""
    columns = f"* EXCEPT ({but})" if but else "*"
    return f"SELECT to_json(struct(*)) AS row FROM (SELECT {columns} FROM {table})"


def newest(path: Path) -> int:
    """The number of the newest commit of a table."""
    return max(int(each.name[:20]) for each in (path / "_delta_log").glob(f"{'[0-9]' * 20}.json"))


def actions(path: Path, kind: str) -> list[dict[str, Any]]:
    """The actions of a kind in the commits of a table, oldest first."""
    commits = sorted((path / "_delta_log").glob(f"{'[0-9]' * 20}.json"))
    lines = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
    return [line[kind] for line in lines if kind in line]

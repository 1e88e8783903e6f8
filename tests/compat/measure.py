"""Tries one release on one table, and puts what is predicted beside what is observed."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from halocline.compat.answer import Answer
from halocline.compat.knowledge import Knowledge
from halocline.compat.verdict import can

from .cases import delta_cases
from .delta_tables import Case
from .environments import Client, Worker

_GATES = Path(__file__).resolve().parent / "gates"
OPERATIONS = {"deltalake": ("read.query", "read.arrow", "write.append", "write.arrow")}


@dataclass(frozen=True)
class Outcome:
    """One release, one table, one operation.

    Args:
        release: Who.
        case: The table's name in the report.
        protocol: The table's protocol.
        operation: What was tried.
        predicted: What knowledge says.
        observed: What happened.
        by_source: What the lists in the client's own source say; None if there are none.
        unseen: True if knowledge was not made from this release.
        note: The error, or what was wrong.
    """

    release: str
    case: str
    protocol: str
    operation: str
    predicted: Answer
    observed: Answer
    by_source: Answer | None = None
    unseen: bool = False
    note: str = ""

    @property
    def agrees(self) -> bool:
        return self.predicted is self.observed


def measure(client: Client) -> Iterator[Outcome]:
    """Tries a release on every Delta table, operation by operation."""
    worker = Worker.of(client)
    try:
        for case in delta_cases():
            for operation in OPERATIONS[client.product]:
                observed, note = _observe(worker, case, operation)
                if observed is None:
                    continue
                predicted = can(client.release, case.terms, operation).answer
                by_source = _by_source(client, case, operation)
                names = (client.release, case.name, case.protocol, operation)
                yield Outcome(*names, predicted, observed, by_source, client.unseen, note)
    finally:
        worker.stop()


def _by_source(client: Client, case: Case, operation: str) -> Answer | None:
    if not (_GATES / f"{client.product}.toml").exists():
        return None
    return can(client.release, case.terms, operation, knowledge=_gates()).answer


@lru_cache(maxsize=1)
def _gates() -> Knowledge:
    return Knowledge.load(_GATES)


def _observe(worker: Worker, case: Case, operation: str) -> tuple[Answer | None, str]:
    if operation.startswith("read"):
        return _observe_read(worker, case, operation)
    observed, note = _observe_append(worker, case, operation, dict(case.row))
    if observed is Answer.OK and case.bad_row is not None:
        bad, _ = _observe_append(worker, case, operation, dict(case.bad_row))
        if bad is not Answer.REFUSED:
            return Answer.WRONG, "accepts rows that break the table's rule"
    if observed is Answer.OK and case.short_row is not None:
        short, _ = _observe_append(worker, case, operation, dict(case.short_row))
        if short is not Answer.REFUSED:
            return Answer.WRONG, "leaves a column empty that has a default"
    if observed is Answer.OK and "write" in case.must_refuse:
        return Answer.WRONG, "writes although nobody can know what that asks for"
    return observed, note


def _observe_read(worker: Worker, case: Case, operation: str) -> tuple[Answer | None, str]:
    with _table(case) as folder:
        answer = worker.do({"operation": operation, "path": str(folder), "columns": case.columns})
    if answer["outcome"] == "absent":
        return None, ""
    if answer["outcome"] != "done":
        return (Answer.UNKNOWN if answer["outcome"] == "silent" else Answer.REFUSED), answer.get("note", "")
    wanted = sorted(([_plain(value) for value in row] for row in case.rows), key=repr)
    if "read" in case.must_refuse:
        return Answer.WRONG, "reads although nobody can know what that means"
    if answer["rows"] == wanted:
        return Answer.OK, ""
    return Answer.WRONG, answer.get("note") or f"returns {answer['rows']} instead of {wanted}"[:300]


def _observe_append(worker: Worker, case: Case, operation: str, row: dict[str, Any]) -> tuple[Answer | None, str]:
    with _table(case) as folder:
        before = {path.name for path in (folder / "_delta_log").glob("*.json")}
        answer = worker.do({"operation": operation, "path": str(folder), "row": row})
        if answer["outcome"] == "absent":
            return None, ""
        new = sorted({path.name for path in (folder / "_delta_log").glob("*.json")} - before)
        if answer["outcome"] == "silent":
            return Answer.UNKNOWN, answer["note"]
        if answer["outcome"] != "done":
            anew = f"{0:020}.json" in new
            what = (
                "starts the table anew in place of the one it does not find, then fails" if anew else "fails too late"
            )
            return (Answer.WRONG, what) if new else (Answer.REFUSED, answer.get("note", ""))
        problem = _problem(folder, new, case) if new else "reports success without a commit"
        return (Answer.WRONG, problem) if problem else (Answer.OK, "")


def _problem(folder: Path, new: list[str], case: Case) -> str:
    """What is wrong with the commit of an append, looked at from outside."""
    lines = (folder / "_delta_log" / new[0]).read_text().splitlines()
    actions = [json.loads(line) for line in lines if line.strip()]
    adds = [action["add"] for action in actions if "add" in action]
    if any("remove" in action for action in actions):
        return "an append removes files"
    if any("protocol" in action for action in actions):
        return "an append changes the protocol"
    rows = pa.concat_tables([pq.read_table(folder / add["path"]) for add in adds], promote_options="default")
    if rows.num_rows != 1:
        return f"{rows.num_rows} rows arrive instead of 1"
    return case.promised(actions, rows)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | str | None) else str(value)


class _table:
    """A fresh copy of a case's table, for one operation."""

    def __init__(self, case: Case) -> None:
        self._case = case

    def __enter__(self) -> Path:
        self._folder = Path(tempfile.mkdtemp(prefix="halocline-compat-"))
        table = self._folder / "t"
        table.mkdir()
        self._case.build(table)
        return table

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

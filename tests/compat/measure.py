"""Tries one release on one table, and puts what is predicted beside what is observed."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from halocline.compat.answer import Answer

from .cases import delta_cases, spark_cases, trino_cases
from .delta_spark import DeltaSpark
from .delta_tables import Case
from .environments import Client, Worker
from .outcomes import Outcome
from .trino import Trino

OPERATIONS = {
    "deltalake": ("read.query", "read.arrow", "write.append", "write.arrow"),
    "duckdb": ("read", "write.append"),
    # Whatever deltalake is installed beside them writes for these.
    **dict.fromkeys(("polars", "daft"), ("read",)),
    "delta-spark": ("read", "read.changes", "write.append", "write.delete", "write.merge", "write.optimize"),
    "trino": (
        *("read", "read.filter", "read.changes"),
        *("write.append", "write.delete", "write.delete.all", "write.merge", "write.optimize"),
    ),
}


_CASES = {DeltaSpark: spark_cases, Trino: trino_cases, Client: delta_cases}


def measure(client: Client | DeltaSpark | Trino, tables: Sequence[str] = ()) -> Iterator[Outcome]:
    """Tries a release on every Delta table, or on those whose name has one of some texts, operation by operation."""
    worker = client.worker()
    try:
        for case in _CASES[type(client)]():
            if tables and not any(text in case.name for text in tables):
                continue
            for operation in OPERATIONS[client.product]:
                if not case.tried_by(operation):
                    continue
                observed, note = _observe(worker, case, operation)
                if observed is not None:
                    asked = _asked(client, case, operation)
                    yield Outcome(client.release, case.name, case.terms, operation, observed, note, asked)
    finally:
        worker.stop()


def _asked(client: Client | DeltaSpark | Trino, case: Case, operation: str) -> str:
    """What knowledge is asked: of Trino, reading all rows says nothing about some, nor one page about several.

    Vectors in the log itself are another matter to it than those in files.
    """
    if isinstance(client, Trino):
        if case.name.startswith("vector inline") and operation != "write.append":
            return f"{operation}.inline"
        pages = "pages" if case.name.startswith("several pages") else "page"
        finer = {"read": "read.scan"} | {each: f"{each}.{pages}" for each in ("write.delete", "write.merge")}
        return finer.get(operation, operation)
    return case.asked(operation) if isinstance(client, DeltaSpark) else operation


def _observe(worker: Worker, case: Case, operation: str) -> tuple[Answer | None, str]:
    if operation.startswith("read"):
        return _observe_read(worker, case, operation)
    if operation in _EFFECTS:
        return _observe_change(worker, case, operation)
    observed, note = _observe_append(worker, case, operation, dict(case.row))
    if observed is Answer.OK and case.bad_row is not None:
        bad, _ = _observe_append(worker, case, operation, dict(case.bad_row))
        if bad is not Answer.REFUSED:
            return Answer.WRONG, "accepts rows that break the table's rule"
    if observed is Answer.OK and case.short_row is not None:
        filled = replace(case, promised=_fills_in)
        short, note = _observe_append(worker, filled, operation, dict(case.short_row))
        if short is Answer.WRONG:
            return short, note
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
    mark = ("insert",) if operation == "read.changes" else ()
    wanted = _sorted((*row, *mark) for row in case.rows if operation != "read.filter" or row[0] == 2)
    if "read" in case.must_refuse:
        return Answer.WRONG, "reads although nobody can know what that means"
    if answer["rows"] == wanted:
        return Answer.OK, ""
    return Answer.WRONG, answer.get("note") or f"returns {answer['rows']} instead of {wanted}"[:300]


_EFFECTS: dict[str, Callable[[Case], Iterable[Sequence[Any]]]] = {
    "write.delete": lambda case: (row for row in case.rows if row[0] != 1),
    "write.delete.all": lambda case: (),
    "write.merge": lambda case: ((row[0], "m", *row[2:]) if row[0] == 3 else row for row in case.rows),
    "write.optimize": lambda case: (*case.rows, tuple(case.row[name] for name in case.columns)),
}
"""The rows that each change of rows leaves behind."""


def _observe_change(worker: Worker, case: Case, operation: str) -> tuple[Answer | None, str]:
    """Has a release change rows; it reads them itself, and the files are looked at from outside."""
    wanted = _sorted(_EFFECTS[operation](case))
    with _table(case) as folder:
        before = {path.name for path in (folder / "_delta_log").glob("*.json")}
        job = {"operation": operation, "path": str(folder), "columns": case.columns, "row": dict(case.row)}
        answer = worker.do(job)
        new = sorted({path.name for path in (folder / "_delta_log").glob("*.json")} - before)
        if answer["outcome"] == "absent":
            return None, ""
        if answer["outcome"] == "silent":
            return Answer.UNKNOWN, answer["note"]
        if answer["outcome"] != "done":
            late = new and operation != "write.optimize"
            return (Answer.WRONG, "fails too late") if late else (Answer.REFUSED, answer.get("note", ""))
        if "write" in case.must_refuse:
            return Answer.WRONG, "writes although nobody can know what that asks for"
        if answer["rows"] != wanted:
            return Answer.WRONG, f"leaves {answer['rows']} instead of {wanted}"[:300]
        live = _live_rows(folder, case)
        checkpointed = _checkpointed_rows(folder)
    for where, found in (("in the files", live), ("in the checkpoint", checkpointed)):
        if found not in (None, len(wanted)):
            return Answer.WRONG, f"leaves {found} rows {where} instead of {len(wanted)}"
    return Answer.OK, ""


def _live_rows(folder: Path, case: Case) -> int:
    """How many rows the live files hold; the first of them may be known to a checkpoint alone."""
    log = folder / "_delta_log"
    live = {} if (log / f"{0:020}.json").exists() else {("part-0.parquet", ""): len(case.rows)}
    for path in sorted(log.glob("*[0-9].json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        for removed in (action["remove"] for action in actions if "remove" in action):
            live.pop(_identity_of(removed), None)
        for added in (action["add"] for action in actions if "add" in action):
            live[_identity_of(added)] = _rows_of(folder, added)
    return sum(live.values())


def _checkpointed_rows(folder: Path) -> int | None:
    """How many rows the newest checkpoint in one file knows of; None if there is none."""
    found = sorted((folder / "_delta_log").glob("*[0-9].checkpoint.parquet"))
    if not found:
        return None
    adds = [each for each in pq.read_table(found[-1], columns=["add"])["add"].to_pylist() if each is not None]
    return sum(_rows_of(folder, each) for each in adds)


def _identity_of(action: dict[str, Any]) -> tuple[str, str]:
    """A file that is live under one vector is another one than under the next."""
    vector = action.get("deletionVector") or {}
    return action["path"], f"{vector['pathOrInlineDv']}@{vector.get('offset')}" if vector else ""


def _rows_of(folder: Path, add: dict[str, Any]) -> int:
    rows = int(pq.read_metadata(folder / add["path"]).num_rows)
    return rows - int((add.get("deletionVector") or {}).get("cardinality") or 0)


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
        if not problem and _checkpointed_rows(folder) not in (None, len(case.rows) + 1):
            problem = f"leaves {_checkpointed_rows(folder)} rows in the checkpoint instead of {len(case.rows) + 1}"
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
    if missing := [add["path"] for add in adds if not (folder / add["path"]).exists()]:
        return (
            f"the commit names {'an absolute path, where' if missing[0].startswith('/') else 'a file, but'} nothing is"
        )
    rows = pa.concat_tables([pq.read_table(folder / add["path"]) for add in adds], promote_options="default")
    if rows.num_rows != 1:
        return f"{rows.num_rows} rows arrive instead of 1"
    return case.promised(actions, rows)


def _sorted(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    return sorted(([_plain(value) for value in row] for row in rows), key=repr)


def _fills_in(actions: list[dict[str, Any]], rows: pa.Table) -> str:
    filled = "value" in rows.column_names and not rows["value"].null_count
    return "" if filled else "leaves a column empty that has a default"


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

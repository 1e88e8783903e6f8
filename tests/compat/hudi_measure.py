"""Tries a release of Apache Hudi, or of hudi-rs, on Hudi tables: predicted beside observed.

Every release is asked for the same range of time in its own words: 1.0 counts the begin of a range in, from table
version 8 on, and no other release does.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.interop_jvm.releases import Engine, writing_options
from tests.support.hudi_conformance import BEGIN, END, FORMAT, QUERY

from halocline.compat.answer import Answer
from halocline.compat.verdict import can
from halocline.errors import HaloclineError
from halocline.formats.hudi.properties import properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store
from halocline.versions import Version

from .environments import Client
from .hudi_kinds import HudiCase
from .outcomes import Outcome

OPERATIONS = {
    "hudi": ("read", "read.incremental", "read.changes", "write"),
    "hudi-rs": ("read", "read.incremental"),
}
_BY_LATE_ROWS = frozenset(
    f"mergeOnRead:{mode}" for mode in ("overwriteWithLatest", "overwriteNonDefaults", "newOrderingKey")
)
"""What makes a difference only where rows came late; tables without such rows do not show it, and are left out."""

_CHANGED = {"ts": 1_800_000_000_000, "name": "changed"}


class Doing(Protocol):
    """Who does a job on a table and answers; None where it does not do such jobs."""

    release: str

    def read(self, table: Path, case: HudiCase) -> dict[str, Any]: ...
    def incremental(self, table: Path, case: HudiCase) -> dict[str, Any]: ...
    def changes(self, table: Path, case: HudiCase) -> dict[str, Any]: ...
    def write(self, table: Path, key: str) -> dict[str, Any]: ...
    def close(self) -> None: ...


def measure_hudi(who: Doing, cases: Sequence[HudiCase]) -> Iterator[Outcome]:
    """Tries a release on every table, operation by operation."""
    try:
        product = who.release.partition("@")[0]
        for case in (each for each in cases if each.product in ("", product)):
            for operation in OPERATIONS[product]:
                found = _observe(who, case, operation)
                if found is None:
                    continue
                asked = "read.snapshot" if operation == "read" else operation
                verdict = can(who.release, case.terms, asked)
                if case.late or not verdict.wrong or found[0] is not Answer.OK or not verdict.blockers <= _BY_LATE_ROWS:
                    yield Outcome(who.release, case.name, case.terms, operation, *found, asked)
    finally:
        who.close()


def _observe(who: Doing, case: HudiCase, operation: str) -> tuple[Answer, str] | None:
    if operation != "write":
        return _outcome(who, case, operation, Path(case.folder.name))
    with tempfile.TemporaryDirectory(prefix="halocline-compat-") as folder:
        return _outcome(who, case, operation, shutil.copytree(case.folder.name, Path(folder) / "t"))


def _outcome(who: Doing, case: HudiCase, operation: str, table: Path) -> tuple[Answer, str] | None:
    wanted: Sequence[Sequence[str]] = case.rows
    match operation:
        case "read":
            answer = who.read(table, case)
        case "read.incremental" if case.range is not None:
            answer, wanted = who.incremental(table, case), case.range.rows
        case "read.changes" if case.changes is not None:
            answer, wanted = who.changes(table, case), [("",)] * case.changes[1]
        case "write" if case.writable:
            return _written(who, case, table)
        case _:
            return None
    if answer["outcome"] == "absent":
        return None
    if answer["outcome"] != "done":
        return Answer.UNKNOWN if answer["outcome"] == "silent" else Answer.REFUSED, answer.get("note", "")
    rows = sorted(map(list, wanted))
    agrees = len(answer["rows"]) == len(rows) if operation == "read.changes" else answer["rows"] == rows
    if agrees and "read" not in case.must_refuse:
        return Answer.OK, ""
    odd = [row for row in answer["rows"] if row not in rows][:2]
    missing = [row for row in rows if row not in answer["rows"]][:2]
    return Answer.WRONG, f"{len(answer['rows'])} rows of {len(rows)}, returns {odd} instead of {missing}"[:300]


def _written(who: Doing, case: HudiCase, table: Path) -> tuple[Answer, str]:
    """Has it change a row. What it left is looked at from outside."""
    key = case.rows[0][0]
    before = properties(open_store(table))["hoodie.table.version"]
    answer = who.write(table, key)
    wanted = sorted((key, *map(str, _CHANGED.values())) if row[0] == key else tuple(row) for row in case.rows)
    if answer["outcome"] != "done":
        same = _rows(table) == sorted(map(tuple, case.rows))
        return (Answer.REFUSED, answer["note"]) if same else (Answer.WRONG, f"fails too late: {answer['note']}"[:300])
    if properties(open_store(table))["hoodie.table.version"] != before:
        return Answer.WRONG, "a write changes the table version"
    found = _rows(table)
    return (Answer.OK, "") if found == wanted else (Answer.WRONG, f"leaves {found} instead of {wanted}"[:300])


def _rows(table: Path) -> list[tuple[str, ...]]:
    try:
        batches = list(HudiSnapshot.load(open_store(table)).read(["id", "ts", "name"]))
    except HaloclineError as error:
        return [(str(error),)]
    return sorted(tuple(str(value) for value in row.values()) for batch in batches for row in batch.to_pylist())


class Rust:
    """A release of hudi-rs."""

    def __init__(self, client: Client) -> None:
        self.release = client.release
        self._worker = client.worker()

    def read(self, table: Path, case: HudiCase) -> dict[str, Any]:
        return self._worker.do({"operation": "read", "path": str(table), "columns": case.columns})

    def incremental(self, table: Path, case: HudiCase) -> dict[str, Any]:
        assert case.range is not None
        job = {"operation": "read.incremental", "begin": case.range.begin, "end": case.range.end}
        return self._worker.do({**job, "path": str(table), "columns": case.columns})

    def changes(self, table: Path, case: HudiCase) -> dict[str, Any]:
        return {"outcome": "absent"}

    def write(self, table: Path, key: str) -> dict[str, Any]:
        return {"outcome": "absent"}

    def close(self) -> None:
        self._worker.stop()


class Bundle:
    """A release of Apache Hudi on Spark."""

    def __init__(self, engine: Engine) -> None:
        self.release = f"hudi@{engine.release}"
        self._engine = engine

    def read(self, table: Path, case: HudiCase) -> dict[str, Any]:
        return self._engine.do("read", path=str(table), columns=case.columns)

    def incremental(self, table: Path, case: HudiCase) -> dict[str, Any]:
        assert case.range is not None
        options = {QUERY: "incremental", BEGIN: self._begin(case, case.range.begin)}
        options |= {END: case.range.end} if case.range.end else {}
        return self._engine.do("read", path=str(table), columns=case.columns, options=options)

    def changes(self, table: Path, case: HudiCase) -> dict[str, Any]:
        assert case.changes is not None
        options = {QUERY: "incremental", FORMAT: "cdc", BEGIN: case.changes[0]}
        return self._engine.do("read", path=str(table), columns=["op"], options=options)

    def write(self, table: Path, key: str) -> dict[str, Any]:
        options = writing_options(table, self._engine.release)
        where = f"id = '{key}'"
        return self._engine.do("upsert", path=str(table), where=where, set=_CHANGED, options=options)

    def close(self) -> None:
        self._engine.close()

    def _begin(self, case: HudiCase, begin: str) -> str:
        counted_in = Version.parse("1.0.0") <= Version.parse(self._engine.release) < Version.parse("1.1.0")
        return str(int(begin) + 1) if counted_in and case.terms.protocol.reader >= 8 else begin

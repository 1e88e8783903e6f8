"""Random merges, updates and deletes by Delta Spark and by Halocline on copies of a table: the same rows after each.

`HALOCLINE_DELTA_MERGES=10` tries ten seeds for each shape of table instead of one, and
`HALOCLINE_DELTA_MERGES_FROM=7` begins with another seed. A failure names shape and seed, which decide everything.
"""

from __future__ import annotations

import functools
import json
import operator
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from halocline.table import Table
from tests.interop_jvm.delta import Attempt, Ours, Theirs, name, newest
from tests.interop_jvm.delta_changes import statements
from tests.interop_jvm.delta_shapes import SHAPES, Shape

pytestmark = pytest.mark.timeout(3600)

STATEMENTS = 5
FIRST = int(os.environ.get("HALOCLINE_DELTA_MERGES_FROM", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("HALOCLINE_DELTA_MERGES", "1")))
_TIMES = "'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS'"
_ROW = f"to_json(struct(*), map({_TIMES}))"
_METRICS = (
    "numSourceRows",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetRowsDeleted",
    "numTargetRowsMatchedUpdated",
    "numTargetRowsMatchedDeleted",
    "numTargetRowsNotMatchedBySourceUpdated",
    "numTargetRowsNotMatchedBySourceDeleted",
    "numUpdatedRows",
    "numDeletedRows",
)
_THEIR_DEFECTS = ("did not match any merge clause", "DELTA_MERGE_RESOLVED_ATTRIBUTE_MISSING_FROM_INPUT")
"""What Delta Spark fails with inside: on some merges with clauses of all three kinds, and where a CHAR is compared."""

_METRICS_OF_FILES = ("numTargetRowsCopied", "numCopiedRows")
"""They depend on how rows lie in files, which is alike on both sides before the first statement only."""


@pytest.fixture(scope="module")
def bases(spark, delta: Theirs, tmp_path_factory) -> Callable[[Shape, str], Path]:
    """Tables to copy, each made when it is first asked for, by either side."""
    made: dict[tuple[str, str], Path] = {}

    def base(shape: Shape, maker: str) -> Path:
        if (shape.name, maker) not in made:
            path = tmp_path_factory.mktemp("base") / "t"
            side = delta if maker == "delta" else Ours(spark)
            side.run(*shape.create(name(path)))
            made[shape.name, maker] = path
        return made[shape.name, maker]

    return base


@dataclass(frozen=True)
class Done:
    """What one side did to its table, of which the last statement is by the other one.

    Attributes:
        path: The table.
        begin: The version before the first statement.
        attempts: What became of each statement.
    """

    path: Path
    begin: int
    attempts: Sequence[Attempt]

    @property
    def versions(self) -> list[int]:
        """The version before the first statement, and after each."""
        return [self.begin, *(each.version for each in self.attempts)]

    def step(self, version: int) -> int:
        """The number of the statement that made a version, 0 for what was there before."""
        return next(number for number, each in enumerate(self.versions) if version <= each)

    def commit(self, number: int, kind: str) -> list[dict[str, Any]]:
        """The actions of a kind that a statement committed."""
        if self.versions[number] == self.versions[number - 1]:
            return []
        path = self.path / "_delta_log" / f"{self.versions[number]:020}.json"
        return [line[kind] for line in map(json.loads, path.read_text().splitlines()) if kind in line]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_changes_do_the_same_by_either_side(
    spark, delta: Theirs, bases, tmp_path, record_property, shape: Shape, seed: int
):
    texts = statements(shape, seed, STATEMENTS)
    maker = Random(f"{shape.name}, {seed}, maker").choice(["delta", "ours"])
    base = bases(shape, maker)
    paths = {who: shutil.copytree(base, tmp_path / who) for who in ("delta", "ours")}
    sides = {"delta": delta, "ours": Ours(spark)}
    begin = newest(base)
    with ThreadPoolExecutor(1) as pool:

        def both(theirs: Callable[[], Any], ours: Callable[[], Any]) -> tuple[Any, Any]:
            waiting = pool.submit(theirs)
            mine = ours()
            return waiting.result(), mine

        def attempted(who: str, whose: str, part: slice) -> Callable[[], list[Attempt]]:
            wanted = [text.replace("{t}", name(paths[whose])) for text in texts[part]]
            return lambda: sides[who].attempts(paths[whose], wanted)

        own = both(attempted("delta", "delta", slice(-1)), attempted("ours", "ours", slice(-1)))
        last = both(attempted("delta", "ours", slice(-1, None)), attempted("ours", "delta", slice(-1, None)))
        done = {
            "delta": Done(paths["delta"], begin, [*own[0], *last[1]]),
            "ours": Done(paths["ours"], begin, [*own[1], *last[0]]),
        }
        by_delta, by_ours = both(
            lambda: {who: told_by_delta(delta, shape, each) for who, each in done.items()},
            lambda: {who: told_by_us(spark, shape, each) for who, each in done.items()},
        )
    record_property("statements", len(texts))
    record_property("refused", sum(bool(each.note) for each in done["delta"].attempts))
    context = f"\nshape {shape.name!r}, seed {seed}, made by {maker}\n"
    for number, text in enumerate(texts, start=1):
        last_one = " (by the other side)" if number == len(texts) else ""
        history = "".join(f"  {each}\n" for each in texts[: number - 1])
        where = f"{context}{history}statement {number}{last_one}: {text}\n"
        one, other = done["delta"].attempts[number - 1], done["ours"].attempts[number - 1]
        if any(each in one.note + other.note for each in _THEIR_DEFECTS):
            break
        assert bool(one.note) == bool(other.note), (
            f"{where}on Delta Spark's table: {one.note or 'done'}\non ours: {other.note or 'done'}"
        )
        for part in ("rows", "ids", "feed"):
            found = {
                f"{owner}'s table read by {reader}": told[owner][part][number]
                for reader, told in (("Delta Spark", by_delta), ("us", by_ours))
                for owner in done
                if told[owner][part]
            }
            assert len({*map(tuple, found.values())}) < 2, f"{where}{part}: {_difference(found)}"
        assert not _metrics(done["delta"], done["ours"], number), where


def told_by_delta(delta: Theirs, shape: Shape, done: Done) -> dict[str, dict[int, list[str]]]:
    """What Delta Spark finds in a table after each statement."""
    at = [(number, f"{name(done.path)} VERSION AS OF {version}") for number, version in enumerate(done.versions)]
    queries = [" UNION ALL ".join(f"SELECT {number}, {_ROW} FROM {table}" for number, table in at)]
    if shape.is_tracked:
        columns = "uid, _metadata.row_id, _metadata.row_commit_version"
        queries.append(" UNION ALL ".join(f"SELECT {number}, {columns} FROM {table}" for number, table in at))
    if shape.has_feed:
        feed = "_change_type, _commit_version, _commit_timestamp"
        changes = f"table_changes_by_path('{done.path}', {done.begin})"
        queries.append(f"SELECT _change_type, _commit_version, {_row_but(feed)} FROM {changes}")
    answers = delta.attempts(done.path, queries)
    for each in answers:
        assert not each.note, f"Delta Spark cannot read {done.path}: {each.note}"
    found = [each.rows for each in answers]
    return {
        "rows": _grouped((int(number), row) for number, row in found[0]),
        "ids": _ids(found[1], done) if shape.is_tracked else {},
        "feed": _feed(found[-1], done) if shape.has_feed else {},
    }


def told_by_us(spark: Any, shape: Shape, done: Done) -> dict[str, dict[int, list[str]]]:
    """What Halocline finds in a table after each statement; ids of rows are for Delta Spark to tell."""
    table = Table.for_path(done.path, spark)
    frames = [
        table.to_df(version=version).selectExpr(f"{number} AS number", f"{_ROW} AS row")
        for number, version in enumerate(done.versions)
    ]
    rows = frames[0]
    for each in frames[1:]:
        rows = rows.unionAll(each)
    feed = {}
    if shape.has_feed:
        names = "_change_type, _commit_version, _commit_timestamp"
        changes = table.changes(done.begin).selectExpr("_change_type", "_commit_version", f"{_row_but(names)} AS row")
        feed = _feed([[str(value) for value in row] for row in changes.collect()], done)
    return {"rows": _grouped((row[0], row[1]) for row in rows.collect()), "ids": {}, "feed": feed}


def _row_but(columns: str) -> str:
    return f"to_json(struct(* EXCEPT ({columns})), map({_TIMES}))"


def _grouped(items: Any) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {number: [] for number in range(STATEMENTS + 1)}
    for number, text in items:
        found[number].append(text)
    return {number: sorted(rows) for number, rows in found.items()}


def _ids(rows: list[list[str]], done: Done) -> dict[int, list[str]]:
    """Rows that were there before the first statement have the ids they had; others have ids that no other row has."""
    told = [(int(number), uid, int(id), done.step(int(version))) for number, uid, id, version in rows]
    old = {id for number, _, id, _ in told if number == 0}
    for number in range(STATEMENTS + 1):
        ids = [id for at, _, id, _ in told if at == number]
        assert len(ids) == len(set(ids)), f"an id of {done.path} is that of two rows after statement {number}"
    known = ((number, f"{uid}: {id if id in old else 'new'} changed by {step}") for number, uid, id, step in told)
    return _grouped(known)


def _feed(rows: list[list[str]], done: Done) -> dict[int, list[str]]:
    return _grouped((done.step(int(version)), f"{kind} {row}") for kind, version, row in rows)


def _metrics(theirs: Done, ours: Done, number: int) -> dict[str, tuple[str, str]]:
    """What the history says of a statement otherwise on the other side, where both must say the same."""
    commits = [(each.commit(number, "commitInfo"), each.commit(number, "remove")) for each in (theirs, ours)]
    if not all(info for info, _ in commits):
        return {}
    one, other = (info[0]["operationMetrics"] for info, _ in commits)
    gone = [sorted(each["path"] for each in removes) for _, removes in commits]
    names = _METRICS + (_METRICS_OF_FILES if number == 1 and gone[0] == gone[1] else ())
    both = [each for each in names if each in one and each in other]
    return {each: (one[each], other[each]) for each in both if one[each] != other[each]}


def _difference(found: Mapping[str, list[str]]) -> str:
    """What each has that not all have."""
    counts = {who: Counter(rows) for who, rows in found.items()}
    shared = functools.reduce(operator.and_, counts.values())
    return "".join(f"\n  {who}\n    " + "\n    ".join((count - shared).elements()) for who, count in counts.items())

"""Merges of random rows by random clauses, against a model in plain Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

import deltalake
import pyarrow as pa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.tables import FEED, VECTORS, their_rows

from halocline.errors import InputError
from halocline.spark.scan.frames import frame_of
from halocline.spark.session.session import settings as spark_settings
from halocline.table import Table
from halocline.table.delta.rows.files import RowFiles

Row = tuple[Any, ...]
COLUMNS = ("k", "id", "p", "v")
TYPES = pa.schema([("k", pa.int64()), ("id", pa.int64()), ("p", pa.string()), ("v", pa.int64())])
EXTRAS = {
    "plain": {},
    "vectors": VECTORS,
    "feed": FEED,
    "vectors and feed": {**VECTORS, **FEED},
    "tracked": {"delta.enableRowTracking": "true"},
    "tracked vectors": {"delta.enableRowTracking": "true", **VECTORS},
}


def both(test):
    """A test of two values as SQL has it: of null it says nothing."""
    return lambda one, other: None if one is None or other is None else test(one, other)


equal, above = both(lambda one, other: one == other), both(lambda one, other: one > other)


def holds_all(*tests):
    return lambda t, s: all(test(t, s) for test in tests)


CONDITIONS = {
    "t.id = s.id": lambda t, s: equal(t[1], s[1]),
    "t.id <=> s.id": lambda t, s: t[1] == s[1],
    "s.id = t.id AND t.p = s.p": holds_all(lambda t, s: equal(t[1], s[1]), lambda t, s: equal(t[2], s[2])),
    "t.id = s.id AND t.v > 3": holds_all(lambda t, s: equal(t[1], s[1]), lambda t, s: above(t[3], 3)),
    "t.id > s.id AND t.v = s.v": holds_all(lambda t, s: above(t[1], s[1]), lambda t, s: equal(t[3], s[3])),
    "t.p <=> s.p AND t.id + 1 = s.id": lambda t, s: t[2] == s[2] and t[1] is not None and t[1] + 1 == s[1],
    "false": lambda t, s: False,
}
MATCHED = {
    None: lambda t, s: True,
    "t.v > s.v": lambda t, s: above(t[3], s[3]),
    "s.p = 'b'": lambda t, s: equal(s[2], "b"),
    "t.v > 4": lambda t, s: above(t[3], 4),
    "t.p IS NULL": lambda t, s: t[2] is None,
}
OF_SOURCE = {None: lambda s: True, "s.v > 3": lambda s: above(s[3], 3), "s.p IS NOT NULL": lambda s: s[2] is not None}
OF_TABLE = {None: lambda t: True, "t.v > 3": lambda t: above(t[3], 3), "t.p = 'a'": lambda t: equal(t[2], "a")}
UPDATES = {
    "all": lambda t, s: s,
    "some": lambda t, s: (t[0], t[1], s[2], None if t[3] is None or s[3] is None else t[3] + s[3]),
}
SOME = {"p": "s.p", "v": "t.v + s.v"}


@st.composite
def clauses(draw: st.DrawFn, tests: dict[str | None, Any], kinds: tuple[str, ...]) -> list[tuple[str | None, str]]:
    """Up to three clauses, of which only the last may take every row."""
    found = draw(st.lists(st.tuples(st.sampled_from(list(tests)), st.sampled_from(kinds)), max_size=2))
    last = next((number for number, (test, _) in enumerate(found) if test is None), len(found))
    return found[: last + 1]


values = st.tuples(
    st.one_of(st.none(), st.integers(0, 9)),
    st.sampled_from([None, "a", "b", "c d/=%"]),
    st.one_of(st.none(), st.integers(0, 7)),
)
MERGES = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(list(EXTRAS)),
        "partitioned": st.booleans(),
        "target": st.lists(st.lists(values, min_size=4, max_size=12), min_size=1, max_size=2),
        "source": st.one_of(
            st.lists(values, min_size=3, max_size=8, unique_by=lambda row: row[0]),
            st.lists(values, min_size=1, max_size=4),
        ),
        "condition": st.sampled_from(list(CONDITIONS)),
        "matched": clauses(MATCHED, ("delete", "all", "some")),
        "not_matched": clauses(OF_SOURCE, ("insert",)),
        "alone": clauses(OF_TABLE, ("delete", "set")),
        "session": st.fixed_dictionaries(
            {
                "spark.sql.shuffle.partitions": st.sampled_from(["1", "3", "8"]),
                "spark.sql.adaptive.enabled": st.sampled_from(["true", "false"]),
                "spark.sql.files.maxPartitionBytes": st.sampled_from(["2kb", "128m"]),
                "spark.sql.files.openCostInBytes": st.just("1b"),
            }
        ),
    }
).filter(lambda each: each["matched"] or each["not_matched"] or each["alone"])


def model(target: list[Row], source: list[Row], merge: dict[str, Any]) -> tuple[list[Row], set[Row], set[Row]]:
    """The rows after the merge, those that several of the source match, and those of these that a clause takes."""
    holds = CONDITIONS[merge["condition"]]
    after, several, taken = [], set(), set()
    for row in target:
        found = [other for other in source if holds(row, other)]
        acts = [(act, other) for other in found for act in [_act(merge["matched"], MATCHED, row, other)] if act]
        if len(found) > 1:
            several.add(row)
            taken |= {row} if acts else set()
        if not found:
            act = _act(merge["alone"], OF_TABLE, row)
            row = {"delete": None, "set": (*row[:3], -1), None: row}[act]
        elif acts:
            act, other = acts[0]
            row = None if act == "delete" else UPDATES[act](row, other)
        after += [] if row is None else [row]
    for other in source:
        if not any(holds(row, other) for row in target) and _act(merge["not_matched"], OF_SOURCE, other):
            after.append(other)
    return after, several, taken


def _act(clauses: list[tuple[str | None, str]], tests: dict[Any, Any], *rows: Row) -> str | None:
    return next((act for test, act in clauses if tests[test](*rows)), None)


def begun(table: Table, source: Any, merge: dict[str, Any]) -> Any:
    builder = table.merge(source, merge["condition"])
    for test, act in merge["matched"]:
        if act == "delete":
            builder = builder.when_matched_delete(test)
        else:
            builder = builder.when_matched_update_all(test) if act == "all" else builder.when_matched_update(test, SOME)
    for test, _ in merge["not_matched"]:
        builder = builder.when_not_matched_insert_all(test)
    for test, act in merge["alone"]:
        if act == "delete":
            builder = builder.when_not_matched_by_source_delete(test)
        else:
            builder = builder.when_not_matched_by_source_update(test, {"v": "-1"})
    return builder


def in_order(rows: Any) -> list[Row]:
    return sorted((tuple(row) for row in rows), key=str)


def arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], schema=TYPES)


def row_ids(spark: Any, table: Table) -> dict[int, int]:
    """The ids of rows by the number that each has had from its beginning."""
    snapshot = table.snapshot()
    columns = RowFiles(table.store, snapshot.configuration).identities()
    return {row[0]: row[len(COLUMNS)] for row in frame_of(spark, snapshot, rows=columns).collect()}


AMBIGUOUS = {
    "kind": "vectors",
    "partitioned": False,
    "target": [[(1, "a", 1), (2, "a", 2)]],
    "source": [(1, "b", 5), (1, "b", 6)],
    "condition": "t.id = s.id",
    "matched": [(None, "all")],
    "not_matched": [],
    "alone": [],
    "session": {},
}
"""Two rows of the source match one of the table, which random rows do too seldom."""


@example(merge=AMBIGUOUS)
@example(merge={**AMBIGUOUS, "matched": [(None, "delete")]})
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(merge=MERGES)
def test_a_merge_leaves_the_rows_that_the_model_has(merge, tmp_path_factory, spark):
    check(merge, tmp_path_factory.mktemp("merge") / "t", spark)


def check(merge, path, spark):
    numbered = iter(range(1000))
    parts = [[(next(numbered), *row) for row in rows] for rows in merge["target"]]
    target = [row for rows in parts for row in rows]
    source = [(next(numbered), *row) for row in merge["source"]]
    # Small groups of rows, so that several tasks read one file.
    small = deltalake.WriterProperties(max_row_group_size=2)
    partitions = ["p"] if merge["partitioned"] else None
    for rows in parts:
        deltalake.write_deltalake(path, arrow(rows), mode="append", partition_by=partitions, writer_properties=small)
    table = Table.for_path(path, spark)
    if EXTRAS[merge["kind"]]:
        table.set_properties(EXTRAS[merge["kind"]])
    tracked = "tracked" in merge["kind"]
    before = row_ids(spark, table) if tracked else {}
    after, several, taken = model(target, source, merge)
    changes = merge["matched"] or merge["alone"]
    whole_delete = merge["matched"] == [(None, "delete")]
    version = table.version
    with spark_settings(spark, merge["session"]):
        builder = begun(table, spark.createDataFrame(arrow(source)), merge)
        refused = None
        try:
            builder.execute()
        except InputError as error:
            refused = error.condition
        found = in_order(table.to_df().collect())
    if several and changes and not whole_delete:
        # Files of which no clause can take a row need not be read, if matches are all that clauses take.
        must = taken or merge["alone"] or merge["not_matched"]
        assert refused == "MERGE_AMBIGUOUS" if must else refused in (None, "MERGE_AMBIGUOUS")
    else:
        assert refused is None
    if refused:
        assert (table.version, found) == (version, in_order(target)), "a refused merge changed the table"
        return
    assert found == in_order(after)
    assert in_order(their_rows(path, *COLUMNS)) == found
    if tracked:
        now, updated_all = row_ids(spark, table), any(act == "all" for _, act in merge["matched"])
        if not updated_all:
            kept = {row[0] for row in target} & set(now)
            assert {k: now[k] for k in kept} == {k: before[k] for k in kept}
        assert len(set(now.values())) == len(now)
    if "feed" in merge["kind"] and table.version > version:
        counted = Counter(target)
        for row in table.changes(table.version, table.version).select(*COLUMNS, "_change_type").collect():
            counted[tuple(row[:4])] += 1 if row[4] in ("insert", "update_postimage") else -1
        assert min(counted.values(), default=0) >= 0
        assert in_order(counted.elements()) == found

"""Merges, against rows worked out in Python and against another client."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F
from tests.support.tables import FEED, VECTORS, rows_of, their_rows

from halocline.errors import ConstraintError, InputError, SchemaError
from halocline.spark.scan.frames import frame_of
from halocline.table import Table
from halocline.table.delta.merge import merge
from halocline.table.delta.new_table import Identity, column
from halocline.table.delta.rows import changes, hits
from halocline.table.delta.rows.files import RowFiles

TABLES = {
    "plain": {},
    "partitioned": {"partition_by": "p"},
    "mapped with feed": {"partition_by": "p", "properties": {"delta.columnMapping.mode": "name", **FEED}},
    "vectors": {"properties": VECTORS},
    "vectors with feed": {"partition_by": "p", "properties": {**VECTORS, **FEED}},
    "tracked": {"properties": {"delta.enableRowTracking": "true"}},
}
KINDS = [pytest.param(kind, marks=[pytest.mark.connect] * (kind == "vectors with feed")) for kind in TABLES]
COLUMNS = "id BIGINT, p INT, v INT, s STRING"


def frame(spark, rows, columns=COLUMNS):
    return spark.createDataFrame(rows, columns)


def by_feed(before, table, version):
    """The rows that the change feed of one version leads to."""
    after = Counter(before)
    for row in table.changes(version, version).collect():
        sign = 1 if row["_change_type"] in ("insert", "update_postimage") else -1
        after[tuple(row[:4])] += sign
    return sorted(after.elements())


def identities(spark, table):
    """The id of each row, by its first column, and the version that last changed it."""
    snapshot = table.snapshot()
    columns = RowFiles(table.store, snapshot.configuration).identities()
    return {row[0]: tuple(row[-2:]) for row in frame_of(spark, snapshot, rows=columns).collect()}


def target_rows(rng):
    return [(i, rng.randrange(3), rng.choice([None, 1, 5, 9]), rng.choice("abc")) for i in range(60)]


def source_rows(rng):
    return [(i, rng.randrange(4), rng.randrange(10), rng.choice("xyz")) for i in rng.sample(range(90), 30)]


def expected(target, source):
    """All kinds of clauses, the first that holds deciding."""
    new, left = {row[0]: row for row in source}, []
    for i, p, v, s in target:
        match = new.get(i)
        if match is not None and v is not None and v > match[2]:
            left.append((i, p, v + match[2], s))
        elif match is not None and match[3] == "x":
            continue
        elif match is not None and match[3] == "y":
            left.append(match)
        elif match is None and s == "a":
            continue
        elif match is None and p == 1:
            left.append((i, 2, v, "gone"))
        else:
            left.append((i, p, v, s))
    known = {row[0] for row in target}
    for i, p, v, s in source:
        if i not in known and s == "z":
            left.append((i, 0, None, "z!"))
        elif i not in known and v > 2:
            left.append((i, p, v, s))
    return sorted(left, key=str)


@pytest.mark.parametrize("kind", KINDS)
def test_clauses_of_every_kind_leave_the_rows_that_the_first_one_decides(kind, tmp_path, spark):
    rng = random.Random(kind)
    rows = target_rows(rng)
    table = Table.create(tmp_path / "t", frame(spark, rows).repartition(4, "id"), spark, **TABLES[kind])
    # The second meets the vectors that the first has left.
    for _ in range(2 if "vectors" in kind else 1):
        source = source_rows(rng)
        merge = table.merge(frame(spark, source).alias("new"), "t.id = new.id")
        merge = merge.when_matched_update("t.v > new.v", {"v": "t.v + new.v"})
        merge = merge.when_matched_delete("new.s = 'x'").when_matched_update_all(F.col("new.s") == "y")
        merge = merge.when_not_matched_insert("s = 'z'", {"id": "id", "t.p": 0, "s": "concat(s, '!')"})
        merge = merge.when_not_matched_insert_all("new.v > 2")
        merge = merge.when_not_matched_by_source_delete("s = 'a'")
        merge = merge.when_not_matched_by_source_update("p = 1", {"p": "p + 1", "s": "'gone'"})
        done = merge.execute()
        after = expected(rows, source)
        found = sorted((tuple(row) for row in table.to_df().collect()), key=str)
        assert found == after
        metrics = done.metrics
        assert metrics["numTargetRowsUpdated"] + metrics["numTargetRowsDeleted"] > 0
        assert len(after) == len(rows) + metrics["numTargetRowsInserted"] - metrics["numTargetRowsDeleted"]
        if "feed" in kind:
            assert sorted(by_feed(rows, table, done.version), key=str) == after
        rows = after
    assert sorted(their_rows(tmp_path / "t", "id", "p", "v", "s"), key=str) == rows
    info = table.history()[0].info.values
    assert info["operation"] == "MERGE"
    assert info["operationParameters"]["notMatchedBySourcePredicates"].count("actionType") == 2


LARGE = {(merge, "_BROADCAST_BYTES"): 0}
JOINS = {
    "with the pairs": {},
    "with the pairs, shuffled": {(changes, "_SMALL_VALUES"): 0},
    "beside the hits": LARGE,
    "after the hits": {**LARGE, (changes, "_SMALL_VALUES"): 0},
    "shuffled": {**LARGE, (changes, "_SMALL_VALUES"): 0, (hits, "SMALL"): 0, (changes, "SMALL"): 0},
}


@pytest.mark.parametrize("limits", JOINS.values(), ids=JOINS.keys())
def test_rows_are_the_same_however_a_source_that_goes_by_the_tables_alias_is_joined(
    limits, tmp_path, spark, monkeypatch
):
    for (module, name), value in limits.items():
        monkeypatch.setattr(module, name, value)
    table = Table.create(tmp_path / "t", frame(spark, [(i, 0, i, "old") for i in range(40)]).repartition(3), spark)
    frame(spark, [(i, 0, -i, "new") for i in range(30, 50)]).createOrReplaceTempView("t")
    source = spark.table("t").withColumnRenamed("id", "key")
    done = table.merge(source, "id = key").when_matched_update(set={"v": "key * 10"}).execute()
    assert rows_of(table) == sorted((i, 0, i * 10 if i >= 30 else i, "old") for i in range(40))
    assert done.metrics["numTargetRowsUpdated"] == 10


def test_only_files_with_matches_are_read_and_rewritten(tmp_path, spark):
    df = spark.range(0, 8000, 1, 8).selectExpr("id", "id * 2 AS v")
    table = Table.create(tmp_path / "t", df, spark)
    before = set(table.snapshot().files()["path"].to_pylist())
    source = spark.range(2100, 2180).selectExpr("id", "-1 AS v")
    done = table.merge(source, "t.id = s.id").when_matched_update_all().execute()
    assert done.metrics["numTargetFilesScanned"] == 1, "the keys rule out the other seven files"
    assert done.metrics["numTargetFilesRemoved"] == 1
    assert len(before & set(table.snapshot().files()["path"].to_pylist())) == 7
    assert table.to_df(where="v = -1").count() == 80
    assert table.to_df().count() == 8000


def test_rows_keep_their_ids_and_changed_ones_their_new_version(tmp_path, spark):
    table = Table.create(tmp_path / "t", spark.range(20), spark, properties={"delta.enableRowTracking": "true"})
    before = identities(spark, table)
    table.update({"id": "id + 100"}, "id >= 15")
    table.merge(spark.range(3), "t.id = s.id").when_matched_delete().execute()
    after = identities(spark, table)
    assert {i: after[i] for i in range(3, 15)} == {i: before[i] for i in range(3, 15)}
    assert {i: after[i + 100] for i in range(15, 20)} == {i: (before[i][0], 1) for i in range(15, 20)}


NAMED = {
    "no name": lambda df: (df, "t.id = s.id", {}),
    "its own": lambda df: (df.alias("new"), "t.id = new.id", {}),
    "its own, but not used": lambda df: (df.alias("new"), "t.id = s.id", {}),
    "two inside": lambda df: (df.alias("a").join(df.select("id").alias("b"), "id"), "t.id = a.id", {}),
    "given": lambda df: (df, "here.id = there.id", {"target_alias": "here", "source_alias": "there"}),
}


@pytest.mark.parametrize("name", NAMED.values(), ids=NAMED.keys())
def test_a_source_goes_by_its_own_name_or_by_s(tmp_path, spark, name):
    table = Table.create(tmp_path / "t", frame(spark, [(1, 0, 1, "a"), (2, 0, 2, "b")]), spark)
    source, condition, aliases = name(frame(spark, [(1, 0, 7, "new"), (3, 0, 8, "new")]))
    table.merge(source, condition, **aliases).when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows_of(table, "id", "p", "v", "s") == [(1, 0, 7, "new"), (2, 0, 2, "b"), (3, 0, 8, "new")]


@pytest.mark.connect
def test_columns_of_a_source_that_share_a_name_are_in_the_way_only_of_who_means_them(tmp_path, spark):
    table = Table.create(tmp_path, spark.range(3).selectExpr("id", "0L AS n"))
    joined = spark.sql("SELECT a.*, b.* FROM (SELECT 1L AS k, 5L AS x) a JOIN (SELECT 1L AS K, 7L AS y) b ON a.k = b.k")
    with pytest.raises(InputError, match="k"):
        table.merge(joined, "t.id = s.k").when_matched_delete().execute()
    table.merge(joined, "t.id = s.y - 6").when_matched_update(set={"n": "s.x"}).execute()
    assert rows_of(table) == [(0, 0), (1, 5), (2, 0)]


def test_two_matches_of_one_row_are_refused_with_a_sample_unless_all_are_deleted(tmp_path, spark):
    table = Table.create(tmp_path / "t", frame(spark, [(1, 0, 1, "a"), (2, 0, 2, "b")]), spark)
    source = frame(spark, [(1, 0, 7, "first"), (1, 0, 8, "second"), (3, 0, 8, "third")])
    merge = table.merge(source, "t.id = s.id")
    with pytest.raises(InputError, match="2 rows of the source") as refused:
        merge.when_matched_update_all().execute()
    assert refused.value.condition == "MERGE_AMBIGUOUS"
    assert "first" in refused.value.sides["rows of the source"]
    assert "second" in refused.value.sides["rows of the source"]
    assert '"id":1' in refused.value.sides["row of the table"]
    assert table.version == 0, "nothing was committed"
    done = merge.when_matched_delete().when_not_matched_insert_all().execute()
    assert (done.metrics["numTargetRowsDeleted"], done.metrics["numTargetRowsInserted"]) == (1, 1)
    assert rows_of(table, "id", "p", "v", "s") == [(2, 0, 2, "b"), (3, 0, 8, "third")]


TAKING = {
    "an update of one": lambda merge: merge.when_matched_update("s.v = 8", {"s": "s.s"}),
    "a delete of one": lambda merge: merge.when_matched_delete("s.v = 8"),
    "an update of none": lambda merge: merge.when_matched_update(
        "s.v = 99", {"s": "s.s"}
    ).when_not_matched_insert_all(),
    "rows without a match": lambda merge: merge.when_not_matched_by_source_delete("t.id = 99"),
}


@pytest.mark.parametrize("clause", TAKING.values(), ids=TAKING.keys())
def test_two_matches_of_one_row_are_refused_whichever_of_them_a_clause_takes(tmp_path, spark, clause):
    table = Table.create(tmp_path / "t", frame(spark, [(1, 0, 1, "a"), (2, 0, 2, "b")]), spark)
    source = frame(spark, [(1, 0, 7, "first"), (1, 0, 8, "second")])
    with pytest.raises(InputError, match="2 rows of the source"):
        clause(table.merge(source, "t.id = s.id")).execute()
    assert table.version == 0, "nothing was committed"


def test_two_matches_in_a_file_that_no_clause_can_take_a_row_of_are_not_looked_for(tmp_path, spark):
    table = Table.create(tmp_path / "t", frame(spark, [(1, 0, 1, "a"), (2, 0, 2, "b")]), spark)
    merge = table.merge(frame(spark, [(1, 0, 7, "new"), (1, 0, 8, "new")]), "t.id = s.id")
    merge = merge.when_matched_update("t.v > 5 AND s.v = 8", {"s": "s.s"}).when_matched_delete("t.p = 9")
    assert merge.execute().metrics["numTargetFilesScanned"] == 0
    with pytest.raises(InputError, match="2 rows of the source"):
        merge.when_not_matched_insert_all().execute()


@pytest.mark.connect
def test_a_merge_whose_clauses_take_none_of_the_rows_that_match_changes_nothing(tmp_path, spark):
    table = Table.create(tmp_path / "t", frame(spark, [(1, 0, 1, "a"), (2, 0, 2, "b")]), spark)
    merge = table.merge(frame(spark, [(1, 0, 7, "new"), (2, 0, 8, "new")]), "t.id = s.id")
    merge.when_matched_update("s.v < t.v", {"s": "s.s"}).when_matched_delete("s.v = 0").execute()
    assert rows_of(table) == [(1, 0, 1, "a"), (2, 0, 2, "b")]
    assert table.version == 0


@pytest.mark.connect
def test_a_source_that_differs_each_time_is_read_once(tmp_path, spark):
    table = Table.create(tmp_path / "t", spark.range(200).selectExpr("id", "0D AS v"), spark, properties=FEED)
    source = spark.range(400).selectExpr("id", "rand() AS v").where("v < 0.5")
    merge = table.merge(source, "t.id = s.id")
    done = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    stored = {row["id"]: row["v"] for row in table.to_df(where="v > 0").collect()}
    told = table.changes(done.version, done.version).where("_change_type IN ('insert', 'update_postimage')")
    assert {row["id"]: row["v"] for row in told.collect()} == stored
    assert done.metrics["numSourceRows"] == len(stored)


def test_new_columns_of_the_source_come_in_only_with_evolution(tmp_path, spark):
    table = Table.create(tmp_path / "t", frame(spark, [(1, 0, 1, "a"), (2, 0, 2, "b")]), spark)
    source = frame(spark, [(2, 5, "new"), (3, 6, "new")], "id BIGINT, v INT, extra STRING")
    merge = table.merge(source, "t.id = s.id")
    merge = merge.when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(SchemaError, match=r"lacks columns of .*: p, s"):
        merge.execute()
    merge.with_schema_evolution().execute()
    rows = sorted(tuple(row) for row in table.to_df().collect())
    assert rows == [(1, 0, 1, "a", None), (2, 0, 5, "b", "new"), (3, None, 6, None, "new")]
    assert DeltaTable(str(tmp_path / "t")).to_pyarrow_table().column_names == ["id", "p", "v", "s", "extra"]


WHOLE = "named_struct('a', 1, 'n', named_struct('x', 2, 'y', 3))"
PARTIAL = {
    "a field": ("named_struct('a', 9)", (9, (2, 3)), (9, None)),
    "a field below": ("named_struct('a', 9, 'n', named_struct('x', 8))", (9, (8, 3)), (9, (8, None))),
    "none, being null": ("CAST(NULL AS STRUCT<a: INT>)", (None, (2, 3)), None),
    "all, being null": ("CAST(NULL AS STRUCT<a: INT, n: STRUCT<x: INT, y: INT>>)", None, None),
    "another one": ("named_struct('a', 9, 'z', 7)", (9, (2, 3), 7), (9, None, 7)),
}


@pytest.mark.parametrize("partial", PARTIAL)
def test_a_struct_that_lacks_fields_keeps_them_under_evolution_and_is_refused_without(tmp_path, spark, partial):
    """As Delta does it: an update of all columns keeps what the source lacks; a value given by name has nulls."""
    value, kept, filled = PARTIAL[partial]
    source = spark.sql(f"SELECT 1 id, {value} s")

    def merged(name, build):
        table = Table.create(tmp_path / name, spark.sql(f"SELECT 1 id, {WHOLE} s"), spark)
        build(table.merge(source, "t.id = s.id" if name != "insert" else "false")).execute()
        return [None if row.s is None else tuple(map(_plain, row.s)) for row in table.to_df().collect()]

    assert merged("all", lambda m: m.with_schema_evolution().when_matched_update_all()) == [kept]
    assert merged("set", lambda m: m.with_schema_evolution().when_matched_update(set={"s": "s.s"})) == [filled]
    assert filled in merged("insert", lambda m: m.with_schema_evolution().when_not_matched_insert_all())
    if not partial.startswith("all"):
        for number, build in enumerate(
            (lambda m: m.when_matched_update_all(), lambda m: m.when_matched_update(set={"s": "s.s"}))
        ):
            with pytest.raises(SchemaError, match="do not fit"):
                merged(f"refused {number}", build)


def _plain(value):
    return tuple(value) if isinstance(value, tuple) else value


def test_rules_and_columns_that_the_table_computes_hold_for_merged_rows(tmp_path, spark):
    columns = [
        column("n", "long", identity=Identity()),
        column("k", "integer", nullable=False),
        column("double", "integer", generated="k * 2"),
        column("note", "string", default="'none'"),
    ]
    properties = {"delta.constraints.small": "k < 100"}
    table = Table.create(tmp_path / "t", columns, spark, properties=properties)
    table.append(spark.range(3).selectExpr("CAST(id AS INT) AS k"))
    source = spark.createDataFrame([(1, 11), (5, 50)], "old INT, k INT")
    merge = table.merge(source.alias("s"), "t.k = s.old")
    merge.when_matched_update(set={"k": "s.k"}).when_not_matched_insert(values={"k": "s.k"}).execute()
    rows = sorted(tuple(row) for row in table.to_df().select("k", "double", "note").collect())
    assert rows == [(0, 0, "none"), (2, 4, "none"), (11, 22, "none"), (50, 100, "none")]
    assert table.to_df().select("n").distinct().count() == 4, "every row has a number of its own"
    for broken in ({"k": "s.k + 100"}, {"k": "null"}, {"double": "1"}):
        with pytest.raises(ConstraintError):
            table.merge(source, "s.k = 11 AND t.k = 0").when_matched_update(set=broken).execute()
    with pytest.raises(InputError, match="itself"):
        table.merge(source, "true").when_matched_update(set={"n": "1"}).execute()
    assert table.version == 2


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda m: m, "no clause"),
        (lambda m: m.when_matched_update(set={"nope": "1"}), "no column 'nope'"),
        (lambda m: m.when_matched_update("nope.x = 1", {"v": "1"}), "condition"),
        (lambda m: m.when_not_matched_insert(values={"v": "t.v"}), "value for v"),
        (lambda m: m.when_not_matched_by_source_update(set={"v": "s.v"}), "value for v"),
        (lambda m: m.when_matched_delete().when_matched_update_all(), "never be reached"),
        (lambda m: m.when_matched_update(set={"v": "1", "t.V": "2"}), "set twice"),
        (lambda m: m.when_matched_update(set={}), "which values"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_merged_is_refused_before_anything_is_written(build, message, tmp_path, spark):
    table = Table.create(tmp_path / "t", COLUMNS, spark)
    source = frame(spark, [(1, 0, 1, "a")]).alias("s")
    with pytest.raises(InputError, match=message):
        build(table.merge(source, "t.id = s.id")).execute()
    assert table.version == 0
    assert not list(tmp_path.rglob("*.parquet"))


def test_merge_that_others_come_before_is_done_again(spark, tmp_path, monkeypatch):
    table = Table.create(tmp_path / "t", COLUMNS, spark=spark)
    table.append(frame(spark, [(1, 0, 1, "a")]))
    commit, appended = merge.Merge.commit, iter([(2, 0, 5, "theirs")])

    def behind_an_append(self, *args):
        for row in appended:
            Table.for_path(tmp_path / "t", spark).append(frame(spark, [row]))
        return commit(self, *args)

    monkeypatch.setattr(merge.Merge, "commit", behind_an_append)
    source = frame(spark, [(1, 0, 10, "ours"), (2, 0, 20, "ours")])
    builder = table.merge(source, "t.id = s.id").when_matched_update_all().when_not_matched_insert_all()
    assert builder.execute().version == 3
    assert rows_of(table) == [(1, 0, 10, "ours"), (2, 0, 20, "ours")]


SOURCES = {
    "by its own name": (lambda df: df.alias("new"), "new"),
    "by s": (lambda df: df, "s"),
    "of two inside": (lambda df: df.select("id", "s").alias("a").join(df.select("id", "v").alias("b"), "id"), "b"),
}


@pytest.mark.connect
@pytest.mark.parametrize("kind", ["plain", "vectors"])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_values_of_the_source_reach_rows_of_the_few_files_with_matches(tmp_path, spark, kind, source):
    rows = [(i, i % 3, i, "old") for i in range(40)]
    table = Table.create(tmp_path / "t", frame(spark, rows).repartitionByRange(4, "id"), spark, **TABLES[kind])
    named, alias = source
    new = named(frame(spark, [(i, 0, -i, f"new {i}") for i in (3, 12, 15, 99)]))
    asked = table.merge(new, f"t.id + 0 = {alias}.id" if alias != "b" else "t.id + 0 = a.id")
    done = asked.when_matched_update(set={"v": f"{alias}.v * 2 + t.p"}).execute()
    assert (done.metrics["numTargetFilesScanned"], done.metrics["numTargetRowsUpdated"]) == (4, 3)
    assert done.metrics["numTargetFilesRemoved"] == (2 if kind == "plain" else 0), "two files have matches"
    changed = {3: -6, 12: -24, 15: -30}
    assert rows_of(table, "id", "p", "v", "s") == [(i, p, changed.get(i, v), s) for i, p, v, s in rows]
    assert sorted(their_rows(tmp_path / "t", "id", "v")) == [(i, changed.get(i, v)) for i, _, v, _ in rows]


@pytest.mark.parametrize("kind", ["plain", "vectors"])
def test_pairs_too_many_for_the_driver_are_judged_by_spark(tmp_path, spark, kind, monkeypatch):
    monkeypatch.setattr(hits, "SMALL", 2)
    rows = [(i, i % 3, i, "old") for i in range(20)]
    table = Table.create(tmp_path / "t", frame(spark, rows).repartitionByRange(2, "id"), spark, **TABLES[kind])
    source = frame(spark, [(i, 0, -i, "new") for i in (1, 2, 3, 11, 12, 99)])
    table.merge(source, "t.id = s.id").when_matched_update("t.id <> 2", {"v": "s.v"}).execute()
    changed = {i: -i for i in (1, 3, 11, 12)}
    assert rows_of(table, "id", "v") == [(i, changed.get(i, v)) for i, _, v, _ in rows]
    twice = source.union(source)
    with pytest.raises(InputError, match="2 rows of the source"):
        table.merge(twice, "t.id = s.id").when_matched_update(set={"v": "0"}).execute()
    done = table.merge(twice, "t.id = s.id").when_matched_delete().execute()
    assert done.metrics["numTargetRowsDeleted"] == 5
    assert rows_of(table, "id") == [(i,) for i in range(20) if i not in (1, 2, 3, 11, 12)]


@pytest.mark.connect
@pytest.mark.parametrize("kind", ["plain", "vectors"])
def test_files_between_whose_bounds_the_source_has_no_key_are_not_searched(tmp_path, spark, kind):
    df = spark.range(0, 8000, 1, 8).selectExpr("id", "0 AS p", "CAST(id AS INT) AS v", "'old' AS s")
    table = Table.create(tmp_path / "t", df, spark, **TABLES[kind])
    keys = [*range(0, 600, 2), *range(7200, 7800, 2)]
    source = frame(spark, [(i, 0, -i, "new") for i in keys])
    done = table.merge(source, "t.id = s.id").when_matched_update("s.v % 3 <> 0", {"v": "s.v"}).execute()
    changed = {i for i in keys if i % 3}
    assert done.metrics["numTargetFilesScanned"] == 2, "keys are in the first file and in the last"
    assert done.metrics["numTargetRowsUpdated"] == len(changed)
    assert rows_of(table, "id", "v") == [(i, -i if i in changed else i) for i in range(8000)]


READ_ONCE = {
    "some values": lambda merge: merge.when_matched_update(set={"v": "s.v + t.v", "s": "concat(t.s, '+', s.s)"}),
    "all values, new rows": lambda merge: merge.when_matched_update_all().when_not_matched_insert_all(),
    "deleted or updated": lambda merge: merge.when_matched_delete("s.v % 2 = 0").when_matched_update(set={"p": "s.p"}),
}
AFTER_READ_ONCE = {
    "some values": lambda old, new: (*old[:2], old[2] + new[2], f"{old[3]}+{new[3]}"),
    "all values, new rows": lambda old, new: new,
    "deleted or updated": lambda old, new: None if new[2] % 2 == 0 else (old[0], new[1], *old[2:]),
}
MARKED = {
    "vectors": VECTORS,
    "vectors with feed": {**VECTORS, **FEED},
    "tracked, mapped": {**VECTORS, "delta.enableRowTracking": "true", "delta.columnMapping.mode": "name"},
}


@pytest.mark.connect
@pytest.mark.parametrize("clauses", READ_ONCE)
@pytest.mark.parametrize("kind", MARKED)
def test_files_that_are_sure_to_have_matches_are_read_once(tmp_path, spark, clauses, kind, monkeypatch):
    rows = [(i, i % 3, i, f"old {i}") for i in range(40)]
    df = frame(spark, rows).repartitionByRange(3, "id")
    table = Table.create(tmp_path / "t", df, spark, properties=MARKED[kind])
    table.delete("id = 7")
    before = identities(spark, table) if "tracked" in kind else {}

    def read_again(*_, **__):
        raise AssertionError("rows are read again that were found before")

    new = {i: (i, 9, 100 + i, f"new {i}") for i in (*range(0, 40, 2), 90)}
    merge = READ_ONCE[clauses](table.merge(frame(spark, list(new.values())), "t.id = s.id"))
    with monkeypatch.context() as patched:
        patched.setattr(changes, "frame_of", read_again)
        done = merge.execute()
    live = {row[0]: row for row in rows if row[0] != 7}
    after = {i: AFTER_READ_ONCE[clauses](row, new[i]) if i in new else row for i, row in live.items()}
    if "new rows" in clauses:
        after[90] = new[90]
    left = sorted(row for row in after.values() if row is not None)
    assert rows_of(table, "id", "p", "v", "s") == left
    assert done.metrics["numTargetRowsUpdated"] + done.metrics["numTargetRowsDeleted"] == 20
    if "feed" in kind:
        assert sorted(by_feed(live.values(), table, done.version)) == left
    if "tracked" in kind:
        found = {i: row for i, row in identities(spark, table).items() if i in before}
        expected = {i: (before[i][0], done.version if i in new else before[i][1]) for i in found}
        assert found == expected, "rows keep their ids, and changed ones have the new version"
    else:
        assert sorted(their_rows(tmp_path / "t", "id", "p", "v", "s")) == left

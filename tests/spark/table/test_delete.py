"""Deletes, against rows worked out in Python and against another client."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from msgspec import structs
from pyspark.sql import functions as F
from tests.support.tables import FEED, VECTORS, by_another_client, rows_of

from halocline.errors import ConflictError, InputError, MalformedError, NotFoundError
from halocline.formats.delta.actions.action import Add, decode_commit, encode_commit
from halocline.formats.log.names import DELTA
from halocline.table import Table
from halocline.table.delta.opened import Opened

TABLES = {
    "plain": {},
    "partitioned with feed": {"partition_by": "p", "properties": FEED},
    "mapped": {"partition_by": "p", "properties": {"delta.columnMapping.mode": "name"}},
    "vectors with feed": {"properties": {**VECTORS, **FEED}},
}
KINDS = [pytest.param(kind, marks=[pytest.mark.connect] * (kind == "vectors with feed")) for kind in TABLES]


def commit_of(table, version):
    return decode_commit(table.store.get(DELTA.commit_path(version)), "commit")


def without_statistics(store, version):
    """Takes the statistics out of a commit, as writers that keep none leave it."""
    commit = decode_commit(store.get(DELTA.commit_path(version)), "commit")
    bare = [structs.replace(each, stats=None) if isinstance(each, Add) else each for each in commit.actions]
    store.put(DELTA.commit_path(version), encode_commit(bare))


def numbers(spark, count=100, files=4):
    return spark.range(0, count, 1, files).selectExpr("id", "CAST(id % 3 AS INT) AS p", "id * 2 AS v")


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_meet_a_condition_go_and_no_others(kind, tmp_path, spark):
    table = Table.create(tmp_path / "t", numbers(spark), spark, **TABLES[kind])
    left = [(i, i % 3, i * 2) for i in range(100)]
    conditions = [
        ("id % 10 = 4", lambda i, p, v: i % 10 == 4),
        (F.col("v") > F.lit(180), lambda i, p, v: v > 180),
        ("p = 1", lambda i, p, v: p == 1),
        ("id < 25 AND current_date() > DATE'2000-01-01'", lambda i, p, v: i < 25),
        ("nullif(id, 30) IS NULL", lambda i, p, v: i == 30),
        ("id > 1000", lambda i, p, v: False),
    ]
    for condition, goes in conditions:
        before, left = left, [row for row in left if not goes(*row)]
        done = table.delete(condition)
        assert (done.committed, done.metrics["numDeletedRows"]) == (before != left, len(before) - len(left)), condition
        assert rows_of(table) == left, condition
        if "feed" in kind and done.committed:
            feed = table.changes(done.version, done.version).select("_change_type", "id").collect()
            gone = sorted({row[0] for row in before} - {row[0] for row in left})
            assert sorted(tuple(row) for row in feed) == [("delete", i) for i in gone], condition
    assert by_another_client(tmp_path / "t") == left
    assert table.delete().metrics["numDeletedRows"] == len(left)
    assert rows_of(table) == []
    assert table.history()[0].info.values["operationParameters"]["predicate"] == "[]"


RANDOM = ["rand() < 0.5", "id = 1 OR uuid() = 'x'", "monotonically_increasing_id() = 0"]
DOORS = {
    "delete": lambda table, where: table.delete(where),
    "update": lambda table, where: table.update({"v": "0"}, where),
    "merge": lambda table, where: table.merge(table.to_df(), where).when_matched_delete().execute(),
    "clause of a merge": lambda table, where: (
        table.merge(table.to_df().alias("n"), "t.id = n.id").when_not_matched_by_source_delete(where).execute()
    ),
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())
def test_a_condition_that_chance_decides_is_refused(tmp_path, spark, door):
    table = Table.create(tmp_path / "t", numbers(spark, 4, 1), spark)
    for where in [*RANDOM, F.rand() < F.lit(0.5)]:
        where = where.replace("id =", "t.id =") if isinstance(where, str) and door is DOORS["merge"] else where
        with pytest.raises(InputError, match="cannot be used") as refused:
            door(table, where)
        assert "not the same whenever it is computed" in refused.value.sides["because"], where
    assert table.version == 0


def test_only_files_with_such_rows_are_touched_and_whole_ones_are_not_read(tmp_path, spark):
    table = Table.create(tmp_path / "t", numbers(spark), spark, partition_by="p", properties=FEED)
    before = set(table.snapshot().files()["path"].to_pylist())
    for path in before:
        if path.split("/")[-2] == "p=2":
            (tmp_path / "t" / path).unlink()
    done = table.delete("p = 2")
    commit = commit_of(table, done.version)
    assert (len(commit.adds), len(commit.removes), len(commit.cdcs)) == (0, 4, 0), "the log alone decides"
    done = table.delete("id = 3")
    commit = commit_of(table, done.version)
    assert (len(commit.adds), len(commit.removes)) == (1, 1)
    assert len(commit.cdcs) == 1


def test_vectors_grow_and_say_that_bounds_are_loose(tmp_path, spark):
    """The files come from another client, one of them without statistics."""
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": list(range(10))}), configuration=VECTORS)
    write_deltalake(path, pa.table({"id": list(range(10, 20))}), mode="append")
    table = Table.for_path(path, spark)
    without_statistics(table.store, 1)
    table.delete("id IN (1, 11)")
    done = table.delete(F.col("id").isin(2, 12, 1))
    commit = commit_of(table, done.version)
    assert {add.path for add in commit.adds} == {each.path for each in commit.removes}
    for add in commit.adds:
        assert '"numRecords":10' in add.stats
        assert '"tightBounds":false' in add.stats
        assert add.deletion_vector.cardinality == 2
    assert {key: done.metrics[f"numDeletionVectors{key}"] for key in ("Added", "Removed", "Updated")} == {
        "Added": 2,
        "Removed": 2,
        "Updated": 2,
    }
    done = table.delete(F.col("id") < 10)
    commit = commit_of(table, done.version)
    assert (len(commit.adds), len(commit.removes)) == (0, 1), "a file without a row left is removed"
    assert by_another_client(path) == [(n,) for n in (10, *range(13, 20))]


def test_what_somebody_else_changed_meanwhile_is_a_conflict_only_where_it_matters(tmp_path, spark, monkeypatch):
    path = tmp_path / "t"
    table = Table.create(path, numbers(spark), spark, partition_by="p")
    other = Table.for_path(path, spark)

    def interrupt(row):
        """Lets somebody else commit between reading and committing."""
        real = Opened.transaction

        def transaction(*given):
            monkeypatch.undo()
            begun = real(*given)
            other.append(spark.createDataFrame([row], "id LONG, p INT, v LONG"))
            return begun

        monkeypatch.setattr(Opened, "transaction", transaction)

    interrupt((500, 2, 0))
    table.delete("p = 1 AND id < 50")
    interrupt((41, 0, 0))
    with pytest.raises(ConflictError) as refused:
        table.delete("p = 0 AND id < 50")
    assert refused.value.condition == "CONCURRENT_APPEND"
    assert rows_of(table) == sorted(
        [(i, i % 3, i * 2) for i in range(100) if not (i % 3 == 1 and i < 50)] + [(500, 2, 0), (41, 0, 0)]
    )


def test_a_condition_that_is_none_is_refused(tmp_path, spark):
    table = Table.create(tmp_path / "t", "id BIGINT", spark)
    for condition in ("nope = 1", "id + 1", "id =", F.col("nope") == 1):
        with pytest.raises(InputError) as refused:
            table.delete(condition)
        assert refused.value.condition == "PREDICATE_INVALID", condition
        assert refused.value.sides, condition
        assert "both sides" not in (refused.value.next_step or ""), "a delete has one"


def test_an_append_only_table_keeps_its_rows(tmp_path, spark):
    table = Table.create(tmp_path / "t", spark.range(3), spark, properties={"delta.appendOnly": "true"})
    source = spark.range(5)
    merge = table.merge(source, "t.id = s.id")
    for change in (
        table.delete,
        lambda: table.update({"id": "1"}),
        merge.when_matched_delete().execute,
    ):
        with pytest.raises(InputError, match="append-only") as refused:
            change()
        assert refused.value.condition == "TABLE_APPEND_ONLY"
    merge.when_not_matched_insert_all().execute()
    assert rows_of(table) == [(n,) for n in range(5)]


@pytest.mark.parametrize(("damage", "error"), [("missing", NotFoundError), ("overwritten", MalformedError)])
@pytest.mark.parametrize("verb", ["delete", "update", "optimize"])
def test_data_file_that_cannot_be_read_is_named(tmp_path, spark, damage, error, verb):
    table = Table.create(tmp_path / "t", spark.range(0, 20, 1, 2), spark)
    file = min((tmp_path / "t").rglob("part-*.parquet"))
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    file.unlink() if damage == "missing" else file.write_bytes(b"x" * file.stat().st_size)
    work = {
        "delete": lambda: table.delete("id % 7 = 3"),
        "update": lambda: table.update({"id": "id + 1"}, "id % 7 = 3"),
        "optimize": lambda: table.optimize().execute_compaction(),
    }
    with pytest.raises(error, match=file.name):
        work[verb]()


@pytest.mark.connect
@pytest.mark.parametrize("text", ["id = 1) OR (true", "id = 1, true", "id = 1 CASCADE", "id = 1 AS x"])
def test_text_that_makes_sense_only_between_brackets_is_no_condition(tmp_path, spark, text):
    table = Table.create(tmp_path / "t", numbers(spark), spark)
    with pytest.raises(InputError, match="cannot be used"):
        table.delete(text)
    with pytest.raises(InputError, match="cannot be read"):
        table.to_df(where=text)
    assert table.count() == 100


@pytest.mark.parametrize(("alias", "where"), [("t", "t/* the table */.id < 98"), ("a`b", "`a``b`.id < 98")])
def test_an_alias_in_an_unusual_spelling_is_understood(alias, where, tmp_path, spark):
    table = Table.create(tmp_path / "t", numbers(spark), spark)
    table.delete(where, target_alias=alias)
    assert sorted(row.id for row in table.to_df().collect()) == [98, 99]

"""Index tables through `Table`: created, read, written and searched on Spark."""

from __future__ import annotations

from datetime import date
from functools import reduce
from pathlib import Path

import pytest
from tests.support.columns import field

import halocline as hc
from halocline.compat.protocol import Protocol
from halocline.errors import (
    AlreadyExistsError,
    ConstraintError,
    HaloclineError,
    IncompatibleError,
    InputError,
    MissingVerbError,
    SchemaError,
    UnsupportedError,
)
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.transaction import IndexTransaction
from halocline.schema import Struct
from halocline.spark.session.functions import F
from halocline.storage import open_store

FIELDS = {"message": "text", "client": "ip", "trace": {"hashed": True}}


def rows(spark, count=300, first=0, tasks=2):
    return spark.range(first, first + count, 1, tasks).selectExpr(
        "id",
        "element_at(array('INFO', 'WARN', 'ERROR'), int(id % 3) + 1) AS level",
        "concat('request ', id, ' timed out on host-', id % 7) AS message",
        "concat('trace-', id) AS trace",
        "concat('10.0.0.', id % 50) AS client",
        "timestamp_micros(1700000000000000 + id) AS at",
        "CAST(id / 4 AS DECIMAL(10, 2)) AS price",
        "array(concat('t', id % 4), 'all') AS tags",
        "named_struct('name', concat('user-', id % 6)) AS user",
        "date_add(DATE'2024-01-01', int(id % 3)) AS day",
    )


@pytest.fixture(scope="module")
def logs(spark, tmp_path_factory):
    """A partitioned table of two versions, which no test changes."""
    path = tmp_path_factory.mktemp("index") / "logs"
    table = hc.Table.create(path, rows(spark), format="index", fields=FIELDS, partition_by="day")
    table.append(rows(spark, 30, first=1000, tasks=1))
    return table


@pytest.fixture(scope="module")
def known(spark):
    """The same rows, without any index."""
    return [row.asDict(recursive=True) for row in rows(spark).unionAll(rows(spark, 30, first=1000)).collect()]


def ids(df) -> list[int]:
    return sorted(row["id"] for row in df.select("id").collect())


def chosen(known, condition) -> list[int]:
    return sorted(row["id"] for row in known if condition(row))


def test_rows_come_back_as_they_were_written_at_every_version(logs, known):
    found = [row.asDict(recursive=True) for row in logs.to_df().collect()]
    assert sorted(found, key=lambda row: row["id"]) == sorted(known, key=lambda row: row["id"])
    assert logs.to_df(version=0).count() == 300
    assert ids(logs.to_df(where="day = '2024-01-02' AND id < 9", columns=["id"])) == [1, 4, 7]


QUERIES = {
    "message:1007": lambda row: row["id"] == 1007,
    "timed AND level:ERROR": lambda row: row["level"] == "ERROR",
    "level:ERROR AND NOT tags:t1": lambda row: row["level"] == "ERROR" and "t1" not in row["tags"],
    '"timed out on host-3"': lambda row: row["id"] % 7 == 3,
    "trace:trace-17": lambda row: row["id"] == 17,
    "client:10.0.0.9": lambda row: row["client"] == "10.0.0.9",
    "price:[10 TO 11.5]": lambda row: 10 <= row["price"] <= 11.5,
    "user.name:5": lambda row: row["id"] % 6 == 5,
    "day:2024-01-03 AND id:<20": lambda row: row["day"] == date(2024, 1, 3) and row["id"] < 20,
    "zebra": lambda row: False,
}


@pytest.mark.connect
def test_a_search_finds_what_a_scan_finds(logs, known):
    found = [logs.search(query, columns=["id"]).withColumn("query", F.lit(query)) for query in QUERIES]
    answers = reduce(lambda above, below: above.unionAll(below), found).collect()
    for query, condition in QUERIES.items():
        assert sorted(row["id"] for row in answers if row["query"] == query) == chosen(known, condition), query


def test_rows_are_counted_without_being_fetched(logs, known):
    assert logs.count("timed AND level:ERROR") == len(chosen(known, lambda row: row["level"] == "ERROR"))
    assert logs.count("*", where=F.col("id") < 50) == 50


def test_a_condition_of_spark_narrows_a_search_and_columns_are_those_asked_for(logs, known):
    found = logs.search("level:WARN", where="id % 2 = 0 AND substr(trace, -1) = '2'", columns=["message", "id"])
    assert found.columns == ["message", "id"]
    assert ids(found) == chosen(known, lambda row: row["level"] == "WARN" and row["id"] % 10 == 2)


def test_scores_order_rows_and_snippets_mark_what_was_found(logs, known):
    best = logs.search("request 17 OR host-3", columns=["id"], score=True, snippets=["message"], limit=4).collect()
    assert best[0]["id"] == 17
    assert best[0]["message_snippet"] == "**request** **17** timed out on **host**-**3**"
    scores = [row["_score"] for row in best]
    assert scores == sorted(scores, reverse=True)
    everything = logs.search("request 17 OR host-3", columns=["id"], score=True).collect()
    assert [tuple(row)[:1] + tuple(row)[-1:] for row in everything][:4] == [(row["id"], row["_score"]) for row in best]
    assert len(everything) == len(known)
    even = logs.search("request 17", columns=["id"], score=True, where="id % 2 = 0", limit=3)
    assert even.columns == ["id", "_score"]
    assert [row["id"] % 2 for row in even.collect()] == [0, 0, 0]
    with pytest.raises(InputError, match="nothing to score"):
        logs.search("level:INFO", score=True)
    with pytest.raises(InputError, match="snippets"):
        logs.search("level:INFO", snippets=["id"])


def test_aggregates_are_exact_with_and_without_a_query_or_a_condition(logs, known):
    metrics = {"n": hc.Count(), "total": hc.Sum("price"), "last": hc.Max("at")}
    found = {row["level"]: row for row in logs.aggregate(metrics, by="level", query="timed").collect()}
    for level in ("INFO", "WARN", "ERROR"):
        chosen_rows = [row for row in known if row["level"] == level]
        assert found[level]["n"] == len(chosen_rows)
        assert found[level]["total"] == sum(row["price"] for row in chosen_rows)
        assert found[level]["last"] == max(row["at"] for row in chosen_rows)
    by_day = logs.aggregate({"n": hc.Count()}, by="day").collect()
    assert sum(row["n"] for row in by_day) == 330
    some = logs.aggregate(
        {"n": hc.Count("id")}, by={"k": hc.HistogramBuckets("id", 100)}, query="timed", where="id % 2 = 0"
    )
    assert {row["k"]: row["n"] for row in some.collect()} == {0: 50, 100: 50, 200: 50, 1000: 15}
    with pytest.raises(InputError, match="Count"):
        logs.aggregate({"n": "count"})


def test_an_explanation_says_who_answers_and_which_splits_are_left_aside(logs):
    told = logs.explain_search("timed AND day:2024-01-03 AND level:[A TO F]", where="id < 5")
    assert [(each.by, bool(each.because)) for each in told.parts[-2:]] == [("log", True), ("rows", True)]
    assert told.left_by_condition > 0
    assert told.left_by_query > 0
    assert told.asked == told.splits - told.left_by_condition - told.left_by_query
    assert "ranges" in str(told)


def test_a_limit_cuts_and_nothing_else_does(logs):
    assert logs.search("timed", limit=7, columns=["id"]).count() == 7
    assert logs.search("timed", columns=["id"]).count() == 330


def test_overwrite_replaces_all_rows_and_leaves_the_version_before(spark, tmp_path):
    table = hc.Table.create(tmp_path / "t", rows(spark, 20), format="index")
    assert table.overwrite(rows(spark, 5)) == 1
    assert (table.to_df().count(), table.to_df(version=0).count()) == (5, 20)
    assert [each.operation for each in table.history()] == ["WRITE", "CREATE TABLE AS SELECT"]


def test_deleted_rows_are_gone_from_rows_searches_and_counts_and_stay_in_older_versions(spark, tmp_path):
    table = hc.Table.create(tmp_path / "t", rows(spark, 40), format="index", fields=FIELDS, partition_by="day")
    splits = {path.name for path in tmp_path.rglob("*.parquet")}
    assert table.delete("id % 2 = 0 AND level != 'WARN'") == 1
    assert table.delete(F.col("day") == F.lit(date(2024, 1, 1))) == 2
    left = [n for n in range(40) if n % 3 and not (n % 2 == 0 and n % 3 != 1)]
    assert ids(table.to_df()) == left
    assert ids(table.search("timed")) == left
    assert table.count("level:ERROR") == sum(n % 3 == 2 for n in left)
    assert table.to_df(version=0).count() == 40
    assert table.delete("id > 1000") == 2, "nothing to delete makes no version"
    assert {path.name for path in tmp_path.rglob("*.parquet")} == splits
    for call in (table.delete, lambda: table.delete(None)):
        with pytest.raises(InputError, match=r"delete\('true'\)"):
            call()


def test_a_task_with_many_rows_builds_several_splits(spark, tmp_path):
    table = hc.Table.create(tmp_path / "t", rows(spark, 100, tasks=1), format="index", max_records_per_split=30)
    assert sorted(each.num_records for each in table.snapshot().files.values()) == [10, 30, 30, 30]
    assert ids(table.search("level:INFO")) == list(range(0, 100, 3))


def test_an_empty_table_takes_rows_by_name_and_fills_up_with_nulls(spark, tmp_path):
    table = hc.Table.create(tmp_path / "t", "id BIGINT NOT NULL, level STRING, n INT", spark, format="index")
    assert table.to_df().count() == 0
    assert table.search("level:x").count() == 0
    table.append(spark.sql("SELECT 'x' AS LEVEL, 7 AS id"))
    assert [tuple(row) for row in table.search("level:x").collect()] == [(7, "x", None)]


def test_rows_that_do_not_fit_are_refused_and_leave_nothing_behind(spark, tmp_path):
    table = hc.Table.create(tmp_path / "t", "id BIGINT NOT NULL, level STRING", spark, format="index")
    before = sorted(Path(tmp_path).rglob("*"))
    with pytest.raises(SchemaError, match="colour"):
        table.append(spark.sql("SELECT 1L AS id, 'red' AS colour"))
    with pytest.raises(ConstraintError, match="id"):
        table.append(spark.range(10).selectExpr("if(id = 9, NULL, id) AS id"))
    assert sorted(Path(tmp_path).rglob("*")) == before


def test_what_cannot_be_made_is_refused_with_the_nearest_name(spark, tmp_path):
    frame = rows(spark, 3)
    with pytest.raises(InputError, match="tokenizer"):
        hc.Table.create(tmp_path / "a", frame, format="index", fields={"message": {"tokeniser": "text"}})
    with pytest.raises(InputError, match="fields"):
        hc.Table.create(tmp_path / "a", frame, format="index", felds={})
    with pytest.raises(InputError, match="txt"):
        hc.Table.create(tmp_path / "a", frame, format="index", fields={"message": "txt"})
    with pytest.raises(HaloclineError, match="nowhere"):
        hc.Table.create(tmp_path / "a", frame, format="index", partition_by="nowhere")
    with pytest.raises(UnsupportedError, match="limited length"):
        hc.Table.create(tmp_path / "a", "code CHAR(3)", spark, format="index")
    assert not (tmp_path / "a").exists()
    hc.Table.create(tmp_path / "b", "id BIGINT", spark, format="index")
    with pytest.raises(AlreadyExistsError):
        hc.Table.create(tmp_path / "b", "id BIGINT", spark, format="index")


def test_a_verb_that_index_tables_lack_is_an_error_that_says_so(logs):
    with pytest.raises(MissingVerbError, match="merge"):
        _ = logs.merge
    with pytest.raises(MissingVerbError, match="search"):
        _ = logs.serch


def test_a_table_says_what_it_is_and_who_can_use_it(logs):
    told = logs.detail()
    assert (told["numRecords"], told["minReaderVersion"], told["fields"]["message"]) == (330, 5, "text")
    assert logs.features()["parquetSplit"] == "enabled"
    assert str(logs.can("indextables4spark@0.5.5", "read").answer) == "refused"
    assert str(logs.can("halocline@0.1.0", "write").answer) == "ok"


def test_rows_for_an_older_protocol_are_refused_before_a_split_is_built_unless_upgrades_are_on(spark, tmp_path):
    store = open_store(str(tmp_path / "t"))
    columns = Struct([field("id", "long")])
    IndexTransaction.create(store, columns, protocol=Protocol.index(2, 2)).commit([], "CREATE TABLE")
    with pytest.raises(IncompatibleError, match="upgrades are off"):
        hc.Table.for_path(tmp_path / "t", spark).append(spark.range(3))
    assert not list(tmp_path.rglob("*.parquet"))
    allowed = {"halocline.protocol.autoUpgrade": "true"}
    assert hc.Table.for_path(tmp_path / "t", spark, options=allowed).append(spark.range(3)) == 1
    assert str(IndexSnapshot.load(store).protocol).startswith("index(5,5")

import json
import re

import deltalake
import pytest
from tests.support.tables import Untouched, actions, data_files, in_order, info, live_files, meanwhile, rows, their_rows

from halocline.errors import ConflictError, ConstraintError, InputError
from halocline.formats.delta.actions.action import decode_commit
from halocline.formats.log.names import DELTA
from halocline.spark.scan.sources import Sources
from halocline.table import Table


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table"


def made(spark, path, **properties):
    """Rows 0 to 9 in two files per partition; p is the last digit modulo 2."""
    df = spark.range(0, 10, 1, 1).selectExpr("id", "CAST(id % 2 AS INT) p", "'old' s")
    return Table.create(path, df, partition_by="p", properties=properties)


def new(spark, sql):
    return spark.sql(f"SELECT * FROM VALUES {sql} AS t(id, p, s)")


def test_all_rows_are_replaced_and_history_stays(spark, path):
    table = made(spark, path)
    removed = live_files(path)
    version = table.overwrite(new(spark, "(100, 0, 'new'), (101, null, 'new')"))
    assert rows(table, "id", "p") == in_order([(100, 0), (101, None)])
    assert len(rows(table, version=0)) == 10
    found = info(path, version)
    assert found["operationParameters"] == {"mode": "Overwrite", "partitionBy": '["p"]'}
    assert {each["path"] for each in actions(path, version, "remove")} == removed
    assert found["operationMetrics"]["numRemovedFiles"] == str(len(removed))
    assert their_rows(path, "id", "p") == in_order([(100, 0), (101, None)])


def test_condition_on_partitions_drops_whole_files_without_reading_them(spark, path):
    table = made(spark, path)
    for file in live_files(path):
        if "p=1" in file:
            (path / file).write_bytes(b"not a Parquet file any more")
    version = table.overwrite(new(spark, "(101, 1, 'new')"), where="p = 1 OR p IS NULL")
    assert rows(table, "id") == in_order([(n,) for n in (0, 2, 4, 6, 8, 101)])
    found = info(path, version)
    assert found["operationParameters"]["predicate"] == "p = 1 OR p IS NULL"
    assert (found["operationMetrics"]["numDeletedRows"], found["operationMetrics"]["numCopiedRows"]) == ("5", "0")


@pytest.mark.connect
def test_condition_on_rows_rewrites_only_files_with_rows_of_both_kinds(spark, path):
    table = made(spark, path)
    table.append(new(spark, "(50, 0, 'far')"))
    far = actions(path, 1, "add")[0]["path"]
    version = table.overwrite(new(spark, "(3, 1, 'new'), (2, 0, 'new')"), where="id BETWEEN 2 AND 7 AND s IS NOT NULL")
    assert rows(table) == in_order(
        [(n, n % 2, "old") for n in (0, 1, 8, 9)] + [(2, 0, "new"), (3, 1, "new"), (50, 0, "far")]
    )
    assert far in live_files(path)
    metrics = info(path, version)["operationMetrics"]
    assert (metrics["numDeletedRows"], metrics["numCopiedRows"]) == ("6", "4")
    assert their_rows(path) == rows(table)


def test_row_that_the_condition_does_not_select_is_refused(spark, path):
    table = made(spark, path)
    with Untouched(path), pytest.raises(ConstraintError, match="does not meet the condition") as caught:
        table.overwrite(new(spark, "(3, 1, 'new'), (300, 1, 'new')"), where="id < 100")
    assert '"id":300' in caught.value.sides["row"]
    assert caught.value.sides["condition"] == "id < 100"


@pytest.mark.parametrize("where", ["id <", "nope = 1", "id", "rand() < 0.5", "", "max(id) = 1"])
def test_text_that_is_no_condition_is_refused(spark, tmp_path_factory, where):
    path = tmp_path_factory.mktemp("condition") / "t"
    table = Table.create(path, "id BIGINT", spark)
    with Untouched(path), pytest.raises(InputError):
        table.overwrite(spark.range(1), where=where)


def test_rows_are_marked_where_deletion_vectors_are_enabled(spark, path):
    table = made(spark, path, **{"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"})
    before = live_files(path)
    table.overwrite(new(spark, "(3, 1, 'new')"), where="id IN (3, 4)")
    table.overwrite(new(spark, "(5, 1, 'new')"), where="id IN (5, 6)")
    assert before <= live_files(path)
    assert rows(table) == in_order([(n, n % 2, "old") for n in (0, 1, 2, 7, 8, 9)] + [(3, 1, "new"), (5, 1, "new")])
    marked = [each for each in actions(path, 2, "add") if "deletionVector" in each]
    assert [each["deletionVector"]["cardinality"] for each in marked] == [2, 2]
    assert all(json.loads(each["stats"])["tightBounds"] is False for each in marked)
    assert their_rows(path) == rows(table)
    assert actions(path, 2, "cdc") == []
    changed = table.changes(2, 2).select("_change_type", "id", "s")
    assert in_order(changed.collect()) == in_order([("insert", 5, "new"), ("delete", 5, "old"), ("delete", 6, "old")])


def test_change_feed_has_exactly_what_changed(spark, path):
    table = made(spark, path, **{"delta.enableChangeDataFeed": "true"})
    table.overwrite(new(spark, "(3, 1, 'new')"), where="id IN (3, 4)")
    assert len(actions(path, 1, "cdc")) >= 3
    assert all(each["path"].startswith("_change_data/") for each in actions(path, 1, "cdc"))
    expected = in_order([("insert", 3, "new"), ("delete", 3, "old"), ("delete", 4, "old")])
    theirs = deltalake.DeltaTable(str(path)).load_cdf(starting_version=1, ending_version=1).read_all()
    assert in_order(zip(*(theirs[name].to_pylist() for name in ("_change_type", "id", "s")), strict=True)) == expected
    ours = table.changes(1, 1).select("_change_type", "id", "s")
    assert in_order(ours.collect()) == expected
    table.overwrite(new(spark, "(0, 0, 'part')"), where="p = 0")
    assert actions(path, 2, "cdc") == []
    found = table.changes(2, 2).groupBy("_change_type").count()
    assert in_order(found.collect()) == in_order([("insert", 1), ("delete", 4)])


def test_rewritten_rows_keep_their_ids_where_rows_are_tracked(spark, path):
    from halocline.spark.scan.frames import frame_of
    from halocline.spark.scan.row_columns import RowColumns

    table = made(spark, path, **{"delta.enableRowTracking": "true"})

    def ids():
        snapshot = table.snapshot()
        stored = [
            snapshot.properties[f"delta.rowTracking.materialized{part}ColumnName"]
            for part in ("RowId", "RowCommitVersion")
        ]
        columns = RowColumns(
            row_id="r", row_commit_version="v", stored_row_id=stored[0], stored_row_commit_version=stored[1]
        )
        return {row["id"]: (row["r"], row["v"]) for row in frame_of(spark, snapshot, rows=columns).collect()}

    before = ids()
    version = table.overwrite(new(spark, "(3, 1, 'new')"), where="id IN (3, 4)")
    after = ids()
    assert {n: after[n] for n in (0, 1, 2, 5, 6, 7, 8, 9)} == {n: before[n] for n in (0, 1, 2, 5, 6, 7, 8, 9)}
    assert after[3][0] > max(row for row, _ in before.values())
    assert after[3][1] == version
    assert len({row for row, _ in after.values()}) == 9
    assert info(path, version)["tags"]["delta.rowTracking.preserved"] == "true"
    hidden = table.snapshot().properties["delta.rowTracking.materializedRowIdColumnName"]
    assert all(hidden not in each["stats"] for each in actions(path, version, "add"))


@pytest.mark.connect
def test_dynamic_overwrite_replaces_exactly_the_partitions_of_the_rows(spark, path):
    table = made(spark, path)
    table.append(new(spark, "(77, null, 'null')"))
    version = table.overwrite(new(spark, "(200, 1, 'new'), (201, null, 'new')"), partitions="dynamic")
    assert rows(table, "id") == in_order([(n,) for n in (0, 2, 4, 6, 8, 200, 201)])
    assert info(path, version)["operationParameters"]["isDynamicPartitionOverwrite"] is True
    with Untouched(path):
        assert table.overwrite(new(spark, "(1, 1, 'x')").limit(0), partitions="dynamic") == version
    plain = Table.create(path.parent / "plain", spark.range(1))
    with Untouched(path.parent / "plain"), pytest.raises(InputError, match="not partitioned"):
        plain.overwrite(spark.range(1), partitions="dynamic")


def test_dynamic_overwrite_takes_both_zeros_for_one_partition(spark, path):
    old = spark.sql("SELECT * FROM VALUES (1, -0.0D), (2, 0.0D), (3, 1.5D), (4, double('NaN')) AS t(id, p)")
    for number, zero in enumerate(("0.0D", "-0.0D")):
        table = Table.create(path / str(number), old, partition_by="p")
        added = spark.sql(f"SELECT 9 AS id, {zero} AS p UNION ALL SELECT 8, double('NaN')")
        table.overwrite(added, partitions="dynamic")
        assert rows(table, "id") == in_order([(3,), (8,), (9,)]), zero


@pytest.mark.parametrize(
    ("type", "spelling"), [("DOUBLE", "1.50"), ("DOUBLE", "15e-1"), ("FLOAT", "1.5f"), ("DECIMAL(5, 2)", "1.5")]
)
def test_dynamic_overwrite_takes_two_spellings_of_a_number_for_one_partition(spark, path, type, spelling):
    Table.create(path, spark.sql(f"SELECT 1 AS id, CAST(1.5 AS {type}) AS p"), partition_by="p")
    commit = path / "_delta_log" / "00000000000000000000.json"
    text = re.sub(r'("partitionValues":{"p":")[^"]*', lambda found: found[1] + spelling, commit.read_text())
    assert spelling in text
    commit.write_text(text)
    table = Table.for_path(path, spark)
    table.overwrite(spark.sql(f"SELECT 9 AS id, CAST(1.5 AS {type}) AS p"), partitions="dynamic")
    assert rows(table, "id") == [(9,)]


def test_appends_into_other_partitions_do_not_disturb_and_into_the_same_do(spark, path):
    table = made(spark, path)
    with meanwhile(lambda: table.append(new(spark, "(300, 0, 'other')"))):
        table.overwrite(new(spark, "(1, 1, 'new')"), partitions="dynamic")
    with meanwhile(lambda: table.append(new(spark, "(301, 0, 'other')"))):
        table.overwrite(new(spark, "(3, 1, 'new')"), where="p = 1")
    files = data_files(path)
    for arguments in ({"where": "p = 1"}, {"partitions": "dynamic"}, {}):
        with (
            meanwhile(lambda: table.append(new(spark, "(303, 1, 'same')"))),
            pytest.raises(ConflictError) as caught,
        ):
            table.overwrite(new(spark, "(5, 1, 'new')"), **arguments)
        assert caught.value.condition == "CONCURRENT_APPEND"
    assert len(data_files(path) - files) == 3
    assert rows(table, "id") == in_order([(n,) for n in (0, 2, 4, 6, 8, 3, 300, 301, 303, 303, 303)])


@pytest.mark.parametrize(
    "arguments",
    [
        {"where": "id = 1", "partitions": "dynamic"},
        {"where": "id = 1", "schema_mode": "overwrite"},
        {"partitions": "dynamic", "schema_mode": "overwrite"},
        {"partition_by": ["p"]},
        {"partitions": "some"},
        {"schema_mode": "replace"},
    ],
)
def test_arguments_that_contradict_each_other_are_refused(spark, tmp_path_factory, arguments):
    path = tmp_path_factory.mktemp("arguments") / "t"
    table = Table.create(path, "id BIGINT", spark)
    with Untouched(path), pytest.raises(InputError):
        table.overwrite(spark.range(1), **arguments)


def test_overwrite_from_the_table_itself_reads_the_version_before(spark, path):
    table = made(spark, path)
    table.overwrite(table.to_df(where="id < 3"), txn=("self", 1))
    assert rows(table, "id") == [(0,), (1,), (2,)]
    with Untouched(path):
        table.overwrite(table.to_df().limit(0), txn=("self", 1))


def test_a_layout_with_fewer_rows_per_file_says_that_nothing_changed(tmp_path, spark):
    rows = spark.range(0, 30, 1, 1).selectExpr("id", "CAST(id % 3 AS INT) AS p")
    table = Table.create(tmp_path / "t", rows, spark, partition_by=["p"])
    same = spark.range(0, 30, 3, 1).selectExpr("id", "CAST(id % 3 AS INT) AS p")
    version = table.overwrite(same, where="p = 0", max_records_per_file=4, data_change=False)
    commit = decode_commit(table.store.get(DELTA.commit_path(version)), str(version))
    assert {each.data_change for each in (*commit.adds, *commit.removes)} == {False}
    assert sorted(row.id for row in table.to_df().collect()) == list(range(30))
    assert len(commit.adds) == 3, "ten rows, four to a file"


def test_rows_are_appended_in_files_of_limited_length(tmp_path, spark):
    table = Table.create(tmp_path / "t", "id BIGINT", spark)
    version = table.append(spark.range(0, 25, 1, 1), max_records_per_file=10)
    commit = decode_commit(table.store.get(DELTA.commit_path(version)), str(version))
    assert (len(commit.adds), table.to_df().count()) == (3, 25)


@pytest.mark.parametrize("given", [{"max_records_per_file": 0}, {"data_change": False, "schema_mode": "merge"}])
def test_a_layout_that_makes_no_sense_is_refused(tmp_path, spark, given):
    table = Table.create(tmp_path / "t", "id BIGINT", spark)
    with pytest.raises(InputError):
        table.append(spark.range(3), **given)
    assert table.version == 0


def test_how_files_are_found_is_chosen_for_one_table(tmp_path, spark, monkeypatch):
    Table.create(tmp_path / "t", spark.range(3), spark)
    seen = []
    real = Sources.opened
    monkeypatch.setattr(Sources, "opened", lambda *given: seen.append(given[-1]) or real(*given))
    table = Table.for_path(tmp_path / "t", spark, options={"halocline.scan.mode": "paths"})
    assert table.to_df().count() == 3
    assert seen == ["paths"]

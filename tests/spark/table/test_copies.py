"""Files of which few rows change: copied by Arrow, or written by Spark, they hold the same rows."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.tables import FEED, by_another_client, rows_of

import halocline as hc
from halocline.errors import ConstraintError, MalformedError
from halocline.spark.write.file_copies import FileCopier
from halocline.table import Table
from halocline.table.delta.rows.copies import Copies
from halocline.table.delta.rows.files import RowFiles

MAPPED = {"delta.columnMapping.mode": "id"}
MODE = "halocline.rewrite.mode"
ROWS = (
    "id",
    "id % 5 AS n",
    "CAST(id % 2 AS string) AS p",
    "IF(id % 7 = 0, double('NaN'), IF(id % 11 = 0, -0.0D, id / 8)) AS d",
    "CAST(id AS decimal(20, 3)) AS m",
    "concat('name-', id) AS s",
    "named_struct('a', id, 'b', array(string(id), null)) AS nested",
    "map('k', id) AS pairs",
    "timestamp_micros(-50000000000000000 + id) AS old",
    "TIMESTAMP_NTZ '9999-12-31 23:59:59.999999' AS late",
    "date_add(DATE '1500-02-28', int(id)) AS day",
    "unhex(hex(id)) AS raw",
)
SET = {"s": "concat(s, '!')", "nested.a": "nested.a + 1", "d": "double('NaN')", "pairs": "map('z', id)"}
CHANGES = {
    "delete": lambda table, spark: table.delete("id % 10 = 3"),
    "delete by chance of now": lambda table, spark: table.delete(
        "n = 4 AND id > 20 AND now() > TIMESTAMP '2000-01-01'"
    ),
    "update": lambda table, spark: table.update(
        {"s": "concat(s, '!')", "nested.a": "nested.a + 1", "d": "double('NaN')", "pairs": "map('z', id)"},
        "id % 10 = 3",
    ),
    "merge": lambda table, spark: (
        table.merge(_source(spark), "t.id = s.id")
        .when_matched_delete("s.id % 20 = 0")
        .when_matched_update(condition="s.id % 20 = 10", set={"s": "'merged'", "m": "s.id + 0.5", "raw": "NULL"})
        .when_not_matched_insert(values={"id": "s.id", "p": "'1'"})
        .execute()
    ),
}
KINDS = {
    "plain": ({}, None),
    "partitioned": ({}, "p"),
    "mapped": (MAPPED, None),
    "mapped and partitioned": (MAPPED, "p"),
    "compressed": ({"delta.parquet.compression.codec": "zstd"}, None),
}


def _source(spark):
    return spark.range(0, 80, 10).union(spark.range(1000, 1002))


def made(path, spark, properties=None, by=None):
    df = spark.range(0, 60, 1, 2).selectExpr(*ROWS)
    return Table.create(path, df, spark, partition_by=by or [], properties=properties or {})


def writers(path, version):
    """Who wrote the files that a commit adds."""
    lines = (path / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    adds = [json.loads(line)["add"] for line in lines if "add" in line[:8]]
    return {pq.read_metadata(path / add["path"]).created_by.split()[0] for add in adds}


def bounds(table):
    """Least and greatest values by the log."""
    stats = [json.loads(text) for text in table.snapshot().files()["stats"].to_pylist()]
    names = {name for each in stats for name in each["minValues"]}
    low = {name: min(str(each["minValues"][name]) for each in stats if name in each["minValues"]) for name in names}
    high = {name: max(str(each["maxValues"].get(name)) for each in stats) for name in names}
    return low, high, sum(each["numRecords"] for each in stats)


def shown(table):
    return sorted(map(str, table.to_df().collect()))


@pytest.mark.connect
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_copied_files_hold_the_rows_that_spark_writes(tmp_path, spark, kind, change):
    made(tmp_path / "auto", spark, *KINDS[kind])
    shutil.copytree(tmp_path / "auto", tmp_path / "spark")
    tables = {mode: Table.for_path(tmp_path / mode, spark, options={MODE: mode}) for mode in ("auto", "spark")}
    told = {mode: CHANGES[change](table, spark).metrics for mode, table in tables.items()}
    assert shown(tables["auto"]) == shown(tables["spark"])
    assert by_another_client(tmp_path / "auto", "id", "s") == rows_of(tables["spark"], "id", "s")
    assert bounds(tables["auto"]) == bounds(tables["spark"])
    counted = [name for name in told["spark"] if "Rows" in name]
    assert {name: told["auto"][name] for name in counted} == {name: told["spark"][name] for name in counted}
    assert "parquet-cpp-arrow" in writers(tmp_path / "auto", 1)
    assert writers(tmp_path / "spark", 1) == {"parquet-mr"}
    assert _left_over(tmp_path / "auto") == []


def _left_over(path):
    """Data files that no version names."""
    named = {
        json.loads(line)["add"]["path"]
        for log in (path / "_delta_log").glob("*.json")
        for line in log.read_text().splitlines()
        if '"add"' in line[:8]
    }
    found = {str(file.relative_to(path)) for file in path.rglob("*.parquet")}
    return sorted(found - {name.replace("%25", "%") for name in named})


@pytest.mark.parametrize(
    ("properties", "by", "change"),
    [
        (FEED, None, lambda table: table.update({"s": "'x'"}, "id = 3")),
        ({"delta.enableRowTracking": "true"}, None, lambda table: table.update({"s": "'x'"}, "id = 3")),
        ({}, "p", lambda table: table.update({"p": "'other'"}, "id = 3")),
        ({}, None, lambda table: table.update({"s": "'x'"})),
    ],
    ids=["feed", "tracked rows", "rows that move", "all rows"],
)
def test_what_cannot_be_copied_is_written_by_spark(tmp_path, spark, properties, by, change):
    table = made(tmp_path / "t", spark, properties, by)
    change(table)
    assert writers(tmp_path / "t", 1) == {"parquet-mr"}
    assert table.count() == 60


def test_variants_are_written_by_spark(tmp_path, spark):
    df = spark.range(5).selectExpr("id", "parse_json(string(id)) AS v")
    table = Table.create(tmp_path / "t", df, spark)
    table.delete("id = 3")
    assert writers(tmp_path / "t", 1) == {"parquet-mr"}
    read = table.to_df().selectExpr("variant_get(v, '$', 'int') AS n").sort("n").collect()
    assert [row.n for row in read] == [0, 1, 2, 4]


def test_setting_for_sparks_writer_leaves_it_to_spark(tmp_path, spark):
    table = made(tmp_path / "t", spark)
    spark.conf.set("parquet.block.size", str(2**20))
    try:
        table.delete("id = 3")
    finally:
        spark.conf.unset("parquet.block.size")
    assert writers(tmp_path / "t", 1) == {"parquet-mr"}


def test_setting_that_shifts_times_of_others_leaves_it_to_spark(tmp_path, spark, conf):
    moments = pa.array([0, 1, 2], pa.timestamp("us", "UTC"))
    (tmp_path / "t").mkdir()
    pq.write_table(
        pa.table({"id": [0, 1, 2], "at": moments}), tmp_path / "t/f.parquet", use_deprecated_int96_timestamps=True
    )
    table = Table.convert_to_delta(tmp_path / "t", spark)
    conf("spark.sql.session.timeZone", "Europe/Vienna")
    conf("spark.sql.parquet.int96TimestampConversion", "true")
    before = table.to_df(where="id <> 1").selectExpr("unix_micros(at)").collect()
    table.delete("id = 1")
    assert table.to_df().selectExpr("unix_micros(at)").collect() == before
    assert writers(tmp_path / "t", 1) == {"parquet-mr"}


def test_compression_of_the_session_holds_for_copies(tmp_path, spark):
    table = made(tmp_path / "t", spark)
    before = spark.conf.get("spark.sql.parquet.compression.codec")
    spark.conf.set("spark.sql.parquet.compression.codec", "gzip")
    try:
        table.delete("id = 3")
    finally:
        spark.conf.set("spark.sql.parquet.compression.codec", before)
    (path,) = {path for path in table.snapshot().files()["path"].to_pylist() if "gzip" in path}
    footer = pq.read_metadata(tmp_path / "t" / path)
    assert (footer.row_group(0).column(0).compression, footer.created_by[:15]) == ("GZIP", "parquet-cpp-arr")


def test_very_many_small_files_are_written_together(tmp_path, spark):
    Table.create(tmp_path / "t", spark.range(0, 200, 1, 40), spark)
    table = Table.for_path(tmp_path / "t", spark)
    told = table.delete("id % 5 = 0").metrics
    assert (told["numRemovedFiles"], told["numAddedFiles"] < 40, table.count()) == (40, True, 160)


def test_row_that_breaks_a_rule_leaves_nothing_behind(tmp_path, spark):
    table = made(tmp_path / "t", spark)
    table.add_constraint("small", "n < 100")
    files = sorted(tmp_path.rglob("*.parquet"))
    with pytest.raises(ConstraintError, match="small"):
        table.update({"n": "id * 1000"}, "id IN (0, 3)")
    with pytest.raises(ConstraintError, match="small"):
        table.merge(_source(spark), "t.id = s.id").when_matched_update(set={"n": "s.id * 1000"}).execute()
    assert sorted(tmp_path.rglob("*.parquet")) == files
    assert table.update({"n": "99"}, "id IN (0, 3)").metrics["numUpdatedRows"] == 2


def test_generated_columns_follow_what_they_are_made_of(tmp_path, spark):
    columns = "id BIGINT, n BIGINT, twice BIGINT GENERATED ALWAYS AS (n * 2)"
    hc.sql(spark, f"CREATE TABLE delta.`{tmp_path}/t` ({columns}) USING delta")
    table = Table.for_path(tmp_path / "t", spark)
    table.append(spark.range(10).selectExpr("id", "id AS n"))
    table.update({"n": "100"}, "id = 3")
    assert [row[0] for row in table.to_df(where="id IN (2, 3)").sort("id").select("twice").collect()] == [4, 200]
    assert writers(tmp_path / "t", 2) == {"parquet-cpp-arrow"}


def test_file_that_holds_other_rows_than_the_log_says_is_not_copied(tmp_path, spark):
    table = made(tmp_path / "t", spark)
    first = tmp_path / "t" / table.snapshot().files()["path"][0].as_py()
    rows = pq.read_metadata(first).num_rows
    commit = tmp_path / "t/_delta_log/00000000000000000000.json"
    log = commit.read_text()
    assert f'\\"numRecords\\":{rows},' in log
    commit.write_text(log.replace(f'\\"numRecords\\":{rows},', f'\\"numRecords\\":{rows + 1},'))
    with pytest.raises(MalformedError, match="other rows than its log says"):
        Table.for_path(tmp_path / "t", spark).delete("id IN (1, 31)")
    assert table.version == 0


def test_copy_that_fails_leaves_nothing_behind(tmp_path, spark, monkeypatch):
    table = made(tmp_path / "t", spark)
    files = sorted(tmp_path.rglob("*.parquet"))
    copy, done = FileCopier.copy, []

    def failing(self, asked):
        if asked[0].file.number:
            raise OSError("the disk is gone")
        done.extend(copy(self, asked))
        return done

    monkeypatch.setattr(FileCopier, "copy", failing)
    with pytest.raises(OSError, match="the disk is gone"):
        table.delete("id IN (1, 31)")
    assert done, "one file had been copied"
    assert sorted(tmp_path.rglob("*.parquet")) == files
    assert table.version == 0


def test_large_files_become_several_and_keep_their_rows(tmp_path, spark, monkeypatch):
    monkeypatch.setattr("halocline.spark.write.arrow_write._FILE_BYTES", 50_000)
    monkeypatch.setattr("halocline.spark.write.arrow_write._GROUP_ROWS", 10_000)
    df = spark.range(0, 100_000, 1, 1).selectExpr("id", "uuid() AS u")
    table = Table.create(tmp_path / "t", df, spark)
    hashed = table.to_df(where="id <> 70000").selectExpr("sum(hash(*))").collect()
    table.delete("id = 70000")
    assert table.to_df().selectExpr("sum(hash(*))").collect() == hashed
    assert len(table.snapshot().files()) > 1


def test_marked_rows_stay_gone_when_their_file_is_copied(tmp_path, spark):
    table = made(tmp_path / "t", spark, {"delta.enableDeletionVectors": "true"})
    table.delete("id % 10 = 1")
    table.set_properties({"delta.enableDeletionVectors": "false"})
    table.delete("id % 10 = 2")
    assert writers(tmp_path / "t", 3) == {"parquet-cpp-arrow"}
    assert rows_of(table, "id") == [(n,) for n in range(60) if n % 10 not in (1, 2)]
    assert by_another_client(tmp_path / "t", "id") == rows_of(table, "id")


def test_copies_say_which_release_of_spark_wrote_their_dates(tmp_path, spark):
    table = made(tmp_path / "t", spark)
    table.delete("id = 3")
    said = {
        (pq.read_metadata(tmp_path / "t" / path).metadata or {}).get(b"org.apache.spark.version")
        for path in table.snapshot().files()["path"].to_pylist()
    }
    assert said == {spark.version.encode()}


@pytest.mark.parametrize("kind", KINDS)
def test_small_files_are_packed_into_the_same_rows_by_either(tmp_path, spark, kind):
    table = made(tmp_path / "auto", spark, *KINDS[kind])
    table.append(spark.range(60, 90, 1, 3).selectExpr(*ROWS))
    table.add_columns([{"name": "later", "type": "integer", "nullable": True}])
    shutil.copytree(tmp_path / "auto", tmp_path / "spark")
    tables = {mode: Table.for_path(tmp_path / mode, spark, options={MODE: mode}) for mode in ("auto", "spark")}
    told = {mode: table.optimize().execute_compaction() for mode, table in tables.items()}
    assert (
        told["auto"].metrics["numAddedFiles"] == told["spark"].metrics["numAddedFiles"] == len({KINDS[kind][1], None})
    )
    assert shown(tables["auto"]) == shown(tables["spark"])
    assert bounds(tables["auto"]) == bounds(tables["spark"])
    version = told["auto"].version
    assert (writers(tmp_path / "auto", version), writers(tmp_path / "spark", version)) == (
        {"parquet-cpp-arrow"},
        {"parquet-mr"},
    )
    assert _left_over(tmp_path / "auto") == []


def test_marked_rows_are_left_out_when_files_are_packed(tmp_path, spark):
    table = made(tmp_path / "t", spark, {"delta.enableDeletionVectors": "true"})
    table.delete("id % 10 = 1")
    told = table.optimize().execute_compaction()
    assert told.metrics["numDeletionVectorsRemoved"] == 2
    assert writers(tmp_path / "t", told.version) == {"parquet-cpp-arrow"}
    assert by_another_client(tmp_path / "t", "id") == [(n,) for n in range(60) if n % 10 != 1]


def test_values_too_long_to_be_brought_together_are_written_by_spark(tmp_path, spark, monkeypatch):
    monkeypatch.setattr("halocline.table.delta.rows.changes._MOST_BYTES", 1000)
    table = made(tmp_path / "t", spark)
    table.update({"s": "repeat('x', 600)"}, "id = 3")
    assert writers(tmp_path / "t", 1) == {"parquet-cpp-arrow"}
    table.update({"s": "repeat('y', 600)", "nested.b": "array(repeat('z', 600))"}, "id = 4")
    assert writers(tmp_path / "t", 2) == {"parquet-mr"}
    lengths = (
        table.to_df(where="id IN (3, 4)").selectExpr("id", "left(s, 1)", "length(nested.b[0])").sort("id").collect()
    )
    assert [tuple(row) for row in lengths] == [(3, "x", 1), (4, "y", 600)]


def test_long_file_is_kept_on_disk_beside_the_table_until_it_is_whole(tmp_path, spark, monkeypatch):
    monkeypatch.setattr("halocline.spark.write.arrow_write._FILE_BYTES", 1000)
    monkeypatch.setenv("TMPDIR", "/nowhere")
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    table = Table.create(tmp_path / "t", spark.range(0, 20_000, 1, 4), spark)
    told = table.optimize().execute_compaction().metrics
    assert (told["numAddedFiles"], told["maxFileSize"] > 1000, table.count()) == (1, True, 20_000)
    assert sorted(each.name for each in (tmp_path / "t").iterdir() if each.is_file()) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.delete("id IN (1, 11)"),
        lambda table: table.update({"n": "-n"}, "id IN (1, 11)"),
        lambda table: table.optimize().execute_compaction(),
    ],
    ids=["delete", "update", "compaction"],
)
def test_text_that_arrow_does_not_take_is_written_by_spark(tmp_path, spark, change):
    by = tmp_path / "t"
    table = Table.create(by, spark.range(0, 20, 1, 2).selectExpr("id", "id AS n", "'' AS s"), spark)
    for file in table.snapshot().files()["path"].to_pylist():
        rows = pq.ParquetFile(by / file).read()
        raw = pa.array([b"\xff" if n % 2 else b"text" for n in range(rows.num_rows)], pa.binary())
        pq.write_table(rows.set_column(2, "s", raw), by / file)
        (by / f"{file.rpartition('/')[0]}/.{file.rpartition('/')[2]}.crc").unlink(missing_ok=True)
    log = by / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for add in (line["add"] for line in lines if "add" in line):
        add["size"] = (by / add["path"]).stat().st_size
        add["stats"] = json.dumps({"numRecords": 10})
    log.write_text("\n".join(map(json.dumps, lines)))
    (by / "_delta_log" / f".{log.name}.crc").unlink(missing_ok=True)
    table = Table.for_path(by, spark)
    told = change(table)
    assert writers(by, told.version) == {"parquet-mr"}
    read = table.to_df().selectExpr("id", "hex(s) AS s").sort("id").collect()
    assert [row.s for row in read] == [("FF" if row.id % 2 else "74657874") for row in read]
    assert _left_over(by) == []


@pytest.mark.parametrize("spark_reaches", [True, False])
def test_files_of_a_clone_on_another_store_are_left_to_spark_if_it_reaches_them(
    tmp_path, spark, monkeypatch, spark_reaches
):
    table = made(tmp_path / "t", spark)
    snapshot = table.snapshot()
    files = snapshot.files()
    remote = pa.array(["s3://bucket/a.parquet"] * len(files), files.schema.field("path").type)
    files = files.set_column(files.schema.get_field_index("path"), "path", remote)
    footer = SimpleNamespace(metadata={})
    monkeypatch.setattr("halocline.table.delta.rows.copies.footers", lambda _, listed: [footer] * len(listed))
    connector = "halocline.spark.write.file_copies.spark_address"
    monkeypatch.setattr(connector, lambda _, address: address if spark_reaches else None)
    with RowFiles(table.store, snapshot.configuration) as row_files:
        copies = Copies.of(spark, snapshot, files, row_files)
    assert (copies is None) is spark_reaches

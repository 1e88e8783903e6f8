"""Scans return the rows of exactly the files listed, whatever they are called and wherever they lie."""

from __future__ import annotations

import datetime as dt
import gc
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support import columns

import halocline as hc
from halocline.errors import InputError, UnsupportedError
from halocline.spark.scan import manifest, sources
from halocline.spark.scan.row_columns import RowColumns, file_of, position_of
from halocline.spark.scan.scan import scan
from halocline.spark.session import pinning, session
from halocline.spark.session.file_system import spark_address
from halocline.spark.types.file_layout import FileLayout
from halocline.storage import open_store

pytestmark = pytest.mark.connect
MODES = ["auto", "paths", "arrow"]
ID = columns.schema("id")
STRANGE_NAMES = [
    "plain.parquet",
    "no_extension",
    "sp ace.parquet",
    "percent%20.parquet",
    "brackets[a]{b,c}.parquet",
    "star*question?.parquet",
    "ünï.parquet",
    "_underscore.parquet",
    ".dot.parquet",
    "co:lon.parquet",
    "_under=equals.parquet",
    "hash#.parquet",
    "plus+.parquet",
    "a&b;c,d=e.parquet",
    "back\\slash.parquet",
    "folder/at=10%3A00/f.parquet",
    "folder/at=10:00/f.parquet",
    "_change_data/f.parquet",
    ".hidden/f.parquet",
]


@pytest.mark.parametrize("mode", MODES)
def test_files_beside_those_listed_are_not_read(spark, lake, conf, collected, mode):
    conf("spark.halocline.scan.mode", mode)
    lake.add("a.parquet", pa.table({"id": [1, 2]}))
    lake.add("deep/er/b.parquet", pa.table({"id": [3]}))
    pq.write_table(pa.table({"id": [99]}), lake.root / "orphan.parquet")
    pq.write_table(pa.table({"id": [98]}), lake.root / "deep" / "orphan.parquet")

    df = lake.scan(spark, ID)

    assert collected(df) == [(1,), (2,), (3,)]
    assert df.count() == 3


@pytest.mark.parametrize("mode", MODES)
def test_any_file_name_is_read_once(spark, tmp_path, lake, conf, collected, types, mode):
    conf("spark.halocline.scan.mode", mode)
    lake.root = tmp_path / "ta ble%20[x]{a,b}*?ü"
    for number, name in enumerate(STRANGE_NAMES):
        lake.add(name, pa.table({"id": [number]}), values={"p": f"v{number}"})

    df = lake.scan(spark, types.struct(id="long", p="string"), partition_columns=["p"])

    assert collected(df) == sorted(((n, f"v{n}") for n in range(len(STRANGE_NAMES))), key=str)


@pytest.mark.parametrize("mode", MODES)
def test_file_outside_of_the_table_is_read_by_its_url(spark, tmp_path, lake, conf, collected, mode):
    conf("spark.halocline.scan.mode", mode)
    outside = tmp_path / "else where%41" / "f.parquet"
    lake.add("in.parquet", pa.table({"id": [1]}))
    lake.add(str(outside.relative_to(tmp_path)), listed_as=f"file://{outside}", content=pa.table({"id": [2]}))
    outside.parent.mkdir()
    shutil.move(lake.root / outside.relative_to(tmp_path), outside)

    assert collected(lake.scan(spark, ID)) == [(1,), (2,)]


def test_missing_file_fails_rather_than_shortens(spark, lake):
    lake.add("a.parquet", pa.table({"id": [1]}))
    lake.add("b.parquet", pa.table({"id": [2]})).unlink()

    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
        lake.scan(spark, ID).collect()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("damage", ["missing", "broken"])
def test_session_that_passes_over_damage_still_fails(spark, lake, conf, mode, damage):
    conf("spark.halocline.scan.mode", mode)
    conf("spark.sql.files.ignoreMissingFiles", "true")
    conf("spark.sql.files.ignoreCorruptFiles", "true")
    lake.add("a.parquet", pa.table({"id": [1]}))
    path = lake.add("b.parquet", pa.table({"id": [2]}))
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(b"x" * path.stat().st_size)

    with pytest.raises(Exception, match=r"(?i)not exist|not found|no object|not a parquet file"):
        lake.scan(spark, ID).collect()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rows", [0, 1, 9000], ids=["empty", "shorter", "longer"])
def test_file_of_another_size_than_the_log_says_is_refused(spark, lake, conf, mode, rows):
    conf("spark.halocline.scan.mode", mode)
    lake.add("a.parquet", pa.table({"id": [1]}))
    path = lake.add("b.parquet", pa.table({"id": list(range(2000))}))
    if rows:
        pq.write_table(pa.table({"id": list(range(rows))}), path)
    else:
        path.write_bytes(b"")

    with pytest.raises(Exception, match=r"(?i)b\.parquet.*(bytes|not a parquet file|cannot be read)|FAILED_READ_FILE"):
        lake.scan(spark, ID).collect()


def test_old_dates_of_other_writers_are_in_one_calendar(spark, lake, types, conf):
    conf("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    conf("spark.sql.parquet.int96RebaseModeInRead", "LEGACY")
    day, moment = dt.date(1400, 1, 1), dt.datetime(1400, 1, 1)
    table = pa.table({"d": [day], "t": pa.array([moment], pa.timestamp("us", "UTC"))})
    lake.add("1.parquet", table)
    lake.add("2.parquet", table, use_deprecated_int96_timestamps=True)

    read = lake.scan(spark, types.struct(d="date", t="timestamp")).collect()
    assert [tuple(row) for row in read] == 2 * [(day, moment)]


def test_no_files_give_no_rows_and_all_columns(spark, lake, types):
    schema = types.struct(id="long", p="date", s=types.struct(x="double"), v="void")

    df = lake.scan(spark, schema, partition_columns=["p"], rows=RowColumns(file="f"))

    assert (df.collect(), df.columns) == ([], ["id", "p", "s", "v", "f"])
    assert df.schema["s"].dataType.simpleString() == "struct<x:double>"


def test_manifests_are_gone_once_the_frame_exists(spark, lake, tmp_path, monkeypatch, collected):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    lake.add("a.parquet", pa.table({"id": [1]}))

    df = lake.scan(spark, ID)

    assert list((tmp_path / "temporary").iterdir()) == []
    assert [path.name for path in lake.root.iterdir()] == ["a.parquet"]
    assert collected(df) == collected(df.where("id > 0")) == [(1,)]


def test_this_spark_understands_manifests(spark, lake, tmp_path):
    """Fails when a release of Spark changes the format; scans then list paths until it is looked into."""
    with manifest.Manifests(spark, open_store(tmp_path), str(tmp_path)) as manifests:
        assert manifests.usable()
        lake.add("a.parquet", pa.table({"id": [7]}))
        entry = (manifest.url_of(str(lake.root / "a.parquet")), lake.rows[0]["size"], 12345)
        df = manifests.read("id long", [entry]).selectExpr("id", f"{manifest.KEY_SQL} AS key")
        assert [tuple(row) for row in df.collect()] == [(7, 12345)]


def test_unusable_manifests_fall_back_to_paths(spark, lake, types, monkeypatch, collected, conf):
    monkeypatch.setattr(manifest, "_LINE", manifest._LINE.replace("modificationTime", "changedTime"))
    session.forget(spark)
    try:
        lake.add("p=x/a.parquet", pa.table({"id": [1, 2, 3]}), values={"p": "x"}, deleted=[1])
        lake.add("p=y/b.parquet", pa.table({"id": [4]}), values={"p": "y"})
        schema = types.struct(id="long", p="string")

        df = lake.scan(spark, schema, partition_columns=["p"], rows=RowColumns(file="f", place="r"))

        assert collected(df) == [(1, "x", 0, 0), (3, "x", 0, 2), (4, "y", 1, 1 << 36)]
        conf("spark.halocline.scan.mode", "manifest")
        with pytest.raises(UnsupportedError, match="does not take manifests"):
            lake.scan(spark, schema, partition_columns=["p"])
    finally:
        session.forget(spark)


def test_manifest_below_the_table_serves_a_server_elsewhere(spark, lake, is_connect, collected, monkeypatch):
    if not is_connect:
        pytest.skip("classic Spark always sees this machine's temporary folder")
    session.forget(spark)
    try:
        session.remembered(spark, "manifest here", lambda: False)
        lake.add("a.parquet", pa.table({"id": [1]}))

        df = lake.scan(spark, ID)

        assert [path.name for path in lake.root.iterdir()] == ["a.parquet"]
        assert collected(df) == [(1,)]
    finally:
        session.forget(spark)


def test_views_of_a_connect_session_go_with_their_frames(spark, lake, is_connect):
    def views() -> list[str]:
        return [t.name for t in spark.catalog.listTables() if t.name.startswith("halocline_scan_")]

    lake.add("a.parquet", pa.table({"id": [1]}))
    df = lake.scan(spark, ID)
    derived = df.where("id = 1")
    kept = len(views())
    del df
    gc.collect()
    lake.scan(spark, ID)
    assert derived.count() == 1
    assert bool(kept) is is_connect
    del derived
    gc.collect()
    lake.scan(spark, ID)
    gc.collect()
    lake.scan(spark, ID)
    assert len(views()) <= kept


def test_rows_kept_by_a_connect_session_go_with_their_frames_and_not_while_they_are_collected(spark, is_connect):
    if not is_connect:
        pytest.skip("classic Spark has nobody to tell")
    once = pinning.computed_once(spark.sql("SELECT rand() AS r"))
    derived, name = once.where("r >= 0"), once._plan._relation_id
    assert once.collect() == derived.collect(), "computed once"

    del once
    gc.collect()
    assert derived.count() == 1
    assert derived._plan._child._spark_session is None, "the collector must not talk to the server"
    del derived
    gc.collect()
    assert pinning.computed_once(spark.range(1)).count() == 1
    with pytest.raises(Exception, match=name):
        spark._create_remote_dataframe(name).count()


@pytest.mark.parametrize("mode", MODES)
def test_where_may_use_columns_that_are_not_returned(spark, lake, types, conf, collected, mode):
    conf("spark.halocline.scan.mode", mode)
    lake.add("1.parquet", pa.table({"a": [1, 2], "B c": [10, 20], "d": ["x", "y"]}))
    schema = types.struct(types.field("a", "long"), types.field("B c", "long"), types.field("d", "string"))

    df = lake.scan(spark, schema, columns=["D"], where="`b C` > 10")
    assert (df.columns, collected(df)) == (["d"], [("y",)])

    from pyspark.sql import functions as F

    df = lake.scan(spark, schema, columns=["d", "a"], where=F.col("B c") < 20)
    assert (df.columns, collected(df)) == (["d", "a"], [("x", 1)])


@pytest.mark.parametrize("columns", [["nope"], []])
def test_unknown_column_names_those_there_are(spark, lake, columns):
    lake.add("1.parquet", pa.table({"id": [1]}))

    with pytest.raises(InputError, match="column") as error:
        lake.scan(spark, ID, columns=columns)

    assert error.value.sides["known"] == "id"


@pytest.mark.parametrize("mode", MODES)
def test_rows_are_identified_by_file_position_and_id(spark, lake, types, conf, collected, mode):
    conf("spark.halocline.scan.mode", mode)
    lake.add("1.parquet", pa.table({"id": [1, 2, 3]}), base_row_id=100, version=4, deleted=[0])
    lake.add("2.parquet", pa.table({"id": [4, 5], "_id": [7, None], "_v": [2, None]}), base_row_id=200, version=5)
    rows = RowColumns(
        file="f", place="r", row_id="i", row_commit_version="v", stored_row_id="_id", stored_row_commit_version="_v"
    )

    df = lake.scan(spark, ID, rows=rows)

    assert df.columns == ["id", "f", "r", "i", "v"]
    parts = f"{file_of('r')} = f AS same", f"{position_of('r')} AS position"
    found = df.selectExpr("id", "f", *parts, "i", "v")
    assert collected(found) == [
        (2, 0, True, 1, 101, 4),
        (3, 0, True, 2, 102, 4),
        (4, 1, True, 0, 7, 2),
        (5, 1, True, 1, 201, 5),
    ]
    assert collected(lake.scan(spark, ID, rows=RowColumns(row_id="i"))) == [(2, 101), (3, 102), (4, 200), (5, 201)]


def test_positions_are_right_whatever_is_skipped_or_split(spark, lake, conf, collected):
    conf("spark.sql.files.maxPartitionBytes", "20000")
    lake.add("1.parquet", pa.table({"id": range(50_000)}), row_group_size=1000)

    df = lake.scan(spark, ID, rows=RowColumns(place="r"))

    assert df.where("id <> r").count() == 0
    assert collected(df.where("id > 49000 AND id < 49003")) == [(49001, 49001), (49002, 49002)]


def test_this_spark_numbers_rows_in_its_inner_column(spark, lake, collected):
    """Fails when a release of Spark stops doing so; take it off the list in `sources`, and the public way is used."""
    lake.add("1.parquet", pa.table({"id": [7, 8, 9]}), deleted=[1])

    df = spark.read.schema(f"id long, {sources.INNER_ROW} long").parquet(str(lake.root))

    assert collected(df) == [(7, 0), (8, 1), (9, 2)]
    assert spark.version.startswith(sources._NUMBERING), "a release that nobody has looked at yet"
    assert collected(lake.scan(spark, ID)) == [(7,), (9,)]


def test_unknown_releases_of_spark_number_rows_in_the_public_way(spark, lake, collected, monkeypatch):
    monkeypatch.setattr(sources, "_NUMBERING", ("3.",))
    lake.add("1.parquet", pa.table({"id": [7, 8, 9]}), deleted=[1])

    assert collected(lake.scan(spark, ID)) == [(7,), (9,)]
    assert collected(lake.scan(spark, ID, rows=RowColumns(place="r"))) == [(7, 0), (9, 2)]


@pytest.mark.parametrize("name", ["_metadata", sources.INNER_ROW, sources.INNER_ROW.upper()])
def test_a_column_named_as_sparks_own_is_still_the_tables(spark, lake, types, collected, name):
    lake.add("1.parquet", pa.table({"id": [7, 8, 9], name: [1, 1, 1]}), deleted=[1])

    assert collected(lake.scan(spark, types.struct(id="long", **{name: "long"}))) == [(7, 1), (9, 1)]


def test_deleted_rows_for_no_file_are_refused(spark, lake):
    from pyroaring import BitMap64

    lake.add("1.parquet", pa.table({"id": [1]}))

    with pytest.raises(InputError, match="file number 5"):
        lake.scan(spark, ID, deleted={5: BitMap64([0])})


def test_file_without_a_size_is_still_read(spark, lake, collected):
    lake.add("1.parquet", pa.table({"id": [1]}))
    lake.rows[0]["size"] = 0

    assert collected(lake.scan(spark, ID)) == [(1,)]


def test_unknown_mode_names_those_there_are(spark, lake, conf):
    conf("spark.halocline.scan.mode", "fast")
    lake.add("1.parquet", pa.table({"id": [1]}))

    with pytest.raises(InputError, match=r"halocline\.scan\.mode cannot be 'fast'") as error:
        lake.scan(spark, ID)

    assert error.value.sides["expected"] == "auto, manifest, paths, arrow"


def test_spark_has_no_file_system_for_buckets_and_says_so(spark):
    assert [spark_address(spark, a) for a in ("s3://b/x", "gs://b/x", "memory://b/x", "/x")] == [
        None,
        None,
        None,
        "file:///x",
    ]


def test_table_in_memory_is_read_by_the_driver(spark, types, collected):
    store = open_store("memory://scan-test/t")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1, 2, 3], "s": [{"x": 1}, None, {"x": 3}]}), sink)
    store.put("a.parquet", sink.getvalue().to_pybytes())
    files = pa.table({"path": ["a.parquet"], "size": pa.array([None], pa.int64())})
    schema = types.struct(id="long", s=types.struct(x="long", y="string"))

    df = scan(spark, store, files, FileLayout(schema))

    assert [(r["id"], r["s"] and tuple(r["s"])) for r in df.orderBy("id").collect()] == [
        (1, (1, None)),
        (2, None),
        (3, (3, None)),
    ]


def test_session_that_prefers_another_parquet_reader_reads_the_same(spark, lake, conf, collected):
    lake.add("1.parquet", pa.table({"id": [7, 8, 9]}), deleted=[1])
    conf("spark.sql.sources.useV1SourceList", "csv")

    assert collected(lake.scan(spark, ID)) == [(7,), (9,)]
    assert spark.conf.get("spark.sql.sources.useV1SourceList") == "csv"


@pytest.mark.parametrize("mode", MODES)
def test_session_that_passes_over_names_reads_the_same(spark, lake, conf, collected, mode):
    key = "spark.sql.files.ignoredPathSegmentRegex"
    session.forget(spark)
    conf("spark.halocline.scan.mode", mode)
    conf(key, "parquet")
    lake.add("1.parquet", pa.table({"id": [7, 8, 9]}), deleted=[1])

    try:
        assert collected(lake.scan(spark, ID)) == [(7,), (9,)]
        assert spark.conf.get(key) == "parquet"
    finally:
        session.forget(spark)


def test_settings_of_the_session_are_as_before(spark, lake, conf):
    conf("spark.halocline.scan.mode", "paths")
    key = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    before = spark.conf.get(key)
    lake.add("1.parquet", pa.table({"id": [1]}))
    for n in range(40):
        lake.add(f"x{n}.parquet", pa.table({"id": [n]}))

    assert lake.scan(spark, ID).count() == 41
    assert spark.conf.get(key) == before


def test_kind_of_the_session_is_known(spark, is_connect):
    assert session.is_connect(spark) is is_connect


def test_path_is_as_good_as_a_url(spark, lake, collected):
    lake.add("1.parquet", pa.table({"id": [1]}))

    for url in (str(lake.root), Path(lake.root).as_uri(), f"file:{lake.root}"):
        assert collected(lake.scan(spark, ID, table_url=url)) == [(1,)]


@pytest.mark.parametrize(
    ("where", "told"), [("id", "not a boolean"), ("nosuch(id) = 1", "nosuch"), (5, "where of to_df cannot be 5")]
)
def test_condition_that_is_none_is_refused_in_our_words(spark, tmp_path, where, told):
    table = hc.Table.create(str(tmp_path / "t"), spark.range(3), spark)
    with pytest.raises(InputError, match=told):
        table.to_df(where=where)

"""What one side does to whole Delta tables, the other understands: checkpoints, clones, restores, drops, streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from halocline.errors import IncompatibleError
from halocline.table import Table
from tests.interop_jvm.delta import Ours, Side, Theirs, actions, everything, name
from tests.interop_jvm.delta_kinds import EVERY_COMMIT, MAPPED, V2, VECTORS, Kind

pytestmark = pytest.mark.timeout(3600)

BOTH = pytest.mark.parametrize("writer", ["delta", "ours"])


@pytest.fixture
def sides(spark, delta: Theirs):
    """Those who take turns, by name."""
    return {"delta": delta, "ours": Ours(spark)}


def other(sides: dict[str, Side], writer: str) -> Side:
    return next(side for who, side in sides.items() if who != writer)


def rows(side: Side, path: Path) -> list[list[str]]:
    return side.run(everything(name(path)))


def check_both(sides: dict[str, Side], path: Path, wanted: list[list[str]]) -> None:
    """Both read these rows, and go on."""
    for who, side in sides.items():
        assert side.run(f"SELECT id, value FROM {name(path)}") == wanted, who
    for number, side in enumerate(sides.values()):
        side.run(f"INSERT INTO {name(path)} (id, value) VALUES ({100 + number}, 'on')")
    for who, side in sides.items():
        found = side.run(f"SELECT id, value FROM {name(path)}")
        assert found == sorted([*wanted, ["100", "on"], ["101", "on"]]), who


def filled(side: Side, path: Path, kind: Kind) -> None:
    """Five commits: two inserts of two rows, an update, a delete."""
    side.run(
        *kind.create(name(path)),
        f"INSERT INTO {name(path)} (id, value) VALUES (1, 'a'), (2, 'b')",
        f"INSERT INTO {name(path)} (id, value) VALUES (3, 'c'), (4, 'd')",
        f"UPDATE {name(path)} SET value = 'u' WHERE id = 1",
        f"DELETE FROM {name(path)} WHERE id = 4",
    )


LEFT = [["1", "u"], ["2", "b"], ["3", "c"]]
CHECKPOINTS = {
    "classic": EVERY_COMMIT,
    "classic, vectors": EVERY_COMMIT | VECTORS,
    "classic, mapped": EVERY_COMMIT | MAPPED,
    "struct statistics only": EVERY_COMMIT
    | {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"},
    "V2": EVERY_COMMIT | V2,
    "V2, vectors": EVERY_COMMIT | V2 | VECTORS,
}


@BOTH
@pytest.mark.parametrize("form", CHECKPOINTS)
def test_a_table_known_by_its_checkpoint_alone_is_read_and_written_on(sides, tmp_path, writer, form):
    filled(sides[writer], tmp_path, Kind(form, properties=CHECKPOINTS[form]))
    forget_commits(tmp_path)
    check_both(sides, tmp_path, LEFT)


def forget_commits(path: Path) -> None:
    """Removes the commits that a checkpoint stands for."""
    log = path / "_delta_log"
    last = max(int(each.name[:20]) for each in log.glob("[0-9]*.checkpoint*"))
    for commit in log.glob(f"{'[0-9]' * 20}.json"):
        if int(commit.name[:20]) < last:
            commit.unlink()


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_v2_checkpoint_with_either_top_file_is_read_and_written_on(sides, delta, tmp_path, form):
    delta.run(f"SET spark.databricks.delta.checkpointV2.topLevelFileFormat = {form}")
    filled(delta, tmp_path, Kind("V2", properties=EVERY_COMMIT | V2))
    assert list((tmp_path / "_delta_log").glob(f"*.checkpoint.*.{form}"))
    forget_commits(tmp_path)
    check_both(sides, tmp_path, LEFT)


def test_a_checkpoint_in_parts_is_read_and_written_on(sides, delta, tmp_path):
    delta.run("SET spark.databricks.delta.checkpoint.partSize = 1")
    try:
        filled(delta, tmp_path, Kind("parts", properties=EVERY_COMMIT))
    finally:
        delta.run("RESET spark.databricks.delta.checkpoint.partSize")
    parts = list((tmp_path / "_delta_log").glob("*.checkpoint.*.*.parquet"))
    assert len(parts) > 1, "the checkpoint has several parts"
    forget_commits(tmp_path)
    check_both(sides, tmp_path, LEFT)


@BOTH
@pytest.mark.parametrize("how", ["SHALLOW", "DEEP"])
def test_a_clone_is_read_and_written_on_and_leaves_the_original_alone(sides, delta, tmp_path, writer, how):
    filled(sides[writer], tmp_path / "t", Kind("vectors", properties=VECTORS))
    made = f"CREATE TABLE {name(tmp_path / 'clone')} {how} CLONE {name(tmp_path / 't')}"
    if writer == "delta" and how == "DEEP" and delta.attempt(made):
        pytest.skip("Delta Spark has no deep clones")
    if writer == "ours" or how == "SHALLOW":
        sides[writer].run(made)
    check_both(sides, tmp_path / "clone", LEFT)
    assert sides["delta"].run(f"SELECT id, value FROM {name(tmp_path / 't')}") == LEFT


@BOTH
@pytest.mark.parametrize("properties", [{}, VECTORS, MAPPED], ids=["plain", "vectors", "mapped"])
def test_a_restored_table_is_read_and_written_on(sides, tmp_path, writer, properties):
    filled(sides[writer], tmp_path, Kind("restored", properties=properties))
    other(sides, writer).run(f"RESTORE TABLE {name(tmp_path)} TO VERSION AS OF 1")
    check_both(sides, tmp_path, [["1", "a"], ["2", "b"]])


DROPS = {
    "deletionVectors": VECTORS,
    "v2Checkpoint": EVERY_COMMIT | V2,
    "columnMapping": MAPPED,
    "changeDataFeed": {"delta.enableChangeDataFeed": "true", "delta.feature.changeDataFeed": "supported"},
    "vacuumProtocolCheck": {"delta.feature.vacuumProtocolCheck": "supported"},
    "inCommitTimestamp": {"delta.enableInCommitTimestamps": "true"},
    "rowTracking": {"delta.enableRowTracking": "true"},
    "clustering": {},
    "allowColumnDefaults": {"delta.feature.allowColumnDefaults": "supported"},
    "checkConstraints": {"delta.feature.checkConstraints": "supported"},
}


@pytest.mark.parametrize("feature", DROPS)
def test_a_dropped_feature_leaves_the_same_protocol_whoever_dropped_it(spark, sides, delta, tmp_path, feature):
    """Where Delta Spark refuses, so do we; where both do it, the tables ask for the same."""
    kind = Kind(feature, properties=DROPS[feature], after="CLUSTER BY (id)" if feature == "clustering" else "")
    refused, protocols = {}, {}
    for who, side in sides.items():
        path = tmp_path / who
        filled(delta, path, kind)
        try:
            side.run(f"ALTER TABLE {name(path)} DROP FEATURE {feature}")
            refused[who] = ""
        except Exception as error:
            refused[who] = str(error)
        protocols[who] = str(Table.for_path(path, spark).protocol)
        check_both(sides, path, LEFT)
    assert bool(refused["ours"]) == bool(refused["delta"]), refused
    assert protocols["ours"] == protocols["delta"], refused


@BOTH
def test_changed_columns_are_read_and_written_on(sides, tmp_path, writer):
    path, table = tmp_path, name(tmp_path)
    properties = MAPPED | {"delta.enableTypeWidening": "true", "delta.feature.allowColumnDefaults": "supported"}
    kind = Kind("columns", columns="small INT, gone STRING, nested STRUCT<a: INT, b: INT>", properties=properties)
    filled(sides[writer], path, kind)
    second = other(sides, writer)
    for side, text in (
        (second, "RENAME COLUMN value TO word"),
        (sides[writer], "RENAME COLUMN word TO value"),
        (second, "DROP COLUMN gone"),
        (second, "ALTER COLUMN small TYPE BIGINT"),
        (sides[writer], "ADD COLUMNS (more STRING AFTER id)"),
        (second, "ALTER COLUMN more SET DEFAULT 'm'"),
        (sides[writer], "ALTER COLUMN more DROP DEFAULT"),
        (second, "RENAME COLUMN nested.a TO z"),
        (sides[writer], "ALTER COLUMN small COMMENT 'wide now'"),
    ):
        side.run(f"ALTER TABLE {table} {text}")
        assert rows(sides["delta"], path) == rows(sides["ours"], path), text
    check_both(sides, path, LEFT)


@BOTH
@pytest.mark.parametrize("properties", [{}, VECTORS | MAPPED], ids=["plain", "vectors, mapped"])
def test_a_stream_of_either_side_follows_what_both_write(sides, tmp_path, writer, properties):
    source, target, checkpoint = tmp_path / "s", tmp_path / "t", tmp_path / "c"
    sides[writer].run(*Kind("stream", properties=properties).create(name(source)))
    sides["delta"].run(*Kind("target", properties=properties).create(name(target)))
    wanted = []
    for number, side in enumerate((*sides.values(), *sides.values())):
        side.run(f"INSERT INTO {name(source)} VALUES ({number}, 'x')")
        sides[writer].stream(source, target, checkpoint)
        wanted.append([str(number), "x"])
        for who, reader in sides.items():
            assert reader.run(f"SELECT id, value FROM {name(target)}") == wanted, who
    assert [each["appId"] for each in actions(target, "txn")]


@pytest.mark.parametrize("mode", ["append", "complete", "update"])
def test_a_sink_does_in_each_mode_what_the_other_one_does(sides, tmp_path, mode):
    """Counts under way are for complete mode; append mode has none to give, and update mode no key to go by."""
    source = tmp_path / "s"
    sides["ours"].run(*Kind("stream").create(name(source)))
    told: dict[str, list[object]] = {who: [] for who in sides}
    for number in range(2):
        sides["ours"].run(f"INSERT INTO {name(source)} VALUES ({number}, 'x'), ({number}, 'y{number}')")
        for who, side in sides.items():
            target = tmp_path / who
            against = side.count_by_stream(source, target, tmp_path / f"{who}-checkpoint", mode)
            rows = sides["ours"].run(f"SELECT value, count FROM {name(target)}") if not against else "refused"
            told[who].append(rows)
            assert bool(against) == (mode != "complete"), f"{who}: {against}"
            assert mode == "complete" or mode in against.lower(), f"{who}: {against}"
            if not against:
                assert [each["operation"] for each in actions(target, "commitInfo")][-1] == "STREAMING UPDATE", who
    assert told["ours"] == told["delta"]
    assert mode != "complete" or told["ours"][-1] == [["x", "2"], ["y0", "1"], ["y1", "1"]]


@BOTH
def test_a_change_feed_reads_alike_on_both_sides(spark, sides, delta, tmp_path, writer):
    filled(sides[writer], tmp_path, Kind("feed", properties={"delta.enableChangeDataFeed": "true"} | VECTORS))
    other(sides, writer).run(f"UPDATE {name(tmp_path)} SET value = 'w' WHERE id = 2")
    ours = Table.for_path(tmp_path, spark).changes(0)
    found = sorted(
        [str(v) for v in row] for row in ours.select("_change_type", "_commit_version", "id", "value").collect()
    )
    assert found == delta.feed(tmp_path)
    assert ["update_postimage", "5", "2", "w"] in found


@pytest.mark.parametrize("version", [1, 2])
def test_tables_for_iceberg_are_read_and_writing_names_the_feature(spark, sides, delta, tmp_path, version):
    properties = MAPPED | {f"delta.enableIcebergCompatV{version}": "true"}
    filled(delta, tmp_path, Kind("iceberg", properties=properties))
    assert sides["ours"].run(f"SELECT id, value FROM {name(tmp_path)}") == LEFT
    with pytest.raises(IncompatibleError, match=f"icebergCompatV{version}"):
        sides["ours"].run(f"INSERT INTO {name(tmp_path)} VALUES (9, 'z')")


@BOTH
def test_optimize_by_clustering_and_z_order_keeps_rows(sides, tmp_path, writer):
    filled(sides[writer], tmp_path / "c", Kind("clustered", after="CLUSTER BY (id)"))
    filled(sides[writer], tmp_path / "z", Kind("plain"))
    second = other(sides, writer)
    second.run(f"OPTIMIZE {name(tmp_path / 'c')}")
    second.run(f"OPTIMIZE {name(tmp_path / 'z')} ZORDER BY (id)")
    second.run(f"ALTER TABLE {name(tmp_path / 'c')} CLUSTER BY (value)")
    sides[writer].run(f"OPTIMIZE {name(tmp_path / 'c')}")
    check_both(sides, tmp_path / "c", LEFT)
    check_both(sides, tmp_path / "z", LEFT)

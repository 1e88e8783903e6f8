"""Upkeep of Delta tables by either side: what one removes, clusters, declares anew or switches on, the other takes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from halocline.table import Table
from tests.interop_jvm.delta import Ours, Side, Theirs, actions, everything, name, said
from tests.interop_jvm.delta_kinds import FEED, MAPPED, TRACKED, V2, VECTORS, Kind

pytestmark = pytest.mark.timeout(3600)

BOTH = pytest.mark.parametrize("writer", ["delta", "ours"])
KEEPS_NOTHING = "SET spark.databricks.delta.retentionDurationCheck.enabled = {}"


@pytest.fixture
def sides(spark, conf, delta: Theirs):
    """Those who take turns, by name; both may vacuum files that are not old."""
    conf("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    delta.run(KEEPS_NOTHING.format("false"))
    yield {"delta": delta, "ours": Ours(spark)}
    delta.run(KEEPS_NOTHING.format("true"))


def filled(side: Side, path: Path, kind: Kind) -> None:
    """Inserts, an update and deletes."""
    t = name(path)
    side.run(
        *kind.create(t),
        f"INSERT INTO {t} (id, value) VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        f"INSERT INTO {t} (id, value) VALUES (4, 'a'), (5, 'b')",
        f"UPDATE {t} SET value = 'z' WHERE id = 1",
        f"DELETE FROM {t} WHERE id = 4",
        f"DELETE FROM {t} WHERE id = 2",
    )


LEFT = [["1", "z"], ["3", "c"], ["5", "b"]]


def check_both(sides: dict[str, Side], path: Path, wanted: list[list[str]]) -> None:
    """Both read these rows, and go on."""
    t = name(path)
    for who, side in sides.items():
        assert side.run(f"SELECT id, value FROM {t}") == wanted, who
    for number, side in enumerate(sides.values()):
        side.run(f"INSERT INTO {t} (id, value) VALUES ({100 + number}, 'on')")
    for who, side in sides.items():
        assert side.run(f"SELECT id, value FROM {t}") == sorted([*wanted, ["100", "on"], ["101", "on"]]), who
    one, other = (side.run(everything(t)) for side in sides.values())
    assert one == other


def data_files(path: Path) -> set[str]:
    found = (each.relative_to(path) for each in path.rglob("*") if each.is_file() and not each.name.endswith(".crc"))
    return {str(each) for each in found if each.parts[0] != "_delta_log"}


# ---------------------------------------------------------------------- vacuum


KEPT = {
    "vectors": Kind("vectors", properties=VECTORS),
    "change feed": Kind("feed", properties=FEED),
    "partitioned": Kind("partitions", columns="p STRING GENERATED ALWAYS AS (value)", after="PARTITIONED BY (p)"),
}


@pytest.mark.parametrize("kind", KEPT)
def test_a_lite_vacuum_deletes_the_same_files_whoever_runs_it_and_the_other_goes_on_behind_it(sides, tmp_path, kind):
    filled(sides["delta"], tmp_path / "t", KEPT[kind])
    (tmp_path / "t" / "left-over.parquet").write_bytes(b"of a write that failed")
    gone, marks = {}, {}
    for who, side in sides.items():
        path = tmp_path / who
        shutil.copytree(tmp_path / "t", path)
        before = data_files(path)
        side.run(f"VACUUM {name(path)} LITE RETAIN 0 HOURS")
        gone[who] = before - data_files(path)
        marks[who] = json.loads((path / "_delta_log" / "_last_vacuum_info").read_text())
        other = next(each for each in sides.values() if each is not side)
        assert other.run(f"VACUUM {name(path)} LITE RETAIN 0 HOURS DRY RUN") == [], "nothing is left to be deleted"
        check_both(sides, path, LEFT)
    assert gone["ours"] == gone["delta"] != set()
    assert marks["ours"] == marks["delta"]
    assert "left-over.parquet" in data_files(tmp_path / "ours")


@BOTH
def test_a_lite_vacuum_is_refused_by_both_where_commits_are_gone(sides, tmp_path, writer):
    kind = Kind("short log", properties={"delta.checkpointInterval": "3"})
    filled(sides[writer], tmp_path, kind)
    for version in range(2):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    for who, side in sides.items():
        against = said(side, f"VACUUM {name(tmp_path)} LITE RETAIN 0 HOURS")
        assert "VACUUM" in against, f"{who}: {against}"
    sides["ours"].run(f"VACUUM {name(tmp_path)} RETAIN 0 HOURS")
    for who, side in sides.items():
        assert said(side, f"VACUUM {name(tmp_path)} LITE RETAIN 0 HOURS") == "", f"{who}, after our full vacuum"


# ---------------------------------------------------------------------- layout


def providers(spark, path: Path) -> set[str | None]:
    return set(Table.for_path(path, spark).snapshot().files()["clustering_provider"].to_pylist())


OF = {"delta": "liquid", "ours": "halocline"}


@BOTH
def test_each_clusters_what_is_loose_and_all_of_it_only_in_full(spark, sides, tmp_path, writer):
    t, second = name(tmp_path), "ours" if writer == "delta" else "delta"
    filled(sides[writer], tmp_path, Kind("clustered", after="CLUSTER BY (id)"))
    sides[writer].run(f"OPTIMIZE {t}")
    assert providers(spark, tmp_path) == {OF[writer]}
    sides[second].run(f"INSERT INTO {t} (id, value) VALUES (9, 'n')", f"OPTIMIZE {t}")
    assert providers(spark, tmp_path) == {OF[writer], OF[second]}, "what the other has clustered is let be"
    sides[second].run(f"ALTER TABLE {t} CLUSTER BY (value)", f"OPTIMIZE {t}")
    assert providers(spark, tmp_path) == {OF[writer], OF[second]}
    sides[second].run(f"OPTIMIZE {t} FULL")
    assert providers(spark, tmp_path) == {OF[second]}
    told = actions(tmp_path, "commitInfo")[-1]["operationParameters"]
    assert (json.loads(told["clusterBy"]), str(told["isFull"]).lower()) == (["value"], "true")
    check_both(sides, tmp_path, sorted([*LEFT, ["9", "n"]]))


@pytest.mark.parametrize("after", ["", "CLUSTER BY (id)"], ids=["plain", "clustered"])
@pytest.mark.parametrize(
    "how", ["OPTIMIZE {t} FULL", "OPTIMIZE {t} WHERE id = 1", "OPTIMIZE {t} ZORDER BY (id)", "OPTIMIZE {t}"]
)
def test_what_one_refuses_to_optimize_the_other_refuses(sides, tmp_path, after, how):
    told = {}
    for who, side in sides.items():
        filled(side, tmp_path / who, Kind("any", after=after))
        told[who] = said(side, how.format(t=name(tmp_path / who)))
    assert bool(told["ours"]) == bool(told["delta"]), told


@BOTH
def test_purged_files_are_read_and_written_on(spark, sides, tmp_path, writer):
    second = "ours" if writer == "delta" else "delta"
    filled(sides[writer], tmp_path, Kind("purged", columns="gone STRING", properties=VECTORS | MAPPED))
    sides[writer].run(f"ALTER TABLE {name(tmp_path)} DROP COLUMN gone")
    sides[second].run(f"REORG TABLE {name(tmp_path)} APPLY (PURGE)")
    files = Table.for_path(tmp_path, spark).snapshot().files()
    assert files["deletion_vector"].null_count == len(files)
    check_both(sides, tmp_path, LEFT)


def test_manifests_name_the_same_files_whoever_generates_them(sides, tmp_path):
    filled(sides["delta"], tmp_path, KEPT["partitioned"])
    found = {}
    for who, side in sides.items():
        side.run(f"GENERATE symlink_format_manifest FOR TABLE {name(tmp_path)}")
        folder = tmp_path / "_symlink_format_manifest"
        found[who] = {
            str(each.relative_to(folder)): sorted(Path(line).name for line in each.read_text().split())
            for each in folder.rglob("manifest")
        }
        shutil.rmtree(folder)
    assert found["ours"] == found["delta"] != {}


# ---------------------------------------------------------------------- columns


S = "s STRUCT<a: INT, b: STRING>"
DECLARED = {
    "in another order": ({}, f"({S}, value STRING, id BIGINT)"),
    "with a new one": ({}, f"(id BIGINT COMMENT 'key', more DATE, value STRING, {S})"),
    "with a new field": ({}, "(id BIGINT, value STRING, s STRUCT<b: STRING, a: INT, c: DATE>)"),
    "without one": ({}, "(id BIGINT, value STRING)"),
    "without one, mapped": (MAPPED, "(value STRING, id BIGINT)"),
    "without a field, mapped": (MAPPED, "(id BIGINT, value STRING, s STRUCT<b: STRING>)"),
    "under another name": (MAPPED, "(id BIGINT, word STRING, s STRUCT<a: INT, b: STRING>)"),
    "wider": ({"delta.enableTypeWidening": "true"}, "(id BIGINT, value STRING, s STRUCT<a: BIGINT, b: STRING>)"),
    "wider, not allowed": ({}, "(id BIGINT, value STRING, s STRUCT<a: BIGINT, b: STRING>)"),
    "narrower": ({"delta.enableTypeWidening": "true"}, f"(id INT, value STRING, {S})"),
    "twice": ({}, f"(id BIGINT, ID BIGINT, value STRING, {S})"),
    "not null": ({}, "(id BIGINT, value STRING, s STRUCT<a: INT NOT NULL, b: STRING>)"),
}


@pytest.mark.parametrize("how", DECLARED)
def test_columns_declared_anew_are_the_same_whoever_does_it(sides, tmp_path, how):
    properties, columns = DECLARED[how]
    told, schemas = {}, {}
    for who, side in sides.items():
        path = tmp_path / who
        filled(sides["delta"], path, Kind("columns", columns=S, properties=properties))
        told[who] = said(side, f"ALTER TABLE {name(path)} REPLACE COLUMNS {columns}")
        schemas[who] = without_ids(json.loads(actions(path, "metaData")[-1]["schemaString"]))
        check_both(sides, path, LEFT)
    assert bool(told["ours"]) == bool(told["delta"]), told
    assert schemas["ours"] == schemas["delta"], told


def without_ids(schema: object) -> object:
    """A schema without the names and numbers that are other ones in each table."""
    if isinstance(schema, dict):
        return {key: without_ids(each) for key, each in schema.items() if not key.startswith("delta.columnMapping.")}
    return [without_ids(each) for each in schema] if isinstance(schema, list) else schema


@BOTH
def test_an_identity_that_was_synchronized_goes_on_behind_the_numbers_of_both(sides, tmp_path, writer):
    t, second = name(tmp_path), "ours" if writer == "delta" else "delta"
    kind = Kind("identity", columns="number BIGINT GENERATED BY DEFAULT AS IDENTITY")
    sides[writer].run(*kind.create(t), f"INSERT INTO {t} (id, value, number) VALUES (1, 'a', 50)")
    sides[second].run(f"ALTER TABLE {t} ALTER COLUMN number SYNC IDENTITY")
    for number, side in enumerate(sides.values()):
        side.run(f"INSERT INTO {t} (id, value) VALUES ({number + 2}, 'b')")
    found = sides["delta"].run(f"SELECT number FROM {t}")
    assert len({row[0] for row in found}) == 3, found
    assert all(int(row[0]) >= 50 for row in found), found


# ---------------------------------------------------------------------- features that come later


LATER = {
    "deletionVectors": VECTORS,
    "columnMapping": MAPPED,
    "rowTracking": TRACKED,
    "inCommitTimestamp": {"delta.enableInCommitTimestamps": "true"},
    "v2Checkpoint": V2,
    "changeDataFeed": FEED,
    "typeWidening": {"delta.enableTypeWidening": "true"},
    "appendOnly": {"delta.appendOnly": "true"},
    "by name": {"delta.feature.domainMetadata": "supported"},
    "by numbers": {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"},
}


@pytest.mark.parametrize("feature", LATER)
def test_a_feature_that_is_switched_on_later_asks_for_the_same_whoever_does_it(spark, sides, tmp_path, feature):
    settings = ", ".join(f"'{key}' = '{value}'" for key, value in LATER[feature].items())
    told, protocols = {}, {}
    for who, side in sides.items():
        path = tmp_path / who
        filled(sides["delta"], path, Kind("plain"))
        told[who] = said(side, f"ALTER TABLE {name(path)} SET TBLPROPERTIES ({settings})")
        protocols[who] = str(Table.for_path(path, spark).protocol)
        check_both(sides, path, LEFT)
    assert bool(told["ours"]) == bool(told["delta"]), told
    assert protocols["ours"] == protocols["delta"]

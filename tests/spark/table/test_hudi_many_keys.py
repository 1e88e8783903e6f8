"""Writes of more keys than are taken to file groups at once: a join finds the same groups.

Some cases run always, and all of them with `HALOCLINE_TEST_TABLES=all`.
"""

from __future__ import annotations

import os

import pytest
from hudi import HudiReadOptions, HudiTableBuilder

from halocline.table import HudiTable, Table
from halocline.table.hudi import write

JOINED = {"halocline.hudi.keysAtOnce": "2"}
PLACES = {"partitioned": ["region"], "whole": []}
CASES = [(6, "mor", "partitioned"), (9, "cow", "whole"), (6, "mor", "whole"), (9, "cow", "partitioned")]
CHOSEN = CASES if os.environ.get("HALOCLINE_TEST_TABLES") == "all" else CASES[:2]


def rows(spark, ids, ts: int, name: str):
    made = [(f"k{each}", ("ap", "eu", None)[each % 3], ts, f"{name}{each}") for each in ids]
    return spark.createDataFrame(made, "id STRING, region STRING, ts BIGINT, name STRING").coalesce(1)


def shown(table: HudiTable) -> list[tuple[str, int, str]]:
    """The rows, in which we and hudi-rs agree."""
    ours = sorted(tuple(row) for row in table.to_df(columns=["id", "ts", "name"]).collect())
    batches = HudiTableBuilder.from_base_uri(table.url.removeprefix("file://")).build().read(HudiReadOptions())
    assert ours == sorted((row["id"], row["ts"], row["name"]) for batch in batches for row in batch.to_pylist())
    return ours


def groups(table: HudiTable) -> list[tuple[str, int, bool]]:
    """The file groups, told by what no other run names differently."""
    return sorted((each.partition, len(each.logs), each.base is not None) for each in table.snapshot().slices)


@pytest.mark.parametrize(("version", "kind", "place"), CHOSEN)
def test_keys_that_are_joined_are_found_as_those_taken_to_the_groups(
    spark, tmp_path, monkeypatch, version, kind, place
):
    asked = []
    plain = write.located
    monkeypatch.setattr(write, "located", lambda *given, **more: asked.append(more) or plain(*given, **more))
    declared = {"keys": "id", "ordering": "ts", "partition_by": PLACES[place], "version": version, "kind": kind}
    found = []
    for name, options in {"taken": {}, "joined": JOINED}.items():
        path = tmp_path / name
        Table.create(path, rows(spark, range(9), 100, "a"), format="hudi", **declared)
        table = Table.for_path(path, spark, options=options)
        table.insert(rows(spark, [1], 150, "twice"))
        steps = [
            lambda table: table.upsert(rows(spark, [1, 2, 3, 4, 20, 21], 200, "b")),
            lambda table: table.delete(rows(spark, [2, 5, 8, 77], 0, "")),
            lambda table: table.upsert(rows(spark, [0, 2, 6, 20], 50, "late")),
            lambda table: table.delete("ts = 200"),
        ]
        states = []
        for step in steps:
            step(table)
            states.append((shown(table), groups(table)))
        found.append(states)
    taken, joined = found
    assert {each["keys_at_once"] for each in asked} == {500_000, 2}
    for number, (one, other) in enumerate(zip(taken, joined, strict=True), start=1):
        assert one == other, f"after step {number}"
    assert [row[0] for row in taken[-1][0]], "rows are left to compare"

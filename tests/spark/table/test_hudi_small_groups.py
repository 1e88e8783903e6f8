"""New rows in small file groups of Hudi tables, as Apache Hudi puts them."""

from __future__ import annotations

import pytest
from hudi import HudiReadOptions, HudiTableBuilder

from halocline.table import HudiTable, Table

LIMIT = {"halocline.hudi.smallFileLimit": str(100 * 1024 * 1024)}


def rows(spark, ids, name: str):
    # Names of columns that a writer might well use for its own.
    return spark.createDataFrame(
        [(f"k{each}", f"p{each % 2}", each, name) for each in ids], "id STRING, p STRING, ts INT, first STRING"
    )


def groups(table: HudiTable) -> dict[str, int]:
    """The file groups, and how many log files each has."""
    return {each.file_id: len(each.logs) for each in table.snapshot().slices}


def both(table: HudiTable) -> list[tuple[str, str]]:
    """The rows, in which we and hudi-rs agree."""
    ours = sorted(tuple(row) for row in table.to_df(columns=["id", "first"]).collect())
    batches = HudiTableBuilder.from_base_uri(table.url.removeprefix("file://")).build().read(HudiReadOptions())
    assert ours == sorted((row["id"], row["first"]) for batch in batches for row in batch.to_pylist())
    return ours


@pytest.mark.parametrize(("version", "kind"), [(6, "cow"), (8, "mor"), (9, "cow")])
def test_new_rows_go_into_small_groups_and_others_stay(spark, tmp_path, version, kind):
    made = {"keys": "id", "partition_by": "p", "ordering": "ts", "version": version, "kind": kind}
    Table.create(tmp_path, rows(spark, range(4), "a"), format="hudi", **made)
    table = Table.for_path(tmp_path, spark, options=LIMIT)
    before = groups(table)
    table.insert(rows(spark, range(10, 14), "b"))
    assert groups(table) == before, "no file group more, and no log file"
    table.insert(rows(spark, [0], "twice"))
    assert groups(table) == before
    assert [each for each in both(table) if each[0] == "k0"] == [("k0", "a"), ("k0", "twice")], "insert does not look"
    table.upsert(rows(spark, [1, 20, 21], "c"))
    assert groups(table) == before, "changed rows are in the base file that takes new ones"
    found = dict(both(table))
    assert (found["k1"], found["k3"], found["k20"], found["k21"]) == ("c", "a", "c", "c")
    table.insert(rows(spark, range(30, 34), "d"), rows_per_group=1)
    more = groups(table)
    assert len(more) > len(before), "those that are there hold as many rows as they may, and more"
    Table.for_path(tmp_path, spark).insert(rows(spark, [40], "e"))
    assert len(groups(table)) == len(more) + 1, "without a limit the group is a new one"
    assert len(both(table)) == 4 + 4 + 1 + 2 + 4 + 1

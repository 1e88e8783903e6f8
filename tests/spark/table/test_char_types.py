"""Text of limited length: compared, pruned, stored and judged as Delta Spark does."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.tables import Untouched, rows

from halocline.errors import ConstraintError
from halocline.source.data_source import register
from halocline.table import Table
from halocline.table.delta.new_table import column

# What Delta Spark 4.4 gives for the rows 1 'ab' and 2 'cd' of a CHAR(5) column.
MEASURED = {
    "c = 'ab'": [1],
    "c = 'ab   '": [1],
    "c = 'ab        '": [1],
    "'ab' = c": [1],
    "c IN ('ab', 'xx')": [1],
    "c NOT IN ('ab')": [2],
    "c <> 'ab'": [2],
    "c <= 'ab'": [1],
    "c < 'ab'": [],
    "c > 'ab'": [2],
    "c >= 'ab'": [1, 2],
    "c < 'ab      x'": [1],
    "c LIKE 'ab'": [],
    "c LIKE 'ab%'": [1],
    "c LIKE 'ab   '": [1],
    "c BETWEEN 'ab' AND 'ab'": [],
    "c <=> 'ab'": [1],
    "length(c) = 5": [1, 2],
}


def without_blanks(path):
    """Takes the blanks out of the files and the log, which is how Delta Spark inserts them."""
    for commit in (path / "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        for add in (line["add"] for line in lines if "add" in line):
            if "c" in add["partitionValues"]:
                add["partitionValues"]["c"] = add["partitionValues"]["c"].rstrip()
            else:
                found = pq.read_table(path / add["path"], partitioning=None)
                texts = pa.array([text.rstrip() for text in found["c"].to_pylist()])
                pq.write_table(found.set_column(found.column_names.index("c"), "c", texts), path / add["path"])
                add["size"] = (path / add["path"]).stat().st_size
            add["stats"] = add["stats"].replace('"ab   "', '"ab"').replace('"cd   "', '"cd"')
        commit.write_text("\n".join(json.dumps(line, separators=(",", ":")) for line in lines))
    for name in (path / "_delta_log").glob("*crc*"):
        name.unlink()


@pytest.fixture(params=["padded", "stored without blanks"])
def table(request, tmp_path, spark):
    """Two files, one row each."""
    made = {}
    for name, partitions in (("plain", ()), ("partitioned", "c")):
        path = tmp_path / name
        columns = [column("id", "int"), column("c", "char(5)")]
        created = Table.create(path, columns, spark, partition_by=partitions)
        for row in ("1 id, 'ab' c", "2 id, 'cd' c"):
            created.append(spark.sql(f"SELECT {row}"))
        if request.param != "padded":
            without_blanks(path)
        made[name] = Table.for_path(path, spark)
    return made


@pytest.mark.parametrize("kind", ["plain", "partitioned"])
def test_conditions_on_fixed_length_hold_for_the_rows_that_delta_finds(table, kind):
    for where, ids in MEASURED.items():
        pruned = sorted(row.id for row in table[kind].to_df(where=where).collect())
        assert pruned == ids, where
        assert sorted(row.id for row in table[kind].to_df().where(where).collect()) == ids, where
    assert [row.c for row in table[kind].to_df(where="id = 1").collect()] == ["ab   "]


@pytest.mark.parametrize("kind", ["plain", "partitioned"])
def test_a_delete_by_fixed_length_deletes(table, kind, spark):
    register(spark)
    shown = spark.read.format("halocline").load(table[kind].url).collect()
    assert sorted(tuple(row) for row in shown) == [(1, "ab   "), (2, "cd   ")]
    assert table[kind].delete("c = 'ab'").metrics["numDeletedRows"] == 1
    assert rows(table[kind]) == [(2, "cd   ")]


def test_a_constraint_on_fixed_length_is_compared_padded(tmp_path, spark):
    columns = [column("id", "int"), column("c", "char(5)")]
    table = Table.create(tmp_path / "t", columns, spark, properties={"delta.constraints.known": "c IN ('ab', 'cd')"})
    table.append(spark.sql("SELECT 1 id, 'ab' c"))
    table.update({"c": "'cd'"})
    with pytest.raises(ConstraintError, match="CHECK known"):
        table.append(spark.sql("SELECT 1 id, 'xx' c"))
    assert rows(table) == [(1, "cd   ")]


NESTED = "id INT, s STRUCT<y: CHAR(3), z: VARCHAR(2)>, a ARRAY<VARCHAR(2)>, m MAP<VARCHAR(2), CHAR(2)>"


@pytest.mark.parametrize(
    "value",
    [
        "named_struct('y', 'long', 'z', 'z') s",
        "named_struct('y', 'y', 'z', 'long') s",
        "array('ok', 'long') a",
        "map('long', 'v') m",
        "map('k', 'long') m",
    ],
)
def test_a_length_inside_of_another_type_is_kept(tmp_path, spark, value):
    table = Table.create(tmp_path / "t", NESTED, spark)
    assert "char(3)" in table.schema["fields"][1]["metadata"]["__CHAR_VARCHAR_TYPE_STRING"]
    good = "1 id, named_struct('y', 'y', 'z', 'z') s, array('a') a, map('k', 'v') m"
    table.append(spark.sql(f"SELECT {good}"))
    with Untouched(tmp_path / "t"), pytest.raises(ConstraintError, match="breaks length of"):
        table.append(spark.sql(f"SELECT 2 id, {value}"))
    expression, name = value.rsplit(" ", 1)
    with Untouched(tmp_path / "t"), pytest.raises(ConstraintError, match="breaks length of"):
        table.update({name: expression})
    row = table.to_df().collect()[0]
    assert (tuple(row.s), row.a, row.m) == (("y  ", "z"), ["a"], {"k": "v "})

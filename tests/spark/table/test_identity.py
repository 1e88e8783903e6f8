from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.tables import Untouched, actions, data_files, live_files, meanwhile, rows

from halocline.errors import ConstraintError, SchemaError
from halocline.table import Table
from halocline.table.delta.new_table import Identity, column


def made(spark, path, identity=None, **properties):
    columns = [column("n", "int"), column("id", "bigint", identity=identity or Identity())]
    return Table.create(path, columns, spark, properties=properties)


def mark(table):
    return table.schema["fields"][1]["metadata"].get("delta.identity.highWaterMark")


def numbers(spark, low, high):
    return spark.range(low, high).selectExpr("CAST(id AS INT) n")


def test_few_rows_are_numbered_without_gaps_and_move_the_mark(spark, tmp_path):
    path = tmp_path / "t"
    table = made(spark, path)
    assert mark(table) is None
    table.append(numbers(spark, 0, 3))
    table.append(numbers(spark, 3, 5))
    assert sorted(row[1] for row in rows(table)) == [1, 2, 3, 4, 5]
    assert mark(table) == 5
    assert str(table.protocol) == "(1,7|W: appendOnly,identityColumns,invariants)"
    tags = actions(path, 2, "commitInfo")[0]["tags"]
    assert tags == {"delta.identity.schemaUpdate": "true"}


def test_many_rows_get_different_numbers_beyond_the_mark(spark, tmp_path):
    table = made(spark, tmp_path / "t", Identity(start=100, step=-7), **{"delta.columnMapping.mode": "name"})
    table.append(numbers(spark, 0, 2))
    table.append(numbers(spark, 0, 3000).repartition(5))
    values = [row[1] for row in rows(table)]
    assert len(set(values)) == 3002
    assert max(values) == 100
    assert all((value - 100) % 7 == 0 for value in values)
    assert mark(table) == min(values)


def test_values_of_ones_own_are_refused_always_and_taken_by_default(spark, tmp_path):
    always = made(spark, tmp_path / "always")
    with Untouched(tmp_path / "always"), pytest.raises(SchemaError, match="GENERATED ALWAYS"):
        always.append(spark.sql("SELECT 1 n, 5L id"))
    table = made(spark, tmp_path / "default", Identity(start=10, step=10, always=False))
    table.append(spark.sql("SELECT 1 n, 500L id"))
    assert mark(table) is None
    table.append(numbers(spark, 2, 4))
    assert rows(table) == [(1, 500), (2, 10), (3, 20)]


def test_numbers_that_are_used_up_are_an_error(spark, tmp_path):
    table = made(spark, tmp_path / "t", Identity(start=2**63 - 2))
    with Untouched(tmp_path / "t"), pytest.raises(ConstraintError, match="run out"):
        table.append(numbers(spark, 0, 3))
    table.append(numbers(spark, 0, 2))
    with Untouched(tmp_path / "t"), pytest.raises(ConstraintError, match="run out"):
        table.append(numbers(spark, 0, 1))


def test_loser_of_a_race_is_numbered_again_and_leaves_no_file(spark, tmp_path):
    path = tmp_path / "t"
    table = made(spark, path)
    with meanwhile(lambda: table.append(numbers(spark, 10, 13)), times=2):
        table.append(numbers(spark, 0, 2))
    assert rows(table, "id") == [(n,) for n in range(1, 9)]
    assert data_files(path) == live_files(path)


def test_writers_at_once_never_give_a_number_twice(spark, tmp_path):
    path = tmp_path / "t"
    made(spark, path)

    def work(writer):
        for batch in range(2):
            Table.for_path(path, spark).append(numbers(spark, writer * 100 + batch * 10, writer * 100 + batch * 10 + 4))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    table = Table.for_path(path, spark)
    found = rows(table)
    assert len({row[0] for row in found}) == len({row[1] for row in found}) == 24
    assert table.version == 6
    assert data_files(path) == live_files(path)


@pytest.mark.parametrize(
    ("type", "values"),
    [
        ("STRUCT<x: INT>", "(named_struct('x', 1)), (NULL)"),
        ("ARRAY<STRUCT<x: INT>>", "(array(named_struct('x', 1), NULL))"),
        ("MAP<STRING, STRUCT<x: INT>>", "(map('k', named_struct('x', 1), 'l', NULL))"),
    ],
)
def test_structs_that_are_null_are_numbered_with_the_others(spark, tmp_path, type, values):
    path = tmp_path / "t"
    table = Table.create(path, [column("id", "bigint", identity=Identity()), column("s", type)], spark)
    df = spark.sql(f"SELECT col1 AS s FROM VALUES {values}")
    table.append(df)
    table.overwrite(df)
    table.merge(df, "false").when_not_matched_insert_all().execute()
    count = df.count()
    stored = [row.s for row in table.to_df().collect()]
    assert sorted(map(repr, stored)) == sorted([repr(row.s) for row in df.collect()] * 2)
    assert table.schema["fields"][0]["metadata"]["delta.identity.highWaterMark"] == 3 * count

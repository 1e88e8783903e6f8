import json
from pathlib import Path

import pytest
from tests.support.tables import Untouched, info, rows

from halocline.errors import ConstraintError, InputError
from halocline.table import Table
from halocline.table.delta.new_table import column

INVARIANT = json.dumps({"expression": {"expression": "inv > 10"}})


@pytest.fixture(scope="module")
def ruled(spark, tmp_path_factory):
    """A table with every kind of rule, and one row that obeys them all."""
    path = tmp_path_factory.mktemp("rules") / "table"
    invariant = column("inv", "int").annotated("delta.invariants", INVARIANT)
    columns = [
        column("id", "bigint", nullable=False),
        invariant,
        column("amount", "decimal(10,2)"),
        column("twice", "bigint", generated="id * 2"),
        column("code", "char(3)"),
        column("name", "varchar(4)"),
        column("origin", "string", default="concat('we', 'b')"),
        column("tree", "struct<leaf: int not null, list: array<struct<x: int not null>>>"),
    ]
    table = Table.create(path, columns, spark, properties={"delta.constraints.positive": "amount > 0"})
    table.append(spark.sql(f"SELECT {GOOD}"))
    return table


TREE = "named_struct('leaf', 1, 'list', NULL) tree"
BARE = "1L id, 11 inv, 5BD amount"
GOOD = f"{BARE}, {TREE}"


def test_rows_that_obey_are_completed(spark, ruled):
    assert rows(ruled)[0] == (1, 11, 5, 2, None, None, "web", (1, None))
    assert str(ruled.protocol) == (
        "(1,7|W: allowColumnDefaults,appendOnly,checkConstraints,generatedColumns,invariants)"
    )


def test_text_is_padded_and_no_blank_is_cut(spark, ruled):
    sql = f"SELECT 7L id, 11 inv, 5BD amount, 14L twice, 'a' code, 'abc ' name, CAST(NULL AS STRING) origin, {TREE}"
    before = ruled.version
    ruled.append(spark.sql(sql))
    assert rows(ruled, "code", "name", "origin", where="id = 7") == [("a  ", "abc ", None)]
    assert ruled.version == before + 1


@pytest.mark.parametrize(
    ("sql", "rule", "cell"),
    [
        (f"CAST(NULL AS BIGINT) id, 11 inv, 5BD amount, {TREE}", "NOT NULL id", '"id":null'),
        (f"1L id, 10 inv, 5BD amount, {TREE}", "invariant of inv", '"inv":10'),
        (f"1L id, CAST(NULL AS INT) inv, 5BD amount, {TREE}", "invariant of inv", '"inv":null'),
        (f"1L id, 11 inv, -1BD amount, {TREE}", "CHECK positive", '"amount":-1.00'),
        (f"1L id, 11 inv, {TREE}", "CHECK positive", '"amount":null'),
        (f"{GOOD}, 3L twice", "generated column twice", '"twice":3'),
        (f"{GOOD}, CAST(NULL AS BIGINT) twice", "generated column twice", '"twice":null'),
        (f"{GOOD}, 'abcd' code", "length of code", '"code":"abcd"'),
        (f"{GOOD}, 'abc ' code", "length of code", '"code":"abc "'),
        (f"{GOOD}, 'abc   ' name", "length of name", '"name":"abc   "'),
        (f"{GOOD}, 'abcde' name", "length of name", '"name":"abcde"'),
        (f"{BARE}, named_struct('leaf', CAST(NULL AS INT), 'list', NULL) tree", "NOT NULL inside tree", '"leaf":null'),
        (BARE, "NOT NULL inside tree", '"tree":null'),
        (
            f"{BARE}, named_struct('leaf', 1, 'list', array(named_struct('x', CAST(NULL AS INT)))) tree",
            "NOT NULL inside tree",
            '"x":null',
        ),
    ],
)
def test_row_that_breaks_a_rule_names_it_shows_itself_and_writes_nothing(spark, ruled, sql, rule, cell):
    path = Path(ruled.store.address())
    df = spark.sql(f"SELECT {GOOD}").unionByName(spark.sql(f"SELECT {sql}"), allowMissingColumns=True)
    df = spark.sql(f"SELECT {sql}") if "twice" in sql else df
    with Untouched(path), pytest.raises(ConstraintError) as caught:
        ruled.append(df)
    assert caught.value.condition == "CONSTRAINT_VIOLATED"
    assert f"breaks {rule}" in caught.value.message
    assert cell in caught.value.sides["row"]


def test_append_only_table_takes_rows_and_keeps_them(spark, tmp_path):
    table = Table.create(tmp_path / "t", spark.range(2), properties={"delta.appendOnly": "true"})
    table.append(spark.range(2, 3))
    for arguments in ({}, {"where": "id = 1"}):
        with Untouched(tmp_path / "t"), pytest.raises(InputError) as caught:
            table.overwrite(spark.range(1, 2), **arguments)
        assert caught.value.condition == "TABLE_APPEND_ONLY"
    assert len(rows(table)) == 3


def test_rule_that_cannot_be_evaluated_is_named(spark, tmp_path):
    table = Table.create(tmp_path / "t", "id BIGINT", spark)
    table.add_constraint("late", "no_such_function(id) > 0", validator=lambda *_: None)
    with Untouched(tmp_path / "t"), pytest.raises(InputError, match="CHECK late") as caught:
        table.append(spark.range(1))
    assert caught.value.condition == "PREDICATE_INVALID"


def test_rows_that_a_later_filter_would_drop_are_not_judged(spark, tmp_path):
    table = Table.create(tmp_path / "t", "id BIGINT", spark, properties={"delta.constraints.even": "id % 2 = 0"})
    df = spark.range(10).where("id % 2 = 0").join(spark.range(4), "id")
    table.append(df)
    assert rows(table) == [(0,), (2,)]
    assert info(tmp_path / "t")["operationMetrics"]["numOutputRows"] == "2"


EMPTY = {
    "append": lambda t, df: t.append(df),
    "update": lambda t, df: t.update({"p": "''"}),
    "merge, insert": lambda t, df: t.merge(df, "t.k = s.k").when_not_matched_insert_all().execute(),
    "merge, update": lambda t, df: t.merge(df, "true").when_matched_update(set={"p": "s.p"}).execute(),
    "overwrite": lambda t, df: t.overwrite(df),
}


@pytest.mark.parametrize("write", EMPTY.values(), ids=EMPTY.keys())
def test_empty_text_in_a_partition_column_is_the_null_that_it_becomes(spark, tmp_path, write):
    columns = [column("k", "int"), column("p", "string")]
    rule = {"delta.constraints.there": "p IS NOT NULL"}
    table = Table.create(tmp_path / "t", columns, spark, partition_by="p", properties=rule)
    table.append(spark.sql("SELECT 1 k, 'a' p"))
    with pytest.raises(ConstraintError):
        write(table, spark.sql("SELECT 5 k, '' p"))
    assert rows(Table.for_path(tmp_path / "t", spark)) == [(1, "a")]


def test_what_is_computed_from_empty_text_in_a_partition_column_is_computed_from_null(spark, tmp_path):
    columns = [column("k", "int"), column("p", "string"), column("g", "int", generated="length(p)")]
    table = Table.create(tmp_path / "t", columns, spark, partition_by="p")
    table.append(spark.sql("SELECT 1 k, '' p"))
    assert rows(table) == [(1, None, None)]
    with pytest.raises(ConstraintError, match="condition by which rows are replaced"):
        table.overwrite(spark.sql("SELECT 2 k, '' p"), where="p = ''")
    assert rows(table) == [(1, None, None)]


def test_empty_text_that_a_partition_column_would_be_generated_as_is_refused(spark, tmp_path):
    columns = [column("k", "int"), column("v", "string"), column("p", "string", generated="upper(v)")]
    table = Table.create(tmp_path / "t", columns, spark, partition_by="p")
    table.append(spark.sql("SELECT 1 k, 'a' v UNION ALL SELECT 2, NULL"))
    for change in (
        lambda: table.append(spark.sql("SELECT 3 k, '' v")),
        lambda: table.update({"v": "''"}, "k = 1"),
        lambda: table.merge(spark.sql("SELECT 1 k"), "t.k = s.k").when_matched_update(set={"v": "''"}).execute(),
    ):
        with pytest.raises(ConstraintError, match="generated column p"):
            change()
    assert rows(table) == [(1, "a", "A"), (2, None, None)]


@pytest.mark.parametrize("type", ["DOUBLE", "FLOAT"])
def test_a_negative_zero_in_a_partition_column_keeps_its_sign(spark, tmp_path, type):
    df = spark.sql(f"SELECT id, CAST(0D * if(id % 2 = 0, 1, -1) AS {type}) d FROM range(0, 40, 1, 1)")
    table = Table.create(tmp_path / "z", df, spark, partition_by="d")
    table.append(df)
    assert sorted(str(row[1]) for row in rows(table)) == ["-0.0"] * 40 + ["0.0"] * 40
    assert table.to_df(where="d = 0").count() == 80, "the two are equal all the same"
    table.delete("d = 0")
    assert rows(table) == []


def test_a_single_in_a_partition_column_is_compared_as_it_is(spark, tmp_path):
    singles = spark.sql("SELECT 1 k, 0.1F f UNION ALL SELECT 2, 0.25F UNION ALL SELECT 3, NULL")
    table = Table.create(tmp_path / "f", singles, spark, partition_by="f")
    for where in ("f > 0.1", "NOT (f <= 0.1)", "f > 0.1D", "f >= 0.1000000001", "f = 0.1", "f = 0.1F", "f < 0.2"):
        found = [row["k"] for row in table.to_df(where=where).collect()]
        assert sorted(found) == sorted(row["k"] for row in table.to_df().where(where).collect()), where
    table.delete("f > 0.1")
    assert [row[0] for row in rows(table)] == [3]

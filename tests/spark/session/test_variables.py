"""Variables of the session in conditions and statements, which Spark replaces before it reads them."""

from __future__ import annotations

import pytest

import halocline as hc
from halocline import Table
from halocline.errors import InputError
from halocline.spark.session.session import settings
from halocline.spark.session.variables import with_variables

pytestmark = pytest.mark.connect

COLUMNS = "id INT, s STRING"
ROWS = [(1, "a"), (2, "${my.s}"), (3, "b")]
VARIABLES = {"my.s": "b", "my.id": "3", "my.again": "${spark:my.s}", "my.column": "s"}


@pytest.fixture
def filled(tmp_path, spark):
    def made(format="delta", **declared):
        table = Table.create(tmp_path / "t", COLUMNS, spark, format=format, **declared)
        for row in ROWS:
            table.append(spark.createDataFrame([row], COLUMNS).coalesce(1))
        return table

    with settings(spark, VARIABLES):
        yield made


def ids(df):
    return sorted(row.id for row in df.select("id").collect())


@pytest.mark.parametrize("where", ["s = '${my.s}'", "id = ${my.id}", "s = '${my.again}'", "${hivevar:my.column} = 'b'"])
@pytest.mark.parametrize("format", ["delta", "index"])
def test_rows_are_found_by_the_values_of_variables(where, format, filled, spark):
    table = filled(format)
    assert ids(table.to_df(where=where)) == [3]
    assert ids(table.to_df(where=where, columns=["id"])) == [3]
    assert ids(hc.sql(spark, f"SELECT id FROM {table.format}.`{table.url}` WHERE {where}")) == [3]
    table.delete(where)
    assert ids(table.to_df()) == [1, 2]


@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}])
@pytest.mark.parametrize("by", [[], ["s"]])
def test_changes_find_rows_by_the_values_of_variables(by, properties, filled, spark):
    table = filled(partition_by=by, properties=properties)
    table.update({"id": "${my.id} + 4"}, "s = '${my.s}'")
    assert ids(table.to_df()) == [1, 2, 7]
    hc.sql(spark, f"UPDATE delta.`{table.url}` SET id = ${{my.id}} WHERE s = '${{my.s}}'")
    assert ids(table.to_df()) == [1, 2, 3]
    table.overwrite(spark.createDataFrame([(9, "b")], COLUMNS), where="s = '${my.s}'")
    assert ids(table.to_df()) == [1, 2, 9]


def test_a_statement_has_the_values_that_those_before_it_have_set(filled, spark):
    table = filled()
    with settings(spark, {"my.id": "1"}):
        text = f"SET my.id = 2; SELECT id FROM delta.`{table.url}` WHERE id = ${{my.id}}"
        assert ids(hc.sql(spark, text)) == [2]


def test_values_of_parameters_hold_no_variables(filled, spark):
    table = filled()
    hc.sql(spark, f"UPDATE delta.`{table.url}` SET s = :s WHERE id = 1", {"s": "${my.s}${my.id}"})
    assert table.to_df(where="id = 1").first().s == "${my.s}${my.id}"
    assert ids(hc.sql(spark, f"SELECT id FROM delta.`{table.url}` WHERE s = ?", ["${my.s}"])) == [2]


def test_variables_stay_where_the_session_leaves_them(filled, spark):
    table = filled()
    with settings(spark, {"spark.sql.variable.substitute": "false"}):
        assert ids(table.to_df(where="s = '${my.s}'")) == [2]
        assert ids(hc.sql(spark, f"SELECT id FROM delta.`{table.url}` WHERE s = '${{my.s}}'")) == [2]


def test_what_the_session_does_not_set_is_left_for_spark(filled, spark):
    table = filled()
    assert with_variables(spark, "'${env:HOME} ${my.other} ${other:my.s}'") == "'${env:HOME} ${my.other} ${other:my.s}'"
    assert ids(table.to_df(where="s = 'b' AND '${env:HOME}' <> ''")) == [3]


def test_a_variable_that_stands_for_itself_is_refused(filled, spark):
    table = filled()
    with settings(spark, {"my.a": "${my.b}", "my.b": "${my.a}"}), pytest.raises(InputError, match="stands for itself"):
        table.to_df(where="s = '${my.a}'")

"""SQL on Hudi and index tables, by name, on classic Spark and on Connect, and in a notebook's cell."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from tests.support.sql import rows

import halocline as hc
from halocline.errors import InputError, UnsupportedError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """A table of each format."""
    folder = tmp_path_factory.mktemp("lake")
    rows = spark.sql("SELECT id, if(id % 2 = 0, 'at', 'nz') AS country, 100L AS ts FROM range(6)")
    hc.Table.create(folder / "orders", rows, spark)
    hc.Table.create(folder / "trips", rows, spark, format="hudi", version=8, keys="id", ordering="ts")
    hc.Table.create(folder / "logs", rows.selectExpr("id", "country AS message"), spark, format="index")
    return hc.Lake.discover(folder, spark)


@pytest.mark.connect
def test_tables_of_all_formats_are_read_in_one_query(lake):
    text = "SELECT o.id, l.message FROM orders o JOIN trips t USING (id) JOIN logs l USING (id) WHERE t.country = 'nz'"
    assert rows(lake, text) == [(1, "nz"), (3, "nz"), (5, "nz")]
    assert rows(lake, "WITH c AS (SELECT country FROM trips) SELECT country, count(*) FROM c GROUP BY ALL") == [
        ("at", 3),
        ("nz", 3),
    ]


@pytest.mark.connect
def test_rows_are_inserted_into_tables_of_all_formats(lake):
    first = lake.table("trips").version
    lake.sql("INSERT INTO trips (id, country, ts) VALUES (7, 'pt', 200)")
    lake.sql("INSERT INTO trips SELECT id + 1, country, ts FROM trips WHERE id = 7")
    lake.sql("INSERT INTO logs (id, message) SELECT id, 'again' FROM orders WHERE id = 0")
    assert rows(lake, "SELECT id FROM trips WHERE country = 'pt'") == [(7,), (8,)]
    assert rows(lake, f"SELECT count(*) FROM trips VERSION AS OF {first}") == [(6,)]
    assert rows(lake, "SELECT count(*) FROM logs WHERE message = 'again'") == [(1,)]
    assert rows(lake, "SELECT count(*) FROM logs VERSION AS OF 0") == [(6,)]


@pytest.mark.parametrize("format", ["hudi", "index"])
@pytest.mark.parametrize(("mode", "left"), [("static", [(9, "at")]), ("dynamic", [(1, "nz"), (9, "at")])])
def test_rows_are_replaced_as_the_session_says(spark, tmp_path, conf, format, mode, left):
    named = {"keys": "id"} if format == "hudi" else {}
    first = spark.sql("SELECT * FROM VALUES (0, 'at'), (1, 'nz') AS v(id, country)")
    hc.Table.create(tmp_path / "t", first, spark, format=format, partition_by="country", **named)
    lake = hc.Lake.discover(tmp_path, spark)
    conf("spark.sql.sources.partitionOverwriteMode", mode)
    lake.sql("INSERT OVERWRITE t (id, country) VALUES (9, 'at')")
    assert rows(lake, "SELECT id, country FROM t") == left


@pytest.mark.parametrize("name", ["trips", "logs"])
def test_a_table_is_read_as_of_a_time_that_a_function_without_arguments_gives(lake, name):
    now = rows(lake, f"SELECT count(*) FROM {name}")
    assert rows(lake, f"SELECT count(*) FROM {name} TIMESTAMP AS OF current_timestamp()") == now
    assert rows(lake, f"SELECT count(o.id) FROM {name} TIMESTAMP AS OF current_timestamp() AS o WHERE o.id >= 0") == now


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE trips SET ts = 1",
        "OPTIMIZE logs",
        "ALTER TABLE trips ADD COLUMN n INT",
        "INSERT INTO trips PARTITION (nowhere) (id, country, ts) VALUES (8, 'pt', 200)",
    ],
)
def test_statements_that_a_format_lacks_are_refused(lake, text):
    with pytest.raises(UnsupportedError, match="Delta tables"):
        lake.sql(text)


@pytest.fixture
def shell(spark):
    """A notebook's kernel, as IPython runs it."""
    interactiveshell = pytest.importorskip("IPython.core.interactiveshell")
    made = interactiveshell.InteractiveShell()
    made.user_ns["spark"] = spark
    made.run_line_magic("load_ext", "halocline")
    return made


def test_cell_of_sql_runs_in_a_notebook(shell, lake):
    shell.user_ns["shop"] = lake
    found = shell.run_cell("%%halocline shop\nSELECT id FROM orders\nWHERE country = 'at'")
    assert found.error_in_exec is None, found.error_in_exec
    assert isinstance(found.result, DataFrame)
    assert sorted(row.id for row in found.result.collect()) == [0, 2, 4]
    path = lake.table("orders").url.removeprefix("file://")
    found = shell.run_cell(f"%%halocline\nSELECT count(*) AS n FROM delta.`{path}`")
    assert found.result.collect()[0].n == 6
    wrong = shell.run_cell("%%halocline shop\nSELEC 1")
    assert wrong.error_in_exec is not None


def test_notebook_shows_tables_as_html(shell, lake):
    shell.user_ns["orders"] = lake.table("orders")
    shown, _ = shell.display_formatter.format(shell.run_cell("orders").result)
    assert "<table>" in shown["text/html"]
    history, _ = shell.display_formatter.format(shell.run_cell("orders.history()").result)
    assert "CREATE TABLE AS SELECT" in history["text/html"]


@pytest.mark.parametrize(("name", "format"), [("orders", "delta"), ("trips", "hudi"), ("logs", "index")])
def test_a_path_under_another_format_is_refused_with_the_one_it_has(lake, spark, name, format):
    url, count = lake.table(name).url, lake.table(name).to_df().count()
    for said in ("delta", "hudi", "index", "halocline"):
        if said in (format, "halocline"):
            assert hc.sql(spark, f"SELECT count(*) FROM {said}.`{url}`").collect()[0][0] == count
            continue
        for sql in (lake.sql, lambda text: hc.sql(spark, text)):
            with pytest.raises(InputError, match="another format") as refused:
                sql(f"SELECT * FROM {said}.`{url}`")
            assert f"{format}.`{url}`" in refused.value.next_step

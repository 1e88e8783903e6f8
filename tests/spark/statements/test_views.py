"""Views that follow their tables, and tables of Spark's catalog that do."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

import halocline as hc
from halocline.cli import main
from halocline.errors import InputError, NotFoundError
from halocline.notebook import first_rows, load_ipython_extension


@pytest.fixture
def orders(spark, tmp_path):
    return hc.Table.create(tmp_path / "sales" / "orders", spark.range(3), spark)


def count(spark, view):
    return spark.sql(f"SELECT count(*) FROM {view}").collect()[0][0]


def test_a_view_has_the_rows_that_its_table_has_when_it_is_asked(spark, orders):
    orders.register_view("followed")
    orders.register_view("some", where="id > 1")
    orders.register_view("pinned", version=0)
    assert [count(spark, view) for view in ("followed", "some", "pinned")] == [3, 1, 3]
    hc.Table.for_path(orders.url, spark).append(spark.range(3, 5))  # by somebody else, as far as the view knows
    assert [count(spark, view) for view in ("followed", "some", "pinned")] == [5, 3, 3]
    orders.delete("id < 4")
    assert [count(spark, view) for view in ("followed", "some", "pinned")] == [1, 1, 3]
    assert spark.sql("SELECT a.id FROM followed a JOIN followed b ON a.id = b.id").collect() == [(4,)]


@pytest.mark.parametrize("zone", ["Europe/Vienna", "+05:30"])
def test_a_view_reads_times_without_a_zone_in_that_of_the_session(spark, conf, tmp_path, zone):
    conf("spark.sql.session.timeZone", zone)
    rows = pa.table({"id": [1], "at": pa.array([datetime(2026, 1, 1, 12, 30, tzinfo=UTC)], pa.timestamp("us", "UTC"))})
    write_deltalake(str(tmp_path / "t"), rows, partition_by=["at"])  # it keeps 2026-01-01 12:30:00.000000
    table = hc.Table.for_path(tmp_path / "t", spark)
    table.register_view("zoned")
    text = "CAST(at AS STRING) AS at"
    assert table.to_df().selectExpr(text).collect() == [("2026-01-01 12:30:00",)]
    assert spark.sql(f"SELECT {text} FROM zoned").collect() == [("2026-01-01 12:30:00",)]
    assert table.to_df(where="at = '2026-01-01 12:30:00'").count() == 1
    with pytest.raises(NotFoundError, match="2126-01-01T"):
        table.to_df(timestamp="2126-01-01 12:30:00")


def test_views_of_all_formats_follow_their_tables(spark, tmp_path):
    hc.Table.create(tmp_path / "trips", spark.range(3), spark, format="hudi", version=8, keys="id")
    hc.Table.create(tmp_path / "logs", spark.range(3), spark, format="index")
    lake = hc.Lake.discover(tmp_path, spark)
    assert lake.register_views() == {"logs": "logs", "trips": "trips"}
    for name in ("logs", "trips"):
        lake.sql(f"INSERT INTO {name} (id) VALUES (3), (4)")
        assert count(spark, name) == 5


def test_a_view_keeps_its_columns_and_says_when_the_table_has_lost_one(spark, tmp_path):
    mapped = {"delta.columnMapping.mode": "name"}
    table = hc.Table.create(tmp_path / "t", spark.sql("SELECT 1 AS a, 2 AS b"), spark, properties=mapped)
    table.register_view("columns_of_t")
    table.add_columns([{"name": "c", "type": "long", "nullable": True, "metadata": {}}])
    assert spark.sql("SELECT * FROM columns_of_t").columns == ["a", "b"]
    assert spark.sql("SELECT * FROM columns_of_t").collect() == [(1, 2)]
    table.drop_column("b")
    with pytest.raises(Exception, match="have changed since its view was made"):
        spark.sql("SELECT a FROM columns_of_t").collect()


def test_the_tables_of_a_lake_are_views_and_damaged_ones_are_left_out(spark, orders, tmp_path):
    hc.Table.create(tmp_path / "items", spark.range(1), spark)
    (tmp_path / "torn" / "_delta_log").mkdir(parents=True)
    (tmp_path / "torn" / "_delta_log" / f"{0:020}.json").write_text("{")
    lake = hc.Lake.discover(tmp_path, spark)
    with pytest.warns(UserWarning, match="torn has no view"):
        assert lake.register_views() == {"items": "items", "sales.orders": "sales_orders"}
    orders.append(spark.range(1))
    assert count(spark, "sales_orders") == 4
    hc.Table.create(tmp_path / "sales_orders", spark.range(1), spark)
    again = hc.Lake.discover(tmp_path, spark)
    with pytest.raises(InputError, match="two tables would have the view sales_orders"):
        again.register_views(names=["sales.orders", "sales_orders"])


def test_tables_of_any_name_are_views_and_backticks_are_given_where_sql_needs_them(spark, tmp_path):
    for number, name in enumerate(("my-table", "v1.2", "täglich", "odd`one")):
        hc.Table.create(tmp_path / "raw" / name, spark.range(number), spark)
    lake = hc.Lake.discover(tmp_path, spark)
    views = lake.register_views()
    assert views["raw.my-table"] == "`raw_my-table`"
    assert [count(spark, views[f"raw.{name}"]) for name in ("my-table", "`v1.2`", "täglich", "`odd``one`")] == [
        0,
        1,
        2,
        3,
    ]
    lake.table("raw.täglich").register_view("every day", version=0)
    assert count(spark, "`every day`") == 2
    for name in ("a.b", "", "a`b"):
        with pytest.raises(InputError, match="has one part"):
            lake.table("raw.täglich").register_view(name)


def test_two_tables_that_differ_in_case_have_one_view_name_and_both_are_told(spark, tmp_path):
    for name in ("Items", "items"):
        hc.Table.create(tmp_path / name, spark.range(1), spark)
    with pytest.raises(InputError, match="Items, items"):
        hc.Lake.discover(tmp_path, spark).register_views()


def test_a_view_that_sql_makes_can_follow_as_well(spark, orders):
    path = orders.store.address()
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW by_sql USING halocline OPTIONS (path '{path}', follow 'true')")
    assert count(spark, "by_sql") == 3
    orders.append(spark.range(3, 5))
    assert count(spark, "by_sql") == 5


def test_a_table_of_sparks_catalog_says_what_to_do_instead(spark, orders):
    path = orders.store.address()
    with pytest.raises(Exception, match="CREATE TEMPORARY VIEW name USING halocline"):
        spark.sql(f"CREATE TABLE nowhere USING halocline LOCATION '{path}'")
    # Spark does not ask about a table whose columns are given; then reading it tells.
    spark.sql(f"CREATE TABLE nowhere (id BIGINT) USING halocline LOCATION '{path}'")
    try:
        for statement in ("SELECT * FROM nowhere", "INSERT INTO nowhere VALUES (1)"):
            with pytest.raises(Exception, match="Spark's catalog") as refused:
                spark.sql(statement).collect()
            for word in ("lake.sql", "Table.create", "register_views", "DROP TABLE"):
                assert word in str(refused.value)
    finally:
        spark.sql("DROP TABLE nowhere")


def test_ways_to_make_a_table_of_sparks_catalog_say_what_to_do_instead(spark):
    rows = spark.range(2)
    for make in (
        lambda: spark.sql("CREATE TABLE nowhere USING halocline AS SELECT 1L AS id"),
        lambda: rows.write.format("halocline").saveAsTable("nowhere"),
        lambda: rows.writeTo("nowhere").using("halocline").create(),
    ):
        with pytest.raises(Exception, match=r"(?s)Spark's catalog.*neither LOCATION nor options") as refused:
            make()
        assert "lake.sql" in str(refused.value)
        assert not spark.catalog.tableExists("nowhere")


def test_name_that_spark_registers_beside_a_path_goes_without_the_table(spark, tmp_path):
    path = str(tmp_path / "named")
    spark.range(4).write.format("halocline").option("path", path).saveAsTable("nowhere")
    try:
        with pytest.raises(Exception, match="DROP TABLE"):
            spark.table("nowhere").collect()
    finally:
        spark.sql("DROP TABLE nowhere")
    assert hc.Table.for_path(path, spark).count() == 4


# ---------------------------------------------------------------------- the command, and notebooks


def test_the_command_runs_statements_by_name(spark, orders, tmp_path, capsys):
    code = main.run(
        ["sql", str(tmp_path), "-e", "DELETE FROM sales.orders WHERE id = 0", "-e", "SELECT * FROM sales.orders"]
    )
    out = capsys.readouterr().out
    assert code == 0
    assert "num_affected_rows" in out
    assert "(2 rows)" in out
    main.run(["sql", str(tmp_path), "-e", "SELECT max(id) m FROM sales.orders", "--output", "json"])
    assert '"m": 2' in capsys.readouterr().out
    assert main.run(["sql", str(tmp_path), "-e", "OPTIMIZE sales.order"]) == 1
    assert "sales.orders" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT * FROM sales.order", "sales.orders"),
        ("SELECT 1 +", "PARSE_SYNTAX_ERROR"),
        ("SELEC 1", "Did you mean SELECT?"),
        ("SELECT 1/0", "DIVIDE_BY_ZERO"),
    ],
)
def test_what_is_refused_is_told_in_a_few_lines(spark, orders, tmp_path, capsys, text, told):
    assert main.run(["sql", str(tmp_path), "-e", text]) == 1
    shown = capsys.readouterr().err
    assert told in shown
    assert "\tat " not in shown, "a stack of Java tells a person nothing"


class Shell:
    """As much of IPython as an extension needs."""

    def __init__(self, **names):
        self.user_ns = names
        self.magics = {}

    def register_magic_function(self, function, kind, name=None):
        self.magics[kind, name or function.__name__] = function


def test_a_cell_of_a_notebook_runs_on_the_lake_that_its_first_line_names(spark, orders, tmp_path):
    shell = Shell(spark=spark, shop=hc.Lake.discover(tmp_path, spark), other=3)
    shell.display_pub = CapturingDisplayPublisher()
    hc.load_ipython_extension(shell)
    assert load_ipython_extension.__doc__
    cell = shell.magics["cell", "halocline"]
    assert cell("shop", "SELECT count(*) FROM sales.orders").collect() == [(3,)]
    assert cell(str(tmp_path), "-- by path\nSELECT max(id) FROM sales.orders").collect() == [(2,)]
    assert cell("", f"SELECT count(*) FROM delta.`{tmp_path}/sales/orders`").collect() == [(3,)]
    with pytest.raises(InputError, match="other is not a lake"):
        cell("other", "SELECT 1")


def test_a_cell_shows_its_first_rows_and_has_the_data_frame_as_its_value(spark, orders, tmp_path):
    shell = InteractiveShell(display_pub_class=CapturingDisplayPublisher)
    shell.user_ns.update(spark=spark, shop=hc.Lake.discover(tmp_path, spark))
    hc.load_ipython_extension(shell)
    value = shell.run_cell_magic("halocline", "shop", "SELECT id, '<b>' AS id FROM sales.orders ORDER BY 1")
    (displayed,) = shell.display_pub.outputs
    text = "id  id (2)\n0   <b>\n1   <b>\n2   <b>\n(3 rows)"
    assert displayed["data"]["text/plain"] == text
    assert "<td>2</td><td>&lt;b&gt;</td>" in displayed["data"]["text/html"]
    assert value.count() == 3
    many = first_rows(spark.range(21))
    assert many["text/plain"].endswith("\n19\n(only the first 20 rows)")
    assert "<td>20</td>" not in many["text/html"]
    assert first_rows(spark.range(0))["text/plain"] == "id\n(0 rows)"

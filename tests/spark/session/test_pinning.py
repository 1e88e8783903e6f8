"""Rows that Spark computes once, and what it tells of them meanwhile."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from halocline.spark.session.pinning import computed_and_counted, computed_once, computed_with_figures

pytestmark = pytest.mark.connect

CHANCE = "rand() AS r"


def test_rows_of_chance_stay_as_they_were_computed(spark):
    rows = computed_once(spark.range(100).selectExpr("id", CHANCE))
    assert rows.collect() == rows.collect()


def test_figures_are_those_of_the_rows_that_are_kept(spark):
    source = spark.range(0, 1000, 1, 3).selectExpr("id", CHANCE)
    rows, (count, lowest, highest) = computed_with_figures(source, [F.count(F.lit(1)), F.min("r"), F.max("r")])
    kept = [row.r for row in rows.collect()]
    assert (count, lowest, highest) == (1000, min(kept), max(kept))
    assert rows.columns == ["id", "r"]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("SELECT id FROM range(0)", 0),
        ("SELECT id FROM range(5) WHERE false", 0),
        ("SELECT a.id FROM range(9) a JOIN range(0) b ON a.id = b.id", 0),
        ("SELECT id FROM range(9) ORDER BY id DESC", 9),
        ("SELECT id % 3 AS id FROM range(9) GROUP BY id % 3", 3),
        ("SELECT id FROM range(100) LIMIT 7", 7),
        ("SELECT 1L AS id", 1),
    ],
)
def test_rows_of_every_kind_of_query_are_counted(spark, query, count):
    rows, counted = computed_and_counted(spark.sql(query))
    assert counted == count == rows.count()

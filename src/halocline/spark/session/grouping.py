"""Figures of groups of rows, with the values by which rows are grouped.

A session may be set to leave those values out of what `groupBy(…).agg(…)` gives (`spark.sql.retainGroupColumns`). So
they are asked for here like any other figure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from halocline.spark.session.functions import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COUNT: Final = "count"
_KEY: Final = "__halocline_key_"


def grouped(df: DataFrame, *keys: str, **figures: Column) -> DataFrame:
    """A row for each group: its keys under their names, then its figures under theirs."""
    names = [f"{_KEY}{number}" for number in range(len(keys))]
    values = [F.min(key).alias(name) for key, name in zip(keys, names, strict=True)]
    rows = df.groupBy(*keys).agg(*values, *(figure.alias(name) for name, figure in figures.items()))
    shown = [F.col(name).alias(key) for name, key in zip(names, keys, strict=True)]
    return rows.select(*shown, *map(F.col, figures))


def counted(df: DataFrame, *keys: str) -> DataFrame:
    """A row for each group: its keys, and the number of its rows as `count`."""
    return grouped(df, *keys, **{COUNT: F.count(F.lit(1))})


def counts_by(df: DataFrame, key: str) -> dict[Any, int]:
    """The number of rows for each value of a column."""
    return {row[0]: row[1] for row in counted(df, key).collect()}

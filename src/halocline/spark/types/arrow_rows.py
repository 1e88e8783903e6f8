"""Rows between Spark and Arrow in this process.

A struct that is null has nulls below it, also where the schema says NOT NULL: `named_struct('x', 1)` or null is a
`struct<x: int not null>` that may be null. Arrow refuses to cast such values to a field that allows none, and PySpark
casts whatever it fetches or is given. So rows go both ways under a schema that allows nulls everywhere; what must not
be null is for the rules of a table to find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from halocline.schema.arrow_input import with_short_offsets
from halocline.schema.visitor import nullable
from halocline.spark.types.columns import spark_schema, struct_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def fetched(df: DataFrame) -> pa.Table:
    """The rows of a DataFrame."""
    known = struct_of(df.schema)
    loose = nullable(known)
    rows: Any = (df if loose == known else df.to(spark_schema(loose.fields))).toArrow()
    return with_short_offsets(rows)


def frame_of_arrow(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Rows as a DataFrame of a schema, but for what it says about nulls."""
    return spark.createDataFrame(rows, spark_schema(nullable(struct_of(schema)).fields))

"""Makes `format("halocline")` known to Spark.

Spark imports every module whose name begins with `pyspark_` and registers the data source that it calls
`DefaultSource`. There is nothing else in here.
"""

from halocline.source.data_source import HaloclineSource as DefaultSource

__all__ = ["DefaultSource"]

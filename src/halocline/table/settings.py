"""The settings of a table; see `halocline.spark.settings`, where the data source finds the same ones."""

from halocline.spark.settings import NAMES, PREFIX, Settings

__all__ = ["NAMES", "PREFIX", "Settings"]

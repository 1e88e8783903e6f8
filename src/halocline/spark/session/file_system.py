"""Which file systems a Spark session has.

Spark reads URLs through connectors that are part of the user's Spark, not of Halocline; PySpark from a package index
has none for object stores. Whether there is one is found out by asking Spark for a path that does not exist: "not
found" means that the file system works. The answer is remembered per session and bucket.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Final

from halocline.spark.session.session import remembered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halocline.storage.base import Store

_NONE: Final = re.compile(r"No FileSystem for scheme|ClassNotFoundException|UNSUPPORTED_FILE_SYSTEM")
_OTHER_NAMES: Final = {"s3": ("s3", "s3a"), "s3a": ("s3a", "s3"), "gcs": ("gs",)}
_PROBE: Final = ".halocline-probe/absent"


def spark_address(spark: SparkSession, address: str) -> str | None:
    """The address by which Spark reaches what a store calls by this one; None if Spark has no file system for it."""
    if address.startswith("/"):
        return f"file://{address}"
    scheme, _, rest = address.partition("://")
    bucket = rest.partition("/")[0]

    def find() -> str | None:
        names = _OTHER_NAMES.get(scheme, (scheme,))
        return next((name for name in names if _answers(spark, f"{name}://{bucket}/{_PROBE}")), None)

    found = remembered(spark, f"file system {scheme}://{bucket}", find)
    return None if found is None else f"{found}://{rest}"


def remove_folder(store: Store, folder: str) -> None:
    """Removes a folder that holds nothing of use; buckets have none to remove."""
    local = store.address(folder)
    if local.startswith("/"):
        shutil.rmtree(local, ignore_errors=True)


def _answers(spark: SparkSession, url: str) -> bool:
    try:
        # The schema makes a Connect server look, too.
        _ = spark.read.schema("a int").parquet(url).schema
    except Exception as error:  # the classes differ between classic Spark and Connect
        return _NONE.search(str(error)) is None
    return True

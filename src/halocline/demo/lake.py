"""The lake of the demo: events as they come in, orders, and notes that people search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from halocline.demo.ledger import Ledger
from halocline.demo.pipelines import BATCH, amounts, notes, rows
from halocline.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS: Final = "bronze.events"
ORDERS: Final = "silver.orders"
NOTES: Final = "gold.notes"


def make_lake(folder: Path, spark: SparkSession, ledger: Ledger) -> dict[str, str]:
    """Makes the tables as they were made some years ago, with their first rows; returns each path by its name."""
    paths = {name: str(folder / name.replace(".", "/")) for name in (EVENTS, ORDERS, NOTES)}
    first = rows(spark, 0, BATCH, 0)
    # Deletes and appends go on side by side: an append that a delete has not seen does not stop it.
    # History that a dropped feature leaves behind may go soon, so that the way back does not wait for a day; but not
    # while a write that began on it may be under way, which would be committed where nobody looks any more.
    properties = {
        "delta.isolationLevel": "WriteSerializable",
        "delta.dropFeatureTruncateHistory.retentionDuration": "interval 10 seconds",
    }
    events = Table.create(paths[EVENTS], first, format="hudi", version=6, kind="cow", keys="id", ordering="batch")
    orders = Table.create(paths[ORDERS], first, properties=properties)
    searched = Table.create(paths[NOTES], notes(spark, 0, BATCH, 0), format="index", fields={"note": "text"})
    for name, table in ((EVENTS, events), (ORDERS, orders), (NOTES, searched)):
        ledger.wrote(name, table.version, BATCH, amounts(0, BATCH))
    return paths

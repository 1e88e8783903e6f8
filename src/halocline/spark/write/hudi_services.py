"""Parts of a Hudi table service, each done by a task of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from halocline.formats.hudi.maintain.running import Runner, Work, in_turn
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.spark.session.tasks import in_tasks
from halocline.spark.write.hudi_rows import attempt
from halocline.storage.base import Store
from halocline.storage.memory import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def in_spark_tasks(spark: SparkSession, store: Store) -> Runner:
    """What has parts done by tasks, one each; by this process, if no other sees the store."""
    if isinstance(store, MemoryStore):
        return in_turn

    def run(work: Work, parts: Sequence[Any]) -> list[WriteStat]:
        def told(part: Any) -> bytes:
            return msgspec.json.encode(work(part, "-".join(map(str, attempt()))))

        return [msgspec.json.decode(each, type=WriteStat) for each in in_tasks(spark, told, parts)]

    return run

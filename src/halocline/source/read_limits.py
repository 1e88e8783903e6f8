"""How much of a stream Spark asks a source for, from 4.2 on; what stands in for that before."""

from __future__ import annotations

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:  # pragma: no cover
    ReadAllAvailable = ReadMaxFiles = None  # type: ignore[assignment,misc]

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands in where Spark has no such interface."""


__all__ = ["ReadAllAvailable", "ReadMaxFiles", "SupportsTriggerAvailableNow"]

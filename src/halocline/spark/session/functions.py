"""PySpark's column functions as `F`, imported when one is first used: whatever needs no rows does without PySpark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyspark.sql.functions

    F = pyspark.sql.functions
else:

    class _Functions:
        def __getattr__(self, name: str) -> Any:
            from pyspark.sql import functions

            return getattr(functions, name)

    F = _Functions()

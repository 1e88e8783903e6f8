"""Adding the micro-batches of a stream, each once.

A query with `foreachBatch` hands over DataFrames, so everything that `Table.append` does works in it: rules, defaults,
generated and identity columns. A batch that Spark repeats after a crash is found in the table and skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from halocline.errors import InputError
from halocline.table.delta.append import Writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Streaming(Writing):
    """The part of `Table` that serves streams."""

    def append_batch(self, df: DataFrame, batch_id: int, *, app_id: str) -> int:
        """Adds the rows of one micro-batch, and returns the version that has them; nothing if it is there already.

        Args:
            df: The rows.
            batch_id: The number of the batch, as `foreachBatch` gives it.
            app_id: A name for the query. It must stay the same as long as the query's checkpoint, and no longer: a new
                checkpoint counts batches from the start, and needs a new name.

        Raises:
            InputError: The name is empty, or the number is none.
            ConstraintError: A row breaks a rule of the table; nothing was written.
            IncompatibleError: The release that acts may not write the table.

        Example:
            >>> def add(df, batch_id):
            ...     orders.append_batch(df, batch_id, app_id="orders-from-kafka-1")
            >>> clicks.writeStream.foreachBatch(add).start()  # doctest: +SKIP
        """
        if not app_id or not isinstance(batch_id, int) or batch_id < 0:
            raise InputError(
                "a batch needs the name of its query and a number",
                sides={"app_id": repr(app_id), "batch_id": repr(batch_id)},
                next_step="Pass the batch_id that foreachBatch gives, and a name of your own.",
            )
        return self.append(df, txn=(app_id, batch_id))

"""The user's `Table`: one class for every format, put together from its parts.

Each part stands in the module of its name: `reading`, `writing`, `changing`, `upkeep`, `altering`, `creating`. All of
them reach the table through `opened.Opened.snapshot`, and so through the gate.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from halocline.errors import UnsupportedError
from halocline.formats.base import TableFormat, detect_format, formats_at
from halocline.formats.delta.features.drop_work import Rewriter
from halocline.spark.session.settings import Settings
from halocline.storage import open_store
from halocline.table.delta.alter import Altering, Validator
from halocline.table.delta.append import Writing
from halocline.table.delta.clone import Cloning
from halocline.table.delta.convert import Converting
from halocline.table.delta.create import Creating
from halocline.table.delta.read import Reading
from halocline.table.delta.restore import Restoring
from halocline.table.delta.row_verbs import Changing
from halocline.table.delta.stream import Streaming
from halocline.table.delta.vacuum import Upkeep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Table(Altering, Changing, Cloning, Converting, Creating, Restoring, Streaming, Upkeep, Writing, Reading):
    """A table, opened with `Table.for_path`.

    Example:
        >>> orders = Table.for_path("lake/orders", spark)  # doctest: +SKIP
        >>> orders.to_df(where="day >= '2026-11-01'").groupBy("country").count().show()  # doctest: +SKIP
        >>> orders.can("trino@426", "read")  # doctest: +SKIP
    """

    format = TableFormat.DELTA

    @classmethod
    def for_path(
        cls,
        path: str | os.PathLike[str],
        spark: SparkSession | None = None,
        *,
        options: Mapping[str, str] | None = None,
        release: str | None = None,
    ) -> Table:
        """Finds the table at a path or URL and checks that it may be read.

        Args:
            path: A local path or a URL: file, s3, gs, abfss, memory.
            spark: The session for rows; not needed to inspect and check.
            options: Settings (see `halocline.spark.session.settings`) and options of the store.
            release: Act as this release, e.g. `deltalake@1.0.2`: refuse what it would refuse.

        Raises:
            NotFoundError: There is no table.
            IncompatibleError: The release that acts may not read it.
        """
        given = dict(options or {})
        if release is not None:
            given["halocline.release"] = release
        settings = Settings.read(given, spark)
        store = open_store(path, {key: value for key, value in given.items() if not key.startswith("halocline.")})
        found = detect_format(store)
        if found is not TableFormat.DELTA:
            raise UnsupportedError(
                f"{store.root} is a {found} table, which this release does not read yet",
                sides={"found": found.value, "this release": TableFormat.DELTA.value},
            )
        table = cls(store, spark, settings)
        table.snapshot()
        return table

    @staticmethod
    def is_table(path: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> bool:
        """Whether there is a table at a path or URL."""
        return bool(formats_at(open_store(path, options)))

    def _rewriter(self) -> Rewriter | None:
        if self._spark is None:
            return None
        from halocline.table.delta.rewriting import SparkRewriter

        return SparkRewriter(self._spark)

    def _validator(self) -> Validator | None:
        if self._spark is None:
            return None
        from halocline.table.delta.constraints import check_existing_rows

        spark = self._spark
        return lambda snapshot, name, condition: check_existing_rows(spark, snapshot, name, condition)

    def __repr__(self) -> str:
        return f"Table({self.url!r})"

"""A Hudi table, as a user holds it: one line for every verb, which stands in the module of its name."""

from __future__ import annotations

from typing import Any

from halocline.compat.terms import Terms
from halocline.formats.base import TableFormat
from halocline.formats.hudi.detail import detail_of
from halocline.formats.hudi.history import HudiHistoryEntry, history
from halocline.formats.hudi.incremental import settled_time
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.terms import terms_of
from halocline.html import Entries
from halocline.schema.arrow import struct_of_arrow
from halocline.schema.json_edge import to_json
from halocline.table.hudi import move, read, services, write
from halocline.table.hudi.create import create
from halocline.table.hudi.opened import HudiOpened
from halocline.table.opening import Moment
from halocline.table.table import Table, verb


class HudiTable(Table, format=TableFormat.HUDI):
    """A table in the format of Apache Hudi.

    Its versions are the instants of its writes, as numbers.

    Example:
        >>> trips = Table.for_path("lake/trips", spark)  # doctest: +SKIP
        >>> trips.to_df(query="read_optimized").count()  # doctest: +SKIP
    """

    opened: HudiOpened
    _opens = HudiOpened
    _create = staticmethod(create)

    # ------------------------------------------------------------------ what it is

    @property
    def version(self) -> int:
        """The instant of the newest write, as a number; 0 if there is none."""
        return self.snapshot().version

    @property
    def settled(self) -> str | None:
        """The time up to which every write is known that will ever be in a range; None if there is no write yet.

        A range that ends here, and the next one from here on, leave no write out and take none twice.

        Example:
            >>> Table.for_path("lake/trips").settled  # doctest: +SKIP
            '20261115114938669'
        """
        return settled_time(self.snapshot().timeline)

    @property
    def terms(self) -> Terms:
        """See `Table.terms`."""
        return terms_of(self.store)

    def snapshot(
        self, operation: str = "read", *, version: int | None = None, timestamp: Moment | None = None
    ) -> HudiSnapshot:
        """The table at an instant, behind the gate; see `halocline.table.opening`."""
        return self.opened.snapshot(operation, version=version, timestamp=timestamp)

    @property
    def schema(self) -> dict[str, Any]:
        """The newest schema, as parsed JSON; `pyspark.sql.types.StructType.fromJson` takes it."""
        return dict(to_json(struct_of_arrow(self.snapshot().schema.columns)))

    def history(self, limit: int | None = None) -> list[HudiHistoryEntry]:
        """What was done, newest action first; the instants of writes are the table's versions."""
        return Entries(history(self.snapshot(), limit))

    def detail(self) -> dict[str, Any]:
        """What the table is, in a few figures."""
        return detail_of(self.snapshot())

    # ------------------------------------------------------------------ rows

    to_df = verb(read.read_rows)
    to_arrow = verb(read.read_arrow)
    incremental = verb(read.read_written)
    changes = verb(read.read_changes)
    append = verb(write.append)
    insert = verb(write.insert)
    bulk_insert = verb(write.bulk_insert)
    upsert = verb(write.upsert)
    delete = verb(write.delete)
    overwrite = verb(write.overwrite)
    insert_overwrite = verb(write.insert_overwrite)
    delete_partition = verb(write.delete_partition)

    # ------------------------------------------------------------------ its version

    upgrade = verb(move.upgrade)
    downgrade = verb(move.downgrade)
    plan_upgrade = verb(move.plan_upgrade)
    plan_downgrade = verb(move.plan_downgrade)
    finish_move = verb(move.finish)

    # ------------------------------------------------------------------ table services

    compact = verb(services.compact)
    cluster = verb(services.cluster)
    cancel_clustering = verb(services.cancel_clustering)
    clean = verb(services.clean)
    archive = verb(services.archive)

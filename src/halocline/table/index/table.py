"""An index table, as a user holds it: one line for every verb, which stands in the module of its name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from halocline.compat.terms import Terms
from halocline.formats.base import TableFormat
from halocline.formats.index.detail import detail_of
from halocline.formats.index.history import IndexVersion, history
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.protocol import LEGACY, OWN, terms_of
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.html import Entries
from halocline.schema.json_edge import to_json
from halocline.storage import open_store
from halocline.table.index import maintain, read, upkeep, write
from halocline.table.index import search as searching
from halocline.table.index.aggregate import aggregate
from halocline.table.index.companion import build_index as make_companion
from halocline.table.index.companion import sync_index
from halocline.table.index.create import create
from halocline.table.index.delete import delete_rows
from halocline.table.index.features import upgrade
from halocline.table.index.opened import IndexOpened
from halocline.table.opening import Moment
from halocline.table.table import Table, verb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build_index(
    source: str | os.PathLike[str] | Table,
    path: str | os.PathLike[str],
    columns: Sequence[str],
    spark: SparkSession | None = None,
    *,
    fields: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
) -> IndexTable:
    """Makes a companion index of a Delta or Hudi table, which is then searched like any index table.

    `IndexTable.sync` brings it up to date; until then it does not answer, unless it is asked with `stale="allow"`.

    Args:
        source: The table, or where it lies.
        path: Where its companion is to lie.
        columns: The columns that are to be searched.
        spark: The session for searches.
        fields: How columns are indexed, as for `Table.create`.
        options: Settings, and options of the store.

    Raises:
        AlreadyExistsError: There is a table already.
        NotFoundError: There is no source, or it has no such column.
        UnsupportedError: The source is of another format.
        IncompatibleError: Somebody known could not use such a table.

    Example:
        >>> build_index("lake/orders", "lake/orders_index", ["note"], fields={"note": "text"})  # doctest: +SKIP
        IndexTable('lake/orders_index')
    """
    opened = IndexOpened.at(path, spark, options)
    store = source.store if isinstance(source, Table) else open_store(source)
    spelt = {name: {"type": said} if isinstance(said, str) else said for name, said in (fields or {}).items()}
    with opened.operation("build_index"):
        opened.approve(None, terms_of(OWN, has_avro_state=False))
        make_companion(store, opened.store, columns, fields=spelt)
    return IndexTable(opened.found())


def _sync(table: IndexOpened, *, rebuild: bool = False) -> int:
    """Brings a companion index up to date with its source, and returns the version that shows it.

    Args:
        table: The companion.
        rebuild: Whether every file is indexed again, from the table that lies now where its source lay. A companion
            needs that whose source was dropped and made anew, or that was made before companions kept its identity.

    Raises:
        InputError: The table is no companion, or of another table than lies there now, or its source has changed its
            columns.

    Example:
        >>> Table.for_path("lake/orders_index").sync()  # doctest: +SKIP
        4
    """
    with table.operation("sync"):
        table.snapshot("write")
        return sync_index(table.store, rebuild=rebuild).version


class IndexTable(Table, format=TableFormat.INDEX):
    """A table for full-text search.

    Example:
        >>> logs = Table.for_path("lake/logs", spark)  # doctest: +SKIP
        >>> logs.search("timeout AND level:ERROR", limit=20).show()  # doctest: +SKIP
    """

    opened: IndexOpened
    _opens = IndexOpened
    _create = staticmethod(create)

    # ------------------------------------------------------------------ what it is

    @property
    def version(self) -> int:
        """The newest version."""
        return IndexReplay.open(self.store).version

    @property
    def terms(self) -> Terms:
        """See `Table.terms`."""
        replay = IndexReplay.open(self.store)
        return terms_of(replay.header.protocol or LEGACY, has_avro_state=replay.has_avro_state)

    def snapshot(
        self, operation: str = "read", *, version: int | None = None, timestamp: Moment | None = None
    ) -> IndexSnapshot:
        """A version of the table, behind the gate; see `halocline.table.opening`."""
        return self.opened.snapshot(operation, version=version, timestamp=timestamp)

    @property
    def schema(self) -> dict[str, Any]:
        """The newest schema, as parsed JSON; `pyspark.sql.types.StructType.fromJson` takes it."""
        return dict(to_json(self.snapshot().schema))

    def history(self, limit: int | None = None) -> list[IndexVersion]:
        """Who did what, newest version first, as far as the log tells."""
        return Entries(history(self.snapshot().store, limit))

    def detail(self) -> dict[str, Any]:
        """What the table is, in a few figures."""
        return detail_of(self.snapshot())

    # ------------------------------------------------------------------ rows

    to_df = verb(read.read_rows)
    to_arrow = verb(read.read_arrow)
    append = verb(write.append)
    append_batch = verb(write.append_batch)
    overwrite = verb(write.overwrite)
    delete = verb(delete_rows)

    # ------------------------------------------------------------------ searching

    search = verb(searching.search)
    count = verb(searching.count)
    explain_search = verb(searching.explain_search)
    aggregate = verb(aggregate)
    sync = verb(_sync)

    # ------------------------------------------------------------------ maintenance, and what it requires

    merge_splits = verb(maintain.merge_splits)
    reindex = verb(maintain.reindex)
    purge = verb(upkeep.purge)
    drop_partitions = verb(upkeep.drop_partitions)
    truncate_history = verb(upkeep.truncate_history)
    describe_log = verb(upkeep.describe_log)
    repair_log = verb(upkeep.repair_log)
    upgrade = verb(upgrade)

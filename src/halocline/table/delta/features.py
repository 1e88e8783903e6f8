"""The features that a table requires of others: one more, as many as a pair of versions stands for, or one less.

Some features on their way out need rows to be written again by other names, types or properties. That takes a session.
No row changes, and rows keep their ids. What is written is committed by whoever drops the feature; if that does not
happen, vacuum finds the files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from halocline.compat.breaks import Client
from halocline.formats.delta.actions.action import Add, Metadata
from halocline.formats.delta.features import drop, support
from halocline.formats.delta.features import drop_plan as planning
from halocline.formats.delta.features.drop import Dropped
from halocline.formats.delta.features.drop_plan import DropPlan
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.spark.scan.frames import frame_of
from halocline.table.delta.alter import Altered, alter
from halocline.table.delta.opened import Opened
from halocline.table.delta.rows.files import RowFiles
from halocline.table.opening import as_operation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VERSIONS: Final = re.compile(r"\(\s*(\d+)\s*,\s*(\d+)\s*\)")


def upgrade(table: Opened, to: str) -> Altered:
    """Moves the table to a feature, given by its name, or to a pair of protocol versions such as `(3,7)`.

    Raises:
        IncompatibleError: Somebody known would break, or this release cannot write such a table.
        NotFoundError: No feature of that name is known.

    Example:
        >>> Table.for_path("lake/orders").upgrade("deletionVectors")  # doctest: +SKIP
    """
    versions = _VERSIONS.fullmatch(to)
    if versions is None:
        return add_feature_support(table, to)
    return upgrade_table_protocol(table, int(versions[1]), int(versions[2]))


def add_feature_support(table: Opened, name: str) -> Altered:
    """Adds a feature, and what it requires, to the table's protocol, without switching it on.

    Raises:
        IncompatibleError: Somebody known would break, or this release cannot write such a table.
        NotFoundError: No feature of that name is known.
    """
    return alter(table, lambda state: support.with_feature(state, name), "UPGRADE PROTOCOL", asked=None)


def upgrade_table_protocol(table: Opened, reader: int, writer: int) -> Altered:
    """Raises the table's protocol to what a pair of version numbers stands for; it is never lowered.

    Raises:
        IncompatibleError: Somebody known would break, or this release cannot write such a table.
        InputError: There is no such pair of versions.
    """
    return alter(table, lambda state: support.with_versions(state, reader, writer), "UPGRADE PROTOCOL", asked=None)


def downgrade(table: Opened, to: str) -> Dropped:
    """Moves the table back to what it is without a feature, given by its name; see `drop_feature_support`."""
    return drop_feature_support(table, to)


@as_operation
def drop_feature_support(table: Opened, name: str, truncate_history: bool = False) -> Dropped:
    """Takes a feature out of the table; see `halocline.formats.delta.features.drop`.

    Args:
        table: The table.
        name: The feature.
        truncate_history: Delete old versions that use it, rather than protect them. That takes two calls, a day
            apart, and leaves nothing behind that other clients do not know.

    Raises:
        NotYetError: History must grow older first; call again at the time that the error names.
        InputError: The table does not have the feature, or it cannot be dropped as things stand.
    """
    return drop.drop_feature(
        table.snapshot("write.metadata"),
        name,
        truncate_history=truncate_history,
        approve=table.approve,
        rewriter=None if table.session is None else partial(_rewritten, table.session),
        clock=table.clock,
    )


def remove_column_mapping(table: Opened, *, keeps_mode: bool) -> None:
    """Writes the files by the names that columns have; see `halocline.formats.delta.features.drop`."""
    rewriter = None if table.session is None else partial(_rewritten, table.session)
    drop.remove_column_mapping(table.snapshot("write"), keeps_mode=keeps_mode, rewriter=rewriter, clock=table.clock)


def plan_drop(table: Opened, name: str, clients: Sequence[Client] = ()) -> DropPlan:
    """What dropping a feature takes, and whom each way leaves able to write. Nothing is changed."""
    table.snapshot("write.metadata")
    return planning.plan_drop(table.store, name, clients=tuple(clients))


def _rewritten(spark: SparkSession, snapshot: Snapshot, files: pa.Table, target: Metadata) -> Sequence[Add]:
    """Writes the live rows of some files into new ones, as other metadata lays them out."""
    row_files = RowFiles(snapshot.store, snapshot.configuration.with_metadata(target))
    rows = frame_of(spark, snapshot, files=files, rows=row_files.identities())
    return row_files.rewrite(rows, snapshot.schema, data_change=False)

"""What is done to one table: the action of a move, so that doing it again after a crash does what is left of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from halocline.compat.features import feature
from halocline.errors import UnsupportedError
from halocline.formats.base import TableFormat
from halocline.formats.hudi.move.engine import resume_move
from halocline.plan.action import TableAction, Verb
from halocline.table import DeltaLakeTable, HudiTable, IndexTable, Table
from halocline.table.hudi.writing import table_lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def carry_out(
    action: TableAction, place: str, spark: SparkSession | None = None, options: Mapping[str, str] | None = None
) -> None:
    """Does an action to a table, or what is left of it.

    Raises:
        IncompatibleError: Somebody known would break, or the fleet's gate is closed.
        NotYetError: Time must pass first.
        ConflictError: Another writer was at work.
    """
    table = Table.for_path(place, spark, options=options)
    if action.verb is Verb.MOVE:
        _moved(table, action.version)
    elif isinstance(table, IndexTable) and action.verb is Verb.ENABLE:
        for name in action.names:
            table.upgrade(name)
    elif not isinstance(table, DeltaLakeTable):
        raise UnsupportedError(f"{place} is a {table.format} table, and {action} is for {TableFormat.DELTA} tables")
    elif action.verb is Verb.ENABLE:
        for name in action.names:
            properties = feature("delta", name).enabling_properties
            if properties:
                table.set_properties(properties)
            else:
                table.add_feature_support(name)
    else:
        for name in action.names:
            if table.terms.protocol.supports(name):
                table.drop_feature_support(name, truncate_history=bool(action.truncate))


def _moved(table: Table, version: int) -> None:
    if not isinstance(table, HudiTable):
        raise UnsupportedError(f"{table.url} is a {table.format} table, which is not moved by its version")
    resume_move(table.store, lock=table_lock(table.store))
    now = table.terms.protocol.reader
    if version > now:
        table.upgrade(version)
    elif version < now:
        table.downgrade(version)

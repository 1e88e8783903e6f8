"""Keeps lakehouse tables and the programs that use them compatible while both evolve.

    import halocline as hc

    orders = hc.Table.for_path("lake/orders", spark)
    orders.to_df(where="day >= '2026-11-01'")
    orders.can("trino@426", "read")

The names here are stable: tables and what their verbs return, every error, and what judges and fleets hand out. So are
`halocline.delta.tables`, the settings, the options and the command line. Every other module may change from one release
to the next. Names are loaded when they are first used, so importing the package costs next to nothing and needs neither
Spark nor gRPC.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from halocline._version import __version__ as __version__
from halocline.table import joining

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halocline.compat.history import History
    from halocline.compat.knowledge import Knowledge
    from halocline.compat.protocol import Protocol
    from halocline.compat.release import Release
    from halocline.compat.terms import Terms
    from halocline.compat.verdict import Verdict, can
    from halocline.delta.tables import DeltaTable
    from halocline.errors import (
        AlreadyExistsError,
        ConflictError,
        ConstraintError,
        DeniedError,
        HaloclineError,
        IncompatibleError,
        InputError,
        InternalError,
        MalformedError,
        MissingExtraError,
        MissingVerbError,
        NotFoundError,
        NotYetError,
        SchemaError,
        StaleEpochError,
        StorageFullError,
        UnavailableError,
        UnsupportedError,
    )
    from halocline.fleet.member.admin import AdminClient
    from halocline.fleet.member.connect import connect
    from halocline.fleet.member.handle import FleetHandle
    from halocline.formats.delta.features.approval import Approval
    from halocline.formats.delta.features.drop import Dropped
    from halocline.formats.delta.features.drop_plan import DropPlan
    from halocline.formats.delta.maintain.vacuum import Vacuumed
    from halocline.formats.delta.snapshot.history import HistoryEntry
    from halocline.source.data_source import register
    from halocline.spans import Span, SpanSet
    from halocline.spark.session.settings import Settings
    from halocline.table import DeltaLakeTable, HudiTable, Table
    from halocline.table.delta.alter import Altered
    from halocline.table.delta.merge_builder import MergeBuilder
    from halocline.table.delta.new_table import Identity, column
    from halocline.table.delta.optimize import OptimizeBuilder
    from halocline.table.delta.restore import Restored
    from halocline.table.delta.row_commit import RowsChanged
    from halocline.table.gatekeeper import Gatekeeper
    from halocline.versions import Version

__all__ = [
    "AdminClient",
    "AlreadyExistsError",
    "Altered",
    "Approval",
    "ConflictError",
    "ConstraintError",
    "DeltaLakeTable",
    "DeltaTable",
    "DeniedError",
    "DropPlan",
    "Dropped",
    "FleetHandle",
    "HaloclineError",
    "History",
    "HistoryEntry",
    "HudiTable",
    "Identity",
    "IncompatibleError",
    "InputError",
    "InternalError",
    "Knowledge",
    "MalformedError",
    "MergeBuilder",
    "MissingExtraError",
    "MissingVerbError",
    "NotFoundError",
    "NotYetError",
    "OptimizeBuilder",
    "Protocol",
    "Release",
    "Restored",
    "RowsChanged",
    "SchemaError",
    "Span",
    "SpanSet",
    "StaleEpochError",
    "StorageFullError",
    "Table",
    "Terms",
    "UnavailableError",
    "UnsupportedError",
    "Vacuumed",
    "Verdict",
    "Version",
    "can",
    "column",
    "connect",
    "register",
]

_HOMES: Final[dict[str, str]] = {
    "History": "halocline.compat.history",
    "Knowledge": "halocline.compat.knowledge",
    "Protocol": "halocline.compat.protocol",
    "Release": "halocline.compat.release",
    "Terms": "halocline.compat.terms",
    **dict.fromkeys(("Verdict", "can"), "halocline.compat.verdict"),
    "DeltaTable": "halocline.delta.tables",
    "AdminClient": "halocline.fleet.member.admin",
    "connect": "halocline.fleet.member.connect",
    "FleetHandle": "halocline.fleet.member.handle",
    "Approval": "halocline.formats.delta.features.approval",
    "Dropped": "halocline.formats.delta.features.drop",
    "DropPlan": "halocline.formats.delta.features.drop_plan",
    "Vacuumed": "halocline.formats.delta.maintain.vacuum",
    "HistoryEntry": "halocline.formats.delta.snapshot.history",
    "register": "halocline.source.data_source",
    **dict.fromkeys(("Span", "SpanSet"), "halocline.spans"),
    **dict.fromkeys(("DeltaLakeTable", "HudiTable", "Table"), "halocline.table"),
    "Altered": "halocline.table.delta.alter",
    "MergeBuilder": "halocline.table.delta.merge_builder",
    **dict.fromkeys(("Identity", "column"), "halocline.table.delta.new_table"),
    "OptimizeBuilder": "halocline.table.delta.optimize",
    "Restored": "halocline.table.delta.restore",
    "RowsChanged": "halocline.table.delta.row_commit",
    "Version": "halocline.versions",
    **{name: "halocline.errors" for name in __all__ if name.endswith("Error")},
}


def _join(settings: Settings, release: str, spark: SparkSession | None, short_lived: bool) -> Gatekeeper | None:
    from halocline.fleet.member.connect import join_once

    return join_once(settings, release, spark, short_lived)


joining.register_fleet(_join)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

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

import re
from importlib import import_module
from inspect import isfunction
from typing import TYPE_CHECKING, Any, Final, cast

from halocline import errors
from halocline._version import __version__ as __version__
from halocline.table import gatekeeper, views
from halocline.table.arguments import checked_names

if TYPE_CHECKING:
    # What is imported as itself is what the package exports: type checkers read it here, and so does `_homes`.
    from importlib.abc import InspectLoader

    from pyspark.sql import SparkSession

    from halocline.compat.history import History as History
    from halocline.compat.knowledge import Knowledge as Knowledge
    from halocline.compat.protocol import Protocol as Protocol
    from halocline.compat.release import Release as Release
    from halocline.compat.terms import Terms as Terms
    from halocline.compat.verdict import Verdict as Verdict
    from halocline.compat.verdict import can as can
    from halocline.delta.tables import DeltaTable as DeltaTable
    from halocline.errors import AlreadyExistsError as AlreadyExistsError
    from halocline.errors import ConflictError as ConflictError
    from halocline.errors import ConstraintError as ConstraintError
    from halocline.errors import DeniedError as DeniedError
    from halocline.errors import HaloclineError as HaloclineError
    from halocline.errors import IncompatibleError as IncompatibleError
    from halocline.errors import InputError as InputError
    from halocline.errors import InternalError as InternalError
    from halocline.errors import MalformedError as MalformedError
    from halocline.errors import MissingExtraError as MissingExtraError
    from halocline.errors import MissingVerbError as MissingVerbError
    from halocline.errors import NotFoundError as NotFoundError
    from halocline.errors import NotYetError as NotYetError
    from halocline.errors import SchemaError as SchemaError
    from halocline.errors import StaleEpochError as StaleEpochError
    from halocline.errors import StorageFullError as StorageFullError
    from halocline.errors import UnavailableError as UnavailableError
    from halocline.errors import UnsupportedError as UnsupportedError
    from halocline.fleet.member.admin import AdminClient as AdminClient
    from halocline.fleet.member.connect import connect as connect
    from halocline.fleet.member.handle import FleetHandle as FleetHandle
    from halocline.formats.delta.configuration.alter import ColumnPosition as ColumnPosition
    from halocline.formats.delta.features.approval import Approval as Approval
    from halocline.formats.delta.features.drop import Dropped as Dropped
    from halocline.formats.delta.features.drop_plan import DropPlan as DropPlan
    from halocline.formats.delta.maintain.vacuum import Vacuumed as Vacuumed
    from halocline.formats.delta.snapshot.history import HistoryEntry as HistoryEntry
    from halocline.formats.index.aggregate.request import Avg as Avg
    from halocline.formats.index.aggregate.request import Count as Count
    from halocline.formats.index.aggregate.request import DateBuckets as DateBuckets
    from halocline.formats.index.aggregate.request import HistogramBuckets as HistogramBuckets
    from halocline.formats.index.aggregate.request import Max as Max
    from halocline.formats.index.aggregate.request import Min as Min
    from halocline.formats.index.aggregate.request import RangeBuckets as RangeBuckets
    from halocline.formats.index.aggregate.request import Sum as Sum
    from halocline.formats.index.aggregate.request import TermBuckets as TermBuckets
    from halocline.formats.index.explain import SearchExplanation as SearchExplanation
    from halocline.formats.index.history import IndexVersion as IndexVersion
    from halocline.formats.index.maintain.log import LogRepair as LogRepair
    from halocline.formats.index.maintain.purge import Purged as Purged
    from halocline.formats.index.merge.run import MergeReport as MergeReport
    from halocline.lake.lake import Lake as Lake
    from halocline.lake.survey import LakeSurvey as LakeSurvey
    from halocline.source.data_source import register as register
    from halocline.spans import Span as Span
    from halocline.spans import SpanSet as SpanSet
    from halocline.spark.session.settings import Settings
    from halocline.statements.runner import sql as sql
    from halocline.table import DeltaLakeTable as DeltaLakeTable
    from halocline.table import HudiTable as HudiTable
    from halocline.table import IndexTable as IndexTable
    from halocline.table import Table as Table
    from halocline.table.delta.alter import Altered as Altered
    from halocline.table.delta.layout.optimize import OptimizeBuilder as OptimizeBuilder
    from halocline.table.delta.merge.builder import MergeBuilder as MergeBuilder
    from halocline.table.delta.new_table import Identity as Identity
    from halocline.table.delta.new_table import column as column
    from halocline.table.delta.restore import Restored as Restored
    from halocline.table.delta.rows.commit import RowsChanged as RowsChanged
    from halocline.table.gatekeeper import Gatekeeper
    from halocline.table.index.table import build_index as build_index
    from halocline.versions import Version as Version


def _homes() -> dict[str, str]:
    """The module that has each name that the imports above list, which take no effect when the package runs."""
    source = cast("InspectLoader", __spec__.loader).get_source(__name__) or ""
    return {name: home for home, name in re.findall(r"^    from (\S+) import (\w+) as \2$", source, re.MULTILINE)}


_HOMES: Final = _homes()

_EXTRAS: Final = {"pyspark": "spark", "grpc": "fleet", "google": "fleet", "sqlalchemy": "fleet", "jwt": "fleet"}
"""The extra that brings a module of another package."""

__all__ = sorted(_HOMES, key=lambda name: (name[0].islower(), name))


def _join(settings: Settings, release: str, spark: SparkSession | None, short_lived: bool) -> Gatekeeper | None:
    from halocline.fleet.member.connect import join_once

    return join_once(settings, release, spark, short_lived)


def _make_source_known(spark: SparkSession) -> None:
    from halocline.source.data_source import register

    register(spark)


gatekeeper.register_fleet(_join)
views.register_source(_make_source_known)


def load_ipython_extension(shell: Any) -> None:
    """Makes `%%halocline` known to a notebook: `%load_ext halocline`."""
    from halocline.notebook import load_ipython_extension as load

    load(shell)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        near = errors.nearest(name, _HOMES)
        hint = f"; the nearest is {near}" if near else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    try:
        value = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise errors.MissingExtraError(f"halocline.{name} needs {error.name}, which", extra) from None
    globals()[name] = checked_names(name, value) if isfunction(value) else value
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

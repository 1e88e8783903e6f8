"""Keeps lakehouse tables and the programs that use them compatible while both evolve.

    import halocline as hc

    orders = hc.Table.for_path("lake/orders", spark)
    orders.to_df(where="day >= '2026-11-01'")
    orders.can("trino@426", "read")

The everyday names are here; every noun has a module of its own below. Names are loaded when they are first used, so
importing the package costs next to nothing and needs neither Spark nor gRPC.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from halocline._version import __version__ as __version__
from halocline.table import joining

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halocline.compat.history import History
    from halocline.compat.protocol import Protocol
    from halocline.compat.release import Release
    from halocline.compat.verdict import Verdict, can
    from halocline.errors import HaloclineError, IncompatibleError
    from halocline.fleet.member.connect import connect
    from halocline.spans import Span, SpanSet
    from halocline.spark.session.settings import Settings
    from halocline.table import Table
    from halocline.table.gatekeeper import Gatekeeper
    from halocline.versions import Version

__all__ = [
    "HaloclineError",
    "History",
    "IncompatibleError",
    "Protocol",
    "Release",
    "Span",
    "SpanSet",
    "Table",
    "Verdict",
    "Version",
    "can",
    "connect",
]

_HOMES: Final = {
    "HaloclineError": "halocline.errors",
    "History": "halocline.compat.history",
    "IncompatibleError": "halocline.errors",
    "Protocol": "halocline.compat.protocol",
    "Release": "halocline.compat.release",
    "Span": "halocline.spans",
    "SpanSet": "halocline.spans",
    "Table": "halocline.table",
    "Verdict": "halocline.compat.verdict",
    "Version": "halocline.versions",
    "can": "halocline.compat.verdict",
    "connect": "halocline.fleet.member.connect",
}


def _join(settings: Settings, release: str, spark: SparkSession | None, short_lived: bool) -> Gatekeeper | None:
    from halocline.fleet.member.connect import join_once

    return join_once(settings, release, spark, short_lived)


joining.register(_join)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Searches in SQL: `SELECT * FROM halocline_search('lake/logs', 'timeout AND level:ERROR')`.

The function takes the path or URL of an index table and a query, both constants; `version => 7` searches an older
version, and `columns => 'id, message'` gives fewer columns. Spark asks for its columns while it plans, which is where
the table is opened, behind the gate; the version of that moment is the one that is searched.

The limit: Spark calls such a function in one task. It looks at the terms of many splits at once, and asks those that
are left one after the other. `Table.search` and the option `search` of the data source use as many tasks as there is
work for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.functions import udtf
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from halocline.errors import InputError
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.search import Search, splits_to_search
from halocline.schema.visitor import nullable
from halocline.source.options import SourceOptions
from halocline.spark.scan.scan import columns_asked_for
from halocline.spark.scan.slice_frames import PartReader
from halocline.spark.scan.split_search import CachePlace, SplitSearch
from halocline.spark.types.columns import spark_schema
from halocline.table.index.opened import IndexOpened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FUNCTION: Final = "halocline_search"
_NAMED: Final = ("path", "query", "version", "columns")


@dataclass
class PlannedSearch(AnalyzeResult):
    """What Spark is told while it plans, and what it hands to the task."""

    reader: PartReader | None = None
    work: SplitSearch | None = None
    splits: list[SplitAdd] = field(default_factory=list)


class SearchFunction:
    """The function, as Spark calls it."""

    def __init__(self, planned: PlannedSearch) -> None:
        self._planned = planned

    def eval(self, *given: Any, **named: Any) -> Iterator[tuple[Any, ...]]:
        """The rows that are found."""
        reader, work = self._planned.reader, self._planned.work
        assert reader is not None, "the task has what was planned"
        assert work is not None, "the task has what was planned"
        for split in work.likely(reader.store, self._planned.splits):
            for batch in reader.batches(split):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def register_search(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Makes the function known to a session.

    Args:
        spark: The session.
        settings: Settings that hold for every call.
    """
    kept = dict(settings)

    def analyze(*given: AnalyzeArgument, **named: AnalyzeArgument) -> AnalyzeResult:
        return _planned(kept, _values(given, named))

    made = type(SearchFunction.__name__, (SearchFunction,), {"analyze": staticmethod(analyze)})
    function: Any = udtf(made, useArrow=True)
    spark.udtf.register(FUNCTION, function)


def _planned(settings: Mapping[str, str], values: Mapping[str, Any]) -> PlannedSearch:
    """What a call comes to, once the table has been opened behind the gate."""
    asked = SourceOptions.read({**settings, "path": values["path"]})
    snapshot = asked.opened(IndexOpened).to_read(version=values.get("version"))
    wanted = values.get("columns")
    names = None if wanted is None else [each.strip() for each in wanted.split(",") if each.strip()]
    shown = [nullable(snapshot.schema).find([name])[1] for name in columns_asked_for(snapshot.schema, names)]
    found = Search.of(snapshot, values["query"])
    work = SplitSearch(found, tuple(shown), CachePlace.of(asked.settings))
    splits = splits_to_search(found, snapshot.files.values())
    reader = PartReader(snapshot.store, work.rows, work.schema)
    return PlannedSearch(spark_schema(shown), reader=reader, work=work, splits=splits)


def _values(given: tuple[AnalyzeArgument, ...], named: Mapping[str, AnalyzeArgument]) -> dict[str, Any]:
    """The arguments by their names, if they are constants of the right kind."""
    for name in named:
        if name not in _NAMED:
            raise InputError.unknown(f"{FUNCTION} has no argument {name!r}", name, _NAMED)
    if len(given) > len(_NAMED):
        raise InputError(f"{FUNCTION} takes {len(_NAMED)} arguments", sides={"known": ", ".join(_NAMED)})
    every = {**dict(zip(_NAMED, given, strict=False)), **named}
    found: dict[str, Any] = {}
    for name, argument in every.items():
        kind = int if name == "version" else str
        if argument.isTable or not argument.isConstantExpression or not isinstance(argument.value, kind):
            raise InputError(
                f"{name} of {FUNCTION} is a constant {'number' if kind is int else 'text'}",
                sides={"given": str(argument.value)[:80], "expected": kind.__name__},
            )
        found[name] = argument.value
    if missing := [name for name in _NAMED[:2] if name not in found]:
        raise InputError(
            f"{FUNCTION} needs {missing[0]}",
            sides={"given": ", ".join(found) or "nothing", "known": ", ".join(_NAMED)},
            next_step=f"SELECT * FROM {FUNCTION}('lake/logs', 'timeout')",
        )
    return found

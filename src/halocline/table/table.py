"""The user's `Table`: what every format offers, and the way to the class of the format that lies at a place.

A *verb* is something that a user does to a table. It is a function of its own, in the room of its format
(`halocline.table.delta` and so on), that takes the opened table first; a format's class has one line for each. What
all formats have in common is declared here. A verb that a format lacks is an error which names the nearest one that it
has.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar, cast

from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.compat.verdict import Verdict, can
from halocline.errors import InputError, MissingExtraError, MissingVerbError, UnsupportedError, nearest, needs_extra
from halocline.formats.base import TableFormat, detect_format, formats_at
from halocline.html import html_table
from halocline.place_names import place_name
from halocline.spark.session.session import our_sql
from halocline.table.arguments import checked, checks_arguments
from halocline.table.opening import Moment, Opening, placed
from halocline.table.views import follow, named

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from halocline.storage.base import Store

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=Opening[Any])


@checks_arguments
class Table(ABC):
    """A table, opened with `Table.for_path`.

    Attributes:
        format: The format of the table.
        opened: Where it lies, who acts on it, and the way to its versions.

    Example:
        >>> orders = Table.for_path("lake/orders", spark)  # doctest: +SKIP
        >>> orders.to_df(where="day >= '2026-11-01'").groupBy("country").count().show()  # doctest: +SKIP
        >>> orders.can("trino@426", "read")  # doctest: +SKIP
    """

    format: ClassVar[TableFormat]
    _classes: ClassVar[dict[TableFormat, type[Table]]] = {}

    def __init_subclass__(cls, *, format: TableFormat) -> None:
        cls.format = format
        checks_arguments(cls)
        Table._classes[format] = cls

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Only tables of a format are made; `Table` itself is refused with the ways to one."""
        if cls is Table:
            raise InputError(
                "a table is not made by calling Table",
                sides={"given": ", ".join(map(repr, given))[:80] or "nothing"},
                next_step="Open it with Table.for_path(path), or make a new one with Table.create(path, rows).",
            )
        return super().__new__(cls)

    def __init__(self, opened: Opening[Any]) -> None:
        self.opened = opened

    # ------------------------------------------------------------------ finding and making tables

    @classmethod
    def for_path(
        cls,
        path: str | os.PathLike[str],
        spark: SparkSession | None = None,
        *,
        options: Mapping[str, str] | None = None,
        release: str | None = None,
    ) -> Self:
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
        acting = {} if release is None else {"halocline.release": release}
        store, settings = placed(path, spark, {**(options or {}), **acting})
        found = cls._class_of(detect_format(store), store.root)
        return found(found._opens(store, spark, settings).found())

    @staticmethod
    def is_table(path: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> bool:
        """Whether there is a table at a path or URL; options are those of `for_path`."""
        return bool(formats_at(placed(path, None, options)[0]))

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        what: Any,
        spark: SparkSession | None = None,
        *,
        format: str = TableFormat.DELTA,
        **declared: Any,
    ) -> Self:
        """Creates a table where none is, empty or with rows.

        Args:
            path: Where it is to be.
            what: Rows, as a DataFrame or, for Delta, in Arrow's form; or columns: a Spark or Arrow schema, or text such
                as `id BIGINT NOT NULL, day DATE`.
            spark: The session. Not needed for rows, nor for columns without expressions and text.
            format: The format of the table.
            declared: `partition_by`, `properties`, `comment` and what else the format knows; for Delta see
                `halocline.table.delta.create`, for Hudi `halocline.table.hudi.create`, for index tables
                `halocline.table.index.create`.

        Raises:
            AlreadyExistsError: There is a table, unless `exist_ok`.
            SchemaError: The columns, or the partitions, do not fit together.
            InputError: Properties or expressions cannot be used.
            IncompatibleError: Somebody known could not use such a table.

        Example:
            >>> Table.create("lake/orders", df, partition_by="day").version  # doctest: +SKIP
            0
        """
        made = cls._class_of(format, os.fspath(path))
        return made(checked("create", made._create)(path, what, spark, **declared))

    @classmethod
    def replace(
        cls,
        path: str | os.PathLike[str],
        what: Any,
        spark: SparkSession | None = None,
        *,
        format: str = TableFormat.DELTA,
        **declared: Any,
    ) -> Self:
        """Gives a table other columns, properties and rows, as its next version.

        The arguments are those of `create`; and `or_create`, to create the table if there is none.

        Raises:
            NotFoundError: There is no table, unless `or_create`.
            InputError: The table only takes new rows, or properties cannot be used.

        Example:
            >>> Table.replace("lake/orders", "id BIGINT, day DATE", spark).version  # doctest: +SKIP
            7
        """
        made = cls._class_of(format, os.fspath(path))
        if not hasattr(made, "_replace"):
            raise UnsupportedError(
                f"{format} tables are not replaced as a whole",
                sides={"asked for": f"replace {os.fspath(path)}", "possible": "other rows in the same columns"},
                next_step="Use overwrite, or create another table.",
            )
        return made(checked("replace", made._replace)(path, what, spark, **declared))

    @classmethod
    def convert_to_delta(cls, path: str | os.PathLike[str], spark: SparkSession | None = None, **declared: Any) -> Self:
        """Makes a Delta table of a folder of Parquet files; see `halocline.table.delta.convert` for the arguments."""
        made = cls._class_of(TableFormat.DELTA, os.fspath(path))
        return made(checked("convert_to_delta", made._convert)(path, spark, **declared))

    @classmethod
    def _class_of(cls, format: str, table: str) -> type[Self]:
        """The class for tables of a format, if there is one and it is of the kind asked for."""
        found = Table._classes.get(TableFormat(format)) if format in set(TableFormat) else None
        if found is None or not issubclass(found, cls):
            known = [each for each, kind in Table._classes.items() if issubclass(kind, cls)]
            if format not in set(TableFormat):
                raise InputError.unknown(f"there is no format {format!r}", str(format), known)
            raise UnsupportedError(
                f"{table} is a {format} table, which is not done here",
                sides={
                    "found": str(format),
                    "nearest": nearest(format, known) or "none",
                    "this release": ", ".join(known),
                },
                next_step="Table.for_path opens tables of every format." if found else "",
            )
        return found

    _opens: ClassVar[type[Opening[Any]]]
    _create: ClassVar[Callable[..., Opening[Any]]]
    _replace: ClassVar[Callable[..., Opening[Any]]]
    _convert: ClassVar[Callable[..., Opening[Any]]]

    # ------------------------------------------------------------------ what every format offers

    @property
    def url(self) -> str:
        """Where the table lies, as text."""
        return self.opened.url

    @property
    def store(self) -> Store:
        """Where the table lies."""
        return self.opened.store

    @property
    def spark(self) -> SparkSession:
        """The session that does the work on rows.

        Raises:
            InputError: The table was opened without one.
        """
        return self.opened.spark

    @property
    @abstractmethod
    def version(self) -> int:
        """The newest version."""

    @property
    @abstractmethod
    def terms(self) -> Terms:
        """What the newest version asks of those who use it: its protocol, and what is in use under it.

        Needs no right to read: it is how others are judged.
        """

    @property
    def protocol(self) -> Protocol:
        """What the newest version requires of those who use it."""
        return self.terms.protocol

    def features(self) -> dict[str, str]:
        """Every feature that the protocol supports, and whether it is `enabled`, only `supported`, or `unknown`.

        Example:
            >>> Table.for_path("lake/orders").features()  # doctest: +SKIP
            {'appendOnly': 'supported', 'changeDataFeed': 'enabled', 'invariants': 'supported'}
        """
        terms = self.terms
        protocol, in_use = terms.protocol, terms.features_in_use
        known = {name: "enabled" if name in in_use else "supported" for name in protocol.features}
        return dict(sorted((known | dict.fromkeys(protocol.unknown_features, "unknown")).items()))

    def can(self, release: str | Release, operation: str = "read") -> Verdict:
        """May this release do this to the table as it is now?

        Example:
            >>> Table.for_path("lake/orders").can("trino@426", "read").ok  # doctest: +SKIP
            True
        """
        return can(release, self.terms, operation)

    @abstractmethod
    def history(self, limit: int | None = None) -> Sequence[Any]:
        """Who did what, newest version first."""

    @abstractmethod
    def detail(self) -> dict[str, Any]:
        """What the table is, in a few figures."""

    @abstractmethod
    def to_df(
        self,
        *,
        version: int | None = None,
        timestamp: Moment | None = None,
        where: str | Column | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """The rows of a version, the newest if neither a version nor a time is given."""

    @abstractmethod
    def to_arrow(
        self,
        *,
        version: int | None = None,
        timestamp: Moment | None = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.RecordBatchReader:
        """The same rows as a stream of Arrow batches, without Spark; see `halocline.table.record_batches`."""

    def to_pandas(self, **reading: Any) -> Any:
        """The rows as a pandas DataFrame, without Spark; the arguments are those of `to_arrow`.

        Raises:
            MissingExtraError: pandas is not installed.

        Example:
            >>> Table.for_path("lake/orders").to_pandas(where="country = 'at'")  # doctest: +SKIP
        """
        if find_spec("pandas") is None:
            raise MissingExtraError("pandas", "pandas")
        return self.to_arrow(**reading).read_pandas()

    def to_polars(self, **reading: Any) -> Any:
        """The rows as a polars DataFrame, without Spark; the arguments are those of `to_arrow`.

        Raises:
            MissingExtraError: polars is not installed.

        Example:
            >>> Table.for_path("lake/orders").to_polars(columns=["id", "country"])  # doctest: +SKIP
        """
        with needs_extra("polars", "polars"):
            import polars
        return polars.from_arrow(self.to_arrow(**reading).read_all())

    def register_view(self, name: str, **reading: Any) -> None:
        """Makes rows known to SQL as a temporary view.

        Without a version the view has the rows that the table has at every query, see `halocline.table.views`; with
        one it is a native scan that stays as it is.

        Args:
            name: The name of the view, of any characters; one with dots stands in backticks.
            reading: The version and the condition, and what else `to_df` takes.

        Example:
            >>> Table.for_path("lake/orders", spark).register_view("orders")  # doctest: +SKIP
            >>> spark.sql("SELECT country, count(*) FROM orders GROUP BY country")  # doctest: +SKIP
        """
        if reading.keys() <= {"where"}:
            follow(self.opened, name, **reading)
        else:
            named(self.to_df(**reading), name)

    append: Callable[..., int]
    """Adds rows, and returns the version that has them."""
    overwrite: Callable[..., int]
    """Puts rows in place of others, and returns the version that has them."""
    upgrade: Callable[..., Any]
    """Moves the table to a feature, or to a version of its format, that it does not require yet."""
    downgrade: Callable[..., Any]
    """Moves the table back: without a feature, or to an older version of its format."""

    # ------------------------------------------------------------------ verbs that a format lacks

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise self._lacking(name)

    @classmethod
    def _lacking(cls, name: str) -> MissingVerbError:
        verbs = sorted(each for each in dir(cls) if not each.startswith("_"))
        others = [str(each) for each, kind in Table._classes.items() if hasattr(kind, name)]
        near = "" if others else next(iter(get_close_matches(name, verbs, 1, 0.4)), "")  # a known one is not misspelt
        return MissingVerbError(
            f"{cls.format} tables have no {name!r}",
            sides={"asked for": name, "known to": ", ".join(others) or "no format", "nearest": near or "none"},
            next_step=f"Use {near}." if near else f"{cls.format} tables have: {', '.join(verbs)}",
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: where the table lies, what it requires, and its columns. Reads no rows."""
        terms = self.terms
        in_use = ", ".join(sorted(terms.features_in_use)) or "nothing special"
        facts = [{"format": self.format, "version": self.version, "protocol": terms.protocol, "in use": in_use}]
        fields: list[dict[str, Any]] = self.schema["fields"]
        columns = [
            {
                "column": each["name"],
                "type": each["type"] if isinstance(each["type"], str) else each["type"]["type"],
                "null": "" if each.get("nullable", True) else "not null",
                "comment": each.get("metadata", {}).get("comment", ""),
            }
            for each in fields
        ]
        return html_table(facts, place_name(self.url)) + html_table(columns)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({place_name(self.url)!r})"


def verb(function: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[Table, P], R]:
    """The method of a table that a function on an opened table makes."""

    @wraps(function)
    def method(table: Table, /, *given: P.args, **named: P.kwargs) -> R:
        with table.opened.settings.in_force(), our_sql(table.opened.session):
            return function(cast(T, table.opened), *given, **named)

    return method

"""`Lake`: tables by name, found below a prefix or named in a file.

A lake is made without reading any table. What has come below its prefix since is found when it is asked for by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from halocline.compat.breaks import Client
from halocline.errors import HaloclineError, InputError, NotFoundError, needs_extra
from halocline.formats.base import formats_at
from halocline.lake.discovery import DEPTH, find_tables
from halocline.lake.facts import SurveyTarget
from halocline.lake.file import LakeClient, LakeFile
from halocline.lake.names import found_name, name_of, parts_of
from halocline.lake.sql_names import LakeNames
from halocline.lake.survey import LakeSurvey, survey_lake
from halocline.lake.views import views_of
from halocline.storage.base import Store, checked_path, escaped
from halocline.storage.location import Location
from halocline.table import Table
from halocline.table.arguments import checks_arguments
from halocline.table.opening import placed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SUFFIX: Final = ".toml"


@dataclass(frozen=True, slots=True)
class LakeEntry:
    """A table of a lake, before anything of it is read.

    Attributes:
        name: Its name.
        url: Where it lies.
        formats: What its log folders show: one format, several for a table in the middle of moving, none for a table
            that was named and not looked at yet.
    """

    name: str
    url: str
    formats: tuple[str, ...] = ()


@checks_arguments
class Lake:
    """A set of tables of any format, by name.

    Attributes:
        place: The prefix, or the file, that it was made from.
        unsearched: Folders that could not be searched, and why.
        after: Where a search that was cut short goes on; None if it was not.
        clients: Those that the file declares.

    Example:
        >>> lake = Lake.discover("lake", spark)  # doctest: +SKIP
        >>> lake.names  # doctest: +SKIP
        ['sales.items', 'sales.orders']
        >>> lake.table("sales.orders").to_df().count()  # doctest: +SKIP
        1284
    """

    def __init__(
        self,
        place: str,
        entries: Iterable[LakeEntry] = (),
        spark: SparkSession | None = None,
        *,
        prefix: str | None = None,
        options: Mapping[str, str] | None = None,
        release: str | None = None,
        clients: Iterable[LakeClient] = (),
        unsearched: Mapping[str, str] | None = None,
        after: str | None = None,
    ) -> None:
        self.place = place
        self.prefix = prefix
        self.session = spark
        self.options = dict(options or {})
        self.release = release
        self.clients = tuple(clients)
        self.unsearched = dict(unsearched or {})
        self.after = after
        self._entries = {each.name: each for each in entries}

    # ------------------------------------------------------------------ making one

    @classmethod
    def discover(
        cls,
        path: str | os.PathLike[str],
        spark: SparkSession | None = None,
        *,
        options: Mapping[str, str] | None = None,
        release: str | None = None,
        depth: int = DEPTH,
        limit: int | None = None,
        after: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Lake:
        """The tables below a path or URL.

        Args:
            path: A local folder or a URL.
            spark: The session for rows; not needed to survey.
            options: Settings, and options of the store, for every table.
            release: Act as this release.
            depth: How deep tables may lie.
            limit: Find at most so many; `Lake.after` then says where to go on.
            after: Only tables whose name comes behind this one, in the order of paths.
            progress: Told how many were found so far.

        Raises:
            NotFoundError: There is no such folder.
            UnavailableError: It cannot be listed.

        Example:
            >>> Lake.discover("s3://bucket/lake", limit=1000).after  # doctest: +SKIP
            'sales.orders'
        """
        given = os.fspath(path)
        store = placed(path, spark, options)[0]
        if (local := Location.parse(given)).is_local and not os.path.isdir(f"/{local.path}"):
            is_file = os.path.exists(f"/{local.path}")
            raise NotFoundError(
                f"{given} is a file" if is_file else f"there is no folder {given}",
                sides={"looked for": "a folder with tables below it"},
                next_step="Give the folder, or a lake.toml to Lake.open." if is_file else "Check the path.",
            )
        entries, unsearched, last = list[LakeEntry](), dict[str, str](), None
        for found in find_tables(store, after=() if after is None else parts_of(after), depth=depth):
            if limit is not None and len(entries) >= limit:
                last = entries[-1].name if entries else after
                break
            if found.problem:
                unsearched["/".join(found.path)] = found.problem
                continue
            entries.append(LakeEntry(_name(store, found.path), _below(store, found.path), found.formats))
            if progress is not None:
                progress(len(entries))
        return cls(
            given, entries, spark, prefix=given, options=options, release=release, unsearched=unsearched, after=last
        )

    @classmethod
    def read(
        cls,
        file: str | os.PathLike[str],
        spark: SparkSession | None = None,
        *,
        options: Mapping[str, str] | None = None,
        release: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Lake:
        """The lake that a `lake.toml` describes; see `halocline.lake.file`.

        Raises:
            NotFoundError: There is no such file.
            InputError: The file says what is not understood, or gives a name that another table has.
        """
        said = LakeFile.read(file)
        merged = {**said.options, **(options or {})}
        found = cls(said.path, (), spark, options=merged, release=release)
        if said.prefix is not None:
            found = cls.discover(said.prefix, spark, options=merged, release=release, progress=progress)
        found.place, found.clients = said.path, said.clients
        by_place = {Location.parse(each.url): each for each in found}
        for name, path in said.tables.items():
            url = placed(path, spark, merged)[0].root
            again = by_place.get(Location.parse(url))
            if again is not None:
                found._entries.pop(again.name, None)
            if (taken := found._entries.get(name)) is not None:
                raise InputError(
                    f"{said.path} calls another table {name} than the one that lies there",
                    sides={"in the file": url, "below the prefix": taken.url},
                    next_step="Give it another name.",
                )
            found._entries[name] = LakeEntry(name, url, () if again is None else again.formats)
        return found

    @classmethod
    def open(
        cls,
        place: str | os.PathLike[str],
        spark: SparkSession | None = None,
        *,
        options: Mapping[str, str] | None = None,
        release: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Lake:
        """A lake by its file, if the place ends in `.toml`; else by what is found there."""
        make = cls.read if os.fspath(place).endswith(_SUFFIX) else cls.discover
        return make(place, spark, options=options, release=release, progress=progress)

    # ------------------------------------------------------------------ its tables

    @property
    def names(self) -> list[str]:
        """The names of all tables, sorted."""
        return sorted(self._entries)

    def __iter__(self) -> Iterator[LakeEntry]:
        return (self._entries[name] for name in self.names)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and bool(self.entry(name))
        except HaloclineError:
            return False

    def listed(self, name: str) -> LakeEntry | None:
        """The entry of a table that is known by this very name; nothing is looked for."""
        return self._entries.get(name)

    def entry(self, name: str) -> LakeEntry:
        """The entry of a table.

        Raises:
            NotFoundError: There is no such table, nor has one come below the prefix since.
        """
        try:
            return self._entries[found_name(name, list(self._entries), self.place)]
        except NotFoundError:
            # A part with a slash is no folder: parquet.`/data/orders` is a name that Spark knows.
            if self.prefix is None or any("/" in part for part in parts_of(name)):
                raise
            store = self._store(url := self.place_for(name))
            formats = formats_at(store)
            if not formats:
                raise
            found = LakeEntry(name_of(parts_of(name)), url, tuple(map(str, formats)))
        return self._entries.setdefault(found.name, found)

    def place_for(self, name: str) -> str:
        """Where a table of this name lies, or would be made: below the prefix, a folder for each part.

        Raises:
            InputError: The lake has no prefix.
        """
        if self.prefix is None:
            raise InputError(
                f"{self.place} has no prefix below which {name} could lie",
                sides={"given": name, "needed": "a place"},
                next_step=f"Add it to the file: {name} = 'PATH'",
            )
        return _below(self._store(self.prefix), parts_of(name))

    def table(self, name: str) -> Table:
        """Opens a table by its name; see `Table.for_path`.

        Raises:
            NotFoundError: There is no such table.
            IncompatibleError: The release that acts may not read it.

        Example:
            >>> lake.table("sales.orders").version  # doctest: +SKIP
            412
        """
        return Table.for_path(self.entry(name).url, self.session, options=self.options, release=self.release)

    def survey(
        self,
        *,
        enable: Sequence[str] = (),
        drop: Sequence[str] = (),
        table_version: int | None = None,
        clients: Sequence[str] = (),
        fleet: str = "",
        journal: str | os.PathLike[str] | None = None,
        processes: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> LakeSurvey:
        """What every table is, who uses it, and what stands in the way of a target. Changes nothing.

        Args:
            enable: A target: features to be switched on.
            drop: A target: features to be taken out.
            table_version: A target: the version of Hudi tables.
            clients: Releases to be judged against every table, beside those known to use one.
            fleet: Ask this fleet who uses the tables, e.g. `grpc://127.0.0.1:7470`.
            journal: A file that is written meanwhile; a survey that was ended goes on with it.
            processes: How many to use; 0 for this one alone. As many as pay off if not given.
            progress: Told how many tables were looked at, and of how many.

        Example:
            >>> lake.survey(enable=["deletionVectors"]).stuck[0].in_the_way  # doctest: +SKIP
            ('deltalake@0.25.5 (refused) would break: upgrade deltalake to 1.3.2',)
        """
        return survey_lake(
            self,
            target=SurveyTarget.of(enable, drop, table_version),
            clients=clients,
            fleet=fleet,
            journal=journal,
            processes=processes,
            progress=progress,
        )

    def sql(self, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> DataFrame:
        """Runs SQL in which the names of the lake are tables, without a jar; see `halocline.statements`.

        Args:
            text: One statement, or several separated by semicolons.
            args: Values for the parameters of a single statement: a dict for `:name`, a list for `?`.

        Returns:
            What the last statement tells: rows, or figures of what it did.

        Raises:
            UnsupportedError: A statement is not understood as a whole; it has done nothing.

        Example:
            >>> lake.sql("SELECT count(*) FROM sales.orders VERSION AS OF 3").show()  # doctest: +SKIP
        """
        with needs_extra("SQL", "spark"):  # a lake is looked at without Spark
            from halocline.statements.runner import run
        return run(self.spark, text, LakeNames(self), args)

    def register_views(self, spark: SparkSession | None = None, names: Sequence[str] | None = None) -> dict[str, str]:
        """Makes the tables known to Spark's own SQL as temporary views that have the rows of the moment.

        The name of a view has one part, so `sales.orders` becomes `sales_orders`. Views read through Python workers;
        `Lake.sql` reads the same rows natively.

        Args:
            spark: The session; the lake's if not given.
            names: The tables; all if not given. One that cannot be read is left out with a warning then.

        Returns:
            The names of the views, in backticks where SQL needs them, by those of the tables.

        Raises:
            InputError: Two tables would have the same view, or Spark's workers do not find Halocline.

        Example:
            >>> lake.register_views()  # doctest: +SKIP
            {'sales.items': 'sales_items', 'sales.orders': 'sales_orders'}
        """
        return views_of(self, spark or self.spark, names)

    @property
    def spark(self) -> SparkSession:
        """The session that does the work on rows.

        Raises:
            InputError: The lake was made without one.
        """
        if self.session is None:
            raise InputError(
                f"{self.place} was opened without a Spark session, and rows need one",
                next_step="Open it with one: Lake.discover(path, spark)",
            )
        return self.session

    def declared(self, name: str) -> tuple[Client, ...]:
        """The clients of a table that the file declares."""
        return tuple(client for each in self.clients if (client := each.of(name)) is not None)

    def _store(self, place: str) -> Store:
        return placed(place, self.session, self.options)[0]

    def __repr__(self) -> str:
        return f"Lake({self.place!r}: {len(self):,} tables)"


def _name(store: Store, path: tuple[str, ...]) -> str:
    return name_of(path or (Location.parse(store.root).path.rpartition("/")[2] or "table",))


def _below(store: Store, path: tuple[str, ...]) -> str:
    return f"{store.root}/{escaped(checked_path('/'.join(path)))}" if path else store.root

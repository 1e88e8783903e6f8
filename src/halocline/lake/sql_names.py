"""The names of a lake in SQL: which table a name stands for, and where a new one lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from halocline.errors import InputError, InternalError, NotFoundError
from halocline.lake.names import name_of
from halocline.statements.references import path_of, table_at
from halocline.storage.location import Location
from halocline.table import Table

if TYPE_CHECKING:
    from halocline.lake.lake import Lake


@dataclass(frozen=True)
class LakeNames:
    """The names of a lake in SQL, and paths as in ``delta.`lake/orders` ``."""

    lake: Lake

    def find(self, parts: tuple[str, ...]) -> Table | None:
        """The table of a name or a path; None for any other name, which is Spark's."""
        lake = self.lake
        by_path = table_at(
            parts, lambda path: Table.for_path(path, lake.session, options=lake.options, release=lake.release)
        )
        if by_path is not None:
            return by_path
        try:
            name = lake.entry(name_of(parts)).name
        except NotFoundError:
            return None
        return lake.table(name)

    def place(self, parts: tuple[str, ...], location: str | None) -> str | None:
        """Where a new table of the lake lies: below the prefix, unless the file names it."""
        if (path := path_of(parts)) is not None:
            return path
        name = name_of(parts)
        known = self.lake.listed(name)
        place = self.lake.place_for(name) if known is None else known.url
        if location is not None and Location.parse(location) != Location.parse(place):
            raise InputError(
                f"{name} lies elsewhere in this lake",
                sides={"LOCATION": location, "lake": place},
                next_step="Leave LOCATION out, or name the table in lake.toml.",
            )
        return place

    def missing(self, parts: tuple[str, ...]) -> NotFoundError:
        """The error for a name that the lake does not have."""
        try:
            self.lake.entry(name_of(parts))
        except NotFoundError as error:
            return error
        raise InternalError(f"{name_of(parts)} is a table of {self.lake.place}, and was not found")

    def known(self) -> Sequence[str]:
        """The names of all tables of the lake."""
        return self.lake.names

    def options(self) -> Mapping[str, str]:
        """Settings, and options of the store, for tables that are made."""
        acting = {} if self.lake.release is None else {"halocline.release": self.lake.release}
        return {**self.lake.options, **acting}

"""Numbered migrations of a fleet's store, and which stores this release can use.

Each module `vNNNN_what` brings a store from the migration before it to its own number with `upgrade(connection)`, and
says with `MINIMUM` the least number that a release must know to go on using the store afterwards. So a migration that
only adds something leaves older coordinators working, and one that changes what they read locks them out by name.

Migrations are never changed once released; a test checks that their numbers have no gaps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from sqlalchemy import Connection, insert, inspect, select, update

from halocline._version import __version__
from halocline.errors import UnsupportedError
from halocline.fleet.store import schema

_NAME = re.compile(r"v(\d{4})_\w+")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the store's schema."""

    number: int
    name: str
    minimum: int
    upgrade: Callable[[Connection], None]


def _found() -> tuple[Migration, ...]:
    found = []
    for module in iter_modules(__path__):
        if match := _NAME.fullmatch(module.name):
            loaded = import_module(f"{__name__}.{module.name}")
            found.append(Migration(int(match[1]), module.name, loaded.MINIMUM, loaded.upgrade))
    return tuple(sorted(found, key=lambda each: each.number))


MIGRATIONS: Final = _found()
LATEST: Final = MIGRATIONS[-1].number


def migrate(connection: Connection, known: tuple[Migration, ...] = MIGRATIONS) -> int:
    """Brings a store up to date inside the caller's transaction, and returns the number it is at.

    Raises:
        UnsupportedError: A newer release has changed the store in a way that this one does not know.
    """
    latest = known[-1].number
    table = schema.store_version
    fresh = not inspect(connection).has_table(table.name)
    if fresh:
        table.create(connection)
        connection.execute(insert(table).values(id=1, version=0, minimum=0, written_by=__version__))
    row = connection.execute(select(table).where(table.c.id == 1).with_for_update()).one()
    check_usable(connection, latest)
    due = [each for each in known if each.number > row.version]
    for each in due:
        each.upgrade(connection)
    if due:
        values = {"version": latest, "minimum": max(each.minimum for each in known), "written_by": __version__}
        connection.execute(update(table).where(table.c.id == 1).values(**values))
    return max(latest, int(row.version))


def check_usable(connection: Connection, latest: int = LATEST) -> None:
    """Stops a release that does not know enough to use the store, which a newer one may have changed meanwhile.

    Raises:
        UnsupportedError: It does not.
    """
    row = connection.execute(select(schema.store_version).where(schema.store_version.c.id == 1)).one()
    if row.minimum > latest:
        raise UnsupportedError(
            "the store was changed by a newer release, and this one cannot use it any more",
            condition="STORE_TOO_NEW",
            sides={
                "store": f"migration {row.version}, needs releases that know {row.minimum}, by {row.written_by}",
                "this release": f"halocline {__version__}, knows migration {latest}",
            },
            next_step=f"Upgrade to halocline {row.written_by} or later, or import a backup into a new store.",
        )

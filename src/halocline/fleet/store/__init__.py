"""Where the durable truth of a fleet lives: a SQLite file by default, PostgreSQL for several coordinators.

A *record* is one part of the fleet: a member, a ladder, a hold. One coordinator at a time holds the *lease* on a store
under an *epoch*; a *sighting* is a handshake that is remembered.

Promise: a write of an older epoch than the newest changes nothing, and what was acknowledged survives a crash.

Limit: heartbeats are not stored, so a coordinator that takes over gives every member a full lease. A SQLite file serves
one process on one machine.
"""

from __future__ import annotations

import re
from typing import Final

from halocline.addresses import Address
from halocline.errors import InputError, StaleEpochError
from halocline.fleet.store.archive import AuditArchive
from halocline.fleet.store.refusals import RefusedCalls
from halocline.fleet.store.sightings import Sighting
from halocline.fleet.store.sql import FleetStore, Holder, Write

__all__ = [
    "AuditArchive",
    "FleetStore",
    "Holder",
    "RefusedCalls",
    "Sighting",
    "StaleEpochError",
    "Write",
    "open_fleet_store",
]

_SETTINGS: Final = re.compile(r"(?:^|\s)(?:host|hostaddr|dbname|user|password|passfile|service)\s*=", re.IGNORECASE)
_URL_AMISS: Final = re.compile(r"\s|(?:postgres(?:ql)?|sqlite)(?:\+\w+)?:", re.IGNORECASE)
"""What is no file although it is no URL: the settings of a database as its own tools take them, and a mistyped URL."""


def open_fleet_store(where: str | Address) -> FleetStore:
    """The store at a path or URL.

    Args:
        where: A file for SQLite, `:memory:`, `sqlite:///file` or `postgresql://host/database`.
    """
    where = Address.parse(where).with_secrets()
    scheme, found, rest = where.partition("://")
    if _SETTINGS.search(where) or (not found and _URL_AMISS.match(where)):
        # A file of such a name would be made, and show the password to everybody who lists the folder.
        raise InputError(
            "what was given as a fleet's store is neither the name of a file nor a URL",
            sides={"expected": "a file name, sqlite:///file, or postgresql://user:password@host/database"},
            next_step="Write settings of a database as a URL: postgresql://host/database?sslmode=require",
        )
    if found and scheme.split("+")[0] in ("postgresql", "postgres"):
        from halocline.fleet.store.postgresql import PostgresqlStore

        return PostgresqlStore(where if scheme.startswith("postgresql") else f"postgresql://{rest}")
    if found and scheme != "sqlite":
        raise InputError(
            f"a fleet cannot be stored in {scheme}://",
            sides={"expected": "a file name, sqlite:///file, or postgresql://host/database"},
        )
    from halocline.fleet.store.sqlite import SqliteStore

    return SqliteStore(rest.removeprefix("/") if found else where)

"""Handshakes that are remembered: which clients called, let in or not, when first, when last, and how often.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, delete, func, select

from halocline.fleet.answers import SeenClient
from halocline.fleet.store import schema
from halocline.fleet.store.upsert import upsert

MOST_SIGHTINGS: Final = 100_000
_TABLE = schema.sightings


@dataclass(frozen=True, slots=True)
class Sighting:
    """One handshake, let in or not; its fields are those of `halocline.fleet.answers.SeenClient`."""

    identity: str
    client: str
    release: str
    role: str
    outcome: str
    requires: tuple[str, ...]
    at_ms: int


def note(connection: Connection, sightings: Iterable[Sighting]) -> None:
    """Remembers handshakes, one row for each kind; a statement may not touch a row twice."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for each in sightings:
        row = msgspec.to_builtins(each)
        at, requires = row.pop("at_ms"), row.pop("requires")
        row = rows.setdefault(tuple(row.values()), {**row, "first_ms": at, "times": 0})
        row |= {"requires": msgspec.json.encode(requires).decode(), "last_ms": at, "times": row["times"] + 1}
    if rows:
        upsert(connection, _TABLE, list(rows.values()), keep=("first_ms",), add=("times",))


def seen(
    connection: Connection, *, requires: str = "", since_ms: int = 0, offset: int = 0, limit: int | None = None
) -> list[SeenClient]:
    """The clients that made a handshake, latest first; those that required a feature, if one is named."""
    wanted = select(_TABLE).where(_TABLE.c.last_ms > since_ms)
    if requires:
        named = msgspec.json.encode(requires).decode()
        wanted = wanted.where(_TABLE.c.requires.contains(named, autoescape=True))
    order = (_TABLE.c.last_ms.desc(), *_TABLE.primary_key)
    return [_client(row) for row in connection.execute(wanted.order_by(*order).offset(offset).limit(limit))]


def _client(row: Any) -> SeenClient:
    requires = tuple(msgspec.json.decode(row.requires, type=list[str]))
    who = (row.identity, row.client, row.release, row.role, row.outcome)
    return SeenClient(*who, row.first_ms, row.last_ms, row.times, requires)


def prune(connection: Connection, most: int) -> None:
    """Forgets the oldest beyond those that are kept, at most so many."""
    last = _TABLE.c.last_ms
    known = connection.execute(select(func.count()).select_from(_TABLE)).scalar_one()
    if (surplus := min(known - MOST_SIGHTINGS, most)) > 0:
        oldest = connection.execute(select(last).order_by(last).offset(surplus - 1).limit(1)).scalar_one()
        connection.execute(delete(_TABLE).where(last <= oldest))

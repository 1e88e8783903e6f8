"""Records name tables by addresses without secrets."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text

from halocline.errors import HaloclineError
from halocline.fleet.core.state import RecordChange
from halocline.fleet.store import codec

_BY_NAME: Final = text("SELECT body FROM records WHERE kind = :kind AND key = :named")
MINIMUM: Final = 3
"""Releases from before read such records as well; what they write has its secrets taken out when it is read."""


def upgrade(connection: Connection) -> None:
    """Writes every record anew whose addresses have secrets."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL statement_timeout = 0"))
    rows = connection.execute(text("SELECT kind, key, epoch, body FROM records WHERE body LIKE '%://%'")).all()
    for kind, key, epoch, body in rows:
        change = _decoded(kind, body)
        if change is None or (clean := codec.encode(change.key, change.value)) == (key, body):
            continue
        row = {"kind": kind, "key": key, "named": clean[0], "body": clean[1], "epoch": epoch}
        if clean[0] != key:
            # One table was known under several addresses; the highest level of them is the one that it may require.
            there = connection.execute(_BY_NAME, row).scalar()
            row["body"] = _higher(kind, there, change, clean[1]) if there else row["body"]
            connection.execute(text("DELETE FROM records WHERE kind = :kind AND key IN (:key, :named)"), row)
            connection.execute(
                text("INSERT INTO records (kind, key, epoch, body) VALUES (:kind, :named, :epoch, :body)"), row
            )
        else:
            connection.execute(text("UPDATE records SET body = :body WHERE kind = :kind AND key = :key"), row)


def _decoded(kind: str, body: str) -> RecordChange | None:
    """A record; None if it cannot be read, which whoever takes over says."""
    try:
        return codec.decode(kind, body)
    except HaloclineError:
        return None


def _higher(kind: str, there: str, change: RecordChange, body: str) -> str:
    known = _decoded(kind, there)
    return there if kind == "tables" and known is not None and known.value.level > change.value.level else body

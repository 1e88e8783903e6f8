"""Incarnations have a table of their own, by which the newest are found."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text

MINIMUM: Final = 3
_PARTS: Final = {
    "sqlite": ("json_extract(body, '$.key')", "json_extract(body, '$.value')"),
    "postgresql": ("body::json->>'key'", "(body::json->>'value')::bigint"),
}


def upgrade(connection: Connection) -> None:
    """Moves them there. There may be very many, so the server must be patient."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL statement_timeout = 0"))
    identity, incarnation = _PARTS[connection.dialect.name]
    for statement in (
        "CREATE TABLE incarnations (identity VARCHAR(128) NOT NULL PRIMARY KEY, incarnation BIGINT NOT NULL)",
        f"INSERT INTO incarnations SELECT {identity}, {incarnation} FROM records WHERE kind = 'incarnations'",
        "CREATE INDEX incarnations_newest ON incarnations (incarnation)",
        "DELETE FROM records WHERE kind = 'incarnations'",
    ):
        connection.execute(text(statement.replace(":", "\\:")))

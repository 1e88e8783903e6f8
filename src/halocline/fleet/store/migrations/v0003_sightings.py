"""Whom the server has ever greeted, and the keys that sign its tokens."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text

MINIMUM: Final = 3


def upgrade(connection: Connection) -> None:
    """Creates the memory of handshakes and the keys."""
    connection.execute(
        text(
            "CREATE TABLE sightings (identity VARCHAR(128) NOT NULL, client VARCHAR(200) NOT NULL, "
            "release VARCHAR(200) NOT NULL, role VARCHAR(64) NOT NULL, outcome VARCHAR(60) NOT NULL, "
            "requires TEXT NOT NULL, first_ms BIGINT NOT NULL, last_ms BIGINT NOT NULL, times BIGINT NOT NULL, "
            "PRIMARY KEY (identity, client, release, role, outcome))"
        )
    )
    connection.execute(text("CREATE INDEX sightings_last ON sightings (last_ms)"))
    blob = {"sqlite": "BLOB", "postgresql": "BYTEA"}[connection.dialect.name]
    connection.execute(
        text(
            f"CREATE TABLE signing_keys (id VARCHAR(40) NOT NULL PRIMARY KEY, secret {blob} NOT NULL, "
            "made_ms BIGINT NOT NULL)"
        )
    )

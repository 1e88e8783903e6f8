"""The durable truth and the row that says who may write it."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text

MINIMUM: Final = 1


def upgrade(connection: Connection) -> None:
    """Creates the tables of the fleet itself."""
    connection.execute(
        text(
            "CREATE TABLE coordinator (id INTEGER NOT NULL PRIMARY KEY, epoch BIGINT NOT NULL, "
            "holder VARCHAR(200) NOT NULL, address VARCHAR(300) NOT NULL, since_ms BIGINT NOT NULL, "
            "until_ms BIGINT NOT NULL)"
        )
    )
    connection.execute(text("INSERT INTO coordinator VALUES (1, 0, '', '', 0, 0)"))
    connection.execute(
        text(
            "CREATE TABLE records (kind VARCHAR(40) NOT NULL, key VARCHAR(700) NOT NULL, epoch BIGINT NOT NULL, "
            "body TEXT NOT NULL, PRIMARY KEY (kind, key))"
        )
    )

"""Entries of the audit log carry a hash of themselves and of the one before."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text

MINIMUM: Final = 2


def upgrade(connection: Connection) -> None:
    """Adds the hash, which entries from before do not have."""
    connection.execute(text("ALTER TABLE audit ADD COLUMN hash VARCHAR(64) NOT NULL DEFAULT ''"))

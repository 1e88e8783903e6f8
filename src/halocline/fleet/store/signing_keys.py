"""The keys that tokens are signed with: a new one signs every day, and the one before is good for another.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from secrets import token_bytes, token_hex
from typing import Final

from sqlalchemy import Connection, delete, insert, select

from halocline.fleet.answers import SigningKey
from halocline.fleet.store import schema

KEY_LIFE_MS: Final = 24 * 3_600_000
_TABLE = schema.signing_keys
_NEWEST = select(_TABLE).order_by(_TABLE.c.made_ms.desc())


def names(connection: Connection) -> list[SigningKey]:
    """The keys, newest first, without their secrets."""
    return [SigningKey(row.id, row.made_ms) for row in connection.execute(_NEWEST)]


def drop(connection: Connection, key: str) -> bool:
    """Forgets a key, and says whether it was there."""
    return connection.execute(delete(_TABLE).where(_TABLE.c.id == key)).rowcount > 0


def current(connection: Connection, now_ms: int) -> dict[str, bytes]:
    """The keys, newest first; makes one if the newest is a day old, and forgets those of two days."""
    # One row that every coordinator locks, or two coordinators would both make the first key.
    connection.execute(select(schema.coordinator.c.id).with_for_update())
    connection.execute(delete(_TABLE).where(_TABLE.c.made_ms <= now_ms - 2 * KEY_LIFE_MS))
    rows = connection.execute(_NEWEST).all()
    if not rows or rows[0].made_ms <= now_ms - KEY_LIFE_MS:
        connection.execute(insert(_TABLE).values(id=token_hex(8), secret=token_bytes(32), made_ms=now_ms))
        rows = connection.execute(_NEWEST).all()
    return {row.id: bytes(row.secret) for row in rows}

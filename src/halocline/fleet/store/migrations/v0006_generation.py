"""Records have the fleet's generation and the key of its seals, which releases before cannot read."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection

MINIMUM: Final = 6


def upgrade(_: Connection) -> None:
    """Changes no table: a coordinator writes both records when it takes over."""

"""Queries of a lake."""

from __future__ import annotations

from typing import Any


def rows(lake: Any, text: str, args: Any = None) -> list[tuple[Any, ...]]:
    """Return the rows of a query in a fixed order."""
    return sorted(tuple(row) for row in lake.sql(text, args).collect())

"""Rows that replace those of the same key, in either database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

_INSERT: Final[dict[str, Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def upsert(
    connection: Connection,
    table: Table,
    rows: Sequence[dict[str, Any]],
    *,
    keep: Collection[str] = (),
    add: Collection[str] = (),
) -> None:
    """Writes rows; of those that are there some columns are kept, and some added up."""
    statement = _INSERT[connection.dialect.name](table)
    keys, new = [column.name for column in table.primary_key], statement.excluded
    changed = {each.name: new[each.name] for each in table.c if each.name not in (*keys, *keep)}
    changed |= {name: table.c[name] + new[name] for name in add}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), rows)

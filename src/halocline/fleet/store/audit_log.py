"""The audit log in the store: entries that are only added, each with a hash of the one before, and pruned from the end.

Every function works inside the caller's transaction. No two write entries at the same time: see
`halocline.fleet.store.sql.FleetStore`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, delete, func, insert, select

from halocline.fleet.answers import AuditEntry, AuditQuery
from halocline.fleet.audit_chain import chained
from halocline.fleet.core.effects import Audit
from halocline.fleet.store import schema

MOST_ENTRIES: Final = 1_000_000
_TABLE = schema.audit


def append(connection: Connection, epoch: int, audits: Sequence[Audit]) -> None:
    """Writes entries, each with a hash of the one before."""
    if not audits:
        return
    last = select(_TABLE.c.hash).order_by(_TABLE.c.number.desc()).limit(1)
    previous, rows = connection.execute(last).scalar_one_or_none() or "", []
    for audit in audits:
        rows.append(_row(epoch, audit, previous))
        previous = rows[-1]["hash"]
    connection.execute(insert(_TABLE), rows)


def _row(epoch: int, audit: Audit, previous: str) -> dict[str, Any]:
    actor, action, subject = audit.actor[:200], audit.action[:40], audit.subject[:1000]
    entry = AuditEntry(0, audit.at, epoch, actor, action, subject, audit.detail[:4000], audit.refused[:60])
    row: dict[str, Any] = msgspec.to_builtins(replace(entry, hash=chained(previous, entry)))
    del row["number"]
    return row


def found(connection: Connection, query: AuditQuery) -> list[AuditEntry]:
    """The entries that are asked for, newest first."""
    column = _TABLE.c
    wanted = select(_TABLE).order_by(column.number.desc()).limit(min(max(query.limit, 1), 1000))
    for each, value in ((column.actor, query.actor), (column.action, query.action), (column.subject, query.subject)):
        if value:
            wanted = wanted.where(each == value)
    if query.refused_only:
        wanted = wanted.where(column.refused != "")
    if query.since_ms:
        wanted = wanted.where(column.at_ms >= query.since_ms)
    if query.before:
        wanted = wanted.where(column.number < query.before)
    return [AuditEntry(*row) for row in connection.execute(wanted)]


def following(connection: Connection, number: int, most: int) -> list[AuditEntry]:
    """So many entries after that number, in the order in which they were written."""
    wanted = select(_TABLE).where(_TABLE.c.number > number).order_by(_TABLE.c.number).limit(most)
    return [AuditEntry(*row) for row in connection.execute(wanted)]


def prune(connection: Connection, most: int) -> None:
    """Forgets the oldest entries beyond those that are kept, at most so many."""
    number = _TABLE.c.number
    first, newest = connection.execute(select(func.min(number), func.max(number))).one()
    if newest is not None and newest - first >= MOST_ENTRIES:
        connection.execute(delete(_TABLE).where(number <= min(newest - MOST_ENTRIES, first + most)))

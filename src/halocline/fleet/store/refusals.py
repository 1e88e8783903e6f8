"""Refusals of callers, counted and sampled: one row for each caller, kind of call and reason, apart from decisions.

Whoever reaches the port can cause refusals, as many as it likes. They share neither the rows nor the bounds of the log
of decisions: a row holds the first and the last time, how often, and what the last one was about. Beyond so many rows
those are forgotten that were seen longest ago.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, delete, func, select

from halocline.addresses import hide_secrets
from halocline.fleet.answers import AuditEntry, AuditQuery
from halocline.fleet.core.effects import Audit
from halocline.fleet.store import schema
from halocline.fleet.store.upsert import upsert

MOST_REFUSALS: Final = 10_000
NO_NUMBER: Final = 0
"""The number of an entry that stands for refusals: it is none of the log of decisions."""
_TABLE = schema.refusals


@dataclass(frozen=True, slots=True)
class RefusedCalls:
    """Calls of one kind that one caller made and that were refused for one reason; the sample is the last of them."""

    actor: str
    action: str
    refused: str
    subject: str
    detail: str
    first_ms: int
    last_ms: int
    times: int = 1

    @staticmethod
    def of(audit: Audit) -> RefusedCalls:
        """One call."""
        who = (audit.actor[:200], audit.action[:40], audit.refused[:60])
        return RefusedCalls(*who, audit.subject[:1000], hide_secrets(audit.detail)[:1000], audit.at, audit.at)

    def joined(self, other: RefusedCalls) -> RefusedCalls:
        """These and later ones of the same kind."""
        facts = (other.actor, other.action, other.refused, other.subject, other.detail)
        return RefusedCalls(*facts, self.first_ms, other.last_ms, self.times + other.times)


def note(connection: Connection, calls: Iterable[RefusedCalls]) -> None:
    """Counts refusals; a statement may not touch a row twice."""
    rows: dict[tuple[str, str, str], RefusedCalls] = {}
    for call in calls:
        kind = (call.actor, call.action, call.refused)
        rows[kind] = rows[kind].joined(call) if kind in rows else call
    if rows:
        upsert(
            connection, _TABLE, [msgspec.to_builtins(row) for row in rows.values()], keep=("first_ms",), add=("times",)
        )


def found(connection: Connection, query: AuditQuery) -> list[AuditEntry]:
    """The refusals that are asked for, latest first, as entries without a number."""
    column = _TABLE.c
    order = (column.last_ms.desc(), *_TABLE.primary_key)
    wanted = select(_TABLE).order_by(*order).limit(min(max(query.limit, 1), 1000))
    for each, value in ((column.actor, query.actor), (column.action, query.action), (column.subject, query.subject)):
        if value:
            wanted = wanted.where(each == value)
    if query.since_ms:
        wanted = wanted.where(column.last_ms >= query.since_ms)
    return [_entry(row) for row in connection.execute(wanted)]


def exported(connection: Connection) -> list[dict[str, Any]]:
    """Every row, latest first."""
    order = (_TABLE.c.last_ms.desc(), *_TABLE.primary_key)
    return [dict(row._mapping) for row in connection.execute(select(_TABLE).order_by(*order))]


def _entry(row: Any) -> AuditEntry:
    times = f" ({row.times:,} times)" if row.times > 1 else ""
    return AuditEntry(
        NO_NUMBER, row.last_ms, 0, row.actor, row.action, row.subject, f"{row.detail}{times}", row.refused
    )


def prune(connection: Connection, most: int) -> None:
    """Forgets those seen longest ago beyond those that are kept, at most so many."""
    last = _TABLE.c.last_ms
    known = connection.execute(select(func.count()).select_from(_TABLE)).scalar_one()
    if (surplus := min(known - MOST_REFUSALS, most)) > 0:
        oldest = connection.execute(select(last).order_by(last).offset(surplus - 1).limit(1)).scalar_one()
        connection.execute(delete(_TABLE).where(last <= oldest))

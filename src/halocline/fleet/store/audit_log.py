"""The audit log in the store: entries that are only added, each with a hash of the one before.

The oldest are forgotten when there are too many or they are too old, which an entry of its own says. Every
function works inside the caller's transaction. No two write entries at the same time: see
`halocline.fleet.store.sql.FleetStore`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, delete, func, insert, select

from halocline.fleet.answers import AuditEntry, AuditQuery
from halocline.fleet.audit_chain import FLEET, PRUNED, Beginning, chained
from halocline.fleet.core.effects import Audit
from halocline.fleet.store import schema

MOST_ENTRIES: Final = 1_000_000
_DAY_MS: Final = 24 * 3_600_000
KEPT_MS: Final = 400 * _DAY_MS
"""What is kept: so many entries, and none that is older; a day more, so that some are forgotten together."""
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


@dataclass(frozen=True, slots=True)
class Surplus:
    """Entries beyond what is kept, the oldest first; of which so many are too old, the others too many."""

    entries: list[AuditEntry]
    by_age: int


def surplus(connection: Connection, now_ms: int, most: int) -> Surplus | None:
    """The oldest entries that are to be forgotten, at most so many; None if there are none.

    A few more go than must, so that not every new entry makes an old one go.
    """
    number, at_ms = _TABLE.c.number, _TABLE.c.at_ms
    first, newest = connection.execute(select(func.min(number), func.max(number))).one()
    if newest is None:
        return None
    too_many = newest - first + 1 - MOST_ENTRIES
    many_end = first + too_many + max(MOST_ENTRIES // 100, 2) if too_many > 0 else first
    oldest = connection.execute(select(at_ms).where(number == first)).scalar_one()
    old_end = first
    if oldest < now_ms - KEPT_MS - _DAY_MS:
        old_end = connection.execute(select(func.min(number)).where(at_ms >= now_ms - KEPT_MS)).scalar_one() or newest
    end = min(max(many_end, old_end), newest)
    entries = [each for each in following(connection, first - 1, most) if each.number < end]
    return Surplus(entries, sum(each.number < old_end for each in entries)) if entries else None


def forget(connection: Connection, epoch: int, now_ms: int, what: Surplus) -> None:
    """Forgets entries, and says in a new one how many there were so far and where the log goes on from."""
    last = what.entries[-1]
    connection.execute(delete(_TABLE).where(_TABLE.c.number <= last.number))
    query = AuditQuery(actor=FLEET, action=PRUNED, limit=1)
    before = Beginning.of_log((*found(connection, query), *what.entries)) or Beginning()
    after = Beginning(before.forgotten + len(what.entries), before.by_age + what.by_age, last.number, last.hash)
    append(connection, epoch, (Audit(now_ms, FLEET, PRUNED, "audit", str(after)),))

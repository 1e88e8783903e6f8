"""Refusals have a table of their own, and the log of decisions says where it begins."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text

from halocline.fleet.answers import AuditEntry
from halocline.fleet.audit_chain import FLEET, PRUNED, Beginning, chained

MINIMUM: Final = 3
"""Releases from before go on writing refusals into the log of decisions, and say nothing of what they forget."""
_STATEMENTS: Final = (
    "CREATE TABLE refusals (actor VARCHAR(200) NOT NULL, action VARCHAR(40) NOT NULL, refused VARCHAR(60) NOT NULL, "
    "subject VARCHAR(1000) NOT NULL, detail TEXT NOT NULL, first_ms BIGINT NOT NULL, last_ms BIGINT NOT NULL, "
    "times BIGINT NOT NULL, PRIMARY KEY (actor, action, refused))",
    "CREATE INDEX refusals_last ON refusals (last_ms)",
)
_FIRST: Final = "SELECT * FROM audit ORDER BY number LIMIT 1"
_NEWEST: Final = "SELECT number, at_ms, epoch, hash FROM audit ORDER BY number DESC LIMIT 1"
_INSERT: Final = (
    "INSERT INTO audit (at_ms, epoch, actor, action, subject, detail, refused, hash) "
    "VALUES (:at_ms, :epoch, :actor, :action, :subject, :detail, '', :hash)"
)


def upgrade(connection: Connection) -> None:
    """Makes the table, and anchors a log whose oldest entries are gone or have no hashes."""
    for statement in _STATEMENTS:
        connection.execute(text(statement))
    first = connection.execute(text(_FIRST)).mappings().one_or_none()
    if first is None:
        return
    oldest = AuditEntry(**first)
    if oldest.hash and oldest.hash == chained("", oldest):
        return
    newest = connection.execute(text(_NEWEST)).mappings().one()
    # What is gone was numbered; that is all that is known of it.
    detail = str(Beginning(oldest.number - 1, 0, oldest.number - 1))
    entry = AuditEntry(0, newest["at_ms"], newest["epoch"], FLEET, PRUNED, "audit", detail)
    row = {"at_ms": entry.at_ms, "epoch": entry.epoch, "actor": FLEET, "action": PRUNED, "subject": "audit"}
    connection.execute(text(_INSERT), {**row, "detail": detail, "hash": chained(newest["hash"], entry)})

"""The durable truth as rows: one for each record of a fleet, and a table of its own for incarnations.

Every function works inside the caller's transaction. Whatever the size of a store, taking over reads the records, the
newest incarnations and those of members; the *floor* stands for the incarnations that are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, select

from halocline.fleet.core.state import MOST_LIVES, Fleet, RecordChange
from halocline.fleet.store import codec, schema
from halocline.fleet.store.upsert import upsert

_AT_ONCE: Final = 500
_RECORDS, _LIVES = schema.records, schema.incarnations


def fleet(connection: Connection, epoch: int) -> Fleet:
    """The fleet, of whose incarnations only the newest and those of its members are read."""
    # A few rows at a time: a server takes a session for stalled that says nothing while it works through all of them.
    rows = connection.execute(select(_RECORDS.c.kind, _RECORDS.c.body), execution_options={"yield_per": _AT_ONCE})
    found = codec.assembled(epoch, ((row.kind, row.body) for row in rows))
    newest = select(_LIVES).order_by(_LIVES.c.incarnation.desc()).limit(MOST_LIVES + 1)
    latest = connection.execute(newest).all()
    lives = {row.identity: row.incarnation for row in latest[:MOST_LIVES]}
    here = sorted({key.identity for key in found.members} - lives.keys())
    for start in range(0, len(here), _AT_ONCE):
        some = _LIVES.c.identity.in_(here[start : start + _AT_ONCE])
        lives |= {row.identity: row.incarnation for row in connection.execute(select(_LIVES).where(some))}
    # Whatever was not read is no higher than the first of it.
    floor = max([found.floor, *(row.incarnation for row in latest[MOST_LIVES:])])
    return replace(found, incarnations=lives, floor=floor)


def put(connection: Connection, epoch: int, changes: Sequence[RecordChange]) -> None:
    """Writes records, and deletes those that are None."""
    gone, kept = [], []
    for change in changes:
        if change.kind in ("epoch", "incarnations"):
            continue
        key, body = codec.encode(change.key, change.value)
        if change.value is None:
            gone.append({"of": change.kind, "named": key})
        else:
            kept.append({"kind": change.kind, "key": key, "epoch": epoch, "body": body})
    if gone:
        which = (_RECORDS.c.kind == bindparam("of"), _RECORDS.c.key == bindparam("named"))
        connection.execute(delete(_RECORDS).where(*which), gone)
    if kept:
        upsert(connection, _RECORDS, kept)
    _put_lives(connection, {each.key: each.value for each in changes if each.kind == "incarnations"})


def put_in_place(connection: Connection, epoch: int, changes: Iterable[RecordChange]) -> None:
    """Writes records in the place of all others."""
    connection.execute(delete(_RECORDS))
    connection.execute(delete(_LIVES))
    put(connection, epoch, tuple(changes))


def prune(connection: Connection, floor: int, members: Collection[str], most: int) -> None:
    """Forgets incarnations up to the floor, except those of members, at most so many."""
    identity, life = _LIVES.c
    old = select(identity).where(life <= floor, identity.not_in(members)).order_by(life).limit(most)
    connection.execute(delete(_LIVES).where(identity.in_(old)))


def _put_lives(connection: Connection, lives: Mapping[Any, int | None]) -> None:
    if gone := [{"named": name} for name, life in lives.items() if life is None]:
        connection.execute(delete(_LIVES).where(_LIVES.c.identity == bindparam("named")), gone)
    if kept := [{"identity": name, "incarnation": life} for name, life in lives.items() if life is not None]:
        upsert(connection, _LIVES, kept)

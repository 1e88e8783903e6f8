"""Records of a fleet as text, and back.

A row's body is a JSON object with the record's key and value. The key is in there as well because the key column holds
a digest where the key itself would be too long for an index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import msgspec

from halocline.addresses import hide_secrets
from halocline.errors import HaloclineError, MalformedError
from halocline.fleet.core.ladder import Ladder
from halocline.fleet.core.ladder_state import Hold, LadderState
from halocline.fleet.core.state import (
    SINGLE,
    DoneCommand,
    Fleet,
    FleetTerms,
    Member,
    MemberKey,
    RecordChange,
    TableLevel,
    shared_use,
    written,
)

KINDS: Final[dict[str, tuple[Any, Any]]] = {
    "terms": (tuple[()], FleetTerms),
    "ladders": (str, Ladder),
    "ladder_states": (str, LadderState),
    "members": (MemberKey, Member),
    "incarnations": (str, int),
    "floor": (tuple[()], int),
    "holds": (tuple[str, str], Hold),
    "tables": (tuple[str, str], TableLevel),
    "answered": (str, DoneCommand),
    "generation": (tuple[()], int),
    "seal_key": (tuple[()], str),
}
"""What keys and values of each kind are; the kinds are the fields of a `Fleet` except the epoch."""

SECRET: Final = frozenset({"seal_key"})
"""What never leaves a store."""

_LONGEST_KEY: Final = 600


class _Body(msgspec.Struct):
    key: msgspec.Raw
    value: msgspec.Raw


def encode(key: Any, value: Any) -> tuple[str, str]:
    """The key column and the body of a record."""
    text = msgspec.json.encode(key)
    body = b'{"key":' + text + b',"value":' + msgspec.json.encode(value, order="deterministic") + b"}"
    column = text.decode() if len(text) <= _LONGEST_KEY else f"sha256:{hashlib.sha256(text).hexdigest()}"
    return column, body.decode()


def decode(kind: str, body: str) -> RecordChange:
    """The record as the change that would write it."""
    try:
        key_type, value_type = KINDS[kind]
        # Members have texts of their own in the names of tables only, which drop secrets by themselves.
        parts = msgspec.json.decode(body if kind == "members" else _without_secrets(body), type=_Body)
        key = msgspec.json.decode(parts.key, type=key_type)
        value = msgspec.json.decode(parts.value, type=value_type)
        return RecordChange(kind, (value.table, value.ladder) if kind == "tables" else key, value)
    except (KeyError, msgspec.MsgspecError, HaloclineError) as error:
        raise MalformedError(
            f"a record of kind {kind[:40]!r} in the store cannot be read",
            sides={"found": hide_secrets(body)[:200], "problem": str(error)[:200]},
            next_step="Import a backup into a new store: halocline fleet import FILE",
        ) from error


def _without_secrets(body: str) -> str:
    """A record without secrets. Each text is looked at by itself: a sign of a URL may be one of JSON as well."""
    if hide_secrets(body, mark="") == body:
        return body
    return msgspec.json.encode(_hidden(msgspec.json.decode(body))).decode()


def _hidden(part: Any) -> Any:
    match part:
        case str():
            return hide_secrets(part, mark="")
        case dict():
            return {_hidden(name): _hidden(each) for name, each in part.items()}
        case list():
            return [_hidden(each) for each in part]
    return part


def assembled(epoch: int, rows: Iterable[tuple[str, str]]) -> Fleet:
    """The fleet that the rows, as (kind, body), describe."""
    fields: dict[str, Any] = {}
    for kind, body in rows:
        change = decode(kind, body)
        value = change.value
        if kind in SINGLE:
            fields[kind] = value
            continue
        if kind == "members" and value.report.tables:
            report = replace(value.report, tables=frozenset(map(shared_use, value.report.tables)))
            # Here there is time for it, and later a heartbeat would wait.
            written(report.tables)
            value = replace(value, report=report)
        fields.setdefault(kind, {})[change.key] = value
    return replace(Fleet(epoch=epoch), **fields)


def taken_apart(fleet: Fleet) -> Iterable[RecordChange]:
    """Every record of a fleet, as the change that would write it; neither the epoch nor the key is one of them."""
    for kind in KINDS:
        if kind in SECRET:
            continue
        if kind in SINGLE:
            yield RecordChange(kind, (), getattr(fleet, kind))
        else:
            yield from (RecordChange(kind, key, value) for key, value in getattr(fleet, kind).items())

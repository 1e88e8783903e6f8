"""What members and operators ask of a coordinator, checked as it arrives.

A request that is to change something becomes a command of the core (`halocline.fleet.core.events`). Its actor is empty:
who asks is known from the token, and the coordinator fills it in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from functools import partial
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from halocline.addresses import hide_secrets
from halocline.compat.protocol import Protocol
from halocline.compat.terms import ProtocolChange, Terms
from halocline.errors import InputError
from halocline.fleet.answers import AuditQuery, BlockQuery, BreakQuery, MembersQuery
from halocline.fleet.core.events import Command, DeclareLadder, SetTerms
from halocline.fleet.core.ladder import Ladder, LadderLevel, Rung
from halocline.fleet.core.ladder_state import Policy
from halocline.fleet.core.state import FleetTerms, Provenance
from halocline.fleet.wire.messages import (
    LONGEST_RELEASE,
    MOST_FEATURES,
    MOST_LADDERS,
    bounded,
    chosen,
    counted,
    feature_name,
    ladder_name,
    level_number,
    matched,
    ranges,
    table_url,
    table_uses,
)
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb
from halocline.fleet.wire.values import from_message, to_message

MOST_RUNGS: Final = 256
LONGEST_PROTOCOL: Final = 10_000
_C = TypeVar("_C", bound=Command)

# Questions.


def break_query(message: pb.WhoBreaksRequest) -> BreakQuery:
    """Which members would break."""
    if sum(map(bool, (message.remove, message.ladder, message.HasField("change")))) != 1:
        raise InputError("ask for one of these: a feature to be removed, a ladder and its level, a table's change")
    page = (bounded("page", message.after), message.limit)
    if message.remove:
        return BreakQuery(*page, remove=bounded("feature", message.remove, 128))
    if message.ladder:
        return BreakQuery(*page, ladder=ladder_name(message.ladder), level=message.level)
    change = message.change
    before = _table_terms(change.before) if change.HasField("before") else None
    return BreakQuery(*page, change=ProtocolChange(table_url(change.table), before, _table_terms(change.after)))


def to_break_query(query: BreakQuery) -> pb.WhoBreaksRequest:
    """Which members would break, for the wire."""
    changed = None
    if query.change is not None:
        before, after = query.change.before, query.change.after
        changed = pb.TableChange(table=query.change.table, after=_to_table_terms(after))
        if before is not None:
            changed.before.CopyFrom(_to_table_terms(before))
    return pb.WhoBreaksRequest(
        remove=query.remove,
        ladder=query.ladder,
        level=query.level,
        change=changed,
        after=query.after,
        limit=query.limit,
    )


def members_query(message: pb.MembersRequest) -> MembersQuery:
    """Which members."""
    return MembersQuery(bounded("page", message.after), message.limit, message.all)


def block_query(message: pb.WhoBlocksRequest) -> BlockQuery:
    """Which members keep a feature from being used."""
    return BlockQuery(bounded("page", message.after), message.limit, bounded("feature", message.feature, 128))


def _table_terms(message: pb.TableTerms) -> Terms:
    protocol = Protocol.parse(bounded("protocol", message.protocol, LONGEST_PROTOCOL))
    in_use = counted("features", message.in_use, MOST_FEATURES)
    return Terms(protocol, frozenset(feature_name(name) for name in in_use))


def _to_table_terms(terms: Terms) -> pb.TableTerms:
    return pb.TableTerms(protocol=str(terms.protocol), in_use=sorted(terms.in_use or ()))


def audit_query(message: pb.AuditRequest) -> AuditQuery:
    """Which entries of the audit log."""
    query = from_message(message, AuditQuery)
    return replace(
        query,
        actor=query.actor[:200],
        action=query.action[:40],
        subject=hide_secrets(query.subject, mark="")[:1000],
        limit=query.limit or 100,
    )


# Commands.

_CHECKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "ladder": ladder_name,
    "name": partial(matched, "hold"),
    "policy": partial(chosen, Policy, "policy"),
    "provenance": partial(chosen, Provenance, "provenance"),
    "reason": partial(bounded, "reason"),
    "release": partial(bounded, "release", longest=LONGEST_RELEASE),
    "role": partial(matched, "role"),
    "supported": ranges,
    "table": table_url,
    "tables": table_uses,
}
"""How a field is checked wherever it occurs; numbers and switches are the core's business."""


def command(kind: type[_C], message: Message) -> _C:
    """The command that a message asks for: the fields that both have, each checked.

    What the message leaves empty is as the command has it by default.
    """
    given: dict[str, Any] = {"actor": ""}
    known: Any = fields(kind)  # type: ignore[arg-type]
    optional = {each.name: each.default is not MISSING or each.default_factory is not MISSING for each in known}
    for each in message.DESCRIPTOR.fields:
        name = each.name if each.name in optional else each.name.removesuffix("_ms")
        value = getattr(message, each.name)
        if name in optional and (value or not optional[name]):
            given[name] = _CHECKS[name](value) if name in _CHECKS else value
    return kind(**given)


def declare_ladder(message: pb.DeclareLadderRequest) -> DeclareLadder:
    """A ladder, or rungs on top of one."""
    rungs = tuple(_rung(each) for each in counted("rungs", message.rungs, MOST_RUNGS))
    policy = chosen(Policy, "policy", message.policy or Policy.MANUAL)
    return DeclareLadder(Ladder(ladder_name(message.name), rungs), "", message.level or None, policy)


def _rung(message: pb.Rung) -> Rung:
    return Rung(
        level_number(message.level),
        tuple(
            LadderLevel(ladder_name(each.ladder), level_number(each.level))
            for each in counted("requirements", message.requires, MOST_LADDERS)
        ),
        message.changes_data,
        frozenset(feature_name(name) for name in counted("features", message.features, MOST_FEATURES)),
        tuple(bounded("release", each, LONGEST_RELEASE) for each in counted("releases", message.provided_by, 64)),
        bounded("summary", message.summary),
    )


def to_declare_ladder(command: DeclareLadder) -> pb.DeclareLadderRequest:
    """A ladder for the wire."""
    rungs = [to_message(rung, pb.Rung) for rung in command.ladder.rungs]
    level, policy = command.level or 0, command.policy
    return pb.DeclareLadderRequest(name=command.ladder.name, rungs=rungs, level=level, policy=policy)


def set_terms(message: pb.SetTermsRequest) -> SetTerms:
    """What the fleet is to agree on; what it provides is the coordinator's own business."""
    given = message.terms
    terms = FleetTerms(given.lease_ms, given.margin_ms, given.window_ms, given.development)
    return SetTerms(terms, "", bounded("reason", message.reason))

"""The calls of a fleet: for each its path, and how its request and its answer become bytes and back.

Both ends go by this table: a client encodes a value, a coordinator decodes and checks it, and the answer takes the same
way back. No other room of the package sees the messages in between.

`SESSION` is the one call that this does not describe in full: what travels in a session depends on whose it is, see
`halocline.fleet.wire.messages`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from google.protobuf.message import Message

from halocline.errors import InputError
from halocline.fleet import answers
from halocline.fleet.core import events
from halocline.fleet.core.events import Command
from halocline.fleet.core.ladder import LadderLevel
from halocline.fleet.wire import messages, requests
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb
from halocline.fleet.wire.values import from_message, to_message

SERVICES: Final = ("halocline.fleet.v1.Fleet", "halocline.fleet.v1.Admin")
"""What members call, and what operators call."""

CHUNK: Final = 256 * 1024
"""Bytes of a backup that travel in one piece."""

KEY: Final = "halocline-key"
"""The metadata that carries the key of a command."""

_Q = TypeVar("_Q")
_A = TypeVar("_A")
_V = TypeVar("_V")
_M = TypeVar("_M", bound=Message)
_C = TypeVar("_C", bound=Command)


@dataclass(frozen=True, slots=True)
class Codec(Generic[_V]):
    """How a value becomes bytes, and back; what cannot be such a value is an `InputError` in either direction."""

    encode: Callable[[_V], bytes]
    decode: Callable[[bytes], _V]


@dataclass(frozen=True, slots=True)
class Call(Generic[_Q, _A]):
    """One call."""

    service: str
    name: str
    request: Codec[_Q]
    answer: Codec[_A]

    @property
    def path(self) -> str:
        """Where it is found."""
        return f"/{self.service}/{self.name}"


class DropKey(NamedTuple):
    """No token that this key signed is to be accepted any more."""

    id: str
    reason: str


class Chunk(NamedTuple):
    """A piece of a backup; the reason comes with the first piece of an import."""

    data: bytes
    reason: str = ""


def _codec(kind: type[_M], decode: Callable[[_M], _V], encode: Callable[[_V], _M] | None = None) -> Codec[_V]:
    message: Any = encode or partial(to_message, kind=kind)

    def encoded(value: _V) -> bytes:
        try:
            # The same value gives the same bytes: a command that is sent again is told from another by them.
            data: bytes = message(value).SerializeToString(deterministic=True)
        except (TypeError, ValueError) as error:
            raise InputError(f"{value} cannot be sent: {error}") from error
        return data

    return Codec(encoded, lambda data: decode(messages.parsed(kind, data)))


def _same(kind: type[Message], value: type[_V]) -> Codec[_V]:
    """A value that has the fields of its message, from a peer that is trusted."""
    return _codec(kind, lambda message: from_message(message, value))


def _single(kind: type[Message], field: str, check: Callable[[Any], _V]) -> Codec[_V]:
    """A value that is the one field of its message."""
    return _codec(kind, lambda message: check(getattr(message, field)), lambda value: kind(**{field: value}))


def _empty(kind: type[Message]) -> Codec[None]:
    return _codec(kind, lambda _: None, lambda _: kind())


_FLEET, _ADMIN = SERVICES
_LEVEL: Final = _codec(pb.LevelRequest, lambda it: LadderLevel(messages.ladder_name(it.ladder), it.level))
_RESULT: Final = _same(pb.CommandResponse, answers.CommandResult)
_PLAN: Final = _same(pb.Plan, answers.LevelPlan)
_AFFECTED: Final = _same(pb.AffectedResponse, answers.AffectedMembers)
_CHUNK: Final = _codec(pb.Chunk, lambda it: Chunk(it.data, it.reason))


def _command(
    name: str, kind: type[Message], command: type[_C], service: str = _ADMIN
) -> Call[_C, answers.CommandResult]:
    return Call(service, name, _codec(kind, partial(requests.command, command)), _RESULT)


# What members call.

HANDSHAKE: Final = Call(
    _FLEET,
    "Handshake",
    _codec(pb.HandshakeRequest, messages.greeting),
    _codec(pb.HandshakeResponse, messages.welcome),
)
SESSION: Final = f"/{_FLEET}/Session"
LEAVE: Final = Call(_FLEET, "Leave", _empty(pb.LeaveRequest), _empty(pb.LeaveResponse))
MOVE_TABLE: Final = _command("MoveTable", pb.MoveTableRequest, events.MoveTable, _FLEET)
TABLE_USERS: Final = Call(
    _FLEET,
    "TableUsers",
    _single(pb.TableUsersRequest, "table", messages.table_url),
    _same(pb.TableUsersResponse, answers.TableUsers),
)

# Questions of operators.

DESCRIBE: Final = Call(_ADMIN, "Describe", _empty(pb.DescribeRequest), _same(pb.DescribeResponse, answers.FleetStatus))
MEMBERS: Final = Call(
    _ADMIN,
    "Members",
    _codec(pb.MembersRequest, requests.members_query),
    _same(pb.MembersResponse, answers.FleetMembers),
)
WHO_BLOCKS: Final = Call(
    _ADMIN,
    "WhoBlocks",
    _codec(pb.WhoBlocksRequest, requests.block_query),
    _AFFECTED,
)
WHO_BREAKS: Final = Call(
    _ADMIN, "WhoBreaks", _codec(pb.WhoBreaksRequest, requests.break_query, requests.to_break_query), _AFFECTED
)
PLAN_RAISE: Final = Call(_ADMIN, "PlanRaise", _LEVEL, _PLAN)
PLAN_DOWNGRADE: Final = Call(_ADMIN, "PlanDowngrade", _LEVEL, _PLAN)
AUDIT: Final = Call(
    _ADMIN, "Audit", _codec(pb.AuditRequest, requests.audit_query), _same(pb.AuditResponse, answers.AuditEntries)
)

KEYS: Final = Call(_ADMIN, "Keys", _empty(pb.KeysRequest), _same(pb.KeysResponse, answers.SigningKeys))

# Commands of operators.

RAISE: Final = _command("Raise", pb.RaiseRequest, events.Raise)
SET_POLICY: Final = _command("SetPolicy", pb.SetPolicyRequest, events.SetPolicy)
PLACE_HOLD: Final = _command("PlaceHold", pb.PlaceHoldRequest, events.PlaceHold)
RELEASE_HOLD: Final = _command("ReleaseHold", pb.ReleaseHoldRequest, events.ReleaseHold)
START_DOWNGRADE: Final = _command("StartDowngrade", pb.DowngradeRequest, events.StartDowngrade)
CLEAN_DOWNGRADE: Final = _command("CleanDowngrade", pb.DowngradeRequest, events.CleanDowngrade)
FINISH_DOWNGRADE: Final = _command("FinishDowngrade", pb.DowngradeRequest, events.FinishDowngrade)
CANCEL_DOWNGRADE: Final = _command("CancelDowngrade", pb.DowngradeRequest, events.CancelDowngrade)
OBSERVE: Final = _command("Observe", pb.ObserveRequest, events.Observe)
REMOVE_MEMBER: Final = _command("RemoveMember", pb.RemoveMemberRequest, events.RemoveMember)
DECLARE_LADDER: Final = Call(
    _ADMIN,
    "DeclareLadder",
    _codec(pb.DeclareLadderRequest, requests.declare_ladder, requests.to_declare_ladder),
    _RESULT,
)
SET_TERMS: Final = Call(_ADMIN, "SetTerms", _codec(pb.SetTermsRequest, requests.set_terms), _RESULT)

DROP_KEY: Final = Call(
    _ADMIN,
    "DropKey",
    _codec(
        pb.DropKeyRequest,
        lambda it: DropKey(messages.bounded("key", it.id, 40), messages.bounded("reason", it.reason)),
    ),
    _RESULT,
)

# Backup, in pieces.

EXPORT: Final = Call(_ADMIN, "Export", _empty(pb.ExportRequest), _CHUNK)
IMPORT: Final = Call(_ADMIN, "Import", _CHUNK, _RESULT)

UNARY: Final[tuple[Call[Any, Any], ...]] = tuple(
    each for each in tuple(globals().values()) if isinstance(each, Call) and each not in (EXPORT, IMPORT)
)
"""The calls with one request and one answer; `SESSION`, `EXPORT` and `IMPORT` are streams."""

"""The wire's messages as values, and back.

What arrives from outside is bounded and checked here, once: lengths, counts, names and ranges. A value that comes out
of this module can be used without a second look; anything else is an `InputError` that quotes at most a little of what
was sent. What a member hears comes from a coordinator it trusts, so nothing is bounded there but the message as a
whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message

from halocline.addresses import hide_secrets, unsigned
from halocline.errors import InputError
from halocline.fleet.core.effects import Announce, Refusal, Renew
from halocline.fleet.core.events import Heartbeat
from halocline.fleet.core.ladder_state import Announcement, View
from halocline.fleet.core.state import MOST_USES, LevelRange, MemberKey, Report, TableUse, shared_use
from halocline.fleet.wire.handshake import Peer
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb
from halocline.fleet.wire.session import Admission, FreshToken, Greeting, SessionBegun, SessionMessage, Welcome
from halocline.fleet.wire.values import from_message, to_message

MOST_FEATURES: Final = 512
MOST_LADDERS: Final = 64
LONGEST_RELEASE: Final = 200
LONGEST_TABLE: Final = 1024
LONGEST_PROOF: Final = 100
LONGEST_REASON: Final = 2000
HIGHEST_LEVEL: Final = 1_000_000

_FEATURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LADDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")
_M = TypeVar("_M", bound=Message)
_E = TypeVar("_E", bound=StrEnum)


def parsed(kind: type[_M], data: bytes) -> _M:
    """A message from its bytes."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InputError(f"what was sent is no {kind.__name__}", sides={"bytes": f"{len(data):,}"}) from error


# Checks.


def bounded(name: str, text: str, longest: int = LONGEST_REASON) -> str:
    """Text of a limited length without control characters, in which no URL has a secret from here on."""
    text = hide_secrets(text)
    if len(text) > longest or _UNPRINTABLE.search(text):
        raise InputError(
            f"{name} {text[:40]!r} cannot be used",
            sides={"given": f"{len(text):,} characters", "allowed": f"{longest:,} printable ones"},
        )
    return text


def matched(name: str, text: str, pattern: re.Pattern[str] = _WORD) -> str:
    """A name of letters, digits and a few signs."""
    if not pattern.fullmatch(text):
        raise InputError(
            f"{hide_secrets(text)[:80]!r} cannot be a {name}", sides={"expected": f"text like {pattern.pattern}"}
        )
    return text


def chosen(kind: type[_E], name: str, text: str) -> _E:
    """One of the words that a policy, or the like, can be."""
    if text not in set(kind):
        shown = hide_secrets(text)[:40]
        raise InputError.unknown(f"{shown!r} is no {name}", shown, kind)
    return kind(text)


def ladder_name(text: str) -> str:
    """A name that a ladder can have."""
    return matched("ladder", text, _LADDER)


def feature_name(text: str) -> str:
    """A name that a feature can have."""
    return matched("feature", text, _FEATURE)


def table_url(text: str) -> str:
    """A table's URL, without its secrets."""
    return bounded("table", unsigned(text), LONGEST_TABLE)


def counted(name: str, items: Iterable[Any], most: int) -> list[Any]:
    """A list that is not too long."""
    listed = list(items)
    if len(listed) > most:
        raise InputError(f"{len(listed):,} {name} are too many", sides={"allowed": f"{most:,}"})
    return listed


def level_number(number: int) -> int:
    """A number that a level can have."""
    if number > HIGHEST_LEVEL:
        raise InputError(f"{number:,} is no level", sides={"allowed": f"1 to {HIGHEST_LEVEL:,}"})
    return number


# The handshake.


def features(items: Iterable[pb.Feature]) -> dict[str, int]:
    """Features with how much of each there is."""
    listed = counted("features", items, MOST_FEATURES)
    return {feature_name(each.name): min(max(each.level, 1), HIGHEST_LEVEL) for each in listed}


def feature_names(items: Mapping[str, int]) -> frozenset[str]:
    """Features as the core names them: a feature at level n is also there at every lower one, as `name/n`.

    Example:
        >>> sorted(feature_names({"merge": 1, "clone": 3}))
        ['clone', 'clone/2', 'clone/3', 'merge']
    """
    grown = [(name, level) for name, level in items.items() if level > 1]
    if sum(level for _, level in grown) > MOST_FEATURES:
        raise InputError(f"levels of features add up to more than {MOST_FEATURES}")
    return frozenset([*items, *(f"{name}/{n}" for name, level in grown for n in range(2, level + 1))])


def peer(message: pb.Peer) -> Peer:
    """One end of the wire."""
    return _peer(message.SerializeToString(deterministic=True))


@lru_cache(maxsize=256)
def _peer(data: bytes) -> Peer:
    """Fleets run few releases, so most ends of the wire have been seen before."""
    message = pb.Peer.FromString(data)
    product, version = bounded("product", message.product, 64), bounded("version", message.version, 64)
    return Peer(product, version, features(message.provides), features(message.requires))


def greeting(message: pb.HandshakeRequest) -> Greeting:
    """What a client says in the handshake, checked."""
    identity = Report(message.identity, 0, "").identity
    role = matched("role", message.role or "reader")
    member = report(identity, role, message.membership) if message.HasField("membership") else None
    views = heard_views(message.views)
    return Greeting(peer(message.client), identity, role, message.secret, message.clock_ms, message.sent, member, views)


def welcome(message: pb.HandshakeResponse) -> Welcome:
    """What a coordinator answers to a greeting."""
    return Welcome(
        peer(message.server),
        message.epoch,
        message.clock_ms,
        message.token,
        message.token_expires_ms,
        frozenset(message.rights),
        from_message(message.admission, Admission) if message.HasField("admission") else None,
    )


def report(identity: str, role: str, member: pb.Membership) -> Report:
    """What a member says about itself."""
    return Report(
        identity=identity,
        incarnation=member.incarnation,
        release=bounded("release", member.release, LONGEST_RELEASE),
        role=role,
        supported=ranges(member.supported),
        features=feature_names(features(member.features)),
        needs=feature_names(features(member.needs)),
        development=member.development,
        tables=table_uses(member.tables),
    )


def ranges(supported: Mapping[str, pb.LevelRange]) -> dict[str, LevelRange]:
    """The range per ladder."""
    listed = counted("ladders", supported.items(), MOST_LADDERS)
    return {ladder_name(name): LevelRange(level_number(each.lo), level_number(each.hi)) for name, each in listed}


def table_uses(items: Iterable[pb.TableUse]) -> frozenset[TableUse]:
    """The tables that a member uses."""
    listed = counted("tables", items, MOST_USES)
    return frozenset(_table_use(each.table, each.ladder, each.operation or "read") for each in listed)


@lru_cache(maxsize=1 << 16)
def _table_use(table: str, ladder: str, operation: str) -> TableUse:
    """Members use the same tables over and over, so most have been checked before."""
    return shared_use(TableUse(table_url(table), ladder_name(ladder), matched("operation", operation)))


def heard_views(views: Mapping[str, pb.View]) -> dict[str, View]:
    """What a member has heard, per ladder."""
    listed = counted("ladders", views.items(), MOST_LADDERS)
    return {name: View(each.revision, each.level, bounded("proof", each.proof, LONGEST_PROOF)) for name, each in listed}


# Sessions.


def heartbeat(key: MemberKey, data: bytes) -> Heartbeat:
    """A heartbeat; which member sends it is known from the token, not from the message."""
    up = parsed(pb.Up, data)
    if up.WhichOneof("what") != "heartbeat":
        raise InputError("a session carries heartbeats, and nothing else")
    message = up.heartbeat
    tables = table_uses(message.tables.tables) if message.HasField("tables") else None
    return Heartbeat(*key, message.seq, message.sent, heard_views(message.views), tables)


def to_heartbeat(of: Heartbeat) -> bytes:
    """A heartbeat for the wire."""
    uses = None if of.tables is None else [to_message(use, pb.TableUse) for use in sorted(of.tables)]
    tables = None if uses is None else pb.TablesInUse(tables=uses)
    views = {name: to_message(view, pb.View) for name, view in of.views.items()}
    beat = pb.Heartbeat(seq=of.seq, sent=of.sent, views=views, tables=tables)
    return pb.Up(heartbeat=beat).SerializeToString()


def session_message(key: MemberKey, data: bytes) -> SessionMessage | None:
    """What a coordinator sends to a member in its session; None if this release does not know what it is."""
    down = pb.Down.FromString(data)
    match down.WhichOneof("what"):
        case "renewal":
            new = down.renewal
            return Renew(*key, new.seq, new.sent, new.epoch, new.lease_ms, _announcements(new.announcements))
        case "standing":
            return Announce(_announcements(down.standing.announcements))
        case "ended":
            end = down.ended
            return Refusal(end.condition, end.message, end.subject, tuple(end.sides.items()), end.fix, end.next_step)
        case "token":
            return FreshToken(down.token.token, down.token.expires_ms)
        case "marker":
            return SessionBegun(down.marker.epoch)
        case _:
            return None


def to_session_message(of: SessionMessage) -> bytes:
    """What a coordinator sends to a member in its session, for the wire."""
    match of:
        case Renew():
            news = _to_announcements(of.announcements)
            renewal = pb.Renewal(seq=of.seq, sent=of.sent, epoch=of.epoch, lease_ms=of.lease, announcements=news)
            down = pb.Down(renewal=renewal)
        case Announce():
            down = pb.Down(standing=pb.Standing(announcements=_to_announcements(of.announcements)))
        case Refusal():
            fields = {name: getattr(of, name) for name in ("condition", "message", "subject", "fix", "next_step")}
            down = pb.Down(ended=pb.Ended(sides=dict(of.sides), **fields))
        case FreshToken():
            down = pb.Down(token=to_message(of, pb.FreshToken))
        case SessionBegun():
            down = pb.Down(marker=to_message(of, pb.Marker))
    return down.SerializeToString()


def _announcements(items: Iterable[pb.Announcement]) -> tuple[Announcement, ...]:
    return tuple(Announcement(each.ladder, each.revision, each.level, each.limit, each.proof) for each in items)


def _to_announcements(items: Iterable[Announcement]) -> list[pb.Announcement]:
    return [to_message(each, pb.Announcement) for each in items]

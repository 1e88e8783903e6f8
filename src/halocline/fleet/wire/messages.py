"""The wire's messages as values of the core, and back.

What arrives from outside is bounded and checked here, once: lengths, counts, names and ranges. A value that comes out
of this module can be used without a second look; anything else is an `InputError` that quotes at most a little of what
was sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableSequence
from typing import Any, Final

from google.protobuf.message import Message as ProtoMessage

from halocline.compat.protocol import Protocol
from halocline.compat.terms import Terms
from halocline.errors import InputError
from halocline.fleet.core.effects import Admit, Refusal, Renew
from halocline.fleet.core.events import Heartbeat
from halocline.fleet.core.ladder import Ladder, Rung
from halocline.fleet.core.ladder_state import Announcement, View
from halocline.fleet.core.state import LevelRange, Report, TableUse
from halocline.fleet.wire.handshake import Peer
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb

MOST_FEATURES: Final = 512
MOST_TABLES: Final = 512
MOST_LADDERS: Final = 64
MOST_RUNGS: Final = 256
LONGEST_RELEASE: Final = 200
LONGEST_TABLE: Final = 1024
LONGEST_PROTOCOL: Final = 10_000
LONGEST_REASON: Final = 2000
HIGHEST_LEVEL: Final = 1_000_000

_FEATURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LADDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


def bounded(what: str, text: str, longest: int = LONGEST_REASON) -> str:
    """Text of a limited length without control characters.

    Example:
        >>> bounded("reason", "year-end close")
        'year-end close'
    """
    if len(text) > longest or _UNPRINTABLE.search(text):
        raise InputError(
            f"{what} {text[:40]!r} cannot be used",
            sides={"given": f"{len(text):,} characters", "allowed": f"{longest:,} printable ones"},
        )
    return text


def matched(what: str, text: str, pattern: re.Pattern[str] = _WORD) -> str:
    """A name of letters, digits and a few signs."""
    if not pattern.fullmatch(text):
        raise InputError(f"{text[:80]!r} cannot be a {what}", sides={"expected": f"text like {pattern.pattern}"})
    return text


def ladder_name(text: str) -> str:
    """A name that a ladder can have."""
    return matched("ladder", text, _LADDER)


def counted(what: str, items: Iterable[Any], most: int) -> list[Any]:
    """A list that is not too long."""
    listed = list(items)
    if len(listed) > most:
        raise InputError(f"{len(listed):,} {what} are too many", sides={"allowed": f"{most:,}"})
    return listed


# Into the core.


def features(items: Iterable[pb.Feature]) -> dict[str, int]:
    """Features with how much of each there is."""
    listed = counted("features", items, MOST_FEATURES)
    return {matched("feature", each.name, _FEATURE): min(max(each.level, 1), HIGHEST_LEVEL) for each in listed}


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


def side(peer: pb.Peer) -> Peer:
    """One end of the wire."""
    product = bounded("product", peer.product, 64)
    version = bounded("version", peer.version, 64)
    return Peer(product, version, features(peer.provides), features(peer.requires))


def ranges(supported: Mapping[str, pb.LevelRange]) -> dict[str, LevelRange]:
    """The range per ladder."""
    listed = counted("ladders", supported.items(), MOST_LADDERS)
    return {ladder_name(name): LevelRange(_level(each.lo), _level(each.hi)) for name, each in listed}


def table_uses(items: Iterable[pb.TableUse]) -> frozenset[TableUse]:
    """The tables that somebody uses."""
    return frozenset(
        TableUse(
            bounded("table", each.table, LONGEST_TABLE),
            ladder_name(each.ladder),
            matched("operation", each.operation or "read"),
        )
        for each in counted("tables", items, MOST_TABLES)
    )


def table_terms(message: pb.TableTerms) -> Terms:
    """What a table asks of those who use it."""
    protocol = Protocol.parse(bounded("protocol", message.protocol, LONGEST_PROTOCOL))
    in_use = counted("features", message.in_use, MOST_FEATURES)
    return Terms(protocol, frozenset(matched("feature", name, _FEATURE) for name in in_use))


def report(identity: str, role: str, member: pb.Membership) -> Report:
    """What a member says about itself."""
    return Report(
        identity=identity,
        incarnation=member.incarnation,
        release=bounded("release", member.release, LONGEST_RELEASE),
        role=matched("role", role or "reader"),
        supported=ranges(member.supported),
        features=feature_names(features(member.features)),
        needs=feature_names(features(member.needs)),
        development=member.development,
        tables=table_uses(member.tables),
    )


def heartbeat(identity: str, incarnation: int, message: pb.Heartbeat) -> Heartbeat:
    """A heartbeat; who sends it is known from the token, not from the message."""
    views = counted("ladders", message.views.items(), MOST_LADDERS)
    tables = table_uses(message.tables.tables) if message.HasField("tables") else None
    heard = {ladder: View(view.revision, view.level) for ladder, view in views}
    return Heartbeat(identity, incarnation, message.seq, message.sent, heard, tables)


def ladder(request: pb.DeclareLadderRequest) -> Ladder:
    """A ladder that somebody declares."""
    return Ladder(ladder_name(request.name), tuple(_rung(each) for each in counted("rungs", request.rungs, MOST_RUNGS)))


def _rung(message: pb.Rung) -> Rung:
    return Rung(
        _level(message.level),
        tuple(
            (ladder_name(each.ladder), _level(each.level))
            for each in counted("requirements", message.requires, MOST_LADDERS)
        ),
        message.changes_data,
        frozenset(matched("feature", n, _FEATURE) for n in counted("features", message.features, MOST_FEATURES)),
        tuple(bounded("release", each, LONGEST_RELEASE) for each in counted("releases", message.provided_by, 64)),
        bounded("summary", message.summary),
    )


def _level(number: int) -> int:
    if number > HIGHEST_LEVEL:
        raise InputError(f"{number:,} is no level", sides={"allowed": f"1 to {HIGHEST_LEVEL:,}"})
    return number


# Out of the core.


def to_features(items: Mapping[str, int] | Iterable[str]) -> list[pb.Feature]:
    """Features for the wire."""
    pairs = items.items() if isinstance(items, Mapping) else ((name, 1) for name in items)
    return [pb.Feature(name=name, level=level) for name, level in sorted(pairs)]


def to_peer(end: Peer) -> pb.Peer:
    """One end of the wire, for the wire."""
    return pb.Peer(
        product=end.product,
        version=end.version,
        provides=to_features(end.provides),
        requires=to_features(end.requires),
    )


def to_membership(of: Report) -> pb.Membership:
    """What a member says about itself, for the wire."""
    return pb.Membership(
        incarnation=of.incarnation,
        release=of.release,
        supported=to_ranges(of.supported),
        features=to_features(of.features),
        needs=to_features(of.needs),
        development=of.development,
        tables=to_table_uses(of.tables),
    )


def to_ranges(supported: Mapping[str, LevelRange]) -> dict[str, pb.LevelRange]:
    """Ranges for the wire."""
    return {name: pb.LevelRange(lo=each.lo, hi=each.hi) for name, each in supported.items()}


def to_table_change(table: str, before: Terms | None, after: Terms) -> pb.TableChange:
    """A change of what a table asks of those who use it, for the wire."""
    return pb.TableChange(
        table=table, before=None if before is None else _to_table_terms(before), after=_to_table_terms(after)
    )


def _to_table_terms(terms: Terms) -> pb.TableTerms:
    return pb.TableTerms(protocol=str(terms.protocol), in_use=sorted(terms.in_use or ()))


def to_table_uses(uses: Iterable[TableUse]) -> list[pb.TableUse]:
    """Tables in use, for the wire."""
    return [pb.TableUse(table=use.table, ladder=use.ladder, operation=use.operation) for use in sorted(uses)]


def to_views(views: Mapping[str, View]) -> dict[str, pb.View]:
    """Views for the wire."""
    return {name: pb.View(revision=view.revision, level=view.level) for name, view in views.items()}


def to_heartbeat(message: Heartbeat) -> pb.Heartbeat:
    """A heartbeat for the wire."""
    tables = None if message.tables is None else pb.TablesInUse(tables=to_table_uses(message.tables))
    return pb.Heartbeat(seq=message.seq, sent=message.sent, views=to_views(message.views), tables=tables)


def to_announcements(items: Iterable[Announcement]) -> list[pb.Announcement]:
    """Announcements for the wire."""
    return [
        pb.Announcement(ladder=each.ladder, revision=each.revision, level=each.level, limit=each.limit)
        for each in items
    ]


def to_renewal(effect: Renew) -> pb.Renewal:
    """The answer to a heartbeat."""
    return pb.Renewal(
        seq=effect.seq,
        sent=effect.sent,
        epoch=effect.epoch,
        lease_ms=effect.lease,
        announcements=to_announcements(effect.announcements),
    )


def to_admission(effect: Admit) -> pb.Admission:
    """The answer to a join. Three heartbeats fit into a lease, so that two may be lost."""
    return pb.Admission(
        sent=effect.sent,
        lease_ms=effect.lease,
        heartbeat_ms=max(effect.lease // 3, 1),
        announcements=to_announcements(effect.announcements),
    )


def to_ended(refusal: Refusal) -> pb.Ended:
    """Why a life of a member is over."""
    return pb.Ended(
        condition=refusal.condition,
        message=refusal.message,
        subject=refusal.subject,
        sides=dict(refusal.sides),
        fix=refusal.fix,
        next_step=refusal.next_step,
    )


# Into a member, which hears from a coordinator it trusts; so nothing is bounded but the message as a whole.


def announcements(items: Iterable[pb.Announcement]) -> tuple[Announcement, ...]:
    """Announcements from the wire."""
    return tuple(Announcement(each.ladder, each.revision, each.level, each.limit) for each in items)


def ended(message: pb.Ended) -> Refusal:
    """Why this life is over."""
    return Refusal(
        message.condition,
        message.message,
        message.subject,
        tuple(message.sides.items()),
        message.fix,
        message.next_step,
    )


def plain(message: ProtoMessage) -> dict[str, Any]:
    """A message as plain values for JSON: camel case names, numbers as numbers, empty fields included.

    Example:
        >>> plain(pb.View(revision=3))
        {'revision': 3, 'level': 0}
    """
    return {field.json_name: _plain(message, field) for field in message.DESCRIPTOR.fields}


def _plain(message: ProtoMessage, field: Any) -> Any:
    value = getattr(message, field.name)
    nested = field.message_type
    if nested is not None and nested.GetOptions().map_entry:
        deep = nested.fields_by_name["value"].message_type is not None
        return {key: plain(each) if deep else each for key, each in sorted(value.items())}
    if isinstance(value, MutableSequence):
        return [plain(each) if nested else each for each in value]
    if nested is not None:
        return plain(value) if message.HasField(field.name) else None
    return value

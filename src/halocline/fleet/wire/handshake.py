"""The handshake: may these two ends of the wire work together?

A *peer* is one end as it presents itself: product, version, the features it provides and those it requires of the other
end. A *wire* is what one release of Halocline speaks: its version and two histories, one of what clients call and one
of what coordinators push, in which the coordinator is the one that requires. What a peer requires depends on its
*role*: a member needs nothing below `admin/`, a command line nothing below `member/`.

Both ends judge with the same function. It tests exact sets in both directions as each peer states them, and what the
histories say of the two versions, so that neither a short list nor a stale history lets anything through: a feature
counts as present only if neither the peer's list nor the history denies it. A version that cannot be read, or is zero,
never passes.

Limit: features that both peers left out of their lists and that no history knows are not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from halocline._version import __version__
from halocline.compat.history import History, SideNames
from halocline.fleet.core.effects import Refusal
from halocline.versions import Version

PRODUCT: Final = "halocline"
CALLS: Final = "halocline-fleet"
PUSHES: Final = "halocline-fleet-push"


class Role(StrEnum):
    """What a caller is to the coordinator; decides which features of the wire it needs."""

    MEMBER = "member"
    OPERATOR = "operator"


_NOT_FOR: Final[Mapping[Role, tuple[str, ...]]] = {Role.MEMBER: ("admin/",), Role.OPERATOR: ("member/", "push/")}


class ObjectionKind(StrEnum):
    """What kind of thing stands between two sides."""

    VERSION_UNKNOWN = "VERSION_UNKNOWN"
    FEATURE_MISSING = "FEATURE_MISSING"
    FEATURE_REMOVED = "FEATURE_REMOVED"
    MIN_CLIENT_VERSION = "MIN_CLIENT_VERSION"
    MIN_SERVER_VERSION = "MIN_SERVER_VERSION"


@dataclass(frozen=True, slots=True)
class Objection:
    """One thing between two sides."""

    kind: ObjectionKind
    subject: str
    text: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Peer:
    """One end of the wire as it presents itself. Features map to how much of them there is, from 1 on."""

    product: str
    version: str
    provides: Mapping[str, int] = field(default_factory=dict)
    requires: Mapping[str, int] = field(default_factory=dict)

    @property
    def release(self) -> str:
        """`product@version`."""
        return f"{self.product}@{self.version}"

    @property
    def known(self) -> bool:
        """Whether it says what it is: a product, and a version that can be read and is not zero."""
        version = Version.parse(self.version)
        return bool(self.product) and version.known and not version.is_zero

    def __hash__(self) -> int:
        return hash((self.product, self.version))


@dataclass(frozen=True)
class Wire:
    """What one release speaks.

    Args:
        calls: What clients require and coordinators provide.
        pushes: What coordinators require and members provide.
    """

    version: str
    calls: History
    pushes: History

    @staticmethod
    def current() -> Wire:
        """What this release speaks."""
        return Wire(__version__, History.load(CALLS), History.load(PUSHES))

    def client(self, role: Role) -> Peer:
        """This release as a client."""
        provides = _at(self.pushes, "provided", self.version, role)
        return Peer(PRODUCT, self.version, provides, _at(self.calls, "required", self.version, role))

    @cached_property
    def server(self) -> Peer:
        """This release as a coordinator."""
        provides = _at(self.calls, "provided", self.version)
        return Peer(PRODUCT, self.version, provides, _at(self.pushes, "required", self.version))

    @cached_property
    def histories(self) -> Mapping[Role, tuple[History, History]]:
        """Calls and pushes, as far as they concern each role."""
        return {role: (_for(self.calls, role), _for(self.pushes, role)) for role in Role}


def judge(client: Peer, server: Peer, wire: Wire, role: Role) -> tuple[Objection, ...]:
    """Everything that stands between a client and a server; nothing if they may work together."""
    unknown = tuple(
        Objection(
            ObjectionKind.VERSION_UNKNOWN,
            side.release,
            f"{name} version {side.version[:60]!r} cannot be judged",
            "Use a released build; a version of 0, or text without a number, counts as none.",
        )
        for name, side in (("client", client), ("server", server))
        if not side.known
    )
    if unknown:
        return unknown
    calls, pushes = wire.histories[role]
    wanted = {name: n for name, n in server.requires.items() if not name.startswith(_NOT_FOR[role])}
    found = {
        **_between(calls, client, server, client.requires, "client", "server"),
        **_between(pushes, server, client, wanted, "server", "client"),
    }
    return (*found.values(), *_minima(found.values(), client, server, calls, pushes))


def refusal(objections: Iterable[Objection], client: Peer, server: Peer) -> Refusal:
    """The objections as one refusal."""
    all_of_them = tuple(objections)
    first = all_of_them[0]
    unknown = first.kind is ObjectionKind.VERSION_UNKNOWN
    return Refusal(
        "VERSION_UNKNOWN" if unknown else "INCOMPATIBLE_VERSION",
        first.text,
        subject=first.subject,
        sides=(("client", client.release), ("server", server.release), *_features(all_of_them)),
        fix=first.fix,
        next_step=first.fix,
    )


def _features(objections: tuple[Objection, ...]) -> Iterator[tuple[str, str]]:
    named = [
        each.subject
        for each in objections
        if each.kind in (ObjectionKind.FEATURE_MISSING, ObjectionKind.FEATURE_REMOVED)
    ]
    if named:
        yield "missing", ", ".join(named)


def _between(
    history: History, asker: Peer, giver: Peer, required: Mapping[str, int], asks: str, gives: str
) -> dict[str, Objection]:
    """What `asker` requires and `giver` lacks, by what they say and by what the history says of their versions."""
    found: dict[str, Objection] = {}
    if asker.product == giver.product == PRODUCT:
        called = SideNames(asks, gives)
        verdict = history.check(client=asker.version, server=giver.version, called=called)
        for reason in verdict.reasons:
            kind = _KINDS.get(reason.kind, ObjectionKind.FEATURE_MISSING)
            found[reason.feature] = Objection(kind, reason.feature, reason.text, verdict.fix)
    for name, level in sorted(required.items()):
        if giver.provides.get(name, 0) >= level or name in found:
            continue
        much = name if level <= 1 else f"{name} at level {level}"
        text = f"{asks} {asker.release} requires {much}, which {gives} {giver.release} does not provide"
        later = _release_with(history, name, giver)
        fix = f"Upgrade the {gives} to {later}" if later else f"Use a {gives} that provides {much}, or an older {asks}"
        found[name] = Objection(ObjectionKind.FEATURE_MISSING, name, text, fix)
    return found


_KINDS: Final = {"removed": ObjectionKind.FEATURE_REMOVED, "unknown": ObjectionKind.VERSION_UNKNOWN}


def _release_with(history: History, feature: str, giver: Peer) -> str:
    """The first release from which on the giving side has the feature, if the history knows one."""
    lifetime = next((each for each in history.lifetimes if each.id == feature), None)
    if lifetime is None or giver.product != PRODUCT:
        return ""
    later = (span.since for span in lifetime.provided if span.since > Version.parse(giver.version))
    return next((f"{version} or later" for version in later), "")


def _minima(
    objections: Iterable[Objection], client: Peer, server: Peer, calls: History, pushes: History
) -> Iterator[Objection]:
    """The versions that would do, for callers that only compare numbers."""
    if not any(objections) or not client.product == server.product == PRODUCT:
        return
    clients = calls.clients_for(server.version) & pushes.servers_for(server.version)
    servers = calls.servers_for(client.version) & pushes.clients_for(client.version)
    least_client = next((span.since for span in clients if span.since > Version.parse(client.version)), None)
    least_server = next((span.since for span in servers if span.since > Version.parse(server.version)), None)
    if least_client is not None:
        text = f"server {server.version} accepts clients from {least_client}"
        yield Objection(
            ObjectionKind.MIN_CLIENT_VERSION, str(least_client), text, f"Upgrade the client to {least_client}"
        )
    if least_server is not None:
        text = f"client {client.version} accepts servers from {least_server}"
        yield Objection(
            ObjectionKind.MIN_SERVER_VERSION, str(least_server), text, f"Upgrade the server to {least_server}"
        )


def _for(history: History, role: Role) -> History:
    kept = tuple(each for each in history.lifetimes if not each.id.startswith(_NOT_FOR[role]))
    return replace(history, lifetimes=kept)


def _at(history: History, side: str, version: str, role: Role | None = None) -> dict[str, int]:
    at = Version.parse(version)
    if history.pre_releases_count and at.is_pre_release:
        at = at.release
    found = (each.id for each in history.lifetimes if at in getattr(each, side))
    return {name: 1 for name in found if role is None or not name.startswith(_NOT_FOR[role])}

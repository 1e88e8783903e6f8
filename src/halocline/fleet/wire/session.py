"""What a client and a coordinator say to each other, from the handshake to the end of a session.

A client opens with a *greeting*; a coordinator that accepts it answers with a *welcome*, and with an *admission* if the
client asked to be a member. A member then opens a *session*: heartbeats go up, and what is news to the member comes
down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from halocline.fleet.core.effects import Announce, Refusal, Renew
from halocline.fleet.core.ladder_state import Announcement, View
from halocline.fleet.core.state import Report
from halocline.fleet.wire.handshake import Peer


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a client says in the handshake.

    Args:
        client: The program that speaks, as opposed to the release that works on tables.
        sent: The client's own clock for leases; comes back in the answer and is compared with nothing else.
        membership: What it wants to be admitted as; None if it does not want to be a member.
        views: Per ladder, what this life of it has heard already.
    """

    client: Peer
    identity: str
    role: str
    secret: str = field(default="", repr=False)
    clock_ms: int = 0
    sent: int = 0
    membership: Report | None = None
    views: Mapping[str, View] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admission:
    """What a member was admitted with: the lease, how often to send heartbeats, and where the fleet stands."""

    sent: int
    lease_ms: int
    heartbeat_ms: int
    announcements: tuple[Announcement, ...]


@dataclass(frozen=True, slots=True)
class Welcome:
    """What a coordinator answers to a greeting that it accepts.

    Args:
        token: Goes with every call from now on.
        admission: Set if the client was admitted as a member.
    """

    server: Peer
    epoch: int
    clock_ms: int
    token: str = field(repr=False)
    token_expires_ms: int = 0
    rights: frozenset[str] = frozenset()
    admission: Admission | None = None


@dataclass(frozen=True, slots=True)
class SessionBegun:
    """Everything before it was the state as the session began, everything after it is a change."""

    epoch: int


@dataclass(frozen=True, slots=True)
class FreshToken:
    """A token that takes the place of the one from the handshake."""

    token: str = field(repr=False)
    expires_ms: int


SessionMessage = Renew | Announce | Refusal | SessionBegun | FreshToken
"""What a coordinator sends to a member in its session; a refusal ends this life of the member."""

"""What is kept of refusals, and how much of it callers can cause.

Every decision of the core lands in the audit log in the transaction of the decision. What is refused before the core
is asked (forged tokens, wrong secrets, peers that do not fit) is counted here by caller, kind of call and reason, and
written now and then, apart from decisions: a client that can reach the port must neither fill the disk nor push a
decision out of the log. Between two writes so many kinds are told apart; those beyond count as one of their own. Lines
of the coordinator's log are *bounded*, so many at once and so many per second.
"""

from __future__ import annotations

import logging
import re
from typing import Final

from halocline.fleet.core.clock import Clock
from halocline.fleet.core.effects import Audit, Refusal
from halocline.fleet.store import RefusedCalls

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 200
_PER_SECOND: Final = 20
_MOST_KINDS: Final = 1_000
_OTHERS: Final = "others"
_PEER: Final = re.compile(r"ipv[46]:(?P<host>.*):\d+")


class StrangerLog:
    """Refusals of callers that did not get as far as the core, until they are written."""

    def __init__(self, clock: Clock) -> None:
        self.dropped = 0
        self._clock = clock
        self._left = float(_AT_ONCE)
        self._last = clock.now()
        self._calls: dict[tuple[str, str, str], RefusedCalls] = {}

    def note(self, who: str, action: str, refusal: Refusal) -> None:
        """Counts a refusal."""
        now = self._clock.now()
        call = RefusedCalls.of(
            Audit(now, host_of(who), action, refusal.subject, refusal.message, refused=refusal.condition)
        )
        kind = (call.actor, call.action, call.refused)
        if kind not in self._calls and len(self._calls) >= _MOST_KINDS:
            self.dropped += 1
            kind = (_OTHERS, call.action, call.refused)
            call = RefusedCalls(*kind, "", "callers that were too many to be told apart", now, now)
        before = self._calls.get(kind)
        self._calls[kind] = before.joined(call) if before else call
        if self._may_log(now):
            _log.warning("refused %s: %s: %s", who, refusal.condition, refusal.message)

    def take(self) -> tuple[RefusedCalls, ...]:
        """What has been counted since it was last taken."""
        calls, self._calls = tuple(self._calls.values()), {}
        return calls

    def _may_log(self, now: int) -> bool:
        self._left = min(_AT_ONCE, self._left + (now - self._last) * _PER_SECOND / 1000)
        self._last = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def host_of(who: str) -> str:
    """A peer as gRPC names it, without the port, which differs from one connection to the next."""
    peer = _PEER.fullmatch(who)
    return peer["host"].strip("[]") if peer else who

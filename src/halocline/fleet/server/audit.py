"""What is written down about callers, and how much of it strangers can cause.

Every decision of the core lands in the audit log in the transaction of the decision. What is refused before the core
is asked (forged tokens, wrong secrets, peers that do not fit) is written down as well, but a client that can reach the
port must not be able to fill the disk: such entries are *bounded*, so many at once and so many per second. Those beyond
that are counted and logged only.
"""

from __future__ import annotations

import logging
from typing import Final

from halocline.fleet.core.clock import Clock
from halocline.fleet.core.effects import Audit, Refusal

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 200
_PER_SECOND: Final = 20


class StrangerLog:
    """Entries about callers that did not get as far as the core."""

    def __init__(self, clock: Clock) -> None:
        self.dropped = 0
        self._clock = clock
        self._left = float(_AT_ONCE)
        self._last = clock.now()

    def note(self, who: str, action: str, refusal: Refusal) -> Audit | None:
        """An entry to be written, or None if there have been too many."""
        now = self._clock.now()
        self._left = min(_AT_ONCE, self._left + (now - self._last) * _PER_SECOND / 1000)
        self._last = now
        if self._left < 1:
            self.dropped += 1
            return None
        self._left -= 1
        _log.warning("refused %s: %s: %s", who, refusal.condition, refusal.message)
        return Audit(now, who, action, refusal.subject, refusal.message, refused=refusal.condition)

"""Sessions: the open streams of members, and what waits to be sent on them.

A session belongs to one life of a member; a second one for the same life ends the first. What is sent is kept in order
and bounded: a member that does not read loses its session, not the coordinator its memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from halocline.fleet.core.effects import Refusal
from halocline.fleet.core.state import MemberKey
from halocline.fleet.server.auth import Claims
from halocline.fleet.wire.messages import to_session_message
from halocline.fleet.wire.session import SessionMessage

_log = logging.getLogger(__name__)
_MOST_WAITING: Final = 64
_MOST_BEATS_PER_SECOND: Final = 50
_GRACE: Final = 5.0
_AT_ONCE: Final = 64
_PATIENCE: Final = 1.0

Send = Callable[[bytes], Awaitable[None]]


class Session:
    """One open stream."""

    __slots__ = ("_beats", "_close", "_second", "_send", "_sending", "_waiting", "claims", "over")

    def __init__(self, claims: Claims, send: Send, close: Callable[[], object]) -> None:
        self.claims = claims
        self.over = False
        self._send = send
        self._close = close
        self._waiting: deque[bytes] = deque()
        self._sending = False
        self._second = 0
        self._beats = 0

    @property
    def key(self) -> MemberKey:
        """The life it belongs to."""
        return MemberKey(self.claims.identity, self.claims.incarnation)

    def put(self, message: SessionMessage) -> None:
        """Puts a message into the queue; too many end the session."""
        self.put_encoded(to_session_message(message))

    def put_encoded(self, down: bytes) -> None:
        """Puts a message that is encoded already into the queue."""
        if self.over:
            return
        self._waiting.append(down)
        if len(self._waiting) > _MOST_WAITING:
            _log.warning("%s does not read what it is sent; its session ends", self.key)
            self.end()

    async def flush(self) -> None:
        """Sends what waits, unless that is being done already."""
        if self._sending:
            return
        self._sending = True
        try:
            while self._waiting:
                await self._send(self._waiting.popleft())
        finally:
            self._sending = False

    def end(self) -> None:
        """Ends the stream at once. Only the first time: the one that closes it tells the member why."""
        if not self.over:
            self.over = True
            self._close()

    def too_fast(self, now_ms: int) -> bool:
        """Counts a heartbeat, and says whether there have been too many within a second."""
        second = now_ms // 1000
        if second != self._second:
            self._second, self._beats = second, 0
        self._beats += 1
        return self._beats > _MOST_BEATS_PER_SECOND


class Sessions:
    """All open streams of a coordinator."""

    def __init__(self) -> None:
        self._open: dict[MemberKey, Session] = {}
        self._full: list[Session] = []
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def add(self, session: Session) -> None:
        """Registers a stream; an older one of the same life ends."""
        before = self._open.get(session.key)
        self._open[session.key] = session
        if before is not None:
            before.end()

    def drop(self, session: Session) -> None:
        """Forgets a stream that has ended."""
        session.over = True
        if self._open.get(session.key) is session:
            del self._open[session.key]

    def push(self, message: SessionMessage) -> None:
        """Sends something to every member that is connected."""
        encoded = to_session_message(message)
        for session in tuple(self._open.values()):
            session.put_encoded(encoded)
            self.flush_soon(session)

    def finish(self, key: MemberKey, refusal: Refusal) -> None:
        """Tells a member that its life is over, and gives it a moment to read that."""
        session = self._open.get(key)
        if session is not None:
            session.put(refusal)
            self.flush_soon(session)
            asyncio.get_running_loop().call_later(_GRACE, session.end)

    def end_all(self, of: Callable[[Claims], bool] = lambda _: True) -> None:
        """Ends every stream, or those of some: members must look for another coordinator, or make a new handshake."""
        for session in [each for each in self._open.values() if of(each.claims)]:
            session.end()
            del self._open[session.key]

    def flush_soon(self, session: Session) -> None:
        """Has a session's queue sent, with others whose turn it is."""
        self._full.append(session)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._flush())

    async def _flush(self) -> None:
        while self._full:
            sessions, self._full = self._full, []
            for start in range(0, len(sessions), _AT_ONCE):
                some = sessions[start : start + _AT_ONCE]
                if len(some) == 1:
                    await _quietly(some[0])
                else:
                    await asyncio.gather(*map(_quietly, some))


async def _quietly(session: Session) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            await session.flush()
    except Exception as error:  # The stream is broken or stuck; its reader finds out as well.
        _log.debug("cannot send to %s: %r", session.key, error)
        session.end()

"""The handshake: two comparisons of numbers in place of the exact check.

Real clients and servers do not carry the whole history. The server compares the client's version with the least
client it serves, the client compares the server's with the least server it can use. The two numbers are either
computed from the history or the constants that were shipped in the code, which can be stale.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from halocline.versions import Version

if TYPE_CHECKING:
    from halocline.compat.history.core import History


@dataclass(frozen=True)
class Handshake:
    """How a pair fares when each side compares one number.

    Args:
        history: Where the numbers come from.
        shipped_min_client: Servers use the constant of their release instead of the computed minimum.
        shipped_min_server: Clients do.
    """

    history: History
    shipped_min_client: bool = False
    shipped_min_server: bool = False

    def accepts(self, *, client: Version, server: Version) -> bool:
        """True if neither side refuses the other by number."""
        return client >= self._min_client(server) and server >= self._min_server(client)

    @cached_property
    def wrongly_accepted(self) -> tuple[tuple[Version, Version], ...]:
        """The (client, server) pairs of breakpoints that pass although a required feature is not provided."""
        return tuple(pair for pair, accepted, fits in self._pairs() if accepted and not fits)

    @cached_property
    def wrongly_refused(self) -> tuple[tuple[Version, Version], ...]:
        """The (client, server) pairs of breakpoints that are refused although they fit."""
        return tuple(pair for pair, accepted, fits in self._pairs() if fits and not accepted)

    def _pairs(self) -> Iterator[tuple[tuple[Version, Version], bool, bool]]:
        points = self.history.breakpoints()
        for client in points:
            servers = self.history.servers_for(client)
            for server in points:
                yield (client, server), self.accepts(client=client, server=server), server in servers

    def _min_client(self, server: Version) -> Version:
        shipped = self.history.constant(server) if self.shipped_min_client else None
        return shipped.min_client if shipped else self.history.min_client(server)

    def _min_server(self, client: Version) -> Version:
        shipped = self.history.constant(client) if self.shipped_min_server else None
        return shipped.min_server if shipped else self.history.min_server(client)

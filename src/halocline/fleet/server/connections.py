"""How many connections there are at a time, of one address and of all, so that nobody keeps others from being heard.

A connection on which no request is being answered is *idle*: the head of a request has not arrived as a whole yet, or
the next one has not begun. Beyond the most that one address may have, its own longest idle one makes room; beyond the
most of all, the longest idle one of the address that has the most. Whoever asks and is answered is never cut off by
others, and whoever holds connections open is cut off by its own. If nothing is idle, the newest is refused.

An address of IPv6 stands for its network of 64 bits, of which one caller has all addresses.

Limit: only whole connections are counted here. One whose TLS handshake does not end is cut off by its own timeout.
"""

from __future__ import annotations

import ipaddress
from typing import Final, Protocol
from urllib.parse import unquote

MOST_OF_ONE: Final = 200
MOST: Final = 400


class Connection(Protocol):
    """One connection."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered on it."""

    def cut(self) -> None:
        """Ends it at once."""


def origin_of(host: str) -> str:
    """Where a caller is, as far as it cannot choose among addresses: a machine has many of its own, and of a network.

    Example:
        >>> origin_of("127.0.0.7") == origin_of("::1"), origin_of("2001:db8::7"), origin_of("::ffff:10.0.0.7")
        (True, '2001:db8::/64', '10.0.0.7')
    """
    try:
        ip = ipaddress.ip_address(unquote(host).strip("[]").partition("%")[0])
    except ValueError:
        return host
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip
    if ip.is_loopback:
        return "loopback"
    return str(ipaddress.ip_network((ip, 64), strict=False)) if ip.version == 6 else str(ip)


class Connections:
    """Those that are open, by address, the oldest first."""

    def __init__(self, most_of_one: int = MOST_OF_ONE, most: int = MOST) -> None:
        self._most_of_one = most_of_one
        self._most = most
        self._of: dict[str, dict[Connection, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, address: str, connection: Connection) -> None:
        """Takes up a connection; ends another one, or this one, if there are too many."""
        own = self._of.setdefault(address, {})
        own[connection] = None
        self._count += 1
        if len(own) > self._most_of_one:
            self._make_room(address, connection)
        elif self._count > self._most:
            self._make_room(max(self._of, key=lambda known: len(self._of[known])), connection, address)

    def answered(self, address: str, connection: Connection) -> None:
        """Counts a connection as idle from now on."""
        own = self._of.get(address, {})
        if connection in own:
            del own[connection]
            own[connection] = None

    def drop(self, address: str, connection: Connection) -> None:
        """Forgets a connection that has ended."""
        own = self._of.get(address, {})
        if connection in own:
            del own[connection]
            self._count -= 1
            if not own:
                del self._of[address]

    def _make_room(self, address: str, newest: Connection, of_newest: str = "") -> None:
        idle = next((each for each in self._of[address] if each is not newest and each.is_idle), None)
        ending, where = (idle, address) if idle is not None else (newest, of_newest or address)
        self.drop(where, ending)
        ending.cut()

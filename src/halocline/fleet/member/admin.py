"""An operator's client: asks a fleet questions and gives it commands.

Every answer is a message of the wire as it came; `halocline.fleet.wire.messages.plain` makes plain values of it.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterator
from typing import Any, TypeVar

from google.protobuf.message import Message

from halocline.fleet.core.clock import Clock
from halocline.fleet.member.link import DEADLINE, Agreement, Link, LinkError
from halocline.fleet.server.commands import CHUNK
from halocline.fleet.wire.endpoint import Endpoint
from halocline.fleet.wire.handshake import Wire
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb

_Reply = TypeVar("_Reply", bound=Message)


class AdminClient:
    """A connection of an operator.

    Args:
        endpoint: Where the fleet is, and what to be let in with.
        identity: Who asks, for the audit log; user and machine if not given.
        wire: What we speak; another release's to emulate it.
        clock: Where the time comes from.
        deadline: Seconds that a call may take.

    Example:
        >>> from halocline.fleet.server.hosting import embedded
        >>> with embedded() as hosting, AdminClient(hosting.address) as admin:
        ...     answer = admin.ask("Describe", pb.DescribeRequest(), pb.DescribeResponse)
        >>> [each.ladder for each in answer.ladders]
        ['delta', 'hudi', 'index']
    """

    def __init__(
        self,
        endpoint: Endpoint | str,
        identity: str = "",
        *,
        wire: Wire | None = None,
        clock: Clock | None = None,
        deadline: float = DEADLINE,
    ) -> None:
        where = Endpoint.parse(endpoint) if isinstance(endpoint, str) else endpoint
        self._link = Link(where, identity or operator_name(), "operator", wire=wire, clock=clock, deadline=deadline)

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def handshake(self) -> Agreement:
        """Greets the fleet and says what it answered.

        Raises:
            HaloclineError: Either end refused, or nobody was reached.
        """
        try:
            return self._link.handshake()
        except LinkError as failed:
            raise failed.failure.error from None

    def ask(self, call: str, request: Message, _: type[_Reply]) -> _Reply:
        """Asks a question, once more if the first answer got lost.

        Raises:
            HaloclineError: The fleet refused, or was not reached.
        """
        reply: _Reply = self._link.ask(lambda _, admin, options: self._stub(call)(request, **options), harmless=True)
        return reply

    def command(self, call: str, request: Message) -> pb.CommandResponse:
        """Gives a command, which is not repeated if it is not known what became of it.

        Raises:
            HaloclineError: The fleet refused, or was not reached.
        """
        reply: pb.CommandResponse = self._link.ask(lambda _, admin, options: self._stub(call)(request, **options))
        return reply

    def export(self) -> bytes:
        """Everything durable, as a JSON document."""
        return self._link.ask(
            lambda _, admin, options: b"".join(each.data for each in admin.Export(pb.ExportRequest(), **options)),
            harmless=True,
        )

    def restore(self, document: bytes, reason: str) -> pb.CommandResponse:
        """Puts an export in the place of everything."""

        def pieces() -> Iterator[pb.Chunk]:
            for start in range(0, len(document), CHUNK):
                yield pb.Chunk(data=document[start : start + CHUNK], reason=reason if start == 0 else "")

        return self._link.ask(lambda _, admin, options: admin.Import(pieces(), **options))

    def close(self) -> None:
        """Closes the connection."""
        self._link.close()

    def _stub(self, call: str) -> Any:
        fleet, admin = self._link.stubs()
        return getattr(admin, call, None) or getattr(fleet, call)


def operator_name() -> str:
    """Who runs this process, as an identity."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "operator"
    name = re.sub(r"[^A-Za-z0-9_.:@-]+", "-", f"{user}@{socket.gethostname()}").lstrip("-_.:@")
    return name[:128] or "operator"

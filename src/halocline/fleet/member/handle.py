"""The handle that a program holds of its fleet: its gates, its operations, and the way out.

A handle is made by `halocline.connect`. Alone, without a fleet, it has no member behind it: every gate is open, and the
table decides by its protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import TYPE_CHECKING

from halocline.fleet.core.member_step import LevelSnapshot
from halocline.table import gatekeeper as front
from halocline.table.gatekeeper import ALONE, Gatekeeper, Operation

if TYPE_CHECKING:
    from halocline.fleet.member.contact import Contact
    from halocline.fleet.member.gatekeeper import FleetGatekeeper
    from halocline.fleet.member.loop import MemberLoop

_numbers = count()


class FleetOperation:
    """One operation of a member: what it may use, fixed when it began, and the right to make its change visible."""

    def __init__(self, member: MemberLoop, name: str) -> None:
        self._member = member
        self._name = name
        self.snapshot: LevelSnapshot = member.begin(name)

    def gate(self, ladder: str, level: int) -> bool:
        """Whether the operation may use that level."""
        return self.snapshot.gate(ladder, level)

    def level(self, ladder: str) -> int | None:
        """The level that gates were open up to when it began; None without a lease, or on another ladder."""
        return self.snapshot.level(ladder)

    def may_commit(self) -> bool:
        """Whether the life it began in still holds its lease. Ask just before the change becomes visible."""
        return self._member.may_commit(self._name)


@contextmanager
def operating(member: MemberLoop, name: str) -> Iterator[FleetOperation]:
    """An operation of a member, for the length of the block."""
    unique = f"{name}#{next(_numbers)}"
    try:
        yield FleetOperation(member, unique)
    finally:
        member.end(unique)


class FleetHandle:
    """What a program holds of its fleet; made by `connect`. Also a context manager that leaves at its end.

    Attributes:
        name: Who the member is.
        release: What it runs.
        address: Where its fleet is; None if it works alone.
        gatekeeper: Who is asked before tables require more.
    """

    def __init__(self, name: str, release: str, keeper: FleetGatekeeper | None = None) -> None:
        self.name = name
        self.release = release
        self.address = keeper.address if keeper else None
        self.gatekeeper: Gatekeeper = keeper or ALONE
        self._keeper = keeper
        self._member = keeper.member if keeper else None
        self._before: Gatekeeper | None = None

    @property
    def alone(self) -> bool:
        """Whether there is no fleet."""
        return self._member is None

    @property
    def contact(self) -> Contact | None:
        """Whether it is in touch with its fleet, and since when; None if there is none."""
        return None if self._member is None else self._member.contact

    def gate(self, ladder: str, level: int) -> bool:
        """Whether new behaviour of that level may begin now. For more than one question take an `operation`.

        Alone the answer is yes: then only the table decides, by its protocol.
        """
        return self._member is None or self._member.snapshot().gate(ladder, level)

    def level(self, ladder: str) -> int | None:
        """The level that gates are open up to; None alone, without a lease, or on a ladder that we do not use."""
        return None if self._member is None else self._member.snapshot().level(ladder)

    def operation(self, name: str = "operation") -> AbstractContextManager[Operation]:
        """Begins an operation under one snapshot; the fleet waits for it before a level counts as settled.

        Example:
            >>> with FleetHandle("notebook", "halocline@0.1.0").operation("delete") as operation:
            ...     operation.gate("delta", 4)
            True
        """
        return self.gatekeeper.operation(name)

    def acting(self) -> AbstractContextManager[Gatekeeper]:
        """Stands in front of the tables that this thread uses within the block; other threads keep their own."""
        return front.acting(self.gatekeeper)

    def install(self) -> None:
        """Stands in front of every table of this process, until it is closed."""
        self._before = front.install(self.gatekeeper)

    def close(self) -> None:
        """Leaves the fleet and puts back the gatekeeper that stood in front of the tables before."""
        if self._before is not None:
            if front.installed() is self.gatekeeper:
                front.install(self._before)
            self._before = None
        if self._keeper is not None:
            self._keeper.close()

    def __enter__(self) -> FleetHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"FleetHandle({self.name!r}, {self.release!r}, {self.address or 'alone'!r})"

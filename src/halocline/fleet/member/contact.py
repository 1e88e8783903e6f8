"""Whether a member is in touch with its fleet, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from halocline.errors import HaloclineError, UnavailableError
from halocline.fleet.core.member_step import Status


@dataclass(frozen=True, slots=True)
class Contact:
    """Whether a member is in touch with its fleet.

    Args:
        status: `joined`, `joining` or `outside`.
        since: Since when it has been so, in milliseconds since 1970.
        server: The coordinator's release, once heard.
        epoch: Its epoch.
        error: Why it is not joined, if it is not.
        final: Whether the member has given up: it was refused, displaced, removed or stopped.
    """

    status: Status
    since: int
    server: str = ""
    epoch: int = 0
    error: HaloclineError | None = None
    final: bool = False

    def changed(
        self,
        at: int,
        status: Status,
        server: str = "",
        epoch: int = 0,
        error: HaloclineError | None = None,
        final: bool = False,
    ) -> Contact:
        """The contact from `at` on. What is not said of the coordinator stays as it was."""
        since = self.since if self.status is status else at
        return Contact(status, since, server or self.server, epoch or self.epoch, error, final)

    def unreached(self, error: HaloclineError, at: int) -> HaloclineError:
        """The error of a call that did not reach the fleet, with the time since which none has."""
        known = self.error
        if known is not None and self.status is not Status.JOINED and "since" in known.sides:
            return known
        sides = {**error.sides, "since": moment(at)}
        return UnavailableError(error.message, sides=sides, next_step=error.next_step)


def moment(milliseconds: int) -> str:
    """A time for people, in UTC.

    Example:
        >>> moment(1_796_083_200_000)
        '2026-12-01T00:00:00+00:00'
    """
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")

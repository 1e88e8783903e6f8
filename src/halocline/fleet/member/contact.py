"""Whether a member is in touch with its fleet, and since when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from halocline.errors import HaloclineError, UnavailableError
from halocline.fleet.core.member_step import Status


@dataclass(frozen=True, slots=True)
class Contact:
    """Whether a member is in touch with its fleet.

    Args:
        since: Since when it has been so, in milliseconds since 1970.
        final: Whether the member has given up: it was refused, displaced, removed or stopped.
    """

    status: Status
    since: int
    server: str = ""
    epoch: int = 0
    error: HaloclineError | None = None
    final: bool = False

    def changed(self, at: int, status: Status, **facts: Any) -> Contact:
        """The contact from `at` on; what is not said of the coordinator stays as it was, errors do not."""
        since = self.since if self.status is status else at
        return replace(self, **{"status": status, "since": since, "error": None, "final": False, **facts})

    def unreached(self, error: HaloclineError, at: int) -> HaloclineError:
        """The error of a call that did not reach the fleet, with the time since which none has."""
        known = self.error
        if known is not None and self.status is not Status.JOINED and "since" in known.sides:
            return known
        sides = {**error.sides, "since": moment(at)}
        return UnavailableError(error.message, sides=sides, next_step=error.next_step)


def moment(milliseconds: int) -> str:
    """A time for people, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")

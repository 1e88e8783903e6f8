"""Where a fleet stands on a ladder, and what a member knows of it.

A `LadderState` is the durable truth about one ladder. Its *revision* grows with every change that members are told, so
of two announcements of a ladder the one with the higher revision is newer, whatever order they arrive in; a level alone
could not tell, since a downgrade makes it fall. An `Announcement` is what members are told of a ladder, a `View` what
they act under.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Policy(StrEnum):
    """What makes a level rise.

    `hold` is not set but follows from a hold in force: then nothing does, not even an operator.
    """

    AUTO = "auto"
    MANUAL = "manual"
    HOLD = "hold"


class Phase(StrEnum):
    """How far a downgrade has come.

    closing   gates are closing; the fleet waits until every live member has closed its own
    closed    all have; it can still be cancelled
    cleaning  data is being rewritten for the lower level: past the point of no return
    """

    CLOSING = "closing"
    CLOSED = "closed"
    CLEANING = "cleaning"


@dataclass(frozen=True, slots=True)
class Downgrade:
    """A downgrade that is under way.

    Args:
        revision: The revision that closed the gates; a view at or after it is an acknowledgement.
        free: Whether no data needs cleaning.
    """

    target: int
    phase: Phase
    revision: int
    free: bool
    started: int
    actor: str
    reason: str

    @property
    def past_return(self) -> bool:
        """Whether the only way left is forward to the lower level."""
        return self.phase is Phase.CLEANING


@dataclass(frozen=True, slots=True)
class View:
    """What a member knows of a ladder: the revision it heard and the level its gates open up to.

    Args:
        proof: Who announced it and in which generation; see `halocline.fleet.core.history`.
    """

    revision: int
    level: int
    proof: str = ""


UNHEARD: Final = View(0, 0)
"""The view of a member that has heard nothing: every gate is closed."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """What members are told of a ladder.

    Args:
        limit: The level that gates open up to; below `level` while a downgrade is under way.
    """

    ladder: str
    revision: int
    level: int
    limit: int
    proof: str = ""

    @property
    def view(self) -> View:
        """The view of a member that has heard this."""
        return View(self.revision, self.limit, self.proof)


@dataclass(frozen=True, slots=True)
class LadderState:
    """Where the fleet stands on a ladder.

    Args:
        level: What every live member supports, so what any of them may use.
        settled: The level that every live member is known to act under, or above.
        revision: Grows with every change that members are told.
        policy: What makes the level rise while nothing holds it.
        downgrade: The downgrade under way, if there is one.
        closed: The revision that last closed gates, by a downgrade that may since have been cancelled.
        marks: From which revision on which coordinator's mark stands for the revisions.
        proof: What goes with the announcement of the newest revision.
    """

    level: int
    settled: int
    revision: int
    policy: Policy
    downgrade: Downgrade | None = None
    closed: int = 0
    marks: tuple[tuple[int, str], ...] = ()
    proof: str = ""

    @property
    def limit(self) -> int:
        """The level that gates open up to."""
        return self.downgrade.target if self.downgrade else self.level

    def announced(self, ladder: str) -> Announcement:
        """What members are told."""
        return Announcement(ladder, self.revision, self.level, self.limit, self.proof)


@dataclass(frozen=True, slots=True)
class Hold:
    """Keeps the way back open: while it is in force the ladder's level does not rise above `level`.

    Args:
        level: The highest level allowed.
        until: When it ends by itself; None if only a release ends it.
    """

    ladder: str
    name: str
    level: int
    until: int | None
    reason: str
    actor: str

    def expired(self, at: int) -> bool:
        """Whether its stated end has come."""
        return self.until is not None and self.until <= at

"""What a step asks its surroundings to do.

Effects are carried out in order, and the first one that fails stops the rest. A step that changes or grants anything
begins with `CommitRecords`: the store accepts it only from the newest epoch, in one transaction with the audit entries.
If it is refused, the coordinator has been replaced: it drops the new state, sends nothing and stops. Only then are
members answered, so no member is told what was not written.

`CommitRecords` without changes asks the store only to confirm the epoch. A heartbeat needs that too: a coordinator that
was replaced must not prolong leases that its successor does not know of.
"""

from __future__ import annotations

from dataclasses import dataclass

from halocline import errors
from halocline.addresses import hide_secrets
from halocline.errors import HaloclineError
from halocline.fleet.core.ladder_state import Announcement
from halocline.fleet.core.state import RecordChange


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something was refused, for programs and for people.

    Args:
        condition: A code from `halocline.errors.CONDITIONS`.
        subject: The feature, or `ladder=level`, that it is about.
        fix: The release that would do, if one is known.
    """

    condition: str
    message: str
    subject: str = ""
    sides: tuple[tuple[str, str], ...] = ()
    fix: str = ""
    next_step: str = ""

    def error(self) -> HaloclineError:
        """The same as an error to raise."""
        kind = _ERRORS.get(self.condition, errors.ConflictError)
        return kind(self.message, condition=self.condition, sides=dict(self.sides), next_step=self.next_step or None)


_ERRORS: dict[str, type[HaloclineError]] = {
    "ARGUMENT_INVALID": errors.InputError,
    "FEATURE_DEPENDENCY": errors.IncompatibleError,
    "INCOMPATIBLE_VERSION": errors.IncompatibleError,
    "LEVEL_BLOCKED": errors.IncompatibleError,
    "NOT_FOUND": errors.NotFoundError,
    "UNAVAILABLE": errors.UnavailableError,
    "VERSION_UNKNOWN": errors.IncompatibleError,
}


class RefusedError(Exception):
    """Ends the handling of a command that is refused; `step` turns it into a `Refuse` and an audit entry."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class CommitRecords:
    """Write these records if the store's epoch is still this one; all or nothing."""

    epoch: int
    changes: tuple[RecordChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Admit:
    """Answer a join: the member is in.

    Args:
        sent: When the join was sent, by the member's clock.
        lease: How long the member may act, counted from `sent`.
    """

    identity: str
    incarnation: int
    sent: int
    epoch: int
    lease: int
    announcements: tuple[Announcement, ...]


@dataclass(frozen=True, slots=True)
class Renew:
    """Answer a heartbeat: the lease is counted from `sent`. Announcements only if the member lags behind."""

    identity: str
    incarnation: int
    seq: int
    sent: int
    epoch: int
    lease: int
    announcements: tuple[Announcement, ...] = ()


@dataclass(frozen=True, slots=True)
class Announce:
    """Push to every member that is connected. A push prolongs no lease."""

    announcements: tuple[Announcement, ...]


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell an operator or a member no. A member must stop acting in the life that `incarnation` names."""

    to: str
    refusal: Refusal
    incarnation: int | None = None


@dataclass(frozen=True, slots=True)
class Repeat:
    """Answer a command that was done before: what it led to then."""

    decisions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """Record a decision. Written in the transaction of the step's commit, if it has one.

    Args:
        actor: Who asked, or `fleet` if it follows from a rule.
        refused: The condition code if it was refused.
    """

    at: int
    actor: str
    action: str
    subject: str
    detail: str = ""
    refused: str = ""

    def __post_init__(self) -> None:
        # Entries are chained, so what is written once cannot be taken out again.
        for name in ("subject", "detail"):
            if (text := hide_secrets(getattr(self, name), mark="")) != getattr(self, name):
                object.__setattr__(self, name, text)

    def __str__(self) -> str:
        return f"{self.action} {self.subject} {self.detail}".rstrip()


Reply = Admit | Renew | Announce | Refuse
"""What members hear."""

Effect = CommitRecords | Reply | Repeat | Audit

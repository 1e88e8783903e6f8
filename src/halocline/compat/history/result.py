"""What a history answers: a verdict on a pair, and a minimum with what forces it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from halocline.compat.answer import Answer, Reason
from halocline.spans import SpanSet
from halocline.versions import Version


class SideNames(NamedTuple):
    """What the side that requires and the side that provides are called."""

    client: str = "client"
    server: str = "server"


SIDES: Final = SideNames()


@dataclass(frozen=True, slots=True)
class HistoryVerdict:
    """Whether a client and a server can work together.

    Args:
        history: The history's name.
        answer: `ok`, `refused` or `unknown`.
        client: The client's version.
        server: The server's version.
        reasons: One for each feature that is missing or removed, or for each version that is not known.
        notes: What is worth knowing but decides nothing: yanked builds, fallbacks, inert features.
        servers: Every server that this client can use.
        clients: Every client that this server accepts.
        fix: The smallest upgrade that helps, empty if there is none or none is needed.
    """

    history: str
    answer: Answer
    client: Version
    server: Version
    reasons: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    servers: SpanSet = field(default_factory=SpanSet)
    clients: SpanSet = field(default_factory=SpanSet)
    fix: str = ""

    @property
    def ok(self) -> bool:
        """True only for a plain yes; what is unknown is not ok."""
        return self.answer is Answer.OK

    @property
    def features(self) -> tuple[str, ...]:
        """The features that are missing or removed."""
        return tuple(reason.feature for reason in self.reasons if reason.feature)

    def to_dict(self) -> dict[str, object]:
        """The same facts for programs."""
        return {
            "history": self.history,
            "answer": str(self.answer),
            "client": str(self.client),
            "server": str(self.server),
            "reasons": [reason.to_dict() for reason in self.reasons],
            "notes": list(self.notes),
            "servers": [str(span) for span in self.servers],
            "clients": [str(span) for span in self.clients],
            "fix": self.fix,
        }


@dataclass(frozen=True, slots=True)
class Minimum:
    """The least version of the other side, and why.

    Args:
        version: The number by the rule; 0.0.0 if anything will do.
        features: The features that force it.
        usable: The first version from there on that is neither yanked nor misreports itself; None if there is none.
        notes: Why `usable` differs from `version`.
    """

    version: Version
    features: tuple[str, ...]
    usable: Version | None
    notes: tuple[str, ...] = ()


def in_words(spans: SpanSet) -> str:
    """A span set for people.

    Example:
        >>> in_words(SpanSet.parse("1.2.676")), in_words(SpanSet.parse("[1.2.259, 1.2.755)")), in_words(SpanSet())
        ('1.2.676 and later', '[1.2.259, 1.2.755)', 'none')
    """
    if not spans:
        return "none"
    parts = [str(span) if span.until else f"{span.since} and later" for span in spans]
    return ", ".join(parts)

"""The records of a history: when each feature was there, and what is odd about single builds.

All of them are values that hold what a history file says; `halocline.compat.history.file` makes them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import date

from halocline.spans import Span, SpanSet
from halocline.versions import Version


@dataclass(frozen=True, slots=True)
class Variant:
    """What a build flag changes in a lifetime; None leaves that part as it is."""

    flag: str
    provided: SpanSet | None = None
    required: SpanSet | None = None
    optional: SpanSet | None = None


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One feature, seen from both sides.

    Args:
        id: What messages and the wire call it.
        name: What the source code calls it, if that differs.
        summary: What it does, in one line.
        provided: The server versions that offer it.
        required: The client versions that fail without it.
        optional: The client versions that use it when it is there and fall back when it is not.
        fallback: What a client does instead.
        inert: The server versions that still have it, but never make use of it.
        variants: What build flags change.
        successor: The id of the feature that takes its place.
    """

    id: str
    name: str = ""
    summary: str = ""
    provided: SpanSet = field(default_factory=SpanSet)
    required: SpanSet = field(default_factory=SpanSet)
    optional: SpanSet = field(default_factory=SpanSet)
    fallback: str = ""
    inert: SpanSet = field(default_factory=SpanSet)
    variants: tuple[Variant, ...] = ()
    successor: str = ""

    def under(self, flags: Collection[str]) -> Lifetime:
        """This lifetime in builds that have `flags` on."""
        changed = self
        for variant in self.variants:
            parts = {part: getattr(variant, part) for part in ("provided", "required", "optional")}
            if variant.flag in flags:
                changed = replace(changed, **{part: spans for part, spans in parts.items() if spans is not None})
        return changed

    def removed_by(self, server: Version) -> bool:
        """True if servers had it before and `server` does not; a feature not added yet is not removed."""
        return server not in self.provided and any(
            span.until is not None and span.until <= server for span in self.provided
        )

    def removed_for_good_by(self, server: Version) -> bool:
        """True if neither `server` nor any later one has it, although earlier ones had."""
        end = ending(self.provided)
        return end is not None and end <= server


@dataclass(frozen=True, slots=True)
class Yanked:
    """Builds that were withdrawn. The span ends where the first usable build begins."""

    span: Span
    side: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Misreport:
    """A build that says it is another version; `use` is the next one that tells the truth."""

    version: Version
    reports: Version
    use: Version | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """The minima that releases from `since` on carry in their code, up to the next record."""

    since: Version
    min_client: Version
    min_server: Version


@dataclass(frozen=True, slots=True)
class PastRelease:
    """A release of servers, and when it came out, as far as that is said."""

    version: Version
    date: date | None = None


@dataclass(frozen=True, slots=True)
class Deprecation:
    """For how long a feature stays after its successor has appeared: so many days, or so many releases."""

    days: int = 0
    releases: int = 0


def beginning(spans: SpanSet) -> Version | None:
    """The first version in the set, or None if it is empty."""
    return spans.spans[0].since if spans else None


def ending(spans: SpanSet) -> Version | None:
    """The version from which on nothing is in the set any more; None if it has no end, or is empty."""
    return spans.spans[-1].until if spans else None

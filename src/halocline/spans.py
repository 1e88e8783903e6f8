"""Half-open intervals of versions, and sets of them.

Support begins, ends, has holes and comes back, so one interval is not enough. A `SpanSet` is always in normal form:
disjoint, sorted, touching spans joined. Two sets with the same members are therefore equal.

An unknown version (see `halocline.versions`) is in no span, not even in the one without bounds.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from halocline.errors import MalformedError
from halocline.versions import LOWEST, Version

_TEXT = re.compile(r"\[\s*+(?P<since>[^,\s]++)\s*+,\s*+(?P<until>[^)\s]*+)\s*+\)")
_WITHOUT_END = frozenset({"", "∞", "inf", "-", "—"})
_WITHOUT_BEGINNING = frozenset({"-∞", "-inf"})


@dataclass(frozen=True, slots=True)
class Span:
    """The versions from `since` on, up to but not including `until`; no end if `until` is None.

    Example:
        >>> span = Span.parse("[1.2.163, 1.2.663)")
        >>> Version.parse("1.2.662") in span, Version.parse("1.2.663") in span
        (True, False)
    """

    since: Version
    until: Version | None = None

    def __post_init__(self) -> None:
        if not self.since.known or (self.until is not None and not self.until.known):
            raise MalformedError(f"span {self} has a bound that is not a version")
        if self.until is not None and self.until <= self.since:
            raise MalformedError(f"span {self} is empty: it must end after it begins")

    @staticmethod
    def parse(text: str) -> Span:
        """Reads `1.4.0` (from there on), `[1.3.3, 1.6.0)`, `[1.3.3, ∞)` or `[-∞, 1.6.0)`."""
        if found := _TEXT.fullmatch(text.strip()):
            since = LOWEST if found["since"] in _WITHOUT_BEGINNING else Version.parse(found["since"])
            return Span(since, None if found["until"] in _WITHOUT_END else Version.parse(found["until"]))
        return Span(Version.parse(text))

    def __contains__(self, version: Version) -> bool:
        return version.known and self.since <= version and (self.until is None or version < self.until)

    def __and__(self, other: Span) -> Span | None:
        since = max(self.since, other.since)
        until = _earlier(self.until, other.until)
        return None if until is not None and until <= since else Span(since, until)

    def __str__(self) -> str:
        return f"[{'-∞' if self.since == LOWEST else self.since}, {self.until or '∞'})"


@dataclass(frozen=True, slots=True, init=False)
class SpanSet:
    """A set of versions, given by disjoint spans.

    Example:
        >>> reads = SpanSet.parse("[1.3.3, 1.6.0)", "1.6.3")
        >>> Version.parse("1.6.0") in reads, str(reads.first_from(Version.parse("1.6.0")))
        (False, '1.6.3')
    """

    spans: tuple[Span, ...]

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        object.__setattr__(self, "spans", _normal(spans))

    @staticmethod
    def parse(*texts: str) -> SpanSet:
        """Reads each text as a `Span` and joins them."""
        return SpanSet(Span.parse(text) for text in texts)

    @staticmethod
    def everything() -> SpanSet:
        """All known versions."""
        return SpanSet([Span(LOWEST)])

    def __contains__(self, version: Version) -> bool:
        at = bisect_right(self.spans, version, key=lambda span: span.since)
        return at > 0 and version in self.spans[at - 1]

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __or__(self, other: SpanSet) -> SpanSet:
        return SpanSet((*self.spans, *other.spans))

    def __and__(self, other: SpanSet) -> SpanSet:
        return SpanSet(both for mine in self.spans for theirs in other.spans if (both := mine & theirs))

    def __sub__(self, other: SpanSet) -> SpanSet:
        return self & other.complement()

    def complement(self) -> SpanSet:
        """The known versions that are not in this set."""
        gaps: list[Span] = []
        since: Version | None = LOWEST
        for span in self.spans:
            if since is not None and since < span.since:
                gaps.append(Span(since, span.since))
            since = span.until
        if since is not None:
            gaps.append(Span(since))
        return SpanSet(gaps)

    @property
    def boundaries(self) -> tuple[Version, ...]:
        """Every version at which membership changes, in order."""
        return tuple(bound for span in self.spans for bound in (span.since, span.until) if bound is not None)

    def first_from(self, version: Version) -> Version | None:
        """The smallest member that is not below `version`."""
        if version in self:
            return version
        return next((span.since for span in self.spans if span.since >= version), None)

    def __str__(self) -> str:
        return " ∪ ".join(map(str, self.spans)) or "∅"


def _earlier(one: Version | None, other: Version | None) -> Version | None:
    if one is None or other is None:
        return one or other
    return min(one, other)


def _normal(spans: Iterable[Span]) -> tuple[Span, ...]:
    joined: list[Span] = []
    for span in sorted(spans, key=lambda each: each.since):
        last = joined[-1] if joined else None
        if last is None or (last.until is not None and last.until < span.since):
            joined.append(span)
        elif last.until is not None and (span.until is None or last.until < span.until):
            joined[-1] = Span(last.since, span.until)
    return tuple(joined)

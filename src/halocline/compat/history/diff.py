"""What changed between two states of one history.

A history grows at its end. Whatever it says about versions up to the older state's last release was true for programs
that are out there, so it may not change: released rows are append-only. Rows about later versions may.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from halocline.compat.history.lifetime import Lifetime
from halocline.spans import Span, SpanSet
from halocline.versions import Version

if TYPE_CHECKING:
    from halocline.compat.history.core import History


class HistoryChangeKind(StrEnum):
    """What happened to a row."""

    REWRITTEN = "rewritten"
    """It now says something else about released versions."""
    BACK_DATED = "back-dated"
    """It is new, and released clients are said to have required it all along."""
    REMOVED = "removed"
    """It is gone."""
    REUSED = "reused"
    """Its id now belongs to a feature of another name."""
    ADDED = "added"
    """It is new and leaves released clients alone."""
    EXTENDED = "extended"
    """It says something new, about versions after the last release only."""

    @property
    def rewrites(self) -> bool:
        """True if it changes what was already released."""
        return self not in (HistoryChangeKind.ADDED, HistoryChangeKind.EXTENDED)


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """One changed part of one row: `what` is `provided`, `required`, `optional` or the row itself."""

    kind: HistoryChangeKind
    feature: str
    what: str
    old: str
    new: str

    def __str__(self) -> str:
        if self.kind is HistoryChangeKind.REMOVED:
            return f"{self.feature} {self.what} is gone: {self.old}"
        if self.kind in (HistoryChangeKind.ADDED, HistoryChangeKind.BACK_DATED):
            return f"{self.feature} {self.what}: {self.new}"
        return f"{self.feature} {self.what}: {self.old} became {self.new}"

    def to_dict(self) -> dict[str, object]:
        """The same facts for programs."""
        return {**asdict(self), "kind": str(self.kind), "rewrites": self.kind.rewrites}


@dataclass(frozen=True, slots=True)
class Diff:
    """The changes from `old` to `new`, rewrites first."""

    old: str
    new: str
    released: Version
    changes: tuple[HistoryChange, ...]

    @property
    def rewrites(self) -> tuple[HistoryChange, ...]:
        """The changes to what was already released; empty for a history that is cared for."""
        return tuple(change for change in self.changes if change.kind.rewrites)


def diff(new: History, old: History) -> Diff:
    """Compares row by row; `old.released` divides what may change from what may not."""
    changes = [*_rows(new, old), *_constants(new, old)]
    order = list(HistoryChangeKind)
    return Diff(old.name, new.name, old.released, tuple(sorted(changes, key=lambda change: order.index(change.kind))))


def _rows(new: History, old: History) -> Iterator[HistoryChange]:
    before = {lifetime.id: lifetime for lifetime in old.lifetimes}
    after = {lifetime.id: lifetime for lifetime in new.lifetimes}
    for key, was in before.items():
        now = after.get(key)
        if now is None:
            yield HistoryChange(HistoryChangeKind.REMOVED, key, "row", _row(was), "")
        elif was.name and now.name and was.name != now.name:
            yield HistoryChange(HistoryChangeKind.REUSED, key, "name", was.name, now.name)
        else:
            yield from _parts(was, now, old.released)
    for key, now in after.items():
        if key not in before:
            kind = HistoryChangeKind.BACK_DATED if _released(now.required, old.released) else HistoryChangeKind.ADDED
            yield HistoryChange(kind, key, "row", "", _row(now))


def _parts(was: Lifetime, now: Lifetime, released: Version) -> Iterator[HistoryChange]:
    flags = {variant.flag: None for lifetime in (was, now) for variant in lifetime.variants}
    plain = set()
    for flag in (None, *flags):
        old, new = (was, now) if flag is None else (was.under([flag]), now.under([flag]))
        for what in ("provided", "required", "optional"):
            mine: SpanSet = getattr(old, what)
            theirs: SpanSet = getattr(new, what)
            if mine == theirs or (what, mine, theirs) in plain:
                continue
            plain.add((what, mine, theirs))
            changed = _released((mine - theirs) | (theirs - mine), released)
            kind = HistoryChangeKind.REWRITTEN if changed else HistoryChangeKind.EXTENDED
            label = what if flag is None else f"{what} with {flag}"
            yield HistoryChange(kind, now.id, label, str(mine), str(theirs))


def _constants(new: History, old: History) -> Iterator[HistoryChange]:
    for row in old.constants:
        now = new.constant(row.since)
        if row.since > old.released or now is None:
            continue
        for what in ("min_client", "min_server"):
            mine, theirs = getattr(row, what), getattr(now, what)
            if mine != theirs:
                label = f"{what} at {row.since}"
                yield HistoryChange(HistoryChangeKind.REWRITTEN, "constants", label, str(mine), str(theirs))


def _released(spans: SpanSet, released: Version) -> bool:
    """True if the set holds anything that is not later than `released`."""
    return released in spans or bool(spans & SpanSet([Span(Version.of(0), released)]))


def _row(lifetime: Lifetime) -> str:
    return f"provided {lifetime.provided}, required {lifetime.required}"

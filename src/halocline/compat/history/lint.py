"""What is wrong or suspicious in a history, found without running anything.

A client and a server stay compatible across independent releases only if the server has a feature before clients
require it and keeps it until they have stopped. Every rule here guards a part of that. A finding is not an error of
the file: the file is readable, but what it says will hurt somebody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from halocline.compat.history.lifetime import Lifetime, beginning, ending
from halocline.compat.history.result import Minimum
from halocline.errors import IncompatibleError, MalformedError
from halocline.versions import Version

if TYPE_CHECKING:
    from halocline.compat.history.core import History


class HistoryRule(StrEnum):
    """The rules, each with what it demands."""

    REQUIRED_BEFORE_PROVIDED = "required-before-provided"
    """Servers provide a feature no later than clients require it."""
    REMOVED_BEFORE_UNUSED = "removed-before-unused"
    """Clients stop requiring a feature no later than servers remove it."""
    REMOVED_TOO_SOON = "removed-too-soon"
    """Servers keep a feature for the declared time after its successor has appeared."""
    ID_REUSED = "id-reused"
    """An id means one feature for ever."""
    INFINITE_MINIMUM = "infinite-minimum"
    """For every release there is a peer that can work with it."""
    FALLING_MINIMUM = "falling-minimum"
    """A later release never accepts peers that an earlier one refused."""
    CONSTANT_TOO_LOW = "constant-too-low"
    """A shipped constant keeps out peers that lack a feature."""
    CONSTANT_TOO_HIGH = "constant-too-high"
    """A shipped constant lets in every peer that fits."""


@dataclass(frozen=True, slots=True)
class HistoryFinding:
    """One breach of a rule; `feature` is empty if it is about releases rather than one feature."""

    rule: HistoryRule
    feature: str
    text: str

    def to_dict(self) -> dict[str, str]:
        """The same facts for programs."""
        return {"rule": str(self.rule), "feature": self.feature, "text": self.text}


def lint(history: History) -> tuple[HistoryFinding, ...]:
    """Every finding, rule by rule; builds with each build flag are looked at too."""
    plain = [*_ids(history), *_releases(history, ()), *_windows(history), *_constants(history)]
    flagged = [
        HistoryFinding(finding.rule, finding.feature, f"{finding.text} (with build flag {flag})")
        for flag, _ in history.flags
        for finding in _releases(history, (flag,))
        if finding not in plain
    ]
    return tuple(sorted((*plain, *flagged), key=lambda finding: list(HistoryRule).index(finding.rule)))


def _releases(history: History, flags: tuple[str, ...]) -> Iterator[HistoryFinding]:
    for lifetime in history.lifetimes:
        yield from _order(lifetime.under(flags))
    yield from _falling(history, flags)


def _ids(history: History) -> Iterator[HistoryFinding]:
    ids = Counter(lifetime.id for lifetime in history.lifetimes)
    names = Counter(lifetime.name for lifetime in history.lifetimes if lifetime.name)
    for key, count in ids.items():
        if count > 1:
            yield HistoryFinding(HistoryRule.ID_REUSED, key, f"id {key} is used by {count} features")
        if key in history.retired:
            yield HistoryFinding(HistoryRule.ID_REUSED, key, f"id {key} is retired and may not be used again")
    for name, count in names.items():
        if count > 1:
            yield HistoryFinding(HistoryRule.ID_REUSED, name, f"name {name} is used by {count} features")


def _order(lifetime: Lifetime) -> Iterator[HistoryFinding]:
    required, provided = beginning(lifetime.required), beginning(lifetime.provided)
    if required is None:
        return
    if provided is None:
        text = f"clients require {lifetime.id} from {required}, which no server provides"
        yield HistoryFinding(HistoryRule.INFINITE_MINIMUM, lifetime.id, text)
        return
    if required < provided:
        text = f"clients require {lifetime.id} from {required}, servers provide it from {provided} only"
        yield HistoryFinding(HistoryRule.REQUIRED_BEFORE_PROVIDED, lifetime.id, text)
    stops, removed = ending(lifetime.required), ending(lifetime.provided)
    if removed is None:
        return
    if stops is None:
        text = f"servers remove {lifetime.id} at {removed}, clients never stop requiring it"
        yield HistoryFinding(HistoryRule.INFINITE_MINIMUM, lifetime.id, text)
    elif removed < stops:
        text = f"servers remove {lifetime.id} at {removed}, clients require it until {stops}"
        yield HistoryFinding(HistoryRule.REMOVED_BEFORE_UNUSED, lifetime.id, text)


def _windows(history: History) -> Iterator[HistoryFinding]:
    """Features that went sooner after their successor had appeared than the history promises."""
    window = history.deprecation
    if window is None:
        return
    known = {lifetime.id: lifetime for lifetime in history.lifetimes}
    dates = {release.version: release.date for release in history.releases}
    for lifetime in history.lifetimes:
        removed = ending(lifetime.provided)
        came = beginning(known[lifetime.successor].provided) if lifetime.successor else None
        if removed is None or came is None:
            continue
        what = f"servers remove {lifetime.id} at {removed}"
        after = f"{lifetime.successor} appeared at {came}"
        if window.releases:
            number = sum(came <= release.version < removed for release in history.releases)
            text = f"{what}, {number} releases after {after}; {window.releases} are promised"
            soon = number < window.releases
        elif (first := dates.get(came)) is None or (last := dates.get(removed)) is None:
            text = f"{what}, and {after}, but not both have a date, so that {window.days} days cannot be counted"
            soon = True
        else:
            text = f"{what}, {(last - first).days} days after {after}; {window.days} are promised"
            soon = (last - first).days < window.days
        if soon:
            yield HistoryFinding(HistoryRule.REMOVED_TOO_SOON, lifetime.id, text)


_Side = Literal["client", "server"]


def _minimum(history: History, side: _Side, version: Version, flags: tuple[str, ...] = ()) -> Minimum | None:
    """The least peer of that side for a release; None where there is none, which `_order` reports."""
    try:
        explain = history.explain_min_client if side == "client" else history.explain_min_server
        return explain(version, flags=flags)
    except (MalformedError, IncompatibleError):
        return None


def _falling(history: History, flags: tuple[str, ...]) -> Iterator[HistoryFinding]:
    points = [v for v in history.breakpoints(flags=flags) if history.begins is None or v >= history.begins]
    sides: tuple[_Side, ...] = ("client", "server")
    for side in sides:
        minima = [(v, found) for v in points if (found := _minimum(history, side, v, flags))]
        for (before, old), (after, new) in pairwise(minima):
            if new.version < old.version:
                text = f"the minimum {side} falls from {old.version} ({before}) to {new.version} ({after})"
                yield HistoryFinding(HistoryRule.FALLING_MINIMUM, ", ".join(old.features), text)
        for row, next_row in pairwise(history.constants):
            old_one, new_one = getattr(row, f"min_{side}"), getattr(next_row, f"min_{side}")
            if new_one < old_one:
                text = f"the shipped minimum {side} falls from {old_one} ({row.since}) to {new_one} ({next_row.since})"
                yield HistoryFinding(HistoryRule.FALLING_MINIMUM, "", text)


def _constants(history: History) -> Iterator[HistoryFinding]:
    """Compares shipped with computed minima; releases in a row with the same difference make one finding."""
    points = sorted({*history.breakpoints(), *(row.since for row in history.constants), history.released})
    points = [v for v in points if v <= history.released and (history.begins is None or v >= history.begins)]
    sides: tuple[_Side, ...] = ("client", "server")
    for side in sides:
        runs: list[tuple[Version, Version, Version, Minimum]] = []
        for at, version in enumerate(points):
            row, computed = history.constant(version), _minimum(history, side, version)
            if row is None or computed is None:
                continue
            shipped: Version = getattr(row, f"min_{side}")
            end = points[at + 1] if at + 1 < len(points) else version
            if runs and runs[-1][1] == version and (runs[-1][2], runs[-1][3]) == (shipped, computed):
                runs[-1] = (runs[-1][0], end, shipped, computed)
            else:
                runs.append((version, end, shipped, computed))
        for since, until, shipped, computed in runs:
            if finding := _difference(history, side, since, until, shipped, computed):
                yield finding


def _difference(
    history: History, side: _Side, since: Version, until: Version, shipped: Version, computed: Minimum
) -> HistoryFinding | None:
    if shipped in (computed.version, computed.usable):
        return None
    if history.begins is not None and shipped < history.begins and computed.version <= history.begins:
        # What the history computes at its beginning only means "at least as old as the history".
        return None
    other = "servers" if side == "client" else "clients"
    releases = f"{other} {since}" if since == until else f"{other} [{since}, {until})"
    numbers = f"{releases} ship minimum {side} {shipped}, computed is {computed.version}"
    if shipped > computed.version:
        text = f"{numbers}: {side}s in [{computed.version}, {shipped}) are refused though they fit"
        return HistoryFinding(HistoryRule.CONSTANT_TOO_HIGH, "", text)
    gap = f"{side}s in [{shipped}, {computed.version}) are let in"
    text = f"{numbers}: {gap} though {', '.join(computed.features)} would be missing"
    return HistoryFinding(HistoryRule.CONSTANT_TOO_LOW, ", ".join(computed.features), text)

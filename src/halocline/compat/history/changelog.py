"""A history as prose by release, generated so that it cannot disagree with the data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from halocline.compat.history.lifetime import Lifetime
from halocline.errors import IncompatibleError, MalformedError
from halocline.spans import SpanSet
from halocline.versions import Version

if TYPE_CHECKING:
    from halocline.compat.history.core import History


def changelog(history: History) -> str:
    """Markdown, newest release first: what each side gained, lost or began to need, and what became of the minima."""
    entries: dict[Version, list[str]] = defaultdict(list)
    for lifetime in history.lifetimes:
        for version, line in _events(lifetime):
            entries[version].append(line)
    for yanked in history.yanked:
        why = f": {yanked.why}" if yanked.why else ""
        entries[yanked.span.since].append(f"yanked, use {yanked.span.until} instead{why}")
    for odd in history.misreports:
        entries[odd.version].append(f"this build reports itself as {odd.reports}")
    for version, line in _minima(history, sorted(entries)):
        entries[version].append(line)
    lines = [f"# Changes of {history.name}", ""]
    lines += [history.summary, ""] if history.summary else []
    for version in sorted(entries, reverse=True):
        note = " (not released yet)" if version > history.released else ""
        note = " (already there when this history begins)" if version == history.begins else note
        lines += [f"## {version}{note}", "", *(f"- {line}" for line in entries[version]), ""]
    return "\n".join(lines)


def _events(lifetime: Lifetime) -> Iterator[tuple[Version, str]]:
    what = f"`{lifetime.id}`"
    about = f": {lifetime.summary}" if lifetime.summary else ""
    yield from _bounds(lifetime.provided, f"server: provides {what}{about}", f"server: removes {what}")
    yield from _bounds(lifetime.required, f"client: requires {what}", f"client: no longer requires {what}")
    instead = f", with a fallback: {lifetime.fallback}" if lifetime.fallback else ""
    begins, ends = f"client: uses {what} where it is provided{instead}", f"client: no longer uses {what} where provided"
    for version, line in _bounds(lifetime.optional, begins, ends):
        # Where optional use turns into a requirement, the requirement says it all.
        if line == begins or version not in lifetime.required:
            yield version, line
    yield from _bounds(lifetime.inert, f"server: still has {what}, without using it", f"server: uses {what} again")
    for variant in lifetime.variants:
        built = f", if built with `{variant.flag}`"
        for side, verb, ends, spans in (
            ("server", "provides", "removes", variant.provided),
            ("client", "requires", "no longer requires", variant.required),
            ("client", "optionally uses", "no longer optionally uses", variant.optional),
        ):
            if spans is not None:
                yield from _bounds(spans, f"{side}: {verb} {what}{built}", f"{side}: {ends} {what}{built}")


def _bounds(spans: SpanSet, begins: str, ends: str) -> Iterator[tuple[Version, str]]:
    for span in spans:
        yield span.since, begins
        if span.until is not None:
            yield span.until, ends


def _minima(history: History, versions: list[Version]) -> Iterator[tuple[Version, str]]:
    for side, least in (("server", history.min_server), ("client", history.min_client)):
        numbers: list[tuple[Version, Version]] = []
        for version in versions:
            if history.begins is not None and version < history.begins:
                continue
            try:
                numbers.append((version, least(version)))
            except (MalformedError, IncompatibleError):
                continue
        for (_, old), (version, new) in pairwise(numbers):
            if new != old:
                yield version, f"minimum {side} from here on: **{new}** (was {old})"

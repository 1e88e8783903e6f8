"""The nearest fix: what would turn a verdict into `ok`.

There are two ways out. The *release* can change: the smallest one of the same product, not below the current one,
that may; if only older ones may, that is said. Or the *table* can change: the features whose removal would do. Where
neither does by itself, both can change *together*: the release with which the fewest features have to go. Only features
that can be taken out of a table are proposed, and the protocol that would be left is judged again, so a proposal is one
that works. All are found from the same knowledge as the verdict; what is unknown proposes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from halocline.compat.features import feature
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.errors import HaloclineError
from halocline.spans import Span
from halocline.versions import Version

if TYPE_CHECKING:
    from halocline.compat.verdict import Verdict


Judge = Callable[[Release, Protocol, Sequence[str]], "Verdict"]
"""Gives the verdict on a release and a protocol from which these features were taken out."""


@dataclass(frozen=True, slots=True)
class Together:
    """An upgrade and a removal of features of which neither would do without the other.

    Args:
        upgrade: The release.
        drop: The features.
        onward: True if all known later releases may as well, without the same features.
    """

    upgrade: Release
    drop: tuple[str, ...]
    onward: bool = False

    def __str__(self) -> str:
        return f"{_upgrade_text(self.upgrade, self.onward)} and drop {', '.join(self.drop)}"


@dataclass(frozen=True, slots=True)
class Fix:
    """What would do.

    Args:
        upgrade: The smallest release, not below the current one, that may.
        onward: True if all known later releases may as well.
        older: The product and its releases below that may, if none from the current one on does.
        drop: The features whose removal would do.
        together: What would do where neither a later release nor a removal does by itself.
    """

    upgrade: Release | None = None
    onward: bool = False
    older: tuple[str, Span] | None = None
    drop: tuple[str, ...] = ()
    together: Together | None = None

    def sentence(self, subject: str) -> str:
        """The next step for people, with the command where there is one."""
        ways = [self._change(), _plan(subject, self.drop)]
        if self.together is not None:
            both = self.together
            ways.append(f"{_upgrade_text(both.upgrade, both.onward)}, and: {_plan(subject, both.drop)}")
        first, *others = filter(None, ways)
        begin = first if first.startswith("halocline ") else f"{first[0].upper()}{first[1:]}"
        return ", or: ".join([begin, *others])

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "upgrade": str(self.upgrade) if self.upgrade else None,
            "older": f"{self.older[0]} {self.older[1]}" if self.older else None,
            "drop": list(self.drop),
            "together": None
            if self.together is None
            else {"upgrade": str(self.together.upgrade), "drop": list(self.together.drop)},
        }

    def _change(self) -> str:
        if self.upgrade is not None:
            return _upgrade_text(self.upgrade, self.onward)
        if self.older is not None:
            product, span = self.older
            if span.until is None:
                return f"known to work is {product} from {span.since} on"
            return f"only older releases work: {product} from {span.since} and before {span.until}"
        return ""

    def __str__(self) -> str:
        drop = f"drop {', '.join(self.drop)}" if self.drop else ""
        return ", or ".join(filter(None, (self._change(), drop, str(self.together or ""))))


def _upgrade_text(release: Release, onward: bool) -> str:
    return f"upgrade to {release.product} {release.version}" + (" or later" if onward else "")


def _plan(subject: str, drop: Sequence[str]) -> str:
    """The command that plans a removal; empty if nothing is to be removed."""
    return f"halocline plan {subject} " + " ".join(f"--drop {name}" for name in drop) if drop else ""


def nearest_fix(release: Release, protocol: Protocol, bounds: Sequence[Version], judge: Judge) -> Fix | None:
    """What would let the release, or one like it, do what it may not, or None if nothing known would."""
    fix = _other_release(release, protocol, bounds, judge) or Fix()
    fix = replace(fix, drop=_removals(release, protocol, judge))
    if fix.upgrade is None and not fix.drop:
        fix = replace(fix, together=_together(release, protocol, bounds, judge))
    return fix if fix != Fix() else None


def _other_release(release: Release, protocol: Protocol, bounds: Sequence[Version], judge: Judge) -> Fix | None:
    if not release.version.known:
        return None
    works = [judge(Release(release.product, bound), protocol, ()).ok for bound in bounds]
    for at, bound in enumerate(bounds):
        if works[at] and bound >= release.version:
            return Fix(upgrade=Release(release.product, bound), onward=all(works[at:]))
    end = max((at for at, good in enumerate(works) if good), default=None)
    if end is None:
        return None
    start = end
    while start > 0 and works[start - 1]:
        start -= 1
    until = bounds[end + 1] if end + 1 < len(bounds) else None
    return Fix(older=(release.product, Span(bounds[start], until)))


def _together(release: Release, protocol: Protocol, bounds: Sequence[Version], judge: Judge) -> Together | None:
    """The later release with which the fewest features have to go, the smallest of several."""
    later = [Release(release.product, each) for each in bounds if release.version.known and each > release.version]
    ways = [(each, drop) for each in later if (drop := _removals(each, protocol, judge))]
    if not ways:
        return None
    upgrade, drop = min(ways, key=lambda way: len(way[1]))
    left = _without(protocol, drop)
    after = [each for each in later if each.version > upgrade.version]
    return Together(upgrade, drop, left is not None and all(judge(each, left, drop).ok for each in after))


def _removals(release: Release, protocol: Protocol, judge: Judge) -> tuple[str, ...]:
    """Takes out what blocks; then, where only a number is left in the way, what needs that number."""
    dropped: list[str] = []
    while not (now := judge(release, protocol, dropped)).ok:
        for names in _candidates(protocol, now.blockers):
            smaller = _without(protocol, names)
            if smaller is not None:
                protocol = smaller
                dropped += names
                break
        else:
            return ()
    return tuple(dropped)


def _candidates(protocol: Protocol, blockers: frozenset[str]) -> Iterator[tuple[str, ...]]:
    names = {feature(protocol.format, token.partition(":")[0]).name for token in blockers}
    blocking = tuple(sorted(names & protocol.features))
    if blocking:
        yield blocking
        return
    beyond_numbers = tuple(name for name in sorted(protocol.features) if feature(protocol.format, name).legacy is None)
    if beyond_numbers:
        yield beyond_numbers


def _without(protocol: Protocol, names: Iterable[str]) -> Protocol | None:
    try:
        for name in names:
            protocol = protocol.without_feature(name)
    except HaloclineError:
        return None
    return protocol

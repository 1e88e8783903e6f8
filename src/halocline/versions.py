"""Release numbers as real engines print them, with one total order.

A `Version` is a numeric core, an optional pre-release and an optional tag:

    1.2.770            core 1.2.770
    4.0.0rc1           core 4.0.0, pre-release rc 1: below 4.0.0
    1.1.0-SNAPSHOT     core 1.1.0, pre-release snapshot: below 1.1.0
    0.12.2-amzn-0      core 0.12.2, tag amzn-0: a vendor's build of 0.12.2, never below it
    13.3.x-scala2.12   core 13.3, tag scala2.12: the runtime line 13.3
    479                core 479

Order: core first (`1.0` equals `1.0.0`), then pre-releases before the release, then tagged builds after it. Text
that holds no version is a value too. It sorts below everything and `known` is false; no span contains it, so it never
passes a check. Versions travel as text; they are never packed into one integer, which would lose components of
1000 and more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache, total_ordering
from typing import Any

# The order is Maven's for the words Maven knows; a nightly or dev build comes before any alpha, as in PEP 440.
_PRE_RELEASE_RANK = {
    "dev": 0,
    "nightly": 0,
    "a": 1,
    "alpha": 1,
    "b": 2,
    "beta": 2,
    "m": 3,
    "milestone": 3,
    "pre": 4,
    "preview": 4,
    "c": 5,
    "cr": 5,
    "rc": 5,
    "snapshot": 6,
}
_FINAL_RANK = 7

_NUMBERED = re.compile(r"v?(?P<core>\d+(?:\.\d+)*)(?P<line>\.x)?(?P<rest>.*)", re.IGNORECASE | re.DOTALL | re.ASCII)
_PRE_RELEASE = re.compile(
    r"[-._]?(?P<word>dev|nightly|alpha|beta|milestone|preview|pre|snapshot|rc|cr|[abcm](?=[-._]?\d))"
    r"[-._]?(?P<number>\d*)(?P<rest>(?:[-._+].*)?)",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
_TAG = re.compile(r"[-._+]?(?P<tag>[A-Za-z0-9][A-Za-z0-9._+-]*)")
# A name, what stands between, and a number: `Delta-Lake/3.1.0`, `delta-rs:py-1.6.6`, `delta-rs.0.17.1`, `trino-455`,
# `Kernel-3.4.0/engine`. The name starts at the start of a word, so that one string is walked once.
_PRODUCT = re.compile(
    r"(?<![A-Za-z0-9_.:-])(?![vV]\d)(?P<product>[A-Za-z][A-Za-z0-9_.:-]*?)(?:/[a-z]+:|[/:@ ]|(?<=[A-Za-z])[.-])"
    r"(?P<version>[vV]?\d[^\s/;,()]*)",
    re.ASCII,
)
_LONGEST = 200


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A release number. Make one with `Version.parse`.

    Example:
        >>> Version.parse("4.0.0rc1") < Version.parse("4.0.0") <= Version.parse("4.0.0-amzn-0")
        True
        >>> Version.parse("latest").known
        False
    """

    text: str
    core: tuple[int, ...] = ()
    pre_release: str = ""
    tag: str = ""
    known: bool = True
    _key: tuple[Any, ...] = field(default=(), repr=False)

    @staticmethod
    def parse(text: str | Version) -> Version:
        """Reads any text; what holds no version becomes a value with `known` false."""
        if isinstance(text, Version):
            return text
        stripped = text.strip()
        return _parse(stripped) if len(stripped) <= _LONGEST else _unknown(stripped)

    @staticmethod
    def of(*core: int) -> Version:
        """A plain release from its numbers: `Version.of(1, 2, 770)`."""
        return _parse(".".join(map(str, core)))

    @property
    def is_pre_release(self) -> bool:
        """True for a development, alpha, beta, candidate or snapshot build."""
        return bool(self.pre_release)

    @property
    def is_zero(self) -> bool:
        """True for 0, 0.0, 0.0.0: the number that programs send when they do not know their own."""
        return self.known and not any(self.core)

    @property
    def release(self) -> Version:
        """The plain release this one belongs to: core only, without pre-release and tag."""
        return self if not (self.pre_release or self.tag) else _parse(".".join(map(str, self.core)))

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Version) else NotImplemented

    def __lt__(self, other: Version) -> bool:
        return self._key < other._key if isinstance(other, Version) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=65536)
def _parse(text: str) -> Version:
    found = _NUMBERED.fullmatch(text)
    if found is None:
        return _unknown(text)
    core = tuple(int(part) for part in found["core"].split("."))
    rank, number, pre_release, rest = _FINAL_RANK, 0, "", found["rest"]
    if pre := _PRE_RELEASE.fullmatch(rest):
        word = pre["word"].lower()
        rank, number, rest = _PRE_RELEASE_RANK[word], int(pre["number"] or 0), pre["rest"]
        pre_release = word + pre["number"]
    tag = ""
    if rest:
        tagged = _TAG.fullmatch(rest)
        if tagged is None:
            return _unknown(text)
        tag = tagged["tag"]
    key = (1, _without_trailing_zeros(core), rank, number, _tag_key(tag))
    return Version(text, core, pre_release, tag, True, key)


def _unknown(text: str) -> Version:
    return Version(text, known=False, _key=(0, text))


def _without_trailing_zeros(core: tuple[int, ...]) -> tuple[int, ...]:
    end = len(core)
    while end > 1 and core[end - 1] == 0:
        end -= 1
    return core[:end]


def _tag_key(tag: str) -> tuple[tuple[int, int, str], ...]:
    """Numbers inside a tag compare as numbers, so that amzn-10 comes after amzn-9."""
    parts = re.findall(r"\d+|[A-Za-z]+", tag.lower())
    return tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts)


def find_versions(text: str) -> tuple[tuple[str, Version], ...]:
    """The products and versions in a combined string, in the order they stand there.

    Example:
        >>> [(name, str(version)) for name, version in find_versions("Apache-Spark/3.5.0 Delta-Lake/3.1.0")]
        [('Apache-Spark', '3.5.0'), ('Delta-Lake', '3.1.0')]
        >>> [(name, str(version)) for name, version in find_versions("delta-rs:py-1.6.6")]
        [('delta-rs:py', '1.6.6')]
    """
    found = ((match["product"], Version.parse(match["version"])) for match in _PRODUCT.finditer(text[:10_000]))
    return tuple((product, version) for product, version in found if version.known)


LOWEST = Version.parse("0-dev")
"""No known version is below this one."""

"""A product: a program that people install, its releases, and what is known of them.

A *fact* says: for these operations, in these releases, these *tokens* get this answer. A token is something a protocol
can require: a feature by name, or a number such as `reader 3`, `writer 7`, `table version 8`. Both count, because old
releases look at the numbers only. How facts become an answer is told in `halocline.compat.support`.

Operations are dotted. `read.arrow` falls back to `read` token by token, unless the product lists it under `separate`:
then its own facts are all there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from halocline.compat.answer import Answer
from halocline.errors import InputError
from halocline.spans import SpanSet
from halocline.versions import Version

OPERATIONS: Final = ("read", "write")
"""What a party can do to a table; finer operations add a dot and a word."""

_FIRST_YEAR: Final = 2000
ANY: Final = "*"
"""The token of a fact about all features that have none of their own. It does not stand for numbers."""


class When(StrEnum):
    """Whether a fact depends on the feature being in use."""

    ALWAYS = "always"
    USED = "used"
    UNUSED = "unused"


class Evidence(StrEnum):
    """How something is known, the surest first."""

    MEASURED = "measured"
    SOURCE = "from source"
    VENDOR = "said by the vendor"

    @staticmethod
    def of(source: str) -> Evidence:
        """How a source knows: it begins with `measured`, with the address of a page, or names a file of the program.

        Example:
            >>> print(Evidence.of("delta-io/delta v2.3.0: actions.scala"))
            from source
        """
        if source.startswith("measured"):
            return Evidence.MEASURED
        return Evidence.VENDOR if source.startswith("http") else Evidence.SOURCE

    @property
    def sureness(self) -> int:
        """0 for what was measured, rising with doubt."""
        return list(Evidence).index(self)


@dataclass(frozen=True, slots=True)
class Fact:
    """What a product answers to some tokens in some releases.

    Args:
        format: The table format it is about.
        operations: The operations it is about.
        tokens: Features and numbers it is about.
        spans: The releases in which it holds.
        source: Where this is known from.
        answer: What the release does.
        when: Whether it holds only while the feature is in use, or only while it is not.
        along: What else must be true of the table: tokens it requires of readers or writers, `using …` for features in
            use.
        without: The same, of what must not be true.
        what: What goes wrong or is peculiar, as a clause for people.
    """

    format: str
    operations: tuple[str, ...]
    tokens: tuple[str, ...]
    spans: SpanSet
    source: str
    answer: Answer = Answer.OK
    when: When = When.ALWAYS
    along: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    what: str = ""

    @property
    def evidence(self) -> Evidence:
        """How it is known."""
        return Evidence.of(self.source)

    @property
    def conditional(self) -> bool:
        """True if it depends on more than the release."""
        return self.when is not When.ALWAYS or bool(self.along) or bool(self.without)

    @property
    def depends_on_use(self) -> bool:
        """True if it depends on what is in use, which a protocol alone does not tell."""
        return self.when is not When.ALWAYS or any(each.startswith("using ") for each in self.along | self.without)

    def holds(self, used: bool, table: frozenset[str]) -> bool:
        """Whether the conditions are met, given whether the feature is in use and what is true of the table."""
        in_use = self.when is When.ALWAYS or (self.when is When.USED) == used
        return in_use and self.along <= table and self.without.isdisjoint(table)


@dataclass(frozen=True, slots=True)
class Pin:
    """Releases that behave like a release of another product, because they are built on it."""

    operations: tuple[str, ...]
    spans: SpanSet
    product: str
    version: Version
    source: str


@dataclass(frozen=True, slots=True)
class OwnUpgrade:
    """Releases that move a table up by themselves when they write it.

    Args:
        format: The table format.
        spans: The releases that do it.
        version: The table version they move a lower table to.
        switch: What keeps them from it, as a setting for people; empty if nothing does.
        source: Where this is known from.
    """

    format: str
    spans: SpanSet
    version: int
    source: str
    switch: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """Releases that were tried on real tables, so that what is said of them is measured whatever the source of a fact.

    Args:
        releases: The releases.
        tokens: What the tables asked for.
        operations: What was tried on them, and coarser ones that are answered alike; finer ones are not meant.
    """

    releases: frozenset[Version]
    tokens: frozenset[str]
    operations: frozenset[str]

    def covers(self, version: Version, token: str, operation: str) -> bool:
        """Whether this was tried."""
        return version in self.releases and token in self.tokens and operation in self.operations


@dataclass(frozen=True, slots=True)
class Product:
    """A program, its releases, and the facts about them.

    Args:
        name: How releases name it: `deltalake` in `deltalake@1.6.6`.
        title: How people know it.
        formats: The table formats it has facts for.
        first: The first release that is known about.
        unlisted: The answer to a token without a fact.
        last: The last release that is known about; None if all later ones are known too.
        reports: The names under which it writes itself into commits.
        numbers_only: True if what follows the number in a commit is not part of the version.
        aliases: Other names people use.
        separate: Operations that do not fall back to their parent.
        facts: What it answers.
        pins: Where it follows another product.
        upgrades: Where it moves tables up when it writes them.
        source: Where the answer to a token without a fact is known from; empty if that is `unknown`.
        trials: What was tried on real tables.
        by_day: True for a service that shows no releases: a version is the day on which it is used, `2026.3.2`.
        numbered: What gives a service its number, where that is not plain: `by the version of its engine`.
    """

    name: str
    title: str
    formats: tuple[str, ...]
    first: Version
    unlisted: Answer
    last: Version | None = None
    reports: tuple[str, ...] = ()
    numbers_only: bool = False
    aliases: tuple[str, ...] = ()
    separate: frozenset[str] = frozenset()
    facts: tuple[Fact, ...] = ()
    pins: tuple[Pin, ...] = ()
    upgrades: tuple[OwnUpgrade, ...] = ()
    source: str = ""
    trials: tuple[Trial, ...] = ()
    by_day: bool = False
    numbered: str = ""

    @property
    def numbering(self) -> str:
        """How its versions are to be written, as a clause for people; empty if that is plain.

        Example:
            >>> from halocline.compat.knowledge import Knowledge
            >>> Knowledge.load().product("snowflake").numbering.partition(":")[0]
            'snowflake goes by the day on which it is used'
        """
        how = "by the day on which it is used" if self.by_day else self.numbered
        return f"{self.name} goes {how}: {self.name}@{self.newest}" if how else ""

    def can_have(self, version: Version) -> bool:
        """Whether a version is written as this product numbers its own."""
        if not self.by_day or not version.known:
            return version.known
        year, month, *_ = (*version.core, 1)
        return year >= _FIRST_YEAR and 1 <= month <= 12

    @property
    def newest(self) -> Version:
        """The newest release that is known."""
        bounds = (bound for format in self.formats for each in OPERATIONS for bound in self.boundaries(format, each))
        return self.last or max(bounds)

    def evidence(self, version: Version, token: str, operation: str, source: str) -> Evidence:
        """How the answer to a token is known, given the source of the fact behind it; empty if there is none."""
        if any(each.covers(version, token, operation) for each in self.trials):
            return Evidence.MEASURED
        return Evidence.of(source or self.source)

    def own_upgrade(self, format: str, version: Version) -> OwnUpgrade | None:
        """What this release does by itself to a lower table that it writes; None if it leaves tables as they are."""
        return next((each for each in self.upgrades if each.format == format and version in each.spans), None)

    def knows(self, version: Version) -> bool:
        """Whether the release lies in the known range; a vendor's build of the last release does."""
        if not version.known or version < self.first:
            return False
        if self.last is None:
            return True
        # The days of a month belong to it.
        until = Version.of(*version.core[: len(self.last.core)]) if self.by_day else version.release
        return until <= self.last

    def lineage(self, operation: str) -> tuple[str, ...]:
        """The operations whose facts count, finest first."""
        found = [operation]
        while "." in operation and operation not in self.separate:
            operation = operation.rpartition(".")[0]
            found.append(operation)
        return tuple(found)

    def finer(self, format: str, operation: str) -> tuple[str, ...]:
        """The finer operations of this one that have facts of their own."""
        named = {each for fact in self.facts if fact.format == format for each in fact.operations}
        return tuple(sorted(each for each in named if each.startswith(operation + ".")))

    def boundaries(self, format: str, operation: str) -> tuple[Version, ...]:
        """The known releases at which something changes for this operation, and the first one, in order."""
        asked = {*self.lineage(operation), *self.finer(format, operation)}
        spans = [fact.spans for fact in self.facts if fact.format == format and not asked.isdisjoint(fact.operations)]
        spans += [pin.spans for pin in self.pins if not asked.isdisjoint(pin.operations)]
        bounds = {self.first, *(bound for each in spans for bound in each.boundaries)}
        return tuple(sorted(filter(self.knows, bounds)))


def is_number(token: str) -> bool:
    """True for `reader 3`, `writer 7` and `table version 8`, false for the name of a feature."""
    return token.rpartition(" ")[2].isdigit()


def checked_operation(operation: str) -> str:
    """The operation, if its first word is one.

    Example:
        >>> checked_operation("read.arrow")
        'read.arrow'
    """
    if operation.partition(".")[0] not in OPERATIONS:
        step = "Finer ones begin with one of these: read.arrow, write.append."
        raise InputError.unknown(f"there is no operation {operation!r}", operation, OPERATIONS, next_step=step)
    return operation

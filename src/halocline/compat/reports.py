"""What is told of a table of any format: what it is, who wrote it, and what a change would make of it.

Of those who write, *observed* are releases that named themselves; readers leave no trace. Where commits name nobody,
and only one product writes such tables, its lowest release that may is *inferred*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from typing import Protocol as Interface

import msgspec

from halocline.compat.breaks import WRITING, Client
from halocline.compat.findings import Finding
from halocline.compat.knowledge import Knowledge
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.terms import Terms
from halocline.compat.verdict import can


@dataclass(frozen=True, slots=True)
class Observed:
    """A release that wrote commits of the log.

    Attributes:
        release: Which one.
        commits: How many.
        last_version: The newest of them.
        last_ms: When that was; None if there is none.
        inferred: Whether none of them names it.
    """

    release: Release
    commits: int = 0
    last_version: int = 0
    last_ms: int | None = None
    inferred: bool = False

    @property
    def client(self) -> Client:
        """The same as a client that reads and writes the table."""
        return Client(self.release, WRITING, "inferred" if self.inferred else "observed", self.last_ms)

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "release": str(self.release),
            "commits": self.commits,
            "lastVersion": self.last_version,
            "lastSeen": self.last_ms,
        }


@dataclass(frozen=True)
class Writers:
    """Who wrote the commits that the log still holds.

    Attributes:
        observed: Those who named themselves, the busiest first, and then who is inferred.
        unnamed: How many commits name nobody.
    """

    observed: tuple[Observed, ...]
    unnamed: int

    @property
    def named(self) -> tuple[Observed, ...]:
        """Those who named themselves."""
        return tuple(each for each in self.observed if not each.inferred)

    @property
    def clients(self) -> tuple[Client, ...]:
        """The observed ones as clients."""
        return tuple(each.client for each in self.observed)


@dataclass(frozen=True)
class Inspection:
    """What can be told about a table without reading its rows.

    Attributes:
        root: The table's URL.
        version: The version that was looked at.
        terms: What it asks of those who use it, as far as its protocol can be read.
        writers: Who wrote it.
        state: The version and what kind of table it is, for people.
        properties: Its properties.
        schema: Its columns, as Spark spells a schema in JSON; None if it cannot be read.
        partition_columns: The columns that it is partitioned by.
        findings: What is wrong or odd about it.
        counted: What it consists of, for people; None if this release may not tell.
        files: How many live files that is.
        rows: How many rows they hold; None if that is not known.
        size: Their bytes.
        uncounted: Why they were not counted.
        notes: What else people are told, by what it is about.
        facts: What else programs are told.
    """

    root: str
    version: int
    terms: Terms
    writers: Writers
    state: str
    properties: Mapping[str, str]
    schema: Any = None
    partition_columns: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    counted: str | None = None
    files: int | None = None
    rows: int | None = None
    size: int | None = None
    uncounted: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def protocol(self) -> Protocol:
        """What it requires."""
        return self.terms.protocol

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "table": self.root,
            "format": self.protocol.format,
            "version": self.version,
            "files": self.files,
            "bytes": self.size,
            "rows": self.rows,
            "uncounted": self.uncounted,
            "protocol": str(self.protocol),
            "minReaderVersion": self.protocol.reader,
            "minWriterVersion": self.protocol.writer,
            "supported": sorted(self.protocol.features),
            "enabled": sorted(self.terms.features_in_use),
            **self.facts,
            "properties": dict(self.properties),
            "schema": self.schema,
            "partitionColumns": list(self.partition_columns),
            "writtenBy": [each.to_dict() for each in self.writers.named],
            "unnamedCommits": self.writers.unnamed,
            "findings": [{"code": each.code, "text": each.text, "fatal": each.fatal} for each in self.findings],
        }


def schema_in(text: str) -> Any:
    """The columns as a log spells them in JSON; None if they cannot be read."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def rows_text(rows: int | None) -> str:
    """A number of rows, for people."""
    return "rows not known" if rows is None else f"{rows:,} rows"


class LintProblem(Interface):
    """Something that is wrong with a table."""

    @property
    def code(self) -> str:
        """Its name."""

    @property
    def what(self) -> str:
        """What is the matter."""

    @property
    def hurts(self) -> str:
        """Whom it hurts, and how."""

    @property
    def safe(self) -> bool:
        """Whether it can be repaired without harm."""

    @property
    def by_hand(self) -> str:
        """What to do where it cannot."""

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""


F = TypeVar("F", bound=LintProblem)


@dataclass(frozen=True)
class LintReport(Generic[F]):
    """What was found.

    Attributes:
        root: The table's URL.
        version: The version that was looked at.
        protocol: The protocol as far as it can be read.
        repaired: The protocol after all safe repairs.
        findings: What is wrong.
    """

    root: str
    version: int
    protocol: Protocol
    repaired: Protocol
    findings: tuple[F, ...]

    @property
    def clean(self) -> bool:
        """Whether there is nothing to complain about."""
        return not self.findings

    @property
    def fixable(self) -> tuple[F, ...]:
        """What `fix` repairs."""
        return tuple(each for each in self.findings if each.safe)

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "table": self.root,
            "version": self.version,
            "protocol": str(self.protocol),
            "repaired": str(self.repaired),
            "findings": [each.to_dict() for each in self.findings],
        }


@dataclass(frozen=True)
class Fixed:
    """What a repair changed.

    Attributes:
        version: The version that holds the repair; None if nothing had to be done.
        before: The protocol before, as far as it could be read.
        after: The protocol after.
        unset: The properties that went.
        codes: The findings that it put right.
        checked: Who was asked.
        left: What is still wrong.
    """

    version: int | None
    before: Protocol
    after: Protocol
    unset: tuple[str, ...]
    codes: tuple[str, ...]
    checked: str
    left: tuple[LintProblem, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "version": self.version,
            "before": str(self.before),
            "after": str(self.after),
            "unset": list(self.unset),
            "fixed": list(self.codes),
            "checked": self.checked or None,
            "left": [each.to_dict() for each in self.left],
        }


@dataclass(frozen=True)
class FeatureProposal:
    """What a change would make of a table.

    Attributes:
        version: The version it was made for.
        now: The terms as they are.
        ways: The terms after the change, by the name of the way it could go; empty if nothing is to change.
    """

    version: int
    now: Terms
    ways: Mapping[str, Terms] = field(default_factory=dict)


def writers_in(commits: Iterable[tuple[Sequence[Release], int, int]], unnamed: Release | None = None) -> Writers:
    """Who wrote commits, given the releases that each names, its version and its time.

    Args:
        commits: The commits, in any order.
        unnamed: Who is inferred to have written those that name nobody.

    Example:
        >>> spark = Release.parse("delta-spark@3.2.0")
        >>> found = writers_in([([spark], 0, 10), ([], 1, 20), ([spark], 2, 30)])
        >>> found.observed[0].commits, found.observed[0].last_ms, found.unnamed
        (2, 30, 1)
    """
    found: dict[Release | None, Observed] = {}
    for releases, version, time_ms in commits:
        for release in releases or (None,):
            known = found.get(release) or Observed(release or Release.reported(""), last_version=-1, last_ms=0)
            last = max((known.last_version, known.last_ms), (version, time_ms))
            found[release] = replace(known, commits=known.commits + 1, last_version=last[0], last_ms=last[1])
    nobody = found.pop(None, None)
    observed = sorted(found.values(), key=lambda each: (-each.commits, str(each.release)))
    if nobody is not None and unnamed is not None:
        observed.append(replace(nobody, release=unnamed, inferred=True))
    return Writers(tuple(observed), nobody.commits if nobody else 0)


def lowest_writer(name: str, protocol: Protocol) -> Release:
    """The lowest release of a product that writes tables of a protocol; one of an unknown version if none is known to.

    Example:
        >>> print(lowest_writer("hudi", Protocol.hudi(8)))
        hudi@1.0.0
    """
    product = Knowledge.load().product(name)
    releases = (Release(product.name, bound) for bound in product.boundaries(protocol.format, "write"))
    unknown = Release.parse(f"{product.name}@unknown")
    return next((each for each in releases if can(each, protocol, "write").ok), unknown)

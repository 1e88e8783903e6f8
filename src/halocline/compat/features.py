"""Features: named capabilities, one data record each.

The records stand in `data/features/<format>.toml`, one file per format, and say what is true of a feature whoever
uses it: its kind, the version numbers that imply it, what it needs and excludes, what switches it on, and how it is
taken out again. Which release implements it is knowledge about products and stands elsewhere.

Three predicates are never blurred. A feature is *supported* by a table whose protocol lists or implies it,
*enabled* when the table's metadata also switches it on, *implemented* by a release that understands it.

A name without a record is still a feature: `feature` gives it the kind `UNKNOWN`, and every set keeps it.

A format's versions form a ladder. Where a number alone decides, as in Hudi, each rung is itself a feature
(`table version 8`). `rules` says how a format's numbers and lists work together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Struct

from halocline.compat.activation import Activation
from halocline.errors import MalformedError, NotFoundError

FORMATS: Final = ("delta", "hudi", "index")
"""The table formats that have records."""

SWITCHABLE: Final = ("delta", "index")
"""The formats whose tables are given features by name."""


class FeatureKind(StrEnum):
    """Who has to understand a feature."""

    READER_WRITER = "reader-writer"
    WRITER = "writer"
    UNKNOWN = "unknown"


class DropStep(Struct, frozen=True, forbid_unknown_fields=True):
    """One named step of taking a feature out.

    Args:
        name: What is done, e.g. `unset` or `rewrite-files`.
        detail: To what: properties, domains or a clause.
        at_drop: True if it is part of the commit that makes the protocol smaller, false if it comes before.
    """

    name: str
    detail: tuple[str, ...] = ()
    at_drop: bool = False

    def __str__(self) -> str:
        return " ".join((self.name, ", ".join(self.detail))).strip()


class Drop(Struct, frozen=True, forbid_unknown_fields=True):
    """How a feature is taken out of a table.

    Args:
        since: The first release of the format's reference implementation that can.
        steps: What is done, in order.
        barrier: True if history must be cut off or protected, because old versions of the table still use it.
        only_with_truncation: True if the history before must be removed, never just protected.
    """

    since: str
    steps: tuple[DropStep, ...] = ()
    barrier: bool = False
    only_with_truncation: bool = False


class Feature(Struct, frozen=True, forbid_unknown_fields=True):
    """What is true of a feature whoever uses it. Get one with `feature`.

    Args:
        format: The table format it belongs to.
        name: Its name as it stands in protocols.
        kind: Who has to understand it.
        legacy: The reader and writer version from which numbers alone imply it (reader 0: writers only); None if
            it must be listed by name.
        requires: Features that must be supported with it.
        requires_enabled: Features that must be supported and enabled with it.
        excludes_supported: Features that may not be supported while it is enabled.
        excludes_enabled: Features that may not be enabled while it is enabled.
        enabled_by: What switches it on; any one suffices.
        log_elsewhere: What shows that commits may lie outside of the log, where a reader of the log alone misses them.
        modes: The ways to use it that clients tell apart, each with the condition under which it is used that way.
        added_by_metadata: True if switching it on also adds it to the protocol.
        upgrades_existing: True if that also happens silently to an existing table; otherwise it must be named first.
        enable_with: The properties that switch it on, key to value, where `enabled_by` leaves a choice.
        create_only: True if only a new table can have it.
        by_property: False if naming it in a `delta.feature.*` property is refused.
        excludes_partitioning: True if a table with it has no partition columns.
        strip_unless_supported: Annotations that mean nothing in an existing table without the feature; they are taken
            out of its schema rather than added to its protocol.
        drop: How it is taken out; None if it cannot be.
        fails_others: True if adding it makes every transaction in flight fail.
        aliases: Other names found on disk for the same thing.
        preview_of: The stable feature that this one was a preview of.
        previews: The previews of this one; a table that has one does not gain the stable feature by itself.
        summary: One sentence on what it means.
        note: What is peculiar about it.
    """

    format: str
    name: str
    kind: FeatureKind = FeatureKind.UNKNOWN
    legacy: tuple[int, int] | None = None
    requires: frozenset[str] = frozenset()
    requires_enabled: frozenset[str] = frozenset()
    excludes_supported: frozenset[str] = frozenset()
    excludes_enabled: frozenset[str] = frozenset()
    enabled_by: tuple[Activation, ...] = ()
    log_elsewhere: tuple[Activation, ...] = ()
    modes: dict[str, Activation] = {}
    added_by_metadata: bool = False
    upgrades_existing: bool = False
    enable_with: dict[str, str] = {}
    create_only: bool = False
    by_property: bool = True
    excludes_partitioning: bool = False
    strip_unless_supported: frozenset[str] = frozenset()
    drop: Drop | None = None
    fails_others: bool = False
    aliases: tuple[str, ...] = ()
    preview_of: str | None = None
    previews: frozenset[str] = frozenset()
    summary: str = ""
    note: str = ""

    @property
    def known(self) -> bool:
        """False for a name without a record."""
        return self.kind is not FeatureKind.UNKNOWN

    @property
    def enabling_properties(self) -> dict[str, str]:
        """The properties that switch it on; empty if none do, or if what to set is not known."""
        if self.enable_with:
            return dict(self.enable_with)
        values = next((each for each in self.enabled_by if each.key), None)
        return {values.key: next(iter(values.is_))} if values is not None and len(values.is_) == 1 else {}

    @property
    def minimum(self) -> tuple[int, int]:
        """The reader and writer version that a protocol with this feature needs, at least 1 each."""
        if self.legacy is not None:
            return max(self.legacy[0], 1), max(self.legacy[1], 1)
        how = rules(self.format)
        reader = (how.reader_lists_from or 1) if self.kind is FeatureKind.READER_WRITER else 1
        return reader, how.writer_lists_from or 1

    def to_dict(self) -> dict[str, object]:
        """The record for programs; what is empty is left out."""
        facts: dict[str, object] = {"format": self.format, "name": self.name, "kind": str(self.kind)}
        if self.legacy is not None:
            facts["legacy"] = {"reader": self.legacy[0], "writer": self.legacy[1]}
        for key in ("requires", "requires_enabled", "excludes_supported", "excludes_enabled", "previews"):
            facts[_camel(key)] = sorted(getattr(self, key))
        facts["enabledBy"] = [str(each) for each in self.enabled_by]
        facts["modes"] = {mode: str(condition) for mode, condition in self.modes.items()}
        for key in ("added_by_metadata", "upgrades_existing", "create_only", "fails_others", "excludes_partitioning"):
            facts[_camel(key)] = getattr(self, key)
        if self.drop is not None:
            steps = [{"name": each.name, "detail": [*each.detail], "atDrop": each.at_drop} for each in self.drop.steps]
            facts["drop"] = {
                "since": self.drop.since,
                "barrier": self.drop.barrier,
                "onlyWithTruncation": self.drop.only_with_truncation,
                "steps": steps,
            }
        facts |= {"aliases": list(self.aliases), "previewOf": self.preview_of}
        facts |= {"summary": self.summary, "note": self.note}
        return {key: value for key, value in facts.items() if value or key == "kind"}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


class Level(Struct, frozen=True, forbid_unknown_fields=True):
    """One rung of a format's ladder: a version number, what it adds and who first wrote it."""

    number: int
    adds: tuple[str, ...] = ()
    releases: str = ""
    summary: str = ""


class Rules(Struct, frozen=True, forbid_unknown_fields=True):
    """How the numbers and the lists of a format work together.

    Args:
        format: The table format.
        readers: The reader versions that are defined.
        writers: The writer versions that are defined.
        reader_lists_from: The reader version from which reader features are listed; None if there are no lists.
        writer_lists_from: The writer version from which writer features are listed; None if there are no lists.
        lists_replace_numbers: True if a protocol with lists supports only what is listed; false if lists add to
            what the numbers imply.
        level_name: What one rung is called when the number alone decides; empty if it does not.
        levels: The rungs of the ladder.
    """

    format: str
    readers: tuple[int, ...]
    writers: tuple[int, ...]
    reader_lists_from: int | None = None
    writer_lists_from: int | None = None
    lists_replace_numbers: bool = False
    level_name: str = ""
    levels: tuple[Level, ...] = ()


def feature(format: str, name: str) -> Feature:
    """The record of a feature; a name that has none becomes a feature of kind `UNKNOWN`."""
    book = _book(format)
    found = book.by_name.get(name)
    return found if found is not None else Feature(format, name)


def features(format: str) -> Mapping[str, Feature]:
    """All records of a format by name, in the order of its file."""
    return _book(format).records


def find_feature(format: str, name: str) -> Feature:
    """The record of a feature a person has named: case does not matter, an unknown name is an error."""
    book = _book(format)
    found = book.by_folded_name.get(name.casefold())
    if found is None:
        raise _unknown(name, book.records, format, f"See: halocline features {format}")
    return found


def find_switchable(name: str) -> Feature:
    """The record of a feature that tables of some format are given by name, as a person has named it.

    Hudi tables are not given features one by one: what they require goes by their version.

    Example:
        >>> find_switchable("deletionmasks").format
        'index'
    """
    found = [record for format in SWITCHABLE if (record := _book(format).by_folded_name.get(name.casefold()))]
    if found:
        return found[0]
    known = [each for format in SWITCHABLE for each in features(format)]
    raise _unknown(name, known, " or ".join(SWITCHABLE), "See: halocline features")


def _unknown(name: str, known: Iterable[str], formats: str, next_step: str) -> NotFoundError:
    message = f"no feature {name!r} is known for {formats} tables"
    return NotFoundError.unknown(message, name, known, condition="FEATURE_UNKNOWN", next_step=next_step)


def rules(format: str) -> Rules:
    """How a format's numbers and lists work together."""
    return _book(format).rules


@dataclass(frozen=True, slots=True)
class _Book:
    rules: Rules
    records: Mapping[str, Feature]
    by_name: Mapping[str, Feature]
    by_folded_name: Mapping[str, Feature]


@cache
def _book(format: str) -> _Book:
    # Imported here: reading records is the only use, and most programs read those of one format only.
    import pkgutil
    import tomllib

    if format not in FORMATS:
        message, step = f"there is no table format {format!r}", "See: halocline features"
        raise NotFoundError.unknown(message, format, FORMATS, next_step=step)
    raw = pkgutil.get_data("halocline.compat", f"data/features/{format}.toml")
    return _read(format, tomllib.loads((raw or b"").decode()))


def _read(format: str, data: Mapping[str, Any]) -> _Book:
    try:
        rule = msgspec.convert({"format": format, "levels": data.get("level", ()), **data["format"]}, Rules)
        listed = [msgspec.convert({"format": format, **each}, Feature) for each in data.get("feature", ())]
    except msgspec.ValidationError as error:
        raise MalformedError(f"a record of {format} features: {error}", condition="MALFORMED_KNOWLEDGE") from error
    records: dict[str, Feature] = {}
    for level in rule.levels if rule.level_name else ():
        name, both = f"{rule.level_name} {level.number}", (level.number, level.number)
        records[name] = Feature(format, name, FeatureKind.READER_WRITER, both, summary=level.summary)
    for record in listed:
        previews = frozenset(each.name for each in listed if each.preview_of == record.name)
        records[record.name] = msgspec.structs.replace(record, previews=previews)
    by_name = records | {alias: record for record in records.values() for alias in record.aliases}
    folded = {name.casefold(): record for name, record in by_name.items()}
    return _Book(rule, MappingProxyType(records), MappingProxyType(by_name), MappingProxyType(folded))

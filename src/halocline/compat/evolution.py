"""How metadata moves a Delta table from one protocol to another.

Metadata asks for features in three ways. Some of it *switches them on* (a property, an annotation, a type). Properties
named `delta.feature.<name>` ask for a feature by name, `delta.minReaderVersion` and `delta.minWriterVersion` for all
that a pair of numbers stands for; these *requests* are used up here and never stored.

`for_new_table` and `alter` give what current releases of Delta write, as an `Evolution`: the protocol, the metadata to
store with it, and why each feature came in.

Nothing is written here and nobody is asked: whether the table's users can follow is decided by whoever commits. A
request that cannot be met is refused before there is anything to commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from halocline.compat.agreement import added_by, disagreements, enabling_clause
from halocline.compat.features import feature, features, find_feature, rules
from halocline.compat.metadata import TableMetadata
from halocline.compat.normal_form import required_closure
from halocline.compat.protocol import Protocol
from halocline.compat.request import FEATURE_PREFIX, Request, stored_configuration
from halocline.errors import InputError

DEFAULT_VERSIONS: Final = (1, 2)
"""The numbers of a new table that asks for nothing."""


@dataclass(frozen=True, slots=True)
class FeatureGain:
    """One feature that came in, and why."""

    feature: str
    because: str

    def __str__(self) -> str:
        return f"{self.feature}: {self.because}"


@dataclass(frozen=True, slots=True)
class Evolution:
    """What metadata does to a table's protocol.

    Args:
        protocol: The protocol to write.
        metadata: The metadata to store, without requests.
        reasons: Each feature that came in and why, in order of name.
    """

    protocol: Protocol
    metadata: TableMetadata
    reasons: tuple[FeatureGain, ...] = ()


def for_new_table(metadata: TableMetadata, *, named: Iterable[str] = ()) -> Evolution:
    """The protocol of a table that is created with this metadata."""
    request = Request.read(metadata.configuration)
    least = (1, 1) if request.ignore_defaults else DEFAULT_VERSIONS
    pair = _pair(request.reader or least[0], request.writer or least[1])
    by_name = (*request.named, *(find_feature("delta", name).name for name in named))
    reasons = _Reasons()
    stored = metadata.with_configuration(stored_configuration(metadata.configuration))
    protocol = _minimum(stored, by_name, pair, reasons)
    stored = _with_required_enabled(protocol, stored)
    _check_agreement(protocol, stored, protocol.features)
    return Evolution(protocol, stored, reasons.of(protocol.features))


def alter(existing: Protocol, metadata: TableMetadata, *, named: Iterable[str] = ()) -> Evolution:
    """The protocol of an existing table after its metadata has been replaced by this.

    In order: numbers asked for, features asked for by name, requests taken out, features that the metadata switches
    on. A feature that existing tables must be given by name, and were not, is an error.
    """
    request = Request.read(metadata.configuration)
    reasons = _Reasons()
    protocol = _with_versions(existing, request, reasons)
    protocol = _with_named(protocol, [*request.named, *named], reasons)
    stored = metadata.with_configuration(stored_configuration(metadata.configuration))
    for record in features("delta").values():
        if not existing.supports(record.name) and record.strip_unless_supported & stored.field_annotations:
            stored = stored.without_annotations(record.strip_unless_supported)
    protocol = _with_switched_on(protocol, stored, reasons)
    _check_create_only(existing, protocol)
    _check_agreement(protocol, stored, protocol.features - existing.features)
    return Evolution(protocol, stored, reasons.of(protocol.features - existing.features))


def auto_features(metadata: TableMetadata, protocol: Protocol) -> frozenset[str]:
    """The features a table needs by its metadata: those listed, those switched on, and all that they require."""
    listed = {feature(protocol.format, name).name for name in protocol.writer_features or ()}
    return required_closure(protocol.format, listed | added_by(metadata, protocol))


class _Reasons:
    """Why each feature came in; the first reason given stays."""

    def __init__(self) -> None:
        self._because: dict[str, str] = {}

    def add(self, names: Iterable[str], because: str) -> None:
        for name in names:
            self._because.setdefault(name, because)

    def add_required(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            self.add(required_closure("delta", [name]) - {name}, f"required by {name}")

    def of(self, names: Iterable[str]) -> tuple[FeatureGain, ...]:
        return tuple(FeatureGain(name, self._because[name]) for name in sorted(names) if name in self._because)


def _minimum(metadata: TableMetadata, named: Sequence[str], pair: Protocol, reasons: _Reasons) -> Protocol:
    by_name = Protocol.delta(3, 7).with_features(*named)
    reasons.add(named, "asked for by name")
    switched_on = added_by(metadata, by_name)
    for name in switched_on:
        reasons.add([name], f"{enabling_clause(feature('delta', name), metadata)} is set")
    reasons.add_required({*named, *switched_on})
    reasons.add(pair.implied, f"versions {pair} stand for it")
    return Protocol.of("delta", auto_features(metadata, by_name) | pair.implied)


def _pair(reader: int, writer: int) -> Protocol:
    """The protocol of two numbers; a reader number that needs lists means the highest without, if writers have none."""
    how = rules("delta")
    if how.reader_lists_from is not None and writer < (how.writer_lists_from or 0):
        reader = min(reader, how.reader_lists_from - 1)
    return Protocol.delta(reader, writer)


def _with_versions(existing: Protocol, request: Request, reasons: _Reasons) -> Protocol:
    if request.reader is None and request.writer is None:
        return existing
    reader = existing.reader if request.reader is None else request.reader
    writer = existing.writer if request.writer is None else request.writer
    if reader >= (rules("delta").reader_lists_from or 0) and writer < (rules("delta").writer_lists_from or 0):
        raise InputError(
            f"reader version {reader} goes with writer version 7 only",
            sides={"asked for": f"({reader},{writer})", "table": str(existing)},
            next_step="Ask for both versions, or for features by name.",
        )
    wanted = Protocol.delta(reader, writer)
    reasons.add(wanted.implied, f"versions ({reader},{writer}) stand for it")
    return existing.merged(wanted)


def _with_named(protocol: Protocol, named: Iterable[str], reasons: _Reasons) -> Protocol:
    names = [find_feature("delta", name).name for name in named]
    reasons.add(names, "asked for by name")
    reasons.add_required(names)
    return protocol if protocol.listed.issuperset(names) else protocol.merged(Protocol.of("delta", names))


def _with_switched_on(protocol: Protocol, metadata: TableMetadata, reasons: _Reasons) -> Protocol:
    required = auto_features(metadata, protocol)
    missing = [feature("delta", name) for name in sorted(required - protocol.features)]
    by_name_only = [each.name for each in missing if each.added_by_metadata and not each.upgrades_existing]
    if by_name_only:
        raise InputError(
            f"an existing table gains {', '.join(by_name_only)} only when asked for by name",
            condition="FEATURE_NEEDS_MANUAL_ENABLEMENT",
            sides={
                "table": str(protocol),
                "metadata": ", ".join(enabling_clause(feature("delta", name), metadata) for name in by_name_only),
            },
            next_step="Also set " + ", ".join(f"{FEATURE_PREFIX}{name}=supported" for name in by_name_only) + ".",
        )
    if not missing:
        return protocol
    for each in missing:
        if clause := enabling_clause(each, metadata):
            reasons.add([each.name] if each.added_by_metadata else [], f"{clause} is set")
    reasons.add_required(each.name for each in missing)
    return protocol.merged(Protocol.of("delta", required, unknown_for_readers=protocol.unknown_for_readers))


def _with_required_enabled(protocol: Protocol, metadata: TableMetadata) -> TableMetadata:
    """Switches on what a new table's features need switched on, unless the metadata says otherwise."""
    enabled = protocol.enabled(metadata)
    configuration = dict(metadata.configuration)
    for name in sorted(enabled):
        for other in feature("delta", name).requires_enabled - enabled:
            for key, value in feature("delta", other).enabling_properties.items():
                configuration.setdefault(key, value)
    changed = configuration != dict(metadata.configuration)
    return _with_required_enabled(protocol, metadata.with_configuration(configuration)) if changed else metadata


def _check_create_only(before: Protocol, after: Protocol) -> None:
    late = sorted(name for name in after.features - before.features if feature("delta", name).create_only)
    if late:
        raise InputError(
            f"an existing table cannot gain {', '.join(late)}",
            condition="FEATURE_DEPENDENCY",
            sides={"table": str(before), "asked for": ", ".join(late)},
            next_step="Create a new table with it and copy the rows.",
        )


def _check_agreement(protocol: Protocol, metadata: TableMetadata, new: frozenset[str]) -> None:
    """Makes sure that no features contradict each other, nor the metadata new ones."""
    fatal = [each for each in disagreements(protocol, metadata) if each.fatal or each.feature in new]
    if fatal:
        raise InputError(
            f"features contradict each other: {'; '.join(map(str, fatal))}",
            condition="FEATURE_DEPENDENCY",
            sides={"protocol": str(protocol), "enabled": ", ".join(sorted(protocol.enabled(metadata))) or "nothing"},
            next_step="Change the properties so that one of them is left out.",
        )

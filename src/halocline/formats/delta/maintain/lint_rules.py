"""What can be wrong with the protocol of a real table, rule by rule.

Writers have left all of these behind: a protocol that contradicts itself, features that got lost in an upgrade, that
are switched on without being listed, that are misspelt, unknown, or came in with another one unasked; requests stored
as properties; no protocol at all. `problems` looks for each of them and says what is the matter, whom it hurts and
what would put it right. Whether putting it right is safe depends on who uses the table, and is decided in
`halocline.formats.delta.maintain.lint`.

Pure but for the last rule, which reads the commits since an unasked feature came in to make sure nobody used it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec

from halocline.compat.agreement import disagreements
from halocline.compat.features import feature, features
from halocline.compat.findings import Finding, protocol_findings
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.request import is_request
from halocline.formats.delta.actions.action import Action, Metadata
from halocline.formats.delta.configuration.column_mapping import MAX_ID, MODE, is_mapped, mode_of
from halocline.formats.delta.features.usage import in_action, in_metadata, uses_always
from halocline.formats.delta.log.header import TableHeader
from halocline.formats.delta.snapshot.protocol_history import (
    REPAIR_PROTOCOL,
    REPLACES_TABLE,
    ProtocolHistory,
    ProtocolStep,
)
from halocline.schema.visitor import walk

HURTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ALIAS": "clients that know only the proper name refuse the table",
        "CONTRADICTORY": "strict clients refuse the table, others guess what it means",
        "ENABLED_NOT_SUPPORTED": "clients that go by the protocol ignore it, so rows come out wrong or rules go "
        "unchecked; Delta Spark refuses the table",
        "EXCLUDED": "writers that keep both promises do not exist",
        "HIGHER_THAN_NEEDED": "older clients are locked out for nothing",
        "LOST_FEATURES": "writers that go by the list no longer keep these promises, and who set them relied on it",
        "MAPPING_NOT_DONE": "clients that take the property at its word look for physical names that no column has",
        "MISSPELT": "every client takes the name for a feature it does not know, and refuses the table",
        "PROTOCOL_MISSING": "nearly every client takes the log for damaged",
        "REQUEST_STORED": "the next writer may take the property for a request and change the protocol again",
        "REQUIREMENT_MISSING": "clients that know what the feature needs refuse the table",
        "REQUIREMENT_NOT_ENABLED": "the feature's promise cannot be kept",
        "UNASKED_FEATURE": "clients without the feature are locked out for something the table does not use",
        "UNKNOWN_FEATURE": "every client that does not know the feature refuses the table, this release among them",
        "VERSION_UNKNOWN": "every client refuses the table",
    }
)
"""The codes of findings, and whom each one hurts."""

_PARTLY_DONE: Final = "some columns are mapped and others are not: only their writer knows which files hold what"


@dataclass(frozen=True)
class Repair:
    """What would put a finding right.

    Attributes:
        adds: Features that come in.
        removes: Names that go out.
        unset: Properties that go.
        rewrites: Whether the protocol is written again, even with the same features.
    """

    adds: frozenset[str] = frozenset()
    removes: frozenset[str] = frozenset()
    unset: frozenset[str] = frozenset()
    rewrites: bool = False

    @property
    def concerns_protocol(self) -> bool:
        """Whether it leads to another protocol action."""
        return self.rewrites or bool(self.adds or self.removes)

    def __or__(self, other: Repair) -> Repair:
        return Repair(
            self.adds | other.adds,
            self.removes | other.removes,
            self.unset | other.unset,
            self.rewrites or other.rewrites,
        )


AS_MEANT: Final = Repair(rewrites=True)
"""The same features, written down properly."""


@dataclass(frozen=True)
class LintFinding:
    """One thing that is wrong with a table's protocol.

    Attributes:
        code: A stable name for it, a key of `HURTS`.
        what: What was found, as a clause.
        repair: What would put it right; None if nothing that can be done here.
        unsafe: Why the repair is left to a person; empty if it is safe.
    """

    code: str
    what: str
    repair: Repair | None = None
    unsafe: str = ""

    @property
    def hurts(self) -> str:
        """Whom it hurts, and how."""
        return HURTS[self.code]

    @property
    def safe(self) -> bool:
        """Whether `fix` repairs it."""
        return self.repair is not None and not self.unsafe

    @property
    def by_hand(self) -> str:
        """What to do where it cannot be repaired."""
        return self.unsafe or "there is no repair that keeps what the table means"

    def to_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        facts: dict[str, Any] = {"code": self.code, "what": self.what, "hurts": self.hurts}
        return facts | {"safe": self.safe, "unsafe": self.unsafe or None}


def problems(
    header: TableHeader, history: ProtocolHistory, actions_since: Callable[[int], Iterator[Action]]
) -> Iterator[LintFinding]:
    """Everything that is wrong with the protocol of a table."""
    metadata = header.facts
    if header.protocol_action is None:
        yield _missing(header, history)
        yield from _stored_requests(metadata)
        return
    protocol = header.lenient_protocol
    written = protocol_findings(msgspec.to_builtins(header.protocol_action))
    misspelt = {name: right for name in protocol.unknown_features if (right := _folded().get(name.casefold()))}
    lost = frozenset().union(*(gone for _, _, gone in history.lost()))
    yield from _contradictions(written)
    yield from _oddities(written, misspelt)
    yield from _misspelt(misspelt)
    yield from _lost(history)
    yield from _disagreements(protocol.repaired(), header, lost | set(misspelt.values()))
    yield from _mapping_not_done(header)
    yield from _stored_requests(metadata)
    yield from _unasked(header, protocol, history, actions_since)
    if not any(finding.fatal for finding in written):
        yield from _higher_than_needed(protocol)


def _missing(header: TableHeader, history: ProtocolHistory) -> LintFinding:
    if history.is_whole:
        return LintFinding("PROTOCOL_MISSING", f"none of the {header.version + 1} versions has a protocol", AS_MEANT)
    return LintFinding(
        "PROTOCOL_MISSING",
        f"the log begins at version {history.begins_at} and holds no protocol",
        AS_MEANT,
        "the first commits are gone, and a protocol may have been among them",
    )


def _contradictions(written: tuple[Finding, ...]) -> Iterator[LintFinding]:
    fatal = [finding for finding in written if finding.fatal]
    if fatal:
        unreadable = any(finding.code.startswith("VERSION_") for finding in fatal)
        doubt = "a version number cannot be read, so nobody knows which one was meant" if unreadable else ""
        yield LintFinding("CONTRADICTORY", "; ".join(map(str, fatal)), AS_MEANT, doubt)


def _oddities(written: tuple[Finding, ...], misspelt: Mapping[str, str]) -> Iterator[LintFinding]:
    for finding in written:
        if finding.code in ("ALIAS", "REQUIREMENT_MISSING"):
            yield LintFinding(finding.code, str(finding), AS_MEANT)
        elif finding.code == "VERSION_UNKNOWN":
            yield LintFinding("VERSION_UNKNOWN", str(finding))
        elif finding.code == "UNKNOWN_NAME" and finding.feature not in misspelt:
            yield LintFinding("UNKNOWN_FEATURE", f"{finding.feature} is not known to any client that we know")


def _folded() -> dict[str, str]:
    return {name.casefold(): name for name in features("delta")}


def _misspelt(misspelt: Mapping[str, str]) -> Iterator[LintFinding]:
    for name, right in sorted(misspelt.items()):
        repair = Repair(frozenset({right}), frozenset({name}))
        yield LintFinding("MISSPELT", f"{name} is listed, which must be spelt {right}", repair)


def _lost(history: ProtocolHistory) -> Iterator[LintFinding]:
    for before, after, gone in history.lost():
        by_name = sorted(name for name in gone if feature("delta", name).legacy is None)
        doubt = f"{', '.join(by_name)} may have been taken out on purpose, without saying so" if by_name else ""
        what = f"{after} replaced {before.protocol} by {after.protocol}: {', '.join(sorted(gone))} got lost"
        yield LintFinding("LOST_FEATURES", what, Repair(adds=gone), doubt)


def _disagreements(protocol: Protocol, header: TableHeader, told: frozenset[str]) -> Iterator[LintFinding]:
    for finding in disagreements(protocol, header.facts):
        if finding.code == "ENABLED_NOT_SUPPORTED" and finding.feature == "columnMapping":
            yield _unmapped(finding, header.metadata)
        elif finding.code == "ENABLED_NOT_SUPPORTED" and finding.feature not in told:
            yield LintFinding(finding.code, str(finding), Repair(adds=frozenset({finding.feature})))
        elif finding.code in ("REQUIREMENT_NOT_ENABLED", "EXCLUDED") and finding.fatal:
            yield LintFinding(finding.code, str(finding))


def _mapping_not_done(header: TableHeader) -> Iterator[LintFinding]:
    """A mode that the protocol lets count, for columns that are not mapped: nobody can read the table."""
    if not header.lenient_protocol.supports("columnMapping") or mode_of(header.metadata.configuration) == "none":
        return
    mapped = {field.name: is_mapped(field) for _, field in walk(header.metadata.schema)}
    if not all(mapped.values()):
        names = ", ".join(sorted(name for name, done in mapped.items() if not done))
        what = f"{MODE}={header.metadata.configuration[MODE]} is stored, and these columns are not mapped: {names}"
        doubt = _PARTLY_DONE if any(mapped.values()) else ""
        yield LintFinding("MAPPING_NOT_DONE", what, Repair(unset=frozenset({MODE, MAX_ID})), doubt)


def _unmapped(finding: Finding, metadata: Metadata) -> LintFinding:
    """A property alone maps nothing: what counts is whether the columns carry ids and physical names."""
    mapped = [is_mapped(field) for _, field in walk(metadata.schema)]
    if not any(mapped):
        what = f"{MODE}={metadata.configuration[MODE]} is stored, and no column is mapped"
        return LintFinding("MAPPING_NOT_DONE", what, Repair(unset=frozenset({MODE, MAX_ID})))
    repair = Repair(adds=frozenset({finding.feature}))
    return LintFinding(finding.code, str(finding), repair, "" if all(mapped) else _PARTLY_DONE)


def _stored_requests(metadata: TableMetadata) -> Iterator[LintFinding]:
    stray = sorted(filter(is_request, metadata.configuration))
    if stray:
        values = ", ".join(f"{key}={metadata.configuration[key]}" for key in stray)
        yield LintFinding(
            "REQUEST_STORED", f"{values} stored, which asks for a protocol", Repair(unset=frozenset(stray))
        )


def _unasked(
    header: TableHeader, protocol: Protocol, history: ProtocolHistory, actions_since: Callable[[int], Iterator[Action]]
) -> Iterator[LintFinding]:
    for name in sorted(protocol.listed):
        record = feature("delta", name)
        pair = history.added(name)
        if pair is None or not record.known or uses_always(record) or not _came_along(name, *pair):
            continue
        step = pair[1]
        if in_metadata(record, header.metadata) or any(
            in_action(record, action) for action in actions_since(step.version)
        ):
            continue
        what = f"{step} brought in {name}, which it was not asked for and the table does not use"
        yield LintFinding("UNASKED_FEATURE", what, Repair(removes=frozenset({name})))


def _came_along(name: str, before: ProtocolStep, after: ProtocolStep) -> bool:
    """Whether a feature came in with another one that was asked for, without being named or needed itself."""
    gained = after.protocol.features - before.protocol.features
    needed = {required for each in gained for required in feature("delta", each).requires}
    replaced = after.operation in REPLACES_TABLE or after.operation in ("", REPAIR_PROTOCOL, "UPGRADE PROTOCOL")
    return len(gained) > 1 and not replaced and name not in needed and not after.names(name)


def _higher_than_needed(protocol: Protocol) -> Iterator[LintFinding]:
    simplest = protocol.simplest()
    # Reader 2 says the same as a readers' list with columnMapping alone, but several readers mishandle it.
    if simplest != protocol and protocol.defined and not (simplest.reader == 2 and protocol.reader > 2):
        yield LintFinding("HIGHER_THAN_NEEDED", f"{protocol} means the same as {simplest}", AS_MEANT)

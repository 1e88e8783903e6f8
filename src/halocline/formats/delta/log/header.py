"""What a table requires and what it is, before anybody has asked to read it.

The *header* of a version is its protocol and its metadata. It can be had of any table, also of one that this release
may not read: inspecting, checking other clients and repairing start here. It gives no files; those come from a
`Snapshot`, which exists only behind the gate.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import msgspec

from halocline.compat.agreement import disagreements
from halocline.compat.findings import Finding, protocol_findings
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.terms import Terms
from halocline.compat.verdict import can
from halocline.errors import MalformedError
from halocline.formats.delta.actions.action import Metadata, ProtocolAction
from halocline.formats.delta.actions.protocol import protocol_of
from halocline.formats.delta.configuration.metadata_rules import table_metadata
from halocline.formats.delta.log.replay import Replay
from halocline.formats.log.gate import LegacyProtocolWarning, own_release
from halocline.storage.base import Store


@dataclass(frozen=True)
class TableHeader:
    """The protocol and the metadata of one version. Made by `read_header`.

    Attributes:
        root: The table's URL.
        version: The version.
        protocol_action: The protocol as it lies in the log; None if there is none.
        metadata: The metadata.
    """

    root: str
    version: int
    protocol_action: ProtocolAction | None
    metadata: Metadata

    @cached_property
    def protocol(self) -> Protocol:
        """What the table requires."""
        if self.protocol_action is None:
            advice = "If the table is older than protocols, open it with legacy_protocol=True, as (1,1)."
            raise _lacking("protocol", self.root, self.version, advice)
        return protocol_of(self.protocol_action)

    @cached_property
    def lenient_protocol(self) -> Protocol:
        """What the table requires, as far as its protocol can be read; (1,1) where there is none."""
        if self.protocol_action is None:
            return Protocol.delta(1, 1)
        return Protocol.read_leniently(msgspec.to_builtins(self.protocol_action))[0]

    @cached_property
    def facts(self) -> TableMetadata:
        """The metadata as far as features depend on it."""
        return table_metadata(self.metadata)

    @property
    def terms(self) -> Terms:
        """What the table asks of those who use it, as far as its protocol can be read."""
        return Terms.of(self.lenient_protocol, self.facts)

    def protocol_or_legacy(self) -> Protocol:
        """What the table requires, where a table without a protocol counts as (1,1), with a warning."""
        if self.protocol_action is not None:
            return self.protocol
        message = f"{self.root} has no protocol and is taken as (1,1); the first write will record one"
        warnings.warn(message, LegacyProtocolWarning, stacklevel=3)
        return Protocol.delta(1, 1)

    def findings(self) -> tuple[Finding, ...]:
        """What is wrong or odd about the protocol, alone and against the metadata; fatal ones first."""
        if self.protocol_action is None:
            return (Finding("PROTOCOL_MISSING", "the log has no protocol action"),)
        written = protocol_findings(msgspec.to_builtins(self.protocol_action))
        if any(finding.fatal for finding in written):
            return written
        return tuple(sorted((*written, *disagreements(self.protocol, self.facts)), key=lambda found: not found.fatal))


def header_of(replay: Replay) -> TableHeader:
    """The header of an opened log."""
    found = replay.header
    if found.metadata is None:
        advice = "Restore the first commit of the log from a backup."
        raise _lacking("metaData", replay.store.root, replay.segment.version, advice)
    return TableHeader(replay.store.root, replay.segment.version, found.protocol, found.metadata)


def read_header(store: Store, version: int | None = None) -> TableHeader:
    """Reads the header of a version, the newest if not given, of any table whatever its protocol."""
    return header_of(Replay.open(store, version))


def read_sound_header(store: Store, version: int | None = None) -> TableHeader:
    """Reads the header of a version, the newest if not given, of a log that is whole.

    Every commit that a reader reads is read, as far as this release may: one that is torn, or no commit at all, leaves
    a table that nobody can read.

    Raises:
        MalformedError: A file of the log is damaged, or missing.
    """
    replay = Replay.open(store, version)
    replay.check_newest()
    header = header_of(replay)
    if can(own_release(), header.terms, "read").ok:
        _ = replay.state
    return header


def _lacking(action: str, root: str, version: int, next_step: str) -> MalformedError:
    return MalformedError(
        f"the log of {root} has no {action.lower()}",
        condition="MALFORMED_LOG",
        sides={"expected": f"a {action} action in a commit or checkpoint", "found": f"none up to version {version}"},
        next_step=next_step,
    )

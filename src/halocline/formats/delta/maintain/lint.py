"""Finding wrong protocols that real writers left behind, and repairing what is safe to repair.

A *finding* says what is wrong, whom it hurts, and what the protocol would be once it is put right. Repairing it is
*safe* if nobody who is seen writing the table would be locked out by it, this release can write the result, and there
is no doubt about what was meant. Everything else is shown and left to a person. Readers leave no trace in a log, so
for them the repair is what the format asks for, not what they may be used to.

`fix` makes one commit of all safe repairs, after asking on behalf of everybody else as for any other change of
protocol. It starts from the table as it is meant to be, because the table as it is may be one that nobody can open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from halocline.compat.breaks import Client, breaks
from halocline.compat.evolution import alter
from halocline.compat.features import feature
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.reports import Fixed, LintReport
from halocline.compat.request import is_request
from halocline.compat.terms import Terms
from halocline.compat.verdict import can
from halocline.errors import HaloclineError
from halocline.formats.delta.actions.action import Action, Metadata
from halocline.formats.delta.actions.protocol import action_of
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.column_mapping import MODE
from halocline.formats.delta.configuration.metadata_rules import table_metadata, terms_of
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.features.approval import Approve
from halocline.formats.delta.log.header import TableHeader, header_of, read_sound_header
from halocline.formats.delta.log.replay import Replay
from halocline.formats.delta.maintain.lint_rules import LintFinding, Repair, problems
from halocline.formats.delta.snapshot.protocol_history import REPAIR_PROTOCOL, actions_since, read_protocol_history
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.delta.snapshot.writers import writers
from halocline.formats.log.gate import own_release
from halocline.storage.base import Store


def lint(store: Store, *, clients: Sequence[Client] = ()) -> LintReport[LintFinding]:
    """Looks for what is wrong with a table's protocol."""
    header = read_sound_header(store)
    found = tuple(problems(header, read_protocol_history(store), lambda version: actions_since(store, version)))
    everyone = (*writers(store).clients, *clients)
    judged = tuple(_judged(header, each, everyone) for each in found)
    safe = [each.repair for each in judged if each.safe and each.repair is not None]
    protocol, _ = _target(header, reduce(Repair.__or__, safe, Repair()), everyone)
    return LintReport(header.root, header.version, header.lenient_protocol, protocol, judged)


def fix(store: Store, approve: Approve, *, clients: Sequence[Client] = ()) -> Fixed:
    """Repairs what is safe to repair, in one commit."""
    report = lint(store, clients=clients)
    if not report.fixable:
        return Fixed(None, report.protocol, report.protocol, (), (), "", report.findings)
    replay = Replay.open(store, report.version)
    header = header_of(replay)
    everyone = (*writers(store).clients, *clients)
    repair = reduce(Repair.__or__, [each.repair for each in report.fixable if each.repair is not None])
    protocol, metadata = _target(header, repair, everyone)
    checked = ""
    if protocol != report.protocol:
        now = Terms.of(report.protocol, header.facts)
        checked = approve(now, terms_of(protocol, metadata))
    # A mode that counts for columns that are not mapped leaves a table that nobody can open.
    found = TableConfiguration(protocol, metadata if MODE in repair.unset else header.metadata)
    meant = Snapshot(store, header.version, found, own_release(), "write", replay)
    actions: list[Action] = []
    if header.protocol_action is None or protocol != report.protocol:
        actions.append(action_of(protocol))
    if metadata != header.metadata:
        actions.append(metadata)
    codes = tuple(dict.fromkeys(each.code for each in report.fixable))
    version = Transaction(meant).commit(actions, CommitDescription(REPAIR_PROTOCOL, {"findings": list(codes)}))
    unset = tuple(sorted(header.metadata.configuration.keys() - metadata.configuration.keys()))
    left = lint(store, clients=clients).findings
    return Fixed(version, report.protocol, protocol, unset, codes, checked, left)


def _judged(header: TableHeader, finding: LintFinding, clients: Sequence[Client]) -> LintFinding:
    if finding.repair is None or finding.unsafe:
        return finding
    return replace(finding, unsafe=_why_unsafe(header, finding.repair, clients))


def _why_unsafe(header: TableHeader, repair: Repair, clients: Sequence[Client]) -> str:
    try:
        protocol, metadata = _target(header, repair, clients)
    except HaloclineError as error:
        return error.message
    terms = terms_of(protocol, metadata)
    own = can(own_release(), terms, "write")
    if not own.ok:
        return f"this release may not write the result: {own}"
    if broken := _broken(header, terms, clients):
        return f"{', '.join(map(str, broken))} would be locked out"
    return ""


def _broken(header: TableHeader, after: Terms, clients: Sequence[Client]) -> tuple[Release, ...]:
    now = Terms.of(header.lenient_protocol, header.facts)
    return tuple(dict.fromkeys(each.client.release for each in breaks(now, after, clients)))


def _target(header: TableHeader, repair: Repair, clients: Sequence[Client]) -> tuple[Protocol, Metadata]:
    """The protocol and the metadata after a repair.

    Of two ways to write the same down, the first that locks nobody out is taken.
    """
    found = header.lenient_protocol
    left = {key: value for key, value in header.metadata.configuration.items() if key not in repair.unset}
    metadata = header.metadata.with_configuration(left)
    if header.protocol_action is None and repair.concerns_protocol:
        stored = {key: value for key, value in left.items() if not is_request(key)}
        return alter(found, header.facts.with_configuration(stored)).protocol, metadata
    if not repair.concerns_protocol or not found.defined:
        return found, metadata
    names = (found.repaired().features | repair.adds) - repair.removes
    candidates = _candidates(found, names, repair.removes)
    table: TableMetadata = table_metadata(metadata)
    harmless = (each for each in candidates if not _broken(header, Terms.of(each, table), clients))
    return next(harmless, candidates[0]), metadata


def _candidates(found: Protocol, names: frozenset[str], removed: frozenset[str]) -> tuple[Protocol, ...]:
    """Ways to write a set of features down: exactly, and by numbers that imply a little more."""
    unknown = found.unknown_for_readers - removed
    exact = Protocol.of("delta", names, unknown_for_readers=unknown)
    if found.reader > exact.reader == 2:
        # Several readers mishandle reader 2 with lists; a table that spelt it out keeps doing so.
        for_readers = {name for name in exact.features if feature("delta", name).minimum[0] > 1}
        exact = Protocol.delta(3, 7, for_readers | unknown, exact.features)
    records = [feature("delta", name) for name in exact.features]
    if not exact.has_lists or found.has_lists or any(each.legacy is None for each in records):
        return (exact,)
    reader, writer = (max(each.minimum[at] for each in records) for at in (0, 1))
    return (exact, Protocol.delta(reader, writer))

"""How a table gains features: asked for by name, by version numbers, by a property, or by what its data needs.

Three rules hold for each of them. What the table supports already stays supported, also what its numbers only imply.
Nothing grows as a side effect: a write whose columns need a feature is refused unless the user has allowed it. And
before a table requires more, somebody is asked on behalf of everybody else: `admitted` asks, and gives back who was
checked.

Pure but for the asking: the functions turn one `TableState` into the next, and a *proposal* shows what a change would
make of the terms of a table without changing anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from halocline.compat.agreement import added_by, enabling_clause
from halocline.compat.dropping import CHECKPOINT_PROTECTION
from halocline.compat.evolution import Change, alter
from halocline.compat.features import Feature, feature, find_feature
from halocline.compat.forecast import Terms
from halocline.compat.metadata import TableMetadata
from halocline.compat.normal_form import required_closure
from halocline.compat.protocol import Protocol
from halocline.compat.request import MIN_READER_VERSION, MIN_WRITER_VERSION, Request
from halocline.errors import InputError
from halocline.formats.delta.configuration import alter as edits
from halocline.formats.delta.configuration.schema_edit import Node
from halocline.formats.delta.configuration.table_state import TableState
from halocline.formats.delta.log.header import TableHeader
from halocline.formats.delta.snapshot.inspection import lenient_protocol

Admit = Callable[[Protocol, Protocol, frozenset[str]], str]
"""Asked with the protocol before, the one after and the features then in use; says who was checked, or raises."""

AFTER: Final = "after"
HISTORY_KEPT: Final = "history kept"
HISTORY_TRUNCATED: Final = "history truncated"


def with_feature(state: TableState, name: str) -> TableState:
    """The state with support for a feature, and what it requires; nothing is switched on.

    Raises:
        NotFoundError: No feature of that name is known.
        InputError: An existing table cannot gain it, or another feature excludes it.

    Example:
        >>> from halocline.formats.delta.configuration.schema_edit import field
        >>> from halocline.formats.delta.configuration.table_state import new_table
        >>> state = new_table({"type": "struct", "fields": [field("id", "long")]})
        >>> print(with_feature(state, "DOMAINMETADATA").protocol)
        (1,7|W: appendOnly,domainMetadata,invariants)
    """
    return state.evolved(named=[find_feature("delta", name).name])


def with_versions(state: TableState, reader: int, writer: int) -> TableState:
    """The state with everything that a pair of version numbers stands for; numbers are never lowered.

    Raises:
        InputError: A number is not defined, or reader 3 goes with a writer below 7.

    Example:
        >>> from halocline.formats.delta.configuration.schema_edit import field
        >>> from halocline.formats.delta.configuration.table_state import new_table
        >>> state = new_table({"type": "struct", "fields": [field("id", "long")]})
        >>> print(with_versions(state, 1, 4).protocol)
        (1,4)
    """
    return edits.set_properties(state, {MIN_READER_VERSION: str(reader), MIN_WRITER_VERSION: str(writer)})


def prepared_for(state: TableState, schema: Node, *, auto_upgrade: bool, table: str) -> TableState:
    """The state with the features that columns to be written need, if a write may raise the protocol.

    Args:
        state: The table so far.
        schema: The schema that the table will have, parsed.
        auto_upgrade: Whether the user allows it.
        table: The table's name, for messages.

    Raises:
        InputError: The columns need a feature that the table lacks, and the user has not allowed it.
    """
    wanted = TableMetadata({}, schema)
    needed = sorted(added_by(wanted, state.protocol) - state.protocol.features)
    if not needed:
        return state
    if not auto_upgrade:
        clauses = ", ".join(enabling_clause(feature("delta", name), wanted) for name in needed)
        raise InputError(
            f"the rows need {', '.join(needed)}, which {table} does not support, and a write never raises a protocol",
            condition="FEATURE_NEEDS_MANUAL_ENABLEMENT",
            sides={"table": str(state.protocol), "rows": clauses},
            next_step=f"add_feature_support({needed[0]!r}) first, or set halocline.protocol.autoUpgrade=true.",
        )
    return state.evolved(named=needed)


@dataclass(frozen=True)
class Admission:
    """Permission for a table to become what it is going to be.

    Attributes:
        before: The protocol so far.
        after: The protocol that follows.
        reasons: Why features come in.
        checked: Who was asked, for people; empty if nobody had to be.
    """

    before: Protocol
    after: Protocol
    reasons: tuple[Change, ...] = ()
    checked: str = ""

    @property
    def grows(self) -> bool:
        """Whether the table will require more than it did."""
        return self.before != self.after

    def __str__(self) -> str:
        if not self.grows:
            return f"the protocol stays {self.before}"
        why = "; ".join(map(str, self.reasons))
        return f"{self.before} becomes {self.after}" + (f" ({why})" if why else "") + f". Checked: {self.checked}"


def admitted(before: TableState, after: TableState, admit: Admit, *, asked: frozenset[str] | None = None) -> Admission:
    """Asks whether a table may become what it is going to be; nobody is asked if its protocol stays.

    Args:
        before: The table so far.
        after: The table as it is going to be.
        admit: Asked if the protocol changes.
        asked: The features that the user asked for; None if the change is about the protocol itself.

    Raises:
        InputError: The table would gain a feature that nobody asked for, because it lacks what it uses already.
        IncompatibleError: Somebody known would break.
        UnavailableError: Nobody can be asked right now.
    """
    if before.protocol == after.protocol:
        return Admission(before.protocol, after.protocol)
    gained = after.protocol.features - before.protocol.features
    unasked = frozenset() if asked is None else gained - required_closure("delta", asked)
    if unasked:
        names = ", ".join(sorted(unasked))
        raise InputError(
            f"the table uses {names} without supporting it, and nothing is upgraded as a side effect",
            condition="FEATURE_NEEDS_MANUAL_ENABLEMENT",
            sides={"table": str(before.protocol), "needed": str(after.protocol)},
            next_step="Repair the protocol first: halocline lint TABLE --fix",
        )
    checked = admit(before.protocol, after.protocol, after.enabled)
    return Admission(before.protocol, after.protocol, after.reasons, checked)


def asked_by(values: Mapping[str, str], protocol: Protocol) -> frozenset[str] | None:
    """The features that properties ask for, by name or by switching them on; None if they ask for version numbers.

    Example:
        >>> asked_by({"delta.enableChangeDataFeed": "true", "owner": "finance"}, Protocol.delta(1, 2))
        frozenset({'changeDataFeed'})
    """
    request = Request.read(values)
    if request.reader is not None or request.writer is not None:
        return None
    return added_by(TableMetadata(values), protocol) | frozenset(request.named)


# ---------------------------------------------------------------------- proposals


@dataclass(frozen=True)
class Proposal:
    """What a change would make of a table.

    Attributes:
        version: The version it was made for.
        now: The terms as they are.
        ways: The terms after the change, by the name of the way it could go; empty if nothing is to change.
        reasons: Why features come in.
    """

    version: int
    now: Terms
    ways: Mapping[str, Terms] = field(default_factory=dict)
    reasons: tuple[Change, ...] = ()


def propose(
    header: TableHeader,
    *,
    enable: Sequence[str] = (),
    drop: Sequence[str] = (),
    truncate_history: bool | None = None,
) -> Proposal:
    """What switching features on and taking others out would make of a table.

    Args:
        header: The table.
        enable: Features to switch on.
        drop: Features to take out, after the others were switched on.
        truncate_history: Which way to drop; both where there is a choice, if None.

    Raises:
        NotFoundError: No feature of that name is known.
        InputError: The table cannot gain or lose one of them.
        MalformedError: The table's protocol contradicts itself.
    """
    metadata = header.table_metadata
    if not enable and not drop:
        return Proposal(header.version, Terms.of(lenient_protocol(header), metadata))
    protocol = lenient_protocol(header) if header.protocol_action is None else header.protocol
    now = Terms.of(protocol, metadata)
    grown, reasons = _enabled(now, metadata, [find_feature("delta", name) for name in enable])
    if not drop:
        return Proposal(header.version, now, {AFTER: grown}, reasons)
    records = [find_feature("delta", name) for name in drop]
    choices = [protect for protect in (True, False) if truncate_history in (None, not protect)]
    if not any(each.drop is not None and each.drop.barrier for each in records):
        # History stays as it is, so there is one way only; checkpointProtection alone goes with its history.
        return Proposal(header.version, now, {AFTER: _dropped(grown, records, False)}, reasons)
    names = {True: HISTORY_KEPT, False: HISTORY_TRUNCATED}
    return Proposal(
        header.version, now, {names[protect]: _dropped(grown, records, protect) for protect in choices}, reasons
    )


def _enabled(now: Terms, metadata: TableMetadata, records: Sequence[Feature]) -> tuple[Terms, tuple[Change, ...]]:
    configuration = dict(metadata.configuration)
    for record in records:
        if record.name not in now.in_use:
            configuration |= record.enabling_properties
    evolution = alter(now.protocol, metadata.with_configuration(configuration), named=[each.name for each in records])
    terms = Terms.of(evolution.protocol, evolution.metadata)
    return Terms(terms.protocol, terms.in_use | {each.name for each in records}), evolution.reasons


def _dropped(terms: Terms, records: Iterable[Feature], protect_history: bool) -> Terms:
    protocol, in_use = terms.protocol, terms.in_use
    for record in records:
        had = protocol.features
        protocol = protocol.without_feature(record.name, protect_history=protect_history)
        in_use = frozenset(each for each in in_use if each.partition(":")[0] != record.name)
        in_use |= (protocol.features - had) & {CHECKPOINT_PROTECTION}
    return Terms(protocol, in_use)

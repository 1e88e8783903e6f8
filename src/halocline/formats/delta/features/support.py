"""How a table gains features: asked for by name, by version numbers, by a property, or by what its data needs.

What the table supports already stays supported, also what its numbers only imply; and a write whose columns need a
feature is refused unless the user has allowed it.

Pure: the functions turn one `TableConfiguration` into the next, and a *proposal* shows what a change would make of the
terms of a table without changing anything. Whether the change may be made is asked in `approval`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from halocline.compat.agreement import added_by, enabling_clause
from halocline.compat.evolution import alter
from halocline.compat.features import Feature, feature, find_feature
from halocline.compat.metadata import TableMetadata
from halocline.compat.reports import FeatureProposal
from halocline.compat.request import MIN_READER_VERSION, MIN_WRITER_VERSION
from halocline.compat.terms import Terms
from halocline.errors import InputError
from halocline.formats.delta.configuration import alter as edits
from halocline.formats.delta.configuration.metadata_rules import schema_facts
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.log.header import TableHeader
from halocline.schema import Struct

AFTER: Final = "after"
HISTORY_KEPT: Final = "history kept"
HISTORY_TRUNCATED: Final = "history truncated"


def with_feature(state: TableConfiguration, name: str) -> TableConfiguration:
    """The state with support for a feature, and what it requires; nothing is switched on."""
    return state.evolved(named=[find_feature("delta", name).name])


def with_versions(state: TableConfiguration, reader: int, writer: int) -> TableConfiguration:
    """The state with everything that a pair of version numbers stands for; numbers are never lowered."""
    return edits.set_properties(state, {MIN_READER_VERSION: str(reader), MIN_WRITER_VERSION: str(writer)})


def prepared_for(state: TableConfiguration, schema: Struct, *, auto_upgrade: bool, table: str) -> TableConfiguration:
    """The state with the features that columns to be written need, if a write may raise the protocol."""
    wanted = schema_facts(schema, {})
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


# ---------------------------------------------------------------------- proposals


def propose(
    header: TableHeader, *, enable: Sequence[str] = (), drop: Sequence[str] = (), truncate_history: bool | None = None
) -> FeatureProposal:
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
    metadata = header.facts
    if both := {name.casefold() for name in enable} & {name.casefold() for name in drop}:
        named = next(name for name in enable if name.casefold() in both)
        raise InputError(
            f"{named} cannot be switched on and taken out at once",
            sides={"enable": ", ".join(enable), "drop": ", ".join(drop)},
            next_step=f"Leave {named} out of one of them.",
        )
    if not enable and not drop:
        return FeatureProposal(header.version, Terms.of(header.lenient_protocol, metadata))
    protocol = header.lenient_protocol if header.protocol_action is None else header.protocol
    now = Terms.of(protocol, metadata)
    grown = _enabled(now, metadata, [find_feature("delta", name) for name in enable])
    if not drop:
        return FeatureProposal(header.version, now, {AFTER: grown})
    records = [find_feature("delta", name) for name in drop]
    choices = [protect for protect in (True, False) if truncate_history in (None, not protect)]
    if not any(each.drop is not None and each.drop.barrier for each in records):
        # History stays as it is, so there is one way only; checkpointProtection alone goes with its history.
        return FeatureProposal(header.version, now, {AFTER: _dropped(grown, records, False)})
    names = {True: HISTORY_KEPT, False: HISTORY_TRUNCATED}
    ways = {names[protect]: _dropped(grown, records, protect) for protect in choices}
    return FeatureProposal(header.version, now, ways)


def _enabled(now: Terms, metadata: TableMetadata, records: Sequence[Feature]) -> Terms:
    configuration = dict(metadata.configuration)
    for record in records:
        if record.name not in now.features_in_use:
            configuration |= record.enabling_properties
    evolution = alter(now.protocol, metadata.with_configuration(configuration), named=[each.name for each in records])
    return Terms.of(evolution.protocol, evolution.metadata).with_use_of(each.name for each in records)


def _dropped(terms: Terms, records: Iterable[Feature], protect_history: bool) -> Terms:
    for record in records:
        terms = terms.without(record.name, protect_history=protect_history)
    return terms

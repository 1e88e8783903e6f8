"""Tables as a planner takes them: their terms, read from their logs, and the moves that lead to a target.

No row is read and no right to read is needed: a table that this release could not open can still be planned for. The
*fingerprint* is made of what a table requires and which table it is; rows that come in meanwhile do not change it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from halocline.compat.features import feature, features
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.terms import Terms
from halocline.errors import HaloclineError, UnavailableError, UnsupportedError
from halocline.formats.base import TableFormat, detect_format
from halocline.formats.delta.features.support import propose
from halocline.formats.delta.log.header import TableHeader, read_sound_header
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.move.planning import VERSIONS, moved_pairs
from halocline.formats.hudi.properties import properties
from halocline.formats.hudi.terms import table_terms
from halocline.formats.index.inspection import propose as propose_for_index
from halocline.formats.index.log.replay import IndexReplay
from halocline.formats.index.protocol import AVRO_STATE, LEGACY, terms_of
from halocline.plan.action import TableAction, Verb
from halocline.plan.core.plan import terms_text
from halocline.plan.core.rollout import RolloutTable, TableMove
from halocline.plan.target import Target
from halocline.storage.base import Store


def rollout_table(name: str, store: Store, target: Target | None) -> RolloutTable:
    """A table of a lake, with the moves that lead it to a target; None for one that stays as it is.

    Raises:
        MalformedError: Its log is damaged.
        UnsupportedError: Something stands in the way of a move; it is named.
    """
    wanted = target if target and _selected(name, target) else None
    match detect_format(store):
        case TableFormat.DELTA:
            return _delta(name, store, wanted)
        case TableFormat.HUDI:
            return _hudi(name, store, wanted)
        case TableFormat.INDEX:
            return _index(name, store, wanted)


def terms_now(store: Store) -> tuple[Terms, str]:
    """The terms of a table as they are, and its fingerprint."""
    found = rollout_table("", store, None)
    return found.terms, found.fingerprint


def state_now(store: Store) -> tuple[Terms | None, str]:
    """The terms of a table as they are, and its fingerprint; of one that cannot be read, why.

    Raises:
        UnavailableError: The store cannot be asked, so nothing is known of the table.
    """
    try:
        return terms_now(store)
    except UnavailableError:
        raise
    except HaloclineError as error:
        return None, error.message


def _selected(name: str, target: Target) -> bool:
    return not target.select or any(fnmatchcase(name, each) for each in target.select)


def _delta(name: str, store: Store, target: Target | None) -> RolloutTable:
    header = read_sound_header(store)
    terms = Terms.of(header.protocol, header.facts)
    moves = tuple(_delta_moves(header, terms, target)) if target else ()
    return RolloutTable(name, terms, moves, fingerprint=f"{header.metadata.id} {terms_text(terms)}")


def _delta_moves(header: TableHeader, terms: Terms, target: Target) -> list[TableMove]:
    found: list[TableMove] = []
    gained = _gained(terms, target)
    if gained.names:
        after = propose(header, enable=gained.names).ways["after"]
        new = after.protocol.features - terms.protocol.features
        lasting = [each for each in sorted(new) if feature("delta", each).drop is None]
        note = f"{', '.join(lasting)} cannot be taken out again" if lasting else ""
        found.append(TableMove(str(gained), after, not lasting, note))
    lost = tuple(each for each in target.drop if terms.protocol.supports(each))
    if lost:
        proposal = propose(header, enable=gained.names, drop=lost, truncate_history=bool(target.truncate))
        barrier = "after" not in proposal.ways
        after = next(iter(proposal.ways.values()))
        action = TableAction(Verb.DROP, lost, bool(target.truncate) if barrier else None)
        note = (
            "old versions that use it are deleted, which takes two runs a day apart"
            if barrier and target.truncate
            else ""
        )
        found.append(TableMove(str(action), after, not (barrier and target.truncate), note))
    return found


def _gained(terms: Terms, target: Target) -> TableAction:
    """What a target brings into a table, of the features that its format has."""
    known = [each for each in target.enable if each in features(terms.protocol.format)]
    return TableAction(
        Verb.ENABLE, tuple(each for each in known if not TableAction(Verb.ENABLE, (each,)).is_done(terms))
    )


def _hudi(name: str, store: Store, target: Target | None) -> RolloutTable:
    pairs = properties(store)
    terms = table_terms(pairs, store.root)
    config = HudiTableConfig.parse(pairs, store.root)
    raised: dict[int, Terms] = {}
    for version in VERSIONS:
        if version > terms.protocol.reader:
            try:
                raised[version] = _hudi_terms(store, config, version)
            except UnsupportedError:
                break  # what stands in the way of this version stands in the way of a writer, too
    moves: tuple[TableMove, ...] = ()
    wanted = target.table_version if target else 0
    if wanted and wanted != terms.protocol.reader:
        after = _hudi_terms(store, config, wanted)
        if wanted < terms.protocol.reader:
            raised |= {terms.protocol.reader: terms}
        moves = (TableMove(str(TableAction(Verb.MOVE, version=wanted)), after),)
    return RolloutTable(name, terms, moves, raised, terms_text(terms))


def _hudi_terms(store: Store, config: HudiTableConfig, version: int) -> Terms:
    pairs, _ = moved_pairs(store, config, version)
    return Terms.of(Protocol.hudi(version), TableMetadata(pairs))


def _index(name: str, store: Store, target: Target | None) -> RolloutTable:
    replay = IndexReplay.open(store)
    terms = terms_of(replay.header.protocol or LEGACY, has_avro_state=replay.has_avro_state)
    moves: tuple[TableMove, ...] = ()
    gained = _gained(terms, target) if target else None
    if gained and gained.names:
        if AVRO_STATE in (*gained.names, *terms.features_in_use):
            raise UnsupportedError(
                f"{name or store.root} has its state in Avro manifests, or would have to",
                sides={"table": str(terms.protocol), "asked for": str(gained)},
                next_step="Change it with IndexTables4Spark, or write its rows into a new table.",
            )
        after = propose_for_index(store, enable=gained.names).ways["after"]
        moves = (TableMove(str(gained), after, reversible=False, note="what an index table requires only grows"),)
    return RolloutTable(name, terms, moves, fingerprint=terms_text(terms))

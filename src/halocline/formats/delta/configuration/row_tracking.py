"""Row tracking: which ids the rows of a new file get.

Where a table supports `rowTracking`, every file that is added carries a *base row id*, and its rows have the ids from
there on; and a *default row commit version*, the version that added it. The *high-water mark* is the highest id ever
given out, -1 for none, kept in the domain `delta.rowTracking`. Ids are never given out twice: a commit that loses a
race takes its fresh ids again above the winner's mark. A file that brings an id from before keeps it.

Ids are handed out while the table supports the feature, whether or not it is enabled, unless the property
`delta.rowTrackingSuspended` is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from halocline.compat.protocol import Protocol
from halocline.errors import DeniedError, InputError
from halocline.formats.delta.actions import operations
from halocline.formats.delta.actions.action import Action, Add, Commit, DomainMetadata, Remove, malformed
from halocline.formats.delta.actions.statistics import num_records
from halocline.formats.delta.configuration import properties

FEATURE: Final = "rowTracking"
DOMAIN: Final = "delta.rowTracking"
PRESERVED_TAG: Final = "delta.rowTracking.preserved"
"""The tag in a commit's provenance that tells whether rewritten rows kept their ids."""
NO_MARK: Final = -1


class _Mark(msgspec.Struct, rename="camel"):
    row_id_high_water_mark: int


_decode_mark = msgspec.json.Decoder(_Mark).decode


def is_active(protocol: Protocol, configuration: Mapping[str, str]) -> bool:
    """Whether a commit to the table must hand out ids."""
    return protocol.supports(FEATURE) and not properties.flag(configuration, "delta.rowTrackingSuspended")


def high_water_mark(domain: DomainMetadata | None) -> int:
    """The highest id given out so far.

    Example:
        >>> high_water_mark(DomainMetadata("delta.rowTracking", '{"rowIdHighWaterMark":41}')), high_water_mark(None)
        (41, -1)
    """
    if domain is None or domain.removed:
        return NO_MARK
    try:
        return _decode_mark(domain.configuration.encode()).row_id_high_water_mark
    except msgspec.MsgspecError as error:
        raise malformed(f"domain {DOMAIN}", f"cannot be read: {error}") from None


def assigned(
    actions: Iterable[Action],
    protocol: Protocol,
    configuration: Mapping[str, str],
    mark: int,
    version: int,
    *,
    is_forgotten: bool = False,
) -> tuple[Action, ...]:
    """The actions with fresh ids where they are missing, and the new mark if it moved or the table has forgotten it."""
    before = tuple(actions)
    if not protocol.supports(FEATURE):
        return before
    if any(isinstance(each, DomainMetadata) and each.domain == DOMAIN and not each.removed for each in before):
        raise DeniedError(f"the high-water mark in domain {DOMAIN} is moved by commits only, never set by hand")
    if not is_active(protocol, configuration):
        return tuple(bare(each) if isinstance(each, Add) else each for each in before)
    numbered = _numbered(before, lambda add: add.base_row_id is None, mark, version, version)
    return _with_mark(numbered, mark) if is_forgotten else numbered


def rebased(
    actions: tuple[Action, ...],
    protocol: Protocol,
    configuration: Mapping[str, str],
    operation: str,
    mark: int,
    winner: Commit,
    winner_version: int,
    decode: Callable[[str], str],
) -> tuple[tuple[Action, ...], int]:
    """The actions as they must be after a winner, and the high-water mark that the winner left."""
    if not protocol.supports(FEATURE):
        return actions, mark
    filled = _backfilled(winner, decode)
    actions = _beside_backfills(actions, operation, winner, filled, decode)
    if not is_active(protocol, configuration):
        return actions, mark
    winners_mark = max([mark, *(high_water_mark(each) for each in winner.domains if each.domain == DOMAIN)])
    kept = tuple(each for each in actions if not (isinstance(each, DomainMetadata) and each.domain == DOMAIN))

    def is_fresh(add: Add) -> bool:
        return not is_filled(add) and (add.base_row_id is None or add.base_row_id > mark)

    def is_filled(add: Add) -> bool:
        return bool(filled) and decode(add.path) in filled

    numbered = _numbered(kept, is_fresh, winners_mark, winner_version, winner_version + 1, is_filled)
    return _with_mark(numbered, winners_mark) if len(kept) < len(actions) else numbered, winners_mark


def mark_action(mark: int) -> DomainMetadata:
    """The action that records the high-water mark."""
    return DomainMetadata(DOMAIN, f'{{"rowIdHighWaterMark":{mark}}}')


def _with_mark(actions: tuple[Action, ...], mark: int) -> tuple[Action, ...]:
    """The actions with one that records the mark, if none does."""
    told = any(isinstance(each, DomainMetadata) and each.domain == DOMAIN for each in actions)
    return actions if told else (mark_action(mark), *actions)


def _numbered(
    actions: tuple[Action, ...],
    is_fresh: Callable[[Add], bool],
    mark: int,
    old_version: int,
    version: int,
    is_settled: Callable[[Add], bool] = lambda _: False,
) -> tuple[Action, ...]:
    highest = mark
    numbered: list[Action] = []
    for action in actions:
        if isinstance(action, Add):
            if is_fresh(action):
                records = num_records(action.stats)
                if records is None:
                    raise InputError(
                        f"{action.path} has no row count in its statistics, so its rows cannot be given ids",
                        condition="COMMIT_INVALID",
                        sides={"table": f"supports {FEATURE}", "file": action.path},
                        next_step="Write the file's statistics with numRecords, or drop rowTracking from the table.",
                    )
                action = replace(action, base_row_id=highest + 1, default_row_commit_version=version)
                highest += records
            elif action.default_row_commit_version in (None, old_version) and not is_settled(action):
                action = replace(action, default_row_commit_version=version)
        numbered.append(action)
    if highest != mark:
        numbered.insert(0, mark_action(highest))
    return tuple(numbered)


def bare(add: Add) -> Add:
    """The file without an id, and without the version that goes with one."""
    if add.base_row_id is None and add.default_row_commit_version is None:
        return add
    return replace(add, base_row_id=None, default_row_commit_version=None)


def _backfilled(winner: Commit, decode: Callable[[str], str]) -> dict[str, Add]:
    """The files that the winner gave ids to, if it is a backfill, by decoded path."""
    info = winner.commit_info
    if info is None or info.operation != operations.ROW_TRACKING_BACKFILL:
        return {}
    return {decode(each.path): each for each in winner.adds}


def _beside_backfills(
    actions: tuple[Action, ...], operation: str, winner: Commit, filled: Mapping[str, Add], decode: Callable[[str], str]
) -> tuple[Action, ...]:
    """A backfill leaves alone what the winner touched; everybody else takes over the ids a backfill gave."""
    if operation in operations.BACKFILLS:
        touched = {decode(each.path) for each in winner.adds} | {decode(each.path) for each in winner.removes}
        actions = tuple(each for each in actions if not (isinstance(each, Add) and decode(each.path) in touched))
    if operation == operations.ROW_TRACKING_UNBACKFILL:
        gone = {decode(each.path) for each in winner.removes}
        again = (each for each in winner.adds if decode(each.path) not in gone and bare(each) is not each)
        actions += tuple(replace(bare(each), data_change=False) for each in again)
    if not filled:
        return actions

    def with_ids(action: Action) -> Action:
        if not isinstance(action, Add | Remove) or (found := filled.get(decode(action.path))) is None:
            return action
        ids = {"base_row_id": found.base_row_id, "default_row_commit_version": found.default_row_commit_version}
        return replace(action, **ids)

    return tuple(map(with_ids, actions))

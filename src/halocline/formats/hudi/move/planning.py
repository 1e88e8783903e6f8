"""Planning a move: the properties after every step, what stands in the way, and the stages. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from halocline.compat.breaks import Client, forecast, newest_known
from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.terms import Terms
from halocline.errors import InputError
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.move import to_7, to_8, to_9
from halocline.formats.hudi.move.copying import size_of
from halocline.formats.hudi.move.model import HudiMove, MoveStage, StageKind
from halocline.formats.hudi.move.record import Changes, changes_of, read_record, restored
from halocline.formats.hudi.move.step import Obstacle, VersionStep
from halocline.formats.hudi.move.survey import Survey, check_not_running, refuse, survey, to_compact
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.write.metadata_table import METADATA_FOLDERS, METADATA_KEYS
from halocline.storage.base import Store

STEPS: Final[tuple[VersionStep, ...]] = (to_7.STEP, to_8.STEP, to_9.STEP)
"""Every step, from the lowest version up."""

VERSIONS: Final = (*(each.lower for each in STEPS), STEPS[-1].upper)
"""The versions that tables move between."""


def plan_move(store: Store, to: int, *, clients: Sequence[Client] = ()) -> HudiMove:
    """Tells what it takes to move a table to another version, and whom it affects. Changes nothing.

    Args:
        store: Where the table lies.
        to: The version.
        clients: Who uses the table; the newest known release of every product is judged as well.

    Raises:
        InputError: There is no such version, or the table has it.
        NotYetError: A write is under way.
        UnsupportedError: The table has something that stands in the way; it is named.
    """
    snapshot = HudiSnapshot.load(store)
    source = snapshot.config
    _check_versions(source, to, store.root)
    target_pairs, changes = moved_pairs(store, source, to)
    target = HudiTableConfig.parse(target_pairs, store.root)
    found = survey(snapshot, target)
    refuse(store.root, source.version, to, found.obstacles)
    check_not_running(store.root, found.running)
    after = Terms.of(Protocol.hudi(to), TableMetadata(target_pairs))
    used = {each.release.product for each in clients}
    everyone = [*clients, *(each for each in newest_known("hudi") if each.release.product not in used)]
    return HudiMove(
        root=store.root,
        source=source,
        target=target,
        before=snapshot.terms,
        after=after,
        stages=tuple(_stages(snapshot, target, found)),
        changes=changes,
        warnings=found.warnings,
        clients=forecast(everyone, snapshot.terms, after),
    )


def _stages(snapshot: HudiSnapshot, target: HudiTableConfig, found: Survey) -> Iterator[MoveStage]:
    store, source = snapshot.store, snapshot.config
    crosses = source.layout != target.layout
    if crosses and found.failed:
        yield MoveStage(StageKind.ROLL_BACK, tuple(map(str, found.failed)))
    if crosses and found.compactions:
        yield MoveStage(StageKind.COMPLETE, tuple(each.time for each in found.compactions))
    chosen = to_compact(snapshot, target)
    if chosen or (crosses and found.compactions):
        names = tuple(each.file_id for each in chosen)
        yield MoveStage(StageKind.COMPACT, names, len(chosen), sum(each.size for each in chosen))
    timeline = size_of(store, source.timeline_folder, only_instants=True)
    history = size_of(store, source.history_folder)
    if crosses:
        yield MoveStage(StageKind.COPY_TIMELINE, (), *timeline)
        yield MoveStage(StageKind.COPY_HISTORY, (), *history)
    yield MoveStage(StageKind.VERIFY)
    yield MoveStage(StageKind.FLIP, (), 1)
    if not {source.version, target.version} <= {6, 7}:
        sizes = [size_of(store, each) for each in METADATA_FOLDERS]
        if any(count for count, _ in sizes):
            yield MoveStage(
                StageKind.DROP_METADATA_TABLE, source.metadata_partitions, *map(sum, zip(*sizes, strict=True))
            )
    yield MoveStage(StageKind.RECORD)
    if crosses:
        yield MoveStage(StageKind.CLEAN, (), *map(sum, zip(timeline, history, strict=True)))


def moved_pairs(store: Store, source: HudiTableConfig, to: int) -> tuple[dict[str, str], dict[int, Changes]]:
    """The properties after every step, and what each step up changed."""
    pairs, changes = dict(source.pairs), dict[int, Changes]()
    if to > source.version:
        for step in STEPS:
            if source.version <= step.lower < to:
                refuse(store.root, source.version, to, _some(step.not_up(pairs)))
                made = step.up(pairs)
                changes[step.upper] = changes_of(pairs, made)
                pairs = made
    else:
        known = read_record(store).changes
        for step in reversed(STEPS):
            if to < step.upper <= source.version:
                refuse(store.root, source.version, to, _some(step.not_down(pairs)))
                pairs = restored(pairs, step.down(pairs), known.get(str(step.upper), {}))
    if not {source.version, to} <= {6, 7}:
        pairs = {key: value for key, value in pairs.items() if key not in METADATA_KEYS}
    return pairs, changes


def _some(obstacle: Obstacle | None) -> tuple[Obstacle, ...]:
    return () if obstacle is None else (obstacle,)


def _check_versions(source: HudiTableConfig, to: int, root: str) -> None:
    if to not in VERSIONS or to == source.version:
        known = ", ".join(map(str, VERSIONS))
        raise InputError(
            f"{root} cannot move from version {source.version} to {to}",
            sides={"asked for": f"version {to}", "table": f"version {source.version}", "known": known},
            next_step="Name another one of the versions that are known.",
        )

"""Walking the stages of a move, going on after a crash, taking it back, and cleaning up after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace as replaced

from halocline.errors import ConflictError, InputError
from halocline.formats.hudi import configuration as keys
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.maintain.compaction import compact, run_compaction
from halocline.formats.hudi.move.copying import (
    carry_late,
    copy_history,
    copy_timeline,
    late_files,
    remove_timeline,
)
from halocline.formats.hudi.move.model import HudiMove, StageKind
from halocline.formats.hudi.move.planning import moved_pairs, plan_move
from halocline.formats.hudi.move.record import (
    Cleanup,
    MoveRecord,
    PendingMove,
    read_record,
    write_record_of,
)
from halocline.formats.hudi.move.survey import check_not_running, to_compact
from halocline.formats.hudi.move.verification import verify
from halocline.formats.hudi.properties import (
    FILES,
    FOLDER,
    StoredProperties,
    encode,
    read_properties,
    table_version,
    write_again,
)
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.instant import order
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write.heartbeat import is_alive
from halocline.formats.hudi.write.metadata_table import METADATA_KEYS, delete_metadata_table
from halocline.formats.hudi.write.rollback import failed_writes, roll_back
from halocline.formats.log.fence import check_fence
from halocline.storage.base import Store

GRACE_S: Final = 24 * 3600.0
"""How long the old timeline stays for readers from before."""

_PROPERTIES, _BACKUP = (f"{FOLDER}/{name}" for name in FILES)


def apply_move(
    store: Store,
    move: HudiMove,
    *,
    lock: AbstractContextManager[object] | None = None,
    grace_s: float = GRACE_S,
) -> HudiTableConfig:
    """Walks the stages of a move.

    Args:
        store: Where the table lies.
        move: The move.
        lock: What every writer of the table holds while it writes; needed where there are other writers.
        grace_s: How long the old timeline stays; 0 deletes it at once.

    Returns:
        What the table is afterwards.

    Raises:
        ConflictError: The table is not as it was when the move was planned, because the plan has been applied already
            for example, and nothing was changed; another writer was at work, or the table would not be the same, and
            nothing has been flipped.
        NotYetError: A write has begun since the move was planned.
    """
    check_grace(grace_s)
    with lock or nullcontext():
        check_fence()
        _begin(store, move)
        run = _Run(store, move.source, move.target, grace_s, move)
        for stage in move.stages:
            check_fence()
            _ACTIONS[stage.kind](run)
    return _config(store)


def check_grace(grace_s: float) -> None:
    """Refuses a grace period that is none, before anything is done.

    Raises:
        InputError: It is negative, or no number.
    """
    if not grace_s >= 0:
        raise InputError(
            f"an old timeline cannot stay for {grace_s} seconds",
            sides={"given": f"grace_s={grace_s}", "possible": "0, which deletes it at once, or more"},
            next_step=f"Leave it out for {GRACE_S:g}.",
        )


def resume_move(
    store: Store, *, lock: AbstractContextManager[object] | None = None, grace_s: float = GRACE_S
) -> HudiTableConfig | None:
    """Goes on with a move that was cut short.

    Returns:
        What the table is afterwards; None if no move was under way.
    """
    pending = read_record(store).pending
    if pending is None:
        return None
    if _config(store).version != pending.target:
        return apply_move(store, plan_move(store, pending.target), lock=lock, grace_s=grace_s)
    with lock or nullcontext():
        now = _config(store)
        if read_record(store).pending != pending:  # another process has finished it meanwhile
            return now
        run = _Run(store, _at(now, _layout_of(pending.source), pending.folder, pending.archive), now, grace_s, None)
        check_fence()
        store.delete(_BACKUP)
        if pending.drops_metadata_table:
            _drop_metadata_table(run)
        _note(run)
        _clean(run)
    return now


def undo_move(store: Store, *, lock: AbstractContextManager[object] | None = None) -> bool:
    """Takes away what a move wrote that has not flipped; what it finished under the old rules stays finished.

    Returns:
        Whether a move was under way.

    Raises:
        ConflictError: It has flipped; the way back is a move.
    """
    with lock or nullcontext():
        record = read_record(store)
        if record.pending is None:
            return False
        now = _config(store)
        if now.version == record.pending.target:
            raise ConflictError(
                f"{store.root} is at version {now.version} already",
                sides={"asked for": "undoing a move", "table": f"moved from {record.pending.source}"},
                next_step=f"Finish the move with resume_move(store), then move it back to {record.pending.source}.",
            )
        layout = _layout_of(record.pending.target)
        if layout != now.layout and record.cleanup is None:
            target = HudiTableConfig.parse(moved_pairs(store, now, record.pending.target)[0], store.root)
            remove_timeline(store, target)
        write_record_of(store, replaced(record, pending=None))
        return True


def finish_move(store: Store, *, lock: AbstractContextManager[object] | None = None, grace_s: float = GRACE_S) -> bool:
    """Deletes the old timeline once nobody reads it any more.

    Args:
        store: Where the table lies.
        lock: What every writer holds.
        grace_s: How long it stays after the flip.

    Returns:
        Whether nothing is left to delete.

    Raises:
        ConflictError: A writer has committed to the old timeline since the flip; nothing is deleted.
    """
    check_grace(grace_s)
    with lock or nullcontext():
        record = read_record(store)
        cleanup = record.cleanup
        if cleanup is None:
            return record.pending is None
        if record.pending is not None or _now_ms() - cleanup.flipped_ms < grace_s * 1000:
            return False
        now = _config(store)
        if cleanup.layout != now.layout:
            old = _at(now, cleanup.layout, cleanup.folder, cleanup.archive)
            _check_no_late_write(store, old, now, cleanup)
            remove_timeline(store, old)
        write_record_of(store, replaced(record, cleanup=None))
        return True


@dataclass(frozen=True)
class _Run:
    """A move that is being applied, or gone on with after its flip."""

    store: Store
    source: HudiTableConfig
    target: HudiTableConfig
    grace_s: float
    move: HudiMove | None

    @property
    def snapshot(self) -> HudiSnapshot:
        return HudiSnapshot.load(self.store)


def _begin(store: Store, move: HudiMove) -> None:
    record, source, target = read_record(store), move.source.version, move.target.version
    if record.pending is not None and (record.pending.source, record.pending.target) != (source, target):
        raise ConflictError(
            f"another move of {store.root} is under way",
            sides={
                "asked for": f"{source} to {target}",
                "under way": f"{record.pending.source} to {record.pending.target}",
            },
            next_step="Finish that one with resume_move(store), or take it back with undo_move(store).",
        )
    _check_planned(store, move.source)
    pending = PendingMove(
        source=source,
        target=target,
        started_ms=record.pending.started_ms if record.pending else _now_ms(),
        folder=move.source.timeline_folder,
        archive=move.source.history_folder,
        drops_metadata_table=move.stage(StageKind.DROP_METADATA_TABLE) is not None,
        changes={str(version): changes for version, changes in move.changes.items()},
    )
    write_record_of(store, replaced(record, pending=pending))


def _check_planned(store: Store, source: HudiTableConfig) -> StoredProperties:
    """Return the properties, unless they have changed since the move was planned.

    The stages write to the place that was not in use then. After a flip it is in use, and a plan that was applied
    already would put a timeline of the past there.
    """
    stored = read_properties(store)
    if _lasting(stored.pairs) != _lasting(source.pairs):
        found = table_version(stored.pairs, store.root)
        changed = f"{stored.path}, changed" if found == source.version else f"version {found}"
        raise ConflictError(
            f"the properties of {store.root} have changed since the move was planned",
            sides={"planned": f"version {source.version}", "found": changed},
            next_step="Plan the move again.",
        )
    return stored


def _roll_back(run: _Run) -> None:
    failed = failed_writes(HudiTimeline.load(run.store, run.source))
    # One that has begun since the move was planned has a writer, which would complete it without its files.
    check_not_running(run.store.root, (each for each in failed if is_alive(run.store, each.time)))
    for each in failed:
        roll_back(run.store, run.source, each)


def _complete(run: _Run) -> None:
    for each in sorted(HudiTimeline.load(run.store, run.source).pending_compactions, key=order):
        run_compaction(run.store, each)


def _compact(run: _Run) -> None:
    chosen = {(each.partition, each.file_id) for each in to_compact(run.snapshot, run.target)}
    if chosen:
        compact(run.store, wanted=lambda slice: (slice.partition, slice.file_id) in chosen)


def _copy_timeline(run: _Run) -> None:
    copy_timeline(run.store, run.source, run.target)


def _copy_history(run: _Run) -> None:
    copy_history(run.store, run.source, run.target)


def _verify(run: _Run) -> None:
    now = run.snapshot
    verify(now, replace(now, config=run.target, timeline=HudiTimeline.load(run.store, run.target)))


def _flip(run: _Run) -> None:
    """One atomic write. The backup is what Java falls back on; nothing here needs it."""
    stored = _check_planned(run.store, run.source)
    pairs = dict(run.target.pairs)
    if run.target.layout > run.source.layout:
        writes = [each.time for each in HudiTimeline.load(run.store, run.source).writes]
        pairs |= {keys.COPIED_TIMELINE: "true"} | ({keys.WATERMARK: max(writes, key=order)} if writes else {})
    old = encode(stored.pairs, datetime.now(UTC))
    if stored.path != _PROPERTIES:  # the file itself is torn: make it whole before it is replaced
        check_fence()
        write_again(run.store)
        stored = _check_planned(run.store, run.source)
    run.store.put(_BACKUP, old)
    check_fence()
    run.store.put_if_match(_PROPERTIES, encode(pairs, datetime.now(UTC)), stored.etag or "")
    run.store.delete(_BACKUP)


def _drop_metadata_table(run: _Run) -> None:
    delete_metadata_table(run.store)


def _note(run: _Run) -> None:
    """Records what was changed and what is to be cleaned; carries over what was committed during the flip."""
    record = read_record(run.store)
    pending = record.pending
    if pending is None:
        return
    if run.source.layout != run.target.layout:
        carry_late(run.store, run.source, run.target, pending.started_ms)
        cleanup = Cleanup(run.source.layout, run.source.timeline_folder, run.source.history_folder, _now_ms())
        record = replaced(record, cleanup=cleanup)
    kept = {version: each for version, each in record.changes.items() if int(version) <= run.target.version}
    write_record_of(run.store, MoveRecord(None, record.cleanup, kept | pending.changes))


def _clean(run: _Run) -> None:
    finish_move(run.store, grace_s=run.grace_s)


_ACTIONS: Final[Mapping[StageKind, Callable[[_Run], None]]] = {
    StageKind.ROLL_BACK: _roll_back,
    StageKind.COMPLETE: _complete,
    StageKind.COMPACT: _compact,
    StageKind.COPY_TIMELINE: _copy_timeline,
    StageKind.COPY_HISTORY: _copy_history,
    StageKind.VERIFY: _verify,
    StageKind.FLIP: _flip,
    StageKind.DROP_METADATA_TABLE: _drop_metadata_table,
    StageKind.RECORD: _note,
    StageKind.CLEAN: _clean,
}


def _check_no_late_write(store: Store, old: HudiTableConfig, now: HudiTableConfig, cleanup: Cleanup) -> None:
    late = late_files(store, old, now, cleanup.flipped_ms)
    if late:
        raise ConflictError(
            f"a writer has committed to the old timeline of {store.root} since the table moved",
            condition="TABLE_MOVED",
            sides={"committed": ", ".join(each.source for each in late), "table": f"version {now.version}"},
            next_step="Write those rows again at the new version, and delete the files that it committed.",
        )


def _at(config: HudiTableConfig, layout: int, folder: str, archive: str) -> HudiTableConfig:
    """The same table, with its timeline somewhere else."""
    return replace(config, layout=layout, timeline_folder=folder, history_folder=archive)


def _lasting(pairs: Mapping[str, str]) -> dict[str, str]:
    """Properties without those of the metadata table, which a compaction takes away."""
    return {key: value for key, value in pairs.items() if key not in METADATA_KEYS}


def _layout_of(version: int) -> int:
    return 2 if version >= keys.FIRST_OF_LAYOUT_2 else 1


def _config(store: Store) -> HudiTableConfig:
    return HudiTableConfig.parse(read_properties(store).pairs, store.root)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""Going back to an old version: the actions that make the table what it was, as a new version on top.

Files that the old version had and the new one lacks are added again, files that came later are removed, and metadata
and domains become the old ones. Nothing is undone: history grows by one version.

Some things never go back. The protocol keeps every feature, since versions in between need them. High-water marks,
column ids and in-commit timestamps only move forward. Files that were vacuumed cannot be brought back, and that is an
error which names them.

Rows of a version that tracked them get the ids back that they had there, though the table may have dropped the feature
since, and taken the ids away, or have given out others. Delta Spark leaves the files that were never removed without
ids then, and begins to count at zero again, so that two rows come to have one id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import ConflictError, NotFoundError, shortened
from halocline.formats.delta.actions.action import Action, Add, DeletionVector, DomainMetadata, Metadata
from halocline.formats.delta.actions.deletion_vectors import file_path
from halocline.formats.delta.actions.locations import Locations, locate
from halocline.formats.delta.actions.operations import VACUUM_END, VACUUM_START
from halocline.formats.delta.commit.conflicts import PROTECTED_BEFORE
from halocline.formats.delta.configuration import identity, in_commit_timestamps, properties, row_tracking
from halocline.formats.delta.configuration.column_mapping import MAX_ID
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.log.file_actions import adds_from, removes_from
from halocline.formats.delta.log.live_files import vectors_in
from halocline.formats.delta.snapshot.history import history
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage.base import Store

_AT_ONCE: Final = 16
_COMMITS: Final = 1_000
_DAY_MS: Final = 24 * 3_600_000


@dataclass(frozen=True)
class Restoration:
    """How to go back.

    Attributes:
        configuration: What the table becomes.
        actions: What else to commit, on top of the version that was current.
        metrics: Figures for the provenance, under the names that Delta uses.
        row_id_mark: The highest row id that had been given out at the old version.
    """

    configuration: TableConfiguration
    actions: tuple[Action, ...]
    metrics: dict[str, int]
    row_id_mark: int


def restoration(current: Snapshot, target: Snapshot, *, now_ms: int) -> Restoration:
    """The actions that make the table what it was at an older version, or at this one: then there is nothing to do.

    The commit must start from `current` and have read the whole table, so that any change in between is a conflict.

    Args:
        current: The newest version.
        target: The version to go back to.
        now_ms: The present.

    Raises:
        NotFoundError: Files of the target no longer exist (`DATA_FILES_MISSING`).
        ConflictError: A vacuum is under way, which may be deleting them.
    """
    now, then = current.files(), target.files()
    now_keys, then_keys = _keys(now, current.replay.locations), _keys(then, current.replay.locations)
    back = then.filter(pc.invert(pc.is_in(then_keys, value_set=now_keys)))
    gone = now.filter(pc.invert(pc.is_in(now_keys, value_set=then_keys)))
    if len(back):
        _check_not_vacuumed(current, now_ms)
    _check_present(target.store, back, target.version)
    protocol = target.protocol.merged(current.protocol)
    configuration = TableConfiguration(protocol, _forward(target.metadata, current.metadata))
    actions: list[Action] = list(_domains(current, target))
    actions += adds_from(back, data_change=True)
    if row_tracking.is_active(target.protocol, configuration.properties):
        actions += _with_old_ids(now, then, now_keys, then_keys)
    actions += removes_from(gone, timestamp_ms=now_ms, data_change=True)
    metrics = {
        "tableSizeAfterRestore": _total(then),
        "numOfFilesAfterRestore": len(then),
        "numRemovedFiles": len(gone),
        "numRestoredFiles": len(back),
        "removedFilesSize": _total(gone),
        "restoredFilesSize": _total(back),
    }
    mark = row_tracking.high_water_mark(target.domains.get(row_tracking.DOMAIN))
    return Restoration(configuration, tuple(actions), metrics, mark)


def _total(files: pa.Table) -> int:
    return pc.sum(files["size"]).as_py() or 0


def _keys(files: pa.Table, locations: Locations) -> pa.ChunkedArray:
    """One text per logical file: its path and the id of its vector, which may hold no line break."""
    ids = [vector and locations.vector_id(vector) for vector in vectors_in(files["deletion_vector"])]
    vectors = pa.array(ids, pa.string())
    return pc.binary_join_element_wise(files["path"], pc.fill_null(vectors, ""), "\n")


def _forward(target: Metadata, current: Metadata) -> Metadata:
    """The old metadata, less what must not go back."""
    configuration = {key: value for key, value in target.configuration.items() if key not in in_commit_timestamps.KEYS}
    configuration |= {key: value for key, value in current.configuration.items() if key in in_commit_timestamps.KEYS}
    for key in (MAX_ID, PROTECTED_BEFORE):
        highest = max(properties.count(each.configuration, key) or 0 for each in (target, current))
        if key in current.configuration or key in target.configuration:
            configuration[key] = str(highest)
    return identity.with_furthest_marks(target.with_configuration(configuration), current)


def _domains(current: Snapshot, target: Snapshot) -> Iterator[DomainMetadata]:
    for name, domain in target.domains.items():
        if name != row_tracking.DOMAIN and current.domains.get(name) != domain:
            yield domain
    for name, domain in current.domains.items():
        if name != row_tracking.DOMAIN and name not in target.domains:
            yield DomainMetadata(name, domain.configuration, removed=True)


def _with_old_ids(
    now: pa.Table, then: pa.Table, now_keys: pa.ChunkedArray, then_keys: pa.ChunkedArray
) -> Iterator[Add]:
    """Files that both versions have, with the ids of the old one where they have others or none by now.

    One that had none then gets fresh ones: those of now may be ids that others have back.
    """
    places = pc.index_in(then_keys, value_set=now_keys)
    kept = then.filter(pc.is_valid(places))
    old, new = kept["base_row_id"], now["base_row_id"].take(pc.drop_null(places))
    is_one_missing = pc.not_equal(pc.is_null(old), pc.is_null(new))
    yield from adds_from(kept.filter(pc.fill_null(pc.not_equal(old, new), is_one_missing)), data_change=False)


def _check_not_vacuumed(current: Snapshot, now_ms: int) -> None:
    """Makes sure that no vacuum is under way: what it has chosen goes, though it be brought back meanwhile.

    One that began a day ago and has not ended was killed. The newest thousand commits are looked at.
    """
    for entry in history(current, _COMMITS):
        if entry.timestamp_ms < now_ms - _DAY_MS or entry.operation == VACUUM_END:
            return
        if entry.operation == VACUUM_START:
            raise ConflictError(
                f"a vacuum of {current.store.root} is under way, and may delete files that are to come back",
                condition="CONCURRENT_DELETE_READ",
                sides={
                    "vacuum": f"version {entry.version}, without an end",
                    "restore": f"at version {current.version}",
                },
                next_step="Wait for its end and restore then; if it was killed, vacuum once more first.",
            )


def _check_present(store: Store, files: pa.Table, version: int) -> None:
    paths: list[str] = files["path"].to_pylist()
    vectors: set[DeletionVector | None] = {*vectors_in(files["deletion_vector"])}
    paths += sorted({file_path(store, each) for each in vectors if each is not None and each.storage_type != "i"})
    missing = _missing(store, paths)
    if missing:
        raise NotFoundError(
            f"version {version} cannot be restored: {len(missing)} of its files no longer exist",
            condition="DATA_FILES_MISSING",
            sides={"missing": shortened(missing), "needed for": f"version {version}"},
            next_step="Restore a newer version, or bring the files back from a backup.",
        )


def _missing(store: Store, paths: Sequence[str]) -> list[str]:
    def is_missing(path: str) -> bool:
        where, name = locate(store, path)
        return not where.exists(name)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [path for path, gone in zip(paths, pool.map(is_missing, paths), strict=True) if gone]

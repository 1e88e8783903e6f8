"""The steps by which a feature leaves a table, by the names that feature records give them.

A step tells whether anything is left for it to do (*pending*) and does it. Both look at the newest version only, so a
step can be repeated, and a run that was cut short goes on where it ended. A feature can be dropped once none of its
steps is pending; that is also what is checked again when somebody else commits first.

Steps that only change metadata are *edits*; edits in a row become one commit. Where an edit changes the keys through
which existing files are read, it must land together with the files written anew: until then the old files need the old
keys, and from then on the new ones must not have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from halocline.compat.agreement import enabling_clause
from halocline.compat.features import DropStep
from halocline.errors import ConflictError, InputError, UnsupportedError
from halocline.formats.delta.actions.action import Action, Add, DomainMetadata, Metadata, Remove
from halocline.formats.delta.actions.deletion_vectors import file_path
from halocline.formats.delta.actions.domains import SYSTEM_PREFIX
from halocline.formats.delta.actions.locations import encoded_path, is_absolute
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.configuration import properties, type_widening
from halocline.formats.delta.configuration.metadata_rules import check_metadata
from halocline.formats.delta.features import row_ids
from halocline.formats.delta.features.drop_work import DropWork
from halocline.formats.delta.features.history_barrier import checkpointed_commit, is_truncated_before, truncate_before
from halocline.formats.delta.features.older_types import holds_older_types
from halocline.formats.delta.log.file_actions import removes_from
from halocline.formats.delta.log.live_files import vectors_in
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.schema import Field, Path
from halocline.schema.visitor import map_fields

EDITS: Final = frozenset({"set", "unset", "strip-annotations"})
"""Steps that only change metadata."""

_READ_THROUGH: Final = ("delta.columnMapping.",)
"""Beginnings of the keys through which existing files are read."""

_UNMAP: Final = "REMOVE COLUMN MAPPING"
_TRIES: Final = 4


def run_steps(work: DropWork) -> None:
    """Does everything that is pending, in order."""
    for group in grouped(work.steps):
        if all(step.name in EDITS for step in group):
            _commit_edits(work, group)
        elif len(group) > 1:
            _rewrite(work, group)
        elif HANDLERS[group[0].name].pending(work, work.snapshot()):
            HANDLERS[group[0].name].run(work)


def pending_steps(work: DropWork, snapshot: Snapshot) -> tuple[DropStep, ...]:
    """The steps that a version still needs."""
    return tuple(step for step in work.steps if is_pending(work, snapshot, step))


def is_pending(work: DropWork, snapshot: Snapshot, step: DropStep) -> bool:
    """Whether a version still needs a step."""
    if step.name in EDITS:
        return edited(snapshot.metadata, [step]) != snapshot.metadata
    return HANDLERS[step.name].pending(work, snapshot)


def grouped(steps: Sequence[DropStep]) -> list[tuple[DropStep, ...]]:
    """The steps as they are committed: edits in a row together, and all at once where files are read through edits.

    Example:
        >>> from halocline.compat.features import feature
        >>> recipes = (feature("delta", name).drop for name in ("typeWidening", "columnMapping"))
        >>> [len(grouped(recipe.steps)) for recipe in recipes if recipe]
        [3, 1]
    """
    edits = [key for step in steps if step.name in EDITS for key in step.detail]
    if any(key.startswith(_READ_THROUGH) for key in edits) and any(step.name == "rewrite-files" for step in steps):
        return [tuple(steps)]
    groups: list[tuple[DropStep, ...]] = []
    for step in steps:
        if groups and step.name in EDITS and groups[-1][-1].name in EDITS:
            groups[-1] = (*groups[-1], step)
        else:
            groups.append((step,))
    return groups


# ---------------------------------------------------------------------- edits


def edited(metadata: Metadata, steps: Iterable[DropStep]) -> Metadata:
    """The metadata after the edits among some steps.

    Example:
        >>> found = Metadata("1", configuration={"delta.enableInCommitTimestamps": "true"})
        >>> edited(found, [DropStep("set", ("delta.enableInCommitTimestamps=false",))]).configuration
        {'delta.enableInCommitTimestamps': 'false'}
    """
    for step in steps:
        if step.name == "set":
            asked = dict(pair.split("=", 1) for pair in step.detail)
            changed = {key: value for key, value in asked.items() if _effective(metadata, key) != value}
            metadata = metadata.with_configuration({**metadata.configuration, **changed})
        elif step.name == "unset":
            left = {key: value for key, value in metadata.configuration.items() if key not in step.detail}
            metadata = metadata.with_configuration(left)
        elif step.name == "strip-annotations":
            metadata = metadata.with_schema(map_fields(metadata.schema, _stripping(step.detail)))
    return metadata


def _stripping(keys: Iterable[str]) -> Callable[[Path, Field], Field]:
    return lambda _, field: field.without(keys)


def _effective(metadata: Metadata, key: str) -> str:
    known = properties.KNOWN.get(key)
    default = "false" if known is None or known.default is None else known.default
    return metadata.configuration.get(key, default).strip().lower()


def _commit_edits(work: DropWork, steps: Sequence[DropStep]) -> None:
    snapshot = work.snapshot()
    metadata = edited(snapshot.metadata, steps)
    if metadata == snapshot.metadata:
        return
    before, after = snapshot.metadata.configuration, metadata.configuration
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    gone = sorted(before.keys() - after.keys())
    if gone:
        operation, parameters = "UNSET TBLPROPERTIES", {"properties": [*gone, *sorted(changed)], "ifExists": True}
    elif changed:
        operation, parameters = "SET TBLPROPERTIES", {"properties": changed}
    else:
        operation, parameters = "CHANGE COLUMNS", {"columns": [], "reason": f"drop feature {work.record.name}"}
    work.begin(snapshot).commit([metadata], CommitDescription(operation, parameters))


# ---------------------------------------------------------------------- files


def _files_to_rewrite(work: DropWork, snapshot: Snapshot) -> pa.Table:
    """The live files that hold traces of the feature."""
    files = snapshot.files()
    if work.record.name == "columnMapping":
        return files
    if work.record.name == "deletionVectors":
        return files.filter(pc.is_valid(files["deletion_vector"]))
    older = [holds_older_types(work.store, snapshot.columns, path) for path in files["path"].to_pylist()]
    return files.filter(pa.array(older, pa.bool_()))


def _needs_rewrite(work: DropWork, snapshot: Snapshot) -> bool:
    def changes(*names: str) -> bool:
        return edited(snapshot.metadata, [step for step in work.steps if step.name in names]) != snapshot.metadata

    if grouped(work.steps) == [work.steps]:
        # Files and metadata change at once, so the metadata tells whether the files have been done.
        return changes(*EDITS)
    if work.record.name in type_widening.FEATURES and not changes("strip-annotations"):
        return False
    return bool(_files_to_rewrite(work, snapshot).num_rows)


def _rewrite(work: DropWork, steps: Sequence[DropStep]) -> None:
    """Writes files again, together with the edits among the steps; tries again if somebody else was faster."""
    for attempt in range(1, _TRIES + 1):
        snapshot = work.snapshot()
        if not any(is_pending(work, snapshot, step) for step in steps):
            return
        try:
            _rewrite_once(work, snapshot, steps)
        except ConflictError:
            if attempt == _TRIES:
                raise
        else:
            return


def _rewrite_once(work: DropWork, snapshot: Snapshot, steps: Sequence[DropStep]) -> None:
    files = _files_to_rewrite(work, snapshot)
    metadata = edited(snapshot.metadata, steps)
    transaction = work.begin(snapshot)
    if metadata != snapshot.metadata:
        check_metadata(metadata, snapshot.metadata, snapshot.protocol, _UNMAP)
        # The new metadata reads every file the new way, so one that came in meanwhile would be read wrongly.
        transaction.read_whole_table()
    transaction.read_files(files["path"].to_pylist())
    added = _rewritten(work, snapshot, files, metadata)
    removed = removes_from(files, timestamp_ms=work.clock(), data_change=False)
    actions: list[Action] = [*removed, *added]
    if metadata != snapshot.metadata:
        transaction.commit([metadata, *actions], _UNMAP)
    else:
        transaction.commit(actions, CommitDescription("REORG", {"predicate": [], "applyPurge": True}))


def _rewritten(work: DropWork, snapshot: Snapshot, files: pa.Table, metadata: Metadata) -> Sequence[Add]:
    if not files.num_rows:
        return ()
    if work.rewriter is None:
        raise InputError(
            f"dropping {work.record.name} writes {files.num_rows} files again, which takes Spark",
            sides={"table": snapshot.store.root, "opened": "without a Spark session"},
            next_step="Open the table with a session: Table.for_path(path, spark)",
        )
    return work.rewriter(snapshot, files, metadata)


# ---------------------------------------------------------------------- everything else


def untold_vector_files(snapshot: Snapshot, now_ms: int) -> list[str]:
    """Decoded paths of vector files within retention that have no tombstone of their own, in order.

    The tombstone of a data file protects the file of its vector from being vacuumed, but only by clients that know
    vectors. Others see a file that nobody names, and delete it, and with it the way back to older versions. A file
    outside of the table's root is none of them: no vacuum of this table finds it.
    """
    oldest = now_ms - snapshot.properties.deleted_file_retention_ms
    dead = snapshot.tombstones()
    times, vectors = dead["deletion_timestamp"].to_pylist(), list(vectors_in(dead["deletion_vector"]))
    told = {path for path, vector in zip(dead["path"].to_pylist(), vectors, strict=True) if vector is None}
    files = {
        file_path(snapshot.store, vector)
        for time, vector in zip(times, vectors, strict=True)
        if vector is not None and vector.storage_type != "i" and (time or 0) > oldest
    }
    return sorted(path for path in files - told if not is_absolute(path))


def _tell_vectors(work: DropWork) -> None:
    snapshot, now_ms = work.snapshot(), work.clock()
    told = [Remove(encoded_path(path), now_ms, False) for path in untold_vector_files(snapshot, now_ms)]
    work.begin(snapshot).commit(told, "Deletion Vector Tombstones")


def _remove_domains(work: DropWork) -> None:
    """What other features left behind goes; what a user put there is not ours to take."""
    snapshot = work.snapshot()
    own = sorted(name for name in snapshot.domains if not name.startswith(SYSTEM_PREFIX))
    if own:
        raise InputError(
            f"the table holds domains of its users, which would be lost: {', '.join(own)}",
            condition="FEATURE_NOT_DROPPABLE",
            sides={"table": snapshot.store.root, "to drop": work.record.name},
            next_step=f"Remove the domain {own[0]} first.",
        )
    gone = domain_tombstones(snapshot, sorted(snapshot.domains))
    work.begin(snapshot).commit(gone, CommitDescription("DOMAIN METADATA CLEANUP", {"metadataRemoved": len(gone)}))


def domain_tombstones(snapshot: Snapshot, names: Iterable[str]) -> list[DomainMetadata]:
    """The actions that remove those of some domains that the table has."""
    present = snapshot.domains
    return [DomainMetadata(name, present[name].configuration, removed=True) for name in names if name in present]


def _refuse(work: DropWork) -> None:
    clause = enabling_clause(work.record, work.snapshot().configuration.facts)
    raise InputError(
        f"feature {work.record.name} is in use, and dropping it would change what the table means",
        condition="FEATURE_NOT_DROPPABLE",
        sides={"table has": clause, "to drop": work.record.name},
        next_step="Take that out of the table first.",
    )


def _unsupported(work: DropWork) -> None:
    raise UnsupportedError(
        f"this release cannot backfill commits for feature {work.record.name}",
        sides={"needed": "backfill-commits", "table": work.store.root},
        next_step="Drop the feature with the engine that added it.",
    )


def _on_v2_checkpoint(work: DropWork, snapshot: Snapshot) -> bool:
    checkpoint = snapshot.replay.checkpoint
    return checkpoint is not None and checkpoint.others.is_v2


def _has_protected_history(work: DropWork, snapshot: Snapshot) -> bool:
    version = snapshot.properties.protected_before
    return version > 0 and not is_truncated_before(work, version)


@dataclass(frozen=True)
class Handler:
    """How a step that is no edit is recognised as pending, and done."""

    pending: Callable[[DropWork, Snapshot], bool]
    run: Callable[[DropWork], object]


HANDLERS: Final[Mapping[str, Handler]] = {
    "backfill-commits": Handler(lambda work, snapshot: True, _unsupported),
    "checkpoint": Handler(_on_v2_checkpoint, checkpointed_commit),
    "clear-row-ids": Handler(
        lambda work, snapshot: bool(row_ids.with_ids(snapshot).num_rows),
        lambda work: row_ids.clear(work.snapshot, work.begin),
    ),
    "refuse-while-enabled": Handler(
        lambda work, snapshot: any(rule.holds(snapshot.configuration.facts) for rule in work.record.enabled_by), _refuse
    ),
    "remove-domains": Handler(lambda work, snapshot: bool(snapshot.domains), _remove_domains),
    "rewrite-files": Handler(
        _needs_rewrite, lambda work: _rewrite(work, [step for step in work.steps if step.name == "rewrite-files"])
    ),
    "tombstone-vectors": Handler(
        lambda work, snapshot: bool(untold_vector_files(snapshot, work.clock())), _tell_vectors
    ),
    "truncate-history": Handler(
        _has_protected_history, lambda work: truncate_before(work, work.snapshot().properties.protected_before)
    ),
}
"""Every step that is no edit, by the name that records give it."""

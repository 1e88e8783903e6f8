"""Giving row ids to files that are in a table already, and taking them away again.

Switching row tracking on promises that every row has an id, so files from before are *backfilled*: added again, as they
are, with a base row id. Dropping the feature takes the ids from all live files, so that a later enabling cannot mistake
them for fresh ones. Neither changes a row, and both go in batches: a crash leaves some files done, and the next run
does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.actions.operations import ROW_TRACKING_BACKFILL, ROW_TRACKING_UNBACKFILL
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.row_tracking import bare
from halocline.formats.delta.log.file_actions import adds_from
from halocline.formats.delta.snapshot.snapshot import Snapshot

BATCH: Final = 100_000
"""At most how many files one commit adds again."""

ENABLED: Final = "delta.enableRowTracking"
ID_COLUMN: Final = "delta.rowTracking.materializedRowIdColumnName"
VERSION_COLUMN: Final = "delta.rowTracking.materializedRowCommitVersionColumnName"


def materialised_columns() -> dict[str, str]:
    """Properties that name the hidden columns in which rewritten rows keep their ids; no two tables share names."""
    return {ID_COLUMN: f"_row-id-col-{uuid4()}", VERSION_COLUMN: f"_row-commit-version-col-{uuid4()}"}


def without_ids(snapshot: Snapshot) -> pa.Table:
    """The live files that have no id yet."""
    files = snapshot.files()
    return files.filter(pc.is_null(files["base_row_id"]))


def with_ids(snapshot: Snapshot) -> pa.Table:
    """The live files that have an id, or the version that goes with one."""
    files = snapshot.files()
    return files.filter(pc.or_(pc.is_valid(files["base_row_id"]), pc.is_valid(files["default_row_commit_version"])))


def backfill(snapshot: Callable[[], Snapshot], begin: Callable[[Snapshot], Transaction]) -> int:
    """Gives ids to all files that have none, and returns how many commits that took."""
    return _in_batches(snapshot, begin, without_ids, ROW_TRACKING_BACKFILL, lambda add: add)


def clear(snapshot: Callable[[], Snapshot], begin: Callable[[Snapshot], Transaction]) -> int:
    """Takes the ids from all files, and returns how many commits that took."""
    return _in_batches(snapshot, begin, with_ids, ROW_TRACKING_UNBACKFILL, bare)


def _in_batches(
    snapshot: Callable[[], Snapshot],
    begin: Callable[[Snapshot], Transaction],
    left: Callable[[Snapshot], pa.Table],
    operation: str,
    change: Callable[[Add], Add],
) -> int:
    commits = 0
    while (files := left(newest := snapshot())).num_rows:
        transaction = begin(newest)
        batch = files.slice(0, BATCH)
        transaction.read_files(batch["path"].to_pylist())
        changed = map(change, adds_from(batch, data_change=False))
        transaction.commit(changed, CommitDescription(operation, {"batchId": commits}))
        commits += 1
    return commits

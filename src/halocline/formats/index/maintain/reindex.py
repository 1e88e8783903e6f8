"""Building indexes anew from rows: of bundles, of splits with other options than the table, of damaged indexes.

Each split becomes another one with the same rows. A table whose state is in Avro is not written, so the rows of such a
table become a new table.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec.structs import replace

from halocline.errors import HaloclineError
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.merge.group import MergeTarget, merge_group
from halocline.formats.index.merge.run import MergeReport, commit_merged, together
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.fields import OPTIONS_KEY, fields_of
from halocline.formats.index.split.layout import check_searchable
from halocline.formats.index.split.reader import OpenedSplit
from halocline.formats.index.transaction import IndexTransaction
from halocline.storage.base import Store

_OPERATION = "REINDEX"


def why_reindex(store: Store, split: SplitAdd, target: MergeTarget) -> str | None:
    """Why a split needs another index; None if it does not.

    Args:
        store: Where the table lies.
        split: The split.
        target: What splits of the table are like.
    """
    if not split.is_own:
        return "it was written by IndexTables4Spark"
    try:
        with OpenedSplit.of(store, split) as opened:
            fields = opened.layout.fields
            if fields != list(target.fields[: len(fields)]):
                return "its columns were indexed with other options than the table has"
            check_searchable(opened.layout, split.path)
            _ = opened.searcher, opened.terms
    except HaloclineError as error:
        return error.message
    return None


def reindex(snapshot: IndexSnapshot, *, now_ms: int | None = None, scratch: str | None = None) -> MergeReport:
    """Builds a new index for every split that needs one, split by split.

    Args:
        snapshot: The table.
        now_ms: The present, in milliseconds since the epoch.
        scratch: A folder for indexes and files while they are written.

    Raises:
        IncompatibleError: The release may not write the table; see `reindexed_into`.
        UnsupportedError: A bundle holds a column in a form that is not its own.
    """
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    snapshot, target = snapshot.reopened("write"), MergeTarget.of(snapshot)
    reports = []
    for split in snapshot.files.values():
        if why_reindex(snapshot.store, split, target) is not None:
            done = merge_group(snapshot.store, [split], target, now_ms=now_ms, scratch=scratch, again=True)
            reports.append(commit_merged(snapshot.newest(), done, now_ms=now_ms, operation=_OPERATION))
    return together(reports)


def reindexed_into(
    snapshot: IndexSnapshot,
    store: Store,
    *,
    options: str | None = None,
    now_ms: int | None = None,
    scratch: str | None = None,
) -> int:
    """Makes a new table of our own splits with all rows of another, and returns its version.

    Args:
        snapshot: The table, of whatever release.
        store: Where the new table is to lie.
        options: The options of its columns (`halocline.index.fields`); those of the old table if not given.
        now_ms: The present, in milliseconds since the epoch.
        scratch: A folder for indexes and files while they are written.

    Raises:
        AlreadyExistsError: There is a table already.
        MalformedError: A split of the old table is damaged.
        UnsupportedError: A bundle holds a column in a form that is not its own.
    """
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    metadata = snapshot.metadata
    configuration: Mapping[str, str] = {
        **{key: value for key, value in metadata.configuration.items() if not key.startswith("docMappingSchema.")},
        **({} if options is None else {OPTIONS_KEY: options}),
    }
    new = IndexTransaction.create(
        store,
        snapshot.schema,
        partition_columns=metadata.partition_columns,
        configuration=configuration,
        name=metadata.name,
        release=snapshot.release,
    )
    fields = fields_of(snapshot.schema, configuration, metadata.partition_columns)
    target = MergeTarget(MergeTarget.of(snapshot).columns, fields)
    adds = []
    for split in snapshot.files.values():
        done = merge_group(
            snapshot.store, [split], target, now_ms=now_ms, scratch=scratch, again=True, into=store, skips=False
        )
        if done.split is not None:
            adds.append(replace(done.split, data_change=True, num_merge_ops=0))
    return new.commit(adds, _OPERATION, source=snapshot.store.root, sourceVersion=snapshot.version)

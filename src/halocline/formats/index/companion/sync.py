"""Makes a companion, and brings it up to date with its source by one commit."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from halocline.errors import ConflictError, NotFoundError
from halocline.formats.index.companion.changes import CompanionChanges, companion_changes, everything_anew
from halocline.formats.index.companion.identity import (
    APPLICATION,
    check_identity,
    check_source,
    is_fresh,
    marked,
    properties_of,
)
from halocline.formats.index.companion.source import IndexedSource
from halocline.formats.index.companion.target import CompanionTarget
from halocline.formats.index.delete import removal
from halocline.formats.index.log.actions import IndexMetadata, IndexTxn, SplitAdd, SplitRemove
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.fields import OPTIONS_KEY, fields_of
from halocline.formats.index.split.masks import deleted_rows
from halocline.formats.index.transaction import IndexTransaction
from halocline.schema.types import Field, Struct
from halocline.storage.base import Store

_TRIES: Final = 3


def create_companion(
    store: Store, source: IndexedSource, columns: Sequence[str], *, options: Mapping[str, Any] | None = None
) -> IndexSnapshot:
    """Makes an empty companion.

    Args:
        store: Where it is to lie.
        source: The table that it belongs to.
        columns: The columns that are to be searched.
        options: How columns are indexed; see `halocline.formats.index.split.fields`.

    Raises:
        AlreadyExistsError: There is a table already.
        InputError: An option cannot be had for a column.
        NotFoundError: The source has no such column.
    """
    known = {each.name: each for each in source.schema.fields}
    for name in columns:
        if name not in known:
            message = f"{source.url} has no column {name!r}"
            raise NotFoundError.unknown(message, name, known, condition="COLUMN_NOT_FOUND")
    schema = Struct([Field(each.name, each.type) for each in source.schema.fields if each.name in columns])
    properties = properties_of(source) | {OPTIONS_KEY: json.dumps(dict(options or {}))}
    fields_of(schema, properties)
    IndexTransaction.create(store, schema, configuration=properties).commit([], "CREATE COMPANION", source=source.url)
    return IndexSnapshot.load(store)


def sync_companion(
    snapshot: IndexSnapshot,
    load: Callable[[], IndexedSource],
    *,
    rebuild: bool = False,
    scratch: str | None = None,
) -> IndexSnapshot:
    """Brings a companion up to date with the newest version of its source, file by file, in this process.

    It shows its source as it was when `load` opened it. What was written since makes it stale, and no more.

    Args:
        snapshot: The companion.
        load: Opens the newest version of the source.
        rebuild: Whether every file is indexed again, whatever table the companion belonged to so far.
        scratch: A folder for indexes while they grow.

    Raises:
        ConflictError: Others brought it up to date again and again meanwhile.
        InputError: The table is no companion, or of another source, or does not say of which, or the source has lost a
            column.
    """
    for attempt in range(_TRIES):
        source = load()
        check_source(snapshot, source)
        if rebuild:
            changes = everything_anew(snapshot, source.files())
        else:
            check_identity(snapshot, source)
            if is_fresh(snapshot, source):
                return snapshot
            changes = companion_changes(snapshot, source.files())
        target = CompanionTarget.of(snapshot, source.version)
        indexed = [
            target.indexed(each, source.rows(each.path, target.columns), source.deleted(each.path), scratch=scratch)
            for each in changes.new
        ]
        masked = [(split, target.masked(split, files, source.deleted)) for split, files in changes.masked]
        try:
            commit_companion(snapshot, source, changes, [each for each in indexed if each], masked)
            return snapshot.newest()
        except ConflictError:
            # Somebody else did the same; what is left of it is found on top of theirs.
            snapshot.store.delete_many(each.path for each in indexed if each)
            snapshot = snapshot.newest()
            if attempt + 1 == _TRIES:
                raise
    raise AssertionError("unreachable: the last try returns or raises")


def commit_companion(
    snapshot: IndexSnapshot,
    source: IndexedSource,
    changes: CompanionChanges,
    indexed: Sequence[SplitAdd],
    masked: Sequence[tuple[SplitAdd, SplitAdd]],
) -> int:
    """Commits what brings a companion to a version of its source.

    Args:
        snapshot: The companion that the changes were worked out for.
        source: The source that it is to show.
        changes: What had to change.
        indexed: The new splits.
        masked: Splits before and after rows of theirs were deleted.

    Raises:
        ConflictError: Somebody else changed the companion meanwhile.
    """
    now_ms = time.time_ns() // 1_000_000
    actions: list[SplitAdd | SplitRemove | IndexTxn | IndexMetadata] = [IndexTxn(APPLICATION, source.version, now_ms)]
    if (metadata := marked(snapshot.metadata, source)) is not snapshot.metadata:
        actions.append(metadata)
    actions += indexed
    actions += (removal(each, now_ms) for each in changes.gone)
    for before, after in masked:
        if _grows(snapshot.store, before, after):
            actions.append(after)
        else:
            # Rows came back, which no mask says: the same file, under the name of another split.
            path = f"part-{uuid.uuid4()}.split.parquet"
            snapshot.store.put_if_absent(path, snapshot.store.get(before.path))
            actions += (removal(before, now_ms), replace(after, path=path))
    transaction = IndexTransaction(snapshot.reopened("write"), reads_all=True)
    return transaction.commit(actions, "SYNC COMPANION", sourceVersion=source.version)


def _grows(store: Store, before: SplitAdd, after: SplitAdd) -> bool:
    """Whether rows only went, so that a mask in place of another says it."""
    if after.deletion_mask is None:
        return False
    return bool(np.isin(deleted_rows(store, before), deleted_rows(store, after)).all())

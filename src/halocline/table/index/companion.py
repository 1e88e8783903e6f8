"""Companion indexes over Delta and Hudi tables: they are made, brought up to date, and checked before they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from halocline.formats.index.companion.identity import Companion, Stale, check_answers, check_stale, companion_of
from halocline.formats.index.companion.sync import create_companion, sync_companion
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.storage import open_store
from halocline.storage.base import Store
from halocline.table.free_place import check_free, check_no_table
from halocline.table.index.sources import source_at


def build_index(
    source: Store, store: Store, columns: Sequence[str], *, fields: Mapping[str, Any] | None = None
) -> IndexSnapshot:
    """Makes a companion index of a Delta or Hudi table.

    Args:
        source: Where the table lies.
        store: Where its companion is to lie.
        columns: The columns that are to be searched.
        fields: How columns are indexed; see `halocline.formats.index.split.fields`.

    Raises:
        AlreadyExistsError: There is a table already, or the folder holds files that are of none.
        NotFoundError: There is no source, or it has no such column.
        UnsupportedError: The source is of another format.
    """
    opened = source_at(source)
    check_no_table(store, store.root)
    check_free(store, store.root)
    made = create_companion(store, opened, columns, options=fields)
    return sync_companion(made, lambda: opened)


def sync_index(store: Store, *, rebuild: bool = False) -> IndexSnapshot:
    """Brings a companion up to date with its source.

    Args:
        store: Where it lies.
        rebuild: Whether every file is indexed again, from the table that lies now where its source lay.

    Raises:
        InputError: The table is no companion, or of another table than lies there now, or its source has changed its
            columns.
    """
    snapshot = IndexSnapshot.load(store)
    source = companion_of(snapshot).source
    return sync_companion(snapshot, lambda: source_at(open_store(source)), rebuild=rebuild)


def fresh_companion(store: Store, *, stale: str = Stale.REFUSE) -> IndexSnapshot:
    """A companion that may answer.

    Args:
        store: Where it lies.
        stale: `refuse` unless it shows its source as it is; or `allow` what the same source was before.

    Raises:
        ConflictError: It shows another version.
        InputError: The table is no companion, or of another table than lies there now, or there is no such choice.
        NotFoundError: Its source is not there any more.
    """
    snapshot, chosen = IndexSnapshot.load(store), check_stale(stale)
    check_answers(snapshot, source_at(open_store(companion_of(snapshot).source)), stale=chosen)
    return snapshot


def check_if_companion(snapshot: IndexSnapshot, *, stale: str = Stale.REFUSE) -> None:
    """Makes sure that a table that is a companion may answer; every other index table may.

    Raises:
        ConflictError: It shows another version than its source has.
        InputError: It belongs to another table than lies there now, or there is no such choice.
        NotFoundError: Its source is not there any more.
    """
    chosen, companion = check_stale(stale), Companion.of(snapshot)
    if companion is not None:
        check_answers(snapshot, source_at(open_store(companion.source)), stale=chosen)

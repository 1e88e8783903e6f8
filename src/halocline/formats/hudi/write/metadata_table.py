"""The metadata table: a copy of what the timeline says, which whoever does not keep it up must take away.

It lists the files of the table, and its indexes make queries faster. A write that it does not know of makes it wrong,
and clients that trust it would read old files. So before the first such write the properties stop naming it, which is
all that clients look at, and then its files go. The next writer that wants one builds it again: the list of files and
the statistics of itself, an index only if somebody asks for it again. So indexes are *somebody's*.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from halocline.errors import ConflictError
from halocline.formats.hudi.configuration import METADATA_PARTITIONS, HudiTableConfig
from halocline.formats.hudi.properties import FILES, FOLDER, encode, read_properties
from halocline.formats.log.fence import check_fence
from halocline.storage.base import Store

METADATA_FOLDERS: Final = (f"{FOLDER}/metadata", f"{FOLDER}/.index_defs")
"""Where the metadata table lies, and what its indexes are."""

METADATA_KEYS: Final = (
    METADATA_PARTITIONS,
    f"{METADATA_PARTITIONS}.inflight",
    "hoodie.table.index.defs.path",
    "hoodie.table.secondary.indexes.metadata",
)
"""The properties that name it."""


def retire_metadata_table(store: Store, config: HudiTableConfig) -> HudiTableConfig:
    """Takes the metadata table away, if the table has one.

    Args:
        store: Where the table lies.
        config: What it is.

    Returns:
        What it is without one.

    Raises:
        ConflictError: Somebody else changes the properties all the time.
    """
    if not config.metadata_partitions:
        return config
    for _ in range(10):
        stored = read_properties(store)
        pairs = {key: value for key, value in stored.pairs.items() if key not in METADATA_KEYS}
        check_fence()
        try:
            store.put_if_match(f"{FOLDER}/{FILES[0]}", encode(pairs, datetime.now(UTC)), stored.etag or "")
        except ConflictError:
            continue
        delete_metadata_table(store)
        return HudiTableConfig.parse(pairs, store.root)
    raise ConflictError(
        f"the properties of {store.root} change all the time",
        sides={"wanted": "properties without a metadata table", "found": "another change, ten times"},
        next_step="See which other writers are at work, then try again.",
    )


def delete_metadata_table(store: Store) -> None:
    """Deletes the files of a metadata table that no property names."""
    for folder in METADATA_FOLDERS:
        store.delete_many([meta.path for meta in store.list(folder)])

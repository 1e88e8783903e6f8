"""What a Hudi table asks of whoever uses it, told by its properties and by what is pending on its timeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.terms import Terms
from halocline.formats.hudi.configuration import timeline_folder
from halocline.formats.hudi.properties import read_properties, table_version
from halocline.formats.hudi.timeline.timeline import instant_files, pending_actions
from halocline.storage.base import Store


def table_terms(pairs: Mapping[str, str], table: str, pending: Iterable[str] = ()) -> Terms:
    """The terms of a table with these properties, and these actions pending.

    Example:
        >>> pairs = {"hoodie.table.version": "8", "hoodie.table.type": "MERGE_ON_READ"}
        >>> "mergeOnRead:pendingCompaction" in table_terms(pairs, "t", ["compaction"]).in_use
        True
    """
    return Terms.of(Protocol.hudi(table_version(pairs, table)), TableMetadata(pairs, pending=frozenset(pending)))


def terms_of(store: Store) -> Terms:
    """The terms of the table at a place, also of one that cannot be read.

    Raises:
        MalformedError: Its properties cannot be read.
        NotFoundError: There is no table.
    """
    pairs = read_properties(store).pairs
    return table_terms(pairs, store.root, pending_actions(instant_files(store, timeline_folder(pairs, store.root))))

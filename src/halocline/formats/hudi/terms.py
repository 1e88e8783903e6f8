"""What a Hudi table asks of whoever uses it: told by its properties, pending actions and the names in its schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from halocline.compat.metadata import TableMetadata
from halocline.compat.protocol import Protocol
from halocline.compat.terms import Terms
from halocline.errors import HaloclineError
from halocline.formats.hudi.avro.avro_names import is_java_name, is_strict_name, names_in, record_names_in
from halocline.formats.hudi.configuration import BOOTSTRAP_PATH, CREATE_SCHEMA, TableType, timeline_folder
from halocline.formats.hudi.properties import FOLDER, TYPE, read_properties, table_version
from halocline.formats.hudi.timeline.bodies import decode_body
from halocline.formats.hudi.timeline.instant import HudiInstant, order
from halocline.formats.hudi.timeline.timeline import instant_files, pending_actions
from halocline.storage.base import Store

OUTSIDE_ASCII: Final = "a letter outside ASCII in its name"
NO_AVRO_NAME: Final = "a name that Avro does not allow"
NO_RECORD_NAME: Final = "a record whose name Avro does not allow"
"""What the records of features know of names; the columns of a Hudi table have no other annotations."""

ROWS_OUTSIDE: Final = "rows in the files that the table was bootstrapped from"
"""The same of a bootstrap that wrote keys alone, and an index of the files that hold the rows."""

_METADATA_BOOTSTRAP: Final = "00000000000001"
_BOOTSTRAP_INDEX: Final = f"{FOLDER}/.aux/.bootstrap/.partitions"


def table_terms(
    pairs: Mapping[str, str],
    table: str,
    pending: Iterable[str] = (),
    schema: str | None = None,
    *,
    rows_outside: bool = False,
) -> Terms:
    """The terms of a table with these properties.

    Args:
        pairs: The properties.
        table: The table, for messages.
        pending: The actions that are pending.
        schema: The schema that its newest write says, as Avro's JSON.
        rows_outside: Whether it has rows in the files that it was bootstrapped from; see `has_rows_outside`.

    Example:
        >>> pairs = {"hoodie.table.version": "8", "hoodie.table.type": "MERGE_ON_READ"}
        >>> "mergeOnRead:pendingCompaction" in table_terms(pairs, "t", ["compaction"]).in_use
        True
    """
    unusual = set(unusual_names(schema or pairs.get(CREATE_SCHEMA, "")))
    if pairs.get(TYPE, "") == TableType.MERGE_ON_READ:  # log files say the schema that they were written with
        unusual.update(unusual_names(pairs.get(CREATE_SCHEMA, "")))
    if rows_outside:
        unusual.add(ROWS_OUTSIDE)
    metadata = TableMetadata(pairs, pending=frozenset(pending), field_annotations=frozenset(unusual))
    return Terms.of(Protocol.hudi(table_version(pairs, table)), metadata)


def terms_of(store: Store) -> Terms:
    """The terms of the table at a place, also of one that cannot be read.

    Raises:
        MalformedError: Its properties cannot be read.
        NotFoundError: There is no table.
    """
    pairs = read_properties(store).pairs
    files = list(instant_files(store, timeline_folder(pairs, store.root)))
    outside = has_rows_outside(store, pairs, files)
    return table_terms(pairs, store.root, pending_actions(files), newest_schema(store, files), rows_outside=outside)


def has_rows_outside(store: Store, pairs: Mapping[str, str], instants: Iterable[HudiInstant]) -> bool:
    """Return whether a table was bootstrapped without its rows, by its timeline or the index of such rows.

    It counts as such for as long as it has either, also when writes have taken all those rows over.
    """
    if not pairs.get(BOOTSTRAP_PATH):
        return False
    if any(each.time == _METADATA_BOOTSTRAP and each.is_completed for each in instants):
        return True
    return next(iter(store.list(_BOOTSTRAP_INDEX)), None) is not None


def newest_schema(store: Store, instants: Iterable[HudiInstant]) -> str | None:
    """The schema that the newest write says, as Avro's JSON; None if it says none, or cannot be read."""
    writes = [each for each in instants if each.is_completed and each.is_write]
    with suppress(HaloclineError):
        for each in sorted(writes, key=lambda each: order(each.time))[-1:]:
            extra = (decode_body(store.get(each.path), each.path).record or {}).get("extraMetadata")
            return extra.get("schema") if isinstance(extra, Mapping) else None
    return None


def unusual_names(schema: str) -> Iterator[str]:
    """What is unusual about the names in a schema that is Avro's JSON.

    Example:
        >>> list(unusual_names('{"type": "record", "name": "a-b_record", "fields": []}'))
        ['a record whose name Avro does not allow']
    """
    try:
        parsed = json.loads(schema)
    except ValueError:
        return
    columns, records = list(names_in(parsed)), list(record_names_in(parsed))
    if not all(map(is_java_name, columns)):
        yield NO_AVRO_NAME
    if not all(map(is_java_name, records)):
        yield NO_RECORD_NAME
    if any(is_java_name(each) and not is_strict_name(each) for each in (*columns, *records)):
        yield OUTSIDE_ASCII

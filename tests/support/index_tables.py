"""Index tables that are written through the real writer, one split for each list of rows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from halocline.formats.index.delete import deletions
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.rows import live_rows
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.fields import OPTIONS_KEY
from halocline.formats.index.transaction import IndexTransaction
from halocline.schema.types import Struct
from halocline.storage.base import Store
from halocline.storage.memory import MemoryStore
from tests.support.splits import COLUMNS, OPTIONS, build


def table_of(
    *splits: Sequence[Mapping[str, Any]],
    columns: Struct = COLUMNS,
    options: Mapping[str, Mapping[str, Any]] = OPTIONS,
    partition: str | None = None,
    store: Store | None = None,
) -> IndexSnapshot:
    """A table with a split for each list of rows; the first row of each tells its partition."""
    store = MemoryStore() if store is None else store
    configuration = {OPTIONS_KEY: json.dumps(options)}
    partitions = [] if partition is None else [partition]
    made = IndexTransaction.create(store, columns, partition_columns=partitions, configuration=configuration)
    made.commit([], "CREATE TABLE")
    snapshot = IndexSnapshot.load(store)
    for rows in splits:
        append(snapshot, rows)
    return snapshot.newest()


def append(snapshot: IndexSnapshot, rows: Sequence[Mapping[str, Any]], **more: Any) -> SplitAdd:
    """Adds a split to a table."""
    partitions = snapshot.metadata.partition_columns
    columns = Struct([field for field in snapshot.schema.fields if field.name not in partitions])
    options = json.loads(snapshot.metadata.configuration.get(OPTIONS_KEY, "{}"))
    path = f"{uuid.uuid4()}.split.parquet"
    inside = [{key: value for key, value in row.items() if key not in partitions} for row in rows]
    built = build(snapshot.store, inside, path=path, columns=columns, options=options, **more)
    values = {name: None if rows[0][name] is None else str(rows[0][name]) for name in partitions}
    added = built.added(path, values, 1)
    IndexTransaction(snapshot.newest().reopened("write")).commit([added], "WRITE")
    return added


def delete(snapshot: IndexSnapshot, deleted: Mapping[str, Iterable[int]]) -> IndexSnapshot:
    """Deletes rows by number; the version after it."""
    IndexTransaction(snapshot.reopened("write")).commit(deletions(snapshot, deleted, now_ms=1), "DELETE")
    return snapshot.newest()


def rows_of(snapshot: IndexSnapshot, *names: str) -> list[Any]:
    """The values of the columns of every row, split by split."""
    fields = [field for field in snapshot.schema.fields if not names or field.name in names]
    found = [
        row
        for split in snapshot.files.values()
        for batch in live_rows(snapshot.store, split, fields)
        for row in batch.to_pylist()
    ]
    return [row[names[0]] for row in found] if len(names) == 1 else found

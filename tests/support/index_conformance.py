"""Index tables that IndexTables4Spark wrote, and their rows as its splits have them."""

from __future__ import annotations

from typing import Any

from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.bundle import Bundle
from halocline.schema.types import Struct
from halocline.storage import open_store
from tests.support.conformance import tables_of


def read(name: str, **options: Any) -> list[dict[str, Any]]:
    """The rows of a table with its partition values, by id."""
    snapshot = IndexSnapshot.load(open_store(str(tables_of("index") / name)))
    partitions = set(snapshot.metadata.partition_columns)
    columns = Struct([field for field in snapshot.schema.fields if field.name not in partitions])
    found = []
    for add in snapshot.files.values():
        with Bundle(snapshot.store, add, columns) as bundle:
            found += [each | add.partition_values for each in bundle.rows(**options).to_pylist()]
    return sorted(found, key=lambda each: each["id"])

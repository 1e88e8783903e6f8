"""Real rows for tests without an engine: Parquet files written, read back and written again with Arrow."""

from __future__ import annotations

import io
import json
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from halocline.formats.delta.actions import deletion_vectors
from halocline.formats.delta.actions.action import Add
from halocline.formats.delta.configuration.schema import Column, Schema
from halocline.formats.delta.log.live_files import vectors_in
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.schema.arrow import arrow_type
from halocline.storage.base import Store


def written(store: Store, rows: pa.Table, *, data_change: bool = True, **more: Any) -> Add:
    """Puts rows into a new file of the table."""
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    path = f"part-{uuid.uuid4()}.parquet"
    store.put(path, sink.getvalue())
    stats = json.dumps({"numRecords": rows.num_rows})
    return Add(path, {}, len(sink.getvalue()), 1, data_change, stats=stats, **more)


def _top(schema: Schema) -> list[Column]:
    return [column for column in schema.walk() if len(column.path) == 1]


def rows_of(snapshot: Snapshot, files: pa.Table | None = None) -> pa.Table:
    """The live rows of a table, or of some of its files, under their logical names and present types."""
    files = snapshot.files() if files is None else files
    wanted = pa.schema([(column.path[0], arrow_type(column.type)) for column in _top(snapshot.columns)])
    pieces = [wanted.empty_table()]
    for path, vector in zip(files["path"].to_pylist(), vectors_in(files["deletion_vector"]), strict=True):
        stored = pq.read_table(io.BytesIO(snapshot.store.get(path)))
        if vector is not None:
            gone = set(deletion_vectors.read_positions(snapshot.store, vector))
            stored = stored.take([at for at in range(stored.num_rows) if at not in gone])
        columns = {}
        for column in _top(snapshot.columns):
            name, type = column.path[0], arrow_type(column.type)
            present = column.physical[0] in stored.column_names
            columns[name] = (
                stored[column.physical[0]].cast(type) if present else pa.nulls(stored.num_rows, type).cast(type)
            )
        pieces.append(pa.table(columns))
    return pa.concat_tables(pieces)


def rewritten(snapshot: Snapshot, files: pa.Table, target: Any) -> list[Add]:
    """A rewriter: the rows of the files, in one new file, under the names that the target metadata gives them."""
    names = {
        column.path[0]: column.physical[0] for column in _top(Schema.parse(target.schema_string, target.configuration))
    }
    rows = rows_of(snapshot, files)
    return [
        written(snapshot.store, rows.rename_columns([names[name] for name in rows.column_names]), data_change=False)
    ]

"""Change files: how a write changed rows that were there, where a table logs changes.

Only a base file that is written anew needs one. What a log file or a new file group changes, readers tell from the
files themselves.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from halocline.formats.hudi.blocks.content import encode_avro_rows
from halocline.formats.hudi.blocks.frame import BlockType, HeaderKey, encode_block
from halocline.formats.hudi.configuration import ChangeLogging
from halocline.formats.hudi.names import log_file_name
from halocline.formats.hudi.row_changes import RowChanges
from halocline.formats.hudi.write.log_writer import encoded_rows
from halocline.formats.hudi.write.markers import MarkerKind, put_marker
from halocline.storage.base import Store

_OP: Any = {"name": "op", "type": ["null", "string"], "default": None}
_KEY: Any = {"name": "record_key", "type": ["null", "string"], "default": None}
_TIME: Any = {"name": "ts_ms", "type": ["null", "string"], "default": None}


def write_change_file(
    store: Store,
    changes: pa.Table,
    *,
    logging: ChangeLogging,
    schema: str,
    partition: str,
    file_id: str,
    token: str,
    instant: str,
) -> dict[str, int]:
    """Writes a change file, and says its path and size, as a write stat does; nothing if no row changed.

    Args:
        store: Where the table lies.
        changes: The changes, as `change_rows` gives them.
        logging: How much of them is told.
        schema: The table's schema as Avro's JSON, without the meta columns.
        partition: The partition path.
        file_id: The file group.
        token: The attempt.
        instant: The instant that changes the rows.
    """
    if not changes.num_rows:
        return {}
    name = log_file_name(file_id, instant, 1, token) + ".cdc"
    path = f"{partition}/{name}" if partition else name
    put_marker(store, instant, path, MarkerKind.APPEND)
    text = change_schema_text(logging, schema)
    header = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: text}
    data = encode_block(BlockType.CHANGE_DATA, header, encode_avro_rows(encoded_rows(changes, text)))
    store.put(path, data)
    return {path: len(data)}


def change_rows(
    told: RowChanges, before: pa.Table, after: pa.Table, keys: tuple[pa.Array, pa.Array], row: pa.StructType, time: str
) -> pa.Table:
    """Every change as a row: what it was, of which key, and the row before and after.

    Args:
        told: The changes.
        before: The rows before.
        after: The rows after.
        keys: The keys of both.
        row: The columns of the images.
        time: The instant.
    """
    types = pa.schema([("op", pa.string()), ("record_key", pa.string()), ("ts_ms", pa.string())])
    schema = pa.schema([*types, ("before", row), ("after", row)])
    batches = []
    for op, old, new, was, now in told.images(before, after, row):
        count = len(was)
        named = keys[0].take(old) if len(old) else keys[1].take(new)
        columns = [pa.repeat(op, count), named, pa.repeat(time, count), was, now]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return pa.Table.from_batches(batches, schema)


def change_schema_text(logging: ChangeLogging, schema: str) -> str:
    """The schema of change rows, as Avro's JSON.

    Example:
        >>> text = change_schema_text(ChangeLogging.OP_KEY_ONLY, '{"type": "record", "name": "r", "fields": []}')
        >>> [each["name"] for each in json.loads(text)["fields"]]
        ['op', 'record_key']
    """
    row = json.loads(schema)
    full = f"{row['namespace']}.{row['name']}" if row.get("namespace") else row["name"]
    before: Any = {"name": "before", "type": ["null", row], "default": None}
    after: Any = {"name": "after", "type": ["null", full], "default": None}
    fields = {
        ChangeLogging.OP_KEY_ONLY: [_OP, _KEY],
        ChangeLogging.DATA_BEFORE: [_OP, _KEY, before],
        ChangeLogging.DATA_BEFORE_AFTER: [_OP, _TIME, before, after],
    }
    space = {"namespace": row["namespace"]} if row.get("namespace") else {}
    return json.dumps({"type": "record", "name": "CDC", **space, "fields": fields[logging]}, separators=(",", ":"))

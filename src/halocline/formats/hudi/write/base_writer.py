"""Base files: Parquet with the meta columns, and in the footer what Hudi's bloom index reads."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from halocline.errors import ConstraintError
from halocline.formats.hudi.key_lookup import FILTER, FILTER_CODE, LARGEST, SMALLEST
from halocline.formats.hudi.names import BaseFile, base_file_name
from halocline.formats.hudi.record_keys import RECORD_KEY
from halocline.formats.hudi.table_schema import META_COLUMNS
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.formats.hudi.write.bloom_filter import TYPE_CODE, bloom_filter
from halocline.formats.hudi.write.files_aside import path_aside
from halocline.formats.hudi.write.markers import MarkerKind, put_marker
from halocline.storage.base import Store

_LEVEL: Final = 6  # that of Java; Arrow's own takes five times as long for files of the same size

NEW_GROUP: Final = "null"
"""What stands for the previous instant of a new file group."""


def with_meta_columns(
    rows: pa.Table, keys: pa.Array, partition: str, file_name: str, instant: str, task: int = 0
) -> pa.Table:
    """Rows with the columns that Hudi adds: written by whom, which, where.

    Args:
        rows: The rows, without those columns.
        keys: The record key of each row.
        partition: The partition path.
        file_name: The file that they go into; for log files, the file group.
        instant: The instant that writes them.
        task: The number of the task that writes them, which is part of their sequence number.

    Raises:
        ConstraintError: A row has no key.

    Example:
        >>> rows = with_meta_columns(pa.table({"a": [1]}), pa.array(["k"]), "", "f", "10")
        >>> rows.to_pylist()[0]["_hoodie_commit_seqno"]
        '10_0_0'
    """
    check_keys(keys)
    count = rows.num_rows
    sequence = pa.array([f"{instant}_{task}_{row}" for row in range(count)], pa.string())
    meta = [pa.repeat(instant, count), sequence, keys, pa.repeat(partition, count), pa.repeat(file_name, count)]
    columns = [*meta, *rows.columns]
    fields = [pa.field(name, pa.string()) for name in META_COLUMNS] + list(rows.schema)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def check_keys(keys: pa.Array) -> None:
    """Refuses rows without a key.

    Raises:
        ConstraintError: There is one.
    """
    if keys.null_count:
        raise ConstraintError(
            f"{keys.null_count} of {len(keys)} rows have no record key",
            sides={"rows": "null or empty text in all key fields", "table": "every row has a key"},
            next_step="Leave those rows out, or give them a key.",
        )


def write_base_file(
    store: Store,
    rows: pa.Table,
    *,
    partition: str,
    file_id: str,
    token: str,
    instant: str,
    previous: str | None = None,
    previous_base: BaseFile | None = None,
    counts: tuple[int, int, int] | None = None,
    changes: Mapping[str, int] | None = None,
    aside: bool = False,
) -> WriteStat:
    """Writes a base file, and says what it wrote.

    Args:
        store: Where the table lies.
        rows: All rows of the file group, with the meta columns if the table has them.
        partition: The partition path.
        file_id: The file group.
        token: The attempt.
        instant: The instant that writes it.
        previous: The instant of the slice that it continues; None for a new file group.
        previous_base: The base file that it is made from, if there is one.
        counts: How many rows are new, were updated and were deleted; all are new if not given.
        changes: The change files that tell of them, with their sizes.
        aside: Whether the file is put aside until it is known to count (see `files_aside`).
    """
    name = base_file_name(file_id, token, instant)
    path = f"{partition}/{name}" if partition else name
    if not aside:
        put_marker(store, instant, path, MarkerKind.CREATE if previous is None else MarkerKind.MERGE)
    if META_COLUMNS[-1] in rows.schema.names:
        at = rows.schema.get_field_index(META_COLUMNS[-1])
        rows = rows.set_column(at, META_COLUMNS[-1], pa.repeat(name, rows.num_rows))
    data = _encoded(rows)
    store.put(path_aside(instant, path) if aside else path, data)
    inserted, updated, deleted = counts or (rows.num_rows, 0, 0)
    return WriteStat(
        file_id=file_id,
        path=path,
        prev_commit=previous or NEW_GROUP,
        num_writes=rows.num_rows,
        num_inserts=inserted,
        num_update_writes=updated,
        num_deletes=deleted,
        total_write_bytes=len(data),
        file_size_in_bytes=len(data),
        partition_path=partition,
        cdc_stats=dict(changes) if changes else None,
        prev_base_file=None if previous_base is None else previous_base.path.rpartition("/")[2],
    )


def _bounds(keys: pa.ChunkedArray) -> tuple[str, str]:
    """The smallest and the largest key, in the order that Java has: by units of UTF-16."""
    if pc.all(pc.string_is_ascii(keys)).as_py():
        found = pc.min_max(keys)
        return found["min"].as_py(), found["max"].as_py()
    texts = sorted(keys.to_pylist(), key=lambda text: text.encode("utf-16-be", "surrogatepass"))
    return texts[0], texts[-1]


def _encoded(rows: pa.Table) -> bytes:
    footer = dict(rows.schema.metadata or {})
    if RECORD_KEY in rows.schema.names:
        keys = rows[RECORD_KEY]
        footer |= {
            FILTER: bloom_filter(keys.to_pylist()).encode(),
            FILTER_CODE: TYPE_CODE.encode(),
        }
        if rows.num_rows:
            footer[SMALLEST], footer[LARGEST] = (each.encode() for each in _bounds(keys))
    out = io.BytesIO()
    writer = pq.ParquetWriter(
        out, rows.schema.remove_metadata(), compression="gzip", compression_level=_LEVEL, store_schema=False
    )
    try:
        writer.write_table(rows.replace_schema_metadata(None))
        writer.add_key_value_metadata(footer)
    finally:
        writer.close()
    return out.getvalue()

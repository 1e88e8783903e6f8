"""Rows for a Hudi table with a bucket index, through the data source: tasks put them aside, and the commit places them.

A bucket is one file group, and tasks, which Spark gives rows to as it likes, cannot share one. So each task leaves its
rows in a file beside the timeline, with one row group for every bucket that has some, and tells what is in it. Whoever
commits merges them by the table's rule, a bucket at a time, and only files of tasks that count are looked at.

The limit: one process merges all rows of a write. That suits micro-batches; for many rows use `Table.upsert`.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from halocline.formats.hudi.buckets import BucketIndex, bucket_file_id, bucket_of
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.formats.hudi.write.base_writer import check_keys
from halocline.formats.hudi.write.files_aside import path_aside
from halocline.formats.hudi.write.group_writer import GroupWriter, WriteTarget
from halocline.formats.hudi.write.transaction import HudiWrite
from halocline.storage.base import Store
from halocline.table.hudi.writing import check_not_clustering, targets_of

KEY: Final = "__halocline_key"
"""The column of staged rows that holds their keys."""


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Rows of one bucket that a task has put aside.

    Attributes:
        path: The file.
        row_group: Where in it they are.
        partition: The partition path.
        bucket: The bucket.
    """

    path: str
    row_group: int
    partition: str
    bucket: int


def stage_rows(
    store: Store, time: str, rows: pa.Table, keys: pa.Array, paths: pa.Array, index: BucketIndex
) -> list[StagedRows]:
    """Puts rows aside for a write.

    Args:
        store: Where the table lies.
        time: The instant of the write.
        rows: The rows, with the table's own columns.
        keys: Their keys.
        paths: Their partition paths.
        index: Tells their buckets.

    Raises:
        ConstraintError: A row has no key, or one that releases of Apache Hudi place differently.
    """
    check_keys(keys)
    file, sink = path_aside(time, f"{uuid.uuid4()}.parquet"), io.BytesIO()
    places = pa.table({"path": paths, "bucket": pa.array(index.of(keys), pa.int64())})
    staged, keyed = [], rows.append_column(KEY, keys)
    with pq.ParquetWriter(sink, keyed.schema) as writer:
        for number, place in enumerate(places.group_by(["path", "bucket"]).aggregate([]).to_pylist()):
            in_path = pa.compute.equal(places["path"], place["path"])
            chosen = keyed.filter(pa.compute.and_(in_path, pa.compute.equal(places["bucket"], place["bucket"])))
            writer.write_table(chosen, row_group_size=max(1, chosen.num_rows))
            staged.append(StagedRows(file, number, place["path"], place["bucket"]))
    store.put(file, sink.getvalue())
    return staged


def place_rows(
    snapshot: HudiSnapshot, write: HudiWrite, writer: GroupWriter, staged: Sequence[StagedRows]
) -> Iterator[WriteStat]:
    """Merges rows that were put aside into the file groups of their buckets.

    Args:
        snapshot: The table as it is now.
        write: The write.
        writer: What writes file groups.
        staged: The rows.

    Raises:
        ConflictError: A bucket is about to be clustered.
    """
    held = {(each.partition, bucket_of(each.file_id)): each for each in snapshot.slices}
    places: dict[tuple[str, int], list[StagedRows]] = {}
    for each in staged:
        places.setdefault((each.partition, each.bucket), []).append(each)
    check_not_clustering(
        snapshot, [(path, held[path, bucket].file_id) for path, bucket in places if (path, bucket) in held]
    )
    for number, ((path, bucket), parts) in enumerate(sorted(places.items())):
        rows = pa.concat_tables(_rows(snapshot.store, each) for each in parts)
        slice = held.get((path, bucket))
        if slice is None:
            write.prepare_partition(path)
            target = WriteTarget(path, bucket_file_id(bucket, str(uuid.uuid4())))
        else:
            (target,) = targets_of(snapshot, [slice])
        keys, nothing = rows[KEY].combine_chunks(), pa.array([], pa.string())
        stat = writer.write(target, rows.drop_columns([KEY]), keys, nothing, f"{number}-0-0", number)
        if stat is not None:
            yield stat


def _rows(store: Store, staged: StagedRows) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(store.get(staged.path))).read_row_group(staged.row_group)

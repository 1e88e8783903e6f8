"""Hudi tables of every kind, written with what Spark's tasks write with: one file group after the other."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.hudi.buckets import bucket_file_id, bucket_index, bucket_of
from halocline.formats.hudi.key_lookup import KeyLookup
from halocline.formats.hudi.partition_paths import partition_paths
from halocline.formats.hudi.record_keys import key_columns
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.formats.hudi.write.group_writer import GroupWriter, WriteTarget
from halocline.formats.hudi.write.transaction import HudiWrite
from tests.support.hudi_tables import HudiTableMaker, rows


def upsert_groups(table: HudiTableMaker, ids: Sequence[int], ts: int, tag: str, deletes: Sequence[int] = ()) -> str:
    """Writes rows and deletes others, and completes it; returns the instant."""
    write = table.begin()
    write.complete(write_groups(table, write, ids, ts, tag, deletes), schema=table.schema)
    return write.time


def write_groups(
    table: HudiTableMaker, write: HudiWrite, ids: Sequence[int], ts: int, tag: str, deletes: Sequence[int] = ()
) -> list[WriteStat]:
    """Writes files that do not count yet: each row goes where its key is, or to a new file group."""
    snapshot, config = table.snapshot, table.config
    index = bucket_index(snapshot)
    changed, dead = rows(ids, ts, tag), rows(deletes, ts, "gone")
    planned = snapshot.timeline.planned_compactions if config.layout == 1 else {}
    targets: dict[tuple[str, str], tuple[WriteTarget, list[str], list[str]]] = {}
    for given, at in ((changed, 1), (dead, 2)):
        for key, path in zip(given["id"].to_pylist(), partition_paths(given, config), strict=True):
            bucket = None if index is None else int(index.of(pa.array([key]))[0])
            held = _held(snapshot, key, path, bucket)
            if held is None and at == 2:
                continue
            place = (path, str(bucket) if held is None else held.file_id)
            if place not in targets:
                targets[place] = (_target(held, path, bucket, planned), [], [])
            targets[place][at].append(key)
    writer = GroupWriter(write.store, config, snapshot.reader(), table.schema, write.time)
    stats = []
    for number, (target, keys, gone) in enumerate(targets.values()):
        write.prepare_partition(target.partition)
        chosen = changed.filter(pc.is_in(changed["id"], pa.array(keys, pa.string())))
        names = chosen["id"].combine_chunks()
        stat = writer.write(target, chosen, names, pa.array(gone, pa.string()), f"{number}-0-0")
        stats += [] if stat is None else [stat]
    return stats


def _target(held: FileSlice | None, path: str, bucket: int | None, planned: dict) -> WriteTarget:
    if held is not None:
        return WriteTarget(path, held.file_id, held, planned.get((path, held.file_id)))
    random = str(uuid.uuid4())
    return WriteTarget(path, f"{random}-0" if bucket is None else bucket_file_id(bucket, random))


def _held(snapshot: HudiSnapshot, key: str, path: str, bucket: int | None) -> FileSlice | None:
    """The slice that holds a key, or is that of its bucket; None if there is none."""
    keys = key_columns(snapshot.config)
    lookup = KeyLookup(snapshot.reader(keys.names), keys, {path: pa.array([key])})
    for each in snapshot.slices:
        if each.partition == path:
            if bucket is None and any(len(found) for found in lookup.find(snapshot.store, each)):
                return each
            if bucket is not None and bucket_of(each.file_id) == bucket:
                return each
    return None

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
from halocline.table.hudi.opened import HudiOpened
from halocline.table.hudi.writing import writing
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
    writer = GroupWriter(write.store, table.config, table.snapshot.reader(), table.schema, write.time)
    changed, dead = rows(ids, ts, tag), rows(deletes, ts, "gone")
    return _written(write, writer, table.snapshot, changed, dead)


def write_rows(
    table: HudiOpened, operation: str, ids: Sequence[int], ts: int, tag: str, deletes: Sequence[int] = ()
) -> int:
    """A verb of a table as Spark's driver does it, with the work of its tasks done here; returns the instant."""
    replaces = operation.startswith("INSERT_OVERWRITE")
    with writing(table, operation, replaces=replaces) as running:
        snapshot, changed = running.snapshot, rows(ids, ts, tag)
        within = None if operation == "INSERT_OVERWRITE_TABLE" else set(partition_paths(changed, snapshot.config))
        gone: dict[str, list[str]] = {}
        for each in snapshot.slices if replaces else ():
            if within is None or each.partition in within:
                gone.setdefault(each.partition, []).append(each.file_id)
        finds = bucket_index(snapshot) is not None if operation == "INSERT" else not replaces
        writer = running.writer(unique=operation != "INSERT" or finds)
        dead = rows(deletes, ts, "gone")
        stats = _written(running.write, writer, snapshot, changed, dead, finds=finds)
        return running.complete(stats, gone if replaces else None)


def _written(
    write: HudiWrite,
    writer: GroupWriter,
    snapshot: HudiSnapshot,
    changed: pa.Table,
    dead: pa.Table,
    *,
    finds: bool = True,
) -> list[WriteStat]:
    """Writes rows, and takes others out, where their keys are, or all of them to new file groups."""
    config, index = snapshot.config, bucket_index(snapshot)
    planned = snapshot.timeline.planned_compactions if config.layout == 1 else {}
    targets: dict[tuple[str, str], tuple[WriteTarget, list[str], list[str]]] = {}
    for given, at in ((changed, 1), (dead, 2)):
        for key, path in zip(given["id"].to_pylist(), partition_paths(given, config), strict=True):
            bucket = None if index is None else int(index.of(pa.array([key]))[0])
            held = _held(snapshot, key, path, bucket) if finds else None
            if held is None and at == 2:
                continue
            place = (path, str(bucket) if held is None else held.file_id)
            if place not in targets:
                targets[place] = (_target(held, path, bucket, planned), [], [])
            targets[place][at].append(key)
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

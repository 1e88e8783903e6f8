"""Writing what leaves the active timeline: files of the archive of layout 1, and of the LSM timeline of layout 2.

Both grow by whole files. A file of the archive counts as soon as it is there. A file of the LSM timeline counts once a
manifest names it and `_version_` names the manifest, so whoever dies in between leaves a file that nobody reads.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from fastavro import parse_schema, schemaless_writer

from halocline.formats.hudi.avro.containers import write_record
from halocline.formats.hudi.blocks.content import encode_avro_rows
from halocline.formats.hudi.blocks.frame import BlockType, HeaderKey, encode_block
from halocline.formats.hudi.timeline.history import (
    BODIES,
    PLANS,
    VERSION,
    ArchivedInstant,
    Manifest,
    ManifestEntry,
    archive_files,
    newest_manifest,
)
from halocline.formats.hudi.timeline.instant import CLEAN, COMMIT, COMPACTION, REPLACE_COMMIT, order
from halocline.formats.hudi.write import schemas
from halocline.storage.base import Store

_TOKEN: Final = "1-0-1"
_KEPT_MANIFESTS: Final = 3
_MERGED_AT: Final = 10
"""So many files of one level of the LSM timeline become one of the next."""

_METADATA: Final[Mapping[str, Mapping[str, Any]]] = {
    "commit": schemas.COMMIT,
    "deltacommit": schemas.COMMIT,
    "replacecommit": schemas.REPLACE_COMMIT,
    "clean": schemas.CLEAN,
    "rollback": schemas.ROLLBACK,
    "savepoint": schemas.SAVEPOINT,
    "indexing": schemas.INDEX_COMMIT,
}
_PLANS: Final[Mapping[str, Mapping[str, Any]]] = {
    COMMIT: schemas.COMPACTION_PLAN,
    REPLACE_COMMIT: schemas.REQUESTED_REPLACE,
    CLEAN: schemas.CLEANER_PLAN,
}
"""By what an instant ended as, what its plan was."""

_ROWS: Final = pa.schema(
    [
        pa.field("instantTime", pa.string()),
        pa.field("completionTime", pa.string()),
        pa.field("action", pa.string()),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)


def append_archive(store: Store, folder: str, instants: Iterable[ArchivedInstant]) -> str | None:
    """Writes instants to a new file of the archive of layout 1.

    Args:
        store: Where the table lies.
        folder: Where its archive lies.
        instants: The instants.

    Returns:
        The file; None if there was nothing to write.
    """
    rows = list(instants)
    if not rows:
        return None
    number = max((number for number, _ in archive_files(store, folder)), default=0) + 1
    path = f"{folder}/.commits_.archive.{number}_{_TOKEN}"
    store.put_if_absent(path, encode_archive(rows))
    return path


def encode_archive(instants: Iterable[ArchivedInstant]) -> bytes:
    """A file of the archive: one entry per state of each instant, oldest first."""
    ready, rows = parse_schema(dict(schemas.ARCHIVED_ENTRY)), []
    for each in sorted(instants, key=lambda each: (order(each.time), each.action)):
        for entry in _states(each):
            out = io.BytesIO()
            schemaless_writer(out, ready, entry)
            rows.append(out.getvalue())
    header = {HeaderKey.SCHEMA: json.dumps(schemas.ARCHIVED_ENTRY, separators=(",", ":"))}
    return encode_block(BlockType.AVRO_DATA, header, encode_avro_rows(rows))


def append_lsm(store: Store, folder: str, instants: Iterable[ArchivedInstant]) -> str | None:
    """Writes instants to a new file of the LSM timeline, and merges files of a level that has many.

    Args:
        store: Where the table lies.
        folder: Where its LSM timeline lies.
        instants: The instants.

    Returns:
        The file; None if there was nothing to write.
    """
    rows = sorted(instants, key=lambda each: (order(each.time), each.action))
    if not rows:
        return None
    number, manifest = newest_manifest(store, folder)
    table = pa.Table.from_pylist([_row(each) for each in rows], _ROWS)
    entry = _put_rows(store, folder, table, 0)
    files = [each for each in manifest.files if each.file_name != entry.file_name]
    _put_manifest(store, folder, number + 1, _merged(store, folder, [*files, entry]))
    return f"{folder}/{entry.file_name}"


def _states(instant: ArchivedInstant) -> Iterable[dict[str, Any]]:
    begins = COMPACTION if instant.action == COMMIT and instant.plan else instant.action
    plan = {PLANS[begins]: instant.plan} if instant.plan and begins in PLANS else {}
    body = {BODIES[instant.action]: instant.body} if instant.body and instant.action in BODIES else {}
    common = {"commitTime": instant.time, "version": 1}
    yield {**common, "actionType": begins, "actionState": "REQUESTED", "stateTransitionTime": instant.time, **plan}
    yield {**common, "actionType": begins, "actionState": "INFLIGHT", "stateTransitionTime": instant.time, **plan}
    done = instant.completion or instant.time
    yield {**common, "actionType": instant.action, "actionState": "COMPLETED", "stateTransitionTime": done, **body}


def _row(instant: ArchivedInstant) -> dict[str, Any]:
    metadata, plan = _METADATA.get(instant.action), _PLANS.get(instant.action)
    return {
        "instantTime": instant.time,
        "completionTime": instant.completion or instant.time,
        "action": instant.action,
        "metadata": write_record(metadata, instant.body) if metadata and instant.body else None,
        "plan": write_record(plan, instant.plan) if plan and instant.plan else None,
        "version": 1,
    }


def _put_rows(store: Store, folder: str, rows: pa.Table, level: int) -> ManifestEntry:
    times = rows["instantTime"].to_pylist()
    name = f"{min(times, key=order)}_{max(times, key=order)}_{level}.parquet"
    out = io.BytesIO()
    pq.write_table(rows, out, compression="gzip", compression_level=6, store_schema=False)
    store.put(f"{folder}/{name}", out.getvalue())
    return ManifestEntry(name, len(out.getvalue()))


def _merged(store: Store, folder: str, files: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """The files, with those of each level that has many merged into one of the next."""
    found, level = list(files), 0
    while True:
        same = [each for each in found if each.file_name.endswith(f"_{level}.parquet")]
        if len(same) < _MERGED_AT:
            return found
        data = store.get_many(f"{folder}/{each.file_name}" for each in same)
        rows = pa.concat_tables(pq.read_table(io.BytesIO(each)).select(_ROWS.names).cast(_ROWS) for each in data)
        merged = _put_rows(store, folder, rows.sort_by("instantTime"), level + 1)
        found = [each for each in found if each not in same] + [merged]
        level += 1


def _put_manifest(store: Store, folder: str, number: int, files: Sequence[ManifestEntry]) -> None:
    body = msgspec.json.format(msgspec.json.encode(Manifest(list(files))), indent=2)
    store.put(f"{folder}/manifest_{number}", body)
    store.put(f"{folder}/{VERSION}", str(number).encode())
    _forget(store, folder, number)


def _forget(store: Store, folder: str, number: int) -> None:
    """Removes manifests that nobody needs any more, and the files that only they name."""
    old = [f"{folder}/manifest_{each}" for each in range(max(1, number - 2 * _KEPT_MANIFESTS), number - 2)]
    gone = [path for path in old if store.exists(path)]
    if not gone:
        return
    kept: set[str] = set()
    for each in range(number - _KEPT_MANIFESTS + 1, number + 1):
        if store.exists(f"{folder}/manifest_{each}"):
            kept |= {
                entry.file_name
                for entry in msgspec.json.decode(store.get(f"{folder}/manifest_{each}"), type=Manifest).files
            }
    named = {entry.file_name for path in gone for entry in msgspec.json.decode(store.get(path), type=Manifest).files}
    store.delete_many([*(f"{folder}/{name}" for name in sorted(named - kept)), *gone])

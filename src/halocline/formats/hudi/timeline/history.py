"""What is no longer in the active timeline: the archive of layout 1, the LSM timeline of layout 2.

The archive is a row of files in the frame of log files, one record per state of an instant. The LSM timeline is a set
of Parquet files that a manifest names, one row per completed instant; `_version_` says which manifest holds. Files that
the manifest does not name are left over from merges, and are not read.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from halocline.errors import MalformedError, NotFoundError
from halocline.formats.hudi.blocks.content import rows_of
from halocline.formats.hudi.blocks.frame import CorruptSpan, read_blocks
from halocline.formats.hudi.timeline.bodies import decode_body
from halocline.storage.base import Store

_ARCHIVE: Final = re.compile(r"\.commits_\.archive\.(\d+)(?:_.*)?")
_MANIFEST: Final = re.compile(r"manifest_(\d+)")
VERSION: Final = "_version_"
_DONE: Final = "COMPLETED"

BODIES: Final[Mapping[str, str]] = {
    "commit": "hoodieCommitMetadata",
    "deltacommit": "hoodieCommitMetadata",
    "replacecommit": "hoodieReplaceCommitMetadata",
    "clean": "hoodieCleanMetadata",
    "rollback": "hoodieRollbackMetadata",
    "savepoint": "hoodieSavePointMetadata",
    "indexing": "hoodieIndexCommitMetadata",
}
"""Under which key of an archived record an action has its body."""

PLANS: Final[Mapping[str, str]] = {
    "compaction": "hoodieCompactionPlan",
    "clean": "hoodieCleanerPlan",
    "replacecommit": "hoodieRequestedReplaceMetadata",
}
"""Under which key of an archived record an action has its plan; the action is the one that it begins as."""


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """A completed instant that has left the active timeline.

    Attributes:
        time: When it began.
        action: What it was.
        completion: When it was completed; None if the archive does not say.
        body: What it did, as a record; empty if the archive does not say.
        plan: What it was going to do, likewise.
    """

    time: str
    action: str
    completion: str | None
    body: Mapping[str, Any]
    plan: Mapping[str, Any] = field(default_factory=dict)


class ManifestEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A file of the LSM timeline, and its size in bytes."""

    file_name: str
    file_len: int = 0


class Manifest(msgspec.Struct, frozen=True):
    """The files that make the LSM timeline."""

    files: list[ManifestEntry]


def read_archive(store: Store, folder: str) -> Iterator[ArchivedInstant]:
    """The completed instants of the archive of layout 1, oldest file first; each once.

    Raises:
        MalformedError: A file of the archive is damaged.
    """
    seen: set[tuple[str, str]] = set()
    plans: dict[str, Mapping[str, Any]] = {}
    for _, path in archive_files(store, folder):
        for block in read_blocks(store.get(path), path):
            if isinstance(block, CorruptSpan):
                raise _damaged(path, block.problem)
            for record in rows_of(block).to_pylist(maps_as_pydicts="strict"):
                plan = record.get(PLANS.get(record.get("actionType") or "", ""))
                if plan:
                    plans.setdefault(record.get("commitTime") or "", plan)
                instant = _archived(record, plans)
                if instant is not None and (instant.time, instant.action) not in seen:
                    seen.add((instant.time, instant.action))
                    yield instant


def archive_files(store: Store, folder: str) -> list[tuple[int, str]]:
    """The files of the archive of layout 1 with their numbers, oldest first."""
    named = ((_ARCHIVE.fullmatch(meta.path.rpartition("/")[2]), meta.path) for meta in store.list(folder))
    return sorted((int(found[1]), path) for found, path in named if found)


def read_lsm(store: Store, folder: str, *, since: str = "", bodies: bool = True) -> Iterator[ArchivedInstant]:
    """The instants of the LSM timeline, in the order of its files.

    Args:
        store: Where the table lies.
        folder: Where its LSM timeline lies.
        since: Files that hold only instants that began before this time are left out.
        bodies: Whether to read what the instants did.

    Raises:
        MalformedError: The manifest or a file that it names is damaged or missing.
    """
    manifest = newest_manifest(store, folder)[1]
    columns = ["instantTime", "completionTime", "action", *(["metadata", "plan"] if bodies else [])]
    for entry in sorted(manifest.files, key=lambda each: each.file_name):
        latest = entry.file_name.split("_")[1:2]
        if since and latest and latest[0] < since:
            continue
        path = f"{folder}/{entry.file_name}"
        try:
            rows = pq.read_table(io.BytesIO(store.get(path)), columns=columns).to_pylist()
        except NotFoundError as error:
            raise _damaged(path, "the manifest names it, and it is not there") from error
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _damaged(path, str(error)) from error
        for row in rows:
            time, action = row["instantTime"] or "", row["action"] or ""
            body, plan = (
                decode_body(row.get(name) or b"", f"{time}.{action} in {path}").record for name in ("metadata", "plan")
            )
            yield ArchivedInstant(time, action, row["completionTime"], body, plan)


def _archived(record: Mapping[str, Any], plans: Mapping[str, Mapping[str, Any]]) -> ArchivedInstant | None:
    time, action = record.get("commitTime") or "", record.get("actionType") or ""
    if (record.get("actionState") or _DONE) != _DONE:
        return None
    body: Mapping[str, Any] = record.get(BODIES.get(action, "")) or {}
    return ArchivedInstant(time, action, record.get("stateTransitionTime"), body, plans.get(time, {}))


def newest_manifest(store: Store, folder: str) -> tuple[int, Manifest]:
    """The manifest that `_version_` names, or the newest if that cannot be told, with its number; empty if none is.

    Raises:
        MalformedError: The manifest is damaged.
    """
    numbers = {
        int(found[1])
        for meta in store.list(folder)
        if (found := _MANIFEST.fullmatch(meta.path.removeprefix(f"{folder}/")))
    }
    if not numbers:
        return 0, Manifest([])
    try:
        text = store.get(f"{folder}/{VERSION}").decode("ascii", "replace").strip()
    except NotFoundError:
        text = ""
    number = int(text) if text.isascii() and text.isdigit() and int(text) in numbers else max(numbers)
    path = f"{folder}/manifest_{number}"
    try:
        return number, msgspec.json.decode(store.get(path), type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: str, found: str) -> MalformedError:
    return MalformedError(
        f"{path} of the table's history is damaged",
        condition="MALFORMED_LOG",
        sides={"expected": "a whole file of the history", "found": found},
        next_step="Restore the file; queries that do not go behind the active timeline do not need it.",
    )

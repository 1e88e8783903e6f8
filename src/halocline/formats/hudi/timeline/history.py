"""What is no longer in the active timeline: the archive of layout 1, the LSM timeline of layout 2.

The archive is a row of files in the frame of log files, one record per state of an instant. The LSM timeline is a set
of Parquet files that a manifest names, one row per completed instant; `_version_` says which manifest holds. Files that
the manifest does not name are left over from merges, and are not read.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
_VERSION: Final = "_version_"
_DONE: Final = "COMPLETED"

_BODIES: Final[Mapping[str, tuple[str, ...]]] = {
    "commit": ("hoodieCommitMetadata",),
    "deltacommit": ("hoodieCommitMetadata",),
    "replacecommit": ("hoodieReplaceCommitMetadata",),
    "clean": ("hoodieCleanMetadata",),
    "rollback": ("hoodieRollbackMetadata",),
    "savepoint": ("hoodieSavePointMetadata",),
    "indexing": ("hoodieIndexCommitMetadata",),
}
"""Under which key of an archived record an action has its body."""


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """A completed instant that has left the active timeline.

    Attributes:
        time: When it began.
        action: What it was.
        completion: When it was completed; None if the archive does not say.
        body: What it did, as a record; empty if the archive does not say.
    """

    time: str
    action: str
    completion: str | None
    body: Mapping[str, Any]


class _ManifestEntry(msgspec.Struct, frozen=True, rename="camel"):
    file_name: str
    file_len: int = 0


class _Manifest(msgspec.Struct, frozen=True):
    files: list[_ManifestEntry]


def read_archive(store: Store, folder: str) -> Iterator[ArchivedInstant]:
    """The completed instants of the archive of layout 1, oldest file first; each once.

    Raises:
        MalformedError: A file of the archive is damaged.
    """
    named = ((_ARCHIVE.fullmatch(meta.path.rpartition("/")[2]), meta.path) for meta in store.list(folder))
    seen: set[tuple[str, str]] = set()
    for path in (path for _, path in sorted((int(found[1]), path) for found, path in named if found)):
        for block in read_blocks(store.get(path), path):
            if isinstance(block, CorruptSpan):
                raise _damaged(path, block.problem)
            for record in rows_of(block).to_pylist(maps_as_pydicts="strict"):
                instant = _archived(record)
                if instant is not None and (instant.time, instant.action) not in seen:
                    seen.add((instant.time, instant.action))
                    yield instant


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
    manifest = _manifest(store, folder)
    if manifest is None:
        return
    columns = ["instantTime", "completionTime", "action", *(["metadata"] if bodies else [])]
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
            body = decode_body(row.get("metadata") or b"", f"{time}.{action} in {path}").record
            yield ArchivedInstant(time, action, row["completionTime"], body)


def _archived(record: Mapping[str, Any]) -> ArchivedInstant | None:
    action = record.get("actionType") or ""
    if (record.get("actionState") or _DONE) != _DONE:
        return None
    body: Mapping[str, Any] = next((record[key] for key in _BODIES.get(action, ()) if record.get(key)), {})
    return ArchivedInstant(record.get("commitTime") or "", action, record.get("stateTransitionTime"), body)


def _manifest(store: Store, folder: str) -> _Manifest | None:
    """The manifest that `_version_` names, or the newest if that cannot be told."""
    numbers = {
        int(found[1])
        for meta in store.list(folder)
        if (found := _MANIFEST.fullmatch(meta.path.removeprefix(f"{folder}/")))
    }
    if not numbers:
        return None
    try:
        text = store.get(f"{folder}/{_VERSION}").decode("ascii", "replace").strip()
    except NotFoundError:
        text = ""
    number = int(text) if text.isascii() and text.isdigit() and int(text) in numbers else max(numbers)
    path = f"{folder}/manifest_{number}"
    try:
        return msgspec.json.decode(store.get(path), type=_Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: str, found: str) -> MalformedError:
    return MalformedError(
        f"{path} of the table's history is damaged",
        condition="MALFORMED_LOG",
        sides={"expected": "a whole file of the history", "found": found},
        next_step="Restore the file; queries that do not go behind the active timeline do not need it.",
    )

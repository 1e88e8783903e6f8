"""The names of the files in a log, and what each name says.

A *log folder* holds one file per version, zero-padded to twenty digits so that listing order is version order. Beside
them lie checkpoints, compactions and checksums, whose names begin with the version they belong to. A *layout* is the
list of name patterns of one format. Names that fit no pattern are not part of the log and are passed over.

Patterns are data: a format adds a kind of file by adding a line. The named groups that count are `version`, `end` (the
last version of a compaction), `part`, `parts` and `id`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from halocline.storage.base import ObjectMeta

LOG_FOLDERS: Final[Mapping[str, str]] = {"delta": "_delta_log", "hudi": ".hoodie", "index": "_transaction_log"}
"""The folder that makes the one around it a table, by format."""

DIGITS: Final = 20
_VERSION: Final = r"(?P<version>\d{20})"
_UUID: Final = r"(?P<id>[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})"


class FileKind(StrEnum):
    """What a file of the log is. The kinds of checkpoint stand in order of preference, the best one last."""

    COMMIT = "commit"
    COMPACTION = "compaction"
    CHECKSUM = "checksum"
    STATE = "state in a folder of its own"
    CHECKPOINT = "checkpoint"
    CHECKPOINT_PART = "part of a checkpoint"
    CHECKPOINT_BY_ID = "checkpoint with an id"


CHECKPOINT_KINDS: Final = (FileKind.STATE, FileKind.CHECKPOINT, FileKind.CHECKPOINT_PART, FileKind.CHECKPOINT_BY_ID)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A file of the log, as a listing shows it.

    Attributes:
        path: Its path in the store.
        kind: What it is.
        version: The version in its name; the first one of a compaction.
        end: The last version it covers; `version` but for compactions.
        part: Which part of a checkpoint it is, from 1 on; 0 if it is whole.
        parts: How many parts the checkpoint has; 0 if it is whole.
        size: Length in bytes.
        modified_ms: When it was written.
        etag: Its state; None where the store does not tell it.
    """

    path: str
    kind: FileKind
    version: int
    end: int
    part: int
    parts: int
    size: int
    modified_ms: int
    etag: str | None = None

    @property
    def name(self) -> str:
        """The name without its folder."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class LogLayout:
    """The log folder of a format and the patterns of the names in it.

    Attributes:
        folder: The folder.
        patterns: The kinds of files, and how the name of each looks from the folder on.
        pointer: The name of the hint at the newest checkpoint.
        states: How the names of folders begin that hold the state of one version each; empty if there are none.

    Example:
        >>> DELTA.commit_path(7)
        '_delta_log/00000000000000000007.json'
        >>> DELTA.parse(ObjectMeta("_delta_log/00000000000000000002.00000000000000000005.compacted.json", 10, 0)).end
        5
    """

    folder: str
    patterns: tuple[tuple[FileKind, re.Pattern[str]], ...]
    states: str = ""

    @property
    def pointer_path(self) -> str:
        """Where the hint at the newest checkpoint lies."""
        return f"{self.folder}/_last_checkpoint"

    def prefix(self, version: int) -> str:
        """The beginning of every path that belongs to a version."""
        return f"{self.folder}/{version:0{DIGITS}d}"

    def commit_path(self, version: int) -> str:
        """Where the commit of a version lies."""
        return f"{self.prefix(version)}.json"

    def parse(self, meta: ObjectMeta) -> LogEntry | None:
        """What an object of the log folder is; None if it is not part of the log."""
        name = meta.path.removeprefix(f"{self.folder}/")
        if name == meta.path or not (name[:DIGITS].isdigit() or (self.states and name.startswith(self.states))):
            return None
        for kind, pattern in self.patterns:
            if found := pattern.fullmatch(name):
                groups = found.groupdict()
                version = int(groups["version"])
                return LogEntry(
                    path=meta.path,
                    kind=kind,
                    version=version,
                    end=int(groups.get("end") or version),
                    part=int(groups.get("part") or 0),
                    parts=int(groups.get("parts") or 0),
                    size=meta.size,
                    modified_ms=meta.modified_ms,
                    etag=meta.etag,
                )
        return None


def patterns(*pairs: tuple[FileKind, str]) -> tuple[tuple[FileKind, re.Pattern[str]], ...]:
    """Compiles the patterns of a layout; `{v}` stands for a version and `{id}` for a UUID."""
    return tuple(
        (kind, re.compile(text.replace("{v}", _VERSION).replace("{id}", _UUID), re.ASCII)) for kind, text in pairs
    )


DELTA: Final = LogLayout(
    folder=LOG_FOLDERS["delta"],
    patterns=patterns(
        (FileKind.COMMIT, r"{v}\.json"),
        (FileKind.CHECKSUM, r"{v}\.crc"),
        (FileKind.CHECKPOINT, r"{v}\.checkpoint\.parquet"),
        (FileKind.CHECKPOINT_PART, r"{v}\.checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"),
        (FileKind.CHECKPOINT_BY_ID, r"{v}\.checkpoint\.{id}\.(?:json|parquet)"),
        (FileKind.COMPACTION, r"{v}\.(?P<end>\d{20})\.compacted\.json"),
    ),
)
"""The layout of Delta tables."""

INDEX: Final = LogLayout(
    folder=LOG_FOLDERS["index"],
    patterns=patterns(
        (FileKind.COMMIT, r"{v}\.json"),
        (FileKind.CHECKPOINT, r"{v}\.checkpoint\.json"),
        (FileKind.STATE, r"state-v{v}/_manifest\.avro"),
    ),
    states="state-v",
)
"""The layout of index tables. The parts of a checkpoint are named by the checkpoint itself."""

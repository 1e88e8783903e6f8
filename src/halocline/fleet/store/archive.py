"""The archive of a coordinator: a file that entries of the audit log are written to before any is forgotten.

One line of JSON for each entry, as `halocline fleet audit export` writes them, the oldest first. Lines are only added,
and are on disk before the store forgets what they say. An entry that is there already, because a crash came between the
two, is not added again; a line that a crash left half-written stays, and the entry follows as a whole.

Limit: each coordinator has a file of its own, which holds what was forgotten while it led.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from halocline.errors import UnavailableError
from halocline.fleet.answers import AuditEntry, plain

_TAIL: Final = 32 << 20
"""Bytes: more than the entries take that are forgotten at a time."""


class AuditArchive:
    """A file of entries that the store no longer holds."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, entries: Sequence[AuditEntry]) -> None:
        """Adds the entries that are not there yet, and returns once they are on disk.

        Raises:
            UnavailableError: The file cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "r+b") as file:
                file.seek(max(os.fstat(descriptor).st_size - _TAIL, 0))
                tail = file.read()
                known = set(tail.splitlines())
                lines = (json.dumps(plain(entry)).encode() for entry in entries)
                missing = [line + b"\n" for line in lines if line not in known]
                file.write(b"\n" * bool(tail and not tail.endswith(b"\n")) + b"".join(missing))
                file.flush()
                os.fsync(descriptor)
        except OSError as error:
            raise UnavailableError(
                f"the archive {self.path} cannot be written: {error.strerror or error}",
                sides={"holds": "entries of the audit log that the store is to forget"},
                next_step="Make room, or name another file with --audit-archive. Until then nothing is forgotten.",
            ) from error

"""The one error for a damaged log: it names the file, and never lets a reader go on with less than the table."""

from __future__ import annotations

from halocline.errors import MalformedError


def malformed(name: str, problem: str) -> MalformedError:
    """The error for a damaged file of the log."""
    return MalformedError(
        f"{name} {problem}",
        condition="MALFORMED_LOG",
        sides={"log file": name},
        next_step="Restore the file from a backup, or read an earlier version of the table.",
    )

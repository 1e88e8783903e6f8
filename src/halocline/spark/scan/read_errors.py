"""What Spark says of a data file that it cannot read, in Halocline's words.

Verbs run their own Spark jobs, so a file that is missing or damaged ends them with an error that names it. A DataFrame
that was handed out is run by its owner, who meets Spark's error as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from halocline.errors import HaloclineError, MalformedError
from halocline.spark.scan.footers import no_file
from halocline.spark.session.worker_errors import raised_by_worker

_FAILED: Final = re.compile(r"\[FAILED_READ_FILE\.(?P<kind>\w+)\][^\n]*? reading file (?P<file>\S+?)\.(?:\s|$)")


@contextmanager
def in_our_words() -> Iterator[None]:
    """Turns what Spark raises for a data file, or for a worker of ours, into the error that it stands for."""
    try:
        yield
    except HaloclineError:
        raise
    except Exception as error:  # Spark's classes differ between classic sessions and Connect
        if failure := read_failure(error) or raised_by_worker(error):
            raise failure from None
        raise


def read_failure(error: BaseException) -> HaloclineError | None:
    """The error for a data file that Spark could not read; None if the error is about something else.

    Example:
        >>> text = "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///t/a.parquet. File"
        >>> type(read_failure(RuntimeError(text))).__name__
        'NotFoundError'
    """
    # The class of what Spark raised differs between classic sessions and Connect, its text does not.
    found = _FAILED.search(str(error))
    if found is None:
        return None
    if found["kind"] == "FILE_NOT_EXIST":
        return no_file(found["file"])
    return MalformedError(
        f"data file {found['file']} cannot be read",
        sides={"file": found["file"]},
        next_step="Restore the file from a backup, or a version of the table that does not need it.",
    )

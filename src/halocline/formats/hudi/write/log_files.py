"""Putting log files where no other writer has put one.

Up to table version 7 the name of a log file says which slice it continues, its number there, and the attempt that
writes it, but not which write does. Two writes of one slice that began at the same time count to the same number, and
drivers that have done as much as each other name their attempts alike. So a name that is taken is left to whoever has
it, and the next number is tried.
"""

from __future__ import annotations

from halocline.errors import AlreadyExistsError, NotFoundError
from halocline.formats.hudi.names import log_file_name
from halocline.formats.hudi.write.markers import MarkerKind, delete_marker, put_marker
from halocline.storage.base import Store


def put_log_file(
    store: Store,
    data: bytes,
    *,
    partition: str,
    file_id: str,
    named: str,
    version: int,
    token: str,
    marked_by: str | None = None,
) -> tuple[str, int]:
    """Writes a log file under the first number that is free.

    Args:
        store: Where the table lies.
        data: What is in it.
        partition: The partition path.
        file_id: The file group.
        named: The instant that stands in the name.
        version: The first number to try.
        token: The attempt.
        marked_by: The instant of the write that leaves a marker for the file; None for none.

    Returns:
        The path, and the number.
    """
    while True:
        name = log_file_name(file_id, named, version, token)
        path = f"{partition}/{name}" if partition else name
        if marked_by is not None:
            put_marker(store, marked_by, path, MarkerKind.APPEND)
        try:
            store.put_if_absent(path, data)
        except AlreadyExistsError:
            if _holds(store, path, data):  # put by this very attempt, whose answer was lost
                return path, version
            # What a write has marked and does not count is deleted, which this file of another write must not be.
            if marked_by is not None:
                delete_marker(store, marked_by, path, MarkerKind.APPEND)
            version += 1
        else:
            return path, version


def _holds(store: Store, path: str, data: bytes) -> bool:
    """Whether a file has this content; blocks name their write, so that no two writes have the same."""
    try:
        return store.get(path) == data
    except NotFoundError:
        return False

"""Which versions a stream can have: it begins at one that there is, or at the next one, and goes on in the log.

A stream that began later would leave out versions that are yet to come, and one that waits for a time would deliver
what is added before it; both are refused, as Delta Spark does. Nothing here needs Spark.
"""

from __future__ import annotations

from halocline.errors import NotFoundError
from halocline.storage.base import Store


def check_version(version: int, newest: int, table: str) -> None:
    """Makes sure that a stream can begin at a version.

    Raises:
        NotFoundError: It is further than the next one (`VERSION_NOT_FOUND`).
    """
    if version > newest + 1:
        raise NotFoundError(
            f"a stream cannot start at version {version} of {table}",
            condition="VERSION_NOT_FOUND",
            sides={"asked for": str(version), "newest": str(newest)},
            next_step=f"Start at version {newest + 1} or before.",
        )


def check_time(asked: str, first: int, newest: int, table: str) -> None:
    """Makes sure that a stream can begin at a time, given the first version from it on.

    Raises:
        NotFoundError: All versions are older (`VERSION_NOT_FOUND`).
    """
    if first > newest:
        raise NotFoundError(
            f"a stream cannot start at {asked}: all versions of {table} are older",
            condition="VERSION_NOT_FOUND",
            sides={"startingTimestamp": asked, "newest": f"version {newest}"},
            next_step="Give an earlier time, or startingVersion latest for what is added from now on.",
        )


def commit_bytes(store: Store, path: str, version: int) -> bytes:
    """The commit of a version that a stream has come to.

    Raises:
        NotFoundError: The log no longer holds it (`VERSION_NOT_FOUND`).
    """
    try:
        return store.get(path)
    except NotFoundError:
        raise NotFoundError(
            f"the log of {store.root} no longer holds version {version}, where the stream is",
            condition="VERSION_NOT_FOUND",
            sides={"needed": str(version), "looked for": path},
            next_step="Start the query with a new checkpoint; versions in between are lost to it.",
        ) from None

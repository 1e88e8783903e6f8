"""How a version comes to be: one writer puts its file where no file is yet.

A *proposal* is what one writer wants to become a version. A *winner* is somebody else's file at a version the
proposal tried first. The writer reads every winner in order, and after each one the proposal either gives way with a
`ConflictError` or *rebases*: it becomes the proposal it would have been had its writer started after that winner.

`land` promises that a proposal becomes at most one version, that every winner before that version has been looked
at, and that somebody makes progress: a proposal only loses because another one landed. An answer that got lost on
the way back is found again by reading the version, since a proposal knows its own file. What stands in front of the
work (`halocline.formats.log.fence`) is asked immediately before each attempt.

A log that has become another one is refused: its table was deleted and made anew in the same place.

The limit: while a store cannot be reached, nobody can tell whether the last write took effect. `land` then tries
the same version again, which cannot land twice, and raises `UnavailableError` in the end.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Generic, Protocol, Self, TypeVar

from halocline.errors import AlreadyExistsError, ConflictError, HaloclineError, NotFoundError, UnavailableError
from halocline.formats.log.fence import check_fence
from halocline.formats.log.names import LogEntry
from halocline.storage.base import ObjectMeta, Store

_NUMBER: Final = re.compile(r"(?<!\d)\d{20}(?!\d)")
"""The version in the name of a file of a log, or of the folder that holds the state of one."""
_UNANSWERED_TRIES: Final = 4
_FIRST_WAIT_S: Final = 0.05
_READ_AGAIN: Final = "Nothing was written. Read the table again and repeat the operation."


@dataclass(frozen=True, slots=True)
class Winner:
    """A version that somebody else committed first.

    Attributes:
        version: Its number.
        path: Its file in the store.
        data: What the file holds.
        modified_ms: When the file was written, in milliseconds since the epoch.
    """

    version: int
    path: str
    data: bytes
    modified_ms: int


class CommitProposal(Protocol):
    """What one writer wants to commit. Immutable: rebasing gives a new one."""

    def encode(self, version: int) -> bytes:
        """The file to write if this becomes `version`."""

    def is_own(self, winner: Winner) -> bool:
        """Whether the winner is this very proposal, landed by a write whose answer was lost."""

    def rebased(self, winner: Winner) -> Self:
        """The same intent, built on the winner."""


P = TypeVar("P", bound=CommitProposal)


@dataclass(frozen=True, slots=True)
class Landed(Generic[P]):
    """A proposal that became a version.

    Attributes:
        version: The version it became.
        proposal: The proposal as it was written, rebased on every winner before it.
        losses: How many winners came first.
    """

    version: int
    proposal: P
    losses: int


def land(
    store: Store,
    proposal: P,
    version: int,
    *,
    path: Callable[[int], str],
    read: LogEntry | None = None,
    is_same: Callable[[], bool] = lambda: True,
    wait: Callable[[float], None] = time.sleep,
) -> Landed[P]:
    """Commits the proposal at the first free version from `version` on.

    Args:
        store: Where the log lies.
        proposal: What to commit.
        version: The version after the one the proposal was made on.
        path: The file name of a version.
        read: The commit before `version` as it was when the proposal was made; None if it is not known.
        is_same: Whether the log is the one that was read, asked if that commit has become another file.
        wait: How to let time pass between tries that got no answer.

    Raises:
        ConflictError: A winner contradicts the proposal.
        UnavailableError: The store could not be reached; the message says whether the outcome is known.
    """
    losses = 0
    while True:
        before = _check_not_behind(store, path, version)
        if before is not None and read is not None and not losses:
            _check_same(store, before, read, is_same)
        if _put(store, path(version), proposal.encode(version), proposal, version, wait):
            return Landed(version, proposal, losses)
        # The version is taken. Everything from here to the first free one is a winner.
        while (winner := _winner(store, path(version), version)) is not None:
            if proposal.is_own(winner):
                return Landed(version, proposal, losses)
            proposal = proposal.rebased(winner)
            losses += 1
            version += 1


def is_refused(error: BaseException) -> bool:
    """Whether a commit that raised this is surely not in the log, so that what it would have added may be deleted.

    Our own errors say so, but for those of a store that did not answer. An interrupt may come when the version is
    there already, and only what follows a commit is under way.
    """
    return isinstance(error, HaloclineError) and not isinstance(error, UnavailableError)


def _check_not_behind(store: Store, path: Callable[[int], str], version: int) -> ObjectMeta | None:
    """Refuses a version that is free only because the log has gone on and dropped its older files, or is another one.

    The file before the next version is there as long as that is the newest one. Where it is missing and something later
    is there, a file would be put where nobody looks any more; where the log ends before, it would leave a gap. A
    clean-up between this look and the put is not seen.

    Returns:
        The file before the version; None if there is none.
    """
    if version == 0:
        return None
    with suppress(NotFoundError):
        return store.head(path(version - 1))
    folder = path(0).rpartition("/")[0]
    numbers = (_NUMBER.search(each.path.removeprefix(folder)) for each in store.list(f"{folder}/"))
    newest = max((int(number[0]) for number in numbers if number), default=-1)
    if newest != version - 1:
        raise ConflictError(
            f"the log of {store.root} has gone on to version {newest}, and its files before {version} are gone"
            if newest >= version
            else f"the table at {store.root} is not the one that was read: its log ends before version {version - 1}",
            sides={"you": f"version {version}", "table": f"version {newest}"},
            next_step=_READ_AGAIN,
        )
    return None


def _check_same(store: Store, before: ObjectMeta, read: LogEntry, is_same: Callable[[], bool]) -> None:
    """Refuses a log that is another one than was read: deleted meanwhile, and made anew with as many versions.

    A commit never changes, so one of another length is another. One of the same length may have been copied.
    """
    same_state = read.etag is None or before.etag == read.etag
    if before.size != read.size or not (same_state or is_same()):
        raise ConflictError(
            f"the table at {store.root} is not the one that was read: version {read.version} is another commit",
            sides={"you read": _told(read.size, read.modified_ms), "there is": _told(before.size, before.modified_ms)},
            next_step=_READ_AGAIN,
        )


def _told(size: int, modified_ms: int) -> str:
    return f"{size:,} bytes of {datetime.fromtimestamp(modified_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _winner(store: Store, path: str, version: int) -> Winner | None:
    try:
        data, meta = store.fetch(path)
    except NotFoundError:
        return None
    return Winner(version, path, data, meta.modified_ms)


def _put(
    store: Store, path: str, data: bytes, proposal: CommitProposal, version: int, wait: Callable[[float], None]
) -> bool:
    """Whether the file is there and ours; False if the version is taken by somebody else."""
    for attempt in range(1, _UNANSWERED_TRIES + 1):
        _check_fence(version, attempt)
        try:
            store.put_if_absent(path, data)
        except AlreadyExistsError:
            # Without a lost answer this is somebody else; with one it may be ourselves. `land` looks.
            return False
        except UnavailableError as error:
            if attempt == _UNANSWERED_TRIES:
                raise UnavailableError(
                    f"the store did not answer while committing version {version}: {error.message}",
                    sides={"tried": f"{attempt} times", "outcome": "unknown, the last write may still take effect"},
                    next_step=f"Look at version {version} before trying again.",
                ) from error
            wait(_FIRST_WAIT_S * 2**attempt)
            found = _seen(store, path, version)
            if found is not None:
                return proposal.is_own(found)
        else:
            return True
    raise AssertionError("unreachable: the last try returns or raises")


def _check_fence(version: int, attempt: int) -> None:
    """Asks what stands in front of the work; after an attempt without an answer, a refusal tells no outcome."""
    try:
        check_fence()
    except HaloclineError as error:
        if attempt == 1:
            raise
        raise UnavailableError(
            f"the store did not answer while committing version {version}, which is not tried again: {error.message}",
            sides={"tried": f"{attempt - 1} times", "outcome": "unknown, the last try may still take effect"},
            next_step=f"Look at version {version} before trying again.",
        ) from error


def _seen(store: Store, path: str, version: int) -> Winner | None:
    """What lies at the version, as far as the store answers."""
    try:
        return _winner(store, path, version)
    except UnavailableError:
        return None

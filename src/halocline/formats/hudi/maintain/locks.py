"""How several writers of one table take turns.

Writers that change different file groups do not disturb each other; what was completed since one began is compared
with it before it is completed (`write.transaction`). Between that look and the completion nobody else may complete
anything, so every writer holds the table's lock for that moment, and a move or a service for as long as it runs.

A lock is any context manager, so the fleet's or that of another service serves as well. `FileSystemLock` is the one
that Apache Hudi calls `FileSystemBasedLockProvider`: a file that only one can create. Both find it at the same place,
so Java writers and ours exclude each other.

A holder that dies leaves the file. It expires after the time that every writer of the table must have set alike, of
which the file's time of change tells; a holder that lives renews it before. One of ours that died on the same machine,
in the same container, is known at once. Without such a time, somebody has to delete the file.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

import msgspec

from halocline.errors import AlreadyExistsError, ConflictError, HaloclineError, NotFoundError, UnavailableError
from halocline.formats.hudi.properties import FOLDER
from halocline.storage.base import Store
from halocline.storage.process import is_gone, process_space

LOCK_FILE: Final = f"{FOLDER}/lock"
"""Where `hoodie.write.lock.filesystem.path` puts the lock unless it is set."""


class FileSystemLock:
    """The lock of a table, as a file. Use it with `with`; it can be taken again after it was given back.

    Args:
        store: Where the table lies.
        path: The file.
        wait_s: How long to wait for another holder.
        expires_s: After how long a holder counts as dead; None for never. The same as
            `hoodie.write.lock.filesystem.expire`, which is in minutes.

    Example:
        >>> from halocline.storage.memory import MemoryStore
        >>> store = MemoryStore()
        >>> with FileSystemLock(store):
        ...     store.exists(LOCK_FILE)
        True
        >>> store.exists(LOCK_FILE)
        False
    """

    def __init__(
        self, store: Store, *, path: str = LOCK_FILE, wait_s: float = 60.0, expires_s: float | None = None
    ) -> None:
        self._store, self._path = store, path
        self._wait_s, self._expires_s = wait_s, expires_s
        self._etag: str | None = None
        self._given_back = threading.Event()
        self._renewing: threading.Thread | None = None

    def __enter__(self) -> Self:
        deadline, pause = time.monotonic() + self._wait_s, 0.01
        while not self._try():
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"another writer holds the lock of {self._store.root}",
                    sides={"waited": f"{self._wait_s:g} s", "lock": self._path, "holder": self._holder()},
                    next_step=f"Find out whether that writer is alive; if it is not, delete {self._path}.",
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.5)
        self._keep()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._given_back.set()
        if self._renewing is not None:
            self._renewing.join()
        held, self._etag = self._etag, None
        try:
            found = self._store.head(self._path).etag
        except NotFoundError:
            found = None
        if found == held:
            self._store.delete(self._path)
        elif error is None:
            raise ConflictError(
                f"the lock of {self._store.root} expired while it was held",
                sides={"held": str(held), "found": found or "no lock"},
                next_step="Look whether another writer has changed the same file groups; let locks expire later.",
            )

    def _try(self) -> bool:
        body = self._body()
        try:
            self._etag = self._store.put_if_absent(self._path, body)
        except AlreadyExistsError:
            return self._take_over(body)
        return True

    def _body(self) -> bytes:
        said = {
            "lockCreateTime": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3],
            "lockThreadName": f"{process_space()}/{os.getpid()}/{threading.current_thread().name}",
            "lockStacksInfo": "halocline",
        }
        return msgspec.json.encode(said)

    def _holder(self) -> str:
        """Who holds the lock, and since when it was last renewed, as far as the file tells."""
        try:
            body, meta = self._store.fetch(self._path)
        except NotFoundError:
            return "nobody any more"
        since = f"{datetime.fromtimestamp(meta.modified_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        said = _said(body)
        return f"{said.get('lockThreadName') or 'unknown'} ({said.get('lockStacksInfo', '')[:40]}), since {since}"

    def _keep(self) -> None:
        """Renews the lock for as long as it is held, so that it does not expire under a holder that lives."""
        self._given_back.clear()
        self._renewing = None
        if self._expires_s is None:
            return
        every = self._expires_s / 3

        def renew() -> None:
            while not self._given_back.wait(every):
                try:
                    self._etag = self._store.put_if_match(self._path, body, self._etag or "")
                except (ConflictError, NotFoundError):
                    return  # somebody has taken it over; that is told when it is given back
                except HaloclineError:
                    continue  # the store may answer the next time, well before the lock expires

        body = self._body()
        self._renewing = threading.Thread(target=renew, name="halocline-lock", daemon=True)
        self._renewing.start()

    def _take_over(self, body: bytes) -> bool:
        """Replaces the lock of a holder that counts as dead; of several that try, one succeeds."""
        if self._expires_s is None:
            return False
        try:
            held, found = self._store.fetch(self._path)
            expired = time.time() * 1000 - found.modified_ms >= self._expires_s * 1000
            if found.etag is None or not (expired or _has_died(held)):
                return False
            self._etag = self._store.put_if_match(self._path, body, found.etag)
        except (NotFoundError, ConflictError):
            return False
        return True


def _said(body: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(body, type=dict[str, str])
    except msgspec.MsgspecError:
        return {}


def _has_died(body: bytes) -> bool:
    """Whether the holder was a process of this machine that is not there any more."""
    host, _, rest = _said(body).get("lockThreadName", "").partition("/")
    number = rest.partition("/")[0]
    return number.isdigit() and is_gone(host, int(number))

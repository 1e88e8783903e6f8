"""Objects as plain files below a local folder.

The path of an object is the path of its file. A file is written under a hidden name in the folder where it will be,
synced to disk, and then given its name in one step: by a hard link where it must not exist yet, by a rename otherwise.
A crash leaves the old file, or the new one, and at worst a hidden one that no listing shows.

Writers that replace or delete take a short lock per object, so that a compare-and-swap is atomic against all of them.
The limits: other programs do not take that lock, and on a file system without hard links it also has to stand in for
the link, so there `put_if_absent` is exclusive among users of this store only.

Hadoop keeps a checksum of `name` in `.name.crc` beside it and refuses a file that differs, so a write or delete
removes that file first.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from operator import itemgetter

from msgspec.structs import replace

from halocline.errors import (
    AlreadyExistsError,
    DeniedError,
    HaloclineError,
    InputError,
    NotFoundError,
    StorageFullError,
    UnavailableError,
    UnsupportedError,
)
from halocline.storage.base import (
    HIDDEN_PREFIX,
    ObjectMeta,
    Store,
    checked_folder,
    checked_path,
    checked_range,
    escaped,
)
from halocline.storage.lock import locked

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV})
_NO_OBJECT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_HALF_WRITTEN = ".tmp"
_DAY_MS = 24 * 3_600_000
_CAN_SYNC_FOLDERS = hasattr(os, "O_DIRECTORY")


_Visit = tuple[tuple[int, int] | None, Iterator[tuple[str, os.DirEntry[str]]]]
"""Which folder it is, and what is still to see there."""


class LocalStore(Store):
    """Objects as files.

    Args:
        root: The folder; it is created with the first object.
        sync: Whether a write is on disk before it returns. Without it a power failure may take back what was written;
            a crash of the process never does.
    """

    lists_whole_folders = True

    def __init__(self, root: str | os.PathLike[str], *, sync: bool = True) -> None:
        self.folder = os.path.abspath(root)
        self.root = "file://" + escaped(self.folder)
        self._sync = sync

    def fetch(self, path: str) -> tuple[bytes, ObjectMeta]:
        with self._reading(path) as target, open(target, "rb") as file:
            status = os.fstat(file.fileno())
            return file.read(), _meta(path, status)

    def get(self, path: str) -> bytes:
        with self._reading(path) as target, open(target, "rb", buffering=0) as file:
            return file.read()

    def get_range(self, path: str, start: int, length: int) -> bytes:
        checked_range(path, start, length)
        with self._reading(path) as target, open(target, "rb") as file:
            # A buffer is made before anything is read, so a wrong length must not ask for one larger than the file.
            left = os.fstat(file.fileno()).st_size - start
            file.seek(start)
            return file.read(max(0, min(length, left)))

    def head(self, path: str) -> ObjectMeta:
        with self._reading(path) as target:
            status = os.stat(target)
            if not _is_file(status):
                raise IsADirectoryError(target)
            return _meta(path, status)

    def list(
        self, prefix: str = "", *, start_after: str | None = None, follow_links: bool = True
    ) -> Iterator[ObjectMeta]:
        folder = checked_folder(prefix)
        return self._walk(self._target(folder), f"{folder}/" if folder else "", start_after, follow_links)

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        folder = checked_folder(prefix)
        above = f"{folder}/" if folder else ""
        found = self._visit(self._target(folder), above, None, follow_links=True)[1]
        return tuple(sorted(path.removesuffix("/") for path, _ in found if path.endswith("/")))

    def put(self, path: str, data: bytes) -> str:
        return self.put_chunks(path, (data,))

    def put_chunks(self, path: str, chunks: Iterable[bytes]) -> str:
        with self._writing(path) as target, self._locked(target, needed=False):
            return self._replace(target, chunks, _status(target))

    def put_if_absent(self, path: str, data: bytes) -> str:
        taken = AlreadyExistsError(f"{path} already exists in {self.folder}")
        with self._writing(path) as target:
            if os.path.lexists(target):
                raise taken
            with self._half_written(target, (data,), None) as (hidden, etag):
                _forget_checksum(target)
                try:
                    os.link(hidden, target, follow_symlinks=False)
                except FileExistsError:
                    raise taken from None
                except OSError as error:
                    if error.errno not in _NO_HARD_LINKS:
                        raise
                    with self._locked(target):
                        if os.path.lexists(target):
                            raise taken from None
                        os.rename(hidden, target)
            self._sync_folder(os.path.dirname(target))
            return etag

    def put_if_match(self, path: str, data: bytes, etag: str) -> str:
        """See `Store.put_if_match`."""
        with self._changing(path) as target:
            if _status(target) is None:  # there may be no folder for the lock either
                raise self._changed(path, expected=etag, found="no object")
            with self._locked(target):
                status = _status(target)
                if status is None or _etag(status) != etag:
                    raise self._changed(path, expected=etag, found="no object" if status is None else _etag(status))
                return self._replace(target, (data,), status)

    def move(self, path: str, target: str) -> None:
        with self._writing(target) as place, self._reading(path) as source:
            _forget_checksum(source)
            _forget_checksum(place)
            os.replace(source, place)
            self._sync_folder(os.path.dirname(place))

    def delete(self, path: str) -> None:
        with self._changing(path) as target:
            if _status(target) is None:
                return
            with self._locked(target, needed=False), contextlib.suppress(*_NO_OBJECT):
                _forget_checksum(target)
                os.unlink(target)

    def sweep(self, now_ms: int) -> int:
        count, before_ms = 0, now_ms - _DAY_MS
        for folder, _, names in os.walk(self.folder):
            for name in names:
                if name.startswith(HIDDEN_PREFIX) and name.endswith(_HALF_WRITTEN):
                    half = os.path.join(folder, name)
                    with contextlib.suppress(OSError):  # gone meanwhile, or somebody else's
                        if os.stat(half, follow_symlinks=False).st_mtime * 1000 < before_ms:
                            os.unlink(half)
                            count += 1
        return count

    def set_modified(self, path: str, modified_ms: int) -> bool:
        with self._reading(path) as target:
            os.utime(target, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
            return True

    def address(self, path: str = "") -> str:
        return self._target(checked_path(path) if path else "")

    def _target(self, path: str) -> str:
        return os.path.join(self.folder, *path.split("/")) if path else self.folder

    @contextlib.contextmanager
    def _reading(self, path: str) -> Iterator[str]:
        try:
            yield self._target(checked_path(path))
        except _NO_OBJECT:
            raise NotFoundError(f"no object {path} in {self.folder}") from None
        except OSError as error:
            raise _translated(error, path, self.folder) from error

    @contextlib.contextmanager
    def _writing(self, path: str) -> Iterator[str]:
        with self._changing(path) as target:
            self._make_folder(os.path.dirname(target))
            yield target

    @contextlib.contextmanager
    def _changing(self, path: str) -> Iterator[str]:
        try:
            yield self._target(checked_path(path))
        except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
            raise InputError(
                f"{path} cannot be written in {self.folder}: the name of a file and of a folder clash",
                sides={"in the way": str(error.filename)},
                next_step="Choose another name.",
            ) from error
        except OSError as error:
            raise _translated(error, path, self.folder) from error

    @contextlib.contextmanager
    def _locked(self, target: str, *, needed: bool = True) -> Iterator[None]:
        """The lock of one object. Where there are no locks there is no compare-and-swap to protect either."""
        folder, name = os.path.split(target)
        digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked(os.path.join(folder, f"{HIDDEN_PREFIX}{digest}.lock")))
            except UnsupportedError:
                if needed:
                    raise
            yield

    def _replace(self, target: str, chunks: Iterable[bytes], before: os.stat_result | None) -> str:
        with self._half_written(target, chunks, before) as (hidden, etag):
            _forget_checksum(target)
            os.replace(hidden, target)
        self._sync_folder(os.path.dirname(target))
        return etag

    @contextlib.contextmanager
    def _half_written(
        self, target: str, chunks: Iterable[bytes], before: os.stat_result | None
    ) -> Iterator[tuple[str, str]]:
        """A complete file under a hidden name beside the target, gone afterwards."""
        hidden = os.path.join(os.path.dirname(target), f"{HIDDEN_PREFIX}{uuid.uuid4().hex}{_HALF_WRITTEN}")
        try:
            with open(hidden, "xb") as file:
                file.writelines(chunks)
                file.flush()
                # The kernel's clock ticks in milliseconds and numbers of deleted files are given out again, so the
                # time is set here: later than the one before, which is what makes an etag never come back.
                moment = max(time.time_ns(), before.st_mtime_ns + 1 if before else 0)
                os.utime(hidden, ns=(moment, moment))
                if self._sync:
                    os.fsync(file.fileno())
                etag = _etag(os.fstat(file.fileno()))
            yield hidden, etag
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(hidden)

    def _make_folder(self, folder: str) -> None:
        missing: list[str] = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for folder in reversed(missing):
            try:
                os.mkdir(folder)
            except FileExistsError:
                if not os.path.isdir(folder):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder) from None
            self._sync_folder(os.path.dirname(folder))

    def _sync_folder(self, folder: str) -> None:
        """A new name is on disk only when its folder is."""
        if not (self._sync and _CAN_SYNC_FOLDERS):
            return
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _walk(self, folder: str, above: str, start_after: str | None, follow_links: bool) -> Iterator[ObjectMeta]:
        """The files of one folder and of those below, by full path."""
        way_down = [self._visit(folder, above, start_after, follow_links)]
        while way_down:
            _, entries = way_down[-1]
            for path, entry in entries:
                if path.endswith("/"):
                    below = self._visit(entry.path, path, start_after, follow_links)
                    # A symbolic link may lead back up.
                    if below[0] not in (place for place, _ in way_down):
                        way_down.append(below)
                        break
                    continue
                try:
                    status = entry.stat(follow_symlinks=follow_links)
                except FileNotFoundError:  # deleted since
                    continue
                found = _meta(path, status)
                yield found if follow_links or not entry.is_symlink() else replace(found, is_link=True)
            else:
                way_down.pop()

    def _visit(self, folder: str, above: str, start_after: str | None, follow_links: bool) -> _Visit:
        try:
            with os.scandir(folder) as entries:
                found = sorted(_named(entries, above, start_after, follow_links), key=itemgetter(0))
            status = os.stat(folder)
        except (FileNotFoundError, NotADirectoryError):
            return None, iter(())
        except OSError as error:
            raise _translated(error, above, self.folder) from error
        return (status.st_dev, status.st_ino), iter(found)


def _named(
    entries: Iterator[os.DirEntry[str]], above: str, start_after: str | None, follow_links: bool
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Path and entry of what is worth visiting; a folder's path ends in a slash, which also sorts it right."""
    for entry in entries:
        if entry.name.startswith(HIDDEN_PREFIX):
            continue
        path = above + entry.name
        if entry.is_dir(follow_symlinks=follow_links):
            path += "/"
            if start_after is None or path > start_after or start_after.startswith(path):
                yield path, entry
        elif (start_after is None or path > start_after) and (
            entry.is_file() or (entry.is_symlink() and not follow_links)
        ):
            yield path, entry


def _status(target: str) -> os.stat_result | None:
    """The status of a file; None if there is none."""
    try:
        status = os.stat(target)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status if _is_file(status) else None


def _forget_checksum(target: str) -> None:
    folder, name = os.path.split(target)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, f".{name}.crc"))


def _is_file(status: os.stat_result) -> bool:
    return (status.st_mode & 0o170000) == 0o100000


def _etag(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def _meta(path: str, status: os.stat_result) -> ObjectMeta:
    return ObjectMeta(path, status.st_size, status.st_mtime_ns // 1_000_000, _etag(status))


def _translated(error: OSError, path: str, folder: str) -> HaloclineError:
    reason = error.strerror or str(error)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return DeniedError(
            f"{path or 'the folder'} in {folder} may not be used that way: {reason}",
            sides={"file": str(error.filename)},
            next_step="Check the permissions of the file and of its folder.",
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFullError(
            f"{path} cannot be written: {folder} has no room left ({reason})",
            sides={"file": str(error.filename)},
            next_step="Make room on the disk, or raise the quota, and try again.",
        )
    if error.errno in (errno.ENAMETOOLONG, errno.EILSEQ, errno.ELOOP):
        return InputError(f"{path} cannot be a file below {folder}: {reason}", next_step="Choose another name.")
    return UnavailableError(
        f"{path or 'the folder'} in {folder} cannot be reached: {reason}",
        sides={"file": str(error.filename)},
        next_step="Check the disk, then try again.",
    )

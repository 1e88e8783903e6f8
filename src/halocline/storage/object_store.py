"""Objects in a bucket: Amazon S3 and its look-alikes, Google Cloud Storage, Azure Blob Storage and OneLake.

Conditional writes are the service's own (`If-None-Match`, `If-Match`, generations). A look-alike that ignores those
headers overwrites silently, and nothing here can notice: use one that honours them.

Credentials come from the options, or else from the environment as each service's own tools read it, or else from the
machine's or pod's identity. Requests that fail for the moment are tried again for a bounded time.

A conditional write whose answer is lost may have taken effect, and tried again it would be refused because of itself.
Each therefore carries an id of its own in the object's metadata, and before another try the object is asked whose it
is.
"""

from __future__ import annotations

import os
import random
import re
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import obstore
from obstore import exceptions
from obstore.store import from_url

from halocline.errors import (
    AlreadyExistsError,
    ConflictError,
    DeniedError,
    HaloclineError,
    InputError,
    InternalError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from halocline.storage.base import ObjectMeta, Store, checked_folder, checked_path, checked_range, escaped
from halocline.storage.options import CONNECTION, checked
from halocline.storage.options import SERVICES as OPTIONS
from halocline.storage.services import SERVICES

T = TypeVar("T")


_DEFAULTS: Final[Mapping[str, str]] = {
    "connect_timeout": "5s",
    "timeout": "60s",
    "max_retries": "8",
    "retry_timeout": "30",
}
_AT_ONCE = 16
_WRITE_ID = "writeid"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 2.0


class ObjectStore(Store):
    """Objects in a bucket.

    Args:
        url: `s3://bucket/folder`, `gs://bucket/folder`, `az://container/folder` or
            `abfss://container@account.dfs.core.windows.net/folder`, percent-encoded where it must be.
        options: Credentials, region, endpoint and so on, by the names of the client library
            (`aws_access_key_id`, `region`, `endpoint`, `account_key`, …); `allow_http`, `timeout`, `proxy_url` and the
            like for the connection; `max_retries` and `retry_timeout` (seconds).

    Raises:
        InputError: The URL or an option cannot be used.
    """

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        scheme, _, place = url.partition("://")
        bucket, _, folder = place.partition("/")
        self._service = SERVICES[scheme]
        self.options = checked(options)
        folder = checked_folder(unquote(folder))
        self._bucket_url = f"{scheme}://{bucket}"
        self._folder = folder
        self.root = "/".join(filter(None, (self._bucket_url, escaped(folder))))
        self._settings = {**_DEFAULTS, **self.options}
        place = f"{self._service.scheme}://{bucket}/{escaped(folder)}".rstrip("/")
        self._store = self._connect(place, self._settings)
        self._store_without_retries = self._connect(place, {**self._settings, "max_retries": "0"})
        # S3's directory buckets do not sort.
        self._sorted = self._service.sorted_listing and not bucket.endswith("--x-s3")

    def fetch(self, path: str) -> tuple[bytes, ObjectMeta]:
        def action() -> tuple[bytes, ObjectMeta]:
            found = obstore.get(self._store, checked_path(path))
            return bytes(found.bytes()), self._meta(found.meta)

        return self._do(path, action)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        checked_range(path, start, length)
        if length == 0:
            self.head(path)
            return b""
        try:
            return bytes(
                self._do(path, lambda: obstore.get_range(self._store, checked_path(path), start=start, length=length))
            )
        except _PastTheEndError:
            return b""

    def head(self, path: str) -> ObjectMeta:
        return self._do(path, lambda: self._meta(obstore.head(self._store, checked_path(path))))

    def list(
        self, prefix: str = "", *, start_after: str | None = None, follow_links: bool = True
    ) -> Iterator[ObjectMeta]:
        found = self._pages(checked_folder(prefix), start_after)
        return found if self._sorted else iter(sorted(found, key=lambda meta: meta.path))

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        folder = checked_folder(prefix)
        found = self._do(folder, lambda: obstore.list_with_delimiter(self._store, folder or None))
        return tuple(sorted(path.rstrip("/") for path in found["common_prefixes"]))

    def put(self, path: str, data: bytes) -> str:
        return self._do(path, lambda: self._etag(obstore.put(self._store, checked_path(path), data)))

    def put_chunks(self, path: str, chunks: Iterable[bytes]) -> str:
        return self._do(path, lambda: self._etag(obstore.put(self._store, checked_path(path), iter(chunks))))

    def put_if_absent(self, path: str, data: bytes) -> str:
        return self._put_once(checked_path(path), data, "create")

    def put_if_match(self, path: str, data: bytes, etag: str) -> str:
        try:
            return self._put_once(checked_path(path), data, {self._service.etag: etag})
        except (AlreadyExistsError, NotFoundError) as error:  # what some services call a lost race, or no object
            raise self._changed(path) from error

    def move(self, path: str, target: str) -> None:
        try:
            self._do(path, lambda: obstore.copy(self._store, checked_path(path), checked_path(target)))
        except InputError:  # services copy no more than some GiB at once
            self.put(target, self.get(path))
        self.delete(path)

    def delete(self, path: str) -> None:
        try:
            self._do(path, lambda: obstore.delete(self._store, checked_path(path)))
        except NotFoundError:
            return

    def delete_many(self, paths: Iterable[str]) -> None:
        batch = [checked_path(path) for path in paths]
        if not batch:
            return
        try:
            self._do(batch[0], lambda: obstore.delete(self._store, batch))
        except NotFoundError:
            # Services without a bulk call stop at an object that is not there.
            for path in batch:
                self.delete(path)

    def get_many(self, paths: Iterable[str]) -> Iterator[bytes]:
        waiting: deque[Future[bytes]] = deque()
        pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="halocline-get")
        try:
            for path in paths:
                waiting.append(pool.submit(self.get, path))
                if len(waiting) >= 2 * _AT_ONCE:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def address(self, path: str = "") -> str:
        return "/".join(filter(None, (self._bucket_url, self._folder, path and checked_path(path))))

    def __reduce__(self) -> tuple[type[ObjectStore], tuple[str, dict[str, str]]]:
        return ObjectStore, (self.root, dict(self.options))

    def _put_once(self, path: str, data: bytes, mode: Any) -> str:
        """Writes under a condition, and finds out how that ended where the service does not say."""
        write_id = uuid.uuid4().hex
        deadline = time.monotonic() + float(self._settings["retry_timeout"])
        doubt: UnavailableError | None = None
        for attempt in range(int(self._settings["max_retries"]) + 1):
            try:
                return self._do(path, lambda: self._put_with_id(path, data, mode, write_id))
            except UnavailableError as error:
                doubt = error
                if time.monotonic() > deadline:
                    break
                time.sleep(min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S) * random.uniform(0.5, 1.0))
            except (ConflictError, NotFoundError):
                if doubt is None:
                    raise
                if etag := self._etag_if_written_by(write_id, path):
                    return etag
                if mode == "create":
                    raise
                break  # replaced by somebody, and perhaps after this write
        if doubt is not None and (etag := self._etag_if_written_by(write_id, path)):
            return etag
        raise doubt or InternalError(f"{path} in {self.root} was never tried")

    def _put_with_id(self, path: str, data: bytes, mode: Any, write_id: str) -> str:
        attributes: Any = {_WRITE_ID: write_id}
        return self._etag(obstore.put(self._store_without_retries, path, data, mode=mode, attributes=attributes))

    def _etag_if_written_by(self, write_id: str, path: str) -> str | None:
        try:
            found = self._do(path, lambda: obstore.get(self._store, path, options={"head": True}))
        except NotFoundError:
            return None
        attributes: Mapping[Any, str] = found.attributes
        return self._meta(found.meta).etag if attributes.get(_WRITE_ID) == write_id else None

    def _connect(self, url: str, options: Mapping[str, str]) -> Any:
        connection = {key: value for key, value in options.items() if key in CONNECTION}
        if any(endpoint.startswith("http://") for endpoint in self._endpoints()):
            connection.setdefault("allow_http", "true")
        config = {key: str(value) for key, value in options.items() if key in OPTIONS[self._service.options]}
        try:
            retry = {
                "max_retries": int(options["max_retries"]),
                "retry_timeout": timedelta(seconds=float(options["retry_timeout"])),
            }
            connect: Any = from_url
            return connect(url, config=config, client_options=connection, retry_config=retry)
        except (exceptions.BaseError, ValueError, TypeError) as error:
            raise InputError(
                f"{self.root} cannot be opened: {_first_line(error)}",
                sides={"service": self._service.name, "options": ", ".join(sorted(config)) or "none"},
                next_step=f"Give the options of the service, or set {self._service.credentials}.",
            ) from None

    def _endpoints(self) -> Iterator[str]:
        """The endpoints given by name; one without encryption is meant so."""
        for key, value in (*os.environ.items(), *self.options.items()):
            if "ENDPOINT" in key.upper():
                yield str(value).lower()

    def _pages(self, folder: str, start_after: str | None) -> Iterator[ObjectMeta]:
        below = f"{folder}/" if folder else ""
        # A place before the folder is before all of it; one after it leaves nothing.
        if start_after is not None and not start_after.startswith(below):
            if start_after > below:
                return
            start_after = None
        pages = iter(obstore.list(self._store, folder or None, offset=start_after or None))
        while (page := self._do(folder, lambda: next(pages, None))) is not None:
            for found in page:
                path = found["path"]
                # A folder's own marker object comes without its final slash.
                if path.startswith(below) and path != folder and (start_after is None or path > start_after):
                    yield self._meta(found)

    def _meta(self, found: Mapping[str, Any]) -> ObjectMeta:
        modified_ms = int(found["last_modified"].timestamp() * 1000)
        return ObjectMeta(found["path"], found["size"], modified_ms, found.get(self._service.etag))

    def _etag(self, result: Mapping[str, Any]) -> str:
        return str(result[self._service.etag])

    def _do(self, path: str, action: Callable[[], T]) -> T:
        try:
            return action()
        except (exceptions.BaseError, FileNotFoundError, PermissionError) as error:
            raise self._translated(path, error) from None
        except ValueError as error:  # the client library takes no control characters and no broken Unicode
            raise InputError(
                f"{path!r} cannot name an object in {self.root}",
                sides={"reason": _first_line(error)},
                next_step="Choose another name.",
            ) from None

    def _translated(self, path: str, error: Exception) -> HaloclineError:
        reason = str(error)
        if "NoSuchBucket" in reason or "ContainerNotFound" in reason:
            return NotFoundError(
                f"there is no bucket {self._bucket_url}", next_step="Create the bucket, or correct the URL."
            )
        if isinstance(error, FileNotFoundError):
            return NotFoundError(f"no object {path} in {self.root}")
        if isinstance(error, exceptions.AlreadyExistsError):
            return AlreadyExistsError(f"{path} already exists in {self.root}")
        if isinstance(error, exceptions.PreconditionError):
            return self._changed(path)
        if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError | PermissionError):
            return DeniedError(
                f"{self._service.name} refuses access to {self.address(path)}",
                sides={"service": _first_line(error)},
                next_step=f"Check the rights of the identity in use ({self._service.credentials}).",
            )
        if isinstance(error, exceptions.InvalidPathError):
            return UnsupportedError(
                f"{self.root} holds an object whose name cannot be used",
                sides={"name": _first_line(error)},
                next_step="Rename or delete that object with the tools of the service.",
            )
        if _NO_CREDENTIALS.search(reason):
            return DeniedError(
                f"there are no credentials for {self.root}",
                condition="CREDENTIALS_MISSING",
                sides={"tried": f"options, environment, identity of this machine ({_first_line(error)})"},
                next_step=f"Set {self._service.credentials}, or give the options of the same names in lower case.",
            )
        if status := _REFUSED.search(reason):
            if status["code"] == "416":
                return _PastTheEndError(f"{path} in {self.root} ends before")
            return InputError(
                f"{self._service.name} cannot do this with {self.address(path)}",
                sides={"service": _first_line(error)},
                next_step="Check the region, the endpoint and the name of the bucket.",
            )
        return UnavailableError(
            f"{self.root} cannot be reached",
            sides={"service": _first_line(error)},
            next_step="Check the network and the endpoint, then try again.",
        )


class _PastTheEndError(InputError):
    """A range that begins where the object has ended."""


_NO_CREDENTIALS = re.compile(r"//169\.254\.|/latest/api/token|/latest/meta-data/|//metadata\.google|token request")
_REFUSED = re.compile(r"status code: (?P<code>3\d\d|4(?!08|29)\d\d)\b")
_QUERY = re.compile(r"\?\S+")


def _first_line(error: Exception) -> str:
    """What the client library says, without the body of the answer and the queries of URLs, which may hold secrets."""
    line = str(error).split("\n", 1)[0].split("<?xml", 1)[0].split(": <", 1)[0]
    return _QUERY.sub("?…", line).strip().rstrip(":")

"""From a place as people write it to a store.

    lake/orders, /data/lake           a local folder, every character as it is
    file:///data/lake, file:/data     a local folder
    s3://bucket/lake (s3a, s3n)       Amazon S3 and its look-alikes
    gs://bucket/lake (gcs)            Google Cloud Storage
    az://container/lake               Azure Blob Storage
    abfss://container@account.dfs.core.windows.net/lake (abfs)
    memory://name/lake                this process

URLs are percent-decoded, plain paths are not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import unquote

from halocline.errors import InputError, UnsupportedError
from halocline.storage.base import Store
from halocline.storage.local import LocalStore
from halocline.storage.memory import MemoryStore
from halocline.storage.services import SERVICES

# A scheme has at least two letters, so that a drive letter is none; names may hold colons, so `//` must follow.
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<host>[^/]*)/*(?P<folder>.*)", re.DOTALL)
_FILE = re.compile(r"file:(//(?P<host>[^/]*))?(?P<folder>/.*)", re.DOTALL | re.IGNORECASE)
_KNOWN = "a local path, file://, s3://, gs://, az://, abfss:// or memory://"


def open_store(url: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> Store:
    """The store at a place; nothing is read or created yet.

    Args:
        url: A local path or a URL.
        options: For object stores, see `ObjectStore`; the environment gives what is missing.

    Raises:
        InputError: The place cannot be one, or an option cannot be used.
        UnsupportedError: No store is known for that kind of URL.

    Example:
        >>> open_store("memory://demo/lake")
        MemoryStore('memory://demo/lake')
    """
    text = os.fspath(url)
    if not text or "\0" in text:
        raise InputError(f"{text!r} is no place for a table", next_step=f"Give {_KNOWN}.")
    if found := _FILE.fullmatch(text):
        if found["host"] not in (None, "", "localhost"):
            raise UnsupportedError(
                f"{text} is on another host",
                sides={"host": found["host"]},
                next_step="Mount it and give the local path; a file URL on this host has three slashes.",
            )
        return LocalStore("/" + unquote(found["folder"], errors="surrogateescape").lstrip("/"))
    found = _URL.fullmatch(text)
    if found is None:
        return LocalStore(text)
    scheme, host, folder = found["scheme"].lower(), found["host"], found["folder"].rstrip("/")
    if scheme == "memory":
        return MemoryStore(unquote(host) or None, unquote(folder))
    if scheme not in SERVICES:
        raise UnsupportedError(
            f"no store is known for {text}",
            sides={"scheme": f"{scheme}://", "known": _KNOWN},
            next_step="Give the place by one of the known kinds.",
        )
    if not host:
        raise InputError(f"{text} names no bucket", next_step=f"Give {scheme}://BUCKET/FOLDER.")
    from halocline.storage.object_store import ObjectStore  # only buckets need the client library

    return ObjectStore(f"{scheme}://{host}/{folder}".rstrip("/"), options)

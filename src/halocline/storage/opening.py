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
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from halocline.addresses import has_secrets
from halocline.errors import InputError, UnsupportedError
from halocline.storage.base import Store
from halocline.storage.local import LocalStore
from halocline.storage.location import STORES, Location
from halocline.storage.memory import MemoryStore
from halocline.storage.options import checked
from halocline.storage.services import SERVICES

_CREDENTIALS: Final = (
    "Give them as options of the store, or in the environment; a ? that is part of a name is written %3F."
)


def open_store(url: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> Store:
    """The store at a place; nothing is read or created yet.

    Args:
        url: A local path or a URL.
        options: For object stores, see `halocline.storage.options`; the environment gives what is missing.

    Raises:
        InputError: The place cannot be one, or an option cannot be used.
        UnsupportedError: No store is known for that kind of URL.

    Example:
        >>> open_store("memory://demo/lake")
        MemoryStore('memory://demo/lake')
    """
    options = checked(options)
    if has_secrets(os.fspath(url)):
        raise InputError(
            f"the URL {os.fspath(url)} carries credentials, which are not taken from there",
            sides={"given": "credentials before an @, or in a query", "expected": "the place alone"},
            next_step=_CREDENTIALS,
        )
    location = Location.parse(url)
    if location.is_local:
        return LocalStore(f"/{location.path}")
    # The rest keeps its spelling: it is how other programs reach the same place.
    text = os.fspath(url)
    scheme, _, place = text.partition(":")
    host, _, folder = place.removeprefix("//").partition("/")
    scheme, folder = scheme.lower(), folder.strip("/")
    if scheme == "memory":
        return MemoryStore(unquote(host) or None, unquote(folder))
    if scheme not in SERVICES:
        raise UnsupportedError(
            f"no store is known for {text}",
            sides={"scheme": f"{scheme}:", "known": STORES},
            next_step="Give the place by one of the known kinds.",
        )
    if not host:
        raise InputError(f"{text} names no bucket", next_step=f"Give {scheme}://BUCKET/FOLDER.")
    from halocline.storage.object_store import ObjectStore  # only buckets need the client library

    return ObjectStore(f"{scheme}://{host}/{folder}".rstrip("/"), options)

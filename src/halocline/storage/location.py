"""Where something lies, in one spelling, so that two places can be compared.

The same place is spelt in many ways: `s3a://` and `s3://`, `wasbs://` and `abfss://`, a path and a `file:` URL with one
slash, three slashes or `localhost`, dots and doubled slashes on the way, escapes or none. A *location* is what they
have in common: the service, the bucket, and the name in it. It is for comparing only. What is opened, shown or written
keeps the spelling that it came with.

Dots are taken out by the text, as RFC 3986 and Hadoop do it. On local disks `real` also follows symbolic links, as far
as this machine knows them. The limits: two names for one bucket stay two locations, and so do `az://`, which does not
name its account, and `abfss://`, which does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

from halocline.addresses import unsigned
from halocline.errors import InputError, UnsupportedError
from halocline.storage.base import escaped

LOCAL: Final = "file"
STORES: Final = "a local path, file://, s3://, gs://, az://, abfss:// or memory://"
"""The kinds of place that there is a store for, for messages."""

_SCHEMES: Final[Mapping[str, str]] = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfs": "abfss",
    "wasb": "abfss",
    "wasbs": "abfss",
}
# A scheme has at least two letters, so that a drive letter is none. A single slash names no authority.
_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?://(?P<authority>[^/]*))?(?P<path>/.*)?", re.DOTALL)


class Location(NamedTuple):
    """A place in its one spelling.

    Attributes:
        scheme: The service; schemes that mean the same are one.
        authority: The bucket, or the container and its account; empty on local disks.
        path: The name there, not escaped: segments joined by `/`, none of them empty, `.` or `..`.
    """

    scheme: str
    authority: str
    path: str

    @staticmethod
    def parse(place: str | os.PathLike[str]) -> Location:
        """The location of a place as people write it: a URL, percent-decoded, or a local path, which is not."""
        text = os.fspath(place)
        if not text or "\0" in text:
            raise InputError(f"{text!r} is no place for a table", next_step=f"Give {STORES}.")
        found = _URL.fullmatch(text)
        # Names may hold colons, so a URL needs a slash behind its own, as in `file:/x` and `dbfs:/x`.
        if found is None or (found["authority"] is None and not found["path"]):
            return Location(LOCAL, "", without_dots(os.path.abspath(text)))
        return _of(found, unquote(found["path"] or "", errors="surrogateescape"))

    @staticmethod
    def of_decoded(url: str) -> Location | None:
        """The location of a URL that is not escaped; None if it is not a URL."""
        found = _URL.fullmatch(url)
        return None if found is None or not (found["path"] or found["authority"]) else _of(found, found["path"] or "")

    @property
    def url(self) -> str:
        """The place as a URL, escaped."""
        return f"{self.scheme}://{self.authority}/{escaped(self.path)}".rstrip("/")

    @property
    def is_local(self) -> bool:
        """Whether it lies on a disk of this machine."""
        return self.scheme == LOCAL

    def below(self, folder: Location) -> str | None:
        """The name of this place below a folder; None if it does not lie there."""
        if self[:2] != folder[:2]:
            return None
        above = f"{folder.path}/" if folder.path else ""
        return self.path[len(above) :] if self.path.startswith(above) and len(self.path) > len(above) else None

    def real(self) -> Location:
        """The place behind all symbolic links, on local disks; the same place elsewhere."""
        return self if not self.is_local else Location(LOCAL, "", os.path.realpath(f"/{self.path}").lstrip("/"))


def public_url(place: str | os.PathLike[str]) -> str:
    """The one spelling of a place as a fleet knows it: without the secrets of its URL, which name no other place.

    Example:
        >>> public_url("s3a://KEY:SECRET@lake/orders/")
        's3://lake/orders'
    """
    return Location.parse(unsigned(os.fspath(place))).url


def without_dots(path: str) -> str:
    """A path without empty segments and dots, and without a slash at its ends; `..` does not lead above the top."""
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return "/".join(kept)


def _of(found: re.Match[str], path: str) -> Location:
    given = found["scheme"].lower()
    scheme, authority = _SCHEMES.get(given, given), found["authority"] or ""
    if scheme == LOCAL:
        if authority.lower() not in ("", "localhost"):
            raise UnsupportedError(
                f"{found[0]} is on another host",
                sides={"host": authority},
                next_step="Mount it and give the local path; a file URL on this host has three slashes.",
            )
        authority = ""
    container, at, host = authority.rpartition("@")
    if at:
        # An account has one end point for blobs and one for its hierarchy of folders.
        authority = f"{container}@{host.lower().replace('.blob.', '.dfs.')}"
    return Location(scheme, authority, without_dots(path))

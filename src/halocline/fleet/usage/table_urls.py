"""One spelling for the place of a table, so that everybody who uses it is found under the same name.

Programs spell the same place differently: `s3a://` and `s3://`, a path and a `file:` URL, a slash at the end or none.
Fleets know tables by the spelling that `canonical` gives. The limit: two names for one bucket, and links inside a file
system, stay two places.
"""

from __future__ import annotations

from typing import Final

from halocline.storage import open_store
from halocline.storage.services import SERVICES

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}


def canonical(place: str) -> str:
    """The one spelling of a place.

    Raises:
        InputError: It cannot be a place.
        UnsupportedError: No store is known for that kind of URL.

    Example:
        >>> canonical("s3a://lake/orders/"), canonical("file:/lake/my%20orders")
        ('s3://lake/orders', 'file:///lake/my%20orders')
    """
    scheme, found, rest = place.partition("://")
    scheme = scheme.lower()
    if found and scheme in SERVICES and rest.strip("/"):
        return f"{_SCHEMES.get(scheme, scheme)}://{rest.rstrip('/')}"
    return open_store(place).root

"""The services that keep buckets, and what differs between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Service:
    """What differs between the services.

    Attributes:
        name: What people call it.
        scheme: The scheme that the client library knows it by.
        credentials: How to give it credentials, for the message that there are none.
        options: The service whose options it takes.
        sorted_listing: Whether its listings come sorted by the whole path.
        etag: The field of an object's description that `put_if_match` goes by.
    """

    name: str
    scheme: str
    credentials: str
    options: str
    sorted_listing: bool = True
    etag: str = "e_tag"


_AMAZON = Service("Amazon S3", "s3", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "s3")
_GOOGLE = Service("Google Cloud Storage", "gs", "GOOGLE_APPLICATION_CREDENTIALS", "gs", etag="version")
# Accounts with a hierarchical namespace list folder by folder, where `a-b` comes after `a/b`.
_AZURE = Service(
    "Azure Blob Storage", "az", "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY", "az", sorted_listing=False
)
_AZURE_ACCOUNT_IN_URL = Service(_AZURE.name, "abfss", "AZURE_STORAGE_ACCOUNT_KEY", "az", sorted_listing=False)

SERVICES: Final[Mapping[str, Service]] = {
    "abfs": _AZURE_ACCOUNT_IN_URL,
    "abfss": _AZURE_ACCOUNT_IN_URL,
    "az": _AZURE,
    "gcs": _GOOGLE,
    "gs": _GOOGLE,
    "s3": _AMAZON,
    "s3a": _AMAZON,
    "s3n": _AMAZON,
}
"""URL schemes and the service each means."""

"""Shallow clones: a new table whose first version refers to another table's files.

Paths become absolute, and so do the paths of deletion vectors, so that the clone reads the source's files where they
are. It owns none of them: vacuuming the source breaks the clone, vacuuming the clone never touches the source. From
its second version on it lives its own life.

The clone has the source's schema, properties and protocol, less what only a catalog can give, and an id of its own.
Its rows get row ids of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

from msgspec.structs import replace as with_fields

from halocline.formats.delta import row_tracking
from halocline.formats.delta.actions import Action, Add, DeletionVector
from halocline.formats.delta.deletion_vectors import file_path
from halocline.formats.delta.file_actions import adds_from, encoded_path
from halocline.formats.delta.locations import is_absolute
from halocline.formats.delta.protocol_action import action_of
from halocline.formats.delta.snapshot import Snapshot

_CATALOG_ONLY: Final = ("catalogManaged", "catalogOwned-preview")
_CATALOG_PREFIXES: Final = ("io.unitycatalog.", "delta.coordinatedCommits.")


def shallow_clone(source: Snapshot, *, now_ms: int) -> tuple[Action, ...]:
    """The first commit of a clone: protocol, metadata, domains and every live file by its absolute path.

    Args:
        source: The version to clone.
        now_ms: The present.
    """
    protocol = source.protocol
    for name in _CATALOG_ONLY:
        if protocol.supports(name):
            protocol = type(protocol).of("delta", protocol.features - {name})
    configuration = {key: value for key, value in source.configuration.items() if not key.startswith(_CATALOG_PREFIXES)}
    metadata = replace(
        source.metadata, id=str(uuid.uuid4()), configuration=configuration, created_time=now_ms, name=None
    )
    domains = (domain for name, domain in source.domains.items() if name != row_tracking.DOMAIN)
    return (action_of(protocol), metadata, *domains, *_files(source))


def parameters(source: Snapshot) -> dict[str, Any]:
    """The parameters of the operation `CLONE`."""
    return {"source": source.store.root, "sourceVersion": source.version, "isShallow": True}


def _files(source: Snapshot) -> Iterator[Add]:
    for add in adds_from(source.files(), data_change=True):
        vector = None if add.deletion_vector is None else _absolute_vector(source, add.deletion_vector)
        yield with_fields(
            add,
            path=_absolute(source, unquote(add.path)),
            deletion_vector=vector,
            base_row_id=None,
            default_row_commit_version=None,
        )


def _absolute(source: Snapshot, path: str) -> str:
    # The root is escaped already; a decoded path is not.
    return encoded_path(path) if is_absolute(path) else f"{source.store.root}/{encoded_path(path)}"


def _absolute_vector(source: Snapshot, vector: DeletionVector) -> DeletionVector:
    if vector.storage_type == "i":
        return vector
    path = _absolute(source, file_path(source.store, vector))
    return with_fields(vector, storage_type="p", path_or_inline_dv=path)

"""Shallow clones: a new table that begins with the files of another one, where they are.

The clone has its own log. Whatever happens to it later leaves the source alone, and the other way round, with one
exception: files that a vacuum deletes from the source are gone for the clone, too. Row ids begin anew; everything else
(columns, properties, constraints, clustering) is taken over, with the protocol that the source has.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import InputError
from halocline.formats.base import TableFormat
from halocline.formats.delta.actions.action import Action, Add
from halocline.formats.delta.actions.deletion_vectors import file_path
from halocline.formats.delta.actions.locations import absolute_path, is_absolute, locate
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import system_clock
from halocline.formats.delta.configuration import alter, clustering, properties
from halocline.formats.delta.configuration.constraints import checks
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.features import row_ids
from halocline.formats.delta.features.approval import approve_change
from halocline.formats.delta.log.file_actions import adds_from
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage import open_store
from halocline.storage.base import Store
from halocline.table.delta.opened import Opened
from halocline.table.opening import Moment, as_operation

_NOT_TAKEN_OVER: Final = ("delta.coordinatedCommits.", "io.unitycatalog.tableId", "delta.rowTracking.")
_NOT_TAKEN_FEATURES: Final = ("catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview")


@as_operation
def shallow_clone(
    table: Opened,
    path: str | os.PathLike[str],
    *,
    version: int | None = None,
    timestamp: Moment | None = None,
    properties: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> Opened:
    """Creates a table that begins with the rows of this one, without copying them.

    Args:
        table: The table.
        path: Where the new table is to be; there must be none yet.
        version: The version to clone; the newest if neither it nor a time is given.
        timestamp: A time; the version that held then.
        properties: Properties that the clone has besides, or with other values.
        options: Options of the new table's store.

    Raises:
        AlreadyExistsError: There is a table at that place.
        IncompatibleError: The release that acts may not read the source or write the clone.

    Example:
        >>> Table.for_path("lake/orders").shallow_clone("lake/try-out").version  # doctest: +SKIP
        0
    """
    source = table.snapshot(version=version, timestamp=timestamp)
    store = open_store(path, options)
    clone = Opened(store, table.session, table.settings)
    clone.is_taken(TableFormat.DELTA)
    state = _state(source, dict(properties or {}))
    approve_change(None, state, clone.approve)
    files = source.files()
    domains = [domain for name, domain in source.domains.items() if name == clustering.DOMAIN]
    actions: list[Action] = [*domains, *_adds(source, files)]
    metrics = {"sourceTableSize": pc.sum(files["size"]).as_py() or 0, "sourceNumOfFiles": len(files)}
    metrics |= dict.fromkeys(("numRemovedFiles", "numCopiedFiles", "removedFilesSize", "copiedFilesSize"), 0)
    parameters = {"source": f"delta.`{table.url}`", "sourceVersion": source.version}
    clone.transaction().commit(actions, CommitDescription("CLONE", parameters, metrics), configuration=state)
    return clone


def _state(source: Snapshot, asked: Mapping[str, str]) -> TableConfiguration:
    """The source's state under a new id, with other properties where asked."""
    kept = {key: value for key, value in source.properties.items() if not key.startswith(_NOT_TAKEN_OVER)}
    if properties.flag(kept, row_ids.ENABLED):
        # Ids that the source keeps inside of its files belong to the source: other columns hold those of the clone.
        kept |= row_ids.materialised_columns()
    own, now = str(uuid.uuid4()), system_clock()
    metadata = replace(source.metadata, id=own, name=None, created_time=now, configuration=kept)
    protocol = source.protocol
    for name in _NOT_TAKEN_FEATURES:
        if protocol.supports(name):
            protocol = protocol.without_feature(name)
    state = TableConfiguration(protocol, metadata)
    if not asked:
        return state
    if checks({**kept, **asked}) != checks(kept):
        raise InputError(
            "a clone takes the constraints of its source",
            condition="PROPERTY_INVALID",
            sides={"given": ", ".join(asked)},
            next_step="Add the constraint to the clone afterwards, so that its rows are checked.",
        )
    return alter.set_properties(state, asked)


def _adds(source: Snapshot, files: pa.Table) -> Iterator[Add]:
    for path, add in zip(files["path"].to_pylist(), adds_from(files, data_change=True), strict=True):
        changes: dict[str, Any] = {
            "path": _from_elsewhere(source.store, add.path, path),
            "base_row_id": None,
            "default_row_commit_version": None,
        }
        vector = add.deletion_vector
        if vector is not None and vector.storage_type != "i":
            written = vector.path_or_inline_dv if vector.storage_type == "p" else ""
            place = _from_elsewhere(source.store, written, file_path(source.store, vector))
            changes["deletion_vector"] = msgspec.structs.replace(vector, storage_type="p", path_or_inline_dv=place)
        yield msgspec.structs.replace(add, **changes)


def _from_elsewhere(store: Store, written: str, path: str) -> str:
    """How another table names a file of this one: by the URL that its log has for it, if it has one."""
    return written if is_absolute(written) else absolute_path(*locate(store, path))

"""Clones: a new table that begins with the rows of another one.

A *shallow* clone refers to the source's files where they are; a *deep* one has copies. Either has its own log. Whatever
happens to it later leaves the source alone, and the other way round, with one exception: files that a vacuum deletes
from the source are gone for its shallow clones, too. Row ids begin anew; everything else (columns, properties,
constraints, clustering) is taken over, with the protocol that the source has. A clone in place of a table is the next
version of that table, and whatever its protocol required is still required; where the source needs a feature that the
table lacks, the clone is refused unless its properties ask for the feature or writes may raise the protocol.

Files are copied by this process, one after the other and each as a whole through memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import uuid
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from halocline.compat.protocol import Protocol
from halocline.errors import HaloclineError, InputError
from halocline.formats.base import TableFormat
from halocline.formats.delta.actions.action import Action, Add, Remove
from halocline.formats.delta.actions.deletion_vectors import file_path, read_positions, write_file
from halocline.formats.delta.actions.locations import Locations, absolute_path, encoded_path, is_absolute, locate
from halocline.formats.delta.commit.provenance import CommitDescription
from halocline.formats.delta.commit.transaction import system_clock
from halocline.formats.delta.configuration import alter, clustering, properties
from halocline.formats.delta.configuration.column_mapping import (
    MAX_ID,
    MODE,
    mapped,
    mode_of,
    same_name,
    unmapped,
)
from halocline.formats.delta.configuration.constraints import checks
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.formats.delta.features import row_ids
from halocline.formats.delta.features.approval import approve_change, asked_by
from halocline.formats.delta.log.file_actions import adds_from
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.commit import is_refused
from halocline.spark.session.file_system import remove_folder
from halocline.spark.write import beginnings
from halocline.storage import open_store
from halocline.storage.base import Store
from halocline.table.delta.opened import Opened
from halocline.table.delta.rows.changes import removed
from halocline.table.opening import Moment, as_operation

_NOT_TAKEN_OVER: Final = ("delta.coordinatedCommits.", "io.unitycatalog.tableId", "delta.rowTracking.")
_NOT_TAKEN_FEATURES: Final = ("catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview")


class CloneRequest(NamedTuple):
    """What a clone is to be.

    Attributes:
        deep: Copy the files, so that the clone depends on the source no more.
        replace: Put the clone in place of a table that is there, as its next version; else there must be none.
        version: The version to clone; the newest if neither it nor a time is given.
        timestamp: A time; the version that held then.
        properties: Properties that the clone has besides, or with other values.
        options: Options of the new table's store.
    """

    deep: bool = False
    replace: bool = False
    version: int | None = None
    timestamp: Moment | None = None
    properties: Mapping[str, str] | None = None
    options: Mapping[str, str] | None = None


SHALLOW: Final = CloneRequest()


@as_operation
def clone(table: Opened, path: str | os.PathLike[str], asked: CloneRequest = SHALLOW) -> Opened:
    """Creates a table that begins with the rows of this one.

    Raises:
        AlreadyExistsError: There is a table at that place.
        InputError: The table in whose place it comes lacks a feature of the source that was not asked for.
        IncompatibleError: The release that acts may not read the source or write the clone.

    Example:
        >>> Table.for_path("lake/orders").shallow_clone("lake/try-out").version  # doctest: +SKIP
        0
    """
    source = table.snapshot(version=asked.version, timestamp=asked.timestamp)
    made = Opened(open_store(path, asked.options), table.session, table.settings)
    before = made.snapshot("write") if made.is_taken(TableFormat.DELTA, exist_ok=asked.replace) else None
    state = _state(source, dict(asked.properties or {}))
    if before is None:
        approve_change(None, state, made.approve)
    else:
        state = _in_place_of(before, state)
        wanted = None if made.settings.auto_upgrade else asked_by(asked.properties or {}, before.protocol)
        approve_change(before.configuration, state, made.approve, asked=wanted)
    transaction = made.transaction(before)
    gone = [] if before is None else removed(transaction.files())
    files = source.files()
    domains = [domain for name, domain in source.domains.items() if name == clustering.DOMAIN]
    if before is not None and not domains and clustering.DOMAIN in before.domains:
        domains = [msgspec.structs.replace(before.domains[clustering.DOMAIN], removed=True)]
    with _Copies(source.store, made.store, is_first=before is None) as copies:
        adds = [copies.copied(*each) if asked.deep else _linked(source, *each) for each in _adds(files)]
        if before is not None:
            gone, adds = _exchanged(gone, adds, before.replay.locations)
        metrics = {
            "sourceTableSize": pc.sum(files["size"]).as_py() or 0,
            "sourceNumOfFiles": len(files),
            "numRemovedFiles": len(gone),
            "numCopiedFiles": len(adds) if asked.deep else 0,
            "removedFilesSize": sum(each.size or 0 for each in gone),
            "copiedFilesSize": sum(add.size for add in adds) if asked.deep else 0,
        }
        parameters = {"source": f"delta.`{table.url}`", "sourceVersion": source.version}
        said = CommitDescription("CLONE", parameters, metrics)
        actions: list[Action] = [*domains, *gone, *adds]
        try:
            transaction.commit(actions, said, configuration=state)
        except BaseException as error:
            copies.are_open = not is_refused(error)
            raise
        copies.kept = True
    return made


def _state(source: Snapshot, asked: Mapping[str, str]) -> TableConfiguration:
    """The source's state under a new id, with other properties where asked."""
    kept = {key: value for key, value in source.properties.items() if not key.startswith(_NOT_TAKEN_OVER)}
    if properties.flag(kept, row_ids.ENABLED):
        # Ids that the source keeps inside of its files belong to the source: other columns hold those of the clone.
        kept |= row_ids.materialised_columns()
    own, now = str(uuid.uuid4()), system_clock()
    metadata = dataclasses.replace(source.metadata, id=own, name=None, created_time=now, configuration=kept)
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


def _in_place_of(before: Snapshot, clone: TableConfiguration) -> TableConfiguration:
    """The clone's state as the next one of a table: same id, the same columns of row ids, no column id given twice."""
    own = {key: value for key, value in before.properties.items() if key in (row_ids.ID_COLUMN, row_ids.VERSION_COLUMN)}
    configuration = {**clone.metadata.configuration, **own}
    schema = clone.metadata.schema
    highest = [properties.count(each, MAX_ID) or 0 for each in (configuration, before.metadata.configuration)]
    if MAX_ID in configuration or MAX_ID in before.properties:
        configuration[MAX_ID] = str(max(highest))
    if (mode_of(before.properties), mode_of(configuration)) == ("name", "none"):
        # A table stays mapped. The files know columns by the names that they have in the source.
        configuration[MODE] = "name"
        schema, configuration = mapped(unmapped(schema), configuration, same_name)
    metadata = clone.metadata.with_schema(schema)
    metadata = dataclasses.replace(metadata, id=before.metadata.id, configuration=configuration)
    # What version numbers of the source stand for, and nothing of it uses, the table need not support.
    needed = (clone.protocol.features - clone.protocol.implied) | clone.protocol.enabled(clone.facts)
    protocol = before.protocol.merged(Protocol.of("delta", needed - before.protocol.features))
    return TableConfiguration(protocol, metadata, clone.reasons)


def _exchanged(gone: list[Remove], adds: list[Add], locations: Locations) -> tuple[list[Remove], list[Add]]:
    """What to take out and put in, less the files that stay: a clone of the same source has them already."""

    def key(file: Add | Remove) -> tuple[str, str | None]:
        vector = file.deletion_vector
        return locations.decode(file.path), None if vector is None else locations.vector_id(vector)

    stay = {key(each) for each in gone} & {key(each) for each in adds}
    return [each for each in gone if key(each) not in stay], [each for each in adds if key(each) not in stay]


def _adds(files: pa.Table) -> Iterator[tuple[str, Add]]:
    """The files as the clone has them: row ids begin anew."""
    for path, add in zip(files["path"].to_pylist(), adds_from(files, data_change=True), strict=True):
        yield path, msgspec.structs.replace(add, base_row_id=None, default_row_commit_version=None)


def _linked(source: Snapshot, path: str, add: Add) -> Add:
    """A file of the source, where it is."""
    add = msgspec.structs.replace(add, path=_from_elsewhere(source.store, add.path, path))
    vector = add.deletion_vector
    if vector is None or vector.storage_type == "i":
        return add
    written = vector.path_or_inline_dv if vector.storage_type == "p" else ""
    place = _from_elsewhere(source.store, written, file_path(source.store, vector))
    moved = msgspec.structs.replace(vector, storage_type="p", path_or_inline_dv=place)
    return msgspec.structs.replace(add, deletion_vector=moved)


class _Copies:
    """Copies of files in a folder of their own, which are deleted again unless they are kept.

    They stay, and so does the note of them, while it is open whether they belong to a table.
    """

    def __init__(self, source: Store, target: Store, *, is_first: bool) -> None:
        self._source, self._target = source, target
        self._folder = uuid.uuid4().hex
        self._places: list[str] = []
        self._noted: list[str] = []
        self._is_first = is_first
        self.kept = False
        self.are_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.are_open:
            return
        if not self.kept:
            with contextlib.suppress(HaloclineError, OSError):
                self._target.delete_many(self._places)
                remove_folder(self._target, self._folder)
        if self._is_first:
            beginnings.forget(self._target, None if self.kept else self._noted)

    def copied(self, path: str, add: Add) -> Add:
        """A file of the source, copied."""
        store, inner = locate(self._source, path)
        place = f"{self._folder}/{_inner(path)}"
        self._note(self._folder)
        self._target.put_if_absent(place, store.get(inner))
        self._places.append(place)
        vector = add.deletion_vector
        if vector is not None and vector.storage_type != "i":
            (vector,) = write_file(self._target, [read_positions(self._source, vector)])
            self._places.append(file_path(self._target, vector))
            self._note(self._places[-1])
        return msgspec.structs.replace(add, path=encoded_path(place), deletion_vector=vector)

    def _note(self, name: str) -> None:
        if self._is_first and name not in self._noted:
            self._noted.append(name)
            beginnings.note(self._target, name)


def _inner(path: str) -> str:
    """The name of a file with the folders of its partition, unlike that of any other file."""
    *folders, name = path.rsplit("://", 1)[-1].split("/")
    return "/".join([*(each for each in folders if "=" in each), f"{uuid.uuid4().hex[:8]}-{name}"])


def _from_elsewhere(store: Store, written: str, path: str) -> str:
    """How another table names a file of this one: by the URL that its log has for it, if it has one."""
    return written if is_absolute(written) else absolute_path(*locate(store, path))

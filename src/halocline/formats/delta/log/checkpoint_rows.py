"""The contents of a checkpoint to be written: the state of one version, a batch at a time.

The previous checkpoint streams through: its rows come in batches and go out in batches, less those on which a later
commit has the last word. Only the names in those later commits are held in memory. Files keep the spelling of their
paths, since some readers compare paths as they are written.

Left out are tombstones past their retention, transactions past theirs if the table sets one, removed domains, and
whatever a checkpoint never holds: provenance, change data, actions that are not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.delta.actions.action import (
    Action,
    Add,
    DeletionVector,
    DomainMetadata,
    Remove,
    Txn,
    decode_lines,
    malformed,
)
from halocline.formats.delta.actions.protocol import protocol_of
from halocline.formats.delta.configuration.column_mapping import mode_of
from halocline.formats.delta.configuration.properties import TableProperties
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.log import checkpoint_schema
from halocline.formats.delta.log.commits import Key, key_of
from halocline.formats.delta.log.header import TableHeader, header_of
from halocline.formats.delta.log.live_files import decoded_paths, typed
from halocline.formats.delta.log.replay import Replay
from halocline.formats.delta.log.table_size import Tally
from halocline.formats.delta.stats import json_writer, typed_columns

BATCH: Final = 32_768
"""How many files are held as Arrow at a time."""


@dataclass(frozen=True)
class AddForm:
    """How the column `add` is written for one table.

    Attributes:
        type: Its Arrow type.
        as_text: Whether statistics are written as JSON text.
        stats: The type of `stats_parsed`; None if it is not written.
        partitions: The type of `partitionValues_parsed`; None if it is not written.
        zoneless: Physical paths of columns whose timestamps have no zone.
    """

    type: Any
    as_text: bool
    stats: Any
    partitions: Any
    zoneless: frozenset[tuple[str, ...]]

    @staticmethod
    def of(header: TableHeader) -> AddForm:
        """The form that a table's properties ask for."""
        metadata, asked = header.metadata, TableProperties(header.metadata.configuration)
        as_text = asked.stats_as_json
        more: list[tuple[str, Any]] = [("stats", pa.string())] if as_text else []
        stats = partitions = None
        schema = Schema.of(metadata.schema, mode_of(asked))
        zoneless = frozenset(column.physical for column in schema.walk() if column.type.name == "timestamp_ntz")
        if asked.stats_as_struct:
            columns = schema.partition_columns(metadata.partition_columns)
            vectors = header.protocol_action is not None and header.protocol.supports("deletionVectors")
            stats = typed_columns.stats_type(schema, asked, metadata.partition_columns, vectors=vectors)
            partitions = typed_columns.partition_type(columns)
            more += [("partitionValues_parsed", partitions)] if partitions is not None else []
            more += [("stats_parsed", stats)]
        return AddForm(checkpoint_schema.add_type(*more), as_text, stats, partitions, zoneless)


class CheckpointRows:
    """What a checkpoint of one version holds. Run through `adds`, then `removes`, then ask for `others`.

    Attributes:
        header: The protocol and the metadata.
        properties: The table's properties.
        form: How files are written.
        tally: The live files counted so far.
        removes_written: How many tombstones there are so far.
    """

    def __init__(self, replay: Replay, now_ms: int) -> None:
        self._replay = replay
        self._now_ms = now_ms
        self.header = header_of(replay)
        self.properties = TableProperties(self.header.metadata.configuration)
        self.form = AddForm.of(self.header)
        self.tally = Tally()
        self.removes_written = 0
        self._keys: set[Key] = set()
        self._paths: Any = None
        self._removes: list[Remove] = []
        self._txns: dict[str, Txn] = {}
        self._domains: dict[str, DomainMetadata] = {}

    @property
    def others(self) -> tuple[Action, ...]:
        """The actions that are not about files: protocol, metadata, transactions, domains."""
        action = self.header.protocol_action
        if action is None:
            raise malformed(f"version {self.header.version}", "has no protocol, so no checkpoint can be made of it")
        protocol_of(action)
        older = None if self._replay.checkpoint is None else self._replay.checkpoint.others
        txns = ({} if older is None else older.txns) | self._txns
        domains = ({} if older is None else older.domains) | self._domains
        return (
            msgspec.structs.replace(
                action,
                reader_features=action.reader_features if action.min_reader_version >= 3 else None,
                writer_features=action.writer_features if action.min_writer_version >= 7 else None,
            ),
            self.header.metadata,
            *(txn for txn in txns.values() if self._is_live(txn)),
            *(domain for domain in domains.values() if not domain.removed),
        )

    def adds(self) -> Iterator[Any]:
        """The live files, as struct arrays of the type that `form` tells."""
        for adds in self._tail():
            yield self._add_structs(_add_columns(adds))
        self._paths = pa.array({key if isinstance(key, str) else key[0] for key in self._keys}, pa.string())
        checkpoint = self._replay.checkpoint
        if checkpoint is None:
            return
        columns = [field.name for field in checkpoint_schema.ADD if field.name != "dataChange"]
        columns += ["stats", *(["stats_parsed"] if checkpoint.has("stats_parsed") else [])]
        for batch in checkpoint.adds(columns):
            found = self._standing(batch)
            if len(found["path"]):
                yield self._add_structs(found)

    def removes(self) -> Iterator[Any]:
        """The tombstones that are still needed, as struct arrays."""
        oldest = self._now_ms - self.properties.deleted_file_retention_ms
        for start in range(0, len(self._removes), BATCH):
            rows = self._removes[start : start + BATCH]
            kept = [each for each in rows if (each.deletion_timestamp or 0) > oldest]
            if kept:
                self.removes_written += len(kept)
                yield pa.array([_remove_row(each) for each in kept], checkpoint_schema.REMOVE)
        checkpoint = self._replay.checkpoint
        if checkpoint is None:
            return
        columns = [field.name for field in checkpoint_schema.REMOVE]
        for batch in checkpoint.removes(columns):
            found = self._standing(batch)
            times = found.get("deletionTimestamp")
            keep = pc.greater(
                pc.fill_null(pa.nulls(len(found["path"]), pa.int64()) if times is None else times, 0), oldest
            )
            found = {name: array.filter(keep) for name, array in found.items()}
            if len(found["path"]):
                self.removes_written += len(found["path"])
                yield _structs(found, checkpoint_schema.REMOVE, "remove", checkpoint.name)

    def _is_live(self, txn: Txn) -> bool:
        retention = self.properties.transaction_retention_ms
        return retention is None or (txn.last_updated or 0) > self._now_ms - retention

    def _tail(self) -> Iterator[list[Add]]:
        """The files that commits after the previous checkpoint added, newest first: the first word on a file stands."""
        store, cover = self._replay.store, tuple(reversed(self._replay.segment.cover))
        pending: list[Add] = []
        for file, data in zip(cover, store.get_many(each.path for each in cover), strict=True):
            for line in reversed(decode_lines(data, file.name)):
                if line.add is not None:
                    if self._is_first_word(line.add):
                        pending.append(line.add)
                        if len(pending) == BATCH:
                            yield pending
                            pending = []
                elif line.remove is not None:
                    if self._is_first_word(line.remove):
                        self._removes.append(line.remove)
                elif line.txn is not None:
                    self._txns.setdefault(line.txn.app_id, line.txn)
                elif line.domain_metadata is not None:
                    self._domains.setdefault(line.domain_metadata.domain, line.domain_metadata)
        if pending:
            yield pending

    def _is_first_word(self, action: Add | Remove) -> bool:
        locations = self._replay.locations
        key = key_of(locations.decode(action.path), action.deletion_vector, locations)
        if key in self._keys:
            return False
        self._keys.add(key)
        return True

    def _standing(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The rows of the previous checkpoint on which no later commit has the last word."""
        found = dict(batch)
        if not len(self._paths):
            return found
        locations = self._replay.locations
        decoded = decoded_paths(found["path"], locations)
        meets = pc.indices_nonzero(pc.is_in(decoded, value_set=self._paths)).to_pylist()
        gone = {row for row in meets if key_of(decoded[row].as_py(), _vector_at(found, row), locations) in self._keys}
        if not gone:
            return found
        keep = pa.array([row not in gone for row in range(len(decoded))], pa.bool_())
        return {name: array.filter(keep) for name, array in found.items()}

    def _is_parsed(self, stored: Any, texts: Any) -> bool:
        """Whether the previous checkpoint has the structs already, in the form wanted and for every file."""
        return stored is not None and stored.type == self.form.stats and stored.null_count == texts.null_count

    def _add_structs(self, found: Mapping[str, Any]) -> Any:
        name = "the log" if self._replay.checkpoint is None else self._replay.checkpoint.name
        columns = dict(found)
        length = len(columns["path"])
        columns["dataChange"] = pa.repeat(pa.scalar(False), length)
        texts = json_writer.of(columns, self.form.zoneless).cast(pa.string())
        if self.form.as_text:
            columns["stats"] = texts
        if self.form.stats is not None and not self._is_parsed(columns.get("stats_parsed"), texts):
            columns["stats_parsed"] = typed_columns.parsed_stats(texts, self.form.stats)
        if self.form.partitions is not None:
            values = typed(columns["partitionValues"], checkpoint_schema.TEXT_MAP, "add.partitionValues", name)
            columns["partitionValues_parsed"] = typed_columns.parsed_partition_values(values, self.form.partitions)
        structs = _structs(columns, self.form.type, "add", name)
        deleted = structs.field("deletionVector").field("cardinality")
        self.tally = self.tally.with_files(structs.field("size"), deleted)
        return structs


def _structs(found: Mapping[str, Any], type: Any, column: str, name: str) -> Any:
    arrays = []
    for field in type:
        array = found.get(field.name)
        if array is None:
            arrays.append(pa.nulls(len(found["path"]), field.type))
        elif field.name == "deletionVector":
            arrays.append(_vectors(array, f"{column}.deletionVector", name))
        else:
            arrays.append(typed(array, field.type, f"{column}.{field.name}", name))
    return pa.StructArray.from_arrays(arrays, fields=list(type))


def _vectors(array: Any, column: str, name: str) -> Any:
    if array.type == checkpoint_schema.VECTOR:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), checkpoint_schema.VECTOR)
    if not pa.types.is_struct(array.type):
        raise malformed(name, f"has {array.type} in column {column}, expected a struct")
    stored = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    children = [
        typed(stored.get(field.name, pa.nulls(len(array), field.type)), field.type, f"{column}.{field.name}", name)
        for field in checkpoint_schema.VECTOR
    ]
    return pa.StructArray.from_arrays(children, fields=list(checkpoint_schema.VECTOR), mask=pc.is_null(children[0]))


def _vector_at(found: Mapping[str, Any], row: int) -> DeletionVector | None:
    column = found.get("deletionVector")
    stored = None if column is None else column[row].as_py()
    if stored is None or stored.get("storageType") is None:
        return None
    return DeletionVector(
        storage_type=stored["storageType"],
        path_or_inline_dv=stored["pathOrInlineDv"],
        offset=stored.get("offset"),
        size_in_bytes=0,
        cardinality=0,
    )


def _add_columns(adds: Sequence[Add]) -> dict[str, Any]:
    """The adds as columns with their names on disk."""
    fields = {
        "path": "path",
        "size": "size",
        "modificationTime": "modification_time",
        "baseRowId": "base_row_id",
        "defaultRowCommitVersion": "default_row_commit_version",
        "clusteringProvider": "clustering_provider",
    }
    columns = {
        name: pa.array([getattr(each, attribute) for each in adds], checkpoint_schema.ADD.field(name).type)
        for name, attribute in fields.items()
    }
    columns["stats"] = pa.array([each.stats for each in adds], pa.string())
    for name, maps in (
        ("partitionValues", [each.partition_values for each in adds]),
        ("tags", [each.tags for each in adds]),
    ):
        pairs = [None if values is None else list(values.items()) for values in maps]
        columns[name] = pa.array(pairs, checkpoint_schema.TEXT_MAP)
    vectors = [each.deletion_vector and msgspec.to_builtins(each.deletion_vector) for each in adds]
    columns["deletionVector"] = pa.array(vectors, checkpoint_schema.VECTOR)
    return columns


def _remove_row(remove: Remove) -> dict[str, Any]:
    row = msgspec.to_builtins(remove)
    row["dataChange"] = False
    if remove.partition_values is not None:
        row["partitionValues"] = list(remove.partition_values.items())
    return {key: value for key, value in row.items() if key not in ("stats", "tags")}

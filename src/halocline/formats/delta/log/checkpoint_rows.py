"""The contents of a checkpoint to be written: the state of one version, a batch at a time.

The previous checkpoint streams through: its rows come in batches and go out in batches, less those on which a later
commit has the last word. Files keep the spelling of their paths, since some readers compare paths as they are written.

Left out are tombstones past their retention, transactions past theirs if the table sets one, removed domains, and
whatever a checkpoint never holds: provenance, change data, actions that are not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.delta.actions.action import Action, Remove, Txn, malformed
from halocline.formats.delta.actions.protocol import protocol_of
from halocline.formats.delta.configuration.column_mapping import mode_of
from halocline.formats.delta.configuration.properties import TableProperties
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.log import checkpoint_schema
from halocline.formats.delta.log.action_types import TEXT_MAP
from halocline.formats.delta.log.header import TableHeader, header_of
from halocline.formats.delta.log.live_files import ALL, LOG_PATH, from_checkpoint, on_disk, typed, vectors_to_disk
from halocline.formats.delta.log.replay import Replay
from halocline.formats.delta.log.table_size import TableSize
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
        if asked.stats_as_struct:
            columns = schema.partition_columns(metadata.partition_columns)
            vectors = header.protocol_action is not None and header.protocol.supports("deletionVectors")
            stats = typed_columns.stats_type(schema, asked, metadata.partition_columns, vectors=vectors)
            partitions = typed_columns.partition_type(columns)
            more += [("partitionValues_parsed", partitions)] if partitions is not None else []
            more += [("stats_parsed", stats)]
        return AddForm(checkpoint_schema.add_type(*more), as_text, stats, partitions, schema.zoneless)


class CheckpointRows:
    """What a checkpoint of one version holds.

    Attributes:
        header: The protocol and the metadata.
        properties: The table's properties.
        form: How files are written.
        table_size: The live files counted so far.
        removes_written: How many tombstones there are so far.
    """

    def __init__(self, replay: Replay, now_ms: int) -> None:
        self._replay = replay
        self._now_ms = now_ms
        self.header = header_of(replay)
        self.properties = TableProperties(self.header.metadata.configuration)
        self.form = AddForm.of(self.header)
        self.table_size = TableSize()
        self.removes_written = 0

    @property
    def others(self) -> tuple[Action, ...]:
        """The actions that are not about files: protocol, metadata, transactions, domains."""
        action = self.header.protocol_action
        if action is None:
            raise malformed(f"version {self.header.version}", "has no protocol, so no checkpoint can be made of it")
        protocol_of(action)
        return (
            msgspec.structs.replace(
                action,
                reader_features=action.reader_features if action.min_reader_version >= 3 else None,
                writer_features=action.writer_features if action.min_writer_version >= 7 else None,
            ),
            self.header.metadata,
            *(txn for txn in self._replay.txns.values() if self._is_live(txn)),
            *self._replay.domains.values(),
        )

    def adds(self) -> Iterator[Any]:
        """The live files, as struct arrays of the type that `form` tells."""
        checkpoint = self._replay.checkpoint
        for batch in self._replay.tail_files(ALL.names):
            found = on_disk(batch)
            vectors = vectors_to_disk(found["deletionVector"], checkpoint_schema.VECTOR)
            yield self._add_structs(found | {"path": found[LOG_PATH], "deletionVector": vectors})
        if checkpoint is None:
            return
        columns = [field.name for field in checkpoint_schema.ADD if field.name != "dataChange"]
        columns += ["stats", *(["stats_parsed"] if checkpoint.has("stats_parsed") else [])]
        for found in self._replay.visible(checkpoint.adds(columns)):
            yield self._add_structs({**found, "path": found[LOG_PATH]})

    def removes(self) -> Iterator[Any]:
        """The tombstones that are still needed, as struct arrays."""
        oldest = self._now_ms - self.properties.deleted_file_retention_ms
        recent = [each for _, each in self._replay.state.removes if (each.deletion_timestamp or 0) > oldest]
        self.removes_written += len(recent)
        for start in range(0, len(recent), BATCH):
            yield pa.array([_remove_row(each) for each in recent[start : start + BATCH]], checkpoint_schema.REMOVE)
        checkpoint = self._replay.checkpoint
        if checkpoint is None:
            return
        columns = [field.name for field in checkpoint_schema.REMOVE]
        for found in self._replay.visible(checkpoint.removes(columns)):
            rows = _structs({**found, "path": found[LOG_PATH]}, checkpoint_schema.REMOVE, "remove", checkpoint.name)
            rows = rows.filter(pc.greater(pc.fill_null(rows.field("deletionTimestamp"), 0), oldest))
            self.removes_written += len(rows)
            yield rows

    def _is_live(self, txn: Txn) -> bool:
        retention = self.properties.transaction_retention_ms
        return retention is None or (txn.last_updated or 0) > self._now_ms - retention

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
            values = typed(columns["partitionValues"], TEXT_MAP, "add.partitionValues", name)
            columns["partitionValues_parsed"] = typed_columns.parsed_partition_values(values, self.form.partitions)
        structs = _structs(columns, self.form.type, "add", name)
        deleted = structs.field("deletionVector").field("cardinality")
        self.table_size = self.table_size.with_files(structs.field("size"), deleted)
        return structs


def _structs(found: Mapping[str, Any], type: Any, column: str, name: str) -> Any:
    return pa.StructArray.from_arrays(from_checkpoint(found, type, column, name), fields=list(type))


def _remove_row(remove: Remove) -> dict[str, Any]:
    row = msgspec.to_builtins(remove)
    row["dataChange"] = False
    if remove.partition_values is not None:
        row["partitionValues"] = list(remove.partition_values.items())
    return {key: value for key, value in row.items() if key not in ("stats", "tags")}

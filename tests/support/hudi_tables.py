"""Small Hudi tables, made through the writer of the package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from halocline.formats.hudi.avro.from_arrow import avro_schema
from halocline.formats.hudi.blocks.deletes import DeletedKey
from halocline.formats.hudi.configuration import HudiTableConfig, TableType
from halocline.formats.hudi.partition_paths import partition_paths
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.formats.hudi.write.base_writer import with_meta_columns, write_base_file
from halocline.formats.hudi.write.creation import NewTable, create_table
from halocline.formats.hudi.write.log_writer import write_log_file
from halocline.formats.hudi.write.transaction import HudiWrite, begin_write
from halocline.storage.base import Store

COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("name", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("point", pa.struct([("x", pa.int32())])),
    ]
)
KINDS = [(version, type) for version in (6, 8, 9) for type in TableType]
_REGIONS = ("ap", "eu")


def rows(ids: Iterable[int], ts: int, tag: str) -> pa.Table:
    """Rows of the table, one per id."""
    made = [
        {
            "id": f"k{number}",
            "region": _REGIONS[number % 2],
            "ts": ts,
            "name": f"{tag}{number}",
            "amount": Decimal(number * 100 + ts % 100).scaleb(-2),
            "at": datetime(2024, 2, 29, number % 24, tzinfo=UTC),
            "tags": [tag, "x"],
            "point": {"x": number} if number % 3 else None,
        }
        for number in ids
    ]
    return pa.Table.from_pylist(made, COLUMNS)


def shown(batches: Iterable[pa.RecordBatch]) -> list[tuple[str, int, str]]:
    """Rows, for people and for comparing."""
    return sorted((row["id"], row["ts"], row["name"]) for batch in batches for row in batch.to_pylist())


@dataclass
class HudiTableMaker:
    """A table, and writes to it, one file group per partition."""

    store: Store
    config: HudiTableConfig
    schema: str

    @staticmethod
    def create(store: Store, version: int, type: TableType, **options: Any) -> HudiTableMaker:
        schema = avro_schema(COLUMNS, "orders")
        options = {"record_keys": ["id"], "partition_fields": ["region"], "ordering_fields": ["ts"], **options}
        config = create_table(store, NewTable(name="orders", type=type, version=version, schema=schema, **options))
        return HudiTableMaker(store, config, schema)

    @property
    def snapshot(self) -> HudiSnapshot:
        return HudiSnapshot.load(self.store)

    def begin(self, operation: str = "UPSERT") -> HudiWrite:
        merging = self.config.type is TableType.MERGE_ON_READ
        return begin_write(self.store, self.config, "deltacommit" if merging else "commit", operation)

    def upsert(self, ids: Sequence[int], ts: int, tag: str, deletes: Sequence[int] = ()) -> str:
        """Writes rows and deletes others; returns the instant."""
        write = self.begin()
        write.complete(self.write(write, rows(ids, ts, tag), deletes), schema=self.schema)
        return write.time

    def write(self, write: HudiWrite, new: pa.Table, deletes: Sequence[int] = ()) -> list[WriteStat]:
        """Writes files that do not count yet: each row goes where its key is, new keys to a new file group."""
        places = {key: each for each in self.snapshot.slices for key in self._keys(each)}
        gone = {f"k{number}": places[f"k{number}"] for number in deletes}
        paths = partition_paths(new, self.config)
        targets = [places.get(key, path) for key, path in zip(new["id"].to_pylist(), paths, strict=True)]
        stats = []
        for number, target in enumerate(dict.fromkeys([*targets, *gone.values()])):
            partition, held = (target, None) if isinstance(target, str) else (target.partition, target)
            write.prepare_partition(partition)
            chosen = new.filter(pa.array([each == target for each in targets], pa.bool_()))
            keys = [key for key, place in gone.items() if place == target]
            stats.append(self._group(write, partition, chosen, keys, held, f"{number}-1-0"))
        return stats

    def _keys(self, slice: FileSlice) -> list[str]:
        batches = self.snapshot.reader(["id"]).read(self.store, slice)
        return [key for batch in batches for key in batch["id"].to_pylist()]

    def _group(
        self, write: HudiWrite, partition: str, new: pa.Table, deletes: list[str], held: FileSlice | None, token: str
    ) -> WriteStat:
        file_id = held.file_id if held else f"{partition.replace('/', '-') or 'all'}-{write.time}-0"
        marked = with_meta_columns(new, new["id"].combine_chunks(), partition, file_id, write.time)
        if held is not None and self.config.type is TableType.MERGE_ON_READ:
            gone = [DeletedKey(key, partition) for key in deletes]
            layout, instant = self.config.layout, write.time
            return write_log_file(
                self.store, marked, gone, schema=self.schema, slice=held, layout=layout, token=token, instant=instant
            )
        counts = None
        if held is not None:
            old = pa.Table.from_batches(self.snapshot.reader().read(self.store, held), self.snapshot.reader().output)
            changed = pa.array([*new["id"].to_pylist(), *deletes], pa.string())
            kept = old.filter(pc.invert(pc.is_in(old["id"], changed)))
            marked = pa.concat_tables([kept.cast(marked.schema), marked])
            counts = (old.num_rows - kept.num_rows, new.num_rows, len(deletes))
        return write_base_file(
            self.store,
            marked,
            partition=partition,
            file_id=file_id,
            token=token,
            instant=write.time,
            previous=held.instant if held else None,
            counts=counts,
        )

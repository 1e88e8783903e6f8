"""Tables made of loose files, and builders for schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from tests.support import columns

from halocline.schema import Field, Map, Struct


class Lake:
    """A table of loose Parquet files, and the file list that a log would give."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.rows: list[dict[str, Any]] = []
        self.deleted: dict[int, BitMap64] = {}

    def add(
        self,
        path: str,
        content: pa.Table | None = None,
        *,
        values: Mapping[str, str | None] | None = None,
        deleted: Sequence[int] = (),
        base_row_id: int | None = None,
        version: int | None = None,
        listed_as: str | None = None,
        **options: Any,
    ) -> Path:
        target = self.root / path
        if content is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(content, target, **options)
        if deleted:
            self.deleted[len(self.rows)] = BitMap64(deleted)
        self.rows.append(
            {
                "path": listed_as or path,
                "size": target.stat().st_size,
                "partition_values": list((values or {}).items()),
                "base_row_id": base_row_id,
                "default_row_commit_version": version,
            }
        )
        return target

    @property
    def files(self) -> pa.Table:
        schema = {
            "path": pa.string(),
            "size": pa.int64(),
            "partition_values": pa.map_(pa.string(), pa.string()),
            "base_row_id": pa.int64(),
            "default_row_commit_version": pa.int64(),
        }
        return pa.Table.from_pylist(self.rows, pa.schema(schema))

    def scan(self, spark: Any, schema: Struct, **arguments: Any) -> Any:
        from halocline.spark.scan.scan import scan
        from halocline.spark.types.file_layout import FileLayout
        from halocline.storage import open_store

        layout = {key: arguments.pop(key) for key in ("partition_columns", "mapping_mode") if key in arguments}
        store = open_store(arguments.pop("table_url", str(self.root)))
        arguments = {"deleted": self.deleted, **arguments}
        return scan(spark, store, self.files, FileLayout(schema, **layout), **arguments)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "table")


def _field(name: str, type: Any, metadata: Mapping[str, Any] | None = None, nullable: bool = True) -> Field:
    return columns.field(name, type, nullable, metadata)


def _struct(*fields: Field, **named: Any) -> Struct:
    return columns.schema(*fields, *(_field(name, type) for name, type in named.items()))


def _mapped(name: str, type: Any, physical: str, identity: int) -> Field:
    return _field(name, type, {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": identity})


@pytest.fixture(scope="session")
def types() -> Any:
    """Builders for schemas."""

    class Types:
        field = staticmethod(_field)
        struct = staticmethod(_struct)
        mapped = staticmethod(_mapped)
        array = staticmethod(columns.array)

        @staticmethod
        def map(key: Any, value: Any) -> Map:
            return Map(columns.of_type(key), columns.of_type(value))

    return Types


def rows_of(df: Any) -> list[tuple[Any, ...]]:
    """The rows in a fixed order."""
    return sorted((tuple(row) for row in df.collect()), key=lambda row: json.dumps(row, default=str))


@pytest.fixture(scope="session")
def collected() -> Any:
    return rows_of

"""From splits of an index table to a DataFrame of their rows.

Our own splits are Parquet files: Spark's own reader scans exactly those that are live, and never sees their indexes.
Bundles, the splits of IndexTables4Spark, are read by Python workers, one bundle after the other. Deletion masks are
read by the driver, and applied where the rows are.

Splits that cannot hold a row of a condition are left out before Spark sees them, by their partition values and by the
bounds in the log. Of bundles only the bounds of numbers count, for their other forms are not known to be ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyroaring import BitMap64

from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.snapshot.pruning import StatsPruner
from halocline.formats.index.log.actions import SplitAdd
from halocline.formats.index.query.partitions import NULL
from halocline.formats.index.rows import live_rows
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.split.location import below_root
from halocline.formats.index.split.masks import deleted_rows
from halocline.schema.types import Field, Primitive, Struct, decimal_of
from halocline.spark.scan.footers import at_once
from halocline.spark.scan.frames import session_zone
from halocline.spark.scan.row_columns import RowColumns
from halocline.spark.scan.scan import columns_asked_for, columns_spoken_of, scan
from halocline.spark.scan.slice_frames import PartReader, part_frame
from halocline.spark.session.analysis import filtered, read_without_spark
from halocline.spark.types.columns import quoted
from halocline.spark.types.file_layout import FileLayout
from halocline.storage.base import Store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE: Final = ("byte", "short", "integer", "long")
_FLOATING: Final = ("float", "double")
_FILES: Final = {
    "path": pa.string(),
    "size": pa.int64(),
    "partition_values": pa.map_(pa.string(), pa.string()),
}


def split_frame(
    spark: SparkSession,
    snapshot: IndexSnapshot,
    *,
    where: str | Column | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The rows of a version.

    Args:
        spark: The session.
        snapshot: The version.
        where: A condition. As SQL text it also leaves splits out.
        columns: The columns wanted; all if not given.

    Raises:
        InputError: There is no such column.
        UnsupportedError: A bundle keeps a column in a form that is not its own.
    """
    schema = snapshot.schema
    wanted = columns_asked_for(schema, columns)
    needed = columns_spoken_of(schema, wanted, where)
    splits = kept_splits(snapshot, snapshot.files.values(), read_without_spark(spark, where), session_zone(spark))
    own, bundles = [each for each in splits if each.is_own], [each for each in splits if not each.is_own]
    frames = []
    if own or not bundles:
        frames.append(file_frame(spark, snapshot, own, columns=needed))
    if bundles:
        shown = schema.with_fields(field for field in schema.fields if field.name in set(needed))
        reader = SplitReader(tuple(shown.fields))
        frames.append(part_frame(spark, PartReader(snapshot.store, reader.read, shown), bundles))
    df = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
    df = df if where is None else filtered(df, where)
    return df if df.columns == wanted else df.select(*map(quoted, wanted))


def file_frame(
    spark: SparkSession,
    snapshot: IndexSnapshot,
    splits: Sequence[SplitAdd],
    *,
    columns: Sequence[str] | None = None,
    where: str | Column | None = None,
    rows: RowColumns | None = None,
) -> DataFrame:
    """A native scan of some of our own splits, which are numbered by their places in the list; see `scan`."""
    store = snapshot.store
    return scan(
        spark,
        store,
        file_list(store, splits),
        split_layout(snapshot.schema, snapshot.metadata.partition_columns).with_nulls,
        deleted=masked_rows(store, splits),
        columns=columns,
        where=where,
        rows=rows,
        zone=session_zone(spark),
        checksums=True,
    )


def split_layout(schema: Struct, partition_columns: Sequence[str]) -> FileLayout:
    """How splits hold the columns of a table: the log tells empty text in a partition column from null."""
    return FileLayout(schema, partition_columns, empty_is_null=False)


def file_list(store: Store, splits: Sequence[SplitAdd]) -> pa.Table:
    """Splits as the list of files that a scan takes."""
    rows = [
        {
            "path": below_root(store, each.path),
            "size": each.size,
            "partition_values": list(partition_texts(each).items()),
        }
        for each in splits
    ]
    return pa.Table.from_pylist(rows, pa.schema(_FILES))


def masked_rows(store: Store, splits: Sequence[SplitAdd]) -> dict[int, BitMap64]:
    """The deleted rows of each split that has any, by its number in the list.

    Raises:
        MalformedError: A mask is missing or damaged.
    """
    numbers = [number for number, each in enumerate(splits) if each.deletion_mask is not None]
    found = at_once(lambda number: BitMap64(deleted_rows(store, splits[number]).tolist()), numbers)
    return dict(zip(numbers, found, strict=True))


def partition_texts(split: SplitAdd) -> dict[str, str | None]:
    """The partition values of a split, with null spelt as such."""
    return {key: None if text == NULL else text for key, text in split.partition_values.items()}


# ------------------------------------------------------------------ which splits


def kept_splits(snapshot: IndexSnapshot, splits: Iterable[SplitAdd], where: str | None, zone: str) -> list[SplitAdd]:
    """The splits that may hold a row that meets a condition.

    Args:
        snapshot: The table.
        splits: Splits of it.
        where: The condition, as SQL text; all splits are kept without one.
        zone: The zone of times without one.

    Raises:
        InputError: It names a column that is not there, or is no condition.
    """
    found = list(splits)
    if where is None:
        return found
    schema, partitions = snapshot.schema, snapshot.metadata.partition_columns
    pruner = StatsPruner(where, Schema.of(schema), partitions, timezone=zone, empty_is_null=False)
    facts: dict[str, Any] = {"path": pa.array([each.path for each in found], pa.string())}
    if "partition_values" in pruner.facts:
        values = [list(partition_texts(each).items()) for each in found]
        facts["partitionValues"] = pa.array(values, pa.map_(pa.string(), pa.string()))
    if "stats" in pruner.facts:
        types = {field.name: field for field in schema.fields}
        facts["stats"] = pa.array([_statistics(each, types) for each in found], pa.string())
    kept = pruner.keep(facts)
    return found if kept is None else [each for each, keep in zip(found, kept.to_pylist(), strict=True) if keep]


def _statistics(split: SplitAdd, fields: Mapping[str, Field]) -> str:
    """The bounds of a split in the form that pruning takes."""
    bounds = {
        section: {
            name: value
            for name, text in (texts or {}).items()
            if name in fields and (value := _bound(text, fields[name], own=split.is_own)) is not None
        }
        for section, texts in (("minValues", split.min_values), ("maxValues", split.max_values))
    }
    return msgspec.json.encode({"numRecords": split.num_records, **bounds}).decode()


def _bound(text: str, field: Field, *, own: bool) -> Any:
    """A bound as JSON has it; None if its form is not known."""
    if not isinstance(field.type, Primitive):
        return None
    name = field.type.name
    try:
        if name in _WHOLE:
            return int(text)
        if name in _FLOATING:
            return float(text)
        if not own:
            return None
        if name == "date":
            return (_EPOCH + timedelta(days=int(text))).date().isoformat()
        if name in ("timestamp", "timestamp_ntz"):
            moment = _EPOCH + timedelta(microseconds=int(text))
            return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + ("Z" if name == "timestamp" else "")
        if decimal_of(field.type) is not None:
            return msgspec.Raw(text.encode())
    except (ValueError, OverflowError):
        return None
    return text if name == "string" else None


# ------------------------------------------------------------------ rows that workers read


@dataclass(frozen=True)
class SplitReader:
    """What a worker needs to know to read splits, bundles among them; a value that is sent to it.

    Attributes:
        columns: The columns of the result.
    """

    columns: tuple[Field, ...]

    def read(self, store: Store, split: SplitAdd) -> Iterator[pa.RecordBatch]:
        """The rows of one split that are not deleted."""
        return live_rows(store, split, self.columns)

"""The change feed as a DataFrame: the rows of change files, and what happened to each, when.

Three columns come after the table's own: `_change_type` (insert, update_preimage, update_postimage, delete),
`_commit_version` and `_commit_timestamp`. A column that was added later is null in changes before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyroaring import BitMap64

from halocline.formats.delta.actions.action import DeletionVector
from halocline.formats.delta.actions.deletion_vectors import read_positions
from halocline.formats.delta.actions.locations import locate
from halocline.formats.delta.configuration.column_mapping import mapped_field
from halocline.formats.delta.log.live_files import from_adds
from halocline.formats.delta.snapshot.change_feed import ChangeFile, ChangeKind
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.schema.types import Field, Primitive, Struct
from halocline.spark.scan.footers import at_once, needed, open_file
from halocline.spark.scan.frames import session_zone
from halocline.spark.scan.row_columns import RowColumns
from halocline.spark.scan.scan import scan
from halocline.spark.session.functions import F
from halocline.spark.types.file_layout import FileLayout
from halocline.storage.base import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGE_TYPE: Final = "_change_type"
COMMIT_VERSION: Final = "_commit_version"
COMMIT_TIMESTAMP: Final = "_commit_timestamp"
_NUMBER: Final = "__halocline_change"


def change_frame(spark: SparkSession, shown: Snapshot, files: Sequence[ChangeFile]) -> DataFrame:
    """The rows of change files."""
    frames = [_frame(spark, shown, part) for part in _parts(files)] or [_frame(spark, shown, [])]
    return reduce(lambda above, below: above.unionByName(below), frames)


def _parts(files: Sequence[ChangeFile]) -> list[list[ChangeFile]]:
    """Files that one scan can read together: recorded ones apart, and no path twice, which Spark would read once."""
    parts: dict[tuple[bool, int], list[ChangeFile]] = defaultdict(list)
    seen: Counter[str] = Counter()
    for file in files:
        parts[file.kind is ChangeKind.RECORDED, seen[file.path]].append(file)
        seen[file.path] += 1
    return list(parts.values())


def _frame(spark: SparkSession, shown: Snapshot, files: Sequence[ChangeFile]) -> DataFrame:
    itself = bool(files) and files[0].kind is ChangeKind.RECORDED
    sized = at_once(lambda file: with_size(shown.store, file), files)
    layout = FileLayout.of(shown.configuration)
    if itself:
        mode = mapping_mode(layout.mapping_mode, itself)
        layout = replace(layout, schema=with_change_type(shown.schema), mapping_mode=mode)
    df = scan(
        spark,
        shown.store,
        pa.Table.from_batches([from_adds([file.file for file in sized], paths=[file.path for file in sized])]),
        layout,
        deleted=_left_out(shown.store, sized),
        rows=RowColumns(file=_NUMBER),
        zone=session_zone(spark),
    )
    facts: dict[str, Any] = {
        _NUMBER: pa.array(range(len(sized)), pa.int64()),
        COMMIT_VERSION: pa.array([file.version for file in sized], pa.int64()),
        COMMIT_TIMESTAMP: pa.array([file.timestamp_ms * 1000 for file in sized], pa.timestamp("us", "UTC")),
    }
    if not itself:
        facts[CHANGE_TYPE] = pa.array([file.kind.value for file in sized], pa.string())
    # Spark Connect infers no types from a table without rows.
    types = f"{_NUMBER} bigint, {COMMIT_VERSION} bigint, {COMMIT_TIMESTAMP} timestamp"
    listed = spark.createDataFrame(pa.table(facts), types if itself else f"{types}, {CHANGE_TYPE} string")
    df = df.join(F.broadcast(listed), _NUMBER)
    names = (*shown.schema.names, CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
    return df.select(*(df[f"`{name}`"] for name in names))


def _left_out(store: Store, files: Sequence[ChangeFile]) -> dict[int, BitMap64]:
    """The positions of each file whose rows are no changes."""
    found = at_once(lambda file: positions_left_out(store, file), files)
    return {number: positions for number, positions in enumerate(found) if positions}


def positions_left_out(store: Store, file: ChangeFile) -> BitMap64:
    """The positions of one file whose rows are no changes."""
    without = _positions(store, file.without)
    if file.only is None:
        return without
    # A vector says nothing of the rows after the last one it names, so the number of rows is needed to invert it.
    everything = BitMap64(range(_row_count(store, file)))
    return (everything - _positions(store, file.only)) | without


def _positions(store: Store, vector: DeletionVector | None) -> BitMap64:
    return BitMap64() if vector is None else read_positions(store, vector)


def _row_count(store: Store, file: ChangeFile) -> int:
    holder, path = locate(store, file.path)
    with open_file(holder, path, file.file.size or None) as parquet:
        return int(parquet.metadata.num_rows)


def with_size(store: Store, file: ChangeFile) -> ChangeFile:
    """Removes may come without a size, and a scan needs one."""
    if file.file.size:
        return file
    holder, path = locate(store, file.path)
    add = file.file
    with needed(file.path):
        size = holder.head(path).size
    sized = type(add)(add.path, add.partition_values, size, 0, data_change=True)
    return replace(file, file=sized)


def with_change_type(schema: Struct) -> Struct:
    """The columns of a file in which the writer recorded changes."""
    field = mapped_field(Field(CHANGE_TYPE, Primitive("string")), 0, CHANGE_TYPE)
    return schema.with_fields([*schema.fields, field])


def mapping_mode(mode: str, itself: bool) -> str:
    """How columns are found in a file: those of recorded changes have a column that no id is defined for."""
    return "name" if itself and mode == "id" else mode

"""Writing rows to a Hudi table: new ones, changed ones, in place of others, and none.

A write is one instant, at the table version that the table has. Executors write the files, the driver completes it.
What each verb does with keys that are there: `insert`, `bulk_insert` and `append` do not look; `upsert` merges by the
table's rule; `delete` takes them out. In a table with a bucket index the hash of a key says where it is, so there all
of them merge.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from halocline.errors import InputError
from halocline.formats.hudi.buckets import BucketIndex, bucket_file_id, bucket_index, bucket_of
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.key_lookup import KeyLookup
from halocline.formats.hudi.record_keys import RECORD_KEY, key_columns, stored_key, written_key_columns
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.snapshot import HudiQuery, HudiSnapshot
from halocline.formats.hudi.table_schema import META_COLUMNS
from halocline.formats.hudi.write.group_writer import WriteTarget
from halocline.formats.hudi.write.small_groups import room_in_groups
from halocline.schema.types import Struct
from halocline.spark.session.analysis import Expression, check_condition
from halocline.spark.session.pinning import computed_once
from halocline.spark.types import input_schema
from halocline.spark.types.columns import (
    missing,
    quoted,
)
from halocline.spark.write.hudi_rows import (
    BUCKET,
    DELETED,
    GROUP,
    KEY,
    PATH,
    ROWS_PER_GROUP,
    Rooms,
    Targets,
    bucketed,
    in_buckets,
    keyed,
    located,
    spread_out,
    write_groups,
)
from halocline.table.hudi.columns import SchemaMode, columns_for
from halocline.table.hudi.opened import HudiOpened
from halocline.table.hudi.read import read_rows
from halocline.table.hudi.shared_partition import warn_of_shared
from halocline.table.hudi.writing import (
    RunningWrite,
    across_moves,
    check_not_clustering,
    groups_in_service,
    ready,
    targets_of,
    writing,
)
from halocline.table.opening import as_operation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PATHS = META_COLUMNS[3]


@as_operation
@across_moves
def insert(
    table: HudiOpened, df: DataFrame, *, schema_mode: SchemaMode = None, rows_per_group: int = ROWS_PER_GROUP
) -> int:
    """Adds rows without looking for their keys, and returns the instant.

    They go into new file groups; with `halocline.hudi.smallFileLimit`, first into those that are small.

    Args:
        table: The table.
        df: The rows. Columns are found by name; those left out become null.
        schema_mode: `merge` lets the table grow by the columns that it lacks.
        rows_per_group: The most rows of one new file group.

    Raises:
        SchemaError: The columns do not fit.
        ConstraintError: A row has no key; nothing was written.
        IncompatibleError: The release that acts may not write the table.

    Example:
        >>> Table.for_path("lake/trips", spark).insert(df)  # doctest: +SKIP
        20261115114938669
    """
    return _added(table, df, "INSERT", schema_mode, rows_per_group)


@as_operation
@across_moves
def bulk_insert(
    table: HudiOpened, df: DataFrame, *, schema_mode: SchemaMode = None, rows_per_group: int = ROWS_PER_GROUP
) -> int:
    """Adds very many rows; see `insert`."""
    return _added(table, df, "BULK_INSERT", schema_mode, rows_per_group)


@as_operation
@across_moves
def append(
    table: HudiOpened, df: DataFrame, *, schema_mode: SchemaMode = None, rows_per_group: int = ROWS_PER_GROUP
) -> int:
    """Adds rows without looking for their keys, as `insert` does. Where keys may be there, use `upsert`."""
    return _added(table, df, "INSERT", schema_mode, rows_per_group)


@as_operation
@across_moves
def upsert(
    table: HudiOpened, df: DataFrame, *, schema_mode: SchemaMode = None, rows_per_group: int = ROWS_PER_GROUP
) -> int:
    """Adds rows whose keys are new, merges the others by the table's rule, and returns the instant.

    A key is looked for in the partition that its row belongs to, as Apache Hudi's own indexes do. One that `insert` has
    left there twice is changed in both places.

    Args:
        table: The table.
        df: The rows. Of those with the same key, one wins by the table's rule. Rows with a true `_hoodie_is_deleted`
            delete, if the table has the column.
        schema_mode: `merge` lets the table grow by the columns that it lacks.
        rows_per_group: The most rows of one new file group.

    Raises:
        SchemaError: The columns do not fit.
        ConstraintError: A row has no key; nothing was written.
        ConflictError: Another write changed the same file groups meanwhile; nothing was written.

    Example:
        >>> Table.for_path("lake/trips", spark).upsert(df)  # doctest: +SKIP
        20261115114938669
    """
    return _merged(table, df, "UPSERT", schema_mode, rows_per_group)


@as_operation
@across_moves
def delete(table: HudiOpened, what: str | Column | DataFrame) -> int:
    """Deletes rows, and returns the instant.

    Args:
        table: The table.
        what: A condition, or a DataFrame with the key columns, and those of the partition, of the rows.

    Raises:
        InputError: The DataFrame lacks a column of the key or of the partition, or there is no such condition.

    Example:
        >>> Table.for_path("lake/trips", spark).delete("rider = 'A'")  # doctest: +SKIP
        20261115114938669
    """
    condition = None if input_schema.is_frame(what) else _condition(table, what)
    if condition is None:
        _check_keys(ready(table).config, what)  # type: ignore[arg-type]
    with writing(table, "DELETE") as running:
        snapshot = running.snapshot
        if condition is None:
            keys = _keys_of(running, what)  # type: ignore[arg-type]
        elif snapshot.config.meta_fields:
            found = read_rows(table, where=condition, columns=[RECORD_KEY, _PATHS])
            keys = found.selectExpr(f"{RECORD_KEY} AS {KEY}", f"{_PATHS} AS {PATH}")
        else:
            keys = _keys_of(running, read_rows(table, where=condition))
        index = bucket_index(snapshot, table.settings.hudi_buckets)
        if index is None:
            tagged, targets = _located(running, keys.distinct())
        else:
            tagged, targets = _in_buckets(running, keys.distinct(), index, new=False)
        names = [each for each in running.columns.names if each not in META_COLUMNS]
        types = _types(snapshot, running.columns)
        nothing = [f"{missing(types.find([name])[1].type)} AS {quoted(name)}" for name in names]
        dead = computed_once(tagged.where(f"{GROUP} IS NOT NULL"))
        _check_clustering(running, dead, targets)
        return _done(running, dead.selectExpr(*nothing, KEY, PATH, GROUP, f"true AS {DELETED}"), targets)


@as_operation
@across_moves
def insert_overwrite(
    table: HudiOpened, df: DataFrame, *, schema_mode: SchemaMode = None, rows_per_group: int = ROWS_PER_GROUP
) -> int:
    """Puts rows in place of all others of the partitions that they belong to, and returns the instant.

    Rows of empty text share their partition with rows without a value, and go together; a `SharedPartitionWarning` says
    so.
    """
    return _replaced(table, df, "INSERT_OVERWRITE", schema_mode, rows_per_group)


@as_operation
@across_moves
def overwrite(
    table: HudiOpened, df: DataFrame, *, schema_mode: SchemaMode = None, rows_per_group: int = ROWS_PER_GROUP
) -> int:
    """Puts rows in place of all others of the table, and returns the instant."""
    return _replaced(table, df, "INSERT_OVERWRITE_TABLE", schema_mode, rows_per_group)


@as_operation
@across_moves
def delete_partition(table: HudiOpened, paths: str | Sequence[str]) -> int:
    """Deletes all rows of partitions, and returns the instant.

    Args:
        table: The table.
        paths: Partition paths as they lie in the table, e.g. `region=eu`.

    Raises:
        ConflictError: A clustering is about to rewrite one of them, and whoever runs it would bring its rows back.
        InputError: There is no such partition, or none is named.

    Example:
        >>> Table.for_path("lake/trips", spark).delete_partition("2026/11/15")  # doctest: +SKIP
        20261115114938669
    """
    wanted = {paths} if isinstance(paths, str) else set(paths)
    known = {each.partition for each in ready(table).slices}
    if (unknown := sorted(wanted - known)) or not wanted:
        raise InputError(
            f"{table.url} has no partition {unknown[0]!r}" if unknown else "no partition is named, so none is deleted",
            sides={"asked for": ", ".join(unknown) or "none", "partitions": ", ".join(sorted(known)[:20]) or "none"},
            next_step="Name partition paths as they lie in the table.",
        )
    with writing(table, "DELETE_PARTITION", replaces=True) as running:
        gone = _groups_in(running.snapshot, wanted)
        check_not_clustering(running.snapshot, [(path, each) for path, ids in gone.items() for each in ids])
        warn_of_shared(running.snapshot.config, running.columns, gone, table.url)
        return running.complete([], gone)


# ------------------------------------------------------------------ what they share


def _added(table: HudiOpened, df: DataFrame, operation: str, mode: SchemaMode, rows_per_group: int) -> int:
    _check_size(rows_per_group)
    snapshot = ready(table)
    if bucket_index(snapshot, table.settings.hudi_buckets) is not None:
        return _merged(table, df, operation, mode, rows_per_group)
    columns, schema = columns_for(snapshot, df, mode)
    with writing(table, operation, columns, schema) as running:
        limit = table.settings.hudi_small_file_limit if operation == "INSERT" else 0
        small = [each for each in running.snapshot.slices if each.base and each.base.size < limit]
        rows, targets = _in_new_groups(running, df, rows_per_group, small)
        return _done(running, rows, targets, unique=False)


def _merged(table: HudiOpened, df: DataFrame, operation: str, mode: SchemaMode, rows_per_group: int) -> int:
    _check_size(rows_per_group)
    columns, schema = columns_for(ready(table), df, mode)
    with writing(table, operation, columns, schema) as running:
        rows = _keyed(running, df)
        index = bucket_index(running.snapshot, table.settings.hudi_buckets)
        if index is not None:
            placed, targets = _in_buckets(running, rows, index)
            _check_clustering(running, placed.where(f"{GROUP} < {len(targets.held)}"), targets)
            return _done(running, placed, targets)
        tagged, targets = _located(running, rows)
        tagged = computed_once(tagged)
        held = tagged.where(f"{GROUP} IS NOT NULL")
        _check_clustering(running, held, targets)
        rooms = _rooms(running, [each.slice for each in targets.held if each.slice], rows_per_group)
        new = spread_out(tagged.where(f"{GROUP} IS NULL"), targets, rows_per_group, rooms)
        return _done(running, held.unionByName(new), targets)


def _replaced(table: HudiOpened, df: DataFrame, operation: str, mode: SchemaMode, rows_per_group: int) -> int:
    _check_size(rows_per_group)
    columns, schema = columns_for(ready(table), df, mode)
    with writing(table, operation, columns, schema, replaces=True) as running:
        index = bucket_index(running.snapshot, table.settings.hudi_buckets)
        if index is None:
            rows, targets = _in_new_groups(running, df, rows_per_group)
        else:
            rows, targets = _in_buckets(running, _keyed(running, df), index, held=False)
        touched = {each.partition for each in targets.new}
        whole = operation == "INSERT_OVERWRITE_TABLE"
        gone = _groups_in(running.snapshot, None if whole else touched)
        check_not_clustering(running.snapshot, [(path, each) for path, ids in gone.items() for each in ids])
        if not whole:
            warn_of_shared(running.snapshot.config, running.columns, gone, table.url)
        return _done(running, rows, targets, unique=index is not None, replaced=gone)


def _in_new_groups(
    running: RunningWrite,
    df: DataFrame,
    rows_per_group: int,
    small: Sequence[FileSlice] = (),
) -> tuple[DataFrame, Targets]:
    """Rows with the number of a new group, or of a small one that takes them."""
    targets = Targets(targets_of(running.snapshot, small))
    rooms = _rooms(running, small, rows_per_group)
    return spread_out(computed_once(_keyed(running, df)), targets, rows_per_group, rooms), targets


def _rooms(running: RunningWrite, slices: Sequence[FileSlice], rows_per_group: int) -> Rooms:
    """The groups among those of a list that take new rows."""
    limit = running.table.settings.hudi_small_file_limit
    taken = groups_in_service(running.snapshot) if limit else ()
    return room_in_groups(running.snapshot, slices, limit, rows_per_group, taken)


def _in_buckets(
    running: RunningWrite, rows: DataFrame, index: BucketIndex, *, held: bool = True, new: bool = True
) -> tuple[DataFrame, Targets]:
    """Rows with the number of the group of their bucket: one that is there, or a new one."""
    rows = computed_once(bucketed(rows, index))
    wanted = sorted({(row[0], row[1]) for row in rows.select(PATH, BUCKET).distinct().collect()})
    slices = {(each.partition, bucket_of(each.file_id)): each for each in running.snapshot.slices} if held else {}
    there = [each for each in wanted if each in slices]
    missing = [each for each in wanted if new and each not in slices]
    targets = Targets(targets_of(running.snapshot, [slices[each] for each in there]))
    targets.new += [WriteTarget(path, bucket_file_id(bucket, str(uuid.uuid4()))) for path, bucket in missing]
    numbers = {place: number for number, place in enumerate([*there, *missing])}
    return in_buckets(rows, numbers), targets


def _done(
    running: RunningWrite,
    rows: DataFrame,
    targets: Targets,
    *,
    unique: bool = True,
    replaced: dict[str, list[str]] | None = None,
) -> int:
    for partition in sorted({each.partition for each in targets.new}):
        running.write.prepare_partition(partition)
    stats = write_groups(rows, targets.every, running.writer(unique=unique))
    return running.complete(stats, replaced)


def _keyed(running: RunningWrite, df: DataFrame) -> DataFrame:
    plain = pa.schema([each for each in running.columns if each.name not in META_COLUMNS])
    config = running.snapshot.config
    return keyed(df, plain, config, written_key_columns(config, stored_key(running.snapshot)))


def _condition(table: HudiOpened, what: Any) -> Expression:
    """What is given as a condition, if it is one; nothing at all would stand for every row."""
    if not isinstance(what, str) and type(what).__name__ != "Column":
        raise InputError(
            f"what of delete cannot be {what!r:.80}",
            sides={"given": type(what).__name__, "expected": "an SQL condition, or a DataFrame of keys"},
            next_step="To take out every row: delete('true').",
        )
    condition: Expression = what
    # Only its columns count here, so nothing is merged.
    check_condition(read_rows(table, query=HudiQuery.READ_OPTIMIZED), condition, "delete", "Use columns of the table.")
    return condition


def _key_and_partition(config: HudiTableConfig) -> list[str]:
    return list(dict.fromkeys([*config.record_keys, *(each.name for each in config.partition_fields)]))


def _check_keys(config: HudiTableConfig, df: DataFrame) -> None:
    """Refuses rows that do not say which ones they are, before a write begins that would have to be taken back."""
    needed = _key_and_partition(config)
    if missing := [name for name in needed if name not in df.columns]:
        raise InputError(
            f"rows to delete lack column {missing[0]}",
            sides={"needed": ", ".join(needed), "given": ", ".join(df.columns)},
            next_step="Give the columns of the key, and those of the partition.",
        )


def _keys_of(running: RunningWrite, df: DataFrame) -> DataFrame:
    """The keys of rows that are given by their key and partition columns alone."""
    config = running.snapshot.config
    needed = _key_and_partition(config)
    plain = pa.schema([running.columns.field(name) for name in needed])
    keys = written_key_columns(config, stored_key(running.snapshot))
    return keyed(df.select(*map(quoted, needed)), plain, config, keys, checked=False).select(KEY, PATH)


def _located(running: RunningWrite, rows: DataFrame) -> tuple[DataFrame, Targets]:
    """Rows with the number of each group that holds their key; null where none does."""
    snapshot, rows = running.snapshot, computed_once(rows)
    touched = {row[0] for row in rows.select(PATH).distinct().collect()}
    slices = _slices_in(snapshot, touched)
    keys = key_columns(snapshot.config)
    reader = snapshot.reader(keys.names, merging=any(each.logs for each in slices))
    limit = running.table.settings.hudi_keys_at_once
    found = located(rows, snapshot.store, slices, KeyLookup(reader, keys), keys_at_once=limit)
    return found, Targets(targets_of(snapshot, slices))


def _check_clustering(running: RunningWrite, tagged: DataFrame, targets: Targets) -> None:
    """Refuses changes of groups that are about to be clustered; asks Spark only if there are any."""
    named = [(each.partition, each.file_id) for each in targets.held]
    try:
        check_not_clustering(running.snapshot, named)
    except Exception:
        touched = [targets.held[row[0]] for row in tagged.select(GROUP).distinct().collect()]
        check_not_clustering(running.snapshot, [(each.partition, each.file_id) for each in touched])


def _groups_in(snapshot: HudiSnapshot, partitions: set[str] | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in _slices_in(snapshot, partitions):
        found.setdefault(each.partition, []).append(each.file_id)
    return found


def _slices_in(snapshot: HudiSnapshot, partitions: set[str] | None) -> list[FileSlice]:
    return [each for each in snapshot.slices if partitions is None or each.partition in partitions]


def _types(snapshot: HudiSnapshot, columns: pa.Schema) -> Struct:
    from halocline.schema.arrow import struct_of_arrow

    return struct_of_arrow([each for each in columns if each.name not in META_COLUMNS])


def _check_size(rows_per_group: int) -> None:
    """Refuses a size that no file group has, before a write begins that would have to be taken back."""
    if rows_per_group < 1:
        raise InputError(f"a file group cannot have {rows_per_group} rows", sides={"possible": "1 or more"})

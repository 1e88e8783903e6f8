"""What every write to a Hudi table does around its rows: begin behind the gate, complete, or leave nothing behind.

A write first takes back those whose writers have died, and takes out a metadata table, which it does not keep up to
date. It keeps a heartbeat while it runs, and completes under the table's lock, where Apache Hudi's writers look as
well. If it fails, it is taken back at once; if its process dies, the next write does that. Nothing here ever changes
the table version.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import wraps
from typing import Final, ParamSpec, TypeVar

import pyarrow as pa

from halocline.errors import ConflictError, HaloclineError, UnavailableError, UnsupportedError
from halocline.formats.hudi.configuration import FIRST_OF_LAYOUT_2, HudiTableConfig, TableType
from halocline.formats.hudi.maintain.locks import FileSystemLock
from halocline.formats.hudi.partition_folders import has_unescaped_times
from halocline.formats.hudi.properties import properties, table_version
from halocline.formats.hudi.slices import FileSlice
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.table_schema import columns_told
from halocline.formats.hudi.timeline.instant import (
    CLUSTERING,
    COMMIT,
    DELTA_COMMIT,
    REPLACE_COMMIT,
    HudiInstant,
)
from halocline.formats.hudi.timeline.metadata import ReplacePlan, WriteStat
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write.files_aside import take_back_aside
from halocline.formats.hudi.write.group_writer import GroupWriter, WriteTarget
from halocline.formats.hudi.write.heartbeat import beating, take_back_failed
from halocline.formats.hudi.write.markers import delete_markers, marked_files
from halocline.formats.hudi.write.metadata_table import retire_metadata_table
from halocline.formats.hudi.write.rollback import roll_back
from halocline.formats.hudi.write.stream_batch import StreamBatch
from halocline.formats.hudi.write.transaction import HudiWrite, begin_write
from halocline.formats.log.fence import fenced
from halocline.storage.base import Store
from halocline.table.hudi.opened import HudiOpened

P = ParamSpec("P")
R = TypeVar("R")

_MOVES_AT_ONCE: Final = 3
"""From 6 to 9 a table passes three versions; who is overtaken more often than that is told."""

_LOCK_WAIT_S: Final = 120.0
_LOCK_EXPIRES_S: Final = 900.0
"""Who holds the lock and lives renews it meanwhile; who does not for so long has died."""


class MetadataTableWarning(UserWarning):
    """A metadata table was taken out, since this release does not keep it up to date."""


@dataclass(frozen=True)
class RunningWrite:
    """A write that has begun.

    Attributes:
        table: The table.
        snapshot: The instant that it is based on.
        write: The write itself.
        columns: The columns that the table is going to have, with the meta columns.
        schema: The same as Avro's JSON, without them.
    """

    table: HudiOpened
    snapshot: HudiSnapshot
    write: HudiWrite
    columns: pa.Schema
    schema: str

    def writer(self, *, unique: bool) -> GroupWriter:
        """What writes file groups."""
        return group_writer(self.table, self.snapshot, self.columns, self.schema, self.write.time, unique=unique)

    def complete(self, stats: Sequence[WriteStat], replaced: Mapping[str, list[str]] | None = None) -> int:
        """Makes what was written count, and returns the instant as a number."""
        return completed(self.table, self.write, stats, self.schema, replaced)


def group_writer(
    table: HudiOpened, snapshot: HudiSnapshot, columns: pa.Schema, schema: str, time: str, *, unique: bool
) -> GroupWriter:
    """What writes file groups for an instant, with the columns that the table is going to have."""
    reader = replace(snapshot.reader(merging=True), schema=columns, columns=tuple(columns.names))
    return GroupWriter(table.store, snapshot.config, reader, schema, time, unique)


def completed(
    table: HudiOpened,
    write: HudiWrite,
    stats: Sequence[WriteStat],
    schema: str,
    replaced: Mapping[str, list[str]] | None = None,
    *,
    batch: StreamBatch | None = None,
) -> int:
    """Makes what a write wrote count, and returns its instant as a number.

    A micro-batch that the table has already is taken back instead, and the number is 0.

    Raises:
        ConflictError: The lease of the fleet has run out, or another write changed the same file groups.
    """
    written = {path for stat in stats for path in (stat.path, *(stat.cdc_stats or ()))}
    # Attempts of tasks that did not count have left files that would be taken for others of the same instant.
    table.store.delete_many([path for path, _ in marked_files(table.store, write.time) if path not in written])
    uses_level = write.config.version >= FIRST_OF_LAYOUT_2
    with table_lock(table.store), fenced(table.check_lease) if uses_level else nullcontext():
        _check_version(table.store, write.config)
        if batch is not None and batch.is_in(HudiTimeline.load(table.store, write.config)):
            roll_back(table.store, write.config, write.instant)
            return 0
        schema = _with_newest_columns(table.store, schema)
        extra = {} if batch is None else batch.told
        return int(write.complete(stats, schema=schema, replaced=replaced, extra=extra).time)


def _with_newest_columns(store: Store, schema: str) -> str:
    """The schema for a write that is completed now: columns that came while it was under way stay.

    Raises:
        ConflictError: It would let the table grow itself, by others.
    """
    now = HudiSnapshot.load(store)
    newest = now.schema.avro
    if newest is None or newest == schema:
        return schema
    ours = {each.name: each.type for each in columns_told(now.timeline, schema)}
    theirs = {each.name: each.type for each in now.schema.columns}
    if theirs.items() <= ours.items():
        return schema
    if ours.items() <= theirs.items():
        return newest
    raise ConflictError(
        f"the columns of {store.root} were changed while rows were written; nothing was committed",
        condition="CONCURRENT_METADATA_CHANGE",
        sides={
            "this write": ", ".join(each for each in ours if each not in theirs) or "other types",
            "table has": ", ".join(theirs),
        },
        next_step="Run the write again.",
    )


def table_lock(store: Store) -> FileSystemLock:
    """The lock of a table, as every writer here takes it."""
    return FileSystemLock(store, wait_s=_LOCK_WAIT_S, expires_s=_LOCK_EXPIRES_S)


@contextmanager
def beginning(
    store: Store, config: HudiTableConfig, action: str, operation: str, timeline: HudiTimeline | None = None
) -> Iterator[HudiWrite]:
    """Requests a write under the lock, which the block keeps: with its first heartbeat nobody takes it for dead.

    Raises:
        ConflictError: The table has another version by now.
    """
    with table_lock(store):
        _check_version(store, config)
        yield begin_write(store, config, action, operation, timeline)


def _check_version(store: Store, config: HudiTableConfig) -> None:
    found = table_version(properties(store), store.root)
    if found != config.version:
        raise ConflictError(
            f"{store.root} was moved to version {found} while rows were written; nothing was committed",
            condition="CONCURRENT_METADATA_CHANGE",
            sides={"this write": f"table version {config.version}", "table": f"table version {found}"},
            next_step="Run the write again.",
        )


def action_of(snapshot: HudiSnapshot) -> str:
    """What a write that replaces nothing is in the timeline."""
    return DELTA_COMMIT if snapshot.config.type is TableType.MERGE_ON_READ else COMMIT


@contextmanager
def writing(
    table: HudiOpened,
    operation: str,
    columns: pa.Schema | None = None,
    schema: str | None = None,
    *,
    replaces: bool = False,
) -> Iterator[RunningWrite]:
    """Begins a write, and takes it back if the block fails.

    Args:
        table: The table.
        operation: What kind of write it is, e.g. `UPSERT`.
        columns: The columns that the table is going to have; those that it has if not given.
        schema: The same as Avro's JSON.
        replaces: Whether file groups are replaced.

    Raises:
        IncompatibleError: The release that acts may not write the table.
        ConflictError: The lease of the fleet has run out, or another write changed the same file groups.
        UnsupportedError: The table has indexes that would have to go.
    """
    snapshot = ready(table)
    chosen = snapshot.schema.columns if columns is None else columns
    text, action = schema or avro_text(snapshot), REPLACE_COMMIT if replaces else action_of(snapshot)
    with ExitStack() as until_done:
        with beginning(table.store, snapshot.config, action, operation, snapshot.timeline) as write:
            until_done.enter_context(beating(table.store, write.time))
            if snapshot.config.layout == 1:
                # A compaction that was planned since then does not name what is appended to the slices it merges.
                snapshot = table.snapshot("write")
                write = replace(write, seen=frozenset(each.time for each in snapshot.timeline.writes))
        running = RunningWrite(table, snapshot, write, chosen, text)
        try:
            yield running
        except UnavailableError:
            raise  # whether it was completed is not known; if not, the next write takes it back
        except BaseException as error:
            try:
                take_back(table.store, running.write)
            except HaloclineError as left:
                error.add_note(f"What was written of {running.write.time} is still there: {left.message}")
            raise


def take_back(store: Store, write: HudiWrite) -> None:
    """Takes a write back that has failed; where the table has moved, its timeline is not that of the write any more.

    One that was interrupted when it had been completed stays: its files are in the table.
    """
    if table_version(properties(store), store.root) == write.config.version:
        if all(each.time != write.time for each in HudiTimeline.load(store, write.config).writes):
            roll_back(store, write.config, write.instant)
        return
    take_back_aside(store, write.time)
    store.delete_many([path for path, _ in marked_files(store, write.time)])
    delete_markers(store, write.time)


def across_moves(verb: Callable[P, R]) -> Callable[P, R]:
    """A verb that is done again where a move of the table has overtaken it, if the table is opened as a bridge.

    Nothing of what was overtaken counts, so to do it again at the version that the table has now is to do it once.
    """

    @wraps(verb)
    def done(*given: P.args, **named: P.kwargs) -> R:
        table = given[0]
        assert isinstance(table, HudiOpened)
        for _ in range(_MOVES_AT_ONCE if table.settings.hudi_bridge else 0):
            try:
                return verb(*given, **named)
            except ConflictError as error:
                if error.condition not in ("TABLE_MOVED", "CONCURRENT_METADATA_CHANGE"):
                    raise
        return verb(*given, **named)

    return done


def ready(table: HudiOpened) -> HudiSnapshot:
    """The newest instant for writing, behind the gate, once others that died are taken back."""
    snapshot = table.snapshot("write")
    config = snapshot.config
    _check_escaped_times(snapshot)
    changed = bool(take_back_failed(table.store, config, table_lock(table.store)))
    if config.metadata_partitions:
        _check_indexes(table, config)
        retire_metadata_table(table.store, config)
        changed = True
        warnings.warn(
            f"the metadata table of {table.url} and its indexes were taken out: they are not kept up to date here",
            MetadataTableWarning,
            stacklevel=5,
        )
    return table.snapshot("write") if changed else snapshot


def _check_escaped_times(snapshot: HudiSnapshot) -> None:
    """Refuses to write to a table whose rows lie in other partitions than those where writers look for their keys."""
    config = snapshot.config
    if not config.url_encoded or not config.partition_fields:
        return
    if found := next((each.partition for each in snapshot.groups if has_unescaped_times(each.partition, config)), None):
        raise UnsupportedError(
            f"partition {found!r} of {snapshot.store.root} has times that are not escaped, in a table that escapes",
            sides={
                "partition": f"{found}, by an earlier release of Halocline",
                "writers look for keys in": "%2F for /",
            },
            next_step="Copy its rows to a new table, with Table.create(…, url_encoded=False) for paths like that.",
        )


def _check_indexes(table: HudiOpened, config: HudiTableConfig) -> None:
    """Refuses to take away what somebody has built, unless that is asked for."""
    if config.indexes and not table.settings.hudi_drop_indexes:
        raise UnsupportedError(
            f"{table.url} has indexes in its metadata table, which a write from here would have to take out",
            sides={"table": ", ".join(config.indexes), "halocline keeps up": "no index of a metadata table"},
            next_step="Write with the writer that made them; or let them go, with "
            'options={"halocline.hudi.dropIndexes": "true"}, and build them again afterwards.',
        )


def avro_text(snapshot: HudiSnapshot) -> str:
    """The schema of a table that is written to.

    Raises:
        UnsupportedError: No write of the table says it.
    """
    if snapshot.schema.avro is None:
        raise UnsupportedError(
            f"no write of {snapshot.store.root} says what its schema is, so none can go on with it",
            sides={"timeline": "no schema", "needed": "a schema in a commit, or hoodie.table.create.schema"},
            next_step="Write once with the writer that made the table.",
        )
    return snapshot.schema.avro


def targets_of(snapshot: HudiSnapshot, slices: Sequence[FileSlice]) -> list[WriteTarget]:
    """File groups that are there as targets of a write."""
    planned = snapshot.timeline.planned_compactions if snapshot.config.layout == 1 else {}
    return [
        WriteTarget(each.partition, each.file_id, each, planned.get((each.partition, each.file_id))) for each in slices
    ]


def check_not_clustering(snapshot: HudiSnapshot, groups: Sequence[tuple[str, str]]) -> None:
    """Refuses to change file groups that a pending clustering is going to replace.

    Raises:
        ConflictError: There is one.
    """
    for instant, named in _clustered(snapshot.timeline):
        if both := named.intersection(groups):
            partition, file_id = min(both)
            raise ConflictError(
                f"file group {file_id} of {snapshot.store.root} is about to be clustered, so it cannot be changed",
                condition="CONCURRENT_APPEND",
                sides={"this write": f"changes it, in {partition!r}", "pending": str(instant)},
                next_step=f"Run it with cluster(), or take it back with cancel_clustering({instant.time}).",
            )


def groups_in_service(snapshot: HudiSnapshot) -> set[tuple[str, str]]:
    """The file groups that pending compactions and clusterings are going to merge."""
    timeline = snapshot.timeline
    return set(timeline.planned_compactions).union(*(named for _, named in _clustered(timeline)))


def _clustered(timeline: HudiTimeline) -> Iterator[tuple[HudiInstant, set[tuple[str, str]]]]:
    """Pending clusterings, and the file groups that they are going to replace."""
    for instant in timeline.instants:
        if instant.is_completed or instant.action not in (CLUSTERING, REPLACE_COMMIT):
            continue
        plan = ReplacePlan.parse(timeline.requested_body(instant).record, str(instant))
        inputs = (plan.clustering_plan and plan.clustering_plan.input_groups) or ()
        yield instant, {(one.partition_path or "", one.file_id or "") for each in inputs for one in each.slices or ()}

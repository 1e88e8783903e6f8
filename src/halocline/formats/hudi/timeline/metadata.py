"""What instants say about themselves, typed.

The names are Hudi's own, in Python's spelling. Everything may be missing in what older and newer releases write, so
every field has a default; fields that are not known are left alone. Paths in plans of clustering and rollback are those
of the machine that wrote them and never lead anywhere, so they are not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from halocline.errors import MalformedError

_T = TypeVar("_T", bound="_Said")
_SERVICES: Final = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER", "INDEX"})


class _Said(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What all bodies have in common."""

    @classmethod
    def parse(cls: type[_T], record: Mapping[str, Any], place: str) -> _T:
        """Reads a body.

        Args:
            record: The body as a record.
            place: What to call it in errors.

        Raises:
            MalformedError: A field has a type that it cannot have.
        """
        try:
            return msgspec.convert({key: value for key, value in record.items() if value is not None}, cls)
        except msgspec.ValidationError as error:
            raise MalformedError(
                f"{place} cannot be read",
                condition="MALFORMED_LOG",
                sides={"expected": f"what {cls.__name__} holds", "found": str(error)},
                next_step="Restore the file, or roll the instant back with the writer that made it.",
            ) from error


class WriteStat(_Said, frozen=True, kw_only=True):
    """What one write did to one file group.

    Attributes:
        file_id: The file group.
        path: The file written, below the table's root.
        prev_commit: The instant of the slice that was written on; `null` for a new file group.
        num_writes: Rows in the file.
        num_deletes: Rows that were deleted.
        num_update_writes: Rows that were updated.
        num_inserts: Rows that are new.
        total_write_bytes: Bytes written.
        file_size_in_bytes: Size of the file.
        partition_path: The partition.
        log_version: The version of the log file.
        log_offset: Where in the log file the write begins.
        base_file: The base file of the slice, for a write to a log file.
        log_files: The log files of the slice, or those written.
        cdc_stats: The change files written, with their sizes.
        prev_base_file: The base file that was rewritten.
    """

    file_id: str | None = None
    path: str | None = None
    prev_commit: str | None = None
    num_writes: int | None = 0
    num_deletes: int | None = 0
    num_update_writes: int | None = 0
    num_inserts: int | None = 0
    total_write_bytes: int | None = 0
    total_write_errors: int | None = 0
    file_size_in_bytes: int | None = 0
    partition_path: str | None = None
    log_version: int | None = None
    log_offset: int | None = None
    base_file: str | None = None
    log_files: list[str] | None = None
    cdc_stats: dict[str, int] | None = None
    prev_base_file: str | None = None


class CommitMetadata(_Said, frozen=True, kw_only=True):
    """What a write did.

    Attributes:
        partition_to_write_stats: What it wrote, by partition.
        partition_to_replace_file_ids: The file groups that it replaced, by partition.
        extra_metadata: What the writer added; the schema of the table is under `schema`.
        operation_type: What kind of write it was, e.g. `UPSERT`.
        compacted: Whether it was a compaction.
    """

    partition_to_write_stats: dict[str, list[WriteStat]] | None = None
    partition_to_replace_file_ids: dict[str, list[str]] | None = None
    extra_metadata: dict[str, str | None] | None = None
    operation_type: str | None = None
    compacted: bool | None = None

    @property
    def stats(self) -> Iterator[tuple[str, WriteStat]]:
        """Each write with its partition."""
        for partition, stats in (self.partition_to_write_stats or {}).items():
            for stat in stats:
                yield partition, stat

    @property
    def replaced(self) -> Iterator[tuple[str, str]]:
        """Each replaced file group with its partition."""
        for partition, ids in (self.partition_to_replace_file_ids or {}).items():
            for file_id in ids:
                yield partition, file_id

    @property
    def is_service(self) -> bool:
        """Whether it only laid rows out otherwise, whatever columns they have by now."""
        return bool(self.compacted) or self.operation_type in _SERVICES

    @property
    def schema(self) -> str | None:
        """The schema of the table as of this write, as Avro's JSON; None if the write does not say."""
        return (self.extra_metadata or {}).get("schema") or None


class CleanMetadata(_Said, frozen=True, kw_only=True):
    """What a cleaning removed.

    Attributes:
        earliest_commit_to_retain: The first instant whose files were kept; empty if versions were counted instead.
        last_completed_commit_timestamp: The newest write then.
    """

    earliest_commit_to_retain: str = ""
    last_completed_commit_timestamp: str = ""


class RetainedInstant(_Said, frozen=True, kw_only=True):
    """The first instant that a cleaning keeps within reach."""

    timestamp: str


class FileToClean(_Said, frozen=True, kw_only=True):
    """A file that a cleaning is to delete; only its name counts, the rest is that of the machine that wrote it."""

    file_path: str | None = None


class CleanerPlan(_Said, frozen=True, kw_only=True):
    """What a cleaning is to delete.

    Attributes:
        earliest_instant_to_retain: The first instant that stays within reach.
        last_completed_commit_timestamp: The newest write then.
        policy: What stays.
        file_paths_to_be_deleted_per_partition: The files to delete.
        files_to_be_deleted_per_partition: The same by name, as older releases say it.
    """

    earliest_instant_to_retain: RetainedInstant | None = None
    last_completed_commit_timestamp: str = ""
    policy: str = ""
    file_paths_to_be_deleted_per_partition: dict[str, list[FileToClean]] | None = None
    files_to_be_deleted_per_partition: dict[str, list[str]] | None = None

    def names(self) -> Iterator[tuple[str, list[str]]]:
        """The names of the files to delete, by partition."""
        for partition, files in (self.file_paths_to_be_deleted_per_partition or {}).items():
            yield partition, [each.file_path.rpartition("/")[2] for each in files if each.file_path]
        for partition, names in (self.files_to_be_deleted_per_partition or {}).items():
            yield partition, names


class InstantInfo(_Said, frozen=True, kw_only=True):
    """An instant that another one is about."""

    commit_time: str
    action: str


class RollbackMetadata(_Said, frozen=True, kw_only=True):
    """What a rollback took back.

    Attributes:
        commits_rollback: The instants that it took back.
        instants_rollback: The same, with their actions.
    """

    commits_rollback: list[str] = []
    instants_rollback: list[InstantInfo] = []


class RollbackPlan(_Said, frozen=True, kw_only=True):
    """What a rollback is going to take back."""

    instant_to_rollback: InstantInfo | None = None


class SavepointPartition(_Said, frozen=True, kw_only=True):
    """The files of a partition that cleaning must keep."""

    partition_path: str = ""
    savepoint_data_file: list[str] = []


class SavepointMetadata(_Said, frozen=True, kw_only=True):
    """What a savepoint keeps.

    Attributes:
        savepointed_by: Who made it.
        savepointed_at: When, in milliseconds since 1970.
        comments: Why.
        partition_metadata: The files that it keeps.
    """

    savepointed_by: str = ""
    savepointed_at: int = 0
    comments: str = ""
    partition_metadata: dict[str, SavepointPartition] = {}


class CompactionOperation(_Said, frozen=True, kw_only=True):
    """One file slice that a compaction is to merge.

    Attributes:
        base_instant_time: The instant of the slice.
        delta_file_paths: The names of its log files.
        data_file_path: The name of its base file.
        file_id: The file group.
        partition_path: The partition.
    """

    base_instant_time: str | None = None
    delta_file_paths: list[str] | None = None
    data_file_path: str | None = None
    file_id: str | None = None
    partition_path: str | None = None


class CompactionPlan(_Said, frozen=True, kw_only=True):
    """What a compaction is to merge."""

    operations: list[CompactionOperation] | None = None


class ClusteringSlice(_Said, frozen=True, kw_only=True):
    """One file slice that a clustering is to rewrite."""

    file_id: str | None = None
    partition_path: str | None = None


class ClusteringGroup(_Said, frozen=True, kw_only=True):
    """File slices that a clustering is to rewrite together."""

    slices: list[ClusteringSlice] | None = None


class ClusteringStrategy(_Said, frozen=True, kw_only=True):
    """How a clustering is to write rows."""

    strategy_params: dict[str, str] | None = None


class ClusteringPlan(_Said, frozen=True, kw_only=True):
    """What a clustering is to rewrite."""

    input_groups: list[ClusteringGroup] | None = None
    strategy: ClusteringStrategy | None = None


class ReplacePlan(_Said, frozen=True, kw_only=True):
    """What a replace commit is going to do.

    Attributes:
        operation_type: `CLUSTER` for a clustering.
        clustering_plan: What it is to rewrite.
    """

    operation_type: str | None = None
    clustering_plan: ClusteringPlan | None = None

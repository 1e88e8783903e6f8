"""A write, from its request to its completion.

The request reserves the time, the inflight state says that files are being written, and the completed file, put there
whole and once, makes them count. Whoever dies in between leaves a pending instant, whose files nobody reads and which
`rollback` takes back.

Two writes at once are fine as long as they write different file groups. Before a write is completed, those that were
completed since it began are compared with it; the later one loses. The limit: between that look and the completion
another write may slip in, so several writers give `complete` the lock that they share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Final

from halocline.errors import AlreadyExistsError, ConflictError
from halocline.formats.hudi.avro.containers import write_record
from halocline.formats.hudi.buckets import bucket_of
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.properties import read_properties, table_version
from halocline.formats.hudi.timeline.instant import REPLACE_COMMIT, HudiInstant, file_name
from halocline.formats.hudi.timeline.metadata import CommitMetadata, WriteStat
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write import schemas
from halocline.formats.hudi.write.commit_body import encode_commit
from halocline.formats.hudi.write.instants import put_completed, put_inflight, put_requested
from halocline.formats.hudi.write.markers import delete_markers
from halocline.formats.hudi.write.metadata_table import retire_metadata_table
from halocline.storage.base import Store

PARTITION_METADATA: Final = ".hoodie_partition_metadata"


@dataclass(frozen=True)
class HudiWrite:
    """A write that has begun. Made by `begin_write`.

    Attributes:
        store: Where the table lies.
        config: What it is.
        instant: The instant.
        operation: What kind of write it is, e.g. `UPSERT`.
        seen: The writes that were completed when it began.
    """

    store: Store
    config: HudiTableConfig
    instant: HudiInstant
    operation: str
    seen: frozenset[str]

    @property
    def time(self) -> str:
        """The time that names the instant, and the rows that it writes."""
        return self.instant.time

    def prepare_partition(self, partition: str) -> None:
        """Makes a folder a partition, unless it is one."""
        path = f"{partition}/{PARTITION_METADATA}" if partition else PARTITION_METADATA
        depth = partition.count("/") + 1 if partition else 0
        body = f"#partition metadata\ncommitTime={self.time}\npartitionDepth={depth}\n".encode()
        with suppress(AlreadyExistsError):
            self.store.put_if_absent(path, body)

    def complete(
        self,
        stats: Iterable[WriteStat],
        *,
        schema: str,
        replaced: Mapping[str, list[str]] | None = None,
        extra: Mapping[str, str] | None = None,
        lock: AbstractContextManager[object] | None = None,
    ) -> HudiInstant:
        """Makes what was written count.

        Args:
            stats: What was written.
            schema: The table's schema as Avro's JSON, without the meta columns.
            replaced: The file groups that it replaces, by partition.
            extra: What else to say.
            lock: What every writer of the table holds while it completes a write; needed where there are others.

        Raises:
            ConflictError: Another write has changed the same file groups since, or the table has moved to another
                version; nothing of this one counts.
        """
        by_partition: dict[str, list[WriteStat]] = {}
        for stat in stats:
            by_partition.setdefault(stat.partition_path or "", []).append(stat)
        metadata = CommitMetadata(
            partition_to_write_stats=by_partition,
            partition_to_replace_file_ids={key: list(ids) for key, ids in (replaced or {}).items()},
            extra_metadata={**(extra or {}), "schema": schema},
            operation_type=self.operation,
            compacted=False,
        )
        action, layout = self.instant.action, self.config.layout
        with lock or nullcontext():
            self._check_version()
            self._check_pending()
            self._check_conflicts(HudiTimeline.load(self.store, self.config), metadata)
            done = put_completed(self.store, self.config, self.instant, encode_commit(metadata, action, layout))
        delete_markers(self.store, self.time)
        return done

    def _check_version(self) -> None:
        """A table that has moved has another timeline: a commit to the old one would be lost."""
        found = table_version(read_properties(self.store).pairs, self.store.root)
        if found != self.config.version:
            raise ConflictError(
                f"{self.store.root} has moved to table version {found} since {self.time} began",
                condition="TABLE_MOVED",
                sides={"this write": f"version {self.config.version}", "table": f"version {found}"},
                next_step="Open the table again and do the write once more.",
            )

    def _check_pending(self) -> None:
        """A write that others took for dead and took back has no files any more."""
        if not self.store.exists(f"{self.config.timeline_folder}/{file_name(self.instant)}"):
            raise ConflictError(
                f"{self.time} of {self.store.root} was taken back while it was under way",
                condition="CONCURRENT_APPEND",
                sides={"this write": str(self.instant), "timeline": "no such pending instant"},
                next_step="Do the write once more; other writers took it for dead, since its heartbeat had stopped.",
            )

    def _check_conflicts(self, timeline: HudiTimeline, metadata: CommitMetadata) -> None:
        touched = _groups(metadata)
        for other in timeline.writes:
            if other.time in self.seen:
                continue
            both = touched & _groups(timeline.commit_metadata(other))
            if both:
                partition, file_id = min(both)
                raise ConflictError(
                    f"{other.time} has changed file group {file_id} of {self.store.root} since {self.time} began",
                    condition="CONCURRENT_APPEND",
                    sides={"this write": f"{self.time} {self.operation}", "other write": f"{other}, in {partition!r}"},
                    next_step="Roll this write back and do it again on the table as it is now.",
                )


def begin_write(
    store: Store, config: HudiTableConfig, action: str, operation: str, timeline: HudiTimeline | None = None
) -> HudiWrite:
    """Requests a write, and says that it is under way.

    Args:
        store: Where the table lies.
        config: What it is.
        action: `commit`, `deltacommit` or `replacecommit`.
        operation: What kind of write it is, e.g. `UPSERT`.
        timeline: The timeline that the write is based on; as it is now if not given.
    """
    config = retire_metadata_table(store, config)
    known = timeline or HudiTimeline.load(store, config)
    plan = {"operationType": None, "clusteringPlan": None, "extraMetadata": None, "version": 1}
    body = write_record(schemas.REQUESTED_REPLACE, plan) if action == REPLACE_COMMIT else b""
    requested = put_requested(store, config, action, body)
    began = encode_commit(CommitMetadata(operation_type=operation), action, config.layout)
    inflight = put_inflight(store, config, requested, began)
    return HudiWrite(store, config, inflight, operation, frozenset(each.time for each in known.writes))


def _groups(metadata: CommitMetadata) -> set[tuple[str, str]]:
    """The file groups that a write touches; those of a bucket are one, since a bucket may have no other."""
    written = {(partition, stat.file_id) for partition, stat in metadata.stats if stat.file_id}
    touched = written | set(metadata.replaced)
    return {(partition, file_id if bucket_of(file_id) is None else file_id[:8]) for partition, file_id in touched}

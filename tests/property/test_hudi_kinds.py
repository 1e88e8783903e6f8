"""Hudi tables of every kind through any life, written by what Spark's tasks write with, against a plain dictionary.

Kinds are made of table versions and types, a bucket index or none, meta columns or none, and logged changes or none.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.hudi_groups import upsert_groups, write_groups
from tests.support.hudi_tables import HudiTableMaker

from halocline.formats.hudi.buckets import BucketIndex, bucket_index, bucket_of
from halocline.formats.hudi.change_data import read_changes
from halocline.formats.hudi.configuration import ChangeLogging, TableType
from halocline.formats.hudi.incremental import settled_time
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.maintain.cleaning import clean
from halocline.formats.hudi.maintain.clustering import cancel_clustering, cluster, schedule_clustering
from halocline.formats.hudi.maintain.compaction import compact, pending_clusterings, schedule_compaction
from halocline.formats.hudi.move.engine import apply_move
from halocline.formats.hudi.move.planning import VERSIONS, plan_move
from halocline.formats.hudi.write.rollback import failed_writes, roll_back
from halocline.storage.memory import MemoryStore

IDS = st.sets(st.integers(0, 11), min_size=1, max_size=4)


class HudiKinds(RuleBasedStateMachine):
    """A table, and what its rows must be."""

    @initialize(
        version=st.sampled_from((6, 8, 9)),
        type=st.sampled_from(TableType),
        buckets=st.sampled_from((None, 1, 3)),
        meta_columns=st.booleans(),
        change_logging=st.sampled_from((None, *ChangeLogging)),
    )
    def create(
        self,
        version: int,
        type: TableType,
        buckets: int | None,
        meta_columns: bool,
        change_logging: ChangeLogging | None,
    ) -> None:
        kind = {"buckets": buckets, "meta_columns": meta_columns, "change_logging": change_logging}
        self.table = HudiTableMaker.create(MemoryStore(), version, type, **kind)
        self.buckets, self.told = buckets, meta_columns and change_logging is not None
        self.model: dict[str, tuple[int, str]] = {}
        self.ts = 100

    @rule(ids=IDS, deletes=IDS)
    def write(self, ids: set[int], deletes: set[int]) -> None:
        self._take_back()
        self.ts += 1
        gone = {f"k{each}" for each in deletes - ids}
        before, since = dict(self.model), settled_time(self.table.snapshot.timeline)
        upsert_groups(self.table, sorted(ids), self.ts, "w", sorted(deletes - ids))
        self.model |= {f"k{each}": (self.ts, f"w{each}") for each in ids}
        self.model = {key: value for key, value in self.model.items() if key not in gone}
        if self.told:
            expected = {
                (_change(key, before, self.model), key) for key in {f"k{each}" for each in ids} | gone & {*before}
            }
            found = [row for batch in read_changes(self.table.snapshot, since) for row in batch.to_pylist()]
            assert {(row["op"], (row["after"] or row["before"])["id"]) for row in found} == expected

    @rule(ids=IDS)
    def fail(self, ids: set[int]) -> None:
        self._take_back()
        write_groups(self.table, self.table.begin(), sorted(ids), 9_999, "lost")

    @precondition(lambda self: self.table.config.type is TableType.MERGE_ON_READ)
    @rule(run=st.booleans())
    def merge(self, run: bool) -> None:
        self._take_back()
        _ = compact(self.table.store) if run else schedule_compaction(self.table.store)

    @precondition(lambda self: self.buckets is None)
    @rule(run=st.booleans())
    def put_together(self, run: bool) -> None:
        self._take_back()
        _ = cluster(self.table.store) if run else schedule_clustering(self.table.store)
        for instant, _groups in list(pending_clusterings(self.table.snapshot.timeline)):
            cancel_clustering(self.table.store, instant.time)

    @rule(keep=st.integers(1, 3))
    def clean_up(self, keep: int) -> None:
        clean(self.table.store, keep=keep)
        archive(self.table.store, keep=keep, at_most=keep)

    @rule(to=st.sampled_from(VERSIONS))
    def move(self, to: int) -> None:
        if to != self.table.config.version:
            self.table.config = apply_move(self.table.store, plan_move(self.table.store, to), grace_s=0)

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if hasattr(self, "table"):
            found = [row for batch in self.table.snapshot.read(["id", "ts", "name"]) for row in batch.to_pylist()]
            assert sorted((row["id"], row["ts"], row["name"]) for row in found) == sorted(
                (key, *value) for key, value in self.model.items()
            )

    @invariant()
    def every_key_lies_in_its_bucket(self) -> None:
        if hasattr(self, "table") and self.buckets is not None:
            places = [(each.partition, bucket_of(each.file_id)) for each in self.table.snapshot.slices]
            assert len(places) == len(set(places)), "one file group per bucket"
            assert bucket_index(self.table.snapshot) == BucketIndex(self.buckets)

    def _take_back(self) -> None:
        for each in failed_writes(self.table.snapshot.timeline):
            roll_back(self.table.store, self.table.config, each)


def _change(key: str, before: dict, after: dict) -> str:
    return "d" if key not in after else "u" if key in before else "i"


TestHudiKinds = HudiKinds.TestCase
TestHudiKinds.settings = settings(max_examples=10, stateful_step_count=12, deadline=None)

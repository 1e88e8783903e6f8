"""A Hudi table through any life: writes, deletes, failures, services and moves, against a plain dictionary."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.hudi_tables import HudiTableMaker
from tests.support.hudi_tables import rows as made_rows

from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.maintain.cleaning import clean
from halocline.formats.hudi.maintain.clustering import cluster
from halocline.formats.hudi.maintain.compaction import pending_compactions, run_compaction, schedule_compaction
from halocline.formats.hudi.move.engine import apply_move, finish_move
from halocline.formats.hudi.move.planning import VERSIONS, plan_move
from halocline.formats.hudi.write.rollback import failed_writes, roll_back
from halocline.storage.memory import MemoryStore

IDS = st.sets(st.integers(0, 11), min_size=1, max_size=4)


class HudiLife(RuleBasedStateMachine):
    """A table, and what its rows must be."""

    @initialize(version=st.sampled_from((6, 8, 9)), type=st.sampled_from(TableType))
    def create(self, version: int, type: TableType) -> None:
        self.table = HudiTableMaker.create(MemoryStore(), version, type)
        self.model: dict[str, tuple[int, str]] = {}
        self.ts = 100

    @rule(ids=IDS, deletes=IDS)
    def write(self, ids: set[int], deletes: set[int]) -> None:
        self._take_back()
        self.ts += 1
        gone = [each for each in sorted(deletes - ids) if f"k{each}" in self.model]
        self.table.upsert(sorted(ids), self.ts, "w", deletes=gone)
        self.model |= {f"k{each}": (self.ts, f"w{each}") for each in ids}
        for each in gone:
            del self.model[f"k{each}"]

    @rule(ids=IDS)
    def fail(self, ids: set[int]) -> None:
        self._take_back()
        write = self.table.begin()
        self.table.write(write, made_rows(sorted(ids), 9_999, "lost"))

    @precondition(lambda self: self.table.config.type is TableType.MERGE_ON_READ)
    @rule()
    def schedule(self) -> None:
        self._take_back()
        schedule_compaction(self.table.store)

    @precondition(lambda self: self.table.config.type is TableType.MERGE_ON_READ)
    @rule()
    def compact(self) -> None:
        for each in pending_compactions(self.table.snapshot.timeline)[:1]:
            run_compaction(self.table.store, each.time)

    @rule()
    def put_together(self) -> None:
        self._take_back()
        cluster(self.table.store, sort_by=["id"])

    @rule(keep=st.integers(1, 3))
    def clean(self, keep: int) -> None:
        clean(self.table.store, keep=keep)

    @rule(keep=st.integers(1, 3))
    def archive(self, keep: int) -> None:
        archive(self.table.store, keep=keep, at_most=keep)

    @rule(to=st.sampled_from(VERSIONS), grace_s=st.sampled_from((0, 3600)))
    def move(self, to: int, grace_s: float) -> None:
        if to != self.table.config.version:
            self.table.config = apply_move(self.table.store, plan_move(self.table.store, to), grace_s=grace_s)

    @rule()
    def finish(self) -> None:
        finish_move(self.table.store, grace_s=0)

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if hasattr(self, "table"):
            found = [row for batch in self.table.snapshot.read(["id", "ts", "name"]) for row in batch.to_pylist()]
            assert sorted((row["id"], row["ts"], row["name"]) for row in found) == sorted(
                (key, *value) for key, value in self.model.items()
            )

    def _take_back(self) -> None:
        for each in failed_writes(self.table.snapshot.timeline):
            roll_back(self.table.store, self.table.config, each)


TestHudiLife = HudiLife.TestCase
TestHudiLife.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)

"""A companion of a Hudi table that calls itself fresh has the rows of the table, whatever becomes of either."""

from __future__ import annotations

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.hudi_tables import HudiTableMaker
from tests.support.hudi_tables import rows as made_rows
from tests.support.index_tables import rows_of

from halocline.errors import ConflictError
from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.maintain.cleaning import CleaningPolicy, clean
from halocline.formats.hudi.maintain.compaction import compact
from halocline.formats.hudi.move.engine import apply_move
from halocline.formats.hudi.move.planning import plan_move
from halocline.formats.hudi.timeline.metadata import WriteStat
from halocline.formats.hudi.write.rollback import roll_back
from halocline.formats.hudi.write.transaction import HudiWrite
from halocline.formats.index.merge.run import merge_splits
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.storage import open_store
from halocline.table.index.companion import build_index, fresh_companion, sync_index

IDS = st.sets(st.integers(0, 8), min_size=1, max_size=3)
_NUMBERS = count()


class HudiCompanion(RuleBasedStateMachine):
    """A table with writes that are completed in any order, and its companion."""

    @initialize(version=st.sampled_from((6, 8, 9)), type=st.sampled_from(TableType))
    def create(self, version: int, type: TableType) -> None:
        root = f"memory://companion-{next(_NUMBERS)}"
        self.table = HudiTableMaker.create(open_store(f"{root}/source"), version, type)
        self.ts = 1
        self.under_way: list[tuple[HudiWrite, list[WriteStat]]] = []
        self.write(set(range(4)))
        self.store = open_store(f"{root}/index")
        build_index(self.table.store, self.store, ["id", "name"])

    @rule(ids=IDS)
    def write(self, ids: set[int]) -> None:
        self.ts += 1
        try:
            self.table.upsert(sorted(ids), self.ts, f"at {self.ts} ")
        except ConflictError:
            return  # left pending, as by a writer that died

    @rule(ids=IDS)
    def begin(self, ids: set[int]) -> None:
        self.ts += 1
        write = self.table.begin()
        self.under_way.append((write, self.table.write(write, made_rows(sorted(ids), self.ts, f"slow {self.ts} "))))

    @rule(ids=IDS, others=IDS)
    def overtake(self, ids: set[int], others: set[int]) -> None:
        """A write is completed after a later one, and the companion follows the table in between."""
        self.begin(ids)
        self.write(others)
        self.sync()
        self._end(len(self.under_way) - 1, counts=True)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), counts=st.booleans())
    def end(self, data: st.DataObject, counts: bool) -> None:
        self._end(data.draw(st.integers(0, len(self.under_way) - 1)), counts)

    def _end(self, number: int, counts: bool) -> None:
        write, stats = self.under_way.pop(number)
        try:
            if counts:
                write.complete(stats, schema=self.table.schema)
                return
        except ConflictError:
            pass
        roll_back(self.table.store, self.table.config, write.instant)

    @precondition(lambda self: self.table.config.type is TableType.MERGE_ON_READ and not self.under_way)
    @rule()
    def compact(self) -> None:
        compact(self.table.store)

    @rule()
    def archive(self) -> None:
        archive(self.table.store, keep=1, at_most=1)

    @rule()
    def clean(self) -> None:
        clean(self.table.store, policy=CleaningPolicy.VERSIONS, keep=1)

    @precondition(lambda self: not self.under_way)
    @rule(to=st.sampled_from((6, 8, 9)))
    def move(self, to: int) -> None:
        if to != self.table.config.version:
            apply_move(self.table.store, plan_move(self.table.store, to), grace_s=0)
            self.table = HudiTableMaker(self.table.store, self.table.snapshot.config, self.table.schema)

    @rule()
    def merge(self) -> None:
        merge_splits(IndexSnapshot.load(self.store))

    @rule()
    def sync(self) -> None:
        sync_index(self.store)
        assert self._shown() is not None

    @invariant()
    def shows_the_rows_of_its_source_or_nothing(self) -> None:
        shown = self._shown()
        if shown is not None:
            assert shown == sorted(
                row["name"] for batch in self.table.snapshot.read(["name"]) for row in batch.to_pylist()
            )

    def _shown(self) -> list[str] | None:
        """The rows of the companion; None if it refuses."""
        try:
            snapshot = fresh_companion(self.store)
        except ConflictError:
            return None
        return sorted(rows_of(snapshot, "name"))


TestHudiCompanion = HudiCompanion.TestCase
TestHudiCompanion.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)

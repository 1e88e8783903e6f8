"""Hudi tables of every kind through any life, written by what Spark's tasks write with, against a plain dictionary.

Kinds are made of table versions and types, a bucket index or none, meta columns or none, and logged changes or none.
A life is made of writes, replaced and deleted partitions, rows that come late, table services and moves; any of them
may die at any storage step. Besides the newest rows, those of earlier instants and of ranges of writes are compared for
as long as the table has them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.faulty_store import WRITES, CrashError, FaultyStore
from tests.support.hudi_groups import write_groups, write_rows
from tests.support.hudi_tables import HudiTableMaker

from halocline.errors import IncompatibleError, NotFoundError
from halocline.formats.hudi.buckets import BucketIndex, bucket_index, bucket_of
from halocline.formats.hudi.change_data import read_changes
from halocline.formats.hudi.configuration import ChangeLogging, TableType
from halocline.formats.hudi.incremental import read_range, settled_time
from halocline.formats.hudi.maintain.archiving import archive
from halocline.formats.hudi.maintain.cleaning import clean
from halocline.formats.hudi.maintain.clustering import cancel_clustering, cluster, schedule_clustering
from halocline.formats.hudi.maintain.compaction import compact, pending_clusterings, schedule_compaction
from halocline.formats.hudi.maintain.locks import LOCK_FILE
from halocline.formats.hudi.move.engine import apply_move, finish_move, resume_move
from halocline.formats.hudi.move.planning import VERSIONS, plan_move
from halocline.formats.hudi.properties import properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.formats.hudi.write.heartbeat import take_back_failed
from halocline.storage.base import Store
from halocline.storage.memory import MemoryStore
from halocline.table.hudi.opened import HudiOpened
from halocline.table.hudi.write import delete_partition

IDS = st.sets(st.integers(0, 11), min_size=1, max_size=4)
REGIONS = ("ap", "eu")
SERVICES: dict[str, Callable[[Store, int], object]] = {
    "compact": lambda store, keep: compact(store),
    "schedule a compaction": lambda store, keep: schedule_compaction(store),
    "cluster": lambda store, keep: cluster(store),
    "clean": lambda store, keep: clean(store, keep=keep),
    "clean by versions": lambda store, keep: clean(store, policy="KEEP_LATEST_FILE_VERSIONS", keep=keep),
    "archive": lambda store, keep: archive(store, keep=keep, at_most=keep),
    "finish a move": lambda store, keep: finish_move(store, grace_s=0),
    "resume a move": lambda store, keep: resume_move(store, grace_s=0),
}
Rows = dict[str, tuple[int, str]]


@dataclass(frozen=True)
class Past:
    """A moment of a table's life.

    Attributes:
        time: The newest write.
        settled: From where a range begins that leaves out everything so far.
        layout: The layout of the timeline, which says what such a time means.
        rows: What the rows were.
    """

    time: str
    settled: str
    layout: int
    rows: Rows


class HudiKinds(RuleBasedStateMachine):
    """A table, and what its rows must be."""

    @initialize(
        version=st.sampled_from((6, 8, 9)),
        type=st.sampled_from(TableType),
        buckets=st.sampled_from((None, None, 1, 3)),
        meta_columns=st.sampled_from((True, True, False)),
        change_logging=st.sampled_from((None, None, *ChangeLogging)),
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
        self.buckets, self.meta_columns = buckets, meta_columns
        self.told = meta_columns and change_logging is not None
        self.model: Rows = {}
        self.past: list[Past] = []
        self.dead: set[int] = set()
        self.beaten: set[str] = set()
        self.ts = 100

    # ------------------------------------------------------------------ what changes rows

    @rule(ids=IDS, deletes=IDS, late=st.booleans())
    def write(self, ids: set[int], deletes: set[int], late: bool) -> None:
        self._to_write()
        before, since = dict(self.model), settled_time(self.table.snapshot.timeline)
        step, after = self._upsert(ids, deletes - ids, late)
        step(self.table.store)
        self._became(after)
        if self.told and not late:
            gone = {f"k{each}" for each in deletes - ids} & {*before}
            expected = {(_change(key, before, after), key) for key in {f"k{each}" for each in ids} | gone}
            found = [row for batch in read_changes(self.table.snapshot, since) for row in batch.to_pylist()]
            assert {(row["op"], (row["after"] or row["before"])["id"]) for row in found} == expected

    @rule(ids=IDS, whole=st.booleans())
    def replace_partitions(self, ids: set[int], whole: bool) -> None:
        step, after = self._replacement(ids, whole)
        step(self.table.store)
        self._became(after)

    @rule(region=st.sampled_from(REGIONS))
    def drop_partition(self, region: str) -> None:
        self._to_write()
        if region in {each.partition for each in self.table.snapshot.slices}:
            delete_partition(HudiOpened(self.table.store), region)
            self._became(self._without(region))

    @rule(ids=IDS)
    def fail(self, ids: set[int]) -> None:
        take_back_failed(self.table.store, self.table.config)
        write_groups(self.table, self.table.begin(), sorted(ids), 9_999, "lost")

    # ------------------------------------------------------------------ what does not

    @rule(name=st.sampled_from(sorted(SERVICES)), keep=st.integers(1, 3))
    def serve(self, name: str, keep: int) -> None:
        if self._serves(name):
            take_back_failed(self.table.store, self.table.config)
            SERVICES[name](self.table.store, keep)
            self._opened()

    @precondition(lambda self: self.buckets is None)
    @rule()
    def plan_to_put_together_and_do_not(self) -> None:
        take_back_failed(self.table.store, self.table.config)
        schedule_clustering(self.table.store)
        for instant, _groups in list(pending_clusterings(self.table.snapshot.timeline)):
            cancel_clustering(self.table.store, instant.time)

    @rule(to=st.sampled_from(VERSIONS), grace_s=st.sampled_from((0, 3600)))
    def move(self, to: int, grace_s: float) -> None:
        resume_move(self.table.store)
        self._opened()
        if to != self.table.config.version:
            apply_move(self.table.store, plan_move(self.table.store, to), grace_s=grace_s)
            self._opened()

    # ------------------------------------------------------------------ what dies

    @rule(ids=IDS, deletes=IDS, late=st.booleans(), at=st.integers(1, 25))
    def die_writing(self, ids: set[int], deletes: set[int], late: bool, at: int) -> None:
        self._die(*self._upsert(ids, deletes - ids, late), at)

    @rule(ids=IDS, whole=st.booleans(), at=st.integers(1, 25))
    def die_replacing(self, ids: set[int], whole: bool, at: int) -> None:
        self._die(*self._replacement(ids, whole), at)

    @rule(name=st.sampled_from(sorted(SERVICES)), keep=st.integers(1, 3), at=st.integers(1, 25))
    def die_serving(self, name: str, keep: int, at: int) -> None:
        if self._serves(name):
            take_back_failed(self.table.store, self.table.config)
            self._die(lambda store: SERVICES[name](store, keep), self.model, at)
            if name == "cluster":  # until it is run or cancelled, its groups may not be changed
                cluster(self.table.store)

    @rule(to=st.sampled_from(VERSIONS), at=st.integers(1, 40))
    def die_moving(self, to: int, at: int) -> None:
        resume_move(self.table.store)
        self._opened()
        if to != self.table.config.version:
            planned = plan_move(self.table.store, to)
            self._die(lambda store: apply_move(store, planned, grace_s=0), self.model, at)

    @rule(at=st.integers(1, 25))
    def die_taking_back(self, at: int) -> None:
        self._die(lambda store: take_back_failed(store, self.table.config), self.model, at)

    # ------------------------------------------------------------------ what has to hold

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if hasattr(self, "table"):
            assert self._rows() == self.model

    @invariant()
    def every_key_lies_in_its_bucket(self) -> None:
        if hasattr(self, "table") and self.buckets is not None and self.table.snapshot.slices:
            places = [(each.partition, bucket_of(each.file_id)) for each in self.table.snapshot.slices]
            assert len(places) == len(set(places)), "one file group per bucket"
            assert bucket_index(self.table.snapshot) == BucketIndex(self.buckets)

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        then = data.draw(st.sampled_from(self.past))
        try:
            found = self._rows(as_of=then.time)
        except NotFoundError:
            return  # cleaning took its files, and it says so
        assert found == then.rows, f"as of {then.time}"

    @precondition(lambda self: self.past and self.meta_columns)
    @rule(data=st.data())
    def look_at_a_range(self, data: st.DataObject) -> None:
        then = data.draw(st.sampled_from(self.past))
        if then.layout != self.table.config.layout:
            return  # such a time has another meaning now
        found = read_range(self.table.snapshot, then.settled)
        if not found.is_complete:
            return
        try:
            rows = _rows_of(found.read(["id", "ts", "name"]))
        except NotFoundError:
            return
        expected = {key: value for key, value in self.model.items() if then.rows.get(key) != value}
        for key in self.beaten:  # a row that lost stands in a log file, which a range may read without the winner
            _ = rows.pop(key, None), expected.pop(key, None)
        assert rows == expected, f"written after {then.settled}"

    # ------------------------------------------------------------------ how

    def _upsert(self, ids: set[int], deletes: set[int], late: bool) -> tuple[Callable[[Store], object], Rows]:
        self._to_write()
        self.ts += 1
        # As in Apache Hudi, a row that comes late competes with what a delete in a log file has not yet taken out.
        late = late and ids.isdisjoint(self.dead)
        self.dead |= deletes
        ts = 50 if late else self.ts
        tag = f"w{self.ts}-"
        given = {f"k{each}": (ts, f"{tag}{each}") for each in ids}
        after = {key: value for key, value in self.model.items() if key not in {f"k{each}" for each in deletes}}
        beaten = {key for key, value in given.items() if key in after and after[key][0] > value[0]}
        self.beaten |= beaten
        after |= {key: value for key, value in given.items() if key not in beaten}
        return (
            lambda store: write_rows(HudiOpened(store), "UPSERT", sorted(ids), ts, tag, sorted(deletes)),
            after,
        )

    def _replacement(self, ids: set[int], whole: bool) -> tuple[Callable[[Store], object], Rows]:
        self._to_write()
        self.ts += 1
        ts, tag = self.ts, f"o{self.ts}-"
        given = {f"k{each}": (ts, f"{tag}{each}") for each in ids}
        after = {} if whole else self._without(*{REGIONS[each % 2] for each in ids})
        operation = "INSERT_OVERWRITE_TABLE" if whole else "INSERT_OVERWRITE"
        return lambda store: write_rows(HudiOpened(store), operation, sorted(ids), ts, tag), after | given

    def _to_write(self) -> None:
        """A table at the version between the timelines is read, and moves on before it is written to."""
        if self.table.config.version == 7:
            with pytest.raises(IncompatibleError):
                HudiSnapshot.load(self.table.store, operation="write")
            self.move(8, 3600)

    def _without(self, *regions: str) -> Rows:
        return {key: value for key, value in self.model.items() if REGIONS[int(key[1:]) % 2] not in regions}

    def _serves(self, name: str) -> bool:
        if name == "cluster":
            return self.buckets is None
        return "compact" not in name or self.table.config.type is TableType.MERGE_ON_READ

    def _die(self, step: Callable[[Store], object], after: Rows, at: int) -> None:
        """Does something that ends with its process after so many writes; it was done, or it was not."""
        with contextlib.suppress(CrashError):
            step(FaultyStore(self.table.store).crash_after(at, on=WRITES))
        self.table.store.delete(LOCK_FILE)  # as others do once they see that its holder is gone
        self._opened()
        found = self._rows()
        assert found in (self.model, after), f"neither as before nor as after, which is {after}"
        if found != self.model:
            self._became(after)

    def _became(self, rows: Rows) -> None:
        self.model = rows
        self._opened()
        timeline = self.table.snapshot.timeline
        settled = settled_time(timeline)
        if settled is not None and not timeline.pending:
            newest = max(each.time for each in timeline.writes)
            self.past.append(Past(newest, settled, self.table.config.layout, rows))

    def _opened(self) -> None:
        """Another process may have moved the table."""
        self.table.config = type(self.table.config).parse(properties(self.table.store), "orders")

    def _rows(self, as_of: str | None = None) -> Rows:
        return _rows_of(HudiSnapshot.load(self.table.store, as_of=as_of).read(["id", "ts", "name"]))


def _rows_of(batches) -> Rows:
    found = [row for batch in batches for row in batch.to_pylist()]
    rows = {row["id"]: (row["ts"], row["name"]) for row in found}
    assert len(rows) == len(found), "no key twice"
    return rows


def _change(key: str, before: Rows, after: Rows) -> str:
    return "d" if key not in after else "u" if key in before else "i"


TestHudiKinds = HudiKinds.TestCase
TestHudiKinds.settings = settings(max_examples=10, stateful_step_count=15, deadline=None)

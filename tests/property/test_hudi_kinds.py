"""Hudi tables of every kind through any life, written by what Spark's tasks write with, against a plain dictionary.

Kinds are made of table versions and types, a bucket index or none, meta columns or none, and logged changes or none.
A life is made of writes, replaced and deleted partitions, rows that come late, table services and moves; any of them
may die at any storage step. Besides the newest rows, those of earlier instants and of ranges of writes are compared for
as long as the table has them.

A row that comes *late* has a smaller ordering value than others of its key. What it does is as measured with Apache
Hudi 0.15.0 and 1.2.0. It loses against a row that is there. Where a log file deletes the key, it competes with what the
base file still holds, and if that has the larger value, that row is back. A range of writes without the winner shows
the loser, if that lies in a log file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.faulty_store import WRITES, CrashError, FaultyStore
from tests.support.hudi_groups import write_groups, write_rows
from tests.support.hudi_tables import HudiTableMaker

from halocline.errors import NotFoundError
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

KEYS = 8
IDS = st.sets(st.integers(0, KEYS - 1), min_size=1, max_size=4)
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
LATE = 50
"""The ordering value of rows that come late."""

Row = tuple[int, str]
Rows = dict[str, Row]


@dataclass(frozen=True)
class Past:
    """A moment of a table's life.

    Attributes:
        time: The newest write.
        settled: From where a range begins that leaves out everything so far.
        layout: The layout of the timeline, which says what such a time means.
        rows: What the rows were.
        number: How many writes had been tried.
        served: How many services and moves.
        open: The keys whose rows a pending compaction may still change.
    """

    time: str
    settled: str
    layout: int
    rows: Rows
    number: int
    served: int
    open: frozenset[str]


@dataclass(frozen=True)
class Step:
    """What is done to a table.

    Attributes:
        run: Does it.
        after: What the rows are then.
        given: The rows that are written.
        replaced: The keys whose earlier rows cannot come back.
    """

    run: Callable[[Store], object]
    after: Rows
    given: Rows = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()


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
        self.merges = type is TableType.MERGE_ON_READ
        self.held: dict[str, list[Row]] = {}  # all rows that a key has had, that of its base file first
        self.lost: Rows = {}  # the newest row of a key that lost
        self.open: dict[str, set[Row]] = {}  # the rows among which a pending compaction decides
        self.ts, self.served = 100, 0

    # ------------------------------------------------------------------ what changes rows

    @rule(ids=IDS, deletes=IDS, late=st.booleans())
    def write(self, ids: set[int], deletes: set[int], late: bool) -> None:
        before, since = dict(self.model), settled_time(self.table.snapshot.timeline)
        self._do(self._upsert(ids, deletes - ids, late))
        if self.told and not late:
            gone = {f"k{each}" for each in deletes - ids} & {*before}
            expected = {(_change(key, before, self.model), key) for key in {f"k{each}" for each in ids} | gone}
            found = [row for batch in read_changes(self.table.snapshot, since) for row in batch.to_pylist()]
            assert {(row["op"], (row["after"] or row["before"])["id"]) for row in found} == expected

    @precondition(lambda self: self.held)
    @rule(data=st.data(), deletes_first=st.booleans())
    def come_late(self, data: st.DataObject, deletes_first: bool) -> None:
        """Rows that come late for keys that there are, or have been; and what ranges show of them."""
        drawn = data.draw(st.sets(st.sampled_from(sorted(self.held)), min_size=1, max_size=3))
        ids = {int(key[1:]) for key in drawn}
        if deletes_first:
            self._do(self._upsert(set(), ids, late=False))
        self._do(self._upsert(ids, set(), late=True))
        for then in self.past[-4:]:
            self._check_range(then)

    @rule(ids=IDS, whole=st.booleans())
    def replace_partitions(self, ids: set[int], whole: bool) -> None:
        self._do(self._replacement(ids, whole))

    @rule(region=st.sampled_from(REGIONS))
    def drop_partition(self, region: str) -> None:
        if region in {each.partition for each in self.table.snapshot.slices}:
            self._do(
                Step(
                    lambda store: delete_partition(HudiOpened(store), region),
                    self._without(region),
                    replaced=_keys_in(region),
                )
            )

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
            self._served()

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
        self._served()
        if to != self.table.config.version:
            apply_move(self.table.store, plan_move(self.table.store, to), grace_s=grace_s)
            self._served()

    # ------------------------------------------------------------------ what dies

    @rule(ids=IDS, deletes=IDS, late=st.booleans(), at=st.integers(1, 25))
    def die_writing(self, ids: set[int], deletes: set[int], late: bool, at: int) -> None:
        self._die(self._upsert(ids, deletes - ids, late), at)

    @rule(ids=IDS, whole=st.booleans(), at=st.integers(1, 25))
    def die_replacing(self, ids: set[int], whole: bool, at: int) -> None:
        self._die(self._replacement(ids, whole), at)

    @rule(name=st.sampled_from(sorted(SERVICES)), keep=st.integers(1, 3), at=st.integers(1, 25))
    def die_serving(self, name: str, keep: int, at: int) -> None:
        if self._serves(name):
            take_back_failed(self.table.store, self.table.config)
            self._die(Step(lambda store: SERVICES[name](store, keep), self.model), at)
            if name == "cluster":  # until it is run or cancelled, its groups may not be changed
                cluster(self.table.store)
            self._served()

    @rule(to=st.sampled_from(VERSIONS), at=st.integers(1, 40))
    def die_moving(self, to: int, at: int) -> None:
        resume_move(self.table.store)
        self._served()
        if to != self.table.config.version:
            planned = plan_move(self.table.store, to)
            self._die(Step(lambda store: apply_move(store, planned, grace_s=0), self.model), at)
            self._served()

    @rule(at=st.integers(1, 25))
    def die_taking_back(self, at: int) -> None:
        self._die(Step(lambda store: take_back_failed(store, self.table.config), self.model), at)

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
        for key in then.open:
            _ = found.pop(key, None)
        expected = {key: value for key, value in then.rows.items() if key not in then.open}
        assert found == expected, f"as of {then.time}"

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def look_at_a_range(self, data: st.DataObject) -> None:
        self._check_range(data.draw(st.sampled_from(self.past)))

    # ------------------------------------------------------------------ how

    def _check_range(self, then: Past) -> None:
        if not self.meta_columns or then.layout != self.table.config.layout:
            return  # rows do not tell their writes, or such a time has another meaning now
        found = read_range(self.table.snapshot, then.settled)
        if not found.is_complete:
            return
        try:
            rows = _rows_of(found.read(["id", "ts", "name"]))
        except NotFoundError:
            return
        for key in {*self.model, *rows}:
            if key not in self.open:
                assert rows.get(key) in self._in_range(key, then), f"{key}, of what was written after {then.settled}"

    def _upsert(self, ids: set[int], deletes: set[int], late: bool) -> Step:
        self.ts += 1
        ts, tag = LATE if late else self.ts, f"w{self.ts}-"
        given = {f"k{each}": (ts, f"{tag}{each}") for each in ids}
        after = {key: value for key, value in self.model.items() if key not in {f"k{each}" for each in deletes}}
        after |= {key: value for key, value in given.items() if key not in after or after[key][0] <= value[0]}
        return Step(
            lambda store: write_rows(HudiOpened(store), "UPSERT", sorted(ids), ts, tag, sorted(deletes)), after, given
        )

    def _with_those_back(self, step: Step, found: Rows) -> Rows:
        """The rows after a step, with those that a late row of a deleted key has brought back."""
        back = {}
        for key, value in step.given.items():
            if self.merges and value[0] == LATE and key not in self.model and key not in step.replaced:
                older = [each for each in self.held.get(key, ()) if each[0] > LATE]
                if self.served or self.buckets is not None:
                    back |= {key: found[key]} if found.get(key) in older else {}
                elif older and older[0] == self.held[key][0]:
                    back[key] = older[0]  # nothing else has touched the base file
        return step.after | back

    def _in_range(self, key: str, then: Past) -> set[Row | None]:
        """The rows of a key that a range may show which begins at a moment."""
        winner, loser = self.model.get(key), self.lost.get(key)
        found: set[Row | None] = set()
        if winner is not None and _number(winner) > then.number:
            found.add(winner)
        if self.merges and loser is not None and _number(loser) > then.number:
            if self.served > then.served:
                return found | {loser, *([] if found else [None])}
            return found or {loser}
        return found or {None}

    def _replacement(self, ids: set[int], whole: bool) -> Step:
        self.ts += 1
        ts, tag = self.ts, f"o{self.ts}-"
        given = {f"k{each}": (ts, f"{tag}{each}") for each in ids}
        regions = REGIONS if whole else tuple({REGIONS[each % 2] for each in ids})
        operation = "INSERT_OVERWRITE_TABLE" if whole else "INSERT_OVERWRITE"
        return Step(
            lambda store: write_rows(HudiOpened(store), operation, sorted(ids), ts, tag),
            self._without(*regions) | given,
            given,
            _keys_in(*regions),
        )

    def _without(self, *regions: str) -> Rows:
        return {key: value for key, value in self.model.items() if key not in _keys_in(*regions)}

    def _serves(self, name: str) -> bool:
        if name == "cluster":
            return self.buckets is None
        return "compact" not in name or self.table.config.type is TableType.MERGE_ON_READ

    def _do(self, step: Step) -> None:
        pending = self.table.snapshot.timeline.pending_compactions
        step.run(self.table.store)
        self._became(step, self._with_those_back(step, self._rows()), bool(pending))

    def _die(self, step: Step, at: int) -> None:
        """Does something that ends with its process after so many writes; it was done, or it was not."""
        timeline = self.table.snapshot.timeline
        with contextlib.suppress(CrashError):
            step.run(FaultyStore(self.table.store).crash_after(at, on=WRITES))
        self.table.store.delete(LOCK_FILE)  # as others do once they see that its holder is gone
        if not step.given:
            self._settle()
            assert self._rows() == self.model
        elif {*self.table.snapshot.timeline.writes} <= {*timeline.writes}:
            assert self._rows() == self.model, "it was not done"
        else:
            after = self._with_those_back(step, self._rows())
            assert self._rows() == after, "it was done"
            self._became(step, after, bool(timeline.pending_compactions))

    def _served(self) -> None:
        """A service or a move has been at work."""
        self.served += 1
        self._settle()

    def _settle(self) -> None:
        """Another process may have moved the table, or run a compaction that decides which rows win."""
        self._opened()
        found = self._rows() if self.open else {}
        self.model = self.model | {key: found[key] for key, rows in self.open.items() if found.get(key) in rows}

    def _became(self, step: Step, rows: Rows, compacting: bool) -> None:
        for key in step.replaced:
            self.held.pop(key, None)
        for key in {*step.replaced, *self.model} - {*rows}:
            _ = self.lost.pop(key, None), self.open.pop(key, None)
        for key, value in step.given.items():
            late = self.merges and value[0] == LATE
            if late and (key in self.open or (compacting and key not in self.model)):
                self.open.setdefault(key, set(self.held.get(key, ()))).add(value)
            elif not late:
                self.open.pop(key, None)
            if rows[key] == value:
                self.held.setdefault(key, []).append(value)
                self.lost.pop(key, None)
            else:
                self.lost[key] = value
        self.model = rows
        self._opened()
        timeline = self.table.snapshot.timeline
        settled = settled_time(timeline)
        if settled is not None and not timeline.pending:
            newest = max(each.time for each in timeline.writes)
            layout, open = self.table.config.layout, frozenset(self.open)
            self.past.append(Past(newest, settled, layout, rows, self.ts, self.served, open))

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


def _number(row: Row) -> int:
    """The write that a row is from."""
    return int(row[1][1:].partition("-")[0])


def _keys_in(*regions: str) -> frozenset[str]:
    return frozenset(f"k{each}" for each in range(KEYS) if REGIONS[each % 2] in regions)


def _change(key: str, before: Rows, after: Rows) -> str:
    return "d" if key not in after else "u" if key in before else "i"


TestHudiKinds = HudiKinds.TestCase
TestHudiKinds.settings = settings(max_examples=10, stateful_step_count=15, deadline=None)

"""Tables that stay open are the same as one that is opened anew, whatever is done to their log meanwhile."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from tests.support.reached import Reached

from halocline.errors import HaloclineError
from halocline.formats.delta.commit.log_cleanup import clean_log
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage.local import LocalStore
from halocline.table import Table

reached = Reached()

STEPS = 30


class World:
    """A table on disk, and what we, deltalake, a clean-up or somebody's hand may do to it."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.log = path, path / "_delta_log"
        self.chance, self.rows_made = random.Random(seed), 0
        self.create()
        self.open = [Table.for_path(path), Table.for_path(path)]

    def rows(self, count: int = 1) -> pa.Table:
        ids = range(self.rows_made, self.rows_made + count)
        self.rows_made += count
        return pa.table({"id": pa.array(ids, pa.int64()), "p": [str(each % 3) for each in ids]})

    def one(self) -> Table:
        return self.chance.choice(self.open)

    def create(self) -> None:
        policy = {"delta.checkpointPolicy": self.chance.choice(["classic", "v2"])}
        Table.create(self.path, self.rows(3), partition_by=["p"], properties=policy)

    def make_anew(self) -> None:
        shutil.rmtree(self.path)
        self.create()
        for _ in range(self.chance.randint(0, 6)):
            Table.for_path(self.path).append_arrow(self.rows())

    def append(self) -> None:
        for _ in range(self.chance.choice([1, 1, 3, 12])):
            self.one().append_arrow(self.rows())

    def let_deltalake_append(self) -> None:
        write_deltalake(self.path, self.rows(2), mode="append")

    def let_deltalake_delete(self) -> None:
        DeltaTable(self.path).delete(f"id % 7 = {self.chance.randint(0, 6)}")

    def let_deltalake_compact(self) -> None:
        DeltaTable(self.path).optimize.compact()

    def let_deltalake_write_a_checkpoint(self) -> None:
        DeltaTable(self.path).create_checkpoint()

    def restore(self) -> None:
        table = self.one()
        table.restore(version=max(0, table.version - self.chance.randint(1, 4)))

    def vacuum(self) -> None:
        self.one().vacuum(0, dry_run=False, enforce_retention=False, lite=self.chance.random() < 0.5)

    def clean_the_log(self) -> None:
        newest = Snapshot.load(LocalStore(self.path))
        now, yes = newest.timestamp_ms + self.chance.choice([0, 1]), lambda *_: True
        store, state = newest.store, newest.configuration
        clean_log(store, state, now_ms=now, retention_ms=0, whole_days=False, newest=newest.version, supports=yes)

    def lose_the_pointer(self) -> None:
        (self.log / "_last_checkpoint").unlink(missing_ok=True)

    def tear_a_checkpoint(self) -> None:
        found = sorted(self.log.glob("*.checkpoint*.parquet"))
        if found and (self.log / f"{0:020d}.json").exists():
            found[-1].write_bytes(found[-1].read_bytes()[:100])

    @property
    def deeds(self) -> list[Callable[[], None]]:
        ours = [self.append] * 4 + [self.restore, self.vacuum, self.clean_the_log]
        others = [self.let_deltalake_append, self.let_deltalake_delete, self.let_deltalake_compact]
        return [*ours, *others, self.let_deltalake_write_a_checkpoint, self.lose_the_pointer, self.tear_a_checkpoint]


def told(snapshot: Snapshot) -> tuple[object, ...]:
    files = sorted(map(repr, snapshot.files().to_pylist()))
    removed = sorted(map(repr, snapshot.tombstones().to_pylist()))
    return snapshot.version, snapshot.metadata, snapshot.protocol, dict(snapshot.domains), files, removed


@reached.at_least(compared=20)
@pytest.mark.parametrize("seed", range(3))
def test_tables_that_stay_open_are_what_one_opened_anew_is(seed, tmp_path):
    world, done = World(tmp_path / "t", seed), []
    for _ in range(STEPS):
        deed = world.make_anew if world.chance.random() < 0.03 else world.chance.choice(world.deeds)
        done.append(deed.__name__)
        # What is refused, as a lite vacuum behind a clean-up, or what deltalake cannot read, changes nothing.
        with contextlib.suppress(HaloclineError, DeltaError):
            deed()
        expected = told(Snapshot.load(LocalStore(world.path)))
        for table in world.open:
            if world.chance.random() < 0.7:
                assert told(table.snapshot()) == expected, f"after {done}"
                reached("compared")

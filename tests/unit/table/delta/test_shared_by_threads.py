"""One open table that several threads use at once answers as one opened anew at the same version does."""

from __future__ import annotations

import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from halocline.formats.delta.log import commits
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.storage import open_store
from halocline.table import Table

THREADS, STEPS = 4, 30
CONDITIONS = (None, "id = 5", "id > 10", "p = 'b'", "p = 'a' AND id < 30", "s >= 'text-00000020'", "id IS NULL")
COLUMNS = (None, ["stats"], ["size"], ["partition_values", "modification_time"])


class Shared:
    """A table, its newest snapshot that some thread has taken, and the rows that are in it for certain, or may be."""

    def __init__(self, url: str, policy: str) -> None:
        properties = {"delta.checkpointInterval": "7", "delta.checkpointPolicy": policy}
        Table.create(url, self.row(0), partition_by=["p"], properties=properties)
        self.url, self.table = url, Table.for_path(url)
        self.snapshot: Snapshot = self.table.snapshot()
        self.numbers, self.lock = count(1), threading.Lock()
        self.begun, self.done = {0}, {0}

    @staticmethod
    def row(number: int) -> pa.Table:
        return pa.table({"id": [number], "p": ["ab"[number % 2]], "s": [f"text-{number:08d}" * 5]})

    def append(self, chance: random.Random) -> None:
        with self.lock:
            number = next(self.numbers)
            self.begun.add(number)
        (self.table if chance.random() < 0.7 else Table.for_path(self.url)).append_arrow(self.row(number))
        with self.lock:
            self.done.add(number)

    def list(self, chance: random.Random) -> None:
        snapshot = self.snapshot if chance.random() < 0.6 else self.table.snapshot()
        if chance.random() < 0.4:
            self.snapshot = snapshot
        where, columns = chance.choice(CONDITIONS), chance.choice(COLUMNS)
        anew = Snapshot.load(open_store(self.url), version=snapshot.version)
        found, expected = (sorted(map(repr, each.files(where, columns).to_pylist())) for each in (snapshot, anew))
        assert found == expected, f"version {snapshot.version}, {columns} where {where}"
        assert (snapshot.totals, dict(snapshot.txns)) == (anew.totals, dict(anew.txns))

    def read(self, chance: random.Random) -> None:
        odd = chance.random() < 0.5
        with self.lock:
            certain = {each for each in self.done if not odd or each % 2}
        rows = self.table.to_arrow(where="p = 'b'" if odd else None, columns=["id"]).read_all()
        found = rows["id"].to_pylist()
        with self.lock:
            possible = {each for each in self.begun if not odd or each % 2}
        assert len(found) == len(set(found))
        assert certain <= set(found) <= possible

    def count(self, chance: random.Random) -> None:
        with self.lock:
            fewest = len(self.done)
        files = self.table.detail()["numFiles"]
        with self.lock:
            assert fewest <= files <= len(self.begun)

    def work(self, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(STEPS):
            chance.choices([self.append, self.list, self.read, self.count], [4, 4, 2, 1])[0](chance)


@pytest.mark.parametrize(("place", "policy"), [("local", "classic"), ("memory", "v2")])
def test_threads_that_share_an_open_table_see_what_others_do(place, policy, tmp_path, monkeypatch):
    # So little that some commits are at hand and others must be read again.
    for name in ("_KEPT", "_KEPT_NEAR"):
        monkeypatch.setattr(commits, name, 3_000)
    shared = Shared(str(tmp_path / "t") if place == "local" else f"memory://{tmp_path.name}", policy)
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(shared.work, range(THREADS)))
    finally:
        sys.setswitchinterval(before)
    assert shared.begun == shared.done
    ids = Table.for_path(shared.url).to_arrow(columns=["id"]).read_all()["id"].to_pylist()
    assert sorted(ids) == sorted(shared.done)
    if place == "local":
        assert sorted(DeltaTable(shared.url).to_pyarrow_table()["id"].to_pylist()) == sorted(shared.done)

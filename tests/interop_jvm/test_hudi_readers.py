"""A real Spark reader of Apache Hudi reads a table after every storage step of a move of ours, and never sees less."""

from __future__ import annotations

from pathlib import Path

import pytest

from halocline.formats.hudi.move.engine import apply_move, finish_move
from halocline.formats.hudi.move.planning import plan_move
from halocline.formats.hudi.properties import properties
from halocline.storage import open_store
from tests.interop_jvm.releases import KNOW, Engine
from tests.interop_jvm.test_hudi_moves import COLUMNS, ours
from tests.support.hudi_conformance import original
from tests.support.hudi_readers import WatchedStore, WatchingReader

pytestmark = pytest.mark.timeout(3600)

HELD = ("lazily", "planned")


def reader(engine: Engine, table: Path) -> WatchingReader:
    """Opens the table anew each time; it may be refused once the table has a version that it does not know."""

    def unknown() -> bool:
        return engine.release not in KNOW[int(properties(open_store(table))["hoodie.table.version"])]

    return WatchingReader(
        f"Hudi {engine.release}",
        lambda: engine.ask("read", path=str(table), columns=COLUMNS),
        ours(table),
        stops=unknown,
    )


@pytest.mark.parametrize(
    ("name", "target", "releases"),
    [
        ("v6_cow_nonpart", 8, ["0.15.0", "1.2.0"]),
        ("v6_mor_logs", 8, ["0.15.0", "1.2.0"]),
        ("v8_mor_logs", 6, ["1.0.2", "1.1.1"]),
        ("v9_mor_logs", 6, ["1.1.1", "1.2.0"]),
    ],
)
def test_a_spark_reader_sees_all_rows_after_every_step(name, target, releases, engines, tmp_path):
    table = original(name, tmp_path)
    expected = ours(table)
    clients = [engines[release] for release in releases]
    for client in clients:
        for held in HELD:
            opened = {"name": f"{name} {held}", "planned": held == "planned", "path": str(table), "columns": COLUMNS}
            client.ask("opened", **opened)
    store = open_store(table)
    watched = WatchedStore(store, [reader(client, table) for client in clients])
    apply_move(watched, plan_move(watched, target))
    assert watched.problems == []
    assert watched.steps > 5
    for client in clients:
        for held in HELD:
            answer = client.do("collected", name=f"{name} {held}")
            # Workers of a release that does not know the version may look at the properties again, and stop.
            stops = client.release not in KNOW[target] and answer["outcome"] == "error"
            told = f"{client.release}, opened {held} before and collected after: {answer.get('note')}"
            assert stops or answer.get("rows") == expected, told
    assert finish_move(store, grace_s=0)
    for each in watched.readers:
        each.look("the old timeline was deleted")
    assert watched.problems == []
    seen = {each.name: dict(each.seen) for each in watched.readers}
    print(f"{name} to {target}, {watched.steps} storage steps: {seen}")

"""Every verb of a Hudi table, killed with its process at every storage step: as before it or as after it, and goes on.

One case runs always; with `HALOCLINE_TEST_TABLES=all` every verb on every kind of table does, in minutes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.support.hudi_groups import upsert_groups, write_rows
from tests.support.hudi_killed import SERVICES, WRITES, killed, perform
from tests.support.hudi_tables import HudiTableMaker, shown

from halocline.formats.hudi.configuration import ChangeLogging, TableType
from halocline.formats.hudi.maintain.cleaning import clean
from halocline.formats.hudi.maintain.clustering import cluster
from halocline.formats.hudi.maintain.compaction import compact, pending_compactions, schedule_compaction
from halocline.formats.hudi.maintain.locks import LOCK_FILE
from halocline.formats.hudi.move.engine import resume_move
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store
from halocline.table import Table

pytestmark = [pytest.mark.timeout(3600), pytest.mark.slow]

MOR, COW = TableType.MERGE_ON_READ, TableType.COPY_ON_WRITE
KINDS: dict[str, tuple[int, TableType, dict]] = {
    "plain-6": (6, MOR, {}),
    "plain-9": (9, COW, {}),
    "planned-6": (6, MOR, {}),
    "planned-8": (8, MOR, {}),
    "bucket-8": (8, MOR, {"buckets": 2}),
    "nometa-9": (9, COW, {"meta_columns": False}),
    "logged-6": (6, COW, {"change_logging": ChangeLogging.DATA_BEFORE_AFTER}),
}
"""Of those that are planned, a compaction is scheduled and not run."""

CASES = [
    (kind, verb)
    for kind, (_, type, made) in KINDS.items()
    for verb in (*SERVICES, *WRITES)
    if not (verb == "cluster" and "buckets" in made) and not (verb == "compact" and type is COW)
]
ALWAYS = [("bucket-8", "insert_overwrite")]


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, Path]:
    """A table of each kind, after some writes; cleaning and archiving find something to do."""
    found = {}
    for name, (version, type, kind) in KINDS.items():
        found[name] = tmp_path_factory.mktemp("hudi") / name
        table = HudiTableMaker.create(open_store(found[name]), version, type, **kind)
        upsert_groups(table, range(6), 100, "a")
        if type is MOR:
            upsert_groups(table, [0, 1, 5], 110, "o")
            compact(table.store)
        upsert_groups(table, [1, 5], 150, "b")
        if name.startswith("planned"):
            schedule_compaction(table.store)
        upsert_groups(table, [6, 2], 160, "c", deletes=[3])
    return found


def rows(path: Path) -> list[tuple[str, int, str]]:
    return shown(HudiSnapshot.load(open_store(path)).read(["id", "ts", "name"]))


def ended(path: Path, kind: str) -> None:
    """Ends what is pending, as the next services would."""
    store = open_store(path)
    clean(store)
    if pending_compactions(HudiSnapshot.load(store).timeline):
        compact(store)
    if not kind.startswith("bucket"):
        cluster(store)
    assert not HudiSnapshot.load(store).timeline.pending, f"{path} has something pending"


@pytest.mark.parametrize(
    ("kind", "verb"), CASES if os.environ.get("HALOCLINE_TEST_TABLES") == "all" else ALWAYS, ids=str
)
def test_a_verb_that_is_killed_at_any_step_is_done_or_not_done(tables, tmp_path, kind, verb):
    whole = shutil.copytree(tables[kind], tmp_path / "whole")
    before = rows(whole)
    perform(Table.for_path(whole), verb)
    after, seen = rows(whole), set()
    assert (after == before) == (verb in SERVICES and verb != "delete_partition")
    for step, path, ended_itself in killed(tables[kind], tmp_path, verb):
        told = f"{verb} of {kind}, killed at step {step}"
        found = rows(path)
        assert found in (before, after), told
        if ended_itself:
            assert found == after, told
        resume_move(open_store(path))
        assert rows(path) == found, f"{told}, and gone on with"
        if verb == "cluster":
            ended(path, kind)  # until then its file groups may not be changed
        table = Table.for_path(path)
        write_rows(table.opened, "UPSERT", [4], 900, "z")
        expected = sorted([*(row for row in found if row[0] != "k4"), ("k4", 900, "z4")])
        assert rows(path) == expected, f"{told}, and a write after it"
        ended(path, kind)
        assert rows(path) == expected, f"{told}, and services after it"
        assert not open_store(path).exists(LOCK_FILE)
        seen.add(found == after)
        shutil.rmtree(path)
    assert seen == {True, before == after}, "some kills came before it counted, and some after"
    assert ended_itself, "the last attempt is one that was not killed"
    assert step > 2
    print(f"{verb} of {kind}: {step} kills")

"""Every table that Apache Hudi wrote, moved up and down by us, with the same rows at each stop, also for hudi-rs.

The moves of Apache Hudi itself are beside them: where they keep all rows, ours leaves the same names on disk, so that
no other client sees who moved the table. The tables lie beside the project; without them these tests skip.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiReadOptions, HudiTableBuilder
from tests.support.conformance import tables_of
from tests.support.hudi_conformance import OURS, original, unpack
from tests.support.hudi_readers import WatchedStore, WatchingReader

from halocline.compat.verdict import can
from halocline.errors import UnsupportedError
from halocline.formats.hudi import configuration as keys
from halocline.formats.hudi.move.engine import apply_move, finish_move
from halocline.formats.hudi.move.planning import plan_move
from halocline.formats.hudi.move.record import read_record
from halocline.formats.hudi.properties import properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store

SPARK = tables_of("hudi-jvm")

NAMES = sorted(path.stem for path in SPARK.glob("v*.json"))
STOPS = {6: (8, 9, 8, 6), 8: (9, 8, 6, 8), 9: (8, 6, 8, 9)}
KEYS_CHANGE = {"v6_cow_complex1": 9, "v9_cow_complex1": 8}
"""Tables whose keys writers of that version would make differently."""

OTHER_RULE = {"v6_mor_commit", "v6_mor_pending", "v6by120_mor_pending"}
"""Tables of version 6 that hudi-rs reads unlike the release that wrote them, until the move merges their log files."""

CHAINS = sorted({path.name.partition(".")[0] for path in (SPARK / "upgrade").glob("*.0_v6.zip")})
UNTOUCHED = [name for name in CHAINS if name.startswith("cow_") and name != "cow_complex1"]
"""Tables that the original moves without a compaction."""

SAMPLES = sorted(
    str(path.relative_to(SPARK.with_name("hudi")).with_suffix("")) for path in SPARK.with_name("hudi").rglob("*.zip")
)

MERGING = {keys.MERGE_MODE, keys.MERGE_STRATEGY, keys.OLD_MERGE_STRATEGY, keys.PAYLOAD_CLASS, keys.LEGACY_PAYLOAD_CLASS}
METADATA = {keys.METADATA_PARTITIONS, f"{keys.METADATA_PARTITIONS}.inflight", "hoodie.table.index.defs.path"}


def rows(batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Rows for comparing; a compaction writes them to other files."""
    found = (row for batch in batches for row in batch.to_pylist())
    return sorted(
        repr(sorted((key, value) for key, value in row.items() if key != "_hoodie_file_name")) for row in found
    )


def ours(table: Path) -> list[str]:
    return rows(HudiSnapshot.load(open_store(table)).read())


def by_hudi_rs(table: Path) -> Iterable[pa.RecordBatch]:
    return HudiTableBuilder.from_base_uri(str(table)).build().read(HudiReadOptions())


def theirs(table: Path) -> list[str] | None:
    """What hudi-rs reads; None if it cannot."""
    try:
        return rows(by_hudi_rs(table))
    except BaseException as error:  # a panic of the library is no Exception
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return None


def history(table: Path) -> list[tuple[str, str]]:
    timeline = HudiSnapshot.load(open_store(table)).timeline
    return sorted((each.time, each.action) for each in timeline.history())


def files(table: Path) -> set[str]:
    """What lies in the timeline, without what only this machine's Java left there."""
    found = (path.relative_to(table / ".hoodie") for path in (table / ".hoodie").rglob("*") if path.is_file())
    names = {str(path) for path in found if not path.name.endswith(".crc")}
    return {name for name in names if not name.startswith(("metadata/", ".aux/", ".index_defs/", ".temp/"))}


@pytest.mark.parametrize("name", NAMES)
def test_a_table_keeps_its_rows_through_every_version(name, tmp_path):
    table = original(name, tmp_path)
    store = open_store(table)
    first = HudiSnapshot.load(store).config
    before, by_rs, archived = ours(table), theirs(table), history(table)
    for stop in STOPS[first.version]:
        if KEYS_CHANGE.get(name) == stop:
            with pytest.raises(UnsupportedError, match="complex key generator with the one key field"):
                plan_move(store, stop)
            return
        apply_move(store, plan_move(store, stop), grace_s=0)
        assert HudiSnapshot.load(store).config.version == stop
        assert ours(table) == before, f"at version {stop}"
        assert set(archived) <= set(history(table)), f"archived instants at version {stop}"
        found = theirs(table)
        if name in OTHER_RULE and stop == 8:
            assert found is not None
            by_rs = found
        if by_rs is not None and found is not None:
            assert found == by_rs, f"hudi-rs at version {stop}"
    assert history(table) == archived


@pytest.mark.parametrize("name", SAMPLES)
def test_a_table_of_hudi_rs_s_own_tests_keeps_its_rows_through_every_version(name, tmp_path):
    table = unpack(SPARK.with_name("hudi") / f"{name}.zip", tmp_path)
    store = open_store(table)
    before, by_rs, archived = ours(table), theirs(table), history(table)
    assert before
    for stop in STOPS[HudiSnapshot.load(store).config.version]:
        apply_move(store, plan_move(store, stop), grace_s=0)
        assert ours(table) == before, f"at version {stop}"
        assert set(archived) <= set(history(table)), f"archived instants at version {stop}"
        assert theirs(table) == by_rs, f"hudi-rs at version {stop}"


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("v6_", "v6by120_"))])
def test_the_way_back_to_6_restores_what_was_there(name, tmp_path):
    table = original(name, tmp_path)
    store = open_store(table)
    before, names = properties(store), files(table)
    stops = (8, 6) if name in KEYS_CHANGE else STOPS[6]
    stages = set()
    for stop in stops:
        planned = plan_move(store, stop)
        stages |= {str(each.kind) for each in planned.stages}
        apply_move(store, planned, grace_s=0)
    assert properties(store) == {key: value for key, value in before.items() if key not in METADATA}
    assert read_record(store).changes == {}
    assert not (table / ".hoodie" / "timeline").exists() or not any((table / ".hoodie" / "timeline").rglob("*.*"))
    if stages.isdisjoint({"roll back", "complete", "compact"}):
        archive = {each for each in names if "archive" in each}
        assert {each for each in files(table) if "archive" not in each} == names - archive
        assert bool({each for each in files(table) if "archive" in each}) == bool(archive)


@pytest.mark.parametrize("name", UNTOUCHED)
def test_names_and_properties_are_those_of_the_original(name, tmp_path):
    table = original(f"v6_{name}", tmp_path / "ours")
    store = open_store(table)
    for version, state in ((8, "1_upgrade_EIGHT"), (9, "2_upgrade_NINE"), (8, "3_downgrade_EIGHT")):
        apply_move(store, plan_move(store, version), grace_s=0)
        real = unpack(SPARK / "upgrade" / f"{name}.{state}.zip", tmp_path / state)
        instants = {each for each in files(real) if "history" not in each and each.startswith("timeline/")}
        mine = {each for each in files(table) if "history" not in each and each.startswith("timeline/")}
        assert spelt(mine) == spelt(instants), state
        expected = {key: value for key, value in told(real).items() if key not in METADATA | MERGING}
        assert {key: value for key, value in told(table).items() if key not in MERGING | OURS} == expected, state
        assert told(table).keys() & MERGING == told(real).keys() & MERGING or keys.OLD_MERGE_STRATEGY in told(real)


def spelt(names: set[str]) -> set[str]:
    """Names of instants. The original calls every pending replace commit a clustering; only a clustering is one."""
    return {each.replace(".clustering.", ".replacecommit.") for each in names}


def told(table: Path) -> dict[str, Any]:
    return properties(open_store(table))


SOME = ("v6_cow_hive_mdt", "v6_mor_pending", "v6_mor_commit", "v9_mor_logs")
WATCHED = [name for name in NAMES if name not in KEYS_CHANGE and "timestamp" not in name]
CHOSEN = WATCHED if os.environ.get("HALOCLINE_TEST_TABLES") == "all" else SOME


@pytest.mark.parametrize("name", CHOSEN)
def test_readers_see_all_rows_after_every_step(name, tmp_path):
    """Ours and hudi-rs, opened anew each time, and opened before the move and read again and again."""
    table = original(name, tmp_path)
    store = open_store(table)
    for target in {6: (8, 9, 6), 8: (9, 6), 9: (6, 9)}[HudiSnapshot.load(store).config.version]:
        watched = WatchedStore(store, readers(table))
        apply_move(watched, plan_move(watched, target))
        assert watched.problems == []
        seen = [(each.seen["right"] + each.seen["refused"], each.seen["right"]) for each in watched.readers]
        assert all(looks == watched.steps and right > 3 for looks, right in seen), "every reader, every step"
        assert finish_move(store, grace_s=0) or target == 9
        assert not any(each.problems for each in after(watched.readers)), "and when the old timeline is gone"


def readers(table: Path) -> list[WatchingReader]:
    expected, by_rs, snapshot = ours(table), theirs(table), HudiSnapshot.load(open_store(table))
    found = [
        WatchingReader("ours", lambda: ours(table), expected),
        WatchingReader("ours, opened before", lambda: rows(replace(snapshot).read()), expected),
    ]
    if by_rs is None:
        assert can("hudi-rs@0.5.0", snapshot.terms).refused
        return found
    # It merges some tables by another rule, until the move merges their log files.
    other = by_rs if by_rs != expected else None
    assert other is None or can("hudi-rs@0.5.0", snapshot.terms).wrong
    opened = HudiTableBuilder.from_base_uri(str(table)).build()
    return [
        *found,
        WatchingReader("hudi-rs", lambda: rows(by_hudi_rs(table)), expected, other, lambda: hudi_rs_refuses(table)),
        WatchingReader("hudi-rs, opened before", lambda: rows(opened.read(HudiReadOptions())), expected, other),
    ]


def hudi_rs_refuses(table: Path) -> bool:
    """Whether it is foretold that it refuses the table as it is now: at 6 and 8 it knows no payload classes."""
    return can("hudi-rs@0.5.0", HudiSnapshot.load(open_store(table)).terms).refused


def after(watching: Sequence[WatchingReader]) -> Sequence[WatchingReader]:
    """Those who open the table anew, having looked once more."""
    anew = [each for each in watching if "before" not in each.name]
    for each in anew:
        each.look("the old timeline was deleted")
    return anew

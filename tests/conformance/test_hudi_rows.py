"""Hudi tables that other writers wrote, row for row, without a JVM.

The tables lie beside the project and are never copied into it; without them these tests skip. Where engines disagree
about a table, the rule is named at the case.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.support.conformance import tables_of
from tests.support.hudi_conformance import (
    AS_OF,
    BEGIN,
    END,
    EXPECTED,
    FORMAT,
    QUERY,
    SPARK,
    begin_of,
    decoded_change,
    ordered,
    partition_values_as_stored,
    rows,
    unpack,
)

from halocline.errors import HaloclineError
from halocline.formats.hudi.change_data import read_changes
from halocline.formats.hudi.incremental import read_range
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store

tables_of("hudi-jvm")

CASES = [(name, query["id"]) for name, said in EXPECTED.items() for query in said["queries"]]
CHAINS = sorted(path.name.removesuffix(".zip") for path in (SPARK / "upgrade").glob("*.zip"))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """A table out of its archive, unpacked once."""
    found: dict[Path, Path] = {}

    def table(archive: Path) -> Path:
        if archive not in found:
            found[archive] = unpack(archive, tmp_path_factory.mktemp("hudi"))
        return found[archive]

    return table


def test_all_cases_are_here():
    assert (len(EXPECTED), len(CASES), len(CHAINS)) == (79, 438, 65)


@pytest.mark.parametrize(("name", "query_id"), CASES, ids=lambda text: text)
def test_query_returns_what_the_writer_returned(unpacked, name, query_id):
    query = next(each for each in EXPECTED[name]["queries"] if each["id"] == query_id)
    store, options = open_store(unpacked(SPARK / f"{name}.zip")), query["options"]
    if "error" in query:
        assert "Cleaner cleaned up" in query["error"]
        with pytest.raises(HaloclineError) as caught:
            HudiSnapshot.load(store, as_of=options[AS_OF])
        assert caught.value.condition == "VERSION_NOT_FOUND"
        return
    snapshot = HudiSnapshot.load(store, as_of=options.get(AS_OF))
    if options.get(FORMAT) == "cdc":
        assert changes(snapshot, options[BEGIN]) == ordered(map(decoded_change, query["rows"]))
    elif options[QUERY] == "incremental":
        found = read_range(snapshot, begin_of(name, query), options.get(END))
        assert rows(found.read()) == ordered(partition_values_as_stored(name, query))
    else:
        expected = ordered(partition_values_as_stored(name, query))
        assert rows(snapshot.read(query=options[QUERY])) == expected


def changes(snapshot: HudiSnapshot, begin: str) -> list[dict[str, Any]]:
    return rows(read_changes(snapshot, begin))


@pytest.mark.parametrize("state", CHAINS)
def test_every_state_of_an_upgrade_by_the_original_is_read(unpacked, state):
    """The original loses rows where a compaction is pending, and changes one where the latest write used to win."""
    table, step = state.split(".", 1)
    snapshot = HudiSnapshot.load(open_store(unpacked(SPARK / "upgrade" / f"{state}.zip")))
    found = rows(snapshot.read())
    expected = ordered(EXPECTED[f"v6_{table}"]["queries"][0]["rows"])
    if table == "mor_commit" and step != "0_v6":
        changed = [(row["ts"], mine["ts"]) for row, mine in zip(expected, found, strict=True) if row != mine]
        assert changed == [(600, 550)], "the compaction inside the original's upgrade keeps the later write"
    else:
        assert found == expected


SAMPLES = {
    "cow/v6_nonpartitioned": [("Alice", False), ("Bob", False), ("Carol", True), ("Diana", True)],
    "cow/v6_complexkeygen_hivestyle": [("Alice", False), ("Bob", False), ("Carol", True), ("Diana", True)],
    "cow/v6_simplekeygen_nonhivestyle_overwritetable": [("Diana", False)],
    "cow/v8_nonpartitioned": [("Alice", False), ("Bob", False), ("Carol", True), ("Diana", True)],
    "cow/v8_complexkeygen_hivestyle": [("Alice", False), ("Bob", False), ("Carol", True), ("Diana", True)],
    "mor/parquet/v6_nonpartitioned": [("Alice", False), ("Bob", False), ("Carol", True), ("Diana", True)],
}
TRANSACTIONS = {
    "cow/v9_txns_simple_meta": [1, 3, 7, 8, *range(11, 19)],
    "mor/avro/v9_txns_complex_nometa": [1, 3, 7, 8, *range(11, 19)],
    "cow/v9_txns_simple_overwrite": [101, 102, 103],
    "cow/v9_timebasedkeygen_nonhivestyle": [1, 1, 3, 4, 5],
    "mor/avro/v9_nonpartitioned_rollback": [1, 2, 2, 3],
}


def sample(unpacked, name: str, **options: str) -> HudiSnapshot:
    return HudiSnapshot.load(open_store(unpacked(tables_of("hudi") / f"{name}.zip")), **options)


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_table_has_its_rows(unpacked, name):
    found = rows(sample(unpacked, f"sample_table/{name}").read(["name", "isActive"]))
    assert sorted((row["name"], row["isActive"]) for row in found) == SAMPLES[name]


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_transactions_have_their_rows(unpacked, name):
    found = rows(sample(unpacked, f"sample_table/{name}").read(["txn_id"]))
    assert [row["txn_id"] for row in found] == [f"TXN-{number:03}" for number in TRANSACTIONS[name]]


def test_updated_transactions_have_their_newest_values(unpacked):
    for name in ("cow/v9_txns_simple_meta", "mor/avro/v9_txns_complex_nometa"):
        found = {row["txn_id"]: row for row in rows(sample(unpacked, f"sample_table/{name}").read())}
        assert found["TXN-001"]["txn_type"] == "reversal"
        assert Decimal(found["TXN-007"]["fee_amount"]) == 75
        assert {key for key, row in found.items() if row["region"] == "eu"} == {"TXN-011", "TXN-012", "TXN-018"}


def test_a_read_optimised_query_leaves_log_files_aside(unpacked):
    found = sample(unpacked, "sample_table/mor/parquet/v6_nonpartitioned").read(
        ["id", "isActive"], query="read_optimized"
    )
    assert {row["id"]: row["isActive"] for row in rows(found)}[1] is True


def test_writes_of_a_table_that_was_overwritten_come_one_by_one(unpacked):
    snapshot = sample(unpacked, "sample_table/cow/v6_simplekeygen_nonhivestyle_overwritetable")
    times = ["0", *(each.time for each in snapshot.timeline.writes)]
    found = [
        sorted((row["name"], row["isActive"]) for row in rows(read_range(snapshot, begin, end).read()))
        for begin, end in zip(times, [*times[1:], None], strict=True)
    ]
    assert found == [
        [("Alice", True), ("Bob", False), ("Carol", True)],
        [("Alice", False), ("Diana", True)],
        [("Diana", False)],
        [],
    ]


def test_writes_of_version_9_come_one_by_one_by_completion(unpacked):
    snapshot = sample(unpacked, "sample_table/cow/v9_txns_simple_overwrite")
    ends = [each.completion for each in snapshot.timeline.writes]
    ranges = zip([None, *ends], ends, strict=False)
    found = [[row["txn_id"] for row in rows(read_range(snapshot, *each).read(["txn_id"]))] for each in ranges]
    numbers = (range(1, 7), range(7, 9), range(101, 104))
    assert found == [[f"TXN-{number:03}" for number in each] for each in numbers]
    for time in snapshot.timeline.writes[:2]:
        before = sample(unpacked, "sample_table/cow/v9_txns_simple_overwrite", as_of=time.time)
        expected = range(1, 7) if time == snapshot.timeline.writes[0] else range(1, 9)
        assert [row["txn_id"] for row in rows(before.read(["txn_id"]))] == [f"TXN-{number:03}" for number in expected]


@pytest.mark.parametrize(
    ("name", "now", "then"),
    [
        ("v6_trips_8i1u", {"rider-D": 25.0}, {"rider-D": 33.9}),
        ("v8_trips_8i3u1d", {"rider-A": 0.0, "rider-G": 0.0}, {"rider-F": 34.15, "rider-J": 17.85}),
    ],
)
def test_trips_are_as_of_an_instant(unpacked, name, now, then):
    path = f"quickstart_trips_table/mor/avro/{name}"
    newest = sample(unpacked, path)
    first = sample(unpacked, path, as_of=newest.timeline.writes[0].time)
    for snapshot, expected in ((newest, now), (first, then)):
        fares = {row["rider"]: row["fare"] for row in rows(snapshot.read(["rider", "fare"]))}
        assert {rider: fares[rider] for rider in expected} == expected
    assert len(rows(newest.read(["uuid"]))) == (8 if name.startswith("v6") else 6)

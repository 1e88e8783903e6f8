"""Those who leave a trace in a table's history, and `halocline who`."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.fleets import declared, make_table, running, users_of
from tests.support.index_logs import IndexLog
from tests.support.index_logs import metadata as index_metadata
from tests.support.index_logs import protocol as index_protocol

from halocline.cli.main import run
from halocline.fleet.core.state import LevelRange, Provenance, Report
from halocline.fleet.usage.observers import observed
from halocline.fleet.usage.traces import identity_of
from halocline.formats.delta.actions.action import CommitInfo, encode_commit
from halocline.formats.log.names import DELTA
from halocline.storage import open_store


def committed(url: str, version: int, engine: str, at: int) -> None:
    info = CommitInfo({"timestamp": at, "engineInfo": engine, "operation": "WRITE"})
    open_store(url).put(DELTA.commit_path(version), encode_commit([info]))


@pytest.mark.parametrize(
    ("engine", "release"),
    [
        ("Apache-Spark/3.5.0 Delta-Lake/3.2.0", "delta-spark@3.2.0"),
        ("delta-rs:py-1.0.2", "deltalake@1.0.2"),
        ("Halocline/0.1.0 Apache-Spark/4.3.0", "halocline@0.1.0"),
    ],
)
def test_writers_are_observed_by_what_they_commit(tmp_path, engine, release):
    url = make_table(tmp_path / "t", engine, 1_700_000_000_000)
    (trace,) = observed(open_store(url)).traces
    assert (trace.release, trace.seen_ms, trace.provenance) == (release, 1_700_000_000_000, Provenance.OBSERVED)
    assert {use.operation for use in trace.uses} == {"read", "write"}
    assert {use.table for use in trace.uses} == {url}


def test_two_releases_of_one_product_are_two_traces_with_their_own_last_seen(tmp_path):
    url = make_table(tmp_path / "t", "delta-rs:py-1.0.2", 1_000)
    committed(url, 1, "delta-rs:py-1.6.6", 2_000)
    committed(url, 2, "delta-rs:py-1.0.2", 3_000)
    assert {trace.release: trace.seen_ms for trace in observed(open_store(url)).traces} == {
        "deltalake@1.0.2": 3_000,
        "deltalake@1.6.6": 2_000,
    }


def test_one_release_at_two_tables_has_two_identities(tmp_path):
    found = [observed(open_store(make_table(tmp_path / name, "delta-rs:py-1.0.2"))).traces[0] for name in "ab"]
    assert found[0].identity != found[1].identity


def test_a_trace_claims_what_its_release_can_do(tmp_path):
    (trace,) = observed(open_store(make_table(tmp_path / "t", "delta-rs:py-1.0.2"))).traces
    assert trace.supported == {"delta": LevelRange(1, 3)}


def test_a_trace_of_somebody_unknown_claims_nothing(tmp_path):
    (trace,) = observed(open_store(make_table(tmp_path / "t", "SomeTool/3.1"))).traces
    assert trace.supported == {}


@pytest.mark.parametrize("name", ["", "…", "../../x", "a" * 500, "job\nwith\tcontrol"])
def test_every_name_gives_an_identity(name):
    assert Report(identity_of(name, "x"), 0, "").identity, "an identity that a member can have"
    assert len(identity_of(name, "x")) <= 128
    assert identity_of(name, "x").replace("-", "").isalnum()


# ---------------------------------------------------------------------- halocline who


def test_who_without_a_fleet_shows_writers_and_says_what_is_missing(tmp_path, capsys):
    url = make_table(tmp_path / "t", "delta-rs:py-1.0.2")
    committed(url, 1, "", 1)
    assert run(["who", str(tmp_path / "t")]) == 0
    shown = capsys.readouterr().out
    assert "deltalake@1.0.2" in shown
    assert "observed" in shown
    assert "1 commits name no writer" in shown
    assert "--fleet" in shown


def test_who_with_a_fleet_shows_everybody_with_provenance(tmp_path, capsys):
    url = make_table(tmp_path / "t", "delta-rs:py-1.0.2")
    now = int(time.time() * 1000)
    with running() as (hosting, admin):
        admin.observe(declared("powerbi", "trino@426", url, seen=now))
        admin.observe(replace(declared("nightly", "trino@426", url, seen=now), provenance=Provenance.INFERRED))
        assert run(["who", str(tmp_path / "t"), "--fleet", hosting.address, "--report", "-o", "json"]) == 0
        assert {each.provenance for each in users_of(admin, url).values()} == {"declared", "inferred", "observed"}
    found = json.loads(capsys.readouterr().out)
    assert {each["name"].partition("-")[0]: each["provenance"] for each in found["users"]} == {
        "deltalake@1.0.2": "observed",
        "nightly": "inferred",
        "powerbi": "declared",
    }


def test_a_member_declared_by_a_relative_path_is_found_at_the_table(tmp_path, monkeypatch):
    url = make_table(tmp_path / "t")
    monkeypatch.chdir(tmp_path)
    with running() as (hosting, admin):
        command = ["fleet", "--at", hosting.address, "member", "declare", "powerbi", "trino@426", "--reads", "t"]
        assert run(command) == 0
        assert users_of(admin, url)["powerbi"].provenance == "declared"


def test_a_commit_that_claims_to_come_from_the_future_was_seen_now(tmp_path):
    url = make_table(tmp_path / "t", "delta-rs:py-1.0.2", seen_ms=4_000_000_000_000)
    (trace,) = observed(open_store(url)).traces
    assert trace.seen_ms <= time.time() * 1000
    with running() as (_, admin):
        admin.observe(trace.event())
        assert users_of(admin, url)[trace.identity].live


def test_report_without_a_fleet_is_refused(tmp_path, capsys):
    make_table(tmp_path / "t")
    assert run(["who", str(tmp_path / "t"), "--report"]) == 1
    assert "--fleet" in capsys.readouterr().err


def test_the_example_of_the_page_prints_what_it_says(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[4] / "docs" / "observers.md").read_text(encoding="utf-8")
    shown = re.search(r"\$ halocline who lake/orders\n(.*?)```", page, re.DOTALL)
    assert shown, "the page shows halocline who"
    now = int(time.time() * 1000)
    url = make_table(tmp_path / "lake" / "orders", "Apache-Spark/3.5.0 Delta-Lake/3.2.0", now - 49 * 3_600_000)
    committed(url, 1, "Trino/426", now - 2 * 3_600_000 - 60_000)
    monkeypatch.chdir(tmp_path)
    assert run(["who", "lake/orders"]) == 0
    printed = re.sub(r"-[0-9a-f]{8} ", "-… ", capsys.readouterr().out)
    plain = [[re.sub(r"  +", "  ", line).strip() for line in text.splitlines()] for text in (printed, shown[1])]
    assert plain[0] == plain[1]


# Hudi's commits name no writer.


def hudi_table(folder, version, *instants):
    place = folder / ".hoodie" / ("timeline" if version >= 8 else "")
    place.mkdir(parents=True)
    said = f"hoodie.table.name=t\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version={version}\n"
    (folder / ".hoodie" / "hoodie.properties").write_text(said)
    for name in instants:
        (place / name).write_text('{"operationType": "UPSERT"}')
    return open_store(folder)


@pytest.mark.parametrize(
    ("version", "instant", "release"),
    [
        (5, "20230101000000000.commit", "hudi@0.12.0"),
        (6, "20250101000000000.deltacommit", "hudi@0.14.0"),
        (8, "20250101000000000_20250101000000900.commit", "hudi@1.0.0"),
        (9, "20260101000000000_20260101000000900.replacecommit", "hudi@1.1.0"),
        (99, "20990101000000000_20990101000000900.commit", "hudi@unknown"),
    ],
)
def test_the_lowest_release_that_writes_a_hudi_table_version_is_inferred(tmp_path, version, instant, release):
    store = hudi_table(tmp_path / "t", version, instant, "20990202000000000.commit.requested")
    history = observed(store)
    (trace,) = history.traces
    assert (trace.release, trace.provenance, history.unnamed) == (release, Provenance.INFERRED, 1)
    assert {(use.ladder, use.operation) for use in trace.uses} == {("hudi", "read"), ("hudi", "write")}
    written = (tmp_path / "t/.hoodie" / ("timeline" if version >= 8 else "") / instant).stat().st_mtime_ns // 1_000_000
    assert trace.seen_ms == written


def test_a_hudi_table_that_nobody_has_written_to_yet_has_no_trace(tmp_path):
    store = hudi_table(tmp_path / "t", 6, "20250101000000000.commit.requested", "20250101000000001.clean")
    assert observed(store).traces == ()


def test_who_shows_what_is_inferred_of_a_hudi_table(tmp_path, capsys):
    hudi_table(tmp_path / "t", 6, "20250101000000000.commit", "20250101000000001.commit")
    assert run(["who", str(tmp_path / "t")]) == 0
    shown = capsys.readouterr().out
    assert "hudi@0.14.0" in shown
    assert "inferred" in shown
    assert "2 commits name no writer" in shown


def test_an_inferred_hudi_writer_keeps_the_level_within_what_it_supports(tmp_path):
    (trace,) = observed(hudi_table(tmp_path / "t", 6, "20250101000000000.commit")).traces
    assert trace.supported == {"hudi": LevelRange(6, 6)}


@pytest.mark.parametrize(
    ("number", "release"),
    [(2, "indextables4spark@0.3.0"), (3, "indextables4spark@0.4.0"), (9, "indextables4spark@unknown")],
)
def test_writers_of_index_tables_are_observed_where_they_say_so_and_inferred_where_not(tmp_path, number, release):
    store = open_store(str(tmp_path))
    log = IndexLog(store).commit(0, index_protocol(number, number), index_metadata())
    log.commit(1, {"commitInfo": {"engineInfo": "Halocline/0.1.0", "timestamp": 5}})
    found = observed(store)
    assert [(each.release, each.provenance) for each in found.traces] == [
        ("halocline@0.1.0", Provenance.OBSERVED),
        (release, Provenance.INFERRED),
    ]
    assert (found.unnamed, found.traces[0].seen_ms) == (1, 5)

"""Those who leave a trace in a table's history, and `halocline who`."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest

from halocline.cli.main import run
from halocline.fleet.observers import observed
from halocline.fleet.places import canonical
from halocline.fleet.proto.v1 import fleet_pb2 as pb
from halocline.fleet.state import Provenance, Range
from halocline.fleet.traces import identity_of
from halocline.formats.delta.actions import CommitInfo, encode_commit
from halocline.formats.log.names import DELTA
from halocline.storage import open_store

sys.path.insert(0, str(Path(__file__).parent))
from wired_tables import make_table, running, users_of


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
    (trace,) = observed(open_store(url))
    assert (trace.release, trace.seen_ms, trace.provenance) == (release, 1_700_000_000_000, Provenance.OBSERVED)
    assert {use.operation for use in trace.uses} == {"read", "write"}
    assert {use.table for use in trace.uses} == {url}


def test_two_releases_of_one_product_are_two_traces_with_their_own_last_seen(tmp_path):
    url = make_table(tmp_path / "t", "delta-rs:py-1.0.2", 1_000)
    committed(url, 1, "delta-rs:py-1.6.6", 2_000)
    committed(url, 2, "delta-rs:py-1.0.2", 3_000)
    assert {trace.release: trace.seen_ms for trace in observed(open_store(url))} == {
        "deltalake@1.0.2": 3_000,
        "deltalake@1.6.6": 2_000,
    }


def test_one_release_at_two_tables_has_two_identities(tmp_path):
    found = [observed(open_store(make_table(tmp_path / name, "delta-rs:py-1.0.2")))[0] for name in "ab"]
    assert found[0].identity != found[1].identity


def test_a_trace_claims_what_its_release_can_do(tmp_path):
    (trace,) = observed(open_store(make_table(tmp_path / "t", "delta-rs:py-1.0.2")))
    assert trace.supported == {"delta": Range(1, 3)}


def test_a_trace_of_somebody_unknown_claims_nothing(tmp_path):
    (trace,) = observed(open_store(make_table(tmp_path / "t", "SomeTool/3.1")))
    assert trace.supported == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3a://lake/orders/", "s3://lake/orders"),
        ("gcs://lake/orders", "gs://lake/orders"),
        ("abfs://c@a.dfs.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t/"),
        ("/lake/my orders", "file:///lake/my%20orders"),
    ],
)
def test_one_place_has_one_spelling(one, other):
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize("name", ["", "…", "../../x", "a" * 500, "job\nwith\tcontrol"])
def test_every_name_gives_an_identity(name):
    pb.ObserveRequest(identity=identity_of(name, "x"))
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
    assert "1 commits name nobody" in shown
    assert "--fleet" in shown


def test_who_with_a_fleet_shows_everybody_with_provenance(tmp_path, capsys):
    url = make_table(tmp_path / "t", "delta-rs:py-1.0.2")
    with running() as (hosting, admin):
        use = pb.TableUse(table=url, ladder="delta", operation="read")
        for name, provenance in (("powerbi", "declared"), ("nightly", "inferred")):
            admin.command(
                "Observe",
                pb.ObserveRequest(
                    identity=name, release="trino@426", provenance=provenance, tables=[use], seen_ms=4_000_000_000_000
                ),
            )
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


def test_report_without_a_fleet_is_refused(tmp_path, capsys):
    make_table(tmp_path / "t")
    assert run(["who", str(tmp_path / "t"), "--report"]) == 1
    assert "--fleet" in capsys.readouterr().err


def test_the_example_of_the_page_prints_what_it_says(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[3] / "docs" / "observers.md").read_text(encoding="utf-8")
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

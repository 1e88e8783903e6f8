"""`halocline lint`: findings for people and programs, and the repair with --fix."""

import json

import pytest
from tests.support.columns import schema
from tests.support.hudi_tables import HudiTableMaker
from tests.support.index_logs import IndexLog
from tests.support.index_logs import metadata as index_metadata

from halocline.cli import main
from halocline.formats.delta.actions.action import CommitInfo, Metadata, ProtocolAction, encode_commit
from halocline.formats.delta.log.header import read_header
from halocline.formats.hudi.configuration import TableType
from halocline.formats.log.names import DELTA
from halocline.schema.json_edge import dump
from halocline.storage import open_store

SCHEMA = dump(schema("id"))


def table(folder, *protocols, **configuration):
    store = open_store(str(folder))
    told = CommitInfo({"operation": "WRITE", "engineInfo": "Apache-Spark/4.0.0 Delta-Lake/4.0.0", "timestamp": 1})
    for version, protocol in enumerate(protocols):
        first = [Metadata("1", SCHEMA, configuration=configuration)] if version == 0 else []
        store.put(DELTA.commit_path(version), encode_commit([told, protocol, *first]))
    return store


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *arguments):
    code = main.run(["lint", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.mark.parametrize("command", ["inspect", "check", "lint", "who"])
def test_a_folder_without_a_table_is_told_with_the_logs_of_every_format(here, capsys, command):
    assert main.run([command, "nothing"]) == 1
    told = capsys.readouterr().err
    assert "_delta_log/ (delta), .hoodie/ (hudi), _transaction_log/ (index)" in told


def test_a_client_that_is_no_release_is_refused_for_every_format(here, capsys):
    HudiTableMaker.create(open_store("trips"), 8, TableType.COPY_ON_WRITE)
    code, _, err = run(capsys, "trips", "--client", "foo")
    assert code == 1
    assert "'foo' does not name a release" in err


LOST = (ProtocolAction(1, 2), ProtocolAction(1, 7, None, ["changeDataFeed"]))


def test_a_sound_table_has_nothing_to_complain_about(here, capsys):
    table(here / "orders", ProtocolAction(1, 2))
    code, out, _ = run(capsys, "orders")
    assert code == 0
    assert out.splitlines() == ["orders · delta · version 0 · (1,2)", "nothing to complain about"]


def test_a_finding_says_what_whom_it_hurts_and_what_to_do(here, capsys):
    table(here / "orders", *LOST)
    code, out, _ = run(capsys, "orders")
    assert code == 2
    assert "LOST_FEATURES: version 1 (WRITE by Apache-Spark/4.0.0 Delta-Lake/4.0.0) replaced (1,2)" in out
    assert "  hurts  writers" in out
    assert "  fix    safe with --fix" in out
    assert "Next: halocline lint orders --fix" in out
    assert "would become (1,7|W: appendOnly,changeDataFeed,invariants)" in out


def test_fix_says_what_changed_and_who_was_checked(here, capsys):
    store = table(here / "orders", *LOST)
    code, out, _ = run(capsys, "orders", "--fix")
    assert code == 0
    assert out.splitlines() == [
        "orders: version 2 repairs LOST_FEATURES",
        "  protocol  (1,7|W: changeDataFeed) became (1,7|W: appendOnly,changeDataFeed,invariants)",
        "  checked   no fleet was asked: this process belongs to none",
    ]
    assert read_header(store).version == 2
    assert run(capsys, "orders", "--fix")[:2] == (0, "orders: nothing was changed\n")


def test_what_is_left_after_a_repair_keeps_the_exit_code(here, capsys):
    table(here / "orders", ProtocolAction(1, 7, None, ["shiny"]), **{"delta.minReaderVersion": "1"})
    code, out, _ = run(capsys, "orders", "--fix")
    assert code == 2
    assert "UNKNOWN_FEATURE: shiny" in out
    assert "there is no repair that keeps what the table means" in out


def test_programs_get_every_finding(here, capsys):
    table(here / "orders", *LOST)
    code, out, _ = run(capsys, "orders", "-o", "json")
    facts = json.loads(out)
    assert (code, facts["protocol"]) == (2, "(1,7|W: changeDataFeed)")
    assert facts["repaired"] == "(1,7|W: appendOnly,changeDataFeed,invariants)"
    assert [(each["code"], each["safe"]) for each in facts["findings"]] == [("LOST_FEATURES", True)]
    code, out, _ = run(capsys, "orders", "--fix", "-o", "json")
    fixed = json.loads(out)
    assert (code, fixed["version"], fixed["fixed"], fixed["left"]) == (0, 2, ["LOST_FEATURES"], [])


def test_a_client_without_a_trace_can_be_named(here, capsys):
    table(here / "orders", ProtocolAction(1, 7, ["v2Checkpoint"], ["v2Checkpoint"]))
    code, out, _ = run(capsys, "orders", "--client", "nobody@1.0")
    assert code == 2
    assert "by hand: nobody@1.0 would be locked out" in out


def test_a_client_of_an_unknown_product_is_refused_with_the_nearest(here, capsys):
    table(here / "t", ProtocolAction(1, 2))
    code, out, err = run(capsys, "t", "--client", "trno@4")
    assert (code, out) == (1, "")
    assert "nearest  trino" in err


def test_an_index_table_is_looked_at_and_its_protocol_repaired(tmp_path, capsys):
    store = open_store(str(tmp_path))
    IndexLog(store).commit(0, index_metadata())
    assert main.run(["lint", str(tmp_path), "--output", "json"]) == 2
    assert [each["code"] for each in json.loads(capsys.readouterr().out)["findings"]] == ["PROTOCOL_MISSING"]
    assert main.run(["lint", str(tmp_path), "--fix"]) == 0
    out = capsys.readouterr().out
    assert "repairs PROTOCOL_MISSING" in out

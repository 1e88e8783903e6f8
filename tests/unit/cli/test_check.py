"""`halocline check`: who can use a table, now and after a change, and the exit code that says so."""

import json
import re

import pytest
from tests.support.columns import schema
from tests.support.hudi_tables import HudiTableMaker
from tests.support.index_logs import IndexLog
from tests.support.index_logs import add as index_add
from tests.support.index_logs import metadata as index_metadata
from tests.support.index_logs import protocol as index_protocol
from tests.support.index_tables import table_of
from tests.support.splits import row

from halocline.cli import main
from halocline.errors import MalformedError
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.hudi.configuration import MergeMode, TableType
from halocline.formats.log.gate import own_release
from halocline.storage import open_store

SPARK, TRINO = "Apache-Spark/3.5.0 Delta-Lake/3.2.0", "trino-426-coordinator"


def created(folder, configuration=None, engine=SPARK):
    store = open_store(str(folder))
    state = new_table(schema("id"), (), configuration)
    Transaction.create(store, engine=engine).commit((), "CREATE TABLE", configuration=state)
    return store


@pytest.fixture
def orders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = created(tmp_path / "orders")
    Transaction(Snapshot.load(store), engine="delta-rs:py-0.25.5").commit([], "WRITE")
    return store


def run(capsys, *arguments):
    code = main.run(["check", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def rows(out) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in out.splitlines() if "@" in line.split()[0]}


def test_the_writers_of_the_log_are_judged_if_nobody_is_named(orders, capsys):
    code, out, _ = run(capsys, "orders")
    assert code == 0
    assert rows(out).keys() == {"delta-spark@3.2.0", "deltalake@0.25.5"}
    assert len(re.findall(r"observed (?:just now|\d+ s ago)", out)) == 2
    assert "Cannot: 0 of 2." in out


def test_who_would_break_is_told_with_the_way_out_and_exit_code_2(orders, capsys):
    clients = ["--client", "delta-spark@3.2.0", "--client", "trino@426", "--client", "powerbi@2.131"]
    code, out, _ = run(capsys, "orders", "--enable", "deletionVectors", *clients)
    assert code == 2
    assert rows(out)["trino@426"][:2] == ["ok", "refused"]
    assert rows(out)["delta-spark@3.2.0"][:2] == ["ok", "ok"]
    assert rows(out)["powerbi@2.131"][:2] == ["unknown", "unknown"]
    assert "reads deletionVectors from 427" in out
    assert "Would break: 2 of 3.  Next: upgrade trino to 469; find out whether powerbi@2.131 reads it." in out
    assert "(1,2) becomes (3,7|R: deletionVectors|W: appendOnly,deletionVectors,invariants)" in out


def test_a_mistyped_client_is_not_known_and_told_with_the_nearest(orders, capsys):
    code, out, _ = run(capsys, "orders", "--client", "trinoo@426")
    assert code == 2, "a pipeline does not take it for one that can"
    assert "Next: write trino@426 if that is meant, or find out whether trinoo@426 reads it." in out


def test_a_change_that_breaks_nobody_ends_with_exit_code_0(orders, capsys):
    code, out, _ = run(capsys, "orders", "--enable", "deletionVectors", "--client", "delta-spark@3.2.0")
    assert (code, "Would break: 0 of 1." in out) == (0, True)


def test_wrong_rows_are_the_loudest(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    created(tmp_path / "orders")
    clients = ["--client", "trino@426", "--client", "deltalake@1.6.6", "--operation", "read.arrow"]
    code, out, _ = run(capsys, "orders", "--enable", "columnMapping", *clients)
    assert code == 2
    assert next(iter(rows(out))) == "deltalake@1.6.6"
    assert rows(out)["deltalake@1.6.6"][:2] == ["ok", "wrong"]
    assert "Silently wrong: deltalake@1.6.6." in out


def test_writing_can_be_asked_for(orders, capsys):
    arguments = ["orders", "--client", "trino@483", "--enable", "rowTracking"]
    assert run(capsys, *arguments)[0] == 0
    code, out, _ = run(capsys, *arguments, "--operation", "write")
    assert (code, rows(out)["trino@483"][:2]) == (2, ["ok", "refused"])


def test_both_ways_of_dropping_are_shown_side_by_side(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    created(tmp_path / "orders", {"delta.enableDeletionVectors": "true"})
    arguments = ["orders", "--drop", "deletionVectors", "--client", "trino@483", "--operation", "write.append"]
    code, out, _ = run(capsys, *arguments)
    assert code == 2
    assert rows(out)["trino@483"][:3] == ["ok", "refused", "ok"]
    assert "Would break (history kept): 1 of 1." in out
    assert "Would break (history truncated): 0 of 1." in out
    assert run(capsys, *arguments, "--truncate-history")[0] == 0
    assert run(capsys, *arguments, "--keep-history")[0] == 2


def test_programs_get_every_verdict(orders, capsys):
    code, out, _ = run(capsys, "orders", "--enable", "v2Checkpoint", "-o", "json")
    facts = json.loads(out)
    assert code == 2
    assert facts["change"] == ["enable v2Checkpoint"]
    assert facts["wouldBreak"] == {"after": ["deltalake@0.25.5"]}
    broken = next(each for each in facts["clients"] if each["client"] == "deltalake@0.25.5")
    assert (broken["now"]["answer"], broken["after"]["answer"], broken["after"]["breaks"]) == ("ok", "refused", True)
    assert broken["knownFrom"] == "observed"
    assert broken["lastSeen"] > 0
    assert "upgrade deltalake to" in facts["next"]


def test_a_client_that_cannot_now_ends_with_exit_code_2(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    created(tmp_path / "orders", {"delta.checkpointPolicy": "v2"})
    code, out, _ = run(capsys, "orders", "--client", "delta-spark@2.4.0")
    assert code == 2
    assert "Cannot: 1 of 1.  Next: upgrade delta-spark to 3.0.0." in out


def test_a_client_that_cannot_before_nor_after_a_change_ends_with_exit_code_2(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    created(tmp_path / "orders", {"delta.checkpointPolicy": "v2"})
    clients = ["--client", "delta-spark@2.4.0", "--client", "delta-spark@4.0.0"]
    code, out, _ = run(capsys, "orders", *clients, "--enable", "appendOnly")
    assert code == 2
    assert "Would break: 0 of 2. Cannot, before and after: 1.  Next: upgrade delta-spark to 3.0.0." in out
    assert run(capsys, "orders", "--client", "delta-spark@2.4.0", "--drop", "v2Checkpoint")[0] == 0, "it could again"


@pytest.mark.parametrize(
    ("arguments", "condition"),
    [
        (["--enable", "shiny"], "FEATURE_UNKNOWN"),
        (["--drop", "deletionVectors"], "FEATURE_NOT_DROPPABLE"),
        (["--client", "deltalake"], "ARGUMENT_INVALID"),
        (["--operation", "dance"], "ARGUMENT_INVALID"),
    ],
)
def test_what_makes_no_sense_is_a_typed_error(arguments, condition, orders, capsys):
    code, _, err = run(capsys, "orders", *arguments, "-o", "json")
    assert (code, json.loads(err)["error"]["condition"]) == (1, condition)


def test_a_log_that_names_nobody_asks_for_a_client(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    created(tmp_path / "orders", engine="something")
    code, _, err = run(capsys, "orders")
    assert code == 1
    assert "halocline check orders --client" in err


@pytest.mark.parametrize("torn", [b'{"add": {"path"', b"[1, 2]\n", b"", b"\xff\xfe\x00"])
@pytest.mark.parametrize("command", ["check", "lint"])
def test_table_whose_newest_commit_is_torn_is_no_good_for_anybody(orders, capsys, torn, command):
    orders.put("_delta_log/00000000000000000002.json", torn)
    code = main.run([command, "orders"])
    shown = capsys.readouterr()
    assert code == 2, shown.out
    assert shown.err.startswith("MALFORMED_LOG: 00000000000000000002.json")


def test_nothing_is_committed_behind_a_torn_commit(orders):
    orders.put("_delta_log/00000000000000000002.json", b'{"add": {"path"')
    with pytest.raises(MalformedError, match="00000000000000000002"):
        Transaction(Snapshot.load(orders)).commit([], "WRITE")
    assert not orders.exists("_delta_log/00000000000000000003.json")


@pytest.mark.parametrize("command", ["check", "inspect"])
def test_damaged_newest_commit_is_an_error_that_names_the_file(orders, capsys, command):
    orders.put("_delta_log/00000000000000000001.json", b'{"commitInfo":{}}\n{"add":{"path":"x","part')
    assert main.run([command, "orders", *(["--client", "deltalake@1.6.6"] if command == "check" else [])]) == 2
    told = capsys.readouterr()
    assert "00000000000000000001.json" in told.out + told.err


def test_hudi_tables_are_judged_by_version_and_by_how_their_rows_are_merged(tmp_path, capsys):
    latest = HudiTableMaker.create(
        open_store(tmp_path / "latest"), 6, TableType.MERGE_ON_READ, merge_mode=MergeMode.COMMIT_TIME_ORDERING
    )
    latest.upsert(range(3), 100, "a")
    code = main.run(["check", str(tmp_path / "latest"), "--output", "json"])
    told = json.loads(capsys.readouterr().out)
    answers = {each["client"]: each["now"]["answer"] for each in told["clients"]}
    assert code == 2
    assert (answers["hudi@0.14.0"], answers["hudi@1.2.0"], answers["hudi-rs@0.5.0"]) == ("ok", "wrong", "wrong")
    plain = HudiTableMaker.create(open_store(tmp_path / "plain"), 8, TableType.COPY_ON_WRITE)
    plain.upsert(range(3), 100, "a")
    given = ["--client", "hudi@1.0.2", "--client", "hudi-rs@0.5.0"]
    assert main.run(["check", str(tmp_path / "plain"), "--client", "hudi@1.0.2"]) == 0
    assert main.run(["check", str(tmp_path / "plain"), *given, "--client", "hudi@0.15.0"]) == 2
    assert main.run(["check", str(tmp_path / "plain"), "--enable", "changeDataFeed"]) != 0
    assert "halocline move" in capsys.readouterr().err


def test_lint_and_who_know_hudi_tables(tmp_path, capsys):
    table = HudiTableMaker.create(open_store(tmp_path), 8, TableType.MERGE_ON_READ)
    table.upsert(range(3), 100, "a")
    assert main.run(["lint", str(tmp_path)]) == 0
    assert "nothing to complain about" in capsys.readouterr().out
    file = tmp_path / ".hoodie/hoodie.properties"
    file.write_text(file.read_text().replace("hoodie.table.precombine.field", "hoodie.table.ordering.fields"))
    assert main.run(["lint", str(tmp_path)]) == 2
    assert "NEW_ORDERING_KEY" in capsys.readouterr().out
    assert main.run(["lint", str(tmp_path), "--fix"]) == 0
    assert "repaired NEW_ORDERING_KEY" in capsys.readouterr().out
    assert main.run(["who", str(tmp_path), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["users"][0]["release"] == "hudi@1.0.0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--truncate-history"], "when a feature is dropped, and none is"),
        (["--enable", "deletionVectors", "--keep-history"], "when a feature is dropped, and none is"),
        (["--enable", "rowTracking", "--drop", "ROWTRACKING"], "rowTracking cannot be switched on and taken out"),
    ],
)
def test_a_change_that_contradicts_itself_is_refused(orders, capsys, arguments, message):
    code, out, err = run(capsys, "orders", *arguments)
    assert (code, out) == (1, "")
    assert message in err


# ---------------------------------------------------------------- index tables


def index_table(folder, *said) -> str:
    log = IndexLog(open_store(str(folder))).commit(0, *said, index_metadata())
    log.commit(1, index_add("a.split"))
    return str(folder)


def test_index_tables_are_judged_by_their_protocol(tmp_path, capsys):
    table = index_table(tmp_path, index_protocol(3, 3))
    clients = ["--client", "indextables4spark@0.3.0", "--client", "indextables4spark@0.4.0"]
    code, out, _ = run(capsys, table, *clients, "--output", "json")
    answers = {each["client"]: each["now"]["answer"] for each in json.loads(out)["clients"]}
    assert code == 2
    assert answers == {"indextables4spark@0.3.0": "refused", "indextables4spark@0.4.0": "ok"}
    assert run(capsys, table, "--operation", "write")[0] == 0, "the newest of every product"


def test_who_knows_the_writers_of_index_tables_and_how_that_is_known(tmp_path, capsys):
    foreign = index_table(tmp_path / "foreign", index_protocol(4, 4))
    assert main.run(["who", foreign]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "indextables4spark@0.4.5 reads and writes inferred" in told
    assert "2 commits name no writer" in told
    own = table_of([row(1)], store=open_store(str(tmp_path / "own"))).store
    assert main.run(["who", str(tmp_path / "own"), "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["release"], each["provenance"]) for each in told["users"]] == [(str(own_release()), "observed")]
    assert (told["table"], told["unnamedCommits"]) == (own.root, 0)
    assert main.run(["who", str(tmp_path / "own"), "--report"]) == 1
    assert "none was named" in capsys.readouterr().err


def test_a_feature_of_an_index_table_shows_whom_it_would_lock_out(tmp_path, capsys):
    table = index_table(tmp_path, index_protocol(2, 2))
    code, out, _ = run(capsys, table, "--enable", "tantivyFst7", "--output", "json")
    told = json.loads(out)
    assert (code, told["wouldBreak"]) == (2, {"after": ["indextables4spark@0.3.0", "indextables4spark@0.5.5"]})
    assert told["protocol"]["after"] == "index(5,5|R: tantivyFst7|W: tantivyFst7)"
    assert run(capsys, table, "--drop", "skippedFiles")[0] == 1
    assert run(capsys, table, "--enable", "tantivyFst9")[0] == 1


@pytest.mark.parametrize(
    ("client", "known"),
    [
        ("trino@426", "measured"),
        ("trino@425", "from source"),
        ("deltalake@0.25.5", "measured"),
        ("databricks-runtime@13.3", "said by the vendor"),
        ("fabric@latest", "said by the vendor"),
    ],
)
def test_each_answer_tells_how_it_is_known(orders, capsys, client, known):
    _, out, _ = run(capsys, "orders", "--enable", "deletionVectors", "--client", client)
    assert known in next(line for line in out.splitlines() if "@" in line.split()[0])
    _, out, _ = run(capsys, "orders", "--enable", "deletionVectors", "--client", client, "--output", "json")
    (found,) = json.loads(out)["clients"]
    (after,) = (each for way, each in found.items() if isinstance(each, dict) and way != "now")
    assert after["evidence"] == known


def test_an_upgrade_and_a_removal_are_told_together_where_neither_helps_alone(tmp_path, capsys):
    features = {"delta.feature.timestampNtz": "supported", "delta.feature.vacuumProtocolCheck": "supported"}
    created(tmp_path / "orders", features)
    asked = [str(tmp_path / "orders"), "--client", "deltalake@0.5.8", "--operation", "write"]
    code, out, _ = run(capsys, *asked)
    assert code == 2
    assert "Next: upgrade deltalake to 0.16.0 and drop vacuumProtocolCheck." in " ".join(out.split())
    code, out, _ = run(capsys, *asked, "--output", "json")
    told = json.loads(out)
    assert told["clients"][0]["now"]["fix"]["together"]["drop"] == ["vacuumProtocolCheck"]
    assert told["next"] == "upgrade deltalake to 0.16.0 and drop vacuumProtocolCheck"


def test_a_removal_is_told_where_no_release_helps_and_not_of_what_is_to_come_in(tmp_path, capsys):
    created(tmp_path / "orders", {"delta.feature.vacuumProtocolCheck": "supported"})
    created(tmp_path / "plain")
    asked = ["--client", "deltalake@1.6.6", "--operation", "write"]
    _, out, _ = run(capsys, str(tmp_path / "orders"), *asked)
    assert "Next: drop vacuumProtocolCheck, with which deltalake has no known release" in " ".join(out.split())
    _, out, _ = run(capsys, str(tmp_path / "plain"), "--enable", "vacuumProtocolCheck", *asked)
    assert "Next: deltalake has no known release that writes it." in " ".join(out.split())

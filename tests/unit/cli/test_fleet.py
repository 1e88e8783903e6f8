"""`halocline fleet` and `halocline serve`: what people see, exit codes and JSON."""

import json
import re
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.support.columns import field, schema
from tests.support.fleets import LONG, declared, in_memory, make_table, until

from halocline.cli.main import run
from halocline.fleet.answers import AuditQuery
from halocline.fleet.core.ladders import supported_by
from halocline.fleet.core.state import LevelRange, Report, TableUse
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.member.loop import MemberLoop
from halocline.fleet.server.hosting import embedded
from halocline.formats.delta.commit.transaction import Transaction
from halocline.formats.delta.configuration.table_configuration import new_table
from halocline.storage import open_store
from halocline.storage.location import Location


@pytest.fixture(scope="module")
def hosting():
    """A fleet at delta 3, with a reader that is too old for 4."""
    config = in_memory(terms=LONG)
    uses = frozenset({TableUse("lake/orders", "delta"), TableUse("lake/items", "delta")})
    old = Report("etl-nightly", 0, "deltalake@1.0.2", supported=supported_by("deltalake@1.0.2"), tables=uses)
    new = Report("ingest", 0, "hudi@1.0.2", "writer", {"hudi": LevelRange(6, 8)})
    with embedded(config) as running:
        assert run(["fleet", "--at", running.address, "raise", "delta=3"]) == 0
        with MemberLoop(running.address, old), MemberLoop(running.address, new):
            yield running


@pytest.fixture
def fleet(hosting, capsys):
    """Runs a command and returns its exit code, its lines and its complaints."""

    def command(*arguments):
        capsys.readouterr()
        code = run(["fleet", "--at", hosting.address, "--identity", "ann", *arguments])
        shown = capsys.readouterr()
        return code, [line.rstrip() for line in shown.out.splitlines()], shown.err

    return command


def test_describe_shows_ladders_and_the_next_command(fleet):
    code, lines, _ = fleet("describe")
    assert code == 0
    assert lines[0].split() == ["ladder", "level", "settled", "next", "members", "blocking", "the", "next", "level"]
    delta = next(line for line in lines if line.startswith("delta"))
    assert re.search(r"3 .* 4 .*1 live .*etl-nightly \(deltalake@1\.0\.2, lease \d+ s\)", delta)
    assert "nothing: raise with  halocline fleet raise hudi=8" in "\n".join(lines)
    assert "epoch 1" in lines[-1]


def test_who_breaks_names_tables_and_upgrade_and_exits_with_two(fleet):
    code, lines, _ = fleet("who-breaks", "--raise", "delta=4")
    assert code == 2
    assert re.search(
        r"etl-nightly +deltalake@1\.0\.2 +reads lake/items, lake/orders .*upgrade to deltalake@1", lines[1]
    )
    assert lines[-1] == "1 of 1"


def test_who_blocks_exits_with_two_if_somebody_does(fleet):
    code, lines, _ = fleet("who-blocks", "deletionVectors")
    assert code == 2
    assert "etl-nightly" in lines[1]
    code, lines, _ = fleet("who-breaks", "--raise", "hudi=8")
    assert (code, lines) == (0, ["none of 1 would break"])


def test_who_breaks_by_a_change_of_a_table_is_asked_with_the_terms_of_the_table(fleet, tmp_path):
    store = open_store(str(tmp_path / "orders"))
    columns = schema("id", field("day", "date"))
    Transaction.create(store).commit((), "CREATE TABLE", configuration=new_table(columns))
    url = store.root
    assert fleet("member", "declare", "newer", "trino@470", "--reads", url)[0] == 0
    assert fleet("who-breaks", "--table", url, "--enable", "deletionVectors")[:2] == (0, ["none of 1 would break"])
    assert fleet("who-breaks", "--table", url, "--enable", "rowTracking")[0] == 0
    assert fleet("member", "declare", "older", "trino@426", "--reads", url)[0] == 0
    code, lines, _ = fleet("who-breaks", "--table", url, "--enable", "deletionVectors")
    assert (code, lines[-1]) == (2, "1 of 2")
    assert re.search(r"older +trino@426 .*reads deletionVectors from 427", lines[1])
    for name in ("newer", "older"):
        assert fleet("member", "remove", name, "--reason", "the test is over")[0] == 0


@pytest.mark.parametrize(
    "arguments", [(), ("--table", "t"), ("--enable", "x"), ("--remove", "x", "--raise", "delta=4")]
)
def test_who_breaks_wants_one_question(fleet, arguments):
    code, _, complaint = fleet("who-breaks", *arguments)
    assert code != 0
    assert "say one of" in complaint


def test_who_blocks_can_be_asked_for_a_mode_of_a_feature(fleet):
    assert "etl-nightly" in fleet("who-blocks", "columnMapping:id")[1][1]
    code, _, complaint = fleet("who-blocks", "columnMapping:shape")
    assert code != 0
    assert "columnMapping:name, columnMapping:id" in complaint


def test_a_dry_run_shows_what_is_in_the_way_and_changes_nothing(fleet):
    code, lines, _ = fleet("raise", "delta=4", "--dry-run")
    assert code == 2
    assert lines[0] == "delta 3 to 4: 1 in the way"
    code, lines, _ = fleet("raise", "hudi=8", "--dry-run")
    assert code == 0
    assert lines[0] == "hudi 6 to 8: nothing is in the way"
    assert lines[-1] == "Next: halocline fleet raise hudi=8"


def test_a_raise_that_is_blocked_is_refused_with_everybody_named(fleet):
    code, _, complaint = fleet("raise", "delta=4")
    assert code == 2
    assert complaint.startswith("LEVEL_BLOCKED: delta cannot rise to level 4: 1 in the way")
    assert "deltalake@1.0.2 supports delta 1 to 3" in complaint


def test_a_hold_is_placed_shown_with_its_end_and_released(fleet):
    code, lines, _ = fleet("hold", "index", "--reason", "year-end close", "--until", "2099-12-01")
    assert code == 0
    assert "until 2099-12-01" in lines[0].replace(" 00:00:00", "")
    _, lines, _ = fleet("describe")
    assert 'hold on index at 1 until 2099-12-01: "year-end close" (hold)' in lines
    code, _, complaint = fleet("raise", "index=2")
    assert code == 1
    assert complaint.startswith("HELD")
    assert "2099-12-01" in complaint
    assert fleet("release", "index")[0] == 0
    assert fleet("hold", "index", "--reason", "x", "--until", "soon")[0] == 1


def test_a_downgrade_goes_through_its_phases_or_is_cancelled(fleet):
    fleet("raise", "index=2")
    code, lines, _ = fleet("downgrade", "validate", "index=1")
    assert code == 0
    assert "data needs cleaning, after which no way leads back" in lines
    assert fleet("downgrade", "start", "index=1", "--reason", "bad release")[0] == 0
    closed = 'index is on its way down to 1: closed, can still be cancelled: "bad release"'
    until(lambda: fleet("downgrade", "status")[1][0] == closed, "every gate is closed")
    assert fleet("downgrade", "cancel", "index")[0] == 0
    assert fleet("downgrade", "status")[1] == ["no ladder is on its way down"]
    assert fleet("downgrade", "validate", "index=9")[0] == 2
    fleet("downgrade", "start", "index=1", "--reason", "bad release")
    until(lambda: fleet("downgrade", "clean", "index")[0] == 0, "every gate is closed again")
    assert "past the point of no return" in fleet("downgrade", "status")[1][0]
    assert fleet("downgrade", "cancel", "index")[0] == 1
    assert fleet("downgrade", "finish", "index")[0] == 0


def test_members_are_declared_shown_and_removed(fleet):
    code, lines, _ = fleet("member", "declare", "bi", "trino@426", "--reads", "lake/orders")
    assert code == 0
    (line,) = lines
    assert line == f"observe bi trino@426, declared, reads {Location.parse('lake/orders').url}", "the place in full"
    assert fleet("member", "declare", "bi", "trino@426", "--reads", "lake/orders")[1] == ["nothing changed"]
    assert fleet("member", "declare", "bi", "trino@469", "--reads", "lake/orders")[1] != ["nothing changed"]
    fleet("member", "declare", "bi", "trino@426", "--reads", "lake/orders")
    _, lines, _ = fleet("members")
    row = next(line for line in lines if line.startswith("bi"))
    assert re.search(r"trino@426 +reader +delta 1-3 +declared .*reads .*lake/orders", row)
    assert next(line for line in lines if line.startswith("etl-nightly")).count("s ") >= 1
    assert fleet("member", "remove", "bi", "--reason", "switched off")[0] == 0
    assert fleet("member", "remove", "bi", "--reason", "switched off")[0] == 1


def test_a_release_that_is_newer_than_those_that_are_known_is_declared_by_saying_so_and_keeps_levels_down(fleet):
    assert fleet("member", "declare", "newest", "trino@9999", "--reads", "lake/orders", "--unlisted")[0] == 0
    code, lines, _ = fleet("who-breaks", "--raise", "delta=2")
    assert code == 2
    assert any("newest" in line and "trino@9999" in line for line in lines), lines
    assert fleet("member", "remove", "newest", "--reason", "switched off")[0] == 0


@pytest.mark.parametrize(
    ("release", "problem"),
    [
        ("trnio@426", r"(?s)no product 'trnio' is known.*nearest +trino"),
        ("trino", "is declared without a version"),
        ("trino@?", "is declared without a version"),
        ("powerbi@2", "declare it as unknown"),
        ("trino@9999", r"(?s)no release trino@9999 is known.*nearest +trino@\d{3}\b.*known +trino 396 to .*--unlisted"),
        ("bigquery@3.2", "no release bigquery@3.2 is known"),
    ],
)
def test_a_declaration_that_says_nothing_is_refused_with_the_nearest_name(fleet, release, problem):
    code, _, complaint = fleet("member", "declare", "bi", release)
    assert code == 1
    assert re.search(problem, complaint), complaint


def test_a_member_of_which_nothing_is_known_is_declared_as_that_and_keeps_levels_down(fleet):
    assert fleet("member", "declare", "mystery", "unknown", "--reads", "lake/orders")[0] == 0
    code, lines, _ = fleet("raise", "delta=4", "--dry-run")
    assert code == 2
    assert any(line.startswith("mystery") for line in lines), lines
    fleet("member", "remove", "mystery", "--reason", "was a test")


def test_a_ladder_shows_what_each_level_brings_and_which_release_has_it(fleet):
    code, lines, _ = fleet("ladders", "show", "delta", "--output", "json")
    assert code == 0
    (delta,) = json.loads("\n".join(lines))
    four = next(each for each in delta["rungs"] if each["level"] == 4)
    assert (four["brings"], four["summary"]) == (["deletionVectors"], "deletion vectors")
    assert "deltalake@1.3.2" in four["providedBy"]
    code, lines, _ = fleet("ladders", "show")
    assert {line.split()[0] for line in lines[1:] if line and not line.startswith(" ")} >= {"delta", "hudi", "index"}
    code, _, complaint = fleet("ladders", "show", "dleta")
    assert code == 1
    assert re.search("nearest +delta", complaint), complaint


@pytest.mark.parametrize(
    "arguments",
    [
        ("raise", "delta", "--feature", "deletionVectors", "--dry-run"),
        ("raise", "delta=deletionvectors", "--dry-run"),
        ("raise", "delta=4", "--dry-run"),
        ("who-breaks", "--raise", "delta=deletionVectors"),
    ],
)
def test_a_level_can_be_asked_for_by_what_it_brings(fleet, arguments):
    code, lines, complaint = fleet(*arguments)
    assert code == 2, complaint
    assert any(line.startswith("etl-nightly") for line in lines), lines


def test_a_hold_and_a_downgrade_take_names_of_features_too(fleet):
    assert fleet("hold", "delta", "--reason", "year end", "--level", "deletionVectors")[0] == 0
    _, lines, _ = fleet("describe")
    assert any("hold on delta at 4" in line for line in lines), lines
    fleet("release", "delta")
    code, lines, _ = fleet("downgrade", "validate", "delta", "--feature", "checkConstraints")
    assert (code, lines[0]) == (0, "delta 3 to 2: nothing is in the way")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("raise", "delta", "--feature", "deletionVector"), "(?s)no level of delta brings.*nearest +deletionVectors"),
        (("raise", "dleta", "--feature", "deletionVectors"), "(?s)there is no ladder dleta.*nearest +delta"),
        (("raise", "delta"), "is no level of a ladder"),
        (("raise", "delta=4", "--feature", "deletionVectors"), "is no level of a ladder"),
    ],
)
def test_a_level_that_is_none_is_refused_with_the_nearest(fleet, arguments, problem):
    code, _, complaint = fleet(*arguments)
    assert code == 1
    assert re.search(problem, complaint), complaint


def test_describe_names_what_levels_bring_beside_their_numbers(fleet):
    _, lines, _ = fleet("describe")
    delta = next(line for line in lines if line.startswith("delta"))
    assert re.search(r"3 timestampNtz +\S.* 4 deletionVectors", delta), delta


def test_check_and_inspect_ask_the_fleet_when_one_is_set(hosting, tmp_path, capsys, monkeypatch):
    url = make_table(tmp_path / "t", "delta-rs:py-1.6.1")
    with AdminClient(hosting.address) as admin:
        admin.observe(declared("dashboard", "deltalake@0.15.0", url, supported=supported_by("deltalake@0.15.0")))
        command = ["check", str(tmp_path / "t"), "--enable", "deletionVectors"]
        assert run(command) == 0
        assert "Would break: 0 of 1." in capsys.readouterr().out
        assert run([*command, "--fleet", hosting.address]) == 2
        told = capsys.readouterr().out
        assert "dashboard (deltalake@0.15.0)" in told
        assert "Would break: 1 of 2." in told
        monkeypatch.setenv("HALOCLINE_FLEET", hosting.address)
        assert run(["inspect", str(tmp_path / "t")]) == 0
        assert "used by     dashboard (deltalake@0.15.0, declared)" in capsys.readouterr().out
        assert run(["inspect", str(tmp_path / "t"), "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["usedBy"][0]["name"] == "dashboard"
        admin.remove_member("dashboard", "was a test")


def test_everybody_who_was_ever_greeted_is_shown_on_request(fleet):
    _, lines, _ = fleet("members", "--all")
    assert any(re.match(r"etl-nightly +halocline@\S+ +deltalake@1\.0\.2 +reader +joined", line) for line in lines)
    assert any(re.match(r"ann +halocline@\S+ +operator +greeted", line) for line in lines)


def test_a_ladder_is_declared_from_a_file(fleet, tmp_path):
    path = tmp_path / "ladder.toml"
    path.write_text('name = "pipeline"\n[[rung]]\nlevel = 1\n[[rung]]\nlevel = 2\nrequires = {delta = 3}\n')
    assert fleet("ladders", "declare", str(path))[:2] == (0, ["declare pipeline levels 1, 2"])
    assert fleet("policy", "pipeline", "auto")[0] == 0
    path.write_text("name = 3")
    code, _, complaint = fleet("ladders", "declare", str(path))
    assert code == 1
    assert "does not describe a ladder" in complaint


def test_the_audit_log_is_shown_newest_first_and_can_be_narrowed(fleet):
    fleet("raise", "delta=4")
    _, lines, _ = fleet("audit", "--action", "raise", "--refused", "--limit", "1")
    assert re.search(r"ann +raise refused +delta=4 +LEVEL_BLOCKED", lines[1])


def test_everything_can_be_had_as_json(fleet):
    for arguments in (
        ["describe"],
        ["members"],
        ["audit"],
        ["who-breaks", "--raise", "delta=4"],
        ["raise", "delta=4", "--dry-run"],
        ["downgrade", "validate", "delta=2"],
    ):
        _, lines, _ = fleet(*arguments, "--output", "json")
        assert json.loads("\n".join(lines))
    code, _, complaint = fleet("raise", "delta=4", "--output", "json")
    assert (code, json.loads(complaint)["error"]["condition"]) == (2, "LEVEL_BLOCKED")


def test_the_audit_log_is_verified_and_exported_as_lines_of_json(fleet, hosting, tmp_path):
    fleet("policy", "index", "auto", "--reason", "to be audited")
    code, lines, _ = fleet("audit", "verify")
    assert (code, len(lines)) == (0, 1)
    noted = lines[0].split()[-1]
    assert fleet("audit", "verify", "--noted", noted)[0] == 0
    assert fleet("audit", "verify", "--noted", "0" * 64)[0] == 2
    path = tmp_path / "audit.jsonl"
    assert fleet("audit", "export", str(path))[0] == 0
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [each["number"] for each in entries] == list(range(1, len(entries) + 1))
    assert entries[-1]["detail"] == "auto to be audited"
    with hosting.service.store.engine.begin() as connection:
        connection.execute(text("UPDATE audit SET actor = 'nobody' WHERE number = 2"))
    code, lines, _ = fleet("audit", "verify")
    assert (code, lines[0].split(" does")[0]) == (2, "entry 2")


def test_a_log_of_decisions_says_what_was_forgotten_and_misses_what_was_taken_out(fleet, hosting, monkeypatch):
    monkeypatch.setattr("halocline.fleet.store.audit_log.MOST_ENTRIES", 4)
    store, service = hosting.service.store, hosting.service
    for reason in "abcdef":
        fleet("policy", "index", "auto" if reason in "ace" else "manual", "--reason", reason)
    count = store.audit(AuditQuery(limit=1))[0].number
    store.prune_audit(service.coordinator.epoch, service.clock.now())
    entries = store.audit(AuditQuery(limit=1000))
    forgotten = entries[-1].number - 1
    assert count - 4 <= forgotten
    code, lines, _ = fleet("audit", "verify")
    assert code == 0
    assert lines[0].startswith(f"{len(entries)} entries follow from each other")
    assert lines[1] == f"{forgotten} older ones were forgotten: 0 by age, {forgotten} beyond the number"
    with store.engine.begin() as connection:
        connection.execute(text("DELETE FROM audit WHERE number = (SELECT min(number) FROM audit)"))
    code, lines, _ = fleet("audit", "verify")
    assert code == 2
    assert "entries were taken out" in lines[0]


def test_an_export_is_written_and_an_import_refused_while_members_act(fleet, tmp_path):
    path = tmp_path / "backup.json"
    assert fleet("export", str(path))[0] == 0
    assert json.loads(path.read_text())["format"] == 1
    code, _, complaint = fleet("export", str(tmp_path / "nowhere" / "backup.json"))
    assert (code, "cannot be written" in complaint) == (1, True)
    code, _, complaint = fleet("import", str(path), "--reason", "a try")
    assert code == 1
    assert "2 members hold a lease" in complaint
    assert fleet("import", str(tmp_path / "none.json"), "--reason", "a try")[0] == 1


def test_the_generation_is_shown_once_a_backup_was_imported(tmp_path, capsys):
    path = tmp_path / "backup.json"
    with embedded(in_memory()) as hosting:
        at = ["fleet", "--at", hosting.address]
        assert run([*at, "export", str(path)]) == 0
        for imported in range(3):
            assert run([*at, "describe"]) in (0, 2)
            shown = capsys.readouterr().out
            assert (f"generation {imported}" in shown) is (imported > 0), shown
            assert run([*at, "import", str(path), "--reason", "a try"]) == 0


@pytest.mark.parametrize("level", ["delta", "delta=", "=3", "delta=x", "delta=-1"])
def test_a_level_that_is_none_is_refused(fleet, level):
    assert fleet("raise", level)[0] == 1


def test_without_a_fleet_the_message_says_how_to_start_one(capsys):
    assert run(["fleet", "--at", "grpc://127.0.0.1:1", "describe"]) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith("UNAVAILABLE: the fleet at 127.0.0.1:1 did not answer")
    assert "halocline serve" in complaint


@pytest.mark.parametrize("address", ["http://x", "127.0.0.1:7470", "grpc://", "grpc://a@b:1"])
def test_an_address_that_is_none_is_refused(address, capsys):
    assert run(["fleet", "--at", address, "describe"]) == 1
    assert "no address of a fleet" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--listen", "0.0.0.0:0"],
        ["--tls-cert", "x.pem"],
        ["--client-ca", "x.pem"],
        ["--access", "/no/such/file.toml"],
        ["--listen", "nonsense"],
        ["--store", "mysql://x/y"],
    ],
)
def test_serve_refuses_what_would_be_unsafe_or_cannot_be(arguments, capsys):
    assert run(["serve", "--http", "off", *arguments]) == 1
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    ("level", "code", "condition", "told"),
    [
        ("hudi=99999999999999", 1, "ARGUMENT_INVALID", "Value out of range"),
        ("hudi=0", 2, "LEVEL_BLOCKED", "hudi has levels 6, 8, 9"),
        ("nope=1", 2, "LEVEL_BLOCKED", "there is no ladder nope"),
    ],
)
def test_a_level_that_cannot_be_is_an_error_and_no_bug(fleet, level, code, condition, told):
    found, _, problem = fleet("raise", level)
    assert (found, problem.partition(":")[0]) == (code, condition)
    assert told in problem


PAGE = (Path(__file__).parents[3] / "docs" / "fleet.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"halocline (fleet(?: [a-z][a-z-]*){1,2}|serve)\b", PAGE)))


def test_the_explorer_is_not_among_what_operators_are_offered(capsys):
    assert run(["fleet", "--help"]) == 0
    offered = capsys.readouterr().out
    assert "describe" in offered
    assert "explore" not in offered


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_exists(command, capsys):
    words = command.split()
    if words[1:2] and words[1] not in ("downgrade", "ladders", "member"):
        words = words[:2]
    assert run([*words, "--help"]) == 0
    assert words[-1] in capsys.readouterr().out


def test_every_metric_of_the_page_exists(hosting):
    text = hosting.service.metrics.text().decode()
    names = set(re.findall(r"`(halocline_\w+)", PAGE))
    assert {name for name in names if name not in text} == set()
    assert "halocline_members" in names


def test_a_writer_in_the_log_is_checked_although_the_fleet_knows_its_release_as_a_reader(
    fleet, hosting, tmp_path, capsys
):
    store = open_store(str(tmp_path / "orders"))
    started = Transaction.create(store, engine="delta-rs:py-0.25.5")
    started.commit((), "CREATE TABLE", configuration=new_table(schema("id")))
    assert fleet("member", "declare", "dashboard", "deltalake@0.25.5", "--reads", store.root)[0] == 0
    try:
        code = run(["check", store.root, "--enable", "rowTracking", "--fleet", hosting.address])
        told = capsys.readouterr().out
        assert code == 2, told
        assert "Would break: 1 of 2." in told, "the reader goes on, the writer does not"
    finally:
        assert fleet("member", "remove", "dashboard", "--reason", "the test is over")[0] == 0

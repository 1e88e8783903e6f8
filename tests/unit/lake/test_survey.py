"""A survey: every table, who uses it, and what stands in the way."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.support.fleets import SCHEMA, declared, make_table, running
from tests.support.hudi_tables import HudiTableMaker
from tests.support.index_logs import IndexLog
from tests.support.index_logs import add as index_add
from tests.support.index_logs import metadata as index_metadata
from tests.support.index_logs import protocol as index_protocol

import halocline as hc
from halocline import Lake
from halocline.cli import main
from halocline.compat.answer import Answer
from halocline.compat.terms import Terms
from halocline.compat.verdict import can
from halocline.errors import InputError, NotFoundError
from halocline.formats.hudi.configuration import TableType
from halocline.lake import surveyors
from halocline.lake.facts import Job, gather
from halocline.lake.judging import why
from halocline.storage import open_store

SPARK, RUST = "Apache-Spark/3.5.0 Delta-Lake/3.2.0", "delta-rs:py-0.25.5"
NUMBERS = {"minReaderVersion": 3, "minWriterVersion": 7}
VECTORS = {"protocol": {**NUMBERS, "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}}
IN_USE = {
    "metaData": {
        "id": "1",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(SCHEMA),
        "partitionColumns": [],
        "configuration": {"delta.enableDeletionVectors": "true"},
    }
}


@pytest.fixture
def folder(tmp_path):
    make_table(tmp_path / "sales" / "orders", SPARK, seen_ms=1_000_000)
    make_table(tmp_path / "sales" / "items", RUST, seen_ms=2_000_000)
    trips = HudiTableMaker.create(open_store(tmp_path / "trips"), 6, TableType.COPY_ON_WRITE)
    trips.upsert([1, 2], 1, "a")
    index = IndexLog(open_store(str(tmp_path / "docs")))
    index.commit(0, index_protocol(1, 1), index_metadata())
    index.commit(1, index_add("a.split", size=1500), {"commitInfo": {"engineInfo": "Halocline/0.1.0"}})
    torn = tmp_path / "torn" / "_delta_log"
    torn.mkdir(parents=True)
    (torn / f"{0:020}.json").write_text('{"metaData":{"id"')
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    return tmp_path


def by_name(survey):
    return {each.name: each for each in survey.tables}


def append_action(folder, version, *actions):
    (folder / "_delta_log" / f"{version:020}.json").write_text("".join(json.dumps(each) + "\n" for each in actions))


def test_tables_of_every_format_are_told_with_what_they_require(folder):
    found = {name: each.to_dict() for name, each in by_name(Lake.discover(folder).survey()).items()}
    assert sorted(found) == ["docs", "empty", "sales.items", "sales.orders", "torn", "trips"]
    orders, trips, docs = found["sales.orders"], found["trips"], found["docs"]
    assert (orders["format"], orders["protocol"], orders["version"]) == ("delta", "(1,2)", 0)
    assert orders["lastWriter"] == {"release": "delta-spark@3.2.0", "seen": 1_000_000}
    assert (trips["format"], trips["protocol"], trips["files"]) == ("hudi", "hudi(6)", 2)
    assert trips["bytes"] > 0
    assert (docs["format"], docs["files"], docs["bytes"]) == ("index", 1, 1500)


def test_damaged_tables_are_listed_and_stop_nothing(folder):
    survey = Lake.discover(folder).survey()
    assert [each.name for each in survey.damaged] == ["empty", "torn"]
    assert by_name(survey)["torn"].damage.startswith("MALFORMED_LOG")
    assert by_name(survey)["empty"].damage.startswith("TABLE_NOT_FOUND")
    assert by_name(survey)["sales.orders"].damage is None


def test_an_error_that_nobody_foresaw_is_the_damage_of_one_table(folder, monkeypatch):
    from halocline.formats.delta.maintain import inspection

    def broken(store, version=None):
        raise ZeroDivisionError("who would have thought")

    monkeypatch.setattr(inspection, "inspect", broken)
    survey = Lake.discover(folder).survey()
    assert by_name(survey)["sales.orders"].damage == "ZeroDivisionError: who would have thought"
    assert by_name(survey)["trips"].damage is None


def test_users_are_known_from_log_file_and_fleet(folder):
    (folder / "lake.toml").write_text(
        "prefix = '.'\n[[clients]]\nname = 'report'\nrelease = 'trino@426'\nreads = ['sales.*']"
    )
    url = open_store(folder / "sales" / "orders").root
    with running() as (hosting, admin):
        admin.observe(declared("bi", "trino@420", url))
        survey = Lake.read(folder / "lake.toml").survey(fleet=hosting.address)
    users = [each.to_dict([]) for each in by_name(survey)["sales.orders"].users]
    assert {(each["source"], each["provenance"], each["release"], *each["operations"]) for each in users} == {
        ("log", "observed", "delta-spark@3.2.0", "read", "write"),
        ("file", "declared", "trino@426", "read"),
        ("fleet", "declared", "trino@420", "read"),
    }
    trips = [each.to_dict([]) for each in by_name(survey)["trips"].users]
    assert [(each["source"], each["provenance"]) for each in trips] == [("log", "inferred")]
    assert "trino@426" in map(str, survey.releases)


def test_a_user_who_reads_wrong_rows_is_the_loudest(folder):
    append_action(folder / "sales" / "items", 1, VECTORS, IN_USE)
    survey = Lake.discover(folder).survey()
    items = by_name(survey)["sales.items"]
    assert items.worst is Answer.WRONG
    assert [each.name for each in survey.failing] == ["sales.items"]
    assert by_name(survey)["sales.orders"].worst is Answer.OK


def test_what_stands_in_the_way_of_a_target_is_said_table_by_table(folder):
    survey = Lake.discover(folder).survey(enable=["DELETIONVECTORS"], table_version=8)
    found = by_name(survey)
    assert found["sales.orders"].in_the_way == ()
    (told,) = found["sales.items"].in_the_way
    assert told.startswith("deltalake@0.25.5 (wrong) would break: upgrade deltalake to")
    (old,) = found["trips"].in_the_way
    assert old.startswith("hudi@"), "the lowest release that writes version 6 does not write version 8"
    assert [each.name for each in survey.stuck] == ["sales.items", "trips"]
    assert found["docs"].facts.ways == {}, "the target is not about its format"


def test_a_table_that_cannot_change_is_in_its_own_way(folder):
    survey = Lake.discover(folder).survey(drop=["appendOnly"])
    (told,) = by_name(survey)["sales.orders"].in_the_way
    assert told.startswith("FEATURE_NOT_DROPPABLE")


def test_both_ways_of_dropping_are_told_apart(folder):
    append_action(folder / "sales" / "orders", 1, VECTORS)
    survey = Lake.discover(folder).survey(drop=["deletionVectors"])
    ways = by_name(survey)["sales.orders"].to_dict()["after"]
    assert sorted(ways) == ["history kept", "history truncated"]


def test_a_feature_that_nobody_knows_is_refused_before_anything_is_read(folder):
    with pytest.raises(NotFoundError) as told:
        Lake.discover(folder).survey(enable=["deletionVector"])
    assert told.value.sides["nearest"] == "deletionVectors"


def test_findings_of_the_linter_are_told(folder):
    reader_only = {**NUMBERS, "readerFeatures": ["deletionVectors"], "writerFeatures": []}
    append_action(folder / "sales" / "items", 1, {"protocol": reader_only})
    items = by_name(Lake.discover(folder).survey())["sales.items"]
    assert items.facts.flaws, "a reader feature that is not listed for writers is a contradiction"
    assert items.damage is None


# ---------------------------------------------------------------------- processes


def entries(folder):
    return [(each.name, each.url, each.formats) for each in Lake.discover(folder)]


def test_processes_tell_what_one_alone_tells(folder):
    alone, together = (list(surveyors.look_at(entries(folder), Job(), processes=number)) for number in (0, 2))

    def told(found):
        return [
            {**each.__class__.__dict__, "name": each.name, "damage": each.damage, "terms": each.terms} for each in found
        ]

    assert [(each.name, each.terms, each.damage, each.writers) for each in together] == [
        (each.name, each.terms, each.damage, each.writers) for each in alone
    ]


def test_a_table_that_ends_its_process_is_damaged_and_the_others_are_told(folder, monkeypatch):
    ask = surveyors._Surveyor._ask

    def asked(surveyor, batch):
        if any(name == "trips" for name, _, _ in batch):
            surveyor._pipes()
            surveyor._process.kill()
            surveyor._process.wait()
        return ask(surveyor, batch)

    monkeypatch.setattr(surveyors._Surveyor, "_ask", asked)
    found = {each.name: each.damage for each in surveyors.look_at(entries(folder), Job(), processes=1)}
    assert "ended" in found["trips"]
    assert found["sales.orders"] is None
    assert found["docs"] is None


def test_a_survey_needs_no_guard_in_the_script_that_runs_it(folder, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"from halocline import Lake\nprint(len(Lake.discover({str(folder)!r}).survey(processes=2).tables))"
    )
    shown = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "6"


def test_every_object_of_a_table_is_read_once(folder, monkeypatch):
    from collections import Counter

    from halocline.storage.local import LocalStore

    read = Counter()
    get = LocalStore.get
    monkeypatch.setattr(LocalStore, "get", lambda store, path: (read.update([path]), get(store, path))[1])
    gather("sales.orders", open_store(folder / "sales" / "orders").root, ("delta",), Job())
    assert read, "the table was read"
    assert max(read.values()) == 1, read


# ---------------------------------------------------------------------- the journal


def test_a_survey_that_was_ended_goes_on_with_its_journal(folder, tmp_path, monkeypatch):
    lake, journal = Lake.discover(folder), tmp_path / "survey.journal"
    whole = lake.survey(processes=0)

    def end(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lake.survey(journal=journal, processes=0, progress=end)
    with journal.open("ab") as torn:
        torn.write(b'{"name":"half a li')
    looked = []
    monkeypatch.setattr(surveyors, "gather", lambda name, *rest: (looked.append(name), gather(name, *rest))[1])
    again = lake.survey(journal=journal, processes=0)
    assert [each.name for each in again.tables] == [each.name for each in whole.tables]
    assert len(looked) == len(whole.tables) - 3, "those that the journal has are not looked at again"
    looked.clear()
    lake.survey(journal=journal, processes=0)
    assert looked == []


def test_the_journal_of_another_survey_is_refused(folder, tmp_path):
    journal = tmp_path / "survey.journal"
    lake = Lake.discover(folder)
    lake.survey(journal=journal, processes=0)
    with pytest.raises(InputError, match="another survey"):
        lake.survey(journal=journal, enable=["deletionVectors"])
    journal.write_text("something else\n")
    with pytest.raises(InputError, match="not the journal"):
        lake.survey(journal=journal)


@pytest.mark.parametrize("option", ["--html", "--journal"])
@pytest.mark.parametrize(("place", "complaint"), [("", "is a folder"), ("nowhere/file", "cannot be written")])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_looked_at(
    folder, tmp_path, capsys, monkeypatch, option, place, complaint
):
    monkeypatch.setattr(surveyors, "gather", lambda *_: pytest.fail("a table was looked at"))
    assert main.run(["survey", str(folder), option, str(tmp_path / place)]) == 1
    assert complaint in capsys.readouterr().err


# ---------------------------------------------------------------------- the command


def run(capsys, *arguments):
    code = main.run(["survey", *map(str, arguments)])
    return code, capsys.readouterr().out


def test_the_command_tells_the_worst_first_and_sums_up(folder, capsys):
    code, out = run(capsys, folder, "--enable", "deletionVectors")
    assert code == 2
    lines = out.splitlines()
    assert lines[1].startswith("empty")
    assert "6 tables (4 delta, 1 hudi, 1 index)" in out
    assert "Target: enable deletionVectors.  In the way: 1 tables." in out


def test_a_sound_lake_ends_with_0(tmp_path, capsys):
    make_table(tmp_path / "orders", SPARK)
    assert run(capsys, tmp_path)[0] == 0


def test_the_command_gives_the_same_facts_to_programs(folder, capsys):
    _, out = run(capsys, folder, "--output", "json")
    told = json.loads(out)
    assert told["damaged"] == ["empty", "torn"]
    assert [each["name"] for each in told["tables"]] == Lake.discover(folder).names


def test_the_command_takes_a_file_and_a_page_is_written(folder, capsys):
    (folder / "lake.toml").write_text("[tables]\norders = 'sales/orders'")
    code, out = run(capsys, folder / "lake.toml", "--html", folder / "page.html", "--client", "trino@426")
    assert code == 0
    assert "orders" in out
    assert "trino@426" in (folder / "page.html").read_text()


def test_a_release_that_is_asked_for_is_judged_against_every_table(tmp_path, capsys):
    make_table(tmp_path / "orders", SPARK)
    hc.Table.create(tmp_path / "items", pa.table({"a": [1]}), properties={"delta.enableDeletionVectors": "true"})
    code, out = run(capsys, tmp_path, "--client", "trino@426", "--client", "trno@426")
    judged, mistyped = out.splitlines()[-2:]
    assert code == 0, "nobody is known to use a table with it"
    assert judged.startswith("trino@426 reads 1 of 2, not items (refused: reads deletionVectors from 427")
    assert "writes 0 of 2" in judged
    assert "trno@426 reads 0 of 2" in mistyped
    assert "the nearest is trino" in mistyped
    assert run(capsys, tmp_path, "--client", "trino")[0] == 1


def test_a_long_list_is_cut_unless_all_is_asked_for(tmp_path, capsys):
    for number in range(52):
        make_table(tmp_path / f"t{number:02}", SPARK)
    assert "and 2 more tables" in run(capsys, tmp_path)[1]
    assert "t51" in run(capsys, tmp_path, "--all")[1]


def test_a_survey_with_a_limit_names_the_next_command(folder, capsys):
    out = run(capsys, folder, "--limit", "2")[1]
    assert "--after empty" in out
    assert "sales.orders" in run(capsys, folder, "--after", "empty")[1]


def test_each_reason_tells_how_it_is_known():
    told = why(can("trino@426", Terms.using("delta", ["deletionVectors"])))
    assert told.startswith("reads deletionVectors from 427, wrongly before 469 (measured): upgrade to trino 469")

"""`halocline plan` on tables on disk."""

from __future__ import annotations

import json

import pytest
from tests.support.fleets import declared, make_table, running
from tests.support.hudi_tables import HudiTableMaker

from halocline.cli.main import run
from halocline.formats.hudi.configuration import TableType
from halocline.plan.file import SavedPlan
from halocline.storage import open_store
from halocline.table import Table

MEMBERS = """
[releases]
trino = ["426", "470"]

[[members]]
name = "report"
release = "trino@426"
reads = ["sales.*"]
"""


@pytest.fixture
def lake(tmp_path):
    make_table(tmp_path / "lake" / "sales" / "orders")
    make_table(tmp_path / "lake" / "raw" / "clicks", "Apache-Spark/3.5.0 Delta-Lake/3.2.0")
    (tmp_path / "members.toml").write_text(MEMBERS)
    return tmp_path


def planned(capsys, *arguments: str) -> tuple[int, dict]:
    code = run(["plan", *map(str, arguments), "--output", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_members_of_a_file_move_before_the_tables_and_the_plan_is_kept(lake, capsys):
    out = lake / "rollout.plan"
    arguments = ["plan", lake / "lake", "--enable", "deletionVectors", "--members", lake / "members.toml", "--out", out]
    assert run([*map(str, arguments)]) == 2
    text = capsys.readouterr().out
    assert "  ~ trino@426 to trino@470  (1 member: report)" in text
    assert "  + enable deletionVectors  (2 tables: raw.clicks, sales.orders)" in text
    assert f"Next: halocline apply {out}" in text
    saved = SavedPlan.read(str(out))
    assert [len(each.moves) for each in saved.plan.stages] == [0, 2]
    assert saved.places["sales.orders"].endswith("/lake/sales/orders")


def test_selected_tables_alone_move(lake, capsys):
    code, facts = planned(capsys, lake / "lake", "--enable", "deletionVectors", "--select", "raw.*")
    assert code == 2
    assert [move["table"] for stage in facts["stages"] for move in stage["moves"]] == ["raw.clicks"]


def test_nothing_to_do_is_exit_code_0(lake, capsys):
    code, facts = planned(capsys, lake / "lake", "--drop", "deletionVectors")
    assert (code, facts["stages"], facts["summary"]) == (0, [], "Plan: nothing to do.")


def test_no_safe_plan_is_exit_code_1_and_says_who(lake, capsys):
    members = lake / "members.toml"
    members.write_text(MEMBERS.replace('"426", "470"', '"426"'))
    code, facts = planned(capsys, lake / "lake", "--enable", "deletionVectors", "--members", members)
    assert (code, facts["safe"], facts["inTheWay"]) == (1, False, ["report"])
    assert facts["blockers"][0]["verdict"] == "refused: reads deletionVectors from 427, wrongly before 469"


def test_writers_that_a_log_names_are_members(lake, capsys):
    make_table(lake / "lake" / "old", "delta-rs:py-0.25.5")
    code, facts = planned(capsys, lake / "lake" / "old", "--enable", "deletionVectors")
    assert code == 2
    assert [each["before"] for stage in facts["stages"] for each in stage["upgrades"]] == ["deltalake@0.25.5"]


def test_members_of_a_fleet_are_asked(lake, capsys):
    table = str(lake / "lake" / "sales" / "orders")
    with running() as (hosting, admin):
        admin.observe(declared("dashboards", "trino@426", open_store(table).root))
        code, facts = planned(capsys, table, "--enable", "deletionVectors", "--fleet", hosting.address)
    assert code == 2
    assert [(each["member"], each["after"]) for each in facts["stages"][0]["upgrades"]] == [("dashboards", "trino@469")]


def test_an_unknown_member_is_refused_by_a_policy_even_if_it_was_accepted(lake, capsys):
    (lake / "policy.toml").write_text('unknown = "refuse"\n')
    (lake / "members.toml").write_text(MEMBERS.replace("trino@426", "powerbi@2.131"))
    arguments = [str(lake / "lake"), "--enable", "deletionVectors", "--members", str(lake / "members.toml")]
    code, _ = planned(capsys, *arguments, "--accept-unknown", "report")
    assert code == 2
    assert run(["plan", *arguments, "--accept-unknown", "report", "--policy", str(lake / "policy.toml")]) == 2
    assert "the policy accepts no member of which nothing is known" in capsys.readouterr().err


def test_both_ways_of_dropping_are_compared(tmp_path, capsys):
    path = tmp_path / "orders"
    make_table(path, "delta-rs:py-1.0.2")
    Table.for_path(path).set_properties({"delta.enableDeletionVectors": "true"})
    assert run(["plan", str(path), "--drop", "deletionVectors"]) == 2
    text = capsys.readouterr().out
    assert "drop deletionVectors (history truncated)" in text, "deltalake can write again only then"
    assert "Ways: history kept: 1 stage" in text
    assert "1 uses do not work afterwards" in text


def test_hudi_tables_move_after_their_readers(tmp_path, capsys):
    maker = HudiTableMaker.create(open_store(tmp_path / "trips"), 6, TableType.COPY_ON_WRITE)
    maker.upsert([1, 2], 1, "a")
    code, facts = planned(capsys, tmp_path / "trips", "--table-version", "8", "--release", "hudi@1.0.2")
    assert code == 2
    assert facts["stages"][-1]["moves"][0]["action"] == "move to table version 8"


@pytest.mark.parametrize("output", ["markdown", "html"])
def test_a_plan_is_shown_in_other_forms(lake, capsys, output):
    assert run(["plan", str(lake / "lake"), "--enable", "deletionVectors", "--output", output]) == 2
    assert "enable deletionVectors" in capsys.readouterr().out


def test_a_target_is_needed_and_unknown_keys_are_refused_with_the_nearest(lake, capsys):
    assert run(["plan", str(lake / "lake")]) == 1
    assert "nothing is said about what is to change" in capsys.readouterr().err
    (lake / "members.toml").write_text(MEMBERS.replace("reads", "read"))
    assert run(["plan", str(lake / "lake"), "--drop", "deletionVectors", "--members", str(lake / "members.toml")]) == 1
    assert "nearest" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--enable", "deletionVectors", "--select", "sales.order"], "nearest  sales.orders"),
        (["--table-version", "12"], "there is no table version 12"),
        (["--table-version", "-1"], "there is no table version -1"),
        (["--release", "trno@470"], "nearest  trino"),
        (["--enable", "deletionVectors", "--available", "trnio@470"], "nearest  trino"),
        (["--enable", "deletionVectors", "--history", "keep"], "when a feature is dropped, and none is"),
    ],
)
def test_what_would_change_nothing_because_it_is_mistyped_is_refused(lake, capsys, arguments, said):
    assert run(["plan", str(lake / "lake"), *arguments]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("why", "code"),
    [("nothing to do", 0), ("no safe plan", 1), ("a mistyped feature", 1), ("damage", 2), ("policy", 2)],
)
def test_an_older_plan_in_the_file_goes_when_there_is_none(lake, capsys, why, code):
    out, members, policy = lake / "rollout.plan", lake / "members.toml", lake / "policy.toml"
    arguments = [lake / "lake", "--enable", "deletionVectors", "--members", members, "--out", out]
    assert planned(capsys, *arguments)[0] == 2
    assert out.exists()
    if why == "nothing to do":
        arguments = [lake / "lake", "--drop", "deletionVectors", "--out", out]
    elif why == "no safe plan":
        members.write_text(MEMBERS.replace('"426", "470"', '"426"'))
    elif why == "a mistyped feature":
        arguments[2] = "deletionVektors"
    elif why == "damage":
        for table in ("sales/orders", "raw/clicks"):
            (lake / "lake" / table / "_delta_log" / f"{0:020d}.json").write_text("garbage\n")
    else:
        policy.write_text('unknown = "refuse"\n')
        members.write_text(MEMBERS.replace("trino@426", "nobody@1"))
        arguments += ["--accept-unknown", "report", "--policy", policy]
    assert run(["plan", *map(str, arguments)]) == code
    assert not out.exists()
    capsys.readouterr()
    assert run(["apply", str(out), "--verify", "none"]) == 1
    assert "there is no plan at" in capsys.readouterr().err


def test_a_file_that_is_no_plan_is_left_alone_when_there_is_none(lake, capsys):
    for number, text in enumerate(("notes\n", '{"stages": []}', "[1]")):
        out = lake / f"{number}.txt"
        out.write_text(text)
        assert planned(capsys, lake / "lake", "--drop", "deletionVectors", "--out", out)[0] == 0
        assert out.read_text() == text


def test_an_older_plan_that_was_begun_stays_for_the_way_back(lake, capsys):
    out = lake / "rollout.plan"
    assert planned(capsys, lake / "lake", "--enable", "deletionVectors", "--out", out)[0] == 2
    assert run(["apply", str(out), "--verify", "none"]) == 0
    capsys.readouterr()
    before = out.read_bytes()
    assert planned(capsys, lake / "lake", "--enable", "deletionVectors", "--out", out)[0] == 0
    assert out.read_bytes() == before
    assert run(["rollback", str(out), "--dry-run"]) == 2

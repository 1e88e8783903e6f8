"""`halocline history`: what is printed, what exits how, and that the examples in docs/histories.md work."""

import json
import re
import shlex
from pathlib import Path

import pytest

from halocline.cli.main import run

PAGE = (Path(__file__).parents[3] / "docs" / "histories.md").read_text(encoding="utf-8")


def history(*arguments):
    return run(["history", *arguments])


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_refused_pair_names_the_feature_both_ranges_and_the_fix(capsys):
    assert history("check", "databend-meta", "--client", "1.2.300", "--server", "1.2.800") == 2
    assert capsys.readouterr().out.splitlines() == [
        "refused: client 1.2.300 requires transaction/reply_error, removed from servers at 1.2.755",
        "servers this client can use: [1.2.259, 1.2.755)",
        "clients this server accepts: [1.2.676, 260214.0.0)",
        "Upgrade the client to 1.2.676 or later (below 260214.0.0)",
    ]


def test_pair_that_fits_is_fine(capsys):
    assert history("check", "databend-meta", "--client", "1.2.873", "--server", "1.2.873") == 0
    assert capsys.readouterr().out.startswith("ok: client 1.2.873 can use server 1.2.873\n")


def test_version_that_cannot_be_read_is_unknown_and_not_fine(capsys):
    assert history("check", "databend-meta", "--client", "latest", "--server", "1.2.873") == 2
    assert capsys.readouterr().out.startswith("unknown: client version 'latest' cannot be read\n")


def test_check_as_json_holds_the_verdict(capsys):
    assert history("check", "databend-meta", "--client", "1.2.300", "--server", "1.2.800", "--output", "json") == 2
    shown = json.loads(capsys.readouterr().out)
    assert shown["answer"] == "refused"
    assert shown["reasons"][0]["feature"] == "transaction/reply_error"
    assert shown["reasons"][0]["kind"] == "removed"
    assert shown["servers"] == ["[1.2.259, 1.2.755)"]


@pytest.mark.parametrize(
    ("arguments", "number", "why"),
    [
        (["min-server", "databend-meta", "--client", "260205.0.0"], "1.2.770", "expire_in_millis, put_sequential"),
        (["min-client", "databend-meta", "--server", "1.2.873"], "1.2.676", "transaction/reply_error"),
        (["min-server", "databend-meta-seed", "--client", "1.2.873"], "1.2.770", "expire_in_millis, put_sequential"),
        (
            ["min-server", "databend-meta", "--client", "260217.0.0", "--flag", "txn-put-match-seq"],
            "260217.0.0",
            "kv_transaction/put_match_seq",
        ),
    ],
)
def test_minimum_is_alone_on_standard_output(arguments, number, why, capsys):
    assert history(*arguments) == 0
    shown = capsys.readouterr()
    assert shown.out == f"{number}\n"
    assert shown.err == f"forced by {why}\n"


def test_minimum_that_was_yanked_names_the_first_usable_one(capsys):
    assert history("min-server", "databend-meta", "--client", "1.2.873", "-o", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["minServer"], shown["firstUsable"]) == ("1.2.764", "1.2.768")


def test_minimum_of_an_unreadable_version_is_an_error(capsys):
    assert history("min-server", "databend-meta", "--client", "latest") == 1
    assert capsys.readouterr().err.startswith("ARGUMENT_INVALID: client version 'latest' cannot be read\n")


def test_lint_findings_exit_like_an_incompatibility(capsys):
    assert history("lint", "databend-meta") == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split(maxsplit=1) == [
        "required-before-provided",
        "clients require watch/init_flag from 1.2.726, servers provide it from 1.2.736 only",
    ]
    assert lines[-1] == "databend-meta: 31 features, 11 findings"
    assert len(lines) == 12


def test_lint_without_findings_is_fine(capsys):
    assert history("lint", "databend-raft", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"history": "databend-raft", "findings": []}


def test_diff_that_rewrites_exits_like_an_incompatibility(capsys):
    assert history("diff", "databend-meta", "databend-meta-seed", "--output", "json") == 2
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert [change["feature"] for change in changes if change["rewrites"]] == [
        "expire_in_millis",
        "put_sequential",
        "constants",
        "raft_reply/error",
    ]


def test_diff_of_the_same_is_fine(capsys):
    assert history("diff", "databend-raft", "databend-raft") == 0
    assert capsys.readouterr().out == (
        "databend-raft → databend-raft: 0 changes; what was released up to 260304.0.0 stands as it was\n"
    )


def test_show_lists_every_feature_with_both_sides(capsys):
    assert history("show", "databend-meta") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("databend-meta · 31 features · from 1.2.163 to 260304.0.0\n")
    assert re.search(r"^transaction/reply_error +\[1\.2\.258, 1\.2\.755\) +\[1\.2\.258, 1\.2\.676\) *$", shown, re.M)
    assert "yanked      [1.2.764, 1.2.768)" in shown
    assert "misreports  1.2.258 says it is 1.2.257" in shown


def test_show_as_json_holds_every_feature(capsys):
    assert history("show", "databend-raft", "-o", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["features"]) == 7
    assert shown["features"][4]["required"] == ["[1.2.769, ∞)"]


def test_show_at_a_version_gives_both_roles(capsys):
    assert history("show", "databend-raft", "--at", "1.0.0") == 0
    assert capsys.readouterr().out.splitlines() == [
        "as a client   minimum server 0.0.120; can use servers: 0.0.120 and later",
        "as a server   minimum client 0.0.0; accepts clients: [0.0.120, 1.2.769)",
        "as either     works with: [0.0.120, 1.2.769)",
    ]


def test_list_names_the_shipped_histories(capsys):
    assert history("list", "-o", "json") == 0
    sizes = {each["name"]: each["features"] for each in json.loads(capsys.readouterr().out)}
    assert sizes | {"databend-meta": 31, "databend-meta-seed": 27, "databend-raft": 7} == sizes


def test_changelog_is_the_markdown(capsys):
    assert history("changelog", "databend-meta") == 0
    assert "## 1.2.755\n\n- server: removes `transaction/reply_error`\n" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["show", "lint", "changelog"])
def test_bad_file_gives_the_file_the_key_and_no_traceback(command, tmp_path, capsys):
    path = tmp_path / "bad.toml"
    path.write_text('format = 1\nname = "bad"\nreleased = "1"\n[[feature]]\nid = "a"\nprovided = "soon"\n')
    assert history(command, str(path)) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"MALFORMED_HISTORY: history {path}: key feature[0].provided: ")
    assert len(lines) == 2


def test_missing_history_is_an_error_in_the_form_asked_for(capsys):
    assert history("show", "databend-mta", "--output", "json") == 1
    error = json.loads(capsys.readouterr().err)["error"]
    assert (error["condition"], error["next"]) == ("NOT_FOUND", "Did you mean databend-meta?")


def sessions():
    """Each `$ command` of the page with the lines below it."""
    for block in blocks("console"):
        for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = session.partition("\n")
            yield pytest.param(command, output, id=command)


@pytest.mark.parametrize(("command", "output"), list(sessions()))
def test_example_on_the_page_prints_what_the_page_shows(command, output, tmp_path, monkeypatch, capsys):
    (toml,) = blocks("toml")
    (tmp_path / "mail.toml").write_text(toml, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(command)
    assert program == "halocline"
    run(arguments)
    assert capsys.readouterr().out == output


def test_python_on_the_page_gives_the_values_in_its_comments():
    names = {}
    checked = 0
    for line in "".join(blocks("python")).splitlines():
        code, _, expected = line.partition("#")
        if expected:
            assert str(eval(code, names)) == expected.strip(), line
            checked += 1
        else:
            exec(code, names)
    assert checked == 7


def test_every_key_of_a_file_is_described_on_the_page():
    for key in (
        *("format", "name", "summary", "sources", "released", "unknown_before", "pre_releases", "retired", "flags"),
        *("provided", "required", "optional", "fallback", "inert", "with", "yanked", "reports_as", "constants"),
        *("versions", "side", "why", "version", "reports", "use", "since", "min_client", "min_server"),
    ):
        assert re.search(rf"`[^`]*\b{key}\b[^`]*`", PAGE), f"{key} is not described"

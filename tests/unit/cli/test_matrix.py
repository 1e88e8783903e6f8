"""`halocline matrix`: features by product, and releases against a protocol."""

import json

import pytest

from halocline.cli import main
from halocline.compat.knowledge import Knowledge

VECTORS = "(3,7|R: deletionVectors|W: deletionVectors)"


def run(capsys, *arguments):
    code = main.run(["matrix", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_without_arguments_every_product_and_reader_feature_is_shown(capsys):
    code, out, _ = run(capsys)
    assert code == 0
    headers = " ".join(line for line in out.splitlines() if line.startswith("read (delta)")).split()
    wanted = [each.name for each in Knowledge.load().products.values() if "delta" in each.formats]
    assert [name for name in wanted if name not in headers] == []
    assert "deletionVectors" in out
    assert "appendOnly" not in out


def test_writer_features_are_shown_for_writing(capsys):
    _, out, _ = run(capsys, "--operation", "write", "--product", "delta-spark")
    row = next(line for line in out.splitlines() if line.startswith("inCommitTimestamp-preview"))
    assert row.split(maxsplit=1)[1].strip() == "[3.2.0, 3.3.0)"


def test_silently_wrong_data_is_shown_loudest(capsys):
    _, out, _ = run(capsys, "--product", "deltalake", "--feature", "columnMapping")
    assert "WRONG 1.6.6" in out


def test_stretches_as_json_have_bounds_answers_and_what_goes_wrong(capsys):
    _, out, _ = run(capsys, "--product", "trino", "--feature", "deletionVectors", "--output", "json")
    (row,) = json.loads(out)["features"]
    stretches = row["products"]["trino"]
    assert [(each["since"], each["until"], each["answer"]) for each in stretches] == [
        ("396", "412", "unknown"),
        ("412", "414", "wrong"),
        ("414", "427", "refused"),
        ("427", "469", "wrong"),
        ("469", None, "ok"),
    ]
    assert "deleted rows reappear" in stretches[1]["what"]


def test_releases_can_be_put_side_by_side(capsys):
    asked = ("--operation", "write", "--release", "deltalake@1.6.6", "--release", "delta-kernel-java@4.1.0")
    code, out, _ = run(capsys, *asked)
    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("checkConstraints"))
    assert row.split() == ["checkConstraints", "ok", "ok", "if", "unused"]


def test_a_protocol_is_judged_for_every_product(capsys):
    code, out, _ = run(capsys, "--protocol", VECTORS)
    assert code == 0
    spark = next(line for line in out.splitlines() if line.startswith("delta-spark"))
    assert "refused  reads deletionVectors from 2.3.0" in spark
    assert spark.split()[1:5] == ["0.1.0", "to", "before", "2.3.0"]
    assert spark.rstrip().endswith("from source")
    assert "414 to before 427" in out
    assert "reads deletionVectors from 427" in out


def test_a_protocol_as_json_has_the_verdicts(capsys):
    _, out, _ = run(capsys, "--protocol", "hudi(8)", "--product", "hudi", "--output", "json")
    found = json.loads(out)
    assert found["protocol"] == "hudi(8)"
    assert [(each["since"], each["answer"]) for each in found["releases"]] == [("0.12.0", "refused"), ("1.0.0", "ok")]
    assert found["releases"][0]["verdict"]["fix"]["upgrade"] == "hudi@1.0.0"


@pytest.mark.parametrize(
    ("releases", "code"),
    [(["trino@469"], 0), (["trino@469", "trino@426"], 2), (["powerbi@2.131"], 2)],
)
def test_named_releases_decide_the_exit_code(capsys, releases, code):
    asked = [word for release in releases for word in ("--release", release)]
    found, out, _ = run(capsys, "--protocol", VECTORS, *asked)
    assert found == code, out
    assert all(release in out for release in releases)


def test_what_is_in_use_changes_the_verdict(capsys):
    asked = ("--protocol", "(1,6)", "--operation", "write", "--release", "delta-spark@2.2.0")
    assert run(capsys, *asked)[0] == 2
    code, out, _ = run(capsys, *asked, "--enabled", "appendOnly")
    assert code == 0, out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--operation", "fly"), "there is no operation 'fly'"),
        (("--product", "powerbi"), "nothing is known about a product 'powerbi'"),
        (("--release", "trino"), "does not name a release"),
        (("--feature", "shiny"), "no feature 'shiny' is known"),
        (("--format", "paper"), "there is no table format 'paper'"),
        (("--protocol", "(1;2)"), "(1;2)"),
        (("--protocol", "(1,2)", "--enabled", "shiny"), "no feature 'shiny' is known"),
        (("--enabled", "appendOnly"), "--enabled is of no use here"),
        (("--protocol", "(1,2)", "--feature", "appendOnly"), "--feature is of no use here"),
        (("--release", "trino@426", "--product", "trino"), "--product is of no use here"),
    ],
)
def test_a_bad_argument_gives_one_clear_line(capsys, arguments, complaint):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (1, "")
    assert complaint in err.splitlines()[0]

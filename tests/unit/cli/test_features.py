"""`halocline features`: lists, and one record in full."""

import json

import pytest

from halocline.cli import main
from halocline.compat.features import FORMATS, features


def run(capsys, *arguments):
    code = main.run(["features", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_without_arguments_the_formats_are_listed(capsys):
    code, out, _ = run(capsys)
    assert code == 0
    assert all(format in out for format in FORMATS)


@pytest.mark.parametrize("format", FORMATS)
def test_a_format_lists_every_feature_as_text_and_as_json(format, capsys):
    code, out, _ = run(capsys, format)
    assert code == 0
    assert [name for name in features(format) if name not in out and not name.startswith("table version")] == []
    code, out, _ = run(capsys, format, "--output", "json")
    assert [each["name"] for each in json.loads(out)["features"]] == list(features(format))


@pytest.mark.parametrize("format", ["hudi", "index"])
def test_a_ladder_is_shown_with_what_each_version_adds(format, capsys):
    _, out, _ = run(capsys, format, "--output", "json")
    levels = json.loads(out)["levels"]
    assert [each["number"] for each in levels] == list(range(levels[0]["number"], levels[-1]["number"] + 1))
    added = {name for each in levels for name in each["adds"]}
    assert added <= features(format).keys()


def test_one_feature_is_shown_in_full(capsys):
    code, out, _ = run(capsys, "delta", "DELETIONVECTORS")
    assert code == 0
    assert "delta feature deletionVectors" in out
    assert "readers and writers" in out
    assert "delta.enableDeletionVectors=true" in out
    assert "since 4.0.0; history is truncated, or protected by checkpointProtection" in out
    assert out.index("drop step 1") < out.index("drop step 4")


def test_one_feature_as_json_has_its_drop_recipe(capsys):
    _, out, _ = run(capsys, "delta", "rowTracking", "--output", "json")
    record = json.loads(out)
    assert record["requires"] == ["domainMetadata"]
    assert record["drop"]["since"] == "4.1.0"
    assert [each["name"] for each in record["drop"]["steps"] if each["atDrop"]] == ["unset", "remove-domains"]


@pytest.mark.parametrize(
    ("name", "shown"), [("avrostate", "index feature avroState"), ("timestampWithoutTimezone", "timestampNtz")]
)
def test_a_feature_is_found_without_its_format_and_by_its_other_names(name, shown, capsys):
    code, out, _ = run(capsys, name)
    assert code == 0
    assert shown in out


@pytest.mark.parametrize("arguments", [["delta", "shiny"], ["shiny"], ["iceberg", "v2"]])
def test_what_nobody_knows_is_one_clear_error(arguments, capsys):
    code, out, err = run(capsys, *arguments)
    assert code == 1
    assert out == ""
    assert err.startswith(("FEATURE_UNKNOWN: ", "NOT_FOUND: "))
    assert "Traceback" not in err


@pytest.mark.parametrize(("name", "near"), [("delt", "delta"), ("deletionVector", "deletionVectors")])
def test_a_mistyped_name_is_answered_with_the_nearest(name, near, capsys):
    code, _, err = run(capsys, name)
    assert code == 1
    assert f"Did you mean {near}?\n" in err

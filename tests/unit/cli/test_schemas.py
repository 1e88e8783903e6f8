"""Every command that prints JSON has a schema, and every schema is one and belongs to a command."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
from tests.support.fleets import in_memory
from tests.support.hudi_tables import HudiTableMaker
from tests.support.json_schemas import (
    OPTIONAL,
    SCHEMAS,
    closed,
    commands,
    optional,
    schema_of,
    silent,
    with_unprinted,
)

from halocline.cli import main
from halocline.fleet.server.hosting import embedded
from halocline.formats.hudi.configuration import TableType
from halocline.storage import open_store


def test_every_command_that_prints_json_has_a_schema():
    assert commands().keys() - {path.stem for path in SCHEMAS.glob("*.json")} == set()


def test_commands_that_no_other_test_runs_print_what_their_schemas_say(tmp_path):
    HudiTableMaker.create(open_store(str(tmp_path)), 8, TableType.COPY_ON_WRITE).upsert(range(2), 1, "a")
    assert main.run(["move", str(tmp_path), "--to", "9", "--dry-run"]) == 0
    assert main.run(["fleet", "explore", "--max-states", "20"]) == 0


def test_commands_for_keys_and_backups_print_what_their_schemas_say(tmp_path, capsys):
    backup = tmp_path / "fleet.json"
    with embedded(in_memory()) as hosting:
        at = ["fleet", "--at", hosting.address]
        assert main.run([*at, "keys", "--output", "json"]) == 0
        newest = json.loads(capsys.readouterr().out)["keys"][0]["id"]
        assert main.run([*at, "keys", "drop", newest, "--reason", "leaked", "--output", "json"]) == 0
        assert main.run([*at, "export", str(backup)]) == 0
        assert main.run([*at, "import", str(backup), "--reason", "moved", "--output", "json"]) == 0


def test_rows_of_a_statement_are_a_list_of_objects():
    schema = json.loads((SCHEMAS / "sql.json").read_text())
    jsonschema.validate([{"id": 1, "day": None}, {}], schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"id": 1}, schema)


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_schema_is_one_and_belongs_to_a_command(path):
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))
    assert path.stem in commands()


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_schema_knows_what_stands_where_the_tests_print_nothing(path):
    schema = json.loads(path.read_text())
    assert schema == with_unprinted(schema, path.stem)
    assert list(silent(schema, path.stem)) == []


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_schema_requires_every_key_for_which_no_reason_to_be_absent_is_noted(path):
    noted = {key for keys in OPTIONAL.values() for key in keys if re.split(r"[.\[]", key)[0] == path.stem}
    assert set(optional(json.loads(path.read_text()), path.stem)) == noted


def test_reasons_for_absent_keys_belong_to_commands():
    assert {re.split(r"[.\[]", key)[0] for keys in OPTIONAL.values() for key in keys} <= commands().keys()


def test_key_that_every_sample_has_is_required_and_one_that_it_does_not_require_is_found():
    schema = schema_of([{"a": 1, "b": [{"c": 1}]}, {"a": 2, "b": [{"c": 2, "d": 3}]}])
    assert list(optional(schema, "x")) == ["x.b[].d"]
    schema["required"].remove("a")
    assert list(optional({"anyOf": [schema, {"type": "null"}]}, "x")) == ["x.a", "x.b[].d"]


def test_schema_of_samples_takes_them_and_no_other_types():
    schema = schema_of([{"a": 1, "b": None}, {"a": 2, "b": "x", "c": [{"d.e": True}]}])
    for fine in ({"a": 5, "b": "y"}, {"a": 5, "b": None, "c": []}):
        jsonschema.validate(fine, schema)
    for other in ({"a": "5", "b": "y"}, {"a": 5}, {"a": 5, "b": "y", "c": 1}, {"a": 5, "b": "y", "c": [{"d": 1}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(other, schema)


@pytest.mark.parametrize("printed", [{"a": 1, "b": [], "new": 1}, {"a": 1, "b": ["first"]}, {"a": 1, "b": [], "m": {}}])
def test_closed_schema_refuses_what_a_stale_schema_does_not_describe(printed):
    schema = schema_of([{"a": 1, "b": [], "detail": {"any": 1}}, {"a": 2, "b": []}])
    jsonschema.validate(printed, schema)
    jsonschema.validate({"a": 3, "b": [], "detail": {"other": "x"}}, closed(schema))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(printed, closed(schema))

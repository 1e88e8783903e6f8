"""What people are shown: a place is called the same by every command and in every error."""

import io
import json
import os

import pyarrow as pa
import pytest
from tests.support.hudi_tables import HudiTableMaker

import halocline as hc
from halocline.cli import main
from halocline.cli.output import call_places_as_in
from halocline.formats.hudi.configuration import TableType
from halocline.place_names import naming, with_place_names
from halocline.storage import open_store

COMMANDS = ["inspect", "check", "log", "who", "plan", "lint", "status"]
REFUSED = [
    ["inspect", "lake/none"],
    ["check", "lake/none"],
    ["log", "lake/none"],
    ["who", "lake/none"],
    ["search", "lake/none", "a"],
    ["search", "lake/orders", "a"],
    ["plan", "lake/none", "--drop", "deletionVectors"],
    ["lint", "lake/none"],
    ["move", "lake/orders", "--to", "8"],
    ["move", "lake/none", "--to", "8"],
    ["status", "lake"],
    ["log", "lake/damaged"],
    ["inspect", "lake/damaged"],
    ["check", "lake/newer", "--client", "deltalake@0.25.5"],
    ["log", "lake/newer"],
]


@pytest.fixture(autouse=True)
def lake(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hc.Table.create("lake/orders", pa.table({"id": [1, 2]}))
    for name, first in {"damaged": "{", "newer": '{"protocol":{"minReaderVersion":9,"minWriterVersion":9}}'}.items():
        log = tmp_path / "lake" / name / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020}.json").write_text(first)
    return tmp_path


def shown(capsys, arguments):
    code = main.run(arguments)
    told = capsys.readouterr()
    return code, told.out + told.err


@pytest.mark.parametrize(
    "arguments",
    [
        *([each, "lake/orders"] for each in COMMANDS),
        ["survey", "lake"],
        ["plan", "lake", "--drop", "deletionVectors"],
        *REFUSED,
    ],
    ids=" ".join,
)
def test_a_local_table_is_called_as_it_was_given(arguments, lake, capsys):
    _, told = shown(capsys, arguments)
    assert "file:/" not in told
    assert str(lake) not in told, "the table was named by a shorter path"


@pytest.mark.parametrize("arguments", REFUSED[:4], ids=" ".join)
def test_an_absolute_path_is_shown_as_one(arguments, lake, capsys):
    code, told = shown(capsys, [arguments[0], str(lake / arguments[1])])
    assert code == 1
    assert f"{lake}/{arguments[1]}" in told
    assert "file:/" not in told


def test_a_move_names_the_table_as_it_was_given_and_programs_get_its_url(lake, capsys):
    HudiTableMaker.create(open_store("lake/trips"), 6, TableType.COPY_ON_WRITE).upsert([1], 1, "a")
    move = ["move", "lake/trips", "--to", "8", "--dry-run"]
    assert shown(capsys, move)[1].startswith("move lake/trips from version 6 to 8\n")
    assert json.loads(shown(capsys, [*move, "-o", "json"])[1])["table"] == f"file://{lake}/lake/trips"


def test_an_error_for_programs_keeps_the_url(lake, capsys):
    _, told = shown(capsys, ["log", "lake/none", "-o", "json"])
    assert f"file://{lake}/lake/none" in json.loads(told)["error"]["message"]


@pytest.mark.parametrize(
    ("given", "told", "expected"),
    [
        (["lake/orders"], "at {}/lake/orders.", "at lake/orders."),
        (["lake/orders/"], "{}/lake/orders/a%20b.parquet", "'lake/orders/a b.parquet'"),
        (["lake", "lake/orders"], "({}/lake/orders)", "(lake/orders)"),
        (["lake/orders"], "{}/lake/orders2", "/lake/orders2"),
        (["", "-o", "file://host/x", "s3://b/t"], "file:/t/a, s3://b/t", "/t/a, s3://b/t"),
    ],
)
def test_places_in_a_text_get_the_names_given(given, told, expected, lake):
    before = call_places_as_in(given)
    try:
        found = with_place_names(told.format(f"file://{os.getcwd()}"))
    finally:
        naming.reset(before)
    assert found.removeprefix(str(lake)) == expected


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["status", "my lake"], "halocline plan 'my lake' --out FILE"),
        (["move", "my lake/orders", "--to", "8"], "halocline check 'my lake/orders' --enable FEATURE"),
        (["plan", "my lake", "--enable", "deletionVectors", "--out", "r plan"], "halocline apply 'r plan'"),
        (["log", "my lake/orders", "-n", "1"], "halocline log 'my lake/orders' --limit 5"),
        (["sql", "my lake"], "halocline sql 'my lake' -e 'SELECT 1'"),
    ],
)
def test_commands_to_go_on_with_are_quoted_as_a_shell_needs_it(lake, capsys, monkeypatch, arguments, told):
    hc.Table.create("my lake/orders", pa.table({"id": [1, 2]})).append_arrow(pa.table({"id": [3]}))
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert told in shown(capsys, arguments)[1]

"""`halocline search`: rows for people and programs, how many there are, and what is refused."""

import io
import json
import re

import pyarrow as pa
import pytest
from rich.console import Console
from tests.support.splits import COLUMNS, OPTIONS, build, row

from halocline.cli import main
from halocline.cli import search as command
from halocline.formats.index.split.fields import OPTIONS_KEY
from halocline.formats.index.split.reader import OpenedSplit
from halocline.formats.index.transaction import IndexTransaction
from halocline.storage import open_store
from halocline.table import Table


@pytest.fixture
def table(tmp_path):
    store = open_store(str(tmp_path))
    inside = type(COLUMNS)([field for field in COLUMNS.fields if field.name != "day"])
    new = IndexTransaction.create(
        store, COLUMNS, partition_columns=["day"], configuration={OPTIONS_KEY: json.dumps(OPTIONS)}
    )
    adds = []
    for number in range(2):
        path = f"day=2024-01-0{number + 1}/part.split.parquet"
        rows = [row(100 * number + each) for each in range(100)]
        adds.append(build(store, rows, path=path, columns=inside).added(path, {"day": f"2024-01-0{number + 1}"}, 1))
    new.commit(adds, "CREATE TABLE")
    return str(tmp_path)


def run(*arguments: str) -> int:
    return main.run(["search", *arguments])


def test_rows_and_how_many_there_are(table, capsys):
    assert run(table, "message:17 AND level:ERROR", "--columns", "id,message,day") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["id", "message", "day"]
    assert lines[1].split() == ["17", "Request", "17", "to", "/api/v2", "took", "17", "ms", "2024-01-01"]
    assert lines[-1] == "1 rows found, 1 shown · 2 splits searched, 0 left aside"


def test_a_limit_shows_fewer_rows_and_says_how_many_there_are(table, capsys):
    assert run(table, "level:ERROR", "--columns", "id", "--limit", "3", "--output", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["found"], told["shown"]) == (66, 3)
    assert told["rows"] == [{"id": 2}, {"id": 5}, {"id": 8}]


def test_splits_are_left_aside_and_every_type_is_shown(table, capsys):
    assert run(table, "day:2024-01-02 AND id:150", "--output", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["splits"] == {"searched": 1, "leftAside": 1}
    (found,) = told["rows"]
    assert (found["id"], found["day"], found["price"], found["ok"]) == (150, "2024-01-02", "1.50", True)


def test_a_column_that_was_read_is_named(table, capsys):
    assert run(table, "level:>=WARN", "--columns", "id", "--limit", "0") == 0
    assert "answered from the rows, not by the index: level" in capsys.readouterr().out


def test_words_without_a_column_are_looked_for_where_it_is_said(table, capsys):
    assert run(table, "17", "--in", "id", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out)["found"] == 1


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["mesage:x"], "Did you mean message?"),
        (["a b AND c"], "QUERY_INVALID"),
        (["x", "--columns", "mesage"], "Did you mean message?"),
        (["id:abc"], "no value of column 'id'"),
    ],
)
def test_what_is_wrong_is_said_with_the_next_step(table, capsys, arguments, match):
    assert run(table, *arguments) == 1
    assert match in capsys.readouterr().err


def test_a_damaged_index_is_told_and_the_rows_are_found(table, capsys):
    store = open_store(table)
    path = "day=2024-01-01/part.split.parquet"
    data = bytearray(store.get(path))
    with OpenedSplit(store, path) as opened:
        data[opened.layout.blobs[2].offset + 5] ^= 1
    store.put(path, bytes(data))
    assert run(table, "level:ERROR", "--limit", "0") == 0
    out = capsys.readouterr().out
    assert "66 rows found" in out
    assert f"damaged, answered from its rows: {path}" in out


def test_the_most_relevant_rows_come_first_with_their_scores(table, capsys):
    assert (
        run(table, "message:17 message:request", "--score", "--columns", "id", "--limit", "2", "--output", "json") == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert told["rows"][0] == {"id": 17}
    assert told["scores"] == sorted(told["scores"], reverse=True)
    assert (told["found"], told["shown"]) == (200, 2)
    assert run(table, "message:17", "--score", "--columns", "id,message") == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["score", "id", "message"]


def test_hits_are_highlighted_in_a_terminal_and_nowhere_else(table, capsys, monkeypatch):
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, color_system="standard", width=200)
    monkeypatch.setattr(command, "emit", lambda output, result, body, *notes: terminal.print(body))
    assert run(table, "message:17 AND level:ERR*", "--columns", "id,level,message") == 0
    marked = re.findall("\x1b\\[1;30;43m(.*?)\x1b\\[0m", shown.getvalue())
    assert marked == ["ERROR", "17", "17"], "both words of the message, and not the id, which is 17 as well"
    monkeypatch.undo()
    assert run(table, "message:17 AND level:ERR*", "--columns", "id,level,message") == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("place", "found"), [("missing", "nothing"), ("file.txt", "a file"), ("loose", "Parquet files")]
)
def test_what_is_there_instead_of_a_table_is_told(tmp_path, capsys, place, found):
    (tmp_path / "file.txt").write_text("x")
    (tmp_path / "loose").mkdir()
    (tmp_path / "loose" / "a.parquet").write_bytes(b"PAR1")
    assert run(str(tmp_path / place), "x") == 1
    assert f"found       {found}" in capsys.readouterr().err


def test_a_table_of_another_format_is_told_by_it(tmp_path, capsys):
    Table.create(tmp_path / "orders", pa.table({"id": [1]}))
    assert run(str(tmp_path / "orders"), "x") == 1
    assert "is a delta table" in capsys.readouterr().err

"""`halocline sql`: where a statement ends as lines come in, and a lake that is not there."""

import io
import json

import pytest

from halocline.cli import main, sql
from halocline.cli.output import OutputFormat, emit
from halocline.cli.sql import statements_in
from halocline.errors import InputError


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["SELECT 1;"], ["SELECT 1;"]),
        (["SELECT", "1", ";"], ["SELECT\n1\n;"]),
        (["SELECT 'a;", "b';"], ["SELECT 'a;\nb';"]),
        (["SELECT 1; SELECT 2", ";"], ["SELECT 1; SELECT 2\n;"]),
        (["-- a;", "SELECT 1;"], ["-- a;\nSELECT 1;"]),
        (["SELECT 1;", "quit", "SELECT 2;"], ["SELECT 1;"]),
        (["SELECT 1;", "exit;"], ["SELECT 1;"]),
        (["", "  "], []),
    ],
)
def test_a_statement_ends_with_its_semicolon(lines, found):
    assert [each.strip() for each in statements_in(f"{line}\n" for line in lines)] == found


def test_half_a_statement_is_run_neither_with_the_next_one_nor_at_the_end():
    stopped = statements_in(iter(["DELETE FROM orders\n", None, ";\n", "WHERE id = 1;\n"]))
    assert "DELETE" not in "".join(stopped)
    ended = statements_in(iter(["SELECT 1;\n", "DELETE FROM orders\n"]))
    assert next(ended) == "SELECT 1;\n"
    with pytest.raises(InputError, match="no semicolon ended it"):
        next(ended)


def test_lake_that_is_not_there_is_told_before_spark_starts(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sql, "session", lambda name: pytest.fail("Spark was started for nothing"))
    assert main.run(["sql", str(tmp_path / "lak"), "-e", "SELECT 1"]) == 1
    assert "there is no folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statement", "before", "told"),
    [
        ("OPTIMIZE orders", 0, "The statement was: OPTIMIZE orders. A change is done as a whole or not at all"),
        (
            "UPDATE orders\n SET id = 1",
            2,
            "The statement was: UPDATE orders SET id = 1. 2 before it are done. A change",
        ),
        (
            "vacuum orders",
            1,
            "The statement was: vacuum orders. 1 before it is done. Files that it has deleted are gone",
        ),
    ],
)
def test_a_statement_that_is_stopped_is_named_with_what_may_be_done_of_it(statement, before, told):
    with pytest.raises(KeyboardInterrupt) as stopped, sql._told_if_stopped(statement, before):
        raise KeyboardInterrupt
    assert str(stopped.value).startswith(told)


@pytest.fixture
def told(monkeypatch):
    """Statements tell themselves, and one that says FAIL fails."""
    monkeypatch.setattr(sql, "session", lambda name: None)

    def run(lake, text, limit, output):
        if "FAIL" in text:
            raise InputError("it fails", sides={"statement": text})
        emit(output, [{"told": text}], text)

    monkeypatch.setattr(sql, "_run", run)


@pytest.mark.parametrize("piped", [True, False])
def test_every_statement_of_a_text_tells_what_it_did(told, tmp_path, monkeypatch, capsys, piped):
    text = "SELECT 1 AS a; SELECT ';' AS b;\nSHOW TABLES;"
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main.run(["sql", str(tmp_path), *([] if piped else ["-e", text])]) == 0
    assert capsys.readouterr().out.splitlines() == ["SELECT 1 AS a", "SELECT ';' AS b", "SHOW TABLES"]


def test_json_is_a_document_for_each_statement(told, tmp_path, capsys):
    assert main.run(["sql", str(tmp_path), "-e", "SELECT 1; SELECT 2", "-e", "SELECT 3", "-o", "json"]) == 0
    out, found = capsys.readouterr().out, []
    while out.strip():
        document, end = json.JSONDecoder().raw_decode(out.lstrip())
        found, out = [*found, document], out.lstrip()[end:]
    assert found == [[{"told": f"SELECT {number}"}] for number in (1, 2, 3)]


def test_statement_that_fails_says_what_is_done_and_what_is_not_beside_it(told, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("UPDATE t SET a = 1; FAIL; DELETE FROM t; SELECT 2"))
    assert main.run(["sql", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out == "UPDATE t SET a = 1\n"
    assert "number 2; 1 statement before it done, 2 statements after it not run" in err
    assert main.run(["sql", str(tmp_path), "-e", "FAIL"]) == 1
    assert "among several" not in capsys.readouterr().err


def test_statements_typed_on_one_line_tell_each_what_they_did(told, monkeypatch, capsys):
    monkeypatch.setattr(sql, "_typed", lambda: iter(["SELECT 1; SELECT 2;\n", "SELECT 3; FAIL; SELECT 4;\n", ";\n"]))
    lake = type("Tables", (), {"place": "lake", "__len__": lambda self: 0})()
    assert sql._talk(lake, 9, OutputFormat.TEXT) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1:] == ["SELECT 1", "SELECT 2", "SELECT 3"]
    assert "number 2" in err


@pytest.mark.parametrize("given", ["", " ;; ", "-- only a remark"])
def test_no_statement_is_refused_before_spark_starts(tmp_path, monkeypatch, capsys, given):
    monkeypatch.setattr(sql, "session", lambda name: pytest.fail("Spark was started for nothing"))
    assert main.run(["sql", str(tmp_path), "-e", given]) == 1
    assert "there is no statement" in capsys.readouterr().err

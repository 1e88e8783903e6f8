"""`halocline sql`: where a statement ends as lines come in, and a lake that is not there."""

import pytest

from halocline.cli import main, sql
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

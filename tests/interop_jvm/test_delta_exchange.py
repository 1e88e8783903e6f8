"""Delta tables that Delta Spark and Halocline write in turn, and tables to which both do the same."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from halocline.table import Table
from tests.interop_jvm.delta import Ours, Side, Theirs, actions, everything, name
from tests.interop_jvm.delta_kinds import KINDS, Kind

pytestmark = pytest.mark.timeout(3600)

Rows = dict[int, str]
WORK: tuple[tuple[str, Rows], ...] = (
    ("INSERT INTO {t} (id, value) VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')", {1: "a", 2: "b", 3: "c", 4: "d"}),
    (
        "INSERT INTO {t} (id, value) VALUES (5, 'e'), (6, 'f')",
        {1: "a", 2: "b", 3: "c", 4: "d", 5: "e", 6: "f"},
    ),
)
CHANGES: tuple[tuple[str, Rows], ...] = (
    ("UPDATE {t} SET value = 'u' WHERE id = 2", {1: "a", 2: "u", 3: "c", 4: "d", 5: "e", 6: "f"}),
    ("DELETE FROM {t} WHERE id = 3", {1: "a", 2: "u", 4: "d", 5: "e", 6: "f"}),
    (
        "MERGE INTO {t} AS t USING (SELECT * FROM VALUES (4L, 'm'), (7L, 'n') AS v(id, value)) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET value = s.value WHEN NOT MATCHED THEN INSERT (id, value) VALUES (s.id, s.value)",
        {1: "a", 2: "u", 4: "m", 5: "e", 6: "f", 7: "n"},
    ),
    ("OPTIMIZE {t}", {1: "a", 2: "u", 4: "m", 5: "e", 6: "f", 7: "n"}),
    (
        "INSERT INTO {t} (id, value) VALUES (8, 'h')",
        {1: "a", 2: "u", 4: "m", 5: "e", 6: "f", 7: "n", 8: "h"},
    ),
)
_VOLATILE = ("delta.columnMapping.maxColumnId", "delta.rowTracking.", "delta.inCommitTimestampEnablement")


def steps(kind: Kind) -> tuple[tuple[str, Rows], ...]:
    return WORK if kind.grows_only else (*WORK, *CHANGES)


def shown(rows: Rows) -> list[list[str]]:
    return sorted([str(id), value] for id, value in rows.items())


@pytest.mark.parametrize("first", ["Delta Spark", "we"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_writes_on_where_the_other_stopped(spark, delta: Theirs, tmp_path, kind: Kind, first: str):
    sides: list[Side] = [delta, Ours(spark)] if first == "Delta Spark" else [Ours(spark), delta]
    table = name(tmp_path)
    sides[0].run(*kind.create(table))
    for number, (statement, rows) in enumerate(steps(kind), start=1):
        writer, reader = sides[number % 2], sides[(number + 1) % 2]
        writer.run(statement.format(t=table))
        found = reader.run(f"SELECT id, value FROM {table}")
        assert found == shown(rows), f"{type(reader).__name__} after {type(writer).__name__}: {statement}"
    one, other = (side.run(everything(table)) for side in sides)
    assert one == other, "both read all columns alike"
    assert delta.run(f"SELECT count(*) FROM {table} WHERE NOT ({kind.holds})") == [["0"]]
    if kind.unique:
        asked = f"SELECT count(*) - count(DISTINCT {kind.unique}) FROM {table}"
        assert delta.run(asked) == [["0"]], delta.run(everything(table))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_both_do_the_same_on_copies(spark, delta: Theirs, tmp_path, kind: Kind):
    sides: dict[str, Side] = {"delta": delta, "ours": Ours(spark)}
    told = {}
    for who, side in sides.items():
        path = tmp_path / who
        side.run(*kind.create(name(path)), *(each.format(t=name(path)) for each, _ in steps(kind)))
        by_both = [other.run(everything(name(path), kind.unique)) for other in sides.values()]
        assert by_both[0] == by_both[1], f"both read alike what was written by {who}"
        opened = Table.for_path(path, spark)
        told[who] = {
            "rows": by_both[0],
            "protocol": str(opened.protocol),
            "columns": columns(path),
            "properties": properties(path),
            "feed": delta.feed(path) if "delta.enableChangeDataFeed" in kind.properties else [],
        }
    assert told["ours"] == told["delta"]


def columns(path: Path) -> list[tuple[str, str, bool, tuple[str, ...]]]:
    """Names, types, and what is known about the columns, but not what is another for each table."""
    schema = json.loads(actions(path, "metaData")[-1]["schemaString"])
    return [
        (each["name"], json.dumps(each["type"]), each["nullable"], tuple(sorted(each["metadata"])))
        for each in schema["fields"]
    ]


def properties(path: Path) -> dict[str, str]:
    found = actions(path, "metaData")[-1]["configuration"]
    return {key: value for key, value in found.items() if not key.startswith(_VOLATILE)}


def test_appends_by_both_at_once_are_there_exactly_once(spark, delta: Theirs, tmp_path):
    table = name(tmp_path)
    delta.run(f"CREATE TABLE {table} (id BIGINT) USING delta")
    many = [f"INSERT INTO {table} VALUES ({number})" for number in range(10)]
    thread = threading.Thread(target=delta.run, args=many)
    thread.start()
    ours = Ours(spark)
    for number in range(10, 20):
        ours.run(f"INSERT INTO {table} VALUES ({number})")
    thread.join()
    assert delta.run(f"SELECT id FROM {table}") == sorted([str(number)] for number in range(20))
    assert ours.run(f"SELECT id FROM {table}") == sorted([str(number)] for number in range(20))

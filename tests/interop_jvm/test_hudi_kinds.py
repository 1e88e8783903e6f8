"""Tables of every kind that `create` makes: Apache Hudi reads them and writes on, before and after a move of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from halocline.formats.hudi.properties import properties
from halocline.formats.hudi.snapshot import HudiSnapshot
from halocline.storage import open_store
from halocline.table import HudiTable, Table
from tests.interop_jvm.releases import Engine, writing_options
from tests.support.hudi_conformance import BEGIN, FORMAT, QUERY

pytestmark = pytest.mark.timeout(3600)

COLUMNS = ["id", "region", "ts", "name", "amount", "at", "day", "tags", "point", "marks", "raw", "ratio", "ok"]
_OF_TIMES = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    "hoodie.keygen.timebased.timezone": "UTC",
}
KINDS: dict[str, dict] = {
    "simple": {"kind": "mor"},
    "hive-style": {"kind": "cow", "hive_style": True, "url_encoded": True},
    "whole": {"kind": "mor", "partition_by": []},
    "complex": {
        "kind": "cow",
        "keys": ["id", "region"],
        "partition_by": ["region", "ok"],
        "hive_style": True,
        "url_encoded": True,
    },
    "times": {"kind": "mor", "partition_by": "ms", "key_generator": "TIMESTAMP", "properties": _OF_TIMES},
    "custom": {
        "kind": "mor",
        "partition_by": ["region:SIMPLE", "ms:TIMESTAMP"],
        "key_generator": "CUSTOM",
        "url_encoded": True,
        "properties": {**_OF_TIMES, "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd"},
    },
    "buckets": {"kind": "mor", "buckets": 3},
    "buckets-rewritten": {"kind": "cow", "buckets": 2, "partition_by": []},
    "plain": {"kind": "cow", "meta_columns": False},
    "by-commit": {"kind": "mor", "merge": "commit_time", "ordering": []},
    "logged": {"kind": "cow", "change_log": "data_before_after"},
}
MADE_OF_TIMES = ("times", "custom")
"""Apache Hudi shows such a column as text, so rows that it reads are not rows that it can write."""

MOVES = {6: 9, 8: 6, 9: 8}


def rows(spark, numbers, ts: int, tag: str):
    made = spark.createDataFrame([(number,) for number in numbers], "n INT")
    return made.selectExpr(
        "concat('k', n) AS id",
        "if(n % 2 = 0, 'ap', 'e u/x') AS region",
        f"CAST({ts} AS BIGINT) AS ts",
        f"concat('{tag}', n) AS name",
        "CAST(n * -1.25 AS DECIMAL(12,2)) AS amount",
        "timestamp'1969-12-31 23:59:58.123456' + make_interval(0,0,0,0,n) AS at",
        "date_add(date'1969-12-30', n) AS day",
        f"array('{tag}', '') AS tags",
        "if(n % 3 = 0, NULL, named_struct('x', n, 'y', array(named_struct('z', 1.5D, 'w', n)))) AS point",
        "map('a', n, 'b', NULL) AS marks",
        "unhex('00ff') AS raw",
        "CAST(n / 3 AS FLOAT) AS ratio",
        "n % 4 < 2 AS ok",
        "1700000000000 + n * 3600000 * 10 AS ms",
    ).coalesce(1)


def ours(table: HudiTable) -> list[list[str]]:
    return sorted([_text(value) for value in row] for row in table.to_df(columns=COLUMNS).collect())


def _text(value: object) -> str:
    """As PySpark 3.5 shows it, which has another type for bytes."""
    return str(bytearray(value) if isinstance(value, bytes) else value)


def check_reads(table: HudiTable, path: Path, clients: list[Engine], when: str) -> None:
    """All of them read what we read, in all columns."""
    expected = ours(table)
    for client in clients:
        assert client.ask("read", path=str(path), columns=COLUMNS) == expected, f"{client.release} {when}"


def known(path: Path) -> dict[str, tuple[str, str]]:
    """Time and name of each row, by its key, read without Spark."""
    batches = HudiSnapshot.load(open_store(path)).read(["id", "ts", "name"])
    found = [row for batch in batches for row in batch.to_pylist()]
    rows = {row["id"]: (str(row["ts"]), row["name"]) for row in found}
    assert len(rows) == len(found), "no key twice"
    return rows


def written_by(client: Engine, path: Path, ts: int) -> None:
    """Has it change a row, delete one and add one; and looks at each."""
    expected = known(path)
    options, name = writing_options(path, client.release), f"by {client.release}"
    first, second = min(expected), max(expected)
    where = f"id = '{first}'"
    client.ask("upsert", path=str(path), where=where, set={"ts": ts, "name": name}, options=options)
    expected[first] = (str(ts), name)
    assert known(path) == expected, f"{client.release} changed a row"
    client.ask("upsert", path=str(path), where=where, set={"id": f"n{ts}", "name": name}, options=options)
    expected[f"n{ts}"] = (str(ts), name)
    assert known(path) == expected, f"{client.release} added a row"
    deleting = options | {"hoodie.datasource.write.operation": "delete"}
    client.ask("upsert", path=str(path), where=f"id = '{second}'", options=deleting)
    del expected[second]
    assert known(path) == expected, f"{client.release} deleted a row"


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_apache_hudi_reads_and_writes_on(spark, engines, tmp_path, kind, version):
    if (kind, version) == ("custom", 6):
        pytest.skip("the properties of version 6 do not say what a custom key generator does")
    declared = {"keys": "id", "ordering": "ts", "partition_by": "region", **KINDS[kind]}
    path, ordered = tmp_path / "orders", declared["ordering"] == "ts"
    table = Table.create(path, rows(spark, range(8), 100, "a"), format="hudi", version=version, **declared)
    table.upsert(rows(spark, [1, 2, 9], 200, "b"))
    table.upsert(rows(spark, [2], 150, "late"))
    table.delete("id = 'k3'")
    assert [row[3] for row in ours(table) if row[0] == "k2"] == ["b2" if ordered else "late2"]

    for number, stop in enumerate((version, 9 if (kind, version) == ("custom", 8) else MOVES[version]), start=1):
        if stop > version:
            table.upgrade(stop)
        elif stop < version:
            table.downgrade(stop)
        clients = [engines.of(stop)[0], engines.of(stop)[-1]]
        check_reads(table, path, clients, f"at version {stop}")
        for turn, client in enumerate(clients if kind not in MADE_OF_TIMES else ()):
            written_by(client, path, 1_000 * number + turn)
        table.upsert(rows(spark, [4, 20 + stop], 5_000_000 + number, "c"))
        table.delete("id = 'k5'")
        check_reads(table, path, clients, f"at version {stop}, after all wrote")
        assert properties(open_store(path))["hoodie.table.version"] == str(stop)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_apache_hudi_reads_the_changes_that_we_log(spark, engines, tmp_path, version):
    declared = {"keys": "id", "ordering": "ts", "partition_by": "region", "kind": "cow"}
    path = tmp_path / "orders"
    first = rows(spark, range(8), 100, "a")
    table = Table.create(path, first, format="hudi", version=version, change_log="data_before_after", **declared)
    begin = str(table.history()[-1].completion if version > 6 else table.version)
    table.upsert(rows(spark, [1, 2, 9], 200, "b"))
    table.delete("id = 'k3'")
    expected = sorted(row[0] for row in table.changes(begin).select("op").collect())
    assert expected == ["d", "i", "u", "u"]
    for client in engines.of(version):
        asked = str(int(begin) + 1) if client.release == "1.0.2" and version > 6 else begin
        options = {QUERY: "incremental", FORMAT: "cdc", BEGIN: asked}
        found = client.ask("read", path=str(path), columns=["op"], options=options)
        assert [row[0] for row in found] == expected, client.release


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_apache_hudi_reads_replaced_partitions_and_new_columns(spark, engines, tmp_path, kind, version):
    declared = {"keys": "id", "ordering": "ts", "partition_by": "region", "kind": kind}
    path = tmp_path / "orders"
    table = Table.create(path, rows(spark, range(8), 100, "a"), format="hudi", version=version, **declared)
    clients = [engines.of(version)[0], engines.of(version)[-1]]
    steps = {
        "insert_overwrite": lambda: table.insert_overwrite(rows(spark, [2, 10], 200, "b")),
        "delete_partition": lambda: table.delete_partition("ap"),
        "overwrite": lambda: table.overwrite(rows(spark, range(4), 300, "c")),
        "a new column": lambda: table.upsert(
            rows(spark, [1, 5], 400, "d").selectExpr("*", "'w' AS extra"), schema_mode="merge"
        ),
    }
    for name, step in steps.items():
        step()
        check_reads(table, path, clients, f"after {name}")
    for turn, client in enumerate(clients):
        assert client.ask("read", path=str(path), columns=["id", "extra"]) == sorted(
            [row.id, str(row.extra)] for row in table.to_df(columns=["id", "extra"]).collect()
        )
        written_by(client, path, 1_000 + turn)

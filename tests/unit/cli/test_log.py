"""`halocline log`: who did what to a table, newest first."""

import json

import pytest
from tests.support.hudi_tables import HudiTableMaker

from halocline.cli import main
from halocline.formats.hudi.configuration import TableType
from halocline.storage import open_store


def run(capsys, *arguments):
    code = main.run(["log", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.fixture
def orders(tmp_path):
    log = tmp_path / "orders" / "_delta_log"
    log.mkdir(parents=True)
    schema = json.dumps({"type": "struct", "fields": []})
    metadata = {"id": "1", "format": {"provider": "parquet"}, "schemaString": schema, "partitionColumns": []}
    first = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata | {"configuration": {}}},
    ]
    for version in range(3):
        metrics = {"numFiles": str(version), "numRemovedFiles": "0"}
        info = {"operation": f"WRITE {version}", "engineInfo": "delta-rs:1.0", "operationMetrics": metrics}
        actions = [{"commitInfo": info}, *(first if version == 0 else [])]
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return str(log.parent)


def test_the_newest_versions_come_first(orders, capsys):
    code, out, _ = run(capsys, orders)
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines] == ["version", "2", "1", "0"]
    assert lines[1][2:] == ["WRITE", "2", "delta-rs:1.0", "numFiles", "2"]


def test_what_is_left_out_is_said(orders, capsys):
    _, out, _ = run(capsys, orders, "--limit", "2")
    assert f"Older entries are left out.   Next: halocline log {orders} --limit 10" in out
    result = json.loads(run(capsys, orders, "-n", "2", "-o", "json")[1])
    assert ([each["version"] for each in result["entries"]], result["olderLeftOut"]) == ([2, 1], True)
    assert not json.loads(run(capsys, orders, "-n", "3", "-o", "json")[1])["olderLeftOut"]


def test_actions_of_a_hudi_table_are_shown_by_their_instants(tmp_path, capsys):
    maker = HudiTableMaker.create(open_store(tmp_path), 6, TableType.COPY_ON_WRITE)
    instants = [maker.upsert([1, 2], 1, "a"), maker.upsert([2], 2, "b")]
    code, out, _ = run(capsys, str(tmp_path))
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == instants[::-1]
    assert "UPSERT" in out
    assert "numWrites 2" in out.splitlines()[2]


def test_no_table_is_an_error(tmp_path, capsys):
    code, _, err = run(capsys, str(tmp_path))
    assert code == 1
    assert err.startswith("TABLE_NOT_FOUND")

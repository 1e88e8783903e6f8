"""`halocline inspect`: short for people, whole for programs, also for tables that may not be read."""

import json
import re
import time

import pytest
from tests.support.hudi_tables import HudiTableMaker
from tests.support.index_logs import IndexLog, skip
from tests.support.index_logs import add as index_add
from tests.support.index_logs import metadata as index_metadata
from tests.support.index_logs import protocol as index_protocol

from halocline.cli import main
from halocline.cli.inspect import age_text, size_text
from halocline.formats.hudi.configuration import TableType
from halocline.storage import open_store

HOUR = 3_600_000


def commit(folder, version, *actions):
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")


def info(engine, hours_ago=0):
    told = {"operation": "WRITE", "engineInfo": engine, "timestamp": int(time.time() * 1000) - hours_ago * HOUR}
    return {"commitInfo": told}


SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})


def metadata(**configuration):
    body = {"id": "1", "format": {"provider": "parquet", "options": {}}, "schemaString": SCHEMA}
    return {"metaData": body | {"partitionColumns": [], "configuration": configuration}}


def add(path, size):
    body = {"path": path, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
    return {"add": body}


@pytest.fixture
def orders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "lake" / "orders"
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    spark = "Apache-Spark/3.5.0 Delta-Lake/3.2.0"
    commit(folder, 0, info(spark, 50), protocol, metadata())
    commit(folder, 1, info(spark, 49), add("a", 96_000_000_000))
    commit(folder, 2, info("delta-rs:py-0.25.5", 2), add("b", 100_000_000))
    return folder


def run(capsys, *arguments):
    code = main.run(["inspect", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_a_table_is_told_in_a_few_lines(orders, capsys):
    code, out, _ = run(capsys, "lake/orders")
    assert code == 0
    assert out.splitlines() == [
        "lake/orders · delta · version 2 · 2 files · rows not known · 96.1 GB",
        "protocol    (1,2)   supported: appendOnly, invariants   enabled: none",
        "written by  delta-spark@3.2.0 (2 commits, last 2 days ago), deltalake@0.25.5 (1 commit, last 2 h ago)",
        "columns     id long",
    ]


def test_programs_get_every_fact(orders, capsys):
    _, out, _ = run(capsys, "lake/orders", "--output", "json")
    facts = json.loads(out)
    assert (facts["version"], facts["files"], facts["bytes"], facts["protocol"]) == (2, 2, 96_100_000_000, "(1,2)")
    assert [(each["release"], each["commits"]) for each in facts["writtenBy"]] == [
        ("delta-spark@3.2.0", 2),
        ("deltalake@0.25.5", 1),
    ]


def test_rows_partitions_and_properties_are_told_where_there_are_any(tmp_path, capsys):
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    told = metadata(**{"delta.appendOnly": "true", "note": "x" * 200})
    told["metaData"]["partitionColumns"] = ["id"]
    counted = [add(name, 10) for name in "ab"]
    for each in counted:
        each["add"] |= {"stats": json.dumps({"numRecords": 7}), "partitionValues": {"id": "1"}}
    commit(tmp_path, 0, protocol, told, *counted)
    code, out, _ = run(capsys, str(tmp_path))
    assert code == 0
    assert "2 files · 14 rows · 20 bytes" in out
    assert [line for line in out.splitlines() if line.startswith(("part", "prop", "  "))] == [
        "partitions  id",
        "properties  delta.appendOnly=true",
        "            note=" + "x" * 99 + "…",
    ]
    result = json.loads(run(capsys, str(tmp_path), "--output", "json")[1])
    assert (result["rows"], result["schema"]["fields"][0]["name"]) == (14, "id")
    assert result["properties"]["note"] == "x" * 200, "programs get all of it"


def test_an_earlier_version_is_told_on_request(orders, capsys):
    _, out, _ = run(capsys, "lake/orders", "--version", "1")
    assert "version 1 · 1 files · rows not known · 96.0 GB" in out


def test_a_table_that_may_not_be_read_is_told_with_the_reason(orders, capsys):
    lists = {"readerFeatures": ["shiny"], "writerFeatures": ["shiny"]}
    commit(orders, 3, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **lists}})
    code, out, _ = run(capsys, "lake/orders")
    assert code == 0
    assert "files not counted" in out
    assert "(3,7)   supported: shiny   enabled: shiny" in out
    assert "no writer named (1 commit)" in out
    assert "uncounted   READER_TOO_OLD" in out
    assert "Next: halocline lint lake/orders" in out


@pytest.mark.parametrize(
    ("arguments", "condition"),
    [(["lake/nothing"], "TABLE_NOT_FOUND"), (["lake/orders", "--version", "9"], "VERSION_NOT_FOUND")],
)
def test_what_is_not_there_is_a_typed_error(arguments, condition, orders, capsys):
    code, out, err = run(capsys, *arguments, "-o", "json")
    assert (code, out) == (1, "")
    assert json.loads(err)["error"]["condition"] == condition


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (999_960, "1.0 MB"), (2**60, "1152.9 PB")]
)
def test_sizes_are_told_in_the_unit_that_fits(size, text):
    assert size_text(size) == text


@pytest.mark.parametrize(("age", "text"), [(-5, "just now"), (61_000, "1 min ago"), (25 * HOUR, "1 day ago")])
def test_ages_are_told_in_the_unit_that_fits(age, text):
    assert age_text(age) == text


def hudi_table(folder):
    table = HudiTableMaker.create(open_store(folder), 8, TableType.MERGE_ON_READ)
    table.upsert(range(4), 100, "a")
    table.upsert([1], 200, "b")
    return table


def test_a_hudi_table_is_told_as_well(tmp_path, capsys):
    table = hudi_table(tmp_path)
    pending = table.begin().time
    assert main.run(["inspect", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for part in (
        "hudi · merge on read",
        "3 files",
        "table version 8",
        "mergeModes",
        "2 commits",
        f"{pending}.deltacommit",
    ):
        assert part in shown.replace("\n", " "), shown
    assert main.run(["inspect", str(tmp_path), "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["format"], told["tableVersion"], told["writes"], told["files"]) == ("hudi", 8, 2, 3)


def test_a_hudi_table_of_a_version_that_is_not_read_is_told_with_the_reason(tmp_path, capsys):
    hudi_table(tmp_path)
    file = tmp_path / ".hoodie" / "hoodie.properties"
    file.write_text(file.read_text().replace("hoodie.table.version=8", "hoodie.table.version=10"))
    assert main.run(["inspect", str(tmp_path), "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"] is None
    assert "READER_TOO_OLD" in told["uncounted"]


# ---------------------------------------------------------------- index tables


def index_table(folder, *protocol):
    log = IndexLog(open_store(str(folder)))
    log.commit(0, *protocol, index_metadata(partitionColumns=["id"]))
    log.commit(
        1,
        index_add("a.split", size=1500),
        skip("b.split", retryAfter=2**60),
        {"commitInfo": {"engineInfo": "Halocline/0.1.0"}},
    )
    return str(folder)


def test_an_index_table_is_told_in_three_lines_and_more(tmp_path, capsys):
    table = index_table(tmp_path, index_protocol(2, 2))
    assert main.run(["inspect", table]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{table} · index · version 1 · 1 splits · 1 rows · 1.5 kB"
    assert lines[1].startswith("protocol    (2,2)   supported: checkpoint, extendedMetadata")
    assert re.fullmatch(
        r"written by  halocline@0\.1\.0 \(1 commit, last .*\), no writer named \(1 commit\)", lines[2]
    ), lines
    assert lines[3].startswith("resting     1 splits")


def test_an_index_table_without_a_protocol_says_so(tmp_path, capsys):
    assert main.run(["inspect", index_table(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "(1,1)" in lines[1]
    assert "log         holds no protocol" in lines


def test_an_index_table_that_may_not_be_read_is_told_all_the_same(tmp_path, capsys):
    assert main.run(["inspect", index_table(tmp_path, index_protocol(999, 999)), "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["format"], told["version"], told["splits"]) == ("index", 1, None)
    assert told["uncounted"].startswith("READER_TOO_OLD")
    assert told["partitionColumns"] == ["id"]

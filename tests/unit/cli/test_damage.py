"""A table that is damaged is that for every command: the same file is named, and the exit code is the same."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.support.hudi_tables import HudiTableMaker
from tests.support.index_logs import IndexLog, add, metadata, protocol

from halocline.cli.main import run
from halocline.cli.output import FINE, INCOMPATIBLE
from halocline.formats.hudi.configuration import TableType
from halocline.storage import open_store
from halocline.table import Table

TARGETS = {
    "delta": ["--enable", "deletionVectors"],
    "index": ["--enable", "schemaDeduplication"],
    "hudi-6": ["--table-version", "8"],
    "hudi-9": ["--table-version", "8"],
}


def make_delta(place):
    for number in range(4):
        write_deltalake(place, pa.table({"id": [number]}), mode="append")
    return sorted((place / "_delta_log").glob("*.json"))


def make_index(place):
    log = IndexLog(open_store(place))
    log.commit(0, protocol(2, 2), metadata())
    for number in range(1, 4):
        log.commit(number, add(f"{number}.split"))
    return sorted((place / "_transaction_log").glob("*.json"))


def make_hudi(place, version):
    maker = HudiTableMaker.create(open_store(place), version, TableType.COPY_ON_WRITE)
    for number in range(1, 5):
        maker.upsert([number], number, "a")
    return sorted(each for each in (place / ".hoodie").rglob("*.commit"))


def make(place, kind):
    if kind.startswith("hudi"):
        return make_hudi(place, int(kind[-1]))
    return (make_delta if kind == "delta" else make_index)(place)


def told(capsys, *arguments: str) -> tuple[int, str]:
    """The exit code of a command, and the condition of what it says is damaged."""
    code = run([*arguments, "--output", "json"])
    out, err = capsys.readouterr()
    if arguments[0] == "survey":
        return code, (json.loads(out)["tables"][0]["damage"] or "").partition(":")[0]
    return code, json.loads(err.splitlines()[-1])["error"]["condition"] if err.startswith("{") else ""


def every_command(capsys, place, kind) -> dict[str, tuple[int, str]]:
    arguments = {
        "inspect": [str(place)],
        "lint": [str(place)],
        "check": [str(place), "--client", "halocline@latest"],
        "survey": [str(place.parent)],
        "plan": [str(place.parent), *TARGETS[kind]],
    }
    return {name: told(capsys, name, *given) for name, given in arguments.items()}


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("which", [1, 2, -1])
def test_garbage_in_a_commit_is_damage_for_every_command(tmp_path, capsys, kind, which):
    place = tmp_path / "lake" / "t"
    commits = make(place, kind)
    commits[which].write_text("garbage\n")
    found = every_command(capsys, place, kind)
    assert found == dict.fromkeys(found, (INCOMPATIBLE, "MALFORMED_LOG"))


@pytest.mark.parametrize("kind", ["delta", "index"])
def test_a_missing_commit_is_damage_for_every_command(tmp_path, capsys, kind):
    place = tmp_path / "lake" / "t"
    make(place, kind)[1].unlink()
    found = every_command(capsys, place, kind)
    assert found == dict.fromkeys(found, (INCOMPATIBLE, "MALFORMED_LOG"))


@pytest.mark.parametrize("kind", TARGETS)
def test_a_table_that_is_whole_is_damaged_for_no_command(tmp_path, capsys, kind):
    place = tmp_path / "lake" / "t"
    make(place, kind)
    found = every_command(capsys, place, kind)
    assert {condition for _, condition in found.values()} == {""}
    assert found["inspect"][0] == found["check"][0] == FINE


def let_mapping_count(place) -> None:
    """Sets the mode that maps columns, in a protocol that lets it count, and maps no column."""
    first = sorted((place / "_delta_log").glob("*.json"))[0]
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
    first.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_mapping_mode_without_mapped_columns_is_damage_for_every_command_and_lint_repairs_it(tmp_path, capsys):
    place = tmp_path / "lake" / "t"
    make_delta(place)
    let_mapping_count(place)
    found = every_command(capsys, place, "delta")
    assert found.pop("lint") == (INCOMPATIBLE, ""), "lint finds it, and does not stop at it"
    assert found == dict.fromkeys(found, (INCOMPATIBLE, "MALFORMED_METADATA"))
    assert run(["lint", str(place)]) == INCOMPATIBLE
    assert "MAPPING_NOT_DONE: delta.columnMapping.mode=name is stored" in capsys.readouterr().out
    assert run(["lint", str(place), "--fix"]) in (FINE, INCOMPATIBLE)
    assert "MAPPING_NOT_DONE" in capsys.readouterr().out
    repaired = every_command(capsys, place, "delta")
    assert {condition for _, condition in repaired.values()} == {""}
    rows = Table.for_path(place).to_arrow().read_all()
    assert sorted(rows["id"].to_pylist()) == [0, 1, 2, 3]


def test_a_damaged_table_is_left_out_of_a_plan_for_the_others_by_name(tmp_path, capsys):
    make_delta(tmp_path / "lake" / "whole")
    make_delta(tmp_path / "lake" / "torn")[1].write_text("garbage\n")
    run(["plan", str(tmp_path / "lake"), *TARGETS["delta"], "--output", "json"])
    plan = json.loads(capsys.readouterr().out)
    assert "cannot be read" in plan["leftOut"]["torn"]
    assert list(plan["tables"]) == ["whole"]

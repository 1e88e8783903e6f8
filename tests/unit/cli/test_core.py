"""What the core alone does: with nothing installed but what it depends on itself."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.support.applied import LakeOnDisk

PROGRAM = r"""
import importlib.metadata, re, sys

def named(requirement):
    return re.match(r"[\w.-]+", requirement)[0]

def closure(name, seen):
    # What is asked for by an extra is marked so.
    for each in importlib.metadata.requires(name) or []:
        if "extra ==" not in each and (found := named(each).lower().replace("_", "-")) not in seen:
            seen.add(found)
            try:
                closure(found, seen)
            except importlib.metadata.PackageNotFoundError:
                seen.discard(found)  # of another system

core = {"halocline"}
closure("halocline", core)
owners = importlib.metadata.packages_distributions()

class OnlyCore:
    @staticmethod
    def find_spec(name, path=None, target=None):
        owned = {each.lower().replace("_", "-") for each in owners.get(name.partition(".")[0], [])}
        if owned and not owned & core:
            raise ModuleNotFoundError(f"{name} is not part of the core", name=name)

sys.meta_path.insert(0, OnlyCore)
for missing in ("grpc", "pyspark", "sqlalchemy", "google.protobuf"):
    try:
        __import__(missing)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"{missing} is there, so this proves nothing")
from halocline.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    lake = LakeOnDisk(tmp_path_factory.mktemp("core"))
    lake.delta("orders").hudi("trips").index("logs").run(report="trino@426", load="hudi@1.0.2")
    lake.members.write_text(
        '[[members]]\nname = "report"\nrelease = "trino@426"\nreads = ["orders"]\n\n'
        '[[members]]\nname = "load"\nrelease = "hudi@1.0.2"\nwrites = ["trips"]\n'
    )
    return lake


def run(*arguments: object) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_the_core_alone_plans_for_tables_of_every_format(lake):
    out = lake.root / "rollout.plan"
    wanted = ["--enable", "deletionVectors", "--enable", "schemaDeduplication", "--table-version", "8"]
    code, told, err = run("plan", lake.path, *wanted, "--members", lake.members, "--out", out, "--output", "json")
    assert code == 2, err
    plan = json.loads(told)
    assert {move["table"] for stage in plan["stages"] for move in stage["moves"]} == {"orders", "trips", "logs"}
    assert plan["leftOut"] == {}
    assert json.loads(out.read_text())["id"] == plan["id"]


@pytest.mark.parametrize(
    ("command", "place", "options"),
    [
        ("inspect", "orders", ()),
        ("inspect", "trips", ()),
        ("inspect", "logs", ()),
        ("check", "orders", ("--enable", "deletionVectors", "--client", "trino@426")),
        ("lint", "trips", ()),
        ("survey", "", ()),
    ],
)
def test_the_core_alone_looks_and_checks(lake, command, place, options):
    code, told, err = run(command, lake.path / place, *options)
    assert told, err
    assert code in (0, 2), err


def test_a_fleet_that_is_asked_without_its_client_names_the_extra(lake):
    code, _, err = run("plan", lake.path, "--enable", "deletionVectors", "--fleet", "grpc://127.0.0.1:1")
    assert code == 1
    assert "pip install 'halocline[fleet]'" in err

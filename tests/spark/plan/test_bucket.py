"""A rollout of tables in a bucket of a real S3 server: surveyed, planned, moved and taken back by the three verbs."""

from __future__ import annotations

import contextlib
import io
import json

import pytest
from tests.support.s3_server import s3_bucket

from halocline.cli.main import run
from halocline.lake.lake import Lake
from halocline.storage import open_store
from halocline.table import Table

LAKE = "s3://rollouts/lake"
MEMBERS = """
[[clients]]
name = "report"
release = "trino@470"
reads = ["orders"]

[[clients]]
name = "load"
release = "hudi@1.2.0"
writes = ["trips"]
"""


def told(*arguments: object) -> tuple[int, str]:
    """A command, as people call it."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = run([*map(str, arguments)])
    return code, out.getvalue()


@pytest.fixture(scope="module")
def bucket():
    with s3_bucket("rollouts") as options:
        yield options


@pytest.fixture(scope="module")
def lake(spark, bucket, tmp_path_factory):
    """A file that names the prefix, how to reach it, and who uses what."""
    rows = spark.range(0, 200, 1, 2).selectExpr("id", "id * 7 AS amount")
    Table.create(f"{LAKE}/orders", rows, spark, options=bucket)
    hudi = {"format": "hudi", "version": 6, "kind": "mor", "keys": "id", "ordering": "amount"}
    trips = Table.create(f"{LAKE}/trips", rows, spark, options=bucket, **hudi)
    trips.upsert(rows.where("id < 20").selectExpr("id", "amount + 1 AS amount"))
    file = tmp_path_factory.mktemp("lake") / "lake.toml"
    options = "\n".join(f'{key} = "{value}"' for key, value in bucket.items())
    file.write_text(f'prefix = "{LAKE}"\n\n[options]\n{options}\n{MEMBERS}')
    return file


def protocols(bucket: dict[str, str]) -> dict[str, str]:
    tables = Lake.discover(LAKE, options=bucket)
    return {name: str(tables.table(name).terms.protocol) for name in tables.names}


def rows_of(spark, bucket: dict[str, str], name: str) -> list[tuple[int, int]]:
    table = Table.for_path(f"{LAKE}/{name}", spark, options=bucket)
    return sorted((row["id"], row["amount"]) for row in table.to_df().select("id", "amount").collect())


def test_tables_in_a_bucket_are_surveyed_planned_moved_and_taken_back(spark, bucket, lake, tmp_path):
    code, survey = told("survey", lake, "--output", "json")
    assert code == 0
    assert [(each["name"], each["damage"]) for each in json.loads(survey)["tables"]] == [
        ("orders", None),
        ("trips", None),
    ]
    before = {name: rows_of(spark, bucket, name) for name in ("orders", "trips")}
    assert protocols(bucket) == {"orders": "(1,2)", "trips": "hudi(6)"}

    plan = tmp_path / "rollout.plan"
    code, shown = told("plan", lake, "--enable", "deletionVectors", "--table-version", 8, "--out", plan)
    assert code == 2, shown
    assert bucket["aws_secret_access_key"] not in plan.read_text(), "what opens the bucket is never kept in a plan"
    code, applied = told("apply", plan, "--verify", "full", "--no-wait")
    assert code == 0, applied
    assert "orders: 200 rows, 200 keys, content" in applied
    assert protocols(bucket)["trips"] == "hudi(8)"
    assert "deletionVectors" in protocols(bucket)["orders"]
    assert {name: rows_of(spark, bucket, name) for name in before} == before

    kept = [each.path for each in open_store(LAKE, bucket).list() if each.path.startswith("_halocline/rollouts/")]
    assert kept, "the journal lies in the bucket, where everyone who applies the plan sees it"
    code, undone = told("rollback", plan, "--no-wait")
    assert code == 0, undone
    assert protocols(bucket)["trips"] == "hudi(6)"
    assert "deletionVectors" not in protocols(bucket)["orders"]
    assert {name: rows_of(spark, bucket, name) for name in before} == before

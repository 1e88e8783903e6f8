"""A rollout on a standalone cluster of processes: two workers, whose executors have their code from an archive."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyspark
import pytest

pytestmark = pytest.mark.timeout(2400)  # half a minute on a quiet machine, many times that on a busy one

ROOT = Path(__file__).parents[3]
HOME = Path(pyspark.__file__).parent
CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.eventLog.compress": "false",
    "spark.eventLog.enabled": "true",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> dict[str, Any]:
    """What `on_cluster.py` saw, and what Spark's own log of events says of its jobs."""
    folder = tmp_path_factory.mktemp("cluster")
    home = folder / "spark"
    for made in (home, folder / "events"):
        made.mkdir()
    # Workers work below Spark's home, which is not to grow by what a test leaves.
    for each in HOME.iterdir():
        if each.name != "work":
            (home / each.name).symlink_to(each)
    archive = shutil.make_archive(str(folder / "halocline"), "zip", ROOT / "src")
    options = {**CONF, "spark.eventLog.dir": (folder / "events").as_uri(), "spark.sql.warehouse.dir": str(folder)}
    command = [home / "bin" / "spark-submit", "--master", "local-cluster[2,1,1024]", "--py-files", archive]
    command += [part for key, value in options.items() for part in ("--conf", f"{key}={value}")]
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))},
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    script = ROOT / "tests" / "support" / "on_cluster.py"
    done = subprocess.run(
        [*map(str, command), str(script), str(folder)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=2100,
        cwd=folder,
        check=False,
    )
    assert (folder / "seen.json").exists(), done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads((folder / "seen.json").read_text())
    lines = [line for each in folder.glob("events/**/events_*") for line in each.read_text().splitlines()]
    return found | {"events": list(map(json.loads, lines)), "folder": str(folder)}


def events(seen: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each for each in seen["events"] if each["Event"] == f"SparkListener{kind}"]


def test_a_lake_is_surveyed_planned_moved_and_taken_back(seen):
    code, survey = seen["survey"]
    assert code == 0
    assert [(each["name"], each["damage"]) for each in json.loads(survey)["tables"]] == [
        ("orders", None),
        ("trips", None),
    ]
    assert (seen["plan"][0], seen["apply"][0], seen["rollback"][0]) == (2, 0, 0), seen["apply"]
    assert seen["before"] == {"orders": "(1,2)", "trips": "hudi(6)"}
    assert seen["applied"]["trips"] == "hudi(8)"
    assert "deletionVectors" in seen["applied"]["orders"]
    assert seen["after"]["trips"] == "hudi(6)"
    assert "deletionVectors" not in seen["after"]["orders"]


def test_rows_are_compared_before_and_after_every_move(seen):
    assert "orders: 1,000 rows, 1,000 keys, content" in seen["apply"][1]
    assert "trips: 1,000 rows, 1,000 keys, content" in seen["apply"][1]
    assert "orders: 666 rows, 666 keys, content" in seen["rollback"][1], "what was deleted meanwhile stays so"
    assert "trips: 1,000 rows, 1,000 keys, content" in seen["rollback"][1]


def test_both_executors_work_with_the_code_that_was_shipped_to_them(seen):
    tasks = Counter(each["Task Info"]["Executor ID"] for each in events(seen, "TaskEnd"))
    assert set(tasks) == {"0", "1"}, "every task ran outside of the driver"
    homes = {folder for folder, _ in seen["workers"]}
    assert all(each.startswith(f"{seen['folder']}/spark/work/app-") for each in homes), homes
    assert {source for _, source in seen["workers"]} == {"./halocline.zip/halocline/__init__.py"}


def test_files_of_which_few_rows_change_are_copied_on_the_executors(seen):
    assert seen["updated"] == [7, 666]
    (writer,) = seen["written by"]
    assert writer.startswith("parquet-cpp-arrow")


def test_jobs_say_which_plan_they_belong_to_and_what_for(seen):
    plan = seen["plan"][1].split()[1]
    jobs = [each["Properties"] for each in events(seen, "JobStart")]
    told = {each.get("spark.job.description") for each in jobs if f"-halocline-plan-{plan}" in each["spark.job.tags"]}
    for table in ("orders", "trips"):
        assert f"halocline plan {plan}: count and hash rows before, {table}" in told
        assert f"halocline plan {plan}: count and hash rows after, {table}" in told
    every = {str(each.get("spark.job.description")) for each in jobs}
    assert any(": drop deletionVectors" in each for each in every), "moves that write rows say so as well"

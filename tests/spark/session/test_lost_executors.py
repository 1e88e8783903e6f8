"""Verbs outlive executors that are lost with rows which were computed once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).parents[3]
SWITCH = "HALOCLINE_TEST_LOST_EXECUTORS"


@pytest.mark.skipif(
    SWITCH not in os.environ, reason=f"{SWITCH} is not set; a cluster that loses executors takes minutes"
)
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("reliable", [False, True])
def test_rows_are_written_once_although_executors_are_killed(tmp_path, reliable):
    home = tmp_path / "spark"
    home.mkdir()
    # Workers work below Spark's home, which is not to grow by what a test leaves.
    for each in Path(pyspark.__file__).parent.iterdir():
        if each.name != "work":
            (home / each.name).symlink_to(each)
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))},
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
    }
    script, checkpoints = ROOT / "tests" / "support" / "lost_executors.py", tmp_path / "checkpoints"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(checkpoints) if reliable else "-"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=2100,
        cwd=tmp_path,
        check=False,
    )
    assert (tmp_path / "seen.json").exists(), done.stdout[-2000:] + done.stderr[-4000:]
    for verb, seen in json.loads((tmp_path / "seen.json").read_text()).items():
        assert (seen["rows"], seen["keys"], seen["changed"], seen["writes"]) == (600, 600, 400, 2), (verb, seen)
        assert len(seen["reliable"]) > 1, f"{verb} was not done again"
        assert any(seen["reliable"]) is reliable, (verb, seen)

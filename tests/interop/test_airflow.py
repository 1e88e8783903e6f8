"""The DAGs of examples/airflow_rollout.py in Airflow's own test mode; `make airflow` installs Airflow and runs this."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.support.applied import LakeOnDisk

from halocline.plan.apply.status import status_of
from halocline.plan.file import SavedPlan
from halocline.table import Table

AIRFLOW = os.environ.get("HALOCLINE_AIRFLOW", "")
EXAMPLES = Path(__file__).parents[2] / "examples"
HALOCLINE = "import sys; from halocline.cli.main import main; sys.argv[0] = 'halocline'; main()"

pytestmark = [
    pytest.mark.skipif(not AIRFLOW, reason="there is no Airflow here (make airflow installs it)"),
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory):
    home = tmp_path_factory.mktemp("airflow")
    (home / "dags").mkdir()
    for name in ("orchestrated.py", "airflow_rollout.py"):
        shutil.copy(EXAMPLES / name, home / "dags")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "HALOCLINE_COMMAND": f'env PYTHONPATH="{os.pathsep.join(sys.path)}" "{sys.executable}" -c "{HALOCLINE}"',
        "HALOCLINE_POLL_S": "1",
    }

    def run(*arguments: str) -> str:
        command = [f"{AIRFLOW}/bin/airflow", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout + done.stderr

    run("db", "migrate")
    return run


def upgraded_once_it_is_waited_for(lake: LakeOnDisk, plan: Path, release: str) -> threading.Thread:
    """A team that deploys when the rollout waits for it."""

    def deploy() -> None:
        for _ in range(1200):
            time.sleep(0.5)
            if plan.exists() and any(each.state == "waiting" for each in status_of(SavedPlan.read(str(plan))).stages):
                lake.run(report=release)
                return

    found = threading.Thread(target=deploy, daemon=True)
    found.start()
    return found


def test_a_rollout_waits_for_a_wave_goes_on_and_is_taken_back(airflow, tmp_path):
    lake = LakeOnDisk(tmp_path).delta("orders", "items").run(report="trino@426")
    plan = tmp_path / "rollout.plan"
    wanted = f"--enable deletionVectors --members {lake.members}"
    said = {"lake": str(lake.path), "plan": str(plan), "options": wanted, "walk": "--verify none"}
    upgraded_once_it_is_waited_for(lake, plan, "trino@469")
    told = airflow("dags", "test", "halocline_rollout", "--conf", json.dumps(said))
    assert "waits for 1 of 1 members to report their release: report" in told, told[-3000:]
    assert "deletionVectors" in Table.for_path(lake.path / "orders").terms.features_in_use
    assert status_of(SavedPlan.read(str(plan))).state == "finished"
    upgraded_once_it_is_waited_for(lake, Path(f"{plan}.back"), "trino@426")
    airflow("dags", "test", "halocline_rollback", "--conf", json.dumps(said))
    assert "deletionVectors" not in Table.for_path(lake.path / "orders").terms.features_in_use
    assert status_of(SavedPlan.read(f"{plan}.back")).state == "finished"

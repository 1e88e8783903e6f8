"""Two DAGs for Airflow 3: a rollout, and its way back. Put this file and `orchestrated.py` into the folder of DAGs.

`plan` skips the rest if there is nothing to do. `apply` is a sensor: it goes as far as it can and frees its slot until
the next look, for a wave of members may take days. Its log says for whom it waits. Both are called again after a
failure without harm. The way back is started by hand, with the same parameters.

Parameters are given when a run is started; what a rollout is to do stands in `options`, as on the command line:

    airflow dags trigger halocline_rollout --conf '{"lake": "s3://lake", "plan": "s3://lake/rollout.plan",
        "options": "--enable deletionVectors --fleet grpcs://fleet.example:7470"}'
"""

from __future__ import annotations

import os
import shlex
from datetime import timedelta
from typing import Any

import orchestrated
from airflow.sdk import dag, task

LOOK_EVERY = float(os.environ.get("HALOCLINE_POLL_S", "60"))
PARAMETERS = {"lake": "", "plan": "rollout.plan", "options": "", "walk": ""}
PATIENCE = {"poke_interval": LOOK_EVERY, "timeout": timedelta(days=14).total_seconds(), "mode": "reschedule"}


@dag(schedule=None, catchup=False, max_active_runs=1, params=PARAMETERS, tags=["halocline"])
def halocline_rollout() -> None:
    """Plan, apply, tell."""

    @task.short_circuit
    def plan(params: dict[str, Any] | None = None) -> bool:
        assert params is not None
        return orchestrated.plan(params["lake"], params["plan"], *shlex.split(params["options"]))

    @task.sensor(**PATIENCE)
    def apply(params: dict[str, Any] | None = None) -> bool:
        assert params is not None
        return orchestrated.apply(params["plan"], *shlex.split(params["walk"]))

    @task
    def status(params: dict[str, Any] | None = None) -> None:
        assert params is not None
        orchestrated.status(params["plan"])

    plan() >> apply() >> status()


@dag(schedule=None, catchup=False, max_active_runs=1, params=PARAMETERS, tags=["halocline"])
def halocline_rollback() -> None:
    """Take back what was done."""

    @task.sensor(**PATIENCE)
    def rollback(params: dict[str, Any] | None = None) -> bool:
        assert params is not None
        return orchestrated.rollback(params["plan"], *shlex.split(params["walk"]))

    rollback()


rollout, way_back = halocline_rollout(), halocline_rollback()

"""A rollout whose process is stopped, takes long, or is started twice: each table moves once."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import rollout_process
from tests.support.applied import LakeOnDisk
from tests.support.processes import Process, until
from tests.support.rollout_process import carried_out
from tests.support.s3_server import s3_bucket

from halocline.lake.lake import Lake
from halocline.plan.apply import lease
from halocline.plan.apply.journal import home_of
from halocline.plan.apply.lease import holder_of
from halocline.plan.apply.status import status_of
from halocline.plan.apply.takeover import fence_table
from halocline.plan.file import SavedPlan
from halocline.plan.proposal import propose_rollout
from halocline.plan.target import Target
from halocline.storage import open_store
from halocline.table import Table
from halocline.table.hudi import writing

PROGRAM = Path(rollout_process.__file__)
COMMITS = {
    "orders": r"_delta_log/\d+\.json$",
    "trips": r"\.hoodie/hoodie\.properties$",
    "logs": r"_transaction_log/\d+\.json$",
}
PLANNED = {
    "orders": "(3,7|R: deletionVectors|W: appendOnly,deletionVectors,invariants)",
    "trips": "hudi(8)",
    "logs": "index(3,3)",
}
BEFORE = {"orders": "(1,2)", "trips": "hudi(6)", "logs": "index(2,2)"}
SHORT_S = 1.0


@dataclass
class Stage:
    """A lake somewhere, a plan that moves its tables, and the processes that apply it."""

    plan: str
    lake: str
    options: dict[str, str]
    ending: ExitStack

    def begins(self, by: str, **asked: Any) -> Process:
        process = Process(PROGRAM, plan=self.plan, by=by, **{"lease_s": SHORT_S, **asked})
        self.ending.callback(process.stop)
        return process

    def ended(self, process: Process) -> dict[str, Any]:
        return until(lambda: next((each for each in process.read() if "ended" in each), None), "it ends")

    def woken(self, process: Process) -> dict[str, Any]:
        process.signal(signal.SIGCONT)
        return self.ended(process)

    def lapses(self) -> None:
        until(lambda: holder_of(home_of(self.lake)).is_over, "the lease of a process that is stopped runs out")

    def protocols(self, *names: str) -> dict[str, str]:
        saved = SavedPlan.read(self.plan)
        return {name: str(Table.for_path(saved.places[name], options=self.options).terms.protocol) for name in names}

    def operations(self, name: str) -> list[str]:
        saved = SavedPlan.read(self.plan)
        return [each.operation for each in Table.for_path(saved.places[name], options=self.options).history()]


@pytest.fixture(scope="module")
def bucket() -> Iterator[dict[str, str]]:
    with s3_bucket("lake") as options:
        yield options


def make_lake(root: Path, *names: str) -> LakeOnDisk:
    lake = LakeOnDisk(root)
    for name in names:
        {"orders": lake.delta, "trips": lake.hudi, "logs": lake.index}[name](name)
    return lake


def planned(lake: LakeOnDisk, place: str, names: Sequence[str]) -> SavedPlan:
    """A plan in which nobody has to be waited for."""
    writers = {"trips": "hudi@1.0.2", "logs": "indextables4spark@0.4.0"}
    told = (
        f'[[members]]\nname = "{name}-load"\nrelease = "{writers[name]}"\nwrites = ["{name}"]\n'
        for name in names
        if name in writers
    )
    lake.members.write_text("\n".join(told))
    target = Target(enable=("deletionVectors", "schemaDeduplication"), table_version=8)
    best = propose_rollout(Lake.open(place), target, members_file=str(lake.members))[0]
    saved = best.gathered.saved(best.found)
    assert [len(each.upgrades) for each in saved.plan.stages] == [0], "members have nothing to do"
    return saved


@pytest.fixture(params=["local", "s3"])
def lake(request, tmp_path) -> Iterator[Any]:
    """Makes a lake of some tables, on a disk or in a bucket, and a plan for it."""
    with ExitStack() as ending:

        def made(*names: str) -> Stage:
            disk = make_lake(tmp_path, *names)
            place, options = str(disk.path), {}
            if request.param == "s3":
                options = request.getfixturevalue("bucket")
                prefix = f"s3://lake/{tmp_path.name}"
                there = open_store(prefix, options)
                for meta in (here := open_store(place)).list():
                    there.put(meta.path, here.get(meta.path))
                told = "".join(f'{key} = "{value}"\n' for key, value in options.items())
                (tmp_path / "lake.toml").write_text(f'prefix = "{prefix}"\n[options]\n{told}')
                place = str(tmp_path / "lake.toml")
            saved = planned(disk, place, names)
            saved.save(str(tmp_path / "rollout.plan"))
            return Stage(str(tmp_path / "rollout.plan"), place, options, ending)

        yield made


@pytest.mark.parametrize("name", COMMITS)
@pytest.mark.parametrize("moment", ["before the work", "before the put"])
def test_a_process_that_wakes_up_when_another_has_taken_over_changes_nothing_more(lake, name, moment, monkeypatch):
    stage = lake(name)
    ana = stage.begins("ana", stop=COMMITS[name] if moment == "before the put" else moment)
    ana.hears(stopped=True)
    stage.lapses()
    # The lock of a Hudi table that ana has taken expires later than the lease.
    monkeypatch.setattr(writing, "_LOCK_EXPIRES_S", SHORT_S)
    assert carried_out(stage.plan, "ben") == {"ended": "done"}
    done = stage.operations(name)
    assert stage.protocols(name) == {name: PLANNED[name]}
    told = stage.woken(ana)
    assert told["ended"] == "ROLLOUT_RUNNING", told
    assert stage.protocols(name) == {name: PLANNED[name]}
    assert stage.operations(name) == done, "no commit was made twice"


@pytest.mark.parametrize("name", ["orders", "trips"])
def test_a_commit_that_slips_through_after_a_rollback_conflicts(lake, name, monkeypatch):
    stage = lake(name)
    ana = stage.begins("ana", stop=COMMITS[name])
    ana.hears(stopped=True)
    stage.lapses()
    monkeypatch.setattr(writing, "_LOCK_EXPIRES_S", SHORT_S)
    assert carried_out(stage.plan, "ben", back=True) == {"ended": "done"}
    assert stage.protocols(name) == {name: BEFORE[name]}
    told = stage.woken(ana)
    assert told["ended"] == "ROLLOUT_RUNNING", told
    assert stage.protocols(name) == {name: BEFORE[name]}, "members that went back cannot use what ana would have made"
    assert status_of(SavedPlan.read(stage.plan)).state == "taken back"


def test_a_table_whose_lock_a_stopped_process_holds_is_left_alone_until_it_is_free(lake, monkeypatch):
    stage = lake("trips")
    ana = stage.begins("ana", stop=COMMITS["trips"])
    ana.hears(stopped=True)
    stage.lapses()
    monkeypatch.setattr(writing, "_LOCK_WAIT_S", 0.1)
    ben = carried_out(stage.plan, "ben")
    assert ben["ended"] == "UNAVAILABLE"
    assert "may still be at work on trips" in ben["message"]
    told = stage.woken(ana)
    assert told["ended"] == "ROLLOUT_RUNNING", told
    assert carried_out(stage.plan, "ben") == {"ended": "done"}
    assert stage.protocols("trips") == {"trips": PLANNED["trips"]}


def test_a_move_that_takes_many_leases_lets_nobody_else_in(lake, monkeypatch):
    stage = lake(*COMMITS)
    # Long enough that a machine that is busy renews it in time.
    lease_s = 4.0
    monkeypatch.setattr(lease, "LEASE_S", lease_s)
    ana = stage.begins("ana", lease_s=lease_s, slow_s=3 * lease_s)
    ana.hears(moves=SavedPlan.read(stage.plan).places["orders"])
    refused = []
    while not any("ended" in each for each in ana.read()):
        refused.append(carried_out(stage.plan, "ben")["ended"])
        time.sleep(0.1)
    assert set(refused[:-1]) == {"ROLLOUT_RUNNING"}, "the last try may come when ana has ended"
    assert stage.ended(ana) == {"ended": "done"}
    assert stage.protocols(*COMMITS) == PLANNED


def test_of_two_that_are_started_at_once_one_applies_and_the_other_is_told_who(lake):
    stage = lake(*COMMITS)
    both = [stage.begins(by, lease_s=5.0, slow_s=6.0) for by in ("ana", "ben")]
    ends = sorted((stage.ended(each) for each in both), key=lambda each: each["ended"])
    assert [each["ended"] for each in ends] == ["ROLLOUT_RUNNING", "done"], ends
    assert "is applying plan" in ends[0]["message"]
    assert stage.protocols(*COMMITS) == PLANNED
    assert len(stage.operations("orders")) == 2, "one commit made it, one moved it"


def test_a_fence_keeps_the_rows_and_terms_of_a_table_and_everybody_else_can_write(tmp_path):
    disk = make_lake(tmp_path, *COMMITS)
    for name in COMMITS:
        before = Table.for_path(disk.path / name)
        terms, version = before.terms, before.version
        fence_table(open_store(disk.path / name))
        after = Table.for_path(disk.path / name)
        assert after.terms == terms
        assert after.version >= version

"""A rollout with a fleet: waves wait for what members report, gates open as levels rise."""

from __future__ import annotations

import pytest
from tests.support.applied import Heard
from tests.support.fleets import make_table, running

from halocline.fleet.core.events import Observe
from halocline.fleet.core.state import Provenance, TableUse
from halocline.fleet.usage.traces import UsageTrace
from halocline.lake.lake import Lake
from halocline.plan.apply.engine import apply_plan
from halocline.plan.apply.fleetwatch import FleetWatch
from halocline.plan.apply.verify import Verify
from halocline.plan.apply.walk import ApplyOptions
from halocline.plan.proposal import propose_rollout
from halocline.plan.target import Target
from halocline.storage import open_store
from halocline.table import Table


@pytest.fixture
def path(tmp_path):
    make_table(tmp_path / "lake" / "orders")
    return tmp_path / "lake"


def reader(release: str, place: str) -> Observe:
    """A reader that an operator declares."""
    uses = frozenset({TableUse(place, "delta", "read")})
    return UsageTrace("report", release, Provenance.DECLARED, None, uses).event()


def test_a_wave_waits_for_the_fleet_and_a_level_rises_before_a_table_moves(path):
    place = open_store(path / "orders").root
    with running() as (hosting, admin):
        admin.observe(reader("trino@426", place))
        found = propose_rollout(Lake.discover(path), Target(enable=("deletionVectors",)), fleet=hosting.address)[0]
        saved, heard = found.gathered.saved(found.found), Heard()
        watch = FleetWatch(saved, fleet=hosting.address)
        options = ApplyOptions(Verify.NONE, wait=False)
        pause = apply_plan(saved, watch, heard, by="ana", options=options)
        assert pause is not None
        assert (pause.stage, pause.subjects) == (1, ("report",))
        admin.observe(reader("trino@469", place))
        patient = ApplyOptions(Verify.NONE, wait=True, poll_s=0.2)
        assert apply_plan(saved, watch, heard, by="ana", options=patient) is None
        assert admin.describe().ladder("delta").level == 4, "the level of deletion vectors"
    assert "deletionVectors" in Table.for_path(path / "orders").terms.features_in_use
    assert heard.steps == ["report", "orders"]


def test_a_hold_keeps_the_gate_closed_and_is_told(path):
    with running() as (hosting, admin):
        admin.hold("delta", "year-end close")
        found = propose_rollout(Lake.discover(path), Target(enable=("deletionVectors",)), fleet=hosting.address)[0]
        saved = found.gathered.saved(found.found)
        watch = FleetWatch(saved, fleet=hosting.address)
        pause = apply_plan(saved, watch, Heard(), by="ana", options=ApplyOptions(Verify.NONE, wait=False))
        assert pause is not None
        assert "the gate is closed" in pause.why
        assert pause.subjects == ("orders",)
    assert not Table.for_path(path / "orders").protocol.supports("deletionVectors")

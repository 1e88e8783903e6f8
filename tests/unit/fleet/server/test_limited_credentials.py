"""A credential that may speak for some members only, and what it cannot do to the others."""

import json
import time
import urllib.error
import urllib.request

import pytest
from tests.support.fleets import LONG, declared, make_table, running

import halocline as hc
from halocline.errors import DeniedError, IncompatibleError
from halocline.fleet.core.events import MoveTable, Observe
from halocline.fleet.core.state import LevelRange, Provenance, Report, TableUse
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.member.link import Link, LinkError
from halocline.fleet.member.loop import MemberLoop
from halocline.fleet.server.auth import Access, Grant, digest, rights
from halocline.fleet.wire import calls
from halocline.fleet.wire.endpoint import Endpoint

TABLE = "s3://lake/orders"
ACCESS = Access(
    {
        digest("etl"): Grant("loads", rights(["join"]), ("etl-*",)),
        digest("all"): Grant("drivers", rights(["join"])),
        digest("ops"): Grant("operators", rights(["raise", "join"])),
    }
)
SPEAKING = Report("bi", 0, "deltalake@1.0.2", supported={"delta": LevelRange(1, 3)})
USES = frozenset({TableUse(TABLE, "delta")})


def with_secret(hosting, secret):
    return Endpoint.parse(hosting.address, secret=secret)


def observing(identity, release, provenance, seen):
    return Observe(identity, release, provenance, "", seen, {"delta": LevelRange(1, 9)}, USES)


@pytest.fixture
def fleet():
    """A fleet with a member that was declared, one that was observed, and one that speaks."""
    with (
        running(access=ACCESS, terms=LONG) as (hosting, _),
        AdminClient(with_secret(hosting, "ops"), "ops") as admin,
        MemberLoop(with_secret(hosting, "all"), SPEAKING),
    ):
        admin.observe(declared("powerbi", "deltalake@0.5.0", TABLE, supported={"delta": LevelRange(1, 1)}))
        admin.observe(observing("trino", "trino@426", Provenance.OBSERVED, 1_700_000_000_000))
        yield hosting, admin


def others(admin):
    members = (each for each in admin.members().members if not each.identity.startswith("etl"))
    return [(it.identity, it.release, it.supported, it.tables, it.last_seen_ms, it.seen_as) for it in members]


@pytest.fixture
def loading(fleet):
    """The link of a member that was let in with the limited credential."""
    hosting, _ = fleet
    report = Report("etl-1", 0, "deltalake@1.6.6", supported={"delta": LevelRange(1, 9)})
    with MemberLoop(with_secret(hosting, "etl"), report) as member:
        yield member._link


NOW = int(time.time() * 1000)
SAYING = [
    (calls.OBSERVE, observing(identity, "deltalake@1.6.6", provenance, NOW))
    for identity in ("powerbi", "trino", "bi", "nobody", "deltalake@1.6.6-00000000")
    for provenance in (Provenance.OBSERVED, Provenance.INFERRED, Provenance.DECLARED)
]


@pytest.mark.parametrize(("call", "request_"), SAYING)
def test_what_it_says_of_others_is_refused_and_changes_nothing(fleet, loading, call, request_):
    _, admin = fleet
    before = others(admin)
    with pytest.raises(LinkError) as caught:
        loading.call(call, request_)
    assert caught.value.failure.error.condition == "DENIED"
    assert others(admin) == before


def test_every_other_call_of_it_leaves_the_others_as_they_were(fleet, loading):
    _, admin = fleet
    before = others(admin)
    loading.call(calls.OBSERVE, observing("etl-2", "trino@426", Provenance.OBSERVED, NOW))
    loading.call(calls.MOVE_TABLE, MoveTable(TABLE, "delta", 1, "bi"))
    loading.call(calls.LEAVE, None)
    assert others(admin) == before
    assert "etl-2" in {each.identity for each in admin.members().members}


@pytest.mark.parametrize(("name", "status"), [("nightly", 403), ("etl-nightly", 201)])
def test_a_posted_event_is_taken_for_its_own_jobs_only(fleet, name, status):
    hosting, admin = fleet
    before = others(admin)
    event = {
        "eventTime": "2026-11-15T06:00:00Z",
        "run": {"runId": "1", "facets": {"processing_engine": {"name": "trino", "version": "470"}}},
        "job": {"namespace": "n", "name": name},
        "inputs": [{"namespace": "s3://lake", "name": "orders", "facets": {"storage": {"storageLayer": "delta"}}}],
    }
    headers = {"content-type": "application/json", "authorization": "Bearer etl"}
    request = urllib.request.Request(f"{hosting.http_address}/api/v1/lineage", json.dumps(event).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            code = answer.status
    except urllib.error.HTTPError as error:
        with error:
            code = error.code
    assert code == status
    assert others(admin) == before


def test_a_link_for_another_name_is_refused(fleet):
    hosting, _ = fleet
    with pytest.raises(LinkError) as caught:
        Link(with_secret(hosting, "etl"), "powerbi", "operator").handshake()
    assert caught.value.failure.error.condition == "DENIED"


def test_who_writes_a_table_is_judged_though_the_fleet_may_not_be_told(fleet, tmp_path):
    hosting, admin = fleet
    admin.remove_member("powerbi", "switched off")
    admin.remove_member("trino", "switched off")
    url = make_table(tmp_path / "orders", "delta-rs:py-1.0.2")
    before = others(admin)
    with hc.connect(hosting.address, name="etl-3", token="etl"), pytest.raises(IncompatibleError) as caught:
        hc.Table.for_path(url).set_properties({"delta.enableDeletionVectors": "true"})
    assert caught.value.condition == "WOULD_BREAK_USERS"
    assert any("deltalake@1.0.2" in text and "(observed)" in text for text in caught.value.sides.values())
    assert others(admin) == before


def test_a_contradiction_is_shown_to_whoever_looks(fleet):
    hosting, admin = fleet
    link = Link(with_secret(hosting, "all"), "bi-2", "operator")
    link.handshake()
    link.call(calls.OBSERVE, observing("powerbi", "deltalake@1.6.6", Provenance.OBSERVED, int(time.time() * 1000)))
    link.close()
    (member,) = (each for each in admin.members().members if each.identity == "powerbi")
    assert (member.release, member.seen_as, member.provenance) == ("deltalake@0.5.0", "deltalake@1.6.6", "declared")
    assert [(each.action, each.subject) for each in admin.audit()[:1]] == [("contradict", "powerbi")]
    (blocker,) = (each for each in admin.describe().ladder("delta").blockers if each.who == "powerbi")
    assert blocker.kind == "contradicted"
    (broken,) = (each for each in admin.who_breaks(ladder="delta", level=2).affected if each.who == "powerbi")
    assert "was seen to run deltalake@1.6.6" in broken.text


def test_the_error_of_a_denied_observation_says_for_whom_the_credential_speaks(fleet, loading):
    with pytest.raises(LinkError) as caught:
        loading.call(calls.OBSERVE, observing("powerbi", "deltalake@1.6.6", Provenance.OBSERVED, NOW))
    error = caught.value.failure.error
    assert isinstance(error, DeniedError)
    assert error.sides["members"] == "etl-*"

"""What people ask a fleet, over the wire: who blocks, who breaks, plans, backup and the audit log."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from halocline.errors import ConflictError, InputError, MalformedError, NotFoundError
from halocline.fleet.core.ladders import shipped, supported_by
from halocline.fleet.core.state import FleetTerms, LevelRange, Report, TableUse
from halocline.fleet.member.admin import AdminClient, operator_name
from halocline.fleet.member.client import FleetClient
from halocline.fleet.server.hosting import Config, embedded
from halocline.fleet.server.service import ServiceSettings
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb

SETTINGS = ServiceSettings(tick_s=0.05)
CONFIG = Config(store=":memory:", listen="127.0.0.1:0", http="", settings=SETTINGS, terms=FleetTerms(2000, 200))


@pytest.fixture(scope="module")
def hosting():
    """A fleet at delta 3 with an old reader, a new writer, one that is declared and one of which nothing is known."""
    uses = frozenset({TableUse("lake/orders", "delta", "read"), TableUse("lake/items", "delta", "read")})
    old = Report("etl-nightly", 0, "deltalake@1.0.2", supported=supported_by("deltalake@1.0.2"), tables=uses)
    new = Report(
        "ingest", 0, "delta-spark@4.0.0", "writer", {"delta": LevelRange(1, 6)}, frozenset({"deletionVectors"})
    )
    with embedded(CONFIG) as running, AdminClient(running.address, "ann") as client:
        client.command("Raise", pb.RaiseRequest(ladder="delta", level=3))
        with FleetClient(running.address, old), FleetClient(running.address, new):
            for name, release, supported in (
                ("bi", "trino@426", {"delta": pb.LevelRange(lo=1, hi=3)}),
                ("who", "?", {}),
            ):
                request = pb.ObserveRequest(identity=name, release=release, provenance="declared", supported=supported)
                client.command("Observe", request)
            yield running


@pytest.fixture
def admin(hosting):
    with AdminClient(hosting.address, "ann") as client:
        yield client


def affected(admin, call, request):
    return {each.who: each for each in admin.ask(call, request, pb.AffectedResponse).affected}


def test_who_breaks_by_a_raise_names_release_tables_and_fix(admin):
    found = affected(admin, "WhoBreaks", pb.WhoBreaksRequest(ladder="delta", level=4))
    assert set(found) == {"etl-nightly", "bi", "who"}
    old = found["etl-nightly"]
    assert (old.release, old.fix.partition("@")[0]) == ("deltalake@1.0.2", "deltalake")
    assert [use.table for use in old.tables] == ["lake/items", "lake/orders"]
    assert (found["bi"].fix, found["bi"].provenance) == ("trino@427", "declared")
    assert "find out" in found["who"].fix


def test_who_blocks_a_table_feature_is_judged_by_reports_and_by_knowledge(admin):
    found = affected(admin, "WhoBlocks", pb.WhoBlocksRequest(feature="deletionVectors"))
    assert set(found) == {"etl-nightly", "bi", "who"}, "ingest says that it provides the feature"
    assert "deletionVectors" in found["etl-nightly"].text
    assert "427" in found["bi"].fix


def test_who_blocks_a_feature_that_nobody_knows_is_not_found(admin):
    with pytest.raises(NotFoundError, match="warp"):
        admin.ask("WhoBlocks", pb.WhoBlocksRequest(feature="warp"), pb.AffectedResponse)


def test_who_breaks_by_removal_counts_those_who_are_here_and_those_who_were(hosting, admin):
    past = Report("yesterday", 0, "hudi@1.0.2", supported={"hudi": LevelRange(6, 8)})
    with FleetClient(hosting.address, past):
        pass
    found = affected(admin, "WhoBreaks", pb.WhoBreaksRequest(remove="member/session"))
    assert {who: each.live for who, each in found.items()} == {"etl-nightly": True, "ingest": True, "yesterday": False}
    assert affected(admin, "WhoBreaks", pb.WhoBreaksRequest(remove="nobody/uses-this")) == {}


@pytest.mark.parametrize(
    "request_",
    [
        pb.WhoBreaksRequest(),
        pb.WhoBreaksRequest(remove="x", ladder="delta", level=4),
        pb.WhoBreaksRequest(ladder="delta", level=99),
        pb.WhoBreaksRequest(ladder="nope", level=1),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(admin, request_):
    with pytest.raises(InputError):
        admin.ask("WhoBreaks", request_, pb.AffectedResponse)


def test_describe_shows_level_next_and_what_is_in_the_way(admin):
    answer = admin.ask("Describe", pb.DescribeRequest(), pb.DescribeResponse)
    delta = next(each for each in answer.ladders if each.ladder == "delta")
    assert (delta.level, delta.next, delta.live) == (3, 4, 4)
    kinds = {each.who.partition("#")[0]: each.kind for each in delta.blockers}
    assert kinds == {"etl-nightly": "too-old", "bi": "too-old", "who": "unknown"}
    lease = next(each.lease_left_ms for each in delta.blockers if each.speaks)
    assert 0 < lease <= 2200
    assert answer.epoch == 1
    assert answer.store == "sqlite:///:memory:"


def test_a_plan_is_the_same_as_what_raising_meets(admin):
    plan = admin.ask("PlanRaise", pb.LevelRequest(ladder="delta", level=4), pb.Plan)
    with pytest.raises(Exception, match="delta cannot rise to level 4: 3 in the way") as caught:
        admin.command("Raise", pb.RaiseRequest(ladder="delta", level=4))
    assert caught.value.condition == "LEVEL_BLOCKED"
    assert {each.who for each in plan.blockers} == set(caught.value.sides)


def test_force_goes_over_those_who_do_not_speak_but_never_over_those_who_do(admin):
    with pytest.raises(Exception, match="1 in the way"):
        admin.command("Raise", pb.RaiseRequest(ladder="delta", level=4, force=True, reason="they are gone"))
    with pytest.raises(InputError, match="force needs a reason"):
        admin.command("Raise", pb.RaiseRequest(ladder="delta", level=4, force=True, reason="  "))


def test_a_hold_keeps_a_level_and_ends_when_released(admin):
    admin.command("PlaceHold", pb.PlaceHoldRequest(ladder="hudi", name="close", reason="year end"))
    with pytest.raises(ConflictError) as caught:
        admin.command("Raise", pb.RaiseRequest(ladder="hudi", level=8))
    assert caught.value.condition == "HELD"
    answer = admin.ask("Describe", pb.DescribeRequest(), pb.DescribeResponse)
    assert next(each for each in answer.ladders if each.ladder == "hudi").policy == "hold"
    admin.command("ReleaseHold", pb.ReleaseHoldRequest(ladder="hudi", name="close"))
    with pytest.raises(NotFoundError):
        admin.command("ReleaseHold", pb.ReleaseHoldRequest(ladder="hudi", name="close"))


def test_a_ladder_of_ones_own_can_be_declared_and_climbed(admin):
    rungs = [pb.Rung(level=1), pb.Rung(level=2, requires=[pb.Requirement(ladder="delta", level=3)])]
    admin.command("DeclareLadder", pb.DeclareLadderRequest(name="pipeline", rungs=rungs, policy="manual"))
    # One of whom nothing is known counts on every ladder.
    admin.command("Raise", pb.RaiseRequest(ladder="pipeline", level=2, force=True, reason="does not run it"))
    with pytest.raises(InputError):
        admin.command("DeclareLadder", pb.DeclareLadderRequest(name="pipeline", rungs=rungs[:1]))
    with pytest.raises(InputError, match="no policy"):
        admin.command("SetPolicy", pb.SetPolicyRequest(ladder="pipeline", policy="sometimes"))


@pytest.mark.parametrize("identity", ["../x", "", "x" * 200])
def test_a_member_is_declared_under_a_name_that_can_be_one(admin, identity):
    with pytest.raises(InputError):
        admin.command("Observe", pb.ObserveRequest(identity=identity, release="x@1", provenance="declared"))


def test_a_member_cannot_be_reported_by_somebody_else(admin):
    with pytest.raises(InputError):
        admin.command("Observe", pb.ObserveRequest(identity="x", release="x@1", provenance="reported"))
    with pytest.raises(InputError, match="no provenance"):
        admin.command("Observe", pb.ObserveRequest(identity="x", release="x@1", provenance="rumoured"))


def test_the_audit_log_says_who_decided_what(admin):
    entries = admin.ask("Audit", pb.AuditRequest(action="raise", limit=1000), pb.AuditResponse).entries
    first = entries[-1]
    assert (first.actor, first.subject, first.refused) == ("ann", "delta=3", "")
    assert [each.number for each in entries] == sorted((each.number for each in entries), reverse=True)


def test_an_export_can_be_imported_into_another_fleet_but_not_while_members_act(admin):
    document = admin.export()
    found = json.loads(document)
    assert {each["kind"] for each in found["records"]} >= {
        "terms",
        "ladders",
        "ladder_states",
        "members",
        "incarnations",
    }
    with pytest.raises(ConflictError, match="2 members hold a lease"):
        admin.restore(document, "a try")
    with embedded(CONFIG) as other, AdminClient(other.address, "bob") as theirs:
        later = Report("etl-nightly", 0, "hudi@1.0.2", supported={"hudi": LevelRange(6, 8)})
        with FleetClient(other.address, later) as client:
            used = client.incarnation
        theirs.restore(document, "moving house")
        answer = theirs.ask("Describe", pb.DescribeRequest(), pb.DescribeResponse)
        assert next(each.level for each in answer.ladders if each.ladder == "delta") == 3
        assert answer.epoch == 2
        identities = {each.identity for each in theirs.ask("Members", pb.MembersRequest(), pb.MembersResponse).members}
        assert {"bi", "who", "etl-nightly"} <= identities
        kept = json.loads(theirs.export())["records"]
        newest = {each["key"]: each["value"] for each in kept if each["kind"] == "incarnations"}
        assert newest["etl-nightly"] >= used, "an incarnation that was used must not come back through a backup"
        entry = theirs.ask("Audit", pb.AuditRequest(action="import"), pb.AuditResponse).entries[0]
        assert (entry.actor, entry.detail) == ("bob", "moving house")


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b'{"format": 2, "records": []}',
        b'{"format": 1, "records": [{"kind": "members"}]}',
        b'{"format": 1, "records": [{"kind": "members", "key": ["x", 1], "value": {}}]}',
        b'{"format": 1, "records": [{"kind": "holds", "key": "x", "value": 3}]}',
    ],
)
def test_what_is_no_export_is_malformed_and_changes_nothing(document):
    with embedded(CONFIG) as other, AdminClient(other.address) as theirs:
        with pytest.raises((MalformedError, InputError)):
            theirs.restore(document, "a try")
        assert theirs.ask("Describe", pb.DescribeRequest(), pb.DescribeResponse).epoch == 1


def test_an_import_needs_a_reason(admin):
    with embedded(CONFIG) as other, AdminClient(other.address) as theirs, pytest.raises(InputError, match="reason"):
        theirs.restore(admin.export(), "")


# Ladders of the formats.


def test_shipped_ladders_name_releases_that_really_support_the_level():
    for name, each in shipped().items():
        for rung in each.ladder.rungs:
            for release in rung.provided_by:
                assert rung.level in supported_by(release)[name], f"{release} on {name}={rung.level}"


def test_every_level_above_the_lowest_needs_more_than_the_one_below():
    for each in shipped().values():
        levels = each.ladder.levels
        for lower, higher in pairwise(levels):
            assert each.protocol(higher).features - each.protocol(lower).features


@pytest.mark.parametrize("release", ["nope@1", "nightly", "", "deltalake@0.0.0"])
def test_nothing_is_supported_by_what_nobody_knows(release):
    assert supported_by(release) == {}


def test_an_operator_has_a_name_that_can_be_one():
    assert Report(operator_name(), 0, "").identity == operator_name()


def test_a_report_can_be_made_for_a_release_that_is_known():
    report = Report("x", 0, "hudi@1.0.2", supported=supported_by("hudi@1.0.2", ["read", "write"]))
    assert replace(report, role="writer").supported == {"hudi": LevelRange(6, 8)}

"""What people ask a fleet, over the wire: who blocks, who breaks, plans, backup and the audit log."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.support.fleets import LONG, declared, in_memory

from halocline.errors import ConflictError, InputError, MalformedError, NotFoundError
from halocline.fleet.answers import AuditQuery
from halocline.fleet.core.ladder import Ladder, LadderLevel, Rung
from halocline.fleet.core.ladders import shipped, supported_by
from halocline.fleet.core.state import LevelRange, Provenance, Report, TableUse
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.member.loop import MemberLoop
from halocline.fleet.server.hosting import embedded

CONFIG = in_memory(terms=LONG)


@pytest.fixture(scope="module")
def hosting():
    """A fleet at delta 3 with an old reader, a new writer, one that is declared and one of which nothing is known."""
    uses = frozenset({TableUse("lake/orders", "delta", "read"), TableUse("lake/items", "delta", "read")})
    old = Report("etl-nightly", 0, "deltalake@1.0.2", supported=supported_by("deltalake@1.0.2"), tables=uses)
    new = Report(
        "ingest", 0, "delta-spark@4.0.0", "writer", {"delta": LevelRange(1, 6)}, frozenset({"deletionVectors"})
    )
    with embedded(CONFIG) as running, AdminClient(running.address, "ann") as client:
        client.raise_level("delta", 3)
        with MemberLoop(running.address, old), MemberLoop(running.address, new):
            client.observe(declared("bi", "trino@426", supported={"delta": LevelRange(1, 3)}))
            client.observe(declared("who", "unknown"))
            yield running


@pytest.fixture
def admin(hosting):
    with AdminClient(hosting.address, "ann") as client:
        yield client


def by_name(answer):
    return {each.who: each for each in answer.affected}


def test_who_breaks_by_a_raise_names_release_tables_and_fix(admin):
    found = by_name(admin.who_breaks(ladder="delta", level=4))
    assert set(found) == {"etl-nightly", "bi", "who"}
    old = found["etl-nightly"]
    assert (old.release, old.fix.partition("@")[0]) == ("deltalake@1.0.2", "deltalake")
    assert [use.table for use in old.tables] == ["lake/items", "lake/orders"]
    assert (found["bi"].fix, found["bi"].provenance) == ("trino@469", "declared")
    assert "find out" in found["who"].fix


def test_who_blocks_a_table_feature_is_judged_by_reports_and_by_knowledge(admin):
    found = by_name(admin.who_blocks("deletionVectors"))
    assert set(found) == {"etl-nightly", "bi", "who"}, "ingest says that it provides the feature"
    assert "deletionVectors" in found["etl-nightly"].text
    assert "469" in found["bi"].fix


def test_who_blocks_a_feature_that_nobody_knows_is_not_found(admin):
    with pytest.raises(NotFoundError, match="warp"):
        admin.who_blocks("warp")


def test_who_breaks_by_removal_counts_those_who_are_here_and_those_who_were(hosting, admin):
    past = Report("yesterday", 0, "hudi@1.0.2", supported={"hudi": LevelRange(6, 8)})
    with MemberLoop(hosting.address, past):
        pass
    found = by_name(admin.who_breaks(remove="member/session"))
    assert {who: each.live for who, each in found.items()} == {"etl-nightly": True, "ingest": True, "yesterday": False}
    assert by_name(admin.who_breaks(remove="nobody/uses-this")) == {}


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"remove": "x", "ladder": "delta", "level": 4},
        {"ladder": "delta", "level": 99},
        {"ladder": "delta", "level": -1},
        {"ladder": "nope", "level": 1},
    ],
)
def test_a_question_that_makes_no_sense_is_refused(admin, query):
    with pytest.raises(InputError):
        admin.who_breaks(**query)


def test_describe_shows_level_next_and_what_is_in_the_way(admin):
    answer = admin.describe()
    delta = next(each for each in answer.ladders if each.ladder == "delta")
    assert (delta.level, delta.next, delta.live) == (3, 4, 4)
    kinds = {each.who.partition("#")[0]: each.kind for each in delta.blockers}
    assert kinds == {"etl-nightly": "too-old", "bi": "too-old", "who": "unknown"}
    lease = next(each.lease_left_ms for each in delta.blockers if each.speaks)
    assert 0 < lease <= LONG.lease + LONG.margin
    assert answer.epoch == 1
    assert answer.store == "sqlite:///:memory:"


def test_a_plan_is_the_same_as_what_raising_meets(admin):
    plan = admin.plan_raise("delta", 4)
    with pytest.raises(Exception, match="delta cannot rise to level 4: 3 in the way") as caught:
        admin.raise_level("delta", 4)
    assert caught.value.condition == "LEVEL_BLOCKED"
    assert {each.who for each in plan.blockers} == set(caught.value.sides)


def test_force_goes_over_those_who_do_not_speak_but_never_over_those_who_do(admin):
    with pytest.raises(Exception, match="1 in the way"):
        admin.raise_level("delta", 4, force=True, reason="they are gone")
    with pytest.raises(InputError, match="force needs a reason"):
        admin.raise_level("delta", 4, force=True, reason="  ")


def test_a_hold_keeps_a_level_and_ends_when_released(admin):
    admin.hold("hudi", "year end", name="close")
    with pytest.raises(ConflictError) as caught:
        admin.raise_level("hudi", 8)
    assert caught.value.condition == "HELD"
    answer = admin.describe()
    assert next(each for each in answer.ladders if each.ladder == "hudi").policy == "hold"
    admin.release("hudi", "close")
    with pytest.raises(NotFoundError):
        admin.release("hudi", "close")


def test_a_ladder_of_ones_own_can_be_declared_and_climbed(admin):
    rungs = (Rung(1), Rung(2, requires=(LadderLevel("delta", 3),)))
    admin.declare_ladder(Ladder("pipeline", rungs))
    # One of whom nothing is known counts on every ladder.
    admin.raise_level("pipeline", 2, force=True, reason="does not run it")
    with pytest.raises(InputError):
        admin.declare_ladder(Ladder("pipeline", rungs[:1]))
    with pytest.raises(InputError, match="no policy"):
        admin.set_policy("pipeline", "sometimes")


@pytest.mark.parametrize("identity", ["../x", "", "x" * 200])
def test_a_member_is_declared_under_a_name_that_can_be_one(admin, identity):
    with pytest.raises(InputError):
        admin.observe(declared(identity, "x@1"))


def test_a_member_is_declared_with_a_role_that_there_is(admin):
    with pytest.raises(InputError) as caught:
        admin.observe(declared("bi", "trino@426", role="wrtier"))
    assert caught.value.sides["nearest"] == "writer"


def test_a_member_cannot_be_reported_by_somebody_else(admin):
    with pytest.raises(InputError):
        admin.observe(replace(declared("x", "x@1"), provenance=Provenance.REPORTED))
    with pytest.raises(InputError, match="no provenance"):
        admin.observe(replace(declared("x", "x@1"), provenance="rumoured"))


def test_the_audit_log_says_who_decided_what(admin):
    entries = admin.audit(AuditQuery(action="raise", limit=1000))
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
        with MemberLoop(other.address, later) as client:
            used = client.incarnation
        theirs.restore(document, "moving house")
        answer = theirs.describe()
        assert next(each.level for each in answer.ladders if each.ladder == "delta") == 3
        assert answer.epoch == 2
        identities = {each.identity for each in theirs.members().members}
        assert {"bi", "who", "etl-nightly"} <= identities
        kept = json.loads(theirs.export())["records"]
        newest = {each["key"]: each["value"] for each in kept if each["kind"] == "incarnations"}
        assert newest["etl-nightly"] >= used, "an incarnation that was used must not come back through a backup"
        entry = theirs.audit(AuditQuery(action="import"))[0]
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
        b'{"format": 1, "records": [{"kind": "wishes", "key": "x", "value": 3}]}',
        b'{"format": 1, "records": [{"kind": 7, "key": "x", "value": 3}]}',
    ],
)
def test_what_is_no_export_is_malformed_and_changes_nothing(document):
    with embedded(CONFIG) as other, AdminClient(other.address) as theirs:
        with pytest.raises((MalformedError, InputError)):
            theirs.restore(document, "a try")
        assert theirs.describe().epoch == 1


def test_an_export_with_a_log_beyond_what_an_import_may_carry_can_be_imported(admin, monkeypatch):
    document = json.loads(admin.export()) | {"audit": ["x" * 200_000]}
    monkeypatch.setattr("halocline.fleet.server.grpc_server.LARGEST_IMPORT", 100_000)
    with embedded(CONFIG) as other, AdminClient(other.address) as theirs:
        theirs.restore(json.dumps(document).encode(), "moving house")
        assert theirs.describe().ladder("delta").level == 3


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
            assert each.terms(higher).protocol.features - each.terms(lower).protocol.features


@pytest.mark.parametrize("release", ["nope@1", "nightly", "", "deltalake@0.0.0"])
def test_nothing_is_supported_by_what_nobody_knows(release):
    assert supported_by(release) == {}


def test_a_report_can_be_made_for_a_release_that_is_known():
    report = Report("x", 0, "hudi@1.0.2", supported=supported_by("hudi@1.0.2", ["read", "write"]))
    assert replace(report, role="writer").supported == {"hudi": LevelRange(6, 8)}

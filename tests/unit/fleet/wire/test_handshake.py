"""The handshake judges exact sets in both directions, and what the histories say of two versions."""

from dataclasses import replace
from itertools import product

import pytest

from halocline import __version__
from halocline.compat.history import History
from halocline.fleet.wire.handshake import CALLS, PUSHES, ObjectionKind, Peer, Role, Wire, judge, refusal
from halocline.fleet.wire.proto.v1 import fleet_pb2

CALLS_TOML = """
format = 1
name = "calls"
released = "0.5.0"
unknown_before = "0.1.0"
pre_releases = "as-release"

[[feature]]
id = "handshake"
provided = "0.1.0"
required = "0.1.0"

[[feature]]
id = "member/old-session"
provided = "[0.1.0, 0.4.0)"
required = "[0.1.0, 0.3.0)"

[[feature]]
id = "member/new-session"
provided = "0.2.0"
required = "0.3.0"

[[feature]]
id = "admin/backup"
provided = "0.4.0"
required = "0.2.0"
"""

PUSHES_TOML = """
format = 1
name = "pushes"
released = "0.5.0"
unknown_before = "0.1.0"
pre_releases = "as-release"

[[feature]]
id = "push/limit"
provided = "0.2.0"
required = "0.5.0"
"""


def wire(version):
    return Wire(version, History.parse(CALLS_TOML), History.parse(PUSHES_TOML))


def objections(client, server, role=Role.MEMBER, judged_by=None):
    ours, theirs = wire(client), wire(server)
    return judge(ours.client(role), theirs.server, judged_by or ours, role)


@pytest.mark.parametrize("role", Role)
def test_a_release_fits_itself(role):
    current = Wire.current()
    assert judge(current.client(role), current.server, current, role) == ()


def test_our_history_names_every_call_of_the_wire():
    named = {call for each in History.load(CALLS).lifetimes for call in each.name.split(", ")}
    methods = {method.name for service in fleet_pb2.DESCRIPTOR.services_by_name.values() for method in service.methods}
    assert methods - named == {"Leave"}, "a call that no feature covers cannot be required of a peer"


@pytest.mark.parametrize("name", [CALLS, PUSHES])
def test_our_histories_know_this_release_and_are_in_order(name):
    history = History.load(name)
    assert str(history.released) == __version__
    assert history.lint() == ()


@pytest.mark.parametrize(
    ("client", "server", "kind", "feature", "fix"),
    [
        ("0.3.0", "0.1.0", ObjectionKind.FEATURE_MISSING, "member/new-session", "Upgrade the server to 0.2.0 or later"),
        ("0.2.0", "0.4.0", ObjectionKind.FEATURE_REMOVED, "member/old-session", "Upgrade the client to 0.3.0 or later"),
        ("0.1.0", "0.5.0", ObjectionKind.FEATURE_REMOVED, "member/old-session", "Upgrade the client to 0.3.0 or later"),
    ],
)
def test_a_pair_that_does_not_fit_is_told_the_feature_and_the_release(client, server, kind, feature, fix):
    first = objections(client, server)[0]
    assert (first.kind, first.subject) == (kind, feature)
    assert fix in first.fix


def test_what_the_server_pushes_must_be_understood_by_the_member():
    found = {each.subject: each for each in objections("0.1.0", "0.5.0")}
    push = found["push/limit"]
    assert push.kind is ObjectionKind.FEATURE_MISSING
    assert push.text == "server 0.5.0 requires push/limit, which clients provide from 0.2.0"
    assert "Upgrade the client to 0.2.0" in push.fix


def test_an_operator_hears_no_pushes_and_needs_no_session():
    assert objections("0.4.0", "0.5.0", Role.OPERATOR) == ()
    assert objections("0.3.0", "0.3.0", Role.OPERATOR)[0].subject == "admin/backup"
    assert objections("0.3.0", "0.3.0", Role.MEMBER) == ()


VERSIONS = ["0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0"]


@pytest.mark.parametrize(("client", "server"), list(product(VERSIONS, VERSIONS)))
def test_both_ends_come_to_the_same_answer_as_the_sets(client, server):
    ours, theirs = wire(client).client(Role.MEMBER), wire(server).server
    wanted = {name for name in theirs.requires if not name.startswith("admin/")}
    fits = ours.requires.keys() <= theirs.provides.keys() and wanted <= ours.provides.keys()
    assert (objections(client, server) == ()) is fits
    assert (objections(client, server, judged_by=wire(server)) == ()) is fits


def test_a_short_list_does_not_get_past_the_history():
    current = wire("0.5.0")
    forgetful = Peer("halocline", "0.1.0")
    assert ObjectionKind.FEATURE_REMOVED in {
        each.kind for each in judge(forgetful, current.server, current, Role.MEMBER)
    }


def test_a_stale_history_does_not_get_past_the_lists():
    stale = Wire("0.1.0", History.parse(CALLS_TOML.split('[[feature]]\nid = "member/new')[0]), wire("0.1.0").pushes)
    newer = wire("0.3.0").client(Role.MEMBER)
    found = judge(newer, stale.server, stale, Role.MEMBER)
    assert (found[0].kind, found[0].subject) == (ObjectionKind.FEATURE_MISSING, "member/new-session")


@pytest.mark.parametrize("version", ["", "0", "0.0.0", "nightly", "\0", "v" * 5000, "0.0.9"])
@pytest.mark.parametrize("end", ["client", "server"])
def test_a_version_that_cannot_be_judged_never_passes(version, end):
    current = Wire.current()
    sides = {"client": current.client(Role.MEMBER), "server": current.server}
    sides[end] = replace(sides[end], version=version)
    found = judge(sides["client"], sides["server"], current, Role.MEMBER)
    assert found[0].kind is ObjectionKind.VERSION_UNKNOWN
    assert refusal(found, **sides).condition == "VERSION_UNKNOWN"
    assert len(found[0].text) < 200, "what a stranger sent must not fill the log"


def test_a_feature_at_a_higher_level_than_provided_is_missing():
    current = Wire.current()
    server = replace(current.server, provides={**current.server.provides, "member/session": 2})
    client = current.client(Role.MEMBER)
    enough = replace(client, requires={**client.requires, "member/session": 2})
    too_much = replace(client, requires={**client.requires, "member/session": 3})
    assert judge(enough, server, current, Role.MEMBER) == ()
    found = judge(too_much, server, current, Role.MEMBER)
    assert found[0].text.startswith("client halocline@0.1.0 requires member/session at level 3")


def test_another_product_is_judged_by_the_lists_alone():
    current = Wire.current()
    stranger = Peer("otherclient", "7.1", current.client(Role.MEMBER).provides, {"handshake": 1})
    assert judge(stranger, current.server, current, Role.MEMBER) == ()
    deaf = replace(stranger, provides={})
    subjects = {each.subject for each in judge(deaf, current.server, current, Role.MEMBER)}
    assert subjects == set(current.server.requires)


def test_a_refusal_names_both_sides_and_every_feature():
    ours, theirs = wire("0.1.0").client(Role.MEMBER), wire("0.5.0").server
    told = refusal(judge(ours, theirs, wire("0.5.0"), Role.MEMBER), ours, theirs)
    assert dict(told.sides) == {
        "client": "halocline@0.1.0",
        "server": "halocline@0.5.0",
        "missing": "member/old-session, push/limit",
    }
    assert told.condition == "INCOMPATIBLE_VERSION"

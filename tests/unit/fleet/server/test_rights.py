"""Every call with every right, and the table of the documentation."""

import asyncio
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import pytest
from tests.support.fleets import in_memory

from halocline.fleet import answers
from halocline.fleet.core import events
from halocline.fleet.core.events import Join
from halocline.fleet.core.ladder import Ladder, LadderLevel, Rung
from halocline.fleet.core.ladder_state import Policy
from halocline.fleet.core.state import FleetTerms, Provenance, Report
from halocline.fleet.member.link import Link, LinkError
from halocline.fleet.server.auth import Access, Grant, Right, digest, rights
from halocline.fleet.server.hosting import embedded
from halocline.fleet.server.http import HttpServer, build_app
from halocline.fleet.server.rights import LINEAGE, METRICS, RIGHTS, RULES, render_rights, rule_of
from halocline.fleet.wire import calls
from halocline.fleet.wire.calls import Chunk
from halocline.fleet.wire.endpoint import Endpoint
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb

DOCS = Path(__file__).parents[4] / "docs" / "fleet.md"
ACCESS = Access(
    {digest(right): Grant(right, rights([right])) for right in Right} | {digest("none"): Grant("none", frozenset())}
)
UNARY = {call.name: call for call in calls.UNARY}


def observing(provenance):
    return events.Observe("nobody", "unknown", provenance, "", 1 if provenance is Provenance.OBSERVED else None)


REQUESTS = {
    ("Handshake", False): None,
    ("Handshake", True): Join(Report("somebody", 1, "nonsense"), 0),
    ("Describe", False): None,
    ("Members", False): answers.MembersQuery(),
    ("TableUsers", False): "lake/t",
    ("WhoBlocks", False): answers.BlockQuery(feature="nothing"),
    ("WhoBreaks", False): answers.BreakQuery(ladder="nothing", level=1),
    ("Audit", False): answers.AuditQuery(),
    ("Keys", False): None,
    ("Leave", False): None,
    ("MoveTable", False): events.MoveTable("lake/t", "nothing", 1, ""),
    ("Observe", False): observing(Provenance.OBSERVED),
    ("Observe", True): observing(Provenance.DECLARED),
    ("PlanRaise", False): LadderLevel("delta", 1),
    ("PlanDowngrade", False): LadderLevel("delta", 1),
    ("Raise", False): events.Raise("nothing", 1, ""),
    ("Raise", True): events.Raise("nothing", 1, "", "why", True),
    ("SetPolicy", False): events.SetPolicy("nothing", Policy.AUTO, ""),
    ("PlaceHold", False): events.PlaceHold("nothing", "n", "why", ""),
    ("ReleaseHold", False): events.ReleaseHold("nothing", "n", ""),
    ("SetTerms", False): events.SetTerms(FleetTerms(), ""),
    ("StartDowngrade", False): events.StartDowngrade("nothing", 1, "", "why"),
    ("CleanDowngrade", False): events.CleanDowngrade("nothing", ""),
    ("FinishDowngrade", False): events.FinishDowngrade("nothing", ""),
    ("CancelDowngrade", False): events.CancelDowngrade("nothing", ""),
    ("DeclareLadder", False): events.DeclareLadder(Ladder("delta", (Rung(1),)), ""),
    ("RemoveMember", False): events.RemoveMember("no-such", "", "why"),
    ("RemoveMember", True): events.RemoveMember("no-such", "", "why", True),
    ("DropKey", False): calls.DropKey("no-such", "why"),
}


@pytest.fixture(scope="module")
def fleet():
    with embedded(in_memory(access=ACCESS, http="127.0.0.1:0")) as hosting:
        yield hosting


@pytest.fixture(scope="module")
def links(fleet):
    """A caller with each right; one without any is let in nowhere, so it has no link."""
    found = {}
    for right in Right:
        found[right] = Link(Endpoint.parse(fleet.address, secret=right), f"only-{right}", "operator")
        found[right].handshake()
    yield found
    for link in found.values():
        link.close()


def condition_of(call):
    """The condition that a call is refused with; nothing if it is answered."""
    try:
        call()
    except LinkError as failed:
        return failed.failure.error.condition
    return ""


def streamed(fleet, link, name):
    """Calls what is answered or asked in pieces."""
    if name == "Export":
        return condition_of(lambda: link.download(calls.EXPORT))
    if name == "Import":
        return condition_of(lambda: link.upload(calls.IMPORT, iter([Chunk(b"no backup", "why")]), "k"))
    with grpc.insecure_channel(f"127.0.0.1:{fleet.port}") as channel:
        opened = channel.stream_stream(calls.SESSION)(iter([b""]), timeout=30, metadata=link._metadata())
        with pytest.raises(grpc.RpcError) as caught:
            b"".join(opened)
    return "DENIED" if caught.value.code() is grpc.StatusCode.PERMISSION_DENIED else caught.value.code().name


def posted(fleet, right, call):
    method, path = call.split()
    request = urllib.request.Request(fleet.http_address + path, b"{}" if method == "POST" else None, method=method)
    request.add_header("authorization", f"Bearer {right}")
    request.add_header("content-type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return "DENIED" if error.code == 403 else str(error.code)


@pytest.mark.parametrize("right", Right)
@pytest.mark.parametrize(
    "rule",
    [each for each in RULES if each.call != METRICS],
    ids=lambda rule: f"{rule.call}{'' if rule.when is None else ', some'}",
)
def test_a_call_is_allowed_with_the_right_that_the_table_says_and_with_no_other(fleet, links, rule, right):
    allowed = rule.right in rights([right])
    if rule.call == LINEAGE:
        told = posted(fleet, right, rule.call)
    elif rule.call == "Handshake":
        join = REQUESTS[rule.call, rule.when is not None]
        link = Link(Endpoint.parse(fleet.address, secret=right), f"other-{right}", "operator")
        told = condition_of(lambda: link.handshake(join))
        link.close()
    elif rule.call in UNARY:
        request = REQUESTS[rule.call, rule.when is not None]
        told = condition_of(lambda: links[right].call(UNARY[rule.call], request))
    else:
        told = streamed(fleet, links[right], rule.call)
    assert (told != "DENIED") is allowed, told


@pytest.mark.parametrize("right", Right)
def test_metrics_for_other_machines_need_the_right_that_the_table_says(fleet, right):
    app = build_app(fleet.service, guarded=True)
    server = HttpServer(app, "127.0.0.1", 0)
    asyncio.run_coroutine_threadsafe(server.start(), fleet.loop).result(60)
    try:
        url = f"http://127.0.0.1:{server.port}/metrics"
        request = urllib.request.Request(url, headers={"authorization": f"Bearer {right}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert (answer.status == 200) is (RIGHTS[METRICS] in rights([right]))
        refused = urllib.request.Request(url, headers={"authorization": "Bearer none"})
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(refused, timeout=30)
        assert caught.value.code == 403
        caught.value.close()
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), fleet.loop).result(60)


def test_every_call_of_the_wire_is_in_the_table_once_for_all_requests():
    on_wire = [method.name for service in pb.DESCRIPTOR.services_by_name.values() for method in service.methods]
    assert sorted([*on_wire, LINEAGE, METRICS]) == sorted(rule.call for rule in RULES if rule.when is None)


def test_every_rule_is_tried():
    streams = {"Session", "Export", "Import", LINEAGE, METRICS}
    tried = {(rule.call, rule.when is not None) for rule in RULES if rule.call not in streams}
    assert tried == REQUESTS.keys()
    for (name, special), request in REQUESTS.items():
        if name != "Handshake":
            assert (rule_of(name, request).when is not None) is special


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        (calls.RAISE, events.Raise("nothing", 1, "", " ", True)),
        (calls.REMOVE_MEMBER, events.RemoveMember("no-such", "", " ", True)),
        (calls.DROP_KEY, calls.DropKey("no-such", " ")),
    ],
)
def test_force_without_a_reason_is_refused(links, call, request_):
    assert condition_of(lambda: links[Right.FORCE].call(call, request_)) == "ARGUMENT_INVALID"


def test_the_documentation_has_the_table():
    assert render_rights() in DOCS.read_text(), "put the output of render_rights into docs/fleet.md"

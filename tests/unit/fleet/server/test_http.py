"""The HTTP side: metrics, health, mounted routes, and requests that make no sense."""

import contextlib
import http.client
import json
import re
import socket
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.support.fleets import declared, in_memory, until

from halocline.errors import HaloclineError, IncompatibleError, InputError, UnavailableError
from halocline.fleet.core.clock import SystemClock
from halocline.fleet.core.ladder_state import Policy
from halocline.fleet.core.ladders import shipped
from halocline.fleet.core.state import FleetTerms, LevelRange, Provenance, Report
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.member.link import Link, LinkError
from halocline.fleet.member.loop import MemberLoop
from halocline.fleet.server.auth import Access, Grant, Right, digest, rights
from halocline.fleet.server.connections import MOST_OF_ONE
from halocline.fleet.server.hosting import Config, address, embedded
from halocline.fleet.server.http import LARGEST_BODY, body_of, require, service_of
from halocline.fleet.store import open_fleet_store
from halocline.fleet.wire.endpoint import Endpoint

ACCESS = Access({digest("s"): Grant("posters", rights(["join"]))}, anonymous=rights(["observe"]))

ACCESS_ONLY = Access({digest("s"): Grant("posters", rights(["join"]))})


async def post(request):
    who = await require(request, Right.JOIN)
    data = await body_of(request)
    return JSONResponse({"who": who, "bytes": len(data), "epoch": service_of(request).coordinator.epoch})


async def refuse(request):
    raise IncompatibleError("it does not fit", next_step="Upgrade.")


async def bug(request):
    raise RuntimeError("a secret detail")


def routes(_):
    return [
        Route("/api/v1/post", post, methods=["POST"]),
        Route("/api/v1/refuse", refuse),
        Route("/api/v1/bug", bug),
    ]


@pytest.fixture(scope="module")
def hosting():
    config = in_memory(http="127.0.0.1:0", access=ACCESS, routes=routes)
    with embedded(config) as running:
        yield running


def call(hosting, method, path, body=b"", headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", hosting.http_port, timeout=60)
    try:
        sent = {"Content-Type": "application/json", **(headers or {})} if method == "POST" else headers or {}
        connection.request(method, path, body, sent)
        response = connection.getresponse()
        return response.status, response.read(), response
    finally:
        connection.close()


def test_health_says_who_is_active(hosting):
    status, body, _ = call(hosting, "GET", "/health")
    assert status == 200
    where = f"127.0.0.1:{hosting.port}"
    expected = {"live": True, "ready": True, "why": "", "active": True, "epoch": 1, "at": where}
    assert json.loads(body) == expected
    assert call(hosting, "GET", "/health/active")[0] == 200


class Unreachable:
    """A store that was reached, and is not any more."""

    problem = None

    def __init__(self, store):
        self._store = store

    def renew(self, epoch):
        if self.problem is not None:
            raise self.problem
        self._store.renew(epoch)

    def __getattr__(self, name):
        return getattr(self._store, name)


def test_health_says_why_it_is_not_ready_and_recovers(monkeypatch):
    store = Unreachable(open_fleet_store(":memory:"))
    monkeypatch.setattr(type(store._store), "renew_every_s", 0.02)

    def health():
        status, body, _ = call(hosting, "GET", "/health")
        facts = json.loads(body)
        return status, facts["live"], facts["ready"], facts["why"]

    with embedded(in_memory(store="", http="127.0.0.1:0"), store=store) as hosting:
        assert health() == (200, True, True, "")
        store.problem = UnavailableError("the store at db:5432 failed")
        until(lambda: health() == (503, True, False, "the store at db:5432 failed"), "it says so")
        store.problem = None
        until(lambda: health() == (200, True, True, ""), "it is ready again")


def metrics(hosting):
    status, body, response = call(hosting, "GET", "/metrics")
    assert status == 200
    assert response.getheader("content-type").startswith("text/plain")
    found = {}
    for line in body.decode().splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            found[name] = float(value)
    return found


def test_metrics_tell_levels_members_and_refusals():
    with embedded(in_memory(http="127.0.0.1:0")) as hosting:
        report = Report("etl", 0, "hudi@1.0.2", supported={"hudi": LevelRange(6, 8)})
        with MemberLoop(hosting.address, report):
            old = MemberLoop(hosting.address, Report("old", 0, "hudi@0.12.0", supported={"hudi": LevelRange(4, 5)}))
            with pytest.raises(IncompatibleError):
                old.start()
            until(lambda: metrics(hosting)["halocline_heartbeats_total"], "a heartbeat is answered")
            found = metrics(hosting)
    assert found['halocline_fleet_level_info{downgrade="none",ladder="hudi",level="6",policy="manual"}'] == 1
    assert found['halocline_feature_finalized_level{feature="hudi"}'] == 6
    assert found['halocline_members{client="hudi",provenance="reported"}'] == 1
    assert found['halocline_feature_supported_max_level{client="hudi",feature="hudi"}'] == 8
    assert found['halocline_gate_denied_total{gate="hudi=6"}'] == 1
    assert found['halocline_incompatible_sightings_total{client="hudi"}'] == 1
    assert found['halocline_handshakes_total{outcome="INCOMPATIBLE_VERSION"}'] == 1
    assert found["halocline_sessions"] == 1
    assert found["halocline_heartbeats_total"] >= 1
    assert found["halocline_coordinator_active"] == 1
    assert found["halocline_epoch"] == 1


def test_every_metric_has_our_prefix(hosting):
    assert all(name.startswith("halocline_") for name in metrics(hosting))


def test_no_label_of_a_metric_comes_from_a_caller():
    with embedded(in_memory(http="127.0.0.1:0")) as hosting:
        supported = {"mine": LevelRange(1, 2), "hudi": LevelRange(6, 8)}
        report = Report("invented", 0, "invented@6.6.6", "invented", supported, features=frozenset({"invented"}))
        with MemberLoop(hosting.address, report), AdminClient(hosting.address, "invented") as admin:
            admin.observe(
                replace(declared("invented-too", "invented@7", "invented/table"), provenance=Provenance.INFERRED)
            )
            needy = MemberLoop(hosting.address, replace(report, identity="needy", needs=frozenset({"invented"})))
            with pytest.raises(IncompatibleError):
                needy.start()
            with pytest.raises(HaloclineError):
                admin.raise_level("invented", 3)
            hosting.service.metrics.incompatible("invented@1")
            found = metrics(hosting)
    assert not [name for name in found if "invented" in name or "mine" in name]
    assert found['halocline_members{client="other",provenance="reported"}'] == 1
    assert found['halocline_gate_denied_total{gate="other"}'] == 1


def test_a_mounted_route_knows_the_service_and_who_calls(hosting):
    allowed = {"Authorization": "Bearer s"}
    status, body, _ = call(hosting, "POST", "/api/v1/post", b"x" * 10, allowed)
    assert (status, json.loads(body)) == (200, {"who": "posters", "bytes": 10, "epoch": 1})
    for headers, expected in (
        ({}, 403),
        ({"Authorization": "Bearer guess"}, 401),
        ({"Authorization": "Bearer a.b.c"}, 401),
    ):
        status, body, _ = call(hosting, "POST", "/api/v1/post", b"", headers)
        assert status == expected, body


def test_a_body_that_is_too_large_is_refused(hosting):
    status, body, _ = call(hosting, "POST", "/api/v1/post", b"x" * (LARGEST_BODY + 1), {"Authorization": "Bearer s"})
    assert (status, json.loads(body)["error"]["condition"]) == (400, "ARGUMENT_INVALID")


def test_errors_are_told_with_their_condition_and_bugs_without_details(hosting):
    status, body, _ = call(hosting, "GET", "/api/v1/refuse")
    assert status == 409
    assert json.loads(body)["error"]["next"] == "Upgrade."
    status, body, _ = call(hosting, "GET", "/api/v1/bug")
    assert status == 500
    assert b"secret detail" not in body


PATHS = st.sampled_from(
    ["/metrics", "/health", "/api/v1/post", "/api/v1/refuse", "/", "/api", "/metrics/", "//metrics"]
)
PIECES = st.text("abc./%20?&=#~'\"<>", max_size=30)
HEADERS = st.dictionaries(
    st.sampled_from(["Authorization", "Content-Type", "Accept", "X-Forwarded-For", "LevelRange", "Expect"]),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60),
    max_size=4,
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "BREW"]),
    path=PATHS,
    extra=PIECES,
    body=st.binary(max_size=200),
    headers=HEADERS,
)
def test_no_request_makes_the_server_fail(hosting, method, path, extra, body, headers):
    target = path + re.sub(r"\s", "", extra)
    headers.pop("Expect", None)
    status, _, _ = call(hosting, method, target, body, headers)
    assert status < 500, f"{method} {target}"
    assert hosting.service.active


@pytest.mark.parametrize(
    "data", [b"\0" * 100, b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01 not http", b"GET " + b"a" * 100_000]
)
def test_bytes_that_are_no_http_harm_nobody(hosting, data):
    with socket.create_connection(("127.0.0.1", hosting.http_port), timeout=60) as connection:
        connection.sendall(data)
        connection.settimeout(2)
        with contextlib.suppress(TimeoutError, ConnectionError):
            connection.recv(1000)
    assert call(hosting, "GET", "/health")[0] == 200


@pytest.mark.parametrize(
    "sent", [b"GET /hea", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /hea"], ids=["first", "second"]
)
def test_whoever_sends_half_a_request_is_cut_off(hosting, sent, monkeypatch):
    monkeypatch.setattr("halocline.fleet.server.http._PATIENCE_S", 0.2)
    with socket.create_connection(("127.0.0.1", hosting.http_port), timeout=30) as connection:
        connection.sendall(sent)
        while connection.recv(1000):
            pass
    assert call(hosting, "GET", "/health")[0] == 200


def test_whoever_holds_connections_open_keeps_nobody_from_asking_for_health():
    with contextlib.ExitStack() as stack, embedded(in_memory(http="127.0.0.1:0", access=ACCESS_ONLY)) as hosting:
        for _ in range(MOST_OF_ONE + 60):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", hosting.http_port), timeout=30))
            connection.sendall(b"GET /health HT")
        for _ in range(3):
            assert call(hosting, "GET", "/health")[0] == 200


def skewed(hosting, secret, name, hours=5):
    """A handshake of a caller whose date is wrong, which is refused."""
    clock = ShiftedDate()
    clock.ahead = hours * 3_600_000
    with pytest.raises(LinkError, match="clock"):
        Link(Endpoint.parse(hosting.address, secret=secret), name, "operator", clock=clock).handshake()


class ShiftedDate(SystemClock):
    """The machine's clock with another date."""

    ahead = 0

    def wall(self):
        return super().wall() + self.ahead


def test_no_caller_alone_makes_a_coordinator_unhealthy_by_its_date():
    secrets = {digest("v"): Grant("viewer", rights(["observe"])), digest("j"): Grant("joiner", rights(["join"]))}
    with embedded(in_memory(http="127.0.0.1:0", access=Access(secrets))) as hosting:
        for secret in ("v", "j"):
            for name in ("x", "y", "z"):
                skewed(hosting, secret, name)
        assert call(hosting, "GET", "/health")[0] == 200


def test_a_coordinator_is_unhealthy_if_the_dates_of_several_who_may_join_contradict_its_own():
    secrets = {digest(name): Grant(name, rights(["join"])) for name in "abc"}
    with embedded(in_memory(http="127.0.0.1:0", access=Access(secrets))) as hosting:
        for name in "ab":
            skewed(hosting, name, name)
        assert call(hosting, "GET", "/health")[0] == 200
        skewed(hosting, "c", "c")
        status, body, _ = call(hosting, "GET", "/health")
    assert (status, json.loads(body)["why"]) == (503, "the dates of most callers are 18,000 s ahead of ours")


def flood(connection):
    """Asks for ever and reads nothing."""
    while True:
        connection.sendall(1_000 * b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")


def test_whoever_does_not_read_what_it_asked_for_is_cut_off(hosting, monkeypatch):
    monkeypatch.setattr("halocline.fleet.server.http._PATIENCE_S", 0.2)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(120)
        connection.connect(("127.0.0.1", hosting.http_port))
        with pytest.raises(ConnectionError):
            flood(connection)
    assert call(hosting, "GET", "/health")[0] == 200


def test_a_body_that_does_not_arrive_is_not_waited_for(hosting, monkeypatch):
    monkeypatch.setattr("halocline.fleet.server.http._PATIENCE_S", 0.2)
    head = "POST /api/v1/post HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", hosting.http_port), timeout=30) as connection:
        connection.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert b" 408 " in connection.recv(1000).splitlines()[0]


# Hosting.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"listen": "0.0.0.0:0"}, "nothing would be encrypted"),
        ({"listen": "[::]:0"}, "nothing would be encrypted"),
        ({"listen": "example.org:0"}, "nothing would be encrypted"),
        ({"http": "0.0.0.0:0"}, "nothing would be encrypted"),
        ({"listen": "127.0.0.1"}, "no address"),
        ({"listen": "127.0.0.1:99999"}, "no address"),
    ],
)
def test_a_port_for_other_machines_needs_tls_and_an_access_file(options, message):
    with pytest.raises(InputError, match=message):
        Config(**options)


def test_other_machines_are_allowed_if_somebody_says_so():
    assert Config(listen="0.0.0.0:0", insecure=True).insecure
    assert address("[::1]:5") == ("::1", 5)


def test_whoever_listens_on_every_address_tells_others_one_that_they_can_call():
    with embedded(in_memory(listen="0.0.0.0:0", http="[::]:0", insecure=True)) as hosting:
        name = socket.gethostname()
        assert hosting.service.active_address == f"{name}:{hosting.port}"
        assert hosting.address == f"grpc://{name}:{hosting.port}"
        assert hosting.http_address == f"http://{name}:{hosting.http_port}"
    with embedded(in_memory(listen="[::1]:0")) as hosting:
        assert hosting.address == f"grpc://[::1]:{hosting.port}"
        assert AdminClient(hosting.address).describe().coordinator == f"[::1]:{hosting.port}"


def test_metrics_for_other_machines_need_the_right_to_see_the_fleet():
    config = in_memory(http="0.0.0.0:0", access=ACCESS_ONLY, insecure=True)
    with embedded(config) as hosting:
        assert call(hosting, "GET", "/metrics")[0] == 401
        assert call(hosting, "GET", "/metrics", headers={"Authorization": "Bearer s"})[0] == 200
        assert call(hosting, "GET", "/health")[0] == 200


def test_a_port_that_is_taken_is_an_error_and_the_store_is_let_go(tmp_path):
    store = str(tmp_path / "fleet.db")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = f"127.0.0.1:{taken.getsockname()[1]}"
        for options in ({"listen": busy, "http": ""}, {"listen": "127.0.0.1:0", "http": busy}):
            with pytest.raises(InputError, match="cannot listen"), embedded(Config(store=store, **options)):
                pass
    with embedded(Config(store=store, listen="127.0.0.1:0", http="")) as hosting:
        assert hosting.service.active


def test_a_new_fleet_takes_the_policy_and_terms_it_is_started_with():
    config = in_memory(policy=Policy.AUTO, terms=FleetTerms(lease=500, margin=50))
    with embedded(config) as hosting:
        fleet = hosting.service.state().fleet
    assert {each.policy for each in fleet.ladder_states.values()} == {Policy.AUTO}
    assert set(fleet.ladder_states) == set(shipped())
    assert fleet.terms.lease == 500

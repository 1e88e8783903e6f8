"""The gRPC side: bad input is refused with a typed status, logged and bounded; rights, TLS, health, reflection."""

import contextlib
import http.client
import itertools
import json
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request

import grpc
import pytest
from cryptography.hazmat.primitives import serialization
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status
from tests.support.certificates import certificate, write_files
from tests.support.fleets import in_memory, until

from halocline.errors import DeniedError, UnavailableError
from halocline.fleet.answers import AuditQuery
from halocline.fleet.core.clock import ManualClock
from halocline.fleet.core.effects import Refusal
from halocline.fleet.core.state import LevelRange, Report
from halocline.fleet.member.admin import AdminClient
from halocline.fleet.member.loop import MemberLoop
from halocline.fleet.server import grpc_server
from halocline.fleet.server.audit import StrangerLog
from halocline.fleet.server.auth import Access, Claims, Grant, Right, Tokens, digest, rights
from halocline.fleet.server.grpc_server import Tls
from halocline.fleet.server.hosting import Config, embedded
from halocline.fleet.server.rights import RIGHTS
from halocline.fleet.server.service import ServiceSettings
from halocline.fleet.store import open_fleet_store
from halocline.fleet.wire.endpoint import Endpoint
from halocline.fleet.wire.handshake import Role, Wire
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb
from halocline.fleet.wire.values import to_message

SECRETS = {name: f"secret of {name}" for name in Right}
ACCESS = Access({digest(SECRETS[name]): Grant(name, rights([name])) for name in Right})
CALLS = [
    (service.full_name, method) for service in pb.DESCRIPTOR.services_by_name.values() for method in service.methods
]
REPORT = Report("etl", 0, "halocline@0.1.0", supported={"hudi": LevelRange(6, 9)})


@pytest.fixture(scope="module")
def hosting():
    config = in_memory(access=ACCESS)
    with embedded(config) as running:
        yield running


@pytest.fixture
def channel(hosting):
    with grpc.insecure_channel(f"127.0.0.1:{hosting.port}") as opened:
        yield opened


_lives = itertools.count(int(time.time() * 1000) - 1_000_000)


def _life():
    """An incarnation that was not used before."""
    return next(_lives)


def handshake(channel, right=Right.JOIN, **changes):
    """A member's or operator's handshake; whatever is given in `changes` replaces its fields."""
    wire = Wire.current()
    joining = right is Right.JOIN and "membership" not in changes
    request = pb.HandshakeRequest(
        client=to_message(wire.client(Role.MEMBER if joining else Role.OPERATOR), pb.Peer),
        identity="etl",
        role="reader",
        secret=SECRETS[right],
        clock_ms=int(time.time() * 1000),
        membership=to_message(REPORT, pb.Membership) if joining else None,
    )
    if joining:
        request.membership.incarnation = _life()
    for name, value in changes.items():
        if value is None:
            request.ClearField(name)
        elif name in ("client", "membership"):
            getattr(request, name).CopyFrom(value)
        else:
            setattr(request, name, value)
    call = channel.unary_unary(
        "/halocline.fleet.v1.Fleet/Handshake",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=pb.HandshakeResponse.FromString,
    )
    return call(request, timeout=60)


def refused(call):
    """The code, the condition and the violations that a call is refused with."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    status = rpc_status.from_call(caught.value)
    assert status is not None, f"not a typed refusal: {caught.value}"
    info, failure = error_details_pb2.ErrorInfo(), error_details_pb2.PreconditionFailure()
    for detail in status.details:
        detail.Unpack(info) or detail.Unpack(failure)
    assert info.domain == "halocline"
    return caught.value.code(), info.reason, [(each.type, each.subject) for each in failure.violations]


def raw(channel, service, method, data=b"", token="", pieces=None):
    """Calls a method with bytes as they are and returns the answer's bytes."""
    path = f"/{service}/{method.name}"
    options = {"timeout": 10, "metadata": (("authorization", f"Bearer {token}"),)}
    up = iter(pieces if pieces is not None else [data])
    if method.client_streaming and method.server_streaming:
        return b"".join(channel.stream_stream(path)(up, **options))
    if method.client_streaming:
        return channel.stream_unary(path)(up, **options)
    if method.server_streaming:
        return b"".join(channel.unary_stream(path)(data, **options))
    return channel.unary_unary(path)(data, **options)


METHODS = pytest.mark.parametrize(("service", "method"), CALLS, ids=[method.name for _, method in CALLS])


@METHODS
def test_garbage_is_an_invalid_argument(channel, hosting, service, method):
    token = handshake(channel).token if method.name == "Session" else handshake(channel, Right.FORCE).token
    if RIGHTS.get(method.name) is Right.JOIN:
        token = handshake(channel).token
    code, condition, _ = refused(lambda: raw(channel, service, method, b"\xff\xff\xff garbage", token))
    assert (code, condition) == (grpc.StatusCode.INVALID_ARGUMENT, "ARGUMENT_INVALID")


@METHODS
@pytest.mark.parametrize("token", ["", "forged", "a.b.c"])
def test_without_a_good_token_nothing_is_answered(channel, service, method, token):
    if method.name == "Handshake":
        return
    code, condition, _ = refused(lambda: raw(channel, service, method, b"", token))
    assert (code, condition) == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID")


@METHODS
def test_a_call_needs_its_right(channel, hosting, service, method):
    if method.name == "Handshake":
        return
    lacking = Right.JOIN if RIGHTS[method.name] is not Right.JOIN else Right.PLAN
    if RIGHTS[method.name] is Right.OBSERVE:
        token = token_of(hosting, frozenset())
    else:
        token = handshake(channel, lacking).token
    code, condition, _ = refused(lambda: raw(channel, service, method, b"", token))
    assert (code, condition) == (grpc.StatusCode.PERMISSION_DENIED, "DENIED")


def token_of(hosting, may, *, expires=10**6, epoch=1):
    now = hosting.service.clock.now()
    shown = hosting.service.access.credential(SECRETS[Right.FORCE])
    claims = Claims("etl", 0, "reader", "x@1", epoch, "force", may, now + expires, shown)
    return hosting.service.tokens().issue(claims)


def describe(channel, token):
    call = channel.unary_unary("/halocline.fleet.v1.Admin/Describe")
    return call(b"", timeout=60, metadata=(("authorization", f"Bearer {token}"),))


def test_an_expired_token_is_refused(channel, hosting):
    token = token_of(hosting, rights(["observe"]), expires=-60_000)
    assert refused(lambda: describe(channel, token))[:2] == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID")


def test_a_token_of_another_fleet_is_refused(channel, hosting):
    claims = Claims("etl", 1, "reader", "x@1", 1, "test", rights(["force"]), hosting.service.clock.now() + 10**6)
    token = Tokens({"k": b"x" * 32}).issue(claims)
    assert refused(lambda: describe(channel, token))[:2] == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID")


def test_a_token_from_a_later_epoch_sends_the_caller_to_look_again(channel, hosting):
    token = token_of(hosting, rights(["observe"]), epoch=99)
    assert refused(lambda: describe(channel, token))[0] == grpc.StatusCode.UNAVAILABLE


def test_a_token_carries_who_it_is_and_what_it_was_admitted_with(channel, hosting):
    response = handshake(channel)
    claims = hosting.service.tokens().check(response.token, hosting.service.clock.now())
    assert (claims.identity, claims.role, claims.release) == ("etl", "reader", "halocline@0.1.0")
    assert claims.incarnation > 0
    assert claims.epoch == response.epoch == 1
    assert claims.rights == rights(["join"])
    assert response.token_expires_ms - hosting.service.clock.now() <= 15 * 60_000


# The handshake.


@pytest.mark.parametrize("secret", ["", "wrong", "x" * 10_000])
def test_a_wrong_secret_is_not_let_in_and_written_down(channel, hosting, secret):
    found = refused(lambda: handshake(channel, secret=secret))
    assert found[:2] == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID")
    assert audit(hosting, refused_only=True)[0].action == "handshake"


def test_a_secret_without_the_right_to_join_is_denied(channel):
    member = to_message(REPORT, pb.Membership)
    found = refused(lambda: handshake(channel, Right.OBSERVE, membership=member))
    assert found[:2] == (grpc.StatusCode.PERMISSION_DENIED, "DENIED")


def audit(hosting, **query):
    with AdminClient(Endpoint((f"127.0.0.1:{hosting.port}",), secret=SECRETS["force"])) as client:
        return client.audit(AuditQuery(**query))


@pytest.mark.parametrize("hours", [1, -1, 24 * 365, -24 * 365 * 40])
def test_a_clock_an_hour_off_is_refused_and_written_down(channel, hosting, hours):
    clock = int((time.time() + 3600 * hours) * 1000)
    code, condition, violations = refused(lambda: handshake(channel, clock_ms=clock))
    assert (code, condition) == (grpc.StatusCode.FAILED_PRECONDITION, "CLOCK_SKEW")
    assert violations == [("CLOCK_SKEW", "etl")]
    assert audit(hosting, refused_only=True)[0].refused == "CLOCK_SKEW"


def test_a_coordinator_whose_date_most_callers_contradict_is_not_ready_until_it_is_right():
    access = Access({digest(name): Grant(name, rights(["join"])) for name in ("etl", "load", "bi")})
    with embedded(in_memory(access=access)) as hosting, grpc.insecure_channel(f"127.0.0.1:{hosting.port}") as channel:

        def call(name, minutes):
            clock = int((time.time() + 60 * minutes) * 1000)
            with contextlib.suppress(grpc.RpcError):
                handshake(channel, secret=name, identity=name, clock_ms=clock)

        for name in ("etl", "load"):
            call(name, -11)
        assert hosting.service.unready() == "", "two may both be wrong"
        call("bi", -11)
        assert "660 s behind ours" in hosting.service.unready()
        call("etl", 0)
        assert "660 s behind ours" in hosting.service.unready(), "one of three agrees"
        call("bi", 0)
        assert hosting.service.unready() == ""


@pytest.mark.parametrize("version", ["", "0.0.0", "nightly", "0.0.1"])
def test_an_unknown_or_zero_client_version_never_passes(channel, version):
    peer = to_message(Wire.current().client(Role.MEMBER), pb.Peer)
    peer.version = version
    code, condition, violations = refused(lambda: handshake(channel, client=peer))
    assert (code, condition) == (grpc.StatusCode.FAILED_PRECONDITION, "VERSION_UNKNOWN")
    assert violations[0][0] == "VERSION_UNKNOWN"


@pytest.mark.parametrize("release", ["", "nightly", "halocline@0.0.0", "@1"])
def test_an_unknown_or_zero_release_never_joins(channel, release):
    member = pb.Membership(incarnation=_life(), release=release)
    wire = to_message(Wire.current().client(Role.MEMBER), pb.Peer)
    found = refused(lambda: handshake(channel, membership=member, client=wire))
    assert found[:2] == (grpc.StatusCode.FAILED_PRECONDITION, "VERSION_UNKNOWN")


def test_a_client_that_needs_a_feature_the_server_lacks_is_told_which(channel, hosting):
    peer = to_message(Wire.current().client(Role.MEMBER), pb.Peer)
    peer.requires.append(pb.Feature(name="member/telepathy", level=1))
    code, condition, violations = refused(lambda: handshake(channel, client=peer))
    assert (code, condition) == (grpc.StatusCode.FAILED_PRECONDITION, "INCOMPATIBLE_VERSION")
    assert violations == [("FEATURE_MISSING", "member/telepathy")]
    assert audit(hosting, refused_only=True)[0].subject == "member/telepathy"


def test_a_member_below_the_level_is_told_the_level(channel):
    member = pb.Membership(incarnation=_life(), release="hudi@0.12.0", supported={"hudi": pb.LevelRange(lo=4, hi=5)})
    wire = to_message(Wire.current().client(Role.MEMBER), pb.Peer)
    code, condition, violations = refused(lambda: handshake(channel, membership=member, client=wire, identity="old"))
    assert (code, condition) == (grpc.StatusCode.FAILED_PRECONDITION, "INCOMPATIBLE_VERSION")
    assert violations == [("BELOW_CLUSTER_VERSION", "hudi=6")]


def test_a_replayed_incarnation_is_refused(channel):
    wire = to_message(Wire.current().client(Role.MEMBER), pb.Peer)
    member = to_message(REPORT, pb.Membership)
    member.incarnation = _life()
    handshake(channel, membership=member, client=wire, identity="once")
    handshake(channel, membership=member, client=wire, identity="once")
    member.incarnation -= 1
    code, condition, _ = refused(lambda: handshake(channel, membership=member, client=wire, identity="once"))
    assert (code, condition) == (grpc.StatusCode.FAILED_PRECONDITION, "INCARNATION_REPLAYED")


@pytest.mark.parametrize("identity", ["", "../../etc/passwd", "/abs", "a/b", "x" * 10_000, "a\0b", "é"])
def test_ids_that_look_like_paths_are_invalid(channel, identity):
    code, condition, _ = refused(lambda: handshake(channel, identity=identity))
    assert (code, condition) == (grpc.StatusCode.INVALID_ARGUMENT, "ARGUMENT_INVALID")


def test_huge_feature_lists_are_invalid(channel):
    peer = to_message(Wire.current().client(Role.MEMBER), pb.Peer)
    peer.provides.extend(pb.Feature(name=f"f{n}", level=1) for n in range(10_000))
    assert refused(lambda: handshake(channel, client=peer))[0] == grpc.StatusCode.INVALID_ARGUMENT


def test_a_message_larger_than_the_limit_is_not_even_read(channel, hosting):
    with pytest.raises(grpc.RpcError) as caught:
        handshake(channel, secret="x" * (2 << 20))
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_refusals_of_strangers_are_counted_apart_and_push_no_decision_out(monkeypatch):
    monkeypatch.setattr("halocline.fleet.store.audit_log.MOST_ENTRIES", 20)
    access = Access(secrets={digest("o"): Grant("operators", rights(["raise"]))})
    with (
        embedded(in_memory(access=access)) as hosting,
        AdminClient(Endpoint.parse(hosting.address, secret="o"), "ann") as admin,
        grpc.insecure_channel(f"127.0.0.1:{hosting.port}") as channel,
    ):
        admin.raise_level("delta", 2, reason="the decision")
        for _ in range(100):
            with pytest.raises(grpc.RpcError):
                handshake(channel, secret="guess")
        refusals = admin.audit(AuditQuery(refused_only=True))
        hosting.service.store.prune_audit(hosting.service.coordinator.epoch, hosting.service.clock.now())
        entries = admin.whole_audit()
    assert [each.detail for each in entries if each.action == "raise"] == ["delta 1 to 2 the decision"]
    assert [entry for entry in entries if entry.refused] == []
    assert [(each.actor, each.action, each.refused) for each in refusals] == [
        ("127.0.0.1", "handshake", "TOKEN_INVALID")
    ]
    assert "(100 times)" in refusals[0].detail


def test_kinds_of_refusals_that_are_too_many_to_be_told_apart_are_counted_together(monkeypatch):
    monkeypatch.setattr("halocline.fleet.server.audit._MOST_KINDS", 2)
    log = StrangerLog(ManualClock(5))
    for number in range(5):
        log.note(f"ipv4:10.0.0.{number}:{5000 + number}", "handshake", Refusal("TOKEN_INVALID", "forged"))
    log.note("ipv6:[::1]:9", "handshake", Refusal("TOKEN_INVALID", "forged"))
    assert {call.actor: call.times for call in log.take()} == {"10.0.0.0": 1, "10.0.0.1": 1, "others": 4}
    assert log.dropped == 4
    assert log.take() == ()


def test_whoever_connects_and_says_nothing_is_cut_off(monkeypatch):
    options = [*(each for each in grpc_server._OPTIONS if "handshake" not in each[0]), (HANDSHAKE, 200)]
    assert {name for name, _ in options} == {name for name, _ in grpc_server._OPTIONS}
    monkeypatch.setattr(grpc_server, "_OPTIONS", tuple(options))
    with (
        embedded(in_memory(access=ACCESS)) as hosting,
        socket.create_connection(("127.0.0.1", hosting.port), timeout=30) as connection,
    ):
        while connection.recv(1000):
            pass


HANDSHAKE = "grpc.server_handshake_timeout_ms"


# Sessions.


def test_a_session_needs_a_membership(channel):
    token = handshake(channel, Right.JOIN, membership=None).token
    session = next(method for _, method in CALLS if method.name == "Session")
    code, condition, _ = refused(lambda: raw(channel, "halocline.fleet.v1.Fleet", session, b"", token))
    assert (code, condition) == (grpc.StatusCode.INVALID_ARGUMENT, "ARGUMENT_INVALID")


@pytest.mark.parametrize(
    "up", [b"\xff\xff", b"", pb.Up(heartbeat=pb.Heartbeat(views={f"l{n}": pb.View() for n in range(99)}))]
)
def test_what_is_no_heartbeat_ends_the_session(channel, up):
    token = handshake(channel).token
    session = next(method for _, method in CALLS if method.name == "Session")
    data = up if isinstance(up, bytes) else up.SerializeToString()
    code, _, _ = refused(lambda: raw(channel, "halocline.fleet.v1.Fleet", session, data, token))
    assert code == grpc.StatusCode.INVALID_ARGUMENT


def test_a_session_that_beats_too_fast_ends(channel, monkeypatch):
    monkeypatch.setattr("halocline.fleet.server.sessions._MOST_BEATS_PER_SECOND", 1)
    token = handshake(channel).token
    session = next(method for _, method in CALLS if method.name == "Session")
    pieces = (pb.Up(heartbeat=pb.Heartbeat(seq=n + 1)).SerializeToString() for n in range(500))
    code, condition, _ = refused(lambda: raw(channel, "halocline.fleet.v1.Fleet", session, token=token, pieces=pieces))
    assert (code, condition) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY")


def test_a_session_begins_with_the_standing_and_a_marker(channel):
    token = handshake(channel).token
    call = channel.stream_stream("/halocline.fleet.v1.Fleet/Session", response_deserializer=pb.Down.FromString)
    down = call(iter([]), timeout=60, metadata=(("authorization", f"Bearer {token}"),))
    first, second = next(down), next(down)
    down.cancel()
    assert {each.ladder for each in first.standing.announcements} == {"delta", "hudi", "index"}
    assert second.marker.epoch == 1


def test_half_way_through_its_life_a_token_is_replaced_on_the_session():
    settings = ServiceSettings(token_ms=400, tick_s=0.05)
    config = in_memory(access=ACCESS, settings=settings)
    with embedded(config) as hosting, grpc.insecure_channel(f"127.0.0.1:{hosting.port}") as channel:
        token = handshake(channel).token
        call = channel.stream_stream("/halocline.fleet.v1.Fleet/Session", response_deserializer=pb.Down.FromString)

        def beats():
            yield pb.Up(heartbeat=pb.Heartbeat(seq=1)).SerializeToString()
            time.sleep(0.5)
            yield pb.Up(heartbeat=pb.Heartbeat(seq=2)).SerializeToString()
            time.sleep(5)

        down = call(beats(), timeout=60, metadata=(("authorization", f"Bearer {token}"),))
        fresh = next(each.token.token for each in down if each.WhichOneof("what") == "token")
        down.cancel()
        assert hosting.service.tokens().check(fresh, hosting.service.clock.now()).identity == "etl"


# Taking away.


def only(*names):
    return Access({digest(SECRETS[name]): Grant(name, rights([name])) for name in names})


@pytest.fixture
def own():
    """A coordinator whose access a test may change."""
    settings = ServiceSettings(token_ms=400, tick_s=0.05)
    with embedded(in_memory(access=ACCESS, settings=settings)) as running:
        yield running


def change_access(hosting, access):
    done = threading.Event()
    hosting.loop.call_soon_threadsafe(lambda: (hosting.service.change_access(access), done.set()))
    assert done.wait(30)


def test_a_secret_that_was_removed_ends_sessions_and_calls_at_once(own):
    lost = []
    endpoint = Endpoint.parse(own.address, secret=SECRETS[Right.JOIN])
    operator = Endpoint.parse(own.address, secret=SECRETS[Right.RAISE])
    with MemberLoop(endpoint, REPORT, on_lost=lost.append) as member, AdminClient(operator, "ann") as admin:
        assert admin.describe().epoch == 1
        change_access(own, only(Right.OBSERVE))
        with pytest.raises(DeniedError):
            admin.remove_member("etl", "a holder of a removed secret may not")
        until(lambda: lost, "the member is told")
        assert member.contact.final
    assert lost[0].condition == "TOKEN_INVALID"
    assert not own.service.sessions


def test_a_token_is_worth_what_its_secret_is_worth_now(own):
    with grpc.insecure_channel(f"127.0.0.1:{own.port}") as channel:
        token = handshake(channel, Right.FORCE, identity="ann").token
        remove = next(method for _, method in CALLS if method.name == "RemoveMember")
        asked = pb.RemoveMemberRequest(identity="nobody", reason="gone")
        call = lambda: raw(channel, "halocline.fleet.v1.Admin", remove, asked.SerializeToString(), token=token)  # noqa: E731
        assert refused(call)[1] == "NOT_FOUND"
        change_access(own, Access({digest(SECRETS[Right.FORCE]): Grant("force", rights(["observe"]))}))
        assert refused(call)[1] == "DENIED"
        change_access(own, only(Right.JOIN))
        assert refused(call)[1] == "TOKEN_INVALID"


def test_the_token_of_a_member_that_was_removed_is_good_for_nothing(own):
    with grpc.insecure_channel(f"127.0.0.1:{own.port}") as channel:
        token = handshake(channel).token
        users = next(method for _, method in CALLS if method.name == "TableUsers")
        call = lambda: raw(channel, "halocline.fleet.v1.Fleet", users, token=token)  # noqa: E731
        call()
        with AdminClient(Endpoint.parse(own.address, secret=SECRETS[Right.RAISE]), "ann") as admin:
            admin.remove_member("etl", "runs wild")
        assert refused(call)[1] == "TOKEN_INVALID"


def test_a_secret_speaks_only_for_its_own_members(own):
    change_access(own, Access({digest(SECRETS[Right.JOIN]): Grant("loads", rights(["join"]), ("load-*",))}))
    with grpc.insecure_channel(f"127.0.0.1:{own.port}") as channel:
        assert handshake(channel, identity="load-1").token
        assert refused(lambda: handshake(channel, identity="etl"))[:2] == (grpc.StatusCode.PERMISSION_DENIED, "DENIED")


def test_a_life_is_bound_to_the_credential_that_it_was_let_in_by(own):
    other = Access({digest("another"): Grant("others", rights(["join"])), **only(Right.JOIN).secrets})
    change_access(own, other)
    with grpc.insecure_channel(f"127.0.0.1:{own.port}") as channel:
        wire = to_message(Wire.current().client(Role.MEMBER), pb.Peer)
        member = to_message(REPORT, pb.Membership)
        member.incarnation = _life()
        assert handshake(channel, membership=member, client=wire).token
        assert handshake(channel, membership=member, client=wire).token, "its own join sent again is harmless"
        stolen = refused(lambda: handshake(channel, membership=member, client=wire, secret="another"))
        assert stolen[:2] == (grpc.StatusCode.FAILED_PRECONDITION, "INCARNATION_REPLAYED")


def test_a_life_cannot_begin_in_the_future_and_burn_its_identity(own):
    with grpc.insecure_channel(f"127.0.0.1:{own.port}") as channel:
        wire = to_message(Wire.current().client(Role.MEMBER), pb.Peer)
        member = to_message(REPORT, pb.Membership)
        member.incarnation = 2**62
        code, condition, _ = refused(lambda: handshake(channel, membership=member, client=wire))
        assert (code, condition) == (grpc.StatusCode.INVALID_ARGUMENT, "ARGUMENT_INVALID")
        assert handshake(channel).token


def test_the_access_file_is_read_again_when_it_changes_and_kept_when_it_is_broken(tmp_path):
    path = tmp_path / "access.toml"

    def let_in(secret):
        path.write_text(f'[secrets.ops]\nsha256 = "{digest(secret)}"\nrights = ["observe"]\n')

    let_in("old")
    with embedded(in_memory(access=path)) as hosting:
        old, new = (AdminClient(Endpoint.parse(hosting.address, secret=each), "ann") for each in ("old", "new"))
        with old, new:
            assert old.describe().epoch == 1
            path.write_text("broken [")
            hosting.loop.call_soon_threadsafe(hosting.reload)
            assert old.describe().epoch == 1
            let_in("new")
            until(lambda: answers_denied(old), "the old secret is no longer good")
        with AdminClient(Endpoint.parse(hosting.address, secret="new"), "ann") as again:
            assert again.describe().epoch == 1


def answers_denied(admin):
    try:
        admin.describe()
    except DeniedError:
        return True
    return False


# Around it.


def test_health_is_serving_on_the_active_coordinator(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    for service in ("", "halocline.fleet.v1.Fleet", "halocline.fleet.v1.Admin"):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=60)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_standby_is_not_serving_and_sends_callers_to_the_active_one():
    store = open_fleet_store(":memory:")
    config = Config(store="", listen="127.0.0.1:0", http="127.0.0.1:0")
    with embedded(config, store=store) as active, embedded(config, store=store) as standby:
        with grpc.insecure_channel(f"127.0.0.1:{standby.port}") as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)
            assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
        with urllib.request.urlopen(f"http://127.0.0.1:{standby.http_port}/health", timeout=30) as answer:
            facts = json.load(answer)
        assert (facts["ready"], facts["active"], facts["at"]) == (True, False, f"127.0.0.1:{active.port}")
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{standby.http_port}/health/active", timeout=30)
        assert caught.value.code == 503
        caught.value.close()
        with AdminClient(standby.address) as client:
            found = client.describe()
        assert found.coordinator == f"127.0.0.1:{active.port}"


def test_reflection_lists_the_services(channel):
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    answer = next(stub.ServerReflectionInfo(asked, timeout=60))
    names = {each.name for each in answer.list_services_response.service}
    assert {"halocline.fleet.v1.Fleet", "halocline.fleet.v1.Admin", "grpc.health.v1.Health"} <= names


# TLS.


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pki")
    authority = certificate("authority", authority=True)
    stranger = certificate("stranger", authority=True)
    parties = {
        "authority": authority,
        "server": certificate("fleet.example", authority),
        "spark": certificate("spark.example", authority),
        "nobody": certificate("nobody.example", authority),
        "stranger": certificate("spark.example", stranger),
    }
    for name, (key, made) in parties.items():
        (folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (folder / f"{name}.key").write_bytes(key.private_bytes(*encoding))
    return folder


def tls_config(pki, mutual):
    access = Access(certificates={"spark.example": Grant("spark.example", rights(["raise"]))})
    tls = Tls(pki / "server.pem", pki / "server.key", pki / "authority.pem" if mutual else None)
    return in_memory(access=access if mutual else ACCESS, tls=tls)


def connect(hosting, pki, name=None, authority="authority", secret=""):
    files = {"certificate": pki / f"{name}.pem", "key": pki / f"{name}.key"} if name else {}
    address = f"grpcs://127.0.0.1:{hosting.port}"
    endpoint = Endpoint.parse(address, secret=secret, authority=pki / f"{authority}.pem", **files)
    with AdminClient(endpoint, deadline=3) as client:
        return client.handshake()


def test_over_tls_a_secret_lets_in_and_an_unknown_authority_is_not_trusted(pki):
    with embedded(tls_config(pki, mutual=False)) as hosting:
        assert connect(hosting, pki, secret=SECRETS["raise"]).rights == {"raise", "plan", "observe"}
        with pytest.raises(UnavailableError):
            connect(hosting, pki, authority="stranger", secret=SECRETS["raise"])
        with pytest.raises(UnavailableError), AdminClient(f"grpc://127.0.0.1:{hosting.port}", deadline=2) as client:
            client.handshake()


def test_a_certificate_that_was_replaced_is_shown_to_whoever_connects_next(pki, tmp_path):
    def install(key, made):
        write_files(tmp_path, key, made)

    first, second = (certificate(name, authority=True) for name in ("first", "second"))
    for name, (_, made) in (("first", first), ("second", second)):
        (tmp_path / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    install(*certificate("fleet.example", first))
    tls = Tls(tmp_path / "server.pem", tmp_path / "server.key")
    with embedded(in_memory(access=ACCESS, tls=tls, http="0.0.0.0:0")) as hosting:

        def healthy(authority):
            trusted = ssl.create_default_context(cafile=tmp_path / f"{authority}.pem")
            try:
                place = f"https://127.0.0.1:{hosting.http_port}/health"
                return urllib.request.urlopen(place, context=trusted, timeout=30).status == 200
            except urllib.error.URLError:
                return False

        assert connect(hosting, tmp_path, authority="first", secret=SECRETS["raise"]).token
        assert healthy("first")
        install(*certificate("fleet.example", second))
        assert connect(hosting, tmp_path, authority="second", secret=SECRETS["raise"]).token
        until(lambda: healthy("second"), "HTTP shows the new one as well")
        (tmp_path / "server.pem").write_text("broken")
        assert connect(hosting, tmp_path, authority="second", secret=SECRETS["raise"]).token
        hosting.loop.call_soon_threadsafe(hosting.reload)
        assert healthy("second")


def test_http_for_other_machines_speaks_tls_with_the_same_certificate(pki):
    tls = Tls(pki / "server.pem", pki / "server.key")
    trusted = ssl.create_default_context(cafile=pki / "authority.pem")
    with embedded(in_memory(access=ACCESS, tls=tls, http="0.0.0.0:0")) as hosting:
        assert hosting.http_address.startswith("https://")
        place = f"//127.0.0.1:{hosting.http_port}/health"
        with urllib.request.urlopen(f"https:{place}", context=trusted, timeout=30) as answer:
            assert json.load(answer)["ready"]
        with pytest.raises((urllib.error.URLError, http.client.BadStatusLine, ConnectionError)):
            urllib.request.urlopen(f"http:{place}", timeout=30)


def test_over_mutual_tls_the_certificate_decides(pki):
    with embedded(tls_config(pki, mutual=True)) as hosting:
        assert connect(hosting, pki, "spark").rights == {"raise", "plan", "observe"}
        with pytest.raises(DeniedError):
            connect(hosting, pki, "nobody")
        for name in (None, "stranger"):
            with pytest.raises(UnavailableError):
                connect(hosting, pki, name)

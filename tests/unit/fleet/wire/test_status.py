"""Refusals as rich statuses and back, addresses of fleets, and what the environment says of them."""

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from halocline.errors import (
    CONDITIONS,
    ConflictError,
    DeniedError,
    IncompatibleError,
    InputError,
    InternalError,
    UnavailableError,
)
from halocline.fleet.core.effects import Refusal
from halocline.fleet.wire.endpoint import Endpoint
from halocline.fleet.wire.handshake import Objection, ObjectionKind
from halocline.fleet.wire.status import Rejection, failed_call, readable


class Failed(grpc.RpcError, grpc.Call):
    """A call that ended with a status, as a client sees it."""

    def __init__(self, code, details, trailing=()):
        self._code, self._details, self._trailing = code, details, trailing

    def code(self):
        return self._code

    def details(self):
        return self._details

    def trailing_metadata(self):
        return self._trailing

    def initial_metadata(self):
        return ()

    def is_active(self):
        return False

    def time_remaining(self):
        return None

    def cancel(self):
        return False

    def add_callback(self, callback):
        return False


def details(rejection):
    """What other programs find in the details: the facts of the refusal, and the violations."""
    data = dict(rejection.status().trailing_metadata)["grpc-status-details-bin"]
    info, failure = error_details_pb2.ErrorInfo(), error_details_pb2.PreconditionFailure()
    for detail in status_pb2.Status.FromString(data).details:
        detail.Unpack(info) or detail.Unpack(failure)
    return info.metadata, [(each.type, each.subject) for each in failure.violations]


def sent(rejection):
    status = rejection.status()
    return failed_call(Failed(status.code, status.details, status.trailing_metadata), "host:1")


@pytest.mark.parametrize("condition", sorted(CONDITIONS))
def test_every_condition_travels_with_its_facts(condition):
    refusal = Refusal(condition, "it does not fit", "hudi=8", (("you are", "x@1"), ("fleet", "8")), "x@2", "Use x@2.")
    found, (facts, _) = sent(Rejection(refusal)), details(Rejection(refusal))
    assert found.error.condition == condition
    assert found.error.message == "it does not fit"
    assert found.error.sides == {"you are": "x@1", "fleet": "8"}
    assert (facts["subject"], facts["fix"], found.error.next_step) == ("hudi=8", "x@2", "Use x@2.")


@pytest.mark.parametrize(
    ("condition", "subject", "code", "violation"),
    [
        ("INCOMPATIBLE_VERSION", "hudi=8", "FAILED_PRECONDITION", "BELOW_CLUSTER_VERSION"),
        ("INCOMPATIBLE_VERSION", "deletionVectors", "FAILED_PRECONDITION", "FEATURE_MISSING"),
        ("HELD", "hudi=8", "FAILED_PRECONDITION", "HELD"),
        ("STALE_EPOCH", "", "FAILED_PRECONDITION", "STALE_EPOCH"),
        ("VERSION_UNKNOWN", "", "FAILED_PRECONDITION", "VERSION_UNKNOWN"),
        ("TOKEN_INVALID", "", "UNAUTHENTICATED", None),
        ("DENIED", "", "PERMISSION_DENIED", None),
        ("ARGUMENT_INVALID", "", "INVALID_ARGUMENT", None),
        ("UNAVAILABLE", "", "UNAVAILABLE", None),
        ("TOO_MANY", "", "RESOURCE_EXHAUSTED", None),
    ],
)
def test_conditions_have_their_code_and_violation(condition, subject, code, violation):
    rejection = Rejection(Refusal(condition, "no", subject))
    assert sent(rejection).code.name == code
    assert [kind for kind, _ in details(rejection)[1]] == ([violation] if violation else [])


def test_objections_of_a_handshake_become_violations():
    objections = (
        Objection(ObjectionKind.FEATURE_REMOVED, "a", "gone", "Upgrade the client to 2"),
        Objection(ObjectionKind.MIN_CLIENT_VERSION, "2", "accepts from 2"),
    )
    _, violations = details(Rejection(Refusal("INCOMPATIBLE_VERSION", "gone", "a"), objections))
    assert violations == [("FEATURE_REMOVED", "a"), ("MIN_CLIENT_VERSION", "2")]


def test_a_refusal_with_hundreds_of_sides_fits_into_headers():
    sides = tuple((f"member-{n}", "x" * 1000) for n in range(500))
    objections = tuple(Objection(ObjectionKind.FEATURE_MISSING, "f" * 500, "t" * 500, "u" * 500) for _ in range(100))
    refusal = Refusal("LEVEL_BLOCKED", "m" * 5000, "s" * 5000, sides, "f" * 5000, "n" * 5000)
    rejection = Rejection(refusal, objections)
    data = dict(rejection.status().trailing_metadata)["grpc-status-details-bin"]
    assert len(data) < 6000
    assert status_pb2.Status.FromString(data).code == 9
    found = sent(rejection)
    assert found.error.sides["and"].endswith("more")


def test_hints_and_transience_are_for_programs():
    found = sent(Rejection(Refusal("UNAVAILABLE", "standing by"), hints=(("active", "b:1"),)))
    assert (found.hints["active"], found.transient) == ("b:1", True)
    assert not sent(Rejection(Refusal("INCOMPATIBLE_VERSION", "no"))).transient


@pytest.mark.parametrize(
    ("code", "kind", "transient"),
    [
        (grpc.StatusCode.UNAVAILABLE, UnavailableError, True),
        (grpc.StatusCode.DEADLINE_EXCEEDED, UnavailableError, True),
        (grpc.StatusCode.UNIMPLEMENTED, IncompatibleError, False),
        (grpc.StatusCode.INTERNAL, InternalError, True),
        (grpc.StatusCode.FAILED_PRECONDITION, ConflictError, False),
        (grpc.StatusCode.UNAUTHENTICATED, DeniedError, False),
    ],
)
def test_errors_that_are_not_ours_are_told_as_what_they_are(code, kind, transient):
    found = failed_call(Failed(code, "something else listens here"), "host:1")
    assert type(found.error) is kind
    assert found.transient is transient
    assert "host:1" in str(found.error)


def test_an_error_before_the_call_began_is_told_too():
    assert isinstance(failed_call(grpc.RpcError("no channel"), "host:1").error, InternalError)


def test_details_of_somebody_else_are_not_believed():
    refusal = Rejection(Refusal("HELD", "x"))
    status = refusal.status()
    forged = [(key, value.replace(b"halocline", b"somewhere")) for key, value in status.trailing_metadata]
    assert failed_call(Failed(status.code, status.details, forged), "host:1").error.condition == "CONFLICT"


def test_times_of_the_core_are_shown_as_dates_and_numbers_of_lives_are_not():
    assert readable("held until 1796083200000: x") == "held until 2026-12-01 00:00:00: x"
    assert readable("etl#1796083200000") == "etl#1796083200000"


# Addresses.


@pytest.mark.parametrize(
    ("address", "targets", "tls"),
    [
        ("grpc://127.0.0.1:7470", ("127.0.0.1:7470",), False),
        ("grpc://host", ("host:7470",), False),
        ("grpcs://a:1,b:2/", ("a:1", "b:2"), True),
        ("grpc://[::1]:5", ("[::1]:5",), False),
    ],
)
def test_addresses_are_read(address, targets, tls):
    endpoint = Endpoint.parse(address)
    assert (endpoint.targets, endpoint.tls) == (targets, tls)


@pytest.mark.parametrize(
    "address", ["", "host:1", "http://host", "grpc://", "grpc://a,,b", "grpc://h:99999", "grpc://u@h"]
)
def test_addresses_that_are_none_are_refused(address):
    with pytest.raises(InputError, match="no address"):
        Endpoint.parse(address)


def test_the_environment_says_where_and_with_what(tmp_path):
    said = {
        "HALOCLINE_FLEET": "grpcs://a:1",
        "HALOCLINE_FLEET_SECRET": "s",
        "HALOCLINE_FLEET_CA": str(tmp_path / "ca.pem"),
    }
    endpoint = Endpoint.from_environment(environment=said)
    assert (str(endpoint), endpoint.secret, endpoint.authority) == ("grpcs://a:1", "s", tmp_path / "ca.pem")
    assert str(Endpoint.from_environment("grpc://b:2", said)) == "grpc://b:2"
    assert str(Endpoint.from_environment(environment={})) == "grpc://127.0.0.1:7470"
    with pytest.raises(InputError, match="cannot be read"):
        endpoint.channel("a:1")
    with pytest.raises(InputError, match="go together"):
        Endpoint.parse("grpcs://a:1", certificate=tmp_path / "c.pem")


def test_a_secret_does_not_show_in_the_address():
    endpoint = Endpoint.parse("grpc://a:1", secret="s3cret")
    assert "s3cret" not in f"{endpoint} {endpoint!r}"

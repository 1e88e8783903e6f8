"""Refusals on the wire: rich gRPC statuses, and errors made from them again.

A refused call ends with a status whose details carry the same facts as a `Refusal`: an `ErrorInfo` with the condition
code, subject, both sides, the release that would do and the next step, and for a failed precondition one violation
each, by type and subject, for programs that know no more of Halocline than gRPC's own conventions.

gRPC sends statuses in headers of limited size, so long lists are cut and say by how much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import grpc
import msgspec
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status

from halocline import errors
from halocline.errors import CONDITIONS, HaloclineError
from halocline.fleet.answers import readable
from halocline.fleet.core.effects import Refusal

if TYPE_CHECKING:
    from halocline.fleet.wire.handshake import Objection

DOMAIN: Final = "halocline"
_LONGEST: Final = 300
_MOST: Final = 12
_FEW: Final = 4
_LARGEST: Final = 4500
"""Bytes. Headers hold eight thousand, and details grow by a third on the way."""

_CODES: Final[Mapping[str, grpc.StatusCode]] = {
    "ALREADY_EXISTS": grpc.StatusCode.ALREADY_EXISTS,
    "ARGUMENT_INVALID": grpc.StatusCode.INVALID_ARGUMENT,
    "DENIED": grpc.StatusCode.PERMISSION_DENIED,
    "FEATURE_UNKNOWN": grpc.StatusCode.NOT_FOUND,
    "INTERNAL_ERROR": grpc.StatusCode.INTERNAL,
    "MALFORMED": grpc.StatusCode.INVALID_ARGUMENT,
    "NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "TOKEN_INVALID": grpc.StatusCode.UNAUTHENTICATED,
    "TOO_MANY": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "UNAVAILABLE": grpc.StatusCode.UNAVAILABLE,
}
"""Everything else is a failed precondition: a matter of who runs what, which trying again does not change."""

_TYPES: Final[Mapping[str, str]] = {
    "INCOMPATIBLE_VERSION": "FEATURE_MISSING",
    "LEVEL_BLOCKED": "BELOW_CLUSTER_VERSION",
}


@dataclass(frozen=True, slots=True)
class Rejection:
    """A refusal on its way out.

    Args:
        hints: More for programs, such as the address of the active coordinator.
    """

    refusal: Refusal
    objections: tuple[Objection, ...] = ()
    hints: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(error: HaloclineError) -> Rejection:
        """A rejection that tells what an error says."""
        sides = tuple(error.sides.items())
        return Rejection(Refusal(error.condition, error.message, sides=sides, next_step=error.next_step or ""))

    @property
    def code(self) -> grpc.StatusCode:
        """The status code that goes with the condition."""
        return _CODES.get(self.refusal.condition, grpc.StatusCode.FAILED_PRECONDITION)

    def status(self) -> Any:
        """The rich status to end a call with."""
        for most in range(_MOST, -1, -1):
            status = self._told(most)
            if status.ByteSize() <= _LARGEST:
                break
        return rpc_status.to_status(status)

    def _told(self, most: int) -> Any:
        """The status with at most so many sides."""
        refusal = self.refusal
        info = error_details_pb2.ErrorInfo(
            reason=refusal.condition,
            domain=DOMAIN,
            metadata={
                "subject": _cut(refusal.subject),
                "fix": _cut(refusal.fix),
                "next": _cut(refusal.next_step),
                "sides": msgspec.json.encode(dict(_few(refusal.sides, most))).decode(),
                **dict(self.hints),
            },
        )
        status = status_pb2.Status(code=self.code.value[0], message=_cut(refusal.message))
        details = [info]
        if self.code is grpc.StatusCode.FAILED_PRECONDITION:
            details.append(error_details_pb2.PreconditionFailure(violations=self._violations()))
        for each in details:
            status.details.add().Pack(each)
        return status

    def _violations(self) -> list[error_details_pb2.PreconditionFailure.Violation]:
        violation = error_details_pb2.PreconditionFailure.Violation
        if self.objections:
            return [
                violation(type=each.kind, subject=_cut(each.subject), description=_cut(f"{each.text}. {each.fix}"))
                for each in self.objections[:_FEW]
            ]
        refusal = self.refusal
        kind = _TYPES.get(refusal.condition, refusal.condition)
        if kind == "FEATURE_MISSING" and "=" in refusal.subject:
            kind = "BELOW_CLUSTER_VERSION"
        described = " ".join(text for text in (f"{refusal.message}.", refusal.next_step) if text)
        return [violation(type=kind, subject=_cut(refusal.subject), description=_cut(described))]


def _cut(text: str) -> str:
    plain = readable(text)
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"


def _few(sides: Iterable[tuple[str, str]], most: int) -> Iterable[tuple[str, str]]:
    listed = list(sides)
    yield from ((_cut(label), _cut(text)) for label, text in listed[:most])
    if len(listed) > most:
        yield "and", f"{len(listed) - most} more"


@dataclass(frozen=True, slots=True)
class FailedCall:
    """What a failed call says: the error to raise, its code, and hints such as where to ask instead."""

    error: HaloclineError
    code: grpc.StatusCode
    hints: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(refusal: Refusal) -> FailedCall:
        """What a call would say that was refused like this."""
        return FailedCall(refusal.error(), Rejection(refusal).code)

    @property
    def transient(self) -> bool:
        """Whether the call may not have arrived, and may succeed at this or another coordinator."""
        return self.code in _TRANSIENT

    @property
    def later(self) -> bool:
        """Whether the same call may succeed later: clocks are set, and coordinators change."""
        return self.transient or self.error.condition == "CLOCK_SKEW"

    @property
    def needs_handshake(self) -> bool:
        """Whether a new handshake may help: the token has expired, or another coordinator is active."""
        return self.code is grpc.StatusCode.UNAUTHENTICATED or "active" in self.hints


_TRANSIENT: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)

_ERRORS: Final[Mapping[grpc.StatusCode, type[HaloclineError]]] = {
    grpc.StatusCode.FAILED_PRECONDITION: errors.ConflictError,
    grpc.StatusCode.INVALID_ARGUMENT: errors.InputError,
    grpc.StatusCode.ALREADY_EXISTS: errors.ConflictError,
    grpc.StatusCode.NOT_FOUND: errors.NotFoundError,
    grpc.StatusCode.PERMISSION_DENIED: errors.DeniedError,
    grpc.StatusCode.UNAUTHENTICATED: errors.DeniedError,
    grpc.StatusCode.INTERNAL: errors.InternalError,
    grpc.StatusCode.UNKNOWN: errors.InternalError,
}


def failed_call(failed: Any, address: str) -> FailedCall:
    """What a `grpc.RpcError` says, which is the failed call itself unless it never began."""
    called = isinstance(failed, grpc.Call)
    code: grpc.StatusCode = failed.code() if called else grpc.StatusCode.UNKNOWN
    status: Any = rpc_status.from_call(failed) if called else None
    info = error_details_pb2.ErrorInfo()
    for detail in status.details if status else ():
        detail.Unpack(info)
    if status is None or info.domain != DOMAIN or info.reason not in CONDITIONS:
        return FailedCall(_foreign(failed, code, address), code)
    facts = dict(info.metadata)
    error = _kind(code, info.reason)(
        status.message,
        condition=info.reason,
        sides=msgspec.json.decode(facts.pop("sides", "{}"), type=dict[str, str]),
        next_step=facts.pop("next", "") or None,
    )
    return FailedCall(error, code, facts)


def _kind(code: grpc.StatusCode, condition: str) -> type[HaloclineError]:
    if code is grpc.StatusCode.FAILED_PRECONDITION:
        # Refusals of the core keep the class that the core gives them.
        return type(Refusal(condition, "").error())
    return _ERRORS.get(code, errors.UnavailableError)


def _foreign(failed: Any, code: grpc.StatusCode, address: str) -> HaloclineError:
    """An error that did not come from a coordinator: the network's, or of something else that listens there."""
    details = (failed.details() if isinstance(failed, grpc.Call) else str(failed)) or code.name
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED):
        return errors.UnavailableError(
            f"the fleet at {address} did not answer",
            sides={"asked": address, "heard": _cut(details)},
            next_step="Is it running there? Start one with: halocline serve",
        )
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return errors.IncompatibleError(
            f"what listens at {address} is no fleet, or an older one", sides={"heard": details}
        )
    return _ERRORS.get(code, errors.UnavailableError)(f"the fleet at {address} failed: {_cut(details)}")

"""Every call takes a value to the other end and brings one back; no field of an answer is lost on the way."""

from dataclasses import fields, is_dataclass, replace
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from halocline.compat.protocol import Protocol
from halocline.compat.terms import ProtocolChange, Terms
from halocline.errors import InputError
from halocline.fleet import answers
from halocline.fleet.answers import AuditQuery, BlockQuery, BreakQuery, FleetStatus, MembersQuery, plain
from halocline.fleet.core.events import (
    CancelDowngrade,
    CleanDowngrade,
    DeclareLadder,
    FinishDowngrade,
    MoveTable,
    Observe,
    PlaceHold,
    Raise,
    ReleaseHold,
    RemoveMember,
    SetPolicy,
    SetTerms,
    StartDowngrade,
)
from halocline.fleet.core.ladder import Ladder, LadderLevel, Rung
from halocline.fleet.core.ladder_state import Policy
from halocline.fleet.core.state import FleetTerms, LevelRange, Provenance, TableLevel, TableUse
from halocline.fleet.wire import calls
from halocline.fleet.wire.calls import Chunk, DropKey
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb

RUNGS = (Rung(1), Rung(2, (LadderLevel("delta", 3),), True, frozenset({"lsm"}), ("hudi@1.0.0",), "what it brings"))
USES = frozenset({TableUse("lake/orders", "delta", "write.append")})
TERMS = Terms(Protocol.delta(1, 4), frozenset({"appendOnly"}))
REQUESTS = [
    (calls.LEAVE, None),
    (calls.MOVE_TABLE, MoveTable("lake/orders", "delta", 4, "")),
    (calls.TABLE_USERS, "lake/orders"),
    (calls.DESCRIBE, None),
    (calls.MEMBERS, MembersQuery("etl#7", 9, True)),
    (calls.WHO_BLOCKS, BlockQuery("etl#7", 9, "deletionVectors")),
    (calls.WHO_BREAKS, BreakQuery("etl#7", 9, remove="member/session")),
    (calls.WHO_BREAKS, BreakQuery(ladder="hudi", level=8)),
    (calls.WHO_BREAKS, BreakQuery(change=ProtocolChange("lake/orders", None, TERMS))),
    (calls.WHO_BREAKS, BreakQuery(change=ProtocolChange("lake/orders", TERMS, TERMS))),
    (calls.PLAN_RAISE, LadderLevel("hudi", 8)),
    (calls.PLAN_DOWNGRADE, LadderLevel("hudi", 6)),
    (calls.AUDIT, AuditQuery("ann", "raise", "hudi=8", True, 5, 7, 9)),
    (calls.RAISE, Raise("hudi", 8, "", "why", True)),
    (calls.SET_POLICY, SetPolicy("hudi", Policy.AUTO, "", "why")),
    (calls.PLACE_HOLD, PlaceHold("hudi", "close", "why", "", 8, 1_796_083_200_000)),
    (calls.PLACE_HOLD, PlaceHold("hudi", "close", "why", "")),
    (calls.RELEASE_HOLD, ReleaseHold("hudi", "close", "", "why")),
    (calls.START_DOWNGRADE, StartDowngrade("hudi", 6, "", "why")),
    (calls.CLEAN_DOWNGRADE, CleanDowngrade("hudi", "", "why")),
    (calls.FINISH_DOWNGRADE, FinishDowngrade("hudi", "", "why")),
    (calls.CANCEL_DOWNGRADE, CancelDowngrade("hudi", "", "why")),
    (calls.DECLARE_LADDER, DeclareLadder(Ladder("pipeline", RUNGS), "", 2, Policy.AUTO)),
    (calls.DECLARE_LADDER, DeclareLadder(Ladder("pipeline", RUNGS), "")),
    (calls.OBSERVE, Observe("bi", "x@1", Provenance.OBSERVED, "", 5, {"hudi": LevelRange(6, 8)}, USES, "writer")),
    (calls.REMOVE_MEMBER, RemoveMember("bi", "", "why", True)),
    (calls.SET_TERMS, SetTerms(FleetTerms(9, 1, 7, True), "", "why")),
    (calls.KEYS, None),
    (calls.DROP_KEY, DropKey("a1", "why")),
    (calls.EXPORT, None),
    (calls.IMPORT, Chunk(b"{}", "why")),
]


def example(kind: Any) -> Any:
    """A value of a type in which no part is empty."""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        parts = {each.name: example(hints[each.name]) for each in fields(kind)}
        return kind(**{**parts, **({"hi": 9} if kind is LevelRange else {})})
    if get_origin(kind) is UnionType:
        return example(get_args(kind)[0])
    if get_origin(kind) in (tuple, frozenset):
        return get_origin(kind)((example(get_args(kind)[0]),))
    if get_origin(kind) is not None:
        return {"hudi": example(get_args(kind)[1])}
    return {str: "text", int: 7, bool: True}[kind]


@pytest.mark.parametrize(("call", "request_"), REQUESTS, ids=lambda each: getattr(each, "name", ""))
def test_a_request_arrives_as_it_was_sent(call, request_):
    assert call.request.decode(call.request.encode(request_)) == request_


def test_who_asks_for_a_command_is_not_taken_from_the_request():
    sent = calls.RAISE.request.encode(Raise("hudi", 8, "somebody else"))
    assert calls.RAISE.request.decode(sent).actor == ""


def test_every_call_of_the_services_is_in_the_table():
    methods = {each.name for service in pb.DESCRIPTOR.services_by_name.values() for each in service.methods}
    streams = {calls.SESSION.rpartition("/")[2], calls.EXPORT.name, calls.IMPORT.name}
    assert {call.name for call in calls.UNARY} | streams == methods
    assert {call.name for call, _ in REQUESTS} == methods - {"Handshake", "Session"}, "each is tried above"


ANSWERS = {
    calls.DESCRIBE: FleetStatus,
    calls.MEMBERS: answers.FleetMembers,
    calls.TABLE_USERS: answers.TableUsers,
    calls.WHO_BLOCKS: answers.AffectedMembers,
    calls.PLAN_RAISE: answers.LevelPlan,
    calls.AUDIT: answers.AuditEntries,
    calls.KEYS: answers.SigningKeys,
    calls.RAISE: answers.CommandResult,
}


@pytest.mark.parametrize(("call", "kind"), ANSWERS.items(), ids=[call.name for call in ANSWERS])
def test_an_answer_comes_back_with_every_field(call, kind):
    answer = example(kind)
    assert call.answer.decode(call.answer.encode(answer)) == answer


MESSAGES = {
    FleetStatus: pb.DescribeResponse,
    answers.ServerStatus: pb.Peer,
    answers.TermsStatus: pb.Terms,
    answers.LadderStatus: pb.LadderStatus,
    answers.BlockerStatus: pb.Blocker,
    answers.HoldStatus: pb.Hold,
    answers.DowngradeStatus: pb.Downgrade,
    TableLevel: pb.TableLevel,
    answers.MemberStatus: pb.Member,
    answers.SeenClient: pb.Sighting,
    answers.AffectedMember: pb.Affected,
    answers.LevelPlan: pb.Plan,
    answers.AuditEntry: pb.AuditEntry,
    answers.CommandResult: pb.CommandResponse,
}


@pytest.mark.parametrize(("kind", "message"), MESSAGES.items(), ids=[kind.__name__ for kind in MESSAGES])
def test_an_answer_has_the_fields_of_its_message(kind, message):
    assert {each.name for each in fields(kind)} == set(message.DESCRIPTOR.fields_by_name)


@pytest.mark.parametrize("level", [-1, 2**32, "8"])
def test_a_number_that_does_not_fit_is_refused_before_it_is_sent(level):
    with pytest.raises(InputError, match="cannot be sent"):
        calls.RAISE.request.encode(Raise("hudi", level, ""))


def test_garbage_is_refused_with_what_it_should_have_been():
    with pytest.raises(InputError, match="no RaiseRequest"):
        calls.RAISE.request.decode(b"\xff\xff")


def test_an_answer_is_told_to_programs_in_camel_case_with_empty_fields():
    told = plain(replace(example(FleetStatus), tables=()))
    assert told["activeSinceMs"] == 7
    assert told["tables"] == []
    assert told["ladders"][0]["holds"][0]["untilMs"] == 7
    assert told["server"]["provides"] == [{"name": "text", "level": 7}]
    assert plain(example(answers.MemberStatus))["supported"] == {"hudi": {"lo": 7, "hi": 9}}
    assert plain(replace(example(answers.LadderStatus), downgrade=None))["downgrade"] is None

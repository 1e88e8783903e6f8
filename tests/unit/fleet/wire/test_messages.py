"""What arrives over the wire is bounded, and what goes out comes back the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halocline.errors import InputError
from halocline.fleet.core.effects import Announce, Refusal, Renew
from halocline.fleet.core.events import Heartbeat
from halocline.fleet.core.ladder_state import Announcement, View
from halocline.fleet.core.state import LevelRange, MemberKey, Report, TableUse
from halocline.fleet.wire import messages, requests
from halocline.fleet.wire.calls import HANDSHAKE
from halocline.fleet.wire.handshake import Peer
from halocline.fleet.wire.proto.v1 import fleet_pb2 as pb
from halocline.fleet.wire.session import FreshToken, SessionBegun
from halocline.fleet.wire.values import to_message

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True)
RANGES = st.tuples(st.integers(1, 50), st.integers(0, 50)).map(lambda pair: LevelRange(pair[0], sum(pair)))
USES = st.builds(
    TableUse, st.text("abc/:é ", min_size=1, max_size=30), NAMES, st.sampled_from(["read", "write.append"])
)
REPORTS = st.builds(
    Report,
    NAMES,
    st.integers(0, 2**63),
    st.text("abc@.1", max_size=30),
    NAMES,
    st.dictionaries(NAMES, RANGES, max_size=5),
    st.frozensets(NAMES, max_size=5),
    st.frozensets(NAMES, max_size=5),
    st.booleans(),
    st.frozensets(USES, max_size=5),
)


@given(REPORTS)
def test_a_report_comes_back_the_same(report):
    data = to_message(report, pb.Membership).SerializeToString()
    assert messages.report(report.identity, report.role, pb.Membership.FromString(data)) == report


@given(
    st.integers(0, 2**60),
    st.integers(-(2**60), 2**60),
    st.dictionaries(NAMES, st.builds(View, st.integers(0, 2**60), st.integers(0, 2**31)), max_size=5),
    st.none() | st.frozensets(USES, max_size=5),
)
def test_a_heartbeat_comes_back_the_same(seq, sent, views, tables):
    beat = Heartbeat("etl", 3, seq, sent, views, tables)
    assert messages.heartbeat(MemberKey("etl", 3), messages.to_heartbeat(beat)) == beat


@given(st.dictionaries(NAMES, st.integers(1, 9), max_size=5), st.dictionaries(NAMES, st.integers(1, 9), max_size=5))
def test_a_peer_comes_back_the_same(provides, requires):
    end = Peer("halocline", "0.1.0", provides, requires)
    assert messages.peer(pb.Peer.FromString(to_message(end, pb.Peer).SerializeToString())) == end


@pytest.mark.parametrize(
    "message",
    [
        Renew("etl", 3, 7, 100, 2, 15_000, (Announcement("hudi", 4, 8, 6),)),
        Announce((Announcement("hudi", 4, 8, 6), Announcement("delta", 1, 1, 1))),
        Refusal("HELD", "it is held", "hudi=8", (("fleet", "6"),), "x@2", "Use x@2."),
        SessionBegun(3),
        FreshToken("t.o.k", 5),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_a_session_carries_comes_back_the_same(message):
    assert messages.session_message(MemberKey("etl", 3), messages.to_session_message(message)) == message


def test_what_a_later_coordinator_says_in_a_session_is_passed_over():
    assert messages.session_message(MemberKey("etl", 3), b"\xfa\x01\x02\x08\x01") is None


def problem(data):
    """What is wrong with bytes that claim to be a handshake; None if nothing is."""
    try:
        HANDSHAKE.request.decode(data)
    except InputError as error:
        return error
    return None


@given(st.binary(max_size=300))
def test_garbage_is_refused_briefly_or_makes_sense(data):
    assert len(str(problem(data))) < 1000


@pytest.mark.parametrize("identity", ["", "../etc", "a/b", "a\\b", "-x", "x" * 129, "é", "a\nb", ".", "~root", "C:\\x"])
def test_ids_that_look_like_paths_or_are_too_long_are_refused(identity):
    with pytest.raises(InputError):
        messages.greeting(pb.HandshakeRequest(identity=identity, membership=pb.Membership(release="x@1")))


def many(count, make):
    return [make(n) for n in range(count)]


@pytest.mark.parametrize(
    "membership",
    [
        pb.Membership(features=many(513, lambda n: pb.Feature(name=f"f{n}"))),
        pb.Membership(features=[pb.Feature(name="x" * 129)]),
        pb.Membership(features=[pb.Feature(name="../x")]),
        pb.Membership(features=[pb.Feature(name="f", level=513)]),
        pb.Membership(needs=many(600, lambda n: pb.Feature(name=f"f{n}"))),
        pb.Membership(tables=many(4097, lambda n: pb.TableUse(table=f"t{n}", ladder="delta"))),
        pb.Membership(tables=[pb.TableUse(table="x" * 1025, ladder="delta")]),
        pb.Membership(tables=[pb.TableUse(table="a\0b", ladder="delta")]),
        pb.Membership(tables=[pb.TableUse(table="t", ladder="../delta")]),
        pb.Membership(tables=[pb.TableUse(table="t", ladder="delta", operation="drop table")]),
        pb.Membership(supported={f"l{n}": pb.LevelRange(lo=1, hi=2) for n in range(65)}),
        pb.Membership(supported={"delta": pb.LevelRange(lo=0, hi=2)}),
        pb.Membership(supported={"delta": pb.LevelRange(lo=3, hi=2)}),
        pb.Membership(supported={"delta": pb.LevelRange(lo=1, hi=2**32 - 1)}),
        pb.Membership(supported={"a/b": pb.LevelRange(lo=1, hi=2)}),
        pb.Membership(release="x" * 201),
        pb.Membership(release="x@1\x1b[31m"),
    ],
)
def test_reports_beyond_their_bounds_are_refused(membership):
    with pytest.raises(InputError):
        messages.report("etl", "reader", membership)


def test_a_feature_that_grew_is_there_at_every_level_below():
    found = messages.report("etl", "reader", pb.Membership(features=[pb.Feature(name="merge", level=3)]))
    assert found.features == {"merge", "merge/2", "merge/3"}


@pytest.mark.parametrize(
    "request_",
    [
        pb.DeclareLadderRequest(name="x"),
        pb.DeclareLadderRequest(name="a b", rungs=[pb.Rung(level=1)]),
        pb.DeclareLadderRequest(name="x", rungs=[pb.Rung(level=2), pb.Rung(level=1)]),
        pb.DeclareLadderRequest(name="x", rungs=[pb.Rung(level=0)]),
        pb.DeclareLadderRequest(name="x", rungs=many(257, lambda n: pb.Rung(level=n + 1))),
        pb.DeclareLadderRequest(name="x", rungs=[pb.Rung(level=1, features=["a b"])]),
        pb.DeclareLadderRequest(name="x", rungs=[pb.Rung(level=1, summary="x" * 2001)]),
    ],
)
def test_ladders_that_cannot_be_are_refused(request_):
    with pytest.raises(InputError):
        requests.declare_ladder(request_)

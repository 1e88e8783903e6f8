"""What a member knows, what its gates answer, and when it must stop."""

import pytest
from tests.support.fleet_runs import uses

from halocline.fleet.core.effects import Admit, Announce, Refusal, Refuse, Renew
from halocline.fleet.core.events import Heartbeat, Join, Leave
from halocline.fleet.core.ladder_state import Announcement, View
from halocline.fleet.core.member_step import (
    AskToJoin,
    Beat,
    Begin,
    End,
    Goodbye,
    Hear,
    MemberState,
    Status,
    may_commit,
    member_step,
    snapshot,
)
from halocline.fleet.core.state import LevelRange, Report
from halocline.fleet.model.ground_truth import MemberStep
from halocline.fleet.model.invariants import check

LEASE = 10


class Life:
    """A member and what it sent."""

    def __init__(self, hi=3):
        self.state = MemberState(Report("etl", 0, "deltalake@1.6.6", supported={"delta": LevelRange(1, hi)}))

    def do(self, event):
        before = self.state
        self.state, sent = member_step(before, event)
        violations = check(MemberStep(before, self.state))
        assert not violations, "\n".join(map(str, violations))
        return sent

    def hear(self, now, reply):
        assert self.do(Hear(now, reply)) == ()

    def joined(self, sent=0, now=0, **announced):
        self.do(AskToJoin(sent, incarnation=1))
        self.hear(now, Admit("etl", 1, sent, 1, LEASE, (news(**announced),)))
        return self

    def gate(self, level, now):
        return snapshot(self.state, now).gate("delta", level)


def news(revision=1, level=2, limit=None, ladder="delta"):
    return Announcement(ladder, revision, level, level if limit is None else limit)


def renewal(sent, *announced, incarnation=1, seq=1):
    return Renew("etl", incarnation, seq, sent, 1, LEASE, announced)


def test_gates_are_closed_until_the_member_has_heard():
    life = Life()
    assert not life.gate(1, now=0)
    assert life.do(AskToJoin(0, 1)) == (Join(life.state.report, 0),)
    life.hear(0, Announce((news(),)))
    assert not life.gate(1, now=0), "news come too early"
    life.hear(0, Admit("etl", 1, 0, 1, LEASE, (news(),)))
    assert (life.gate(2, now=0), life.gate(3, now=0)) == (True, False)


def test_the_lease_is_counted_from_sending():
    life = Life().joined(sent=0, now=7)
    assert life.gate(2, now=LEASE - 1)
    assert not life.gate(2, now=LEASE)


def test_an_answer_that_comes_too_late_opens_nothing():
    life = Life().joined(sent=0, now=LEASE)
    assert life.state.status is Status.JOINED
    assert not life.gate(2, now=LEASE)


def test_renewals_prolong_and_late_ones_do_not_shorten():
    life = Life().joined()
    life.do(Beat(5))
    life.hear(6, renewal(5))
    life.hear(7, renewal(2))
    assert life.state.until == 5 + LEASE


def test_news_prolong_nothing():
    life = Life().joined()
    life.hear(9, Announce((news(2, 3),)))
    assert life.gate(3, now=9)
    assert not life.gate(3, now=LEASE)


def test_older_news_are_not_believed():
    life = Life().joined(revision=5, level=3, limit=2)
    life.hear(1, Announce((news(4, 3),)))
    assert (life.gate(2, now=1), life.gate(3, now=1)) == (True, False)


def test_gates_close_on_the_way_down_and_the_level_stays():
    life = Life().joined(revision=5, level=3)
    life.hear(1, Announce((news(6, 3, limit=2),)))
    assert (life.gate(2, now=1), life.gate(3, now=1)) == (True, False)
    assert life.state.heard["delta"].level == 3


def test_a_level_or_ladder_beyond_the_binary_stays_closed():
    life = Life(hi=1).joined(level=2)
    assert not life.gate(1, now=0), "it cannot work at the fleet's level at all"
    life.hear(0, Announce((news(1, 4, ladder="hudi"),)))
    assert not snapshot(life.state, 0).gate("hudi", 1)


def test_one_snapshot_serves_a_whole_operation():
    life = Life().joined()
    life.do(Begin(1, "job"))
    begun = life.state.operations["job"]
    life.hear(2, Announce((news(2, 3),)))
    assert (begun.gate("delta", 3), life.gate(3, now=2)) == (False, True)


def test_heartbeats_report_the_oldest_view_in_use():
    life = Life().joined()
    life.do(Begin(1, "job"))
    life.hear(2, Announce((news(2, 3),)))
    (heartbeat,) = life.do(Beat(3))
    assert heartbeat == Heartbeat("etl", 1, 1, 3, {"delta": View(1, 2)})
    life.do(End("job"))
    (heartbeat,) = life.do(Beat(4, tables=uses("lake/t")))
    assert heartbeat == Heartbeat("etl", 1, 2, 4, {"delta": View(2, 3)}, uses("lake/t"))


def test_an_operation_commits_only_under_its_lease_and_its_life():
    life = Life().joined()
    life.do(Begin(1, "job"))
    assert may_commit(life.state, "job", LEASE - 1)
    assert not may_commit(life.state, "job", LEASE)
    life.do(AskToJoin(LEASE, incarnation=2))
    life.hear(LEASE, Admit("etl", 2, LEASE, 1, LEASE, (news(),)))
    assert life.state.active(LEASE)
    assert not may_commit(life.state, "job", LEASE)


def test_an_operation_that_begins_without_a_lease_is_closed_and_not_counted():
    life = Life().joined()
    life.do(Begin(LEASE, "job"))
    assert life.state.operations == {}
    assert snapshot(life.state, LEASE).levels == {}


@pytest.mark.parametrize("joined", [False, True])
def test_a_refusal_stops_everything_at_once(joined):
    life = Life()
    if joined:
        life.joined()
        life.do(Begin(1, "job"))
    else:
        life.do(AskToJoin(0, 1))
    refused = Refusal("INCOMPATIBLE_VERSION", "too old")
    life.hear(2, Refuse("etl", refused, 1))
    assert (life.state.status, life.state.refusal, life.state.operations) == (Status.OUTSIDE, refused, {})
    assert life.do(Beat(3)) == ()


@pytest.mark.parametrize(
    "reply",
    [
        Refuse("etl", Refusal("INCARNATION_ENDED", "over"), 7),
        Refuse("bi", Refusal("INCARNATION_ENDED", "over"), 1),
        renewal(9, incarnation=7),
        Admit("bi", 1, 9, 1, LEASE, ()),
    ],
)
def test_what_is_meant_for_another_life_is_nothing_to_it(reply):
    life = Life().joined()
    before = life.state
    life.hear(1, reply)
    assert life.state == before


def test_answers_after_the_end_do_not_revive():
    life = Life().joined()
    assert life.do(Goodbye(1)) == (Leave("etl", 1),)
    for reply in (renewal(1), Admit("etl", 1, 1, 1, LEASE, (news(),))):
        life.hear(1, reply)
        assert life.state.status is Status.OUTSIDE
    assert life.do(Goodbye(1)) == ()


def test_joining_again_needs_a_higher_incarnation():
    life = Life().joined()
    (again,) = life.do(AskToJoin(1, incarnation=1))
    assert again.views == {name: each.view for name, each in life.state.heard.items()}, (
        "in the same life it says what it heard"
    )
    assert life.state.status is Status.JOINED
    assert [each.report.incarnation for each in life.do(AskToJoin(1, incarnation=2))] == [2]
    assert life.state.heard == {}


def test_asking_again_before_the_answer_is_the_same_join():
    life = Life()
    (first,) = life.do(AskToJoin(0, 1))
    (again,) = life.do(AskToJoin(4, 1))
    assert (first.report, again.sent) == (again.report, 4)

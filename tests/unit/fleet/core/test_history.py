"""What a fleet makes of members that know what its store does not."""

from dataclasses import replace

import pytest
from tests.support.fleet_runs import DELTA, HUDI, LEASE, MARGIN, Run, granted, key

from halocline.fleet.core.effects import Admit, Announce, CommitRecords, Refuse, Renew
from halocline.fleet.core.events import Heartbeat, Join, Raise, TakeOver, Tick
from halocline.fleet.core.history import MOST_MARKS, is_foreign, lost_generation, marked
from halocline.fleet.core.ladder_state import LadderState, View
from halocline.fleet.core.state import Fleet, LevelRange, Report
from halocline.fleet.core.step import loaded

KEY = "the key that the store keeps"


class History(Run):
    """A coordinator whose store can be put back."""

    coordinators = 0

    def take_over(self):
        self.coordinators += 1
        self.state = loaded(self.state.fleet)
        return self.do(TakeOver(mark=f"mark-{self.coordinators}", seal_key=KEY))

    def put_back(self, fleet):
        """The store as it was; another coordinator begins after every lease is over."""
        self.at += 2 * (LEASE + MARGIN)
        self.state = loaded(fleet)
        return self.take_over()

    def heard(self):
        """What a member has heard that has heard everything."""
        return {name: each.announced(name).view for name, each in self.state.fleet.ladder_states.items()}

    @property
    def generation(self):
        return self.state.fleet.generation


@pytest.fixture
def run():
    made = History(DELTA, HUDI)
    made.take_over()
    made.do(Raise("delta", 2, "me"))
    return made


def refused(effects, incarnation=1):
    """The refusal of that life; nothing is granted to it."""
    assert not [each for each in effects if isinstance(each, Admit | Renew)], effects
    (found,) = [each.refusal for each in effects if isinstance(each, Refuse) and each.incarnation == incarnation]
    return found


def test_what_every_coordinator_announced_belongs_to_the_history(run):
    run.join("etl")
    views = [run.heard()]
    run.take_over()
    views.append(run.heard())
    run.do(Raise("delta", 3, "me"))
    views.append(run.heard())
    run.take_over()
    for heard in views:
        assert not is_foreign(run.state.fleet, heard)
        assert granted(run.beat(views=heard), Renew)
    assert run.generation == 0


def test_a_member_that_knows_what_the_store_has_lost_joins_anew_and_the_generation_rises(run):
    run.join("etl")
    run.join("bi", hi=3)
    copy, before = run.state.fleet, run.heard()
    run.do(Raise("delta", 3, "me"))
    knows = run.heard()
    run.put_back(copy)
    ended = run.beat("etl", views=knows)
    assert refused(ended).condition == "INCARNATION_ENDED"
    assert isinstance(ended[0], CommitRecords)
    assert run.generation == 1
    assert [(each.actor, each.action) for each in run.audits] == [("fleet", "restore")]
    (news,) = (each for each in ended if isinstance(each, Announce))
    assert all(each.revision > knows[each.ladder].revision for each in news.announcements), "all hear it as news"
    assert {each.ladder: each.limit for each in news.announcements} == {"delta": 2, "hudi": 6}
    other = refused(run.beat("bi", views=before))
    assert dict(other.sides)["latest"] == "1", "its own life is in its way, so that it begins another"
    assert refused(run.join("bi", hi=3)).condition == "INCARNATION_REPLAYED"
    assert granted(run.join("bi", hi=3, incarnation=2), Admit)
    assert granted(run.join("etl", incarnation=2), Admit)
    assert granted(run.beat("etl", 2), Renew)
    assert run.generation == 1


def test_lives_of_an_older_generation_count_until_their_lease_is_over(run):
    run.join("etl", hi=2)
    copy = run.state.fleet
    run.do(Raise("hudi", 8, "me"))
    knows = run.heard()
    run.put_back(copy)
    run.beat("stranger", views=knows)
    assert run.generation == 1
    assert run.members() == ["etl#1"]
    assert any(isinstance(each, Refuse) for each in run.do(Raise("delta", 3, "me"))), "it may still be acting"
    run.wait(LEASE + MARGIN)
    assert run.members() == []


def test_it_is_noticed_though_the_fleet_has_come_as_far_again(run):
    run.join("etl")
    copy = run.state.fleet
    run.do(Raise("delta", 3, "me"))
    knows = run.heard()
    run.put_back(copy)
    run.do(Raise("hudi", 8, "me"))
    run.do(Raise("delta", 3, "me"))
    assert run.ladder_state().revision == knows["delta"].revision
    assert refused(run.beat(views=knows)).condition == "INCARNATION_ENDED"
    assert run.generation == 1


def test_a_life_that_the_store_has_forgotten_does_not_come_back_by_asking_to_join_again(run):
    copy = run.state.fleet
    run.join("etl")
    run.do(Raise("delta", 3, "me"))
    knows = run.heard()
    run.put_back(copy)
    report = Report("etl", 1, "deltalake@1.6.6", supported={"delta": LevelRange(1, 3)})
    refusal = refused(run.do(Join(report, run.at, views=knows)))
    assert (refusal.condition, dict(refusal.sides)["latest"]) == ("INCARNATION_REPLAYED", "1")
    assert run.generation == 1
    assert granted(run.join("etl", incarnation=2), Admit)


FORGED = {
    "a newer revision": lambda view: View(99, 3),
    "a newer revision, with another's seal": lambda view: View(99, 3, view.proof),
    "a seal of its own": lambda view: View(view.revision, view.level, f"0.elsewhere.{'0' * 32}"),
    "a later generation": lambda view: View(99, 3, "7" + view.proof[1:]),
    "no generation": lambda view: View(99, 3, "x.y.z"),
    "no number": lambda view: View(99, 3, "².mark-1." + "0" * 32),
    "too long a number": lambda view: View(99, 3, "9" * 90 + ".mark-1."),
    "no text": lambda view: View(99, 3, "\udcff"),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_whoever_only_says_to_know_more_ends_its_own_life_and_no_other(run, forge):
    run.join("etl")
    run.join("bi")
    forged = {"delta": forge(run.heard()["delta"])}
    refused(run.beat("etl", views=forged))
    assert run.generation == 0
    assert granted(run.beat("bi", views=run.heard()), Renew)


def test_what_proved_a_restore_proves_no_other(run):
    run.join("etl")
    copy = run.state.fleet
    run.do(Raise("delta", 3, "me"))
    knows = run.heard()
    run.put_back(copy)
    run.beat(views=knows)
    run.join("etl", incarnation=2)
    refused(run.beat(incarnation=2, views=knows), 2)
    assert run.generation == 1
    assert lost_generation(run.state.fleet, knows) is None


def test_a_second_restore_is_noticed_as_well(run):
    copy = run.state.fleet
    for generation in (1, 2):
        run.join("etl", incarnation=generation)
        copy = run.state.fleet
        run.do(Raise("delta", 3, "me"))
        knows = run.heard()
        run.put_back(copy)
        refused(run.beat(incarnation=generation, views=knows), generation)
        assert run.generation == generation


def test_a_ladder_that_the_store_does_not_know_is_no_part_of_its_history(run):
    run.join("etl")
    refused(run.beat(views={"no-such-ladder": View(1, 1)}))


def test_members_that_send_no_marks_are_known_by_a_newer_revision(run):
    run.join("etl")
    bare = {name: View(each.revision, each.level) for name, each in run.heard().items()}
    assert granted(run.beat(views=bare), Renew)
    refused(run.beat(views={"delta": View(bare["delta"].revision + 1, 3)}))


def test_what_was_announced_very_many_coordinators_ago_is_in_no_history(run):
    state, fleet = run.ladder_state(), run.state.fleet
    views = []
    for number in range(MOST_MARKS + 1):
        state = marked("delta", LadderState(2, 2, number + 10, state.policy, marks=state.marks), fleet, f"m{number}")
        views.append(state.announced("delta").view)
    later = Fleet(ladder_states={"delta": state}, seal_key=KEY)
    assert len(state.marks) == MOST_MARKS
    assert is_foreign(later, {"delta": views[0]})
    assert not any(is_foreign(later, {"delta": view}) for view in views[1:])


def test_the_key_is_made_once_and_never_shown(run):
    run.state = loaded(run.state.fleet)
    run.do(TakeOver(mark="later", seal_key="another"))
    assert run.state.fleet.seal_key == KEY
    assert KEY not in repr(run.state)
    assert KEY not in repr(TakeOver(mark="m", seal_key=KEY))


def test_a_heartbeat_in_the_generation_before_is_refused_whatever_it_has_heard(run):
    run.join("etl")
    run.state = loaded(replace(run.state.fleet, generation=1))
    run.take_over()
    assert refused(run.do(Heartbeat("etl", 1, 1, run.at, {}))).condition == "INCARNATION_ENDED"
    run.do(Tick())
    assert run.state.fleet.members[key()].generation == 0


def test_a_revision_that_is_only_claimed_does_not_become_the_fleets(run):
    run.join("etl")
    copy = run.state.fleet
    run.do(Raise("delta", 3, "me"))
    knows = run.heard()
    run.put_back(copy)
    known = {name: each.revision for name, each in run.state.fleet.ladder_states.items()}
    run.beat("etl", views={"delta": knows["delta"], "hudi": View(2**64 - 1, 9, knows["hudi"].proof)})
    assert run.generation == 1
    now = {name: each.revision for name, each in run.state.fleet.ladder_states.items()}
    assert now["delta"] > knows["delta"].revision
    assert known["hudi"] < now["hudi"] < 100

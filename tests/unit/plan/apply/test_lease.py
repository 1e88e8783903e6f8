"""One process applies plans to a lake at a time."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.processes import until

from halocline.errors import ConflictError, MalformedError
from halocline.plan.apply import lease
from halocline.plan.apply.journal import BEGUN, WAITING, Journal
from halocline.plan.apply.lease import LeaseHolder, RolloutLease, holder_of
from halocline.plan.apply.takeover import holding_lake
from halocline.storage import open_store
from halocline.storage.process import process_space


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)


def held_by(store, **facts) -> None:
    usual = {"by": "ben@desk", "plan": "p", "host": "elsewhere", "process": 1, "since_ms": 1, "until_ms": 2**62}
    store.put(lease._PATH, msgspec.json.encode(LeaseHolder(**{**usual, **facts})))


def test_a_lease_is_given_back_and_taken_again(store):
    with RolloutLease(store, "ana", "p"):
        assert holder_of(store).by == "ana"
    assert holder_of(store) is None
    with RolloutLease(store, "ben", "q"):
        assert holder_of(store).by == "ben"


def test_a_lease_that_runs_is_not_taken(store):
    held_by(store)
    with pytest.raises(ConflictError, match="ben@desk is applying plan p"), RolloutLease(store, "ana", "q"):
        pass


def test_a_lease_that_ran_out_is_taken_over(store):
    held_by(store, until_ms=1)
    with RolloutLease(store, "ana", "q"):
        assert holder_of(store).by == "ana"


def test_a_lease_of_a_process_that_is_gone_from_this_machine_is_taken_over_at_once(store):
    held_by(store, host=process_space(), process=2**22 - 1)
    with RolloutLease(store, "ana", "q"):
        assert holder_of(store).by == "ana"


def test_a_lease_of_a_killed_process_that_nobody_has_asked_for_is_taken_over_at_once(store, unreaped):
    held_by(store, host=process_space(), process=unreaped)
    with RolloutLease(store, "ana", "q"):
        assert holder_of(store).by == "ana"


def test_whoever_lost_the_lease_stops_and_does_not_give_back_the_others(store, monkeypatch):
    monkeypatch.setattr(lease, "LEASE_S", 0.0)
    with RolloutLease(store, "ana", "p") as mine:
        held_by(store, by="ben@desk")
        with pytest.raises(ConflictError, match="ben@desk is applying"):
            mine.check()
    assert holder_of(store).by == "ben@desk"


def test_two_that_write_the_same_journal_are_told_apart(tmp_path):
    one, other = (Journal.open(str(tmp_path), "p", name) for name in ("ana", "ben"))
    one.write(BEGUN)
    with pytest.raises(ConflictError, match="ana applies plan p as well"):
        other.write(BEGUN)
    assert [each.by for each in Journal.open(str(tmp_path), "p").entries] == ["ana"]


def test_a_lease_is_renewed_beside_the_work_for_as_long_as_it_is_held(store, monkeypatch):
    monkeypatch.setattr(lease, "LEASE_S", 0.2)
    with RolloutLease(store, "ana", "p") as mine:
        first = holder_of(store)
        until(lambda: holder_of(store).until_ms > first.until_ms + 1000, "nobody asks for it, and it is renewed")
        mine.check()
    assert holder_of(store) is None


def test_each_holder_has_a_greater_token_also_when_a_clock_goes_back(store, monkeypatch):
    with RolloutLease(store, "ana", "p") as mine:
        first = mine.token
    monkeypatch.setattr(lease, "_now", lambda: 1000)
    with RolloutLease(store, "ben", "p") as other:
        assert other.token == first + 1


def test_a_plan_whose_holder_may_live_is_to_be_fenced_off_until_somebody_has(store):
    held_by(store, plan="stalled", until_ms=1)
    with RolloutLease(store, "ana", "p") as mine:
        assert mine.overtaken == ("stalled",)
    with RolloutLease(store, "ben", "q") as mine:
        assert mine.overtaken == ("stalled",), "ana has not come to it"
        mine.forget_overtaken()
    with RolloutLease(store, "cem", "r") as mine:
        assert mine.overtaken == ()


@pytest.mark.parametrize("facts", [{"until_ms": 0}, {"host": process_space(), "process": 2**22 - 1}])
def test_nobody_is_fenced_off_who_gave_it_back_or_is_gone(store, facts):
    held_by(store, **facts)
    with RolloutLease(store, "ana", "p") as mine:
        assert mine.overtaken == ()


def test_a_lease_whose_renewal_was_not_answered_is_still_held(store, monkeypatch):
    with RolloutLease(store, "ana", "p") as mine:
        # The lake has taken the renewal, and nobody heard of it.
        store.put(lease._PATH, mine._encoded())
        monkeypatch.setattr(lease, "LEASE_S", 0.0)
        mine.check()
        assert holder_of(store).by == "ana"


def test_the_journal_refuses_an_older_token(tmp_path):
    older, newer = (Journal.open(str(tmp_path), "p", by, token) for by, token in (("ana", 1), ("ben", 2)))
    older.write(BEGUN)
    newer.catch_up()
    newer.write(WAITING, 1)
    for _ in range(2):
        with pytest.raises(ConflictError, match="ben has taken over") as refused:
            older.write(WAITING, 1)
        assert refused.value.condition == "ROLLOUT_RUNNING"
    assert [each.by for each in Journal.open(str(tmp_path), "p").entries] == ["ana", "ben"]


@pytest.mark.parametrize("answers", [[BEGUN], [BEGUN, WAITING]])
def test_whoever_takes_over_fences_the_journal_before_the_older_holder_writes_again(tmp_path, store, answers):
    older = Journal.open(str(tmp_path), "p", "ana", 1)
    for kind in answers:
        older.write(kind)
    held_by(store, by="ana", plan="p", until_ms=1, token=1)
    with holding_lake(str(tmp_path), "ben", "another"):
        pass
    with pytest.raises(ConflictError, match="ben has taken over"):
        older.write(WAITING, 1)


@pytest.mark.parametrize("found", [b"", b"{}", b"null", b"\xff", b'{"by": 1}'])
def test_a_lease_and_a_journal_that_cannot_be_read_are_said_to_be_so(store, tmp_path, found):
    store.put(lease._PATH, found)
    with pytest.raises(MalformedError, match=r"lease\.json"), RolloutLease(store, "ana", "q"):
        pass
    with pytest.raises(MalformedError, match=r"lease\.json"):
        holder_of(store)
    Journal.open(str(tmp_path), "p").write(BEGUN)
    store.put("_halocline/rollouts/p/000001.json", found)
    with pytest.raises(MalformedError, match="journal of plan p"):
        Journal.open(str(tmp_path), "p")

"""One process applies plans to a lake at a time."""

from __future__ import annotations

import msgspec
import pytest

from halocline.errors import ConflictError
from halocline.plan.apply import lease
from halocline.plan.apply.journal import BEGUN, Journal
from halocline.plan.apply.lease import LeaseHolder, RolloutLease, holder_of
from halocline.storage import open_store


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
    held_by(store, host=lease.socket.gethostname(), process=2**22 - 1)
    with RolloutLease(store, "ana", "q"):
        assert holder_of(store).by == "ana"


def test_a_lease_of_a_killed_process_that_nobody_has_asked_for_is_taken_over_at_once(store, unreaped):
    held_by(store, host=lease.socket.gethostname(), process=unreaped)
    with RolloutLease(store, "ana", "q"):
        assert holder_of(store).by == "ana"


def test_whoever_lost_the_lease_stops_and_does_not_give_back_the_others(store, monkeypatch):
    monkeypatch.setattr(lease, "LEASE_S", 0.0)
    with RolloutLease(store, "ana", "p") as mine:
        held_by(store, by="ben@desk")
        with pytest.raises(ConflictError, match="ben@desk is applying"):
            mine.renew()
    assert holder_of(store).by == "ben@desk"


def test_two_that_write_the_same_journal_are_told_apart(tmp_path):
    one, other = (Journal.open(str(tmp_path), "p", name) for name in ("ana", "ben"))
    one.write(BEGUN)
    with pytest.raises(ConflictError, match="ana applies plan p as well"):
        other.write(BEGUN)
    assert [each.by for each in Journal.open(str(tmp_path), "p").entries] == ["ana"]

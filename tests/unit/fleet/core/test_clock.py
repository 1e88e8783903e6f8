"""Clocks: what a lease is counted by goes on while the machine sleeps, and no one can set it."""

import time

import pytest

from halocline.fleet.core.clock import steady_ms
from halocline.fleet.store import Write, open_fleet_store


@pytest.fixture
def asleep(monkeypatch):
    """Lets the machine sleep for some seconds: of its clocks only the one since it was started goes on."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("this machine has no clock that goes on while it sleeps")
    slept, really = [0], time.clock_gettime_ns
    since_start = time.CLOCK_BOOTTIME
    monkeypatch.setattr(
        time, "clock_gettime_ns", lambda which: really(which) + (slept[0] if which == since_start else 0)
    )

    def sleep(seconds):
        slept[0] += seconds * 1_000_000_000

    return sleep


def test_time_asleep_is_counted(asleep):
    before, monotonic = steady_ms(), time.monotonic()
    asleep(3600)
    assert steady_ms() - before >= 3_600_000
    assert time.monotonic() - monotonic < 3600


def test_a_coordinator_does_not_rely_after_a_sleep_on_the_lease_that_it_had_before(asleep):
    store = open_fleet_store(":memory:")
    store.take_over("one", "one:1", lambda fleet, _: (fleet, 1, Write()))
    assert store.holds_lease(1)
    asleep(store.lease_ms // 1000)
    assert not store.holds_lease(1)
    store.renew(1)
    assert store.holds_lease(1)
    store.close()

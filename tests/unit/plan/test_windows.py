"""Windows as teams write them: days of the week and times of day, by the clock of a zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from halocline.errors import InputError
from halocline.plan.policy import RolloutPolicy
from halocline.plan.windows import WeeklyWindow


def held(window: str, *moment: int) -> str:
    """Until when a window holds a moment (UTC); empty if it does not."""
    found = WeeklyWindow.parse(window).at(datetime(*moment, tzinfo=UTC))
    return f"{found.until:%a %H:%M}" if found else ""


@pytest.mark.parametrize(
    ("moment", "until"),
    [
        ((2026, 11, 13, 14, 59), ""),
        ((2026, 11, 13, 15, 0), "Mon 07:00"),
        ((2026, 11, 15, 12, 0), "Mon 07:00"),
        ((2026, 11, 16, 6, 59), "Mon 07:00"),
        ((2026, 11, 16, 7, 0), ""),
        ((2026, 7, 10, 14, 0), "Mon 06:00"),
    ],
)
def test_a_weekend_begins_and_ends_by_the_clock_of_its_zone(moment, until):
    assert held("Fri 16:00 - Mon 08:00 Europe/Berlin", *moment) == until


@pytest.mark.parametrize("days", ["Mon-Fri", "mon, tue, wed, thu, fri", "Monday-Friday"])
def test_working_hours_hold_on_each_of_their_days(days):
    window = f"{days} 08:00 - 18:00"
    assert held(window, 2026, 11, 16, 9) == "Mon 18:00"
    assert held(window, 2026, 11, 20, 17, 59) == "Fri 18:00"
    assert held(window, 2026, 11, 21, 9) == "", "a Saturday"
    assert held(window, 2026, 11, 16, 18) == ""


def test_nights_end_on_the_next_day_and_weeks_wrap_around():
    assert held("22:00 - 06:00 UTC", 2026, 11, 16, 23) == "Tue 06:00"
    assert held("22:00 - 06:00 UTC", 2026, 11, 16, 5) == "Mon 06:00"
    assert held("22:00 - 06:00 UTC", 2026, 11, 16, 7) == ""
    assert held("Sat-Mon 10:00 - 11:00", 2026, 11, 15, 10, 30) == "Sun 11:00"
    assert held("Sun 23:00 - Mon 01:00", 2026, 11, 16, 0, 30) == "Mon 01:00"
    assert held("Mon 00:00 - Mon 12:00", 2026, 11, 16, 11) == "Mon 12:00"


def test_a_clock_that_is_put_back_keeps_things_quiet_for_the_hour_that_comes_twice():
    # In Berlin 02:30 comes at 00:30 and at 01:30 UTC on 25 October 2026.
    window = "02:15 - 02:45 Europe/Berlin"
    assert held(window, 2026, 10, 25, 0, 20), "the first time"
    assert held(window, 2026, 10, 25, 1, 40), "the second time"
    assert not held(window, 2026, 10, 25, 1, 46)


def test_a_clock_that_is_put_forward_does_not_lose_the_window():
    # In Berlin there is no 02:30 on 29 March 2026: at 01:00 UTC the clock goes from 02:00 to 03:00.
    assert held("01:30 - 02:30 Europe/Berlin", 2026, 3, 29, 0, 45)
    assert held("02:30 - 04:00 Europe/Berlin", 2026, 3, 29, 1, 45)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Fri 16:00 - Mon 08:00 Europe/Berln", "nearest  Europe/Berlin"),
        ("Fry 16:00 - Mon 08:00", "nearest  Fri"),
        ("Fri 16:00 - Mon 25:00", "00:00 to 23:59"),
        ("Fri afternoon", "such as 'Fri 16:00 - Mon 08:00 Europe/Berlin'"),
        ("Mon-Fri 16:00 - Mon 08:00", "one day to begin on"),
        ("16:00 - Mon 08:00", "one day to begin on"),
        ("Mon 08:00 - Mon 08:00", "nothing would ever move"),
    ],
)
def test_what_is_not_understood_is_refused_with_the_nearest(text, said):
    with pytest.raises(InputError) as refused:
        WeeklyWindow.parse(text)
    assert said in str(refused.value)


def test_a_policy_has_both_kinds_and_one_window_is_one_kind(tmp_path):
    file = tmp_path / "policy.toml"
    absolute = "[[windows]]\nreason = 'close'\nfrom = 2026-12-20T00:00:00+01:00\nuntil = 2027-01-03T00:00:00Z\n"
    weekly = "[[windows]]\nreason = 'weekend'\nweekly = 'Fri 16:00 - Mon 08:00 Europe/Berlin'\n"
    file.write_text(absolute + weekly)
    policy = RolloutPolicy.read(file)
    assert policy.quiet(datetime(2026, 11, 14, tzinfo=UTC)).reason == "weekend"
    assert policy.quiet(datetime(2026, 12, 19, 23, tzinfo=UTC)).reason == "close", "a Saturday, too; the first counts"
    assert policy.quiet(datetime(2026, 11, 17, tzinfo=UTC)) is None
    both, mistyped = weekly + "until = 2027-01-03T00:00:00Z\n", weekly.replace("weekly", "weekely")
    for broken, said in ((both, "two windows"), (mistyped, "nearest  weekly")):
        file.write_text(broken)
        with pytest.raises(InputError) as refused:
            RolloutPolicy.read(file)
        assert said in str(refused.value)

"""What a team holds every rollout to."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from halocline.errors import IncompatibleError, InputError
from halocline.plan.core.plan import Plan
from halocline.plan.policy import RolloutPolicy

WINDOW = "[[windows]]\nreason = 'close'\nfrom = 2026-12-20T00:00:00Z\nuntil = 2027-01-03T00:00:00Z\n"


def read(tmp_path, text: str) -> RolloutPolicy:
    (tmp_path / "policy.toml").write_text(text)
    return RolloutPolicy.read(tmp_path / "policy.toml")


def test_a_window_holds_from_its_beginning_until_before_its_end(tmp_path):
    policy = read(tmp_path, WINDOW)
    held = [policy.quiet(datetime(*each, tzinfo=UTC)) for each in ((2026, 12, 19, 23), (2026, 12, 20), (2027, 1, 3))]
    assert [each.reason if each else None for each in held] == [None, "close", None]


def test_unknown_is_refused_where_the_team_says_so(tmp_path):
    policy = read(tmp_path, 'unknown = "refuse"\n')
    policy.check(Plan(()))
    with pytest.raises(IncompatibleError, match="accepts no member"):
        policy.check(Plan((), accepted=("dashboards",)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('unknown = "maybe"\n', '"accept" or "refuse"'),
        ("soak_minutes = -1\n", "0 or more"),
        ("tables_at_once = true\n", "0 or more"),
        ("soak_minuts = 5\n", "nearest  soak_minutes"),
        (WINDOW.replace("2027", "2025"), "ends before it begins"),
        (WINDOW.replace("2026-12-20T00:00:00Z", "'soon'"), "a time, such as"),
        ("windows = 3\n", "cannot be used"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path, text, said):
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    assert said in str(refused.value)

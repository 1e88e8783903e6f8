"""The checker of a soak finds what must not happen, and claims nothing that it cannot be sure of."""

import hashlib
import json

import pytest
from tests.fleet.soak_checker import Entry, Sample, broken_log, early_use, falling, read_samples, wrong_commands


def lived(process, *times, level=6, lo=6, hi=6, life=1, lease=100):
    return [Sample(at, at + 1, process, life, at + lease, level, lo, hi) for at in times]


OLD = lived("old", 1000, 1010, 1020, 1030)


def test_a_level_used_beside_an_active_member_that_lacks_it_is_found():
    new = lived("new", 1012, level=8, hi=9)
    assert list(early_use([*OLD, *new])) == ["new uses 8 at 1012 while old runs 6 to 6"]


@pytest.mark.parametrize(
    ("others", "why"),
    [
        (lived("old", 1000, 1010), "it was not seen alive afterwards"),
        (lived("old", 1020, 1030), "it was not seen alive before"),
        ([*lived("old", 1010, life=1), *lived("old", 1020, life=2)], "it began another life meanwhile"),
        (lived("old", 1010, 1020, lease=2), "its lease was over"),
        ([*lived("old", 1010), *lived("old", 1020, lease=-1020)], "it stopped meanwhile"),
        (lived("old", 1010, 1020, hi=8), "it understands the level"),
    ],
)
def test_nothing_is_claimed_of_a_member_that_is_not_surely_active(others, why):
    assert not list(early_use([*others, *lived("new", 1012, level=8, hi=9)])), why


def test_a_gate_that_took_long_to_ask_says_nothing_about_when():
    slow = Sample(1012, 1025, "new", 1, 2000, 8, 6, 9)
    assert not list(early_use([*OLD, slow]))


def log(*parts):
    """Entries with a chain that fits, from (epoch, action, subject, detail)."""
    entries, previous = [], ""
    for number, (epoch, action, subject, detail) in enumerate(parts, 1):
        facts = [number, epoch, "ann", action, subject, detail, ""]
        text = json.dumps(facts, separators=(",", ":"), ensure_ascii=False)
        previous = hashlib.sha256((previous + text).encode()).hexdigest()
        entries.append(Entry(number, *facts, previous))
    return entries


SOUND = log(
    (1, "hold", "hudi=6", "a until released: tag-1"),
    (1, "release", "hudi", "a tag-2"),
    (2, "raise", "hudi=8", "hudi 6 to 8 tag-3"),
    (2, "downgrade", "hudi=6", "done: hudi 8 to 6 tag-4"),
)


def test_a_log_that_is_sound_passes():
    assert list(broken_log(SOUND)) == []
    assert list(wrong_commands(SOUND, ["tag-1", "tag-3"], ["tag-4", "tag-9"])) == []


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ([SOUND[0], *SOUND[2:]], "entry 3 does not follow"),
        ([SOUND[0], SOUND[1]._replace(detail="b"), *SOUND[2:]], "entry 2 does not follow"),
        (log((2, "join", "etl", ""), (1, "join", "bi", "")), "under epoch 1 after epoch 2"),
        (
            log((1, "hold", "hudi=6", "a until released: t"), (1, "raise", "hudi=8", "hudi 6 to 8")),
            "above the hold a at 6",
        ),
        (log((1, "raise", "hudi=8", "hudi 6 to 8"), (1, "raise", "hudi=9", "hudi 6 to 9")), "but it stood at 8"),
    ],
)
def test_a_log_that_was_changed_or_says_what_must_not_happen_is_found(entries, complaint):
    assert any(complaint in each for each in broken_log(entries)), list(broken_log(entries))


def test_a_command_that_was_lost_or_done_twice_is_found():
    assert list(wrong_commands(SOUND, ["tag-9"], [])) == ["tag-9 was acknowledged and is in the log 0 times"]
    twice = log((1, "hold", "hudi=6", "a: tag-1"), (1, "hold", "hudi=6", "b: tag-1"))
    assert list(wrong_commands(twice, [], ["tag-1"])) == ["tag-1 was done 2 times"]


def test_an_epoch_or_a_revision_that_falls_is_found():
    assert list(falling([(1, 1), (1, 2), (2, 2)])) == []
    assert len(list(falling([(2, 5), (1, 6), (2, 4)]))) == 2


def test_a_sample_that_was_cut_off_by_a_kill_is_left_out():
    whole = "1 2 etl 7 100 8 6 9\n"
    assert list(read_samples([whole, whole.rstrip("\n"), "1 2 et"])) == [Sample(1, 2, "etl", 7, 100, 8, 6, 9)]

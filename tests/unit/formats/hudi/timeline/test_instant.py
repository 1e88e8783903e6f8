"""Names of the timeline's files say which instant they stand for, and how far it has come."""

import pytest

from halocline.errors import InputError
from halocline.formats.hudi.timeline.instant import InstantState, checked_time, file_name, order, parse_name


@pytest.mark.parametrize(
    ("name", "action", "state", "completion"),
    [
        ("20250101000000000.commit.requested", "commit", "requested", None),
        ("20250101000000000.inflight", "commit", "inflight", None),
        ("20250101000000000.commit", "commit", "completed", None),
        ("20250101000000000_20250101000000900.commit", "commit", "completed", "20250101000000900"),
        ("20250101000000.deltacommit.inflight", "deltacommit", "inflight", None),
        ("20250101000000000.compaction.requested", "compaction", "requested", None),
        ("20250101000000000.clustering.inflight", "clustering", "inflight", None),
        ("20250101000000000_20250101000000900.replacecommit", "replacecommit", "completed", "20250101000000900"),
        ("00000000000000010.deltacommit", "deltacommit", "completed", None),
    ],
)
def test_a_name_is_read_and_written_alike(name, action, state, completion):
    found = parse_name(name)
    assert (found.action, found.state, found.completion) == (action, InstantState(state), completion)
    assert file_name(found) == name


@pytest.mark.parametrize(
    "name",
    ["hoodie.properties", "20250101.commit.other", ".20250101.commit.crc", "2025_2026.commit.requested", "1.", "a.b"],
)
def test_other_names_stand_for_no_instant(name):
    assert parse_name(name) is None


def test_times_without_milliseconds_end_their_second():
    times = ["20250101000000999", "20250101000001000", "20250101000000"]
    assert sorted(times, key=order) == ["20250101000000999", "20250101000000", "20250101000001000"]


def test_what_is_no_time_is_refused():
    for text in ("", "yesterday", "2025-01-01", "٦", "1", "2", "17"):
        with pytest.raises(InputError, match="is no instant"):
            checked_time(text)

"""Listings that race with commits: what they leave out is no gap."""

from __future__ import annotations

import pytest

from halocline.errors import MalformedError
from halocline.formats.log.names import DELTA
from halocline.formats.log.segment import find_segment
from halocline.storage.memory import MemoryStore


class RacingStore(MemoryStore):
    """A store whose first listings do not show two of the objects, as a folder does that changes meanwhile."""

    hidden: tuple[str, ...] = ()
    listings = 0

    def list(self, prefix="", *, start_after=None, follow_links=True):
        self.listings -= 1
        shown = super().list(prefix, start_after=start_after)
        return (meta for meta in shown if self.listings < 0 or meta.path not in self.hidden)


def log(listings: int) -> RacingStore:
    store = RacingStore()
    for version in range(6):
        store.put(DELTA.commit_path(version), b"{}")
    store.hidden, store.listings = (DELTA.commit_path(2), DELTA.commit_path(4)), listings
    return store


@pytest.mark.parametrize("listings", [0, 1, 100])
def test_commits_that_listings_leave_out_are_found_where_they_are(listings):
    segment = find_segment(log(listings), DELTA)
    assert [file.version for file in segment.commits] == [0, 1, 2, 3, 4, 5]


def test_a_commit_that_is_gone_is_damage_whatever_listings_leave_out():
    store = log(100)
    store.delete(DELTA.commit_path(2))
    with pytest.raises(MalformedError, match="version 2 is missing before version 3"):
        find_segment(store, DELTA)


def test_the_first_commit_after_the_checkpoint_may_be_left_out_too():
    store = log(100)
    store.put("_delta_log/_last_checkpoint", b'{"version":1,"size":1}')
    store.put(f"_delta_log/{1:020d}.checkpoint.parquet", b"")
    assert [file.version for file in find_segment(store, DELTA).commits] == [2, 3, 4, 5]

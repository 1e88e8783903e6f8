"""Listings that race with commits: a gap counts only if it stays."""

from __future__ import annotations

import pytest

from halocline.errors import MalformedError
from halocline.formats.log.names import DELTA
from halocline.formats.log.segment import find_segment
from halocline.storage.memory import MemoryStore


class RacingStore(MemoryStore):
    """A store whose first listings do not show one of the objects, as a folder does that changes meanwhile."""

    hidden = ""
    listings = 0

    def list(self, prefix="", *, start_after=None, follow_links=True):
        self.listings -= 1
        shown = super().list(prefix, start_after=start_after)
        return (meta for meta in shown if self.listings < 0 or meta.path != self.hidden)


def log(listings: int) -> RacingStore:
    store = RacingStore()
    for version in range(4):
        store.put(DELTA.commit_path(version), b"{}")
    store.hidden, store.listings = DELTA.commit_path(2), listings
    return store


@pytest.mark.parametrize("listings", [0, 1, 2])
def test_commit_that_a_listing_missed_is_found_by_the_next(listings):
    assert find_segment(log(listings), DELTA).version == 3


def test_gap_that_stays_is_damage():
    with pytest.raises(MalformedError, match="version 2 is missing"):
        find_segment(log(100), DELTA)

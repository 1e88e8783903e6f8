"""The states of an instant, put into the timeline one by one.

A state that is there already is left as it is, so whoever goes on after a crash may put it again. Only the request
takes a time of its own, which no other instant has.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from halocline.errors import AlreadyExistsError
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.timeline.instant import ENDS_AS, HudiInstant, InstantState, file_name, order
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write.times import next_time
from halocline.formats.log.fence import check_fence
from halocline.storage.base import Store


def put_requested(store: Store, config: HudiTableConfig, action: str, body: bytes) -> HudiInstant:
    """Requests an action, at a time that no other instant has and that no completed write is behind.

    Who reads the timeline between the choice of the time and the request takes a write that was completed meanwhile for
    the last one, and would never read one that is requested before it.

    Args:
        store: Where the table lies.
        config: What it is.
        action: What is to be done.
        body: The plan.
    """
    while True:
        found = HudiInstant(next_time(HudiTimeline.load(store, config)), action, InstantState.REQUESTED)
        found = replace(found, path=f"{config.timeline_folder}/{file_name(found)}")
        try:
            store.put_if_absent(found.path, body)
        except AlreadyExistsError:  # another writer was given the same millisecond
            continue
        timeline = HudiTimeline.load(store, config)
        overtaken = any(order(each.time) > order(found.time) for each in timeline.writes)
        if not overtaken and [each.time for each in timeline.instants].count(found.time) == 1:
            return found
        store.delete(found.path)  # another writer was given the time for another action, or was faster by a whole write


def put_inflight(store: Store, config: HudiTableConfig, instant: HudiInstant, body: bytes = b"") -> HudiInstant:
    """Says that an action is under way."""
    found = replace(instant, state=InstantState.INFLIGHT)
    found = replace(found, path=f"{config.timeline_folder}/{file_name(found)}")
    with suppress(AlreadyExistsError):
        store.put_if_absent(found.path, body)
    return found


def put_completed(store: Store, config: HudiTableConfig, instant: HudiInstant, body: bytes) -> HudiInstant:
    """Makes what an action did count, under the name that it ends as."""
    done = replace(instant, action=ENDS_AS.get(instant.action, instant.action), state=InstantState.COMPLETED)
    if config.layout > 1:
        done = replace(done, completion=next_time(HudiTimeline.load(store, config)))
    done = replace(done, path=f"{config.timeline_folder}/{file_name(done)}")
    check_fence()
    store.put_if_absent(done.path, body)
    return done

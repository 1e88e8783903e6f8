"""Running a table service that is planned: alone, in parts, and completed under the lock.

What a plan names is cut into parts, one new base file each, and a *runner* does them: in this process one after the
other, or in tasks of an engine. A part that is tried twice leaves two files, put aside until it is known which counts
(`halocline.formats.hudi.write.files_aside`). While it runs it keeps a heartbeat, so that nobody else runs the same plan
meanwhile: who runs it again after a crash first removes what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, TypeAlias

from halocline.errors import ConflictError, UnsupportedError
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.names import BaseFile
from halocline.formats.hudi.slices import data_files
from halocline.formats.hudi.timeline.instant import LOG_COMPACTION, HudiInstant
from halocline.formats.hudi.timeline.metadata import CommitMetadata, WriteStat
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write.commit_body import encode_commit
from halocline.formats.hudi.write.files_aside import move_into_place, take_back_aside
from halocline.formats.hudi.write.heartbeat import beating, is_alive
from halocline.formats.hudi.write.instants import put_completed, put_inflight
from halocline.formats.hudi.write.markers import delete_markers
from halocline.storage.base import Store

Work: TypeAlias = Callable[[Any, str], WriteStat]
"""What does one part, as an attempt that a token names."""

Runner: TypeAlias = Callable[[Work, Sequence[Any]], list[WriteStat]]
"""What has all parts done."""

Lock: TypeAlias = AbstractContextManager[object] | None
"""What every writer of the table holds while it completes something; None if there is no other."""


def check_no_log_compaction(timeline: HudiTimeline) -> None:
    """Refuses to plan anything beside a log compaction, whose plan may name the same log files.

    Raises:
        UnsupportedError: One is pending.
    """
    pending = [each for each in timeline.instants if each.action == LOG_COMPACTION and not each.is_completed]
    if pending:
        raise UnsupportedError(
            f"a log compaction of {timeline.store.root} is pending, which this release neither runs nor takes back",
            sides={"pending": ", ".join(map(str, pending)), "halocline runs": "compaction and clustering"},
            next_step="Run it or roll it back with the writer that planned it.",
        )


def in_turn(work: Work, parts: Sequence[Any]) -> list[WriteStat]:
    """Does all parts in this process."""
    return [work(part, f"{number}-0-0") for number, part in enumerate(parts)]


@contextmanager
def running(store: Store, config: HudiTableConfig, instant: HudiInstant, lock: Lock = None) -> Iterator[None]:
    """Says for the length of the block that a planned service is run, once nobody else does.

    Args:
        store: Where the table lies.
        config: What it is.
        instant: The service.
        lock: What every writer of the table holds while it begins something; None if the caller has it.

    Raises:
        ConflictError: Somebody else is at it, or has just completed it.
    """
    with ExitStack() as until_done:
        # Of two that see no heartbeat at the same moment, each would remove what the other writes.
        with lock or nullcontext():
            _check_free(store, config, instant)
            until_done.enter_context(beating(store, instant.time))
        put_inflight(store, config, instant)
        remove_leftovers(store, instant.time)
        yield


def _check_free(store: Store, config: HudiTableConfig, instant: HudiInstant) -> None:
    if is_alive(store, instant.time):
        raise ConflictError(
            f"somebody is running {instant} of {store.root}",
            condition="CONCURRENT_APPEND",
            sides={"wanted": f"to run {instant.time}", "found": "a heartbeat of it"},
            next_step="Wait until it is completed. If whoever ran it has died, it can be run again in some minutes.",
        )
    if instant.time not in HudiTimeline.load(store, config).pending:
        raise ConflictError(
            f"somebody has just completed {instant} of {store.root}, or taken it back",
            condition="CONCURRENT_APPEND",
            sides={"wanted": f"to run {instant.time}", "timeline": "no such pending instant"},
            next_step="Run the service again if there is more to do.",
        )


def complete(
    store: Store,
    config: HudiTableConfig,
    instant: HudiInstant,
    metadata: CommitMetadata,
    action: str,
    lock: Lock = None,
    check: Callable[[], None] = lambda: None,
) -> HudiInstant:
    """Makes what a service wrote count.

    Args:
        store: Where the table lies.
        config: What it is.
        instant: The service.
        metadata: What it did.
        action: What it ends as.
        lock: What every writer of the table holds meanwhile.
        check: What has to hold when the lock is held.
    """
    move_into_place(store, instant.time, [stat.path for _, stat in metadata.stats if stat.path])
    with lock or nullcontext():
        check()
        done = put_completed(store, config, instant, encode_commit(metadata, action, config.layout))
    delete_markers(store, instant.time)
    return done


def remove_leftovers(store: Store, time: str) -> None:
    """Removes base files of an attempt that died: two files of one group and instant confuse readers."""
    take_back_aside(store, time)  # first, so that nobody moves a file to where has been looked already
    found = (each for each in data_files(store) if isinstance(each, BaseFile) and each.instant == time)
    store.delete_many([each.path for each in found])

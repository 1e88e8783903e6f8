"""Whether the writer of a pending instant is still at work.

A writer keeps a *heartbeat*: a file `.hoodie/.heartbeat/<instant>` that it writes again and again, where writers of
Apache Hudi look as well. One that is older than some minutes belongs to a writer that has died. Ours also names the
machine and the process, so that on the same machine a dead one is known at once.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Final

from halocline.errors import HaloclineError, NotFoundError
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.properties import FOLDER
from halocline.formats.hudi.timeline.instant import HudiInstant
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write.rollback import failed_writes, roll_back
from halocline.storage.base import Store
from halocline.storage.process import is_process, process_space

_EVERY_S: Final = 20.0
_DEAD_AFTER_MS: Final = 3 * 60 * 1000
_OWN: Final[set[tuple[str, str]]] = set()
"""The instants that this process is at work on. Another process may have had its number before, and have died."""


def beat_once(store: Store, instant: str) -> None:
    """Says that somebody is at work on an instant, whose processes come and go."""
    store.put(_path(instant), b"{}")


def stop_beating(store: Store, instant: str) -> None:
    """Says that nobody is at work on an instant any more."""
    with suppress(HaloclineError):
        store.delete(_path(instant))


@contextmanager
def beating(store: Store, instant: str, *, own: bool = True) -> Iterator[None]:
    """Says, for the length of the block, that the writer of an instant is at work.

    Args:
        store: Where the table lies.
        instant: The instant.
        own: Whether the write is this process's own, and ends with the block.
    """
    path, done = _path(instant), threading.Event()
    body = json.dumps({"host": process_space(), "pid": os.getpid()} if own else {}).encode()
    mine = (store.root, instant)
    store.put(path, body)
    if own:
        _OWN.add(mine)

    def beat() -> None:
        while not done.wait(_EVERY_S):
            with suppress(HaloclineError):  # the next beat may succeed; without any, others take the write back
                store.put(path, body)

    thread = threading.Thread(target=beat, name=f"halocline-heartbeat-{instant}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if own:
            _OWN.discard(mine)
            stop_beating(store, instant)


def is_alive(store: Store, instant: str) -> bool:
    """Whether the writer of an instant is at work, as far as anybody can tell."""
    try:
        body, meta = store.fetch(_path(instant))
    except NotFoundError:
        return False
    if time.time() * 1000 - meta.modified_ms > _DEAD_AFTER_MS:
        return False
    with suppress(ValueError, TypeError):
        said = json.loads(body)
        if isinstance(said, dict) and said.get("host") == process_space():
            number = int(said["pid"])
            return (store.root, instant) in _OWN if number == os.getpid() else is_process(number)
    return True


def take_back_failed(
    store: Store, config: HudiTableConfig, lock: AbstractContextManager[object] | None = None
) -> tuple[str, ...]:
    """Takes back the writes whose writers have died, and returns their instants.

    Args:
        store: Where the table lies.
        config: What it is.
        lock: What every writer of the table holds while it completes a write: one that was slow rather than dead must
            not complete what is being taken back.
    """
    if not _dead_writes(store, config):
        return ()
    with lock or nullcontext():
        dead = _dead_writes(store, config)
        for each in dead:
            roll_back(store, config, each)
            store.delete(_path(each.time))
    return tuple(each.time for each in dead)


def _dead_writes(store: Store, config: HudiTableConfig) -> list[HudiInstant]:
    failed = failed_writes(HudiTimeline.load(store, config))
    return [each for each in failed if not is_alive(store, each.time)]


def _path(instant: str) -> str:
    return f"{FOLDER}/.heartbeat/{instant}"

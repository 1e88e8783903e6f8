"""Whether the writer of a pending instant is still at work.

A writer keeps a *heartbeat*: a file `.hoodie/.heartbeat/<instant>` that it writes again and again, where writers of
Apache Hudi look as well. One that is older than some minutes belongs to a writer that has died. Ours also names the
machine and the process, so that on the same machine a dead one is known at once.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from halocline.errors import HaloclineError, NotFoundError
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.properties import FOLDER
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write.rollback import failed_writes, roll_back
from halocline.storage.base import Store

_EVERY_S: Final = 20.0
_DEAD_AFTER_MS: Final = 3 * 60 * 1000


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
    body = json.dumps({"host": socket.gethostname(), "pid": os.getpid()} if own else {}).encode()
    store.put(path, body)

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
        if isinstance(said, dict) and said.get("host") == socket.gethostname():
            return _is_process(int(said["pid"]))
    return True


def take_back_failed(store: Store, config: HudiTableConfig) -> tuple[str, ...]:
    """Takes back the writes whose writers have died, and returns their instants."""
    failed = failed_writes(HudiTimeline.load(store, config))
    dead = [each for each in failed if not is_alive(store, each.time)]
    for each in dead:
        roll_back(store, config, each)
        store.delete(_path(each.time))
    return tuple(each.time for each in dead)


def _path(instant: str) -> str:
    return f"{FOLDER}/.heartbeat/{instant}"


def _is_process(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

"""Looking at many tables: several processes where that pays, and a table that ends a process ends nothing else.

A *surveyor* is a process that is given tables as lines of JSON and answers with their facts. It is a program of its
own, so a script that surveys a lake needs no guard for its main module. Where a surveyor dies, its tables are looked at
one by one by new ones, and the one that is fatal is noted as damaged.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import IO, Final

import msgspec

from halocline.errors import InternalError
from halocline.lake.facts import Job, TableFacts, gather

_BATCH: Final = 32
_WORTH_A_PROCESS: Final = 256
_MOST_PROCESSES: Final = 4
_REMOTE_AT_ONCE: Final = 16

_Entry = tuple[str, str, tuple[str, ...]]
"""Name, place and formats of a table."""

_encoded: Final = msgspec.json.Encoder().encode
_batch_of: Final = msgspec.json.Decoder(list[_Entry]).decode
_facts_of: Final = msgspec.json.Decoder(list[TableFacts]).decode
_job_of: Final = msgspec.json.Decoder(Job).decode


def look_at(entries: Sequence[_Entry], job: Job, *, processes: int | None = None) -> Iterator[TableFacts]:
    """The facts of every table, in the order given.

    Args:
        entries: Name, place and formats of each.
        job: What is to be told.
        processes: How many to use; 0 for this one alone. As many as pay off if not given.
    """
    if processes is None:
        shared = any(url.startswith("memory:") for _, url, _ in entries)
        processes = 0 if shared or len(entries) < _WORTH_A_PROCESS else min(_MOST_PROCESSES, os.cpu_count() or 1)
    if processes == 0:
        for batch in _batches(entries):
            yield from gathered(batch, job)
        return
    with ThreadPoolExecutor(processes, thread_name_prefix="halocline-survey") as pool:
        surveyors = [_Surveyor(job) for _ in range(processes)]
        try:
            yield from _in_turns(pool, surveyors, _batches(entries))
        finally:
            for each in surveyors:
                each.end()


def _in_turns(
    pool: ThreadPoolExecutor, surveyors: list[_Surveyor], batches: Iterator[Sequence[_Entry]]
) -> Iterator[TableFacts]:
    """Each surveyor always has a batch to do and at most one more waiting; answers come in the order of the batches."""
    idle, waiting = list(surveyors), list[Future[list[TableFacts]]]()

    def looked(batch: Sequence[_Entry]) -> list[TableFacts]:
        surveyor = idle.pop()
        try:
            return surveyor.look(batch)
        finally:
            idle.append(surveyor)

    for batch in batches:
        waiting.append(pool.submit(looked, batch))
        while len(waiting) > 2 * len(surveyors):
            yield from waiting.pop(0).result()
    for future in waiting:
        yield from future.result()


def gathered(batch: Sequence[_Entry], job: Job) -> list[TableFacts]:
    """The facts of a few tables, looked at here; those in buckets several at once."""
    if all(url.startswith(("file:", "memory:")) for _, url, _ in batch):
        return [_of(each, job) for each in batch]
    with ThreadPoolExecutor(_REMOTE_AT_ONCE, thread_name_prefix="halocline-look") as pool:
        return list(pool.map(lambda each: _of(each, job), batch))


def _of(entry: _Entry, job: Job) -> TableFacts:
    name, url, formats = entry
    return gather(name, url, formats, job)


class _Surveyor:
    """The process, started when it is first needed, and again when it has died."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._process: subprocess.Popen[bytes] | None = None

    def look(self, batch: Sequence[_Entry]) -> list[TableFacts]:
        answer = self._ask(batch)
        if answer is not None:
            return answer
        if len(batch) > 1:
            return [facts for each in batch for facts in self.look([each])]
        name, url, formats = batch[0]
        now_ms, told = time.time_ns() // 1_000_000, "the process that read it ended; its output says why"
        return [TableFacts(name=name, url=url, format="+".join(formats), looked_ms=now_ms, damage=told)]

    def _ask(self, batch: Sequence[_Entry]) -> list[TableFacts] | None:
        """The answer; None if there is none, for then the process has died."""
        try:
            given, answers = self._pipes()
            given.write(_encoded(batch) + b"\n")
            given.flush()
            line = answers.readline()
        except OSError:
            line = b""
        if line.endswith(b"\n"):
            return _facts_of(line)
        self.end()
        return None

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._process is None:
            source = str(Path(__file__).parents[2])
            path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH", ""))))
            self._process = subprocess.Popen(
                [sys.executable, "-m", "halocline.lake.surveyors"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},
                process_group=0,  # Ctrl-C is for whoever asks, and ends this with its pipes
            )
            if self._process.stdin is not None:
                self._process.stdin.write(_encoded(self._job) + b"\n")
        given, answers = self._process.stdin, self._process.stdout
        if given is None or answers is None:
            raise InternalError("a surveyor has no pipes")
        return given, answers

    def end(self) -> None:
        """Ends the process; the next question starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def serve(given: IO[bytes], answers: IO[bytes]) -> None:
    """What a surveyor does: a line that says what is wanted, and then a line of facts for each line of tables."""
    job = _job_of(given.readline())
    for line in given:
        answers.write(_encoded(gathered(_batch_of(line), job)) + b"\n")
        answers.flush()


def _batches(entries: Iterable[_Entry]) -> Iterator[Sequence[_Entry]]:
    rest = iter(entries)
    while batch := list(islice(rest, _BATCH)):
        yield batch


if __name__ == "__main__":
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, answers)

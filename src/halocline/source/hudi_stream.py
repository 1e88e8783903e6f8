"""Micro-batches added to a Hudi table, each once.

A micro-batch is one write. Spark plans every batch anew, and commits it where the plan is not known, so the first task
with rows requests the instant and leaves a note of it for the others. A batch that Spark repeats after a crash is found
by what commits say (`halocline.formats.hudi.write.stream_batch`), and taken back. What a batch left whose processes
died is taken back by a later write, once nobody has renewed its heartbeat for some minutes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from pyspark.sql.datasource import WriterCommitMessage

from halocline.errors import AlreadyExistsError, HaloclineError, NotFoundError
from halocline.formats.hudi.configuration import HudiTableConfig
from halocline.formats.hudi.properties import FOLDER, read_properties
from halocline.formats.hudi.timeline.instant import HudiInstant, InstantState
from halocline.formats.hudi.timeline.timeline import HudiTimeline
from halocline.formats.hudi.write.heartbeat import beat_once, stop_beating
from halocline.formats.hudi.write.rollback import roll_back
from halocline.formats.hudi.write.stream_batch import StreamBatch
from halocline.formats.hudi.write.transaction import HudiWrite
from halocline.schema.types import Struct
from halocline.source.hudi_writer import HudiRowSink, StatsMessage
from halocline.source.options import SourceOptions
from halocline.source.stream import ArrowStreamWriter, arrow_batches, check_identity, identity
from halocline.table.hudi.writing import action_of, beginning

_NOTES: Final = f"{FOLDER}/.aux/halocline_stream"


class HudiStreamWriter(ArrowStreamWriter):  # type: ignore[misc]
    """Adds micro-batches to a table, each once."""

    def __init__(self, sink: HudiRowSink, schema: Struct, action: str) -> None:
        self._sink = sink
        self._schema = schema
        self._action = action
        self._note = f"{_NOTES}/{uuid.uuid4()}"

    @staticmethod
    def open(asked: SourceOptions, schema: Struct, *, overwrite: bool) -> HudiStreamWriter:
        """Finds the table behind the gate, and checks that the rows fit; see `HudiRowSink.open`."""
        check_identity(asked, overwrite=overwrite)
        sink, snapshot = HudiRowSink.open(asked, schema, overwrite=False)
        return HudiStreamWriter(sink, schema, action_of(snapshot))

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Writes the rows of one task, see `HudiRowSink.write`; without rows there is nothing to begin."""
        batches = (batch for batch in arrow_batches(iterator, self._schema) if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return StatsMessage([])
        return self._sink.write(self._begun(), _chained(first, batches))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Makes what was written count, unless this batch is in the table already."""
        if (write := _write_of(messages)) is not None:
            # Its file groups are new, so no other write can have changed them; for those of buckets the sink looks.
            timeline = HudiTimeline.load(write.store, write.config)
            write = replace(write, seen=frozenset(each.time for each in timeline.writes))
            self._sink.commit(write, messages, StreamBatch(identity(self._sink.asked), batchId))
            self._forget()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Takes the batch back if a task failed; if none did, `commit` has seen to it."""
        if None in messages and (write := _write_of(messages)) is not None:
            self._sink.abort(write)
            with suppress(HaloclineError):
                self._forget()

    def _begun(self) -> HudiWrite:
        """The write of this batch, which the first task begins."""
        writer = self._sink.writer
        store, config = writer.store, writer.config
        with suppress(NotFoundError):
            return self._noted(store.get(self._note).decode())
        with beginning(store, config, self._action, "INSERT") as write:
            beat_once(store, write.time)
        try:
            store.put_if_absent(self._note, write.time.encode())
        except AlreadyExistsError:  # another task was faster
            roll_back(store, config, write.instant)
            stop_beating(store, write.time)
            return self._noted(store.get(self._note).decode())
        return write

    def _noted(self, time: str) -> HudiWrite:
        writer = self._sink.writer
        instant = HudiInstant(time, self._action, InstantState.INFLIGHT)
        return HudiWrite(writer.store, writer.config, instant, "INSERT", frozenset())

    def _forget(self) -> None:
        """Deletes notes of instants that are not pending any more: those of this batch, and of batches that died."""
        store = self._sink.writer.store
        # As it is now: a batch that a move of the table has overtaken knows another timeline.
        config = HudiTableConfig.parse(read_properties(store).pairs, store.root)
        pending = {each.time for each in HudiTimeline.load(store, config).instants if not each.is_completed}
        notes = [meta.path for meta in store.list(_NOTES)]
        store.delete_many([path for path in notes if store.get(path).decode() not in pending])


def _write_of(messages: list[WriterCommitMessage | None]) -> HudiWrite | None:
    """The write that tasks have written for; None if there were no rows."""
    told = (message.write for message in messages if isinstance(message, StatsMessage))
    return next((write for write in told if write is not None), None)


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest

"""A pending write is left alone while its writer is at work, and taken back when it has died."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.support.hudi_tables import HudiTableMaker, rows, shown

from halocline.formats.hudi.configuration import TableType
from halocline.formats.hudi.write import heartbeat
from halocline.formats.hudi.write.heartbeat import beat_once, beating, is_alive, stop_beating, take_back_failed
from halocline.storage.memory import MemoryStore
from halocline.storage.process import process_space


@pytest.fixture
def table() -> HudiTableMaker:
    made = HudiTableMaker.create(MemoryStore(), 8, TableType.COPY_ON_WRITE)
    made.upsert(range(4), 100, "a")
    return made


def said(table: HudiTableMaker, instant: str, **body) -> None:
    table.store.put(f".hoodie/.heartbeat/{instant}", json.dumps(body).encode())


def dead_process() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_a_writer_that_beats_is_left_alone_and_one_that_does_not_is_taken_back(table):
    running, failed = table.begin(), table.begin()
    table.write(failed, rows([9], 200, "lost"))
    with beating(table.store, running.time):
        assert is_alive(table.store, running.time)
        assert take_back_failed(table.store, table.config) == (failed.time,)
    assert not is_alive(table.store, running.time), "the heartbeat ends with the block"
    assert take_back_failed(table.store, table.config) == (running.time,)
    assert len(shown(table.snapshot.read())) == 4


def test_a_process_of_this_machine_is_known_to_be_dead_at_once(table):
    write = table.begin()
    said(table, write.time, host=process_space(), pid=dead_process())
    assert not is_alive(table.store, write.time)
    said(table, write.time, host=process_space(), pid=os.getppid())
    assert is_alive(table.store, write.time)
    said(table, write.time, host=process_space(), pid=os.getpid())
    assert not is_alive(table.store, write.time), "another process had the number, before this one was started"
    said(table, write.time, host="elsewhere", pid=dead_process())
    assert is_alive(table.store, write.time), "what runs elsewhere cannot be seen from here"


def test_a_killed_writer_that_nobody_has_asked_for_is_known_to_be_dead_at_once(table, unreaped):
    write = table.begin()
    said(table, write.time, host=process_space(), pid=unreaped)
    assert not is_alive(table.store, write.time)


def test_an_old_heartbeat_is_that_of_a_dead_writer(table, monkeypatch):
    write = table.begin()
    beat_once(table.store, write.time)
    assert is_alive(table.store, write.time)
    monkeypatch.setattr(heartbeat, "_DEAD_AFTER_MS", -1)
    assert not is_alive(table.store, write.time)
    stop_beating(table.store, write.time)
    assert list(table.store.list(".hoodie/.heartbeat")) == []

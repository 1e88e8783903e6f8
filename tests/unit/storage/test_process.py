"""A process that was killed has ended, also while its number is still taken."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys

import pytest

from halocline.errors import ConflictError, UnavailableError
from halocline.formats.hudi.maintain.locks import FileSystemLock
from halocline.formats.hudi.write.heartbeat import is_alive
from halocline.plan.apply.lease import RolloutLease
from halocline.storage import open_store
from halocline.storage.process import is_gone, is_process, process_space


def test_a_process_that_runs_is_one():
    assert is_process(os.getpid())
    assert is_process(1), "also one of another user"


def test_a_process_that_is_gone_is_none():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert not is_process(gone.pid)


def test_a_killed_process_that_its_parent_has_not_asked_for_is_none(unreaped):
    assert not is_process(unreaped)


def test_a_number_of_another_space_does_not_tell_that_a_process_is_gone():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert is_gone(process_space(), gone.pid)
    for space in (socket.gethostname(), f"{socket.gethostname()}#12345678", ""):
        assert not is_gone(space, gone.pid)


IN_A_CONTAINER = """
import os, sys
from halocline.formats.hudi.maintain.locks import FileSystemLock
from halocline.formats.hudi.write.heartbeat import beating
from halocline.plan.apply.lease import RolloutLease
from halocline.storage import open_store
store, wanted = open_store(sys.argv[1]), int(sys.argv[2])
while os.getpid() != wanted:
    if child := os.fork():
        status = os.waitpid(child, 0)[1]
        if child == wanted:
            os._exit(os.waitstatus_to_exitcode(status))
    elif os.getpid() != wanted:
        os._exit(0)
with FileSystemLock(store, expires_s=600), beating(store, "20260101000000000"), RolloutLease(store, "ana", "p"):
    print("at work", flush=True)
    sys.stdin.read()
"""


def test_who_is_at_work_in_a_container_of_the_same_name_counts_as_alive(tmp_path):
    enter = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if shutil.which("unshare") is None or subprocess.run([*enter, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets us have no other space of processes")
    free = next(number for number in range(2, 1000) if not is_process(number))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*enter, sys.executable, "-c", IN_A_CONTAINER, str(tmp_path), str(free)], **pipes) as other:
        assert other.stdout.readline() == "at work\n"
        store = open_store(tmp_path)
        assert is_alive(store, "20260101000000000")
        with pytest.raises(UnavailableError), FileSystemLock(store, expires_s=600, wait_s=0):
            pass
        with pytest.raises(ConflictError), RolloutLease(store, "ben", "q"):
            pass
        other.stdin.close()
    assert other.returncode == 0

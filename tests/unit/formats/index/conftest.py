"""Scratch folders of index tests lie in memory, for the library waits for the disk with every commit."""

import os
import shutil
import tempfile

import pytest


@pytest.fixture(autouse=True, scope="session")
def scratch_in_memory():
    before = tempfile.tempdir
    if os.access("/dev/shm", os.W_OK):
        tempfile.tempdir = tempfile.mkdtemp(prefix="halocline-tests-", dir="/dev/shm")
    yield
    if tempfile.tempdir != before and tempfile.tempdir is not None:
        shutil.rmtree(tempfile.tempdir)
    tempfile.tempdir = before

"""Scratch folders of index tests lie in memory, for the library waits for the disk with every commit."""

import os
import shutil
import tempfile

import pytest


@pytest.fixture(autouse=True, scope="module")
def scratch_in_memory(tmp_path_factory):
    tmp_path_factory.getbasetemp()  # what tests ask for by name stays on disk
    if not os.access("/dev/shm", os.W_OK):
        yield
        return
    before, folder = tempfile.tempdir, tempfile.mkdtemp(prefix="halocline-tests-", dir="/dev/shm")
    tempfile.tempdir = folder
    yield
    tempfile.tempdir = before
    shutil.rmtree(folder)

"""Folders of indexes are removed for good, though the library may still look into them."""

from __future__ import annotations

import os

import pytest
from tests.support.splits import build, look_into, row

from halocline.formats.index.split.reader import OpenedSplit
from halocline.formats.index.split.scratch import remove_folder, scratch_folder
from halocline.storage.memory import MemoryStore

PATH = "a.split.parquet"


def test_a_folder_that_the_library_still_looks_into_is_removed(tmp_path, monkeypatch):
    with scratch_folder("a-", str(tmp_path)) as folder:
        look_into(monkeypatch, folder)
    assert os.listdir(tmp_path) == []


def test_a_split_that_is_closed_leaves_nothing_behind(tmp_path, monkeypatch):
    store = MemoryStore()
    build(store, [row(number) for number in range(10)])
    with OpenedSplit(store, PATH, scratch=str(tmp_path)) as opened:
        assert opened.searcher.num_docs == 10
        (folder,) = tmp_path.iterdir()
        look_into(monkeypatch, str(folder))
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_gone_already_is_no_error(tmp_path):
    remove_folder(str(tmp_path / "gone"))
    assert os.listdir(tmp_path) == []


def test_what_fails_inside_leaves_nothing_behind(tmp_path):
    with pytest.raises(KeyboardInterrupt), scratch_folder("a-", str(tmp_path)):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []

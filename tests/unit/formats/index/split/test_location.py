"""Paths of splits: below the root in any spelling, and nothing outside of it."""

import pytest
from tests.support.splits import build, row

from halocline.errors import MalformedError, UnsupportedError
from halocline.formats.index.split.location import below_root
from halocline.formats.index.split.reader import OpenedSplit
from halocline.storage import open_store


def test_a_url_below_the_root_is_the_name_that_it_has_there(tmp_path):
    store = open_store(str(tmp_path))
    for spelt in ("day=1/a b.split", f"{tmp_path}/day=1/a b.split", f"file://{tmp_path}/day=1/./a%20b.split"):
        assert below_root(store, spelt) == "day=1/a b.split"
    build(store, [row(1)])
    with OpenedSplit(store, f"{tmp_path}/a.split.parquet") as opened:
        assert opened.layout.rows == 1


@pytest.mark.parametrize("path", ["s3://bucket/split1.split", "/elsewhere/a.split", "file:///elsewhere/a.split"])
def test_what_lies_outside_of_the_table_is_refused(path, tmp_path):
    with pytest.raises(UnsupportedError, match="outside"):
        below_root(open_store(str(tmp_path)), path)


@pytest.mark.parametrize("path", ["", "../a.split", "day=1/../../a.split", "a//b.split"])
def test_a_path_that_names_nothing_of_the_table_is_damage(path, tmp_path):
    with pytest.raises(MalformedError):
        below_root(open_store(str(tmp_path)), path)

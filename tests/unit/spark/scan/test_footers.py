"""Data files that cannot be opened are named, with what to do."""

from __future__ import annotations

import pytest

from halocline.errors import MalformedError, NotFoundError
from halocline.spark.scan.footers import footers, open_file
from halocline.storage import open_store


@pytest.mark.parametrize("size", [None, 100])
def test_a_file_that_the_log_names_and_nobody_finds_is_missing(tmp_path, size):
    with pytest.raises(NotFoundError, match=r"a/gone\.parquet does not exist") as caught:
        open_file(open_store(str(tmp_path)), "a/gone.parquet", size)
    assert caught.value.condition == "DATA_FILES_MISSING"
    assert "vacuum" in str(caught.value)


def test_the_first_missing_one_of_many_files_ends_their_reading(tmp_path):
    with pytest.raises(NotFoundError) as caught:
        footers(open_store(str(tmp_path)), [(f"{number}.parquet", 10) for number in range(4)])
    assert caught.value.condition == "DATA_FILES_MISSING"


def test_a_file_that_is_empty_is_damaged_and_not_missing(tmp_path):
    (tmp_path / "empty.parquet").write_bytes(b"")
    with pytest.raises(MalformedError, match=r"empty\.parquet"):
        open_file(open_store(str(tmp_path)), "empty.parquet")

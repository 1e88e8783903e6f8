"""Paths of a checkpoint are decoded together, and come out as if each had been decoded alone."""

import pyarrow as pa
import pytest

from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.log.live_files import decoded_paths

LOCATIONS = Locations("s3://lake/t")


@pytest.mark.parametrize(
    "paths",
    [
        ["a.parquet", "b.parquet"],
        ["day=1/a.parquet", "day=2/b.parquet"],
        ["plain", "./b"],
        ["plain", "a//b"],
        ["plain", "a/./b"],
        ["plain", "x/../b"],
        ["plain", "/t/b"],
        ["plain", "s3a://lake/t/b"],
        ["plain", "a%20b"],
        ["plain", "a/b/."],
        ["ab", "/t/x"],
        ["x/", "/t/y"],
        ["é/ü.parquet", "c:d/e"],
    ],
)
def test_paths_are_decoded_together_as_each_alone(paths):
    expected = [LOCATIONS.decode(path) for path in paths]
    assert decoded_paths(pa.array(paths), LOCATIONS).to_pylist() == expected
    assert decoded_paths(pa.array(["zz", *paths, "zz"]).slice(1, len(paths)), LOCATIONS).to_pylist() == expected

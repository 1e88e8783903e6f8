"""Paths are decoded together, and compared together, and that comes out as if each had been looked at alone."""

import pyarrow as pa
import pytest

from halocline.errors import MalformedError
from halocline.formats.delta.actions.locations import Locations
from halocline.formats.delta.log import live_files
from halocline.formats.delta.log.live_files import check_unique, decoded_paths

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


@pytest.fixture(params=[1, 3, 4096])
def block(request, monkeypatch):
    """How many paths are looked at together."""
    monkeypatch.setattr(live_files, "_BLOCK", request.param)


ALL_DIFFERENT = [
    *("", "a", "b", "ab", "ba", "a\0", "a\0\0", "1234567", "12345678", "123456789", "12345678\0", "ü", "ue"),
    *(f"day=2024-01-01/part-{number:05}-c000.snappy.parquet" for number in range(20)),
    "day=2024-01-01/part-00000-c000.snappy.parque",
]


@pytest.mark.usefixtures("block")
def test_paths_that_differ_are_no_damage_whatever_their_length_and_in_however_many_pieces():
    check_unique(pa.chunked_array([pa.array(ALL_DIFFERENT)]), "t")
    check_unique(pa.chunked_array([ALL_DIFFERENT[:7], [], ALL_DIFFERENT[7:]], pa.string()), "t")
    check_unique(pa.chunked_array([], pa.string()), "t")


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("path", ALL_DIFFERENT)
def test_a_path_listed_twice_is_damage_wherever_its_second_row_is(path):
    rest = [each for each in ALL_DIFFERENT if each != path]
    sliced = pa.array(["left out", path, *rest[:5], "left out"]).slice(1, 6)
    for chunks in ([[*rest, path, path]], [[path], rest, [path]], [sliced, pa.array([*rest[5:], path])]):
        with pytest.raises(MalformedError, match="more than once"):
            check_unique(pa.chunked_array(chunks, pa.string()), "t")

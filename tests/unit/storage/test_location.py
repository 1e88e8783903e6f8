"""One place has one location, however it is spelt; two places never share one."""

import os
import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halocline.errors import InputError, UnsupportedError
from halocline.storage.location import Location, without_dots


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3a://lake/orders/", "s3://lake/orders"),
        ("S3N://lake/orders", "s3://lake/orders"),
        ("gcs://lake/orders", "gs://lake/orders"),
        ("abfs://c@a.dfs.core.windows.net/t", "abfss://c@A.dfs.core.windows.net/t/"),
        ("wasbs://c@a.blob.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t"),
        ("/lake/my orders", "file:///lake/my%20orders"),
        ("file:/lake/t", "file://localhost/lake/t"),
        ("/lake/./x/../t//", "/lake/t"),
        ("s3://lake/a//./b", "s3://lake/a/b"),
        ("memory://lake/t/", "memory://lake/t"),
        ("hdfs://name:8020/lake/t/", "HDFS://name:8020/lake/t"),
        ("lake/t", os.path.abspath("lake/t")),
    ],
)
def test_one_place_has_one_location(one, other):
    assert Location.parse(one) == Location.parse(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://lake/t", "gs://lake/t"),
        ("s3://lake/t", "s3://Lake/t"),
        ("/lake/t", "/lake/T"),
        ("/lake/my%20t", "file:/lake/my%20t"),
        ("az://c/t", "abfss://c@a.dfs.core.windows.net/t"),
    ],
)
def test_two_places_have_two_locations(one, other):
    assert Location.parse(one) != Location.parse(other)


def test_location_of_a_url_that_is_not_escaped_keeps_its_percent_signs():
    assert Location.of_decoded("s3a://lake/50%20/x") == Location("s3", "lake", "50%20/x")
    assert Location.of_decoded("a/b") is None


@pytest.mark.parametrize("place", ["s3://lake/my orders", "/lake/50%/é", "memory://x/y", "abfss://c@a.dfs.core/t"])
def test_url_leads_back_to_the_same_location(place):
    location = Location.parse(place)
    assert Location.parse(location.url) == location


@pytest.mark.parametrize(
    ("place", "folder", "name"),
    [
        ("s3a://lake/t/a/b", "s3://lake/t", "a/b"),
        ("s3://lake/t", "s3://lake/t", None),
        ("s3://lake/tt/a", "s3://lake/t", None),
        ("s3://lake/a", "s3://lake", "a"),
        ("s3://other/t/a", "s3://lake/t", None),
        ("/a", "/", "a"),
    ],
)
def test_name_below_a_folder(place, folder, name):
    assert Location.parse(place).below(Location.parse(folder)) == name


def test_real_location_is_behind_links(tmp_path):
    (tmp_path / "data" / "t").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert Location.parse(tmp_path / "link" / "t").real() == Location.parse(tmp_path / "data" / "t").real()
    assert Location.parse("s3://lake/t").real() == Location.parse("s3://lake/t")


def test_what_cannot_be_a_place_is_refused():
    for text in ("", "a\0b"):
        with pytest.raises(InputError):
            Location.parse(text)
    with pytest.raises(UnsupportedError, match="another host"):
        Location.parse("file://elsewhere/lake")


SEGMENT = st.sampled_from(["a", "b", "..", ".", "", "c d", "..x", "x.."])


@given(st.lists(SEGMENT, max_size=8).map("/".join))
def test_dots_go_as_the_operating_system_would_take_them(path):
    assert without_dots(path) == posixpath.normpath(f"/{path}").lstrip("/")

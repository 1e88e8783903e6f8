"""Places as people write them."""

import os
from pathlib import Path

import pytest

from halocline.errors import InputError, UnsupportedError
from halocline.storage import LocalStore, open_store


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("/data/lake", "/data/lake"),
        ("/data/lake/", "/data/lake"),
        ("/data/a b%20c", "/data/a b%20c"),
        ("/data/date=2024-01-01 10:00:00", "/data/date=2024-01-01 10:00:00"),
        (Path("/data/lake"), "/data/lake"),
        ("file:///data/lake", "/data/lake"),
        ("file:///data/a%20b%2520c", "/data/a b%20c"),
        ("file:/data/lake", "/data/lake"),
        ("file://localhost/data/lake", "/data/lake"),
        ("FILE:///data/lake", "/data/lake"),
        ("file:///data/q?x#y", "/data/q?x#y"),
        ("file:////data/lake", "/data/lake"),
        ("/data/\udcff", "/data/\udcff"),
        ("file:///", "/"),
    ],
)
def test_a_local_place_is_its_folder(url, folder):
    store = open_store(url)
    assert isinstance(store, LocalStore)
    assert store.folder == folder
    assert open_store(store.root).folder == folder


@pytest.mark.parametrize("folder", ["lake", "a:b", "c:/lake", "lake/s3:", "./lake", "../lake"])
def test_a_relative_path_is_below_the_current_folder(folder):
    assert open_store(folder).folder == os.path.abspath(folder)


def test_a_path_becomes_the_url_that_python_makes_of_it(tmp_path):
    folder = tmp_path / "my lake%20 ü"
    assert open_store(folder).root == folder.as_uri()


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("s3a://bucket/a b", "s3a://bucket/a%20b"),
        ("S3://bucket/a%20b", "s3://bucket/a%20b"),
        ("s3://bucket/date=2024-01-01%2010:00", "s3://bucket/date=2024-01-01%2010:00"),
        ("gs://bucket/a?b#c", "gs://bucket/a%3Fb%23c"),
        ("memory://name/lake", "memory://name/lake"),
        ("memory://a%20b/c%25", "memory://a%20b/c%25"),
    ],
)
def test_the_root_is_a_url_that_opens_the_same_place(url, root):
    store = open_store(url)
    assert store.root == root
    again = open_store(store.root)
    assert (again.root, again.address("x")) == (store.root, store.address("x"))


@pytest.mark.parametrize(
    "url", ["hdfs://namenode/lake", "dbfs://lake", "dbfs:/lake", "hdfs:/x/y", "https://host/lake", "ftp://host/x"]
)
def test_an_unknown_scheme_names_the_known_ones(url):
    with pytest.raises(UnsupportedError, match="no store is known for") as raised:
        open_store(url)
    assert raised.value.sides["scheme"] == url.split("/")[0]
    assert "s3://" in raised.value.sides["known"]
    assert raised.value.next_step


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("", InputError, "no place for a table"),
        ("a\0b", InputError, "no place for a table"),
        ("s3://", InputError, "names no bucket"),
        ("s3:///lake", InputError, "names no bucket"),
        ("s3:/bucket/lake", InputError, "names no bucket"),
        ("gs://bucket/a//b", InputError, "empty segment"),
        ("memory://name/../x", InputError, "leaves the store's root"),
        ("file://server/share", UnsupportedError, "on another host"),
    ],
)
def test_a_place_that_is_none_is_refused(url, error, message):
    with pytest.raises(error, match=message) as raised:
        open_store(url)
    assert raised.value.next_step


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA:HUNTER2@bucket/lake",
        "s3a://HUNTER2@bucket/lake",
        "abfss://c@a.dfs.core.windows.net/lake?sv=2024&sig=HUNTER2",
        "memory://name/lake?token=HUNTER2",
        "file:///lake?sig=HUNTER2",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url):
    with pytest.raises(InputError, match="credentials") as caught:
        open_store(url)
    assert "HUNTER2" not in f"{caught.value} {caught.value!r} {caught.value.to_dict()}"


def test_a_name_with_a_question_mark_is_no_query():
    assert open_store("memory://names/what%3Fa=b").root == "memory://names/what%3Fa=b"
    assert open_store("memory://names/why?/orders").root == "memory://names/why%3F/orders"

import pytest

from halocline.errors import MalformedError
from halocline.formats.delta.actions.locations import Locations, is_absolute, locate
from halocline.storage.local import LocalStore
from halocline.storage.memory import MemoryStore


@pytest.mark.parametrize(
    ("written", "decoded"),
    [
        ("a/b.parquet", "a/b.parquet"),
        ("special%20p@%23h", "special p@#h"),
        ("p=a%2520b/f", "p=a%20b/f"),
        ("p=%C3%A9/f", "p=é/f"),
        ("time=10:00/f", "time=10:00/f"),
        ("a..b/f", "a..b/f"),
        ("a/../b", "a/../b"),
        ("/x/y", "file:///x/y"),
        ("file:/x/y", "file:///x/y"),
        ("file:///x/y", "file:///x/y"),
        ("FILE:/x/y", "file:///x/y"),
        ("s3://bucket/k%20ey", "s3://bucket/k ey"),
    ],
)
def test_a_path_has_one_spelling(written, decoded):
    assert Locations("file:///lake/table").decode(written) == decoded


def test_a_path_without_scheme_belongs_to_the_tables_file_system():
    assert Locations("s3://bucket/table").decode("/x/y") == "s3://bucket/x/y"


@pytest.mark.parametrize("path", ["", "..", "../other/f", "a/../../f", "%2E%2E/f", "a/..", "%FF%FE"])
def test_a_path_that_leaves_the_table_is_damage(path):
    with pytest.raises(MalformedError) as caught:
        Locations("file:///lake/table").decode(path)
    assert caught.value.condition == "MALFORMED_LOG"


def test_absolute_paths_lead_to_another_store(tmp_path):
    other = tmp_path / "other file"
    other.write_bytes(b"rows")
    store, inner = locate(LocalStore(tmp_path / "table"), f"file://{other}")
    assert store.get(inner) == b"rows"


def test_paths_below_the_root_stay_in_the_store():
    store = MemoryStore()
    assert locate(store, "a/b") == (store, "a/b")
    assert locate(store, f"{store.root}/a/b") == (store, "a/b")


def test_a_bucket_without_an_object_is_damage():
    with pytest.raises(MalformedError, match="names no object"):
        locate(MemoryStore(), "s3://bucket/")


@pytest.mark.parametrize(("path", "absolute"), [("a:/b", True), ("a=b:/c", False), ("s3://a", True), ("1:/b", False)])
def test_only_a_scheme_makes_a_path_absolute(path, absolute):
    assert is_absolute(path) is absolute

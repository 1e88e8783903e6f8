import pytest

from halocline.errors import MalformedError
from halocline.formats.delta.actions.action import DeletionVector
from halocline.formats.delta.actions.locations import Locations, absolute_path, is_absolute, locate
from halocline.storage import open_store
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
        ("a/../b", "b"),
        ("./b", "b"),
        ("a//b/", "a/b"),
        ("a/./b", "a/b"),
        ("%2E/b", "b"),
        ("/lake/table/b", "b"),
        ("/lake/./table//b", "b"),
        ("/lake/other/../table/b", "b"),
        ("file:/lake/table/b", "b"),
        ("file://localhost/lake/table/b", "b"),
        ("file:///lake/tables/b", "file:///lake/tables/b"),
        ("file:///x/./y/", "file:///x/y"),
        ("/x/y", "file:///x/y"),
        ("file:/x/y", "file:///x/y"),
        ("file:///x/y", "file:///x/y"),
        ("FILE:/x/y", "file:///x/y"),
        ("s3://bucket/k%20ey", "s3://bucket/k ey"),
    ],
)
def test_a_path_has_one_spelling(written, decoded):
    assert Locations("file:///lake/table").decode(written) == decoded


@pytest.mark.parametrize(
    ("root", "written"),
    [
        ("s3://lake/t", "s3a://lake/t/a%20b"),
        ("s3a://lake/t", "s3n://lake/t/a%20b"),
        ("s3://lake/t", "/t/a%20b"),
        ("gs://lake/t", "gcs://lake//t/a%20b"),
        ("abfss://c@a.dfs.core.windows.net/t", "wasb://c@a.blob.core.windows.net/t/a%20b"),
        ("memory://lake/t", "memory://lake/t/./a%20b"),
    ],
)
def test_a_path_below_the_root_is_a_name_whatever_the_scheme(root, written):
    assert Locations(root).decode(written) == "a b"


def test_a_table_behind_a_link_knows_its_files_by_their_real_paths(tmp_path):
    (tmp_path / "data" / "t").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    (tmp_path / "other").symlink_to(tmp_path / "data" / "t")
    for root in ("data/t", "link/t", "other"):
        for spelt in ("data/t", "link/t", "other"):
            assert Locations(f"file://{tmp_path / root}").decode(f"file:{tmp_path / spelt}/a") == "a"


def test_files_elsewhere_have_one_spelling_behind_links_too(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "source")
    locations = Locations(f"file://{tmp_path}/clone")
    assert locations.decode(f"{tmp_path}/link/a") == locations.decode(f"file:{tmp_path}/source/a")


def test_vectors_are_told_apart_by_where_they_lie():
    locations = Locations("file:///lake/t")
    first, second, third = (
        DeletionVector(storage_type="p", path_or_inline_dv=path, offset=1, size_in_bytes=1, cardinality=1)
        for path in ("file:/lake/t/v.bin", "file:///lake/t/v.bin", "file:/lake/t/w.bin")
    )
    assert locations.vector_id(first) == locations.vector_id(second) != locations.vector_id(third)


@pytest.mark.parametrize(
    ("root", "written"),
    [("/lake/my t", "file:/lake/my%20t/50%25.parquet"), ("memory://lake/t", "memory://lake/t/50%25.parquet")],
)
def test_new_absolute_paths_are_spelt_as_delta_does(root, written):
    assert absolute_path(open_store(root), "50%.parquet") == written


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

"""What every store promises, on each of them."""

import time

import pytest

from halocline.errors import ConflictError, InputError, NotFoundError
from halocline.place_names import place_name
from halocline.storage import AlreadyExistsError, open_store

AWKWARD = [
    "a b/c d.txt",
    "p%20q/%25.json",
    "date=2024-01-01 10:00:00/x=__HIVE_DEFAULT_PARTITION__/part.parquet",
    "date=2024-01-01 10%3A00%3A00/part.parquet",
    "unicode ü é 雪 🧊/e\u0301",
    "q?x=1#frag/~tilde",
    "back\\slash",
    "[brackets]{braces}/star*",
    "plus+and&amp;'quote\"",
    ".hidden/.file.crc",
    "..dots/...",
    "_delta_log/00000000000000000000.json",
    "trailing space /x",
]


def paths(metas):
    return [meta.path for meta in metas]


def test_put_then_get_gives_the_same_bytes(store):
    store.put("a/b", b"\x00\xff data")
    assert store.get("a/b") == b"\x00\xff data"


def test_an_empty_object_round_trips(store):
    store.put("empty", b"")
    assert (store.get("empty"), store.head("empty").size) == (b"", 0)


def test_put_over_an_object_replaces_it_and_changes_its_etag(store):
    first = store.put("a", b"one")
    second = store.put("a", b"two")
    assert store.get("a") == b"two"
    assert first != second


def test_chunks_become_one_object_that_replaces_what_was_there(store):
    store.put("a/b", b"before")
    store.put_chunks("a/b", iter([b"one ", b"two ", b"three"]))
    assert (store.get("a/b"), paths(store.list())) == (b"one two three", ["a/b"])


def test_chunks_that_break_off_leave_what_was_there(store):
    def breaking_off():
        yield b"half"
        raise ZeroDivisionError

    store.put("a/b", b"before")
    with pytest.raises(ZeroDivisionError):
        store.put_chunks("a/b", breaking_off())
    assert (store.get("a/b"), paths(store.list())) == (b"before", ["a/b"])


def test_fetch_gives_the_bytes_with_the_state_they_are_of(store):
    etag = store.put("a", b"one")
    data, meta = store.fetch("a")
    assert (data, meta.path, meta.size, meta.etag) == (b"one", "a", 3, etag)


def test_head_agrees_with_put_and_list(store):
    before = time.time() * 1000
    etag = store.put("a/b", b"12345")
    meta = store.head("a/b")
    assert (meta.path, meta.size, meta.etag) == ("a/b", 5, etag)
    assert before - 1500 <= meta.modified_ms <= time.time() * 1000 + 1500
    assert list(store.list()) == [meta]


@pytest.mark.parametrize("path", AWKWARD)
def test_an_awkward_name_round_trips_everywhere(store, path):
    etag = store.put_if_absent(path, b"x")
    assert store.get(path) == b"x"
    assert store.head(path).path == path
    assert store.exists(path)
    assert paths(store.list()) == [path]
    if "/" in path:
        folder = path.rpartition("/")[0]
        assert paths(store.list(folder)) == [path]
    store.put_if_match(path, b"y", etag)
    store.delete(path)
    assert paths(store.list()) == []


@pytest.mark.parametrize("path", ["missing", "folder", "folder/object/below"])
def test_what_is_not_an_object_is_not_found(store, path):
    store.put("folder/object", b"x")
    for operation in (store.get, store.fetch, store.head):
        with pytest.raises(NotFoundError, match=path):
            operation(path)
    assert not store.exists(path)


def test_a_range_of_a_missing_object_is_not_found(store):
    for length in (0, 4):
        with pytest.raises(NotFoundError, match="missing"):
            store.get_range("missing", 0, length)


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [(0, 4, b"0123"), (3, 3, b"345"), (8, 100, b"89"), (10, 1, b""), (99, 1, b""), (4, 0, b""), (0, 10, b"0123456789")],
)
def test_a_range_gives_what_is_there(store, start, length, expected):
    store.put("digits", b"0123456789")
    assert store.get_range("digits", start, length) == expected


@pytest.mark.parametrize(("start", "length"), [(-1, 4), (0, -1), (-8, -8)])
def test_a_negative_range_is_refused(store, start, length):
    store.put("digits", b"0123456789")
    with pytest.raises(InputError, match="no range"):
        store.get_range("digits", start, length)


def test_a_length_out_of_all_proportion_costs_nothing(store):
    store.put("digits", b"0123456789")
    assert store.get_range("digits", 4, 1 << 60) == b"456789"


def test_a_range_of_an_empty_object_is_empty(store):
    store.put("empty", b"")
    assert store.get_range("empty", 0, 8) == b""


def test_put_if_absent_refuses_a_taken_name_and_changes_nothing(store):
    etag = store.put_if_absent("a", b"first")
    with pytest.raises(AlreadyExistsError, match="a already exists") as raised:
        store.put_if_absent("a", b"second")
    assert isinstance(raised.value, ConflictError)
    assert raised.value.condition == "ALREADY_EXISTS"
    assert store.fetch("a") == (b"first", store.head("a"))
    assert store.head("a").etag == etag


def test_put_if_absent_after_delete_succeeds(store):
    store.put_if_absent("a", b"first")
    store.delete("a")
    store.put_if_absent("a", b"second")
    assert store.get("a") == b"second"


def test_put_if_match_goes_through_once_per_etag(store):
    first = store.put("a", b"one")
    second = store.put_if_match("a", b"two", first)
    with pytest.raises(ConflictError, match="changed by somebody else"):
        store.put_if_match("a", b"three", first)
    assert store.get("a") == b"two"
    store.put_if_match("a", b"four", second)
    assert store.get("a") == b"four"


def test_put_if_match_refuses_an_object_that_was_put_over(store):
    etag = store.put("a", b"one")
    store.put("a", b"two")
    with pytest.raises(ConflictError):
        store.put_if_match("a", b"three", etag)
    assert store.get("a") == b"two"


def test_put_if_match_refuses_a_deleted_object(store):
    etag = store.put("f/a", b"one")
    store.delete("f/a")
    with pytest.raises(ConflictError):
        store.put_if_match("f/a", b"two", etag)
    assert not store.exists("f/a")


def test_put_if_match_accepts_the_etag_of_a_listing(store):
    store.put("a", b"one")
    (meta,) = store.list()
    store.put_if_match("a", b"two", meta.etag)
    assert store.get("a") == b"two"


@pytest.mark.parametrize("path", ["a", *AWKWARD])
def test_a_moved_object_has_another_name_and_replaces_what_had_it(store, path):
    store.put("from/" + path, b"moved")
    store.put("into/" + path, b"before")
    store.move("from/" + path, "into/" + path)
    assert paths(store.list()) == ["into/" + path]
    assert store.get("into/" + path) == b"moved"


def test_a_missing_object_cannot_be_moved(store):
    store.put("b", b"stays")
    with pytest.raises(NotFoundError):
        store.move("a", "folder/b")
    with pytest.raises(NotFoundError):
        store.move("a", "b")
    assert paths(store.list()) == ["b"]


def test_delete_twice_is_delete_once(store):
    store.put("a/b", b"x")
    store.delete("a/b")
    store.delete("a/b")
    store.delete("never/was")
    assert paths(store.list()) == []


def test_delete_of_a_folder_deletes_nothing(store):
    store.put("a/b", b"x")
    store.delete("a")
    assert paths(store.list()) == ["a/b"]


def test_delete_many_deletes_what_is_there(store):
    for name in ("a", "b", "c d", "e%20f"):
        store.put(name, b"x")
    store.delete_many(["a", "missing", "c d", "e%20f"])
    store.delete_many([])
    assert paths(store.list()) == ["b"]


def test_get_many_keeps_the_order(store):
    names = [f"log/{number:03}" for number in range(40)]
    for name in names:
        store.put(name, name.encode())
    backwards = names[::-1]
    assert list(store.get_many(iter(backwards))) == [name.encode() for name in backwards]


def test_get_many_with_a_missing_object_is_not_found(store):
    store.put("a", b"x")
    with pytest.raises(NotFoundError, match="missing"):
        list(store.get_many(["a", "missing", "a"]))


LISTED = ["a", "a b", "a!", "a-b", "a.txt", "a/b", "a/b-c", "a/b/c", "a0", "ab/c", "b/é", "b/雪", "z"]


@pytest.fixture
def many(store):
    for name in LISTED:
        # A name cannot be both a file and a folder on a disk.
        if name not in ("a", "a/b"):
            store.put(name, b"x")
    return store


def test_a_listing_is_recursive_and_sorted_by_the_whole_path(many):
    assert paths(many.list()) == sorted(set(LISTED) - {"a", "a/b"})


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("a", ["a/b-c", "a/b/c"]),
        ("a/", ["a/b-c", "a/b/c"]),
        ("a/b", ["a/b/c"]),
        ("b", ["b/é", "b/雪"]),
        ("a.txt", []),
        ("nowhere", []),
        ("z/below/a/file", []),
    ],
)
def test_a_prefix_is_a_folder(many, prefix, expected):
    assert paths(many.list(prefix)) == expected


@pytest.mark.parametrize("prefix", ["", "a", "b"])
def test_start_after_cuts_the_listing(many, prefix):
    whole = paths(many.list(prefix))
    for start_after in [*LISTED, "", "A", "a/", "a/b.", "a/zz", "b/é/x", "zz", "a\uffff"]:
        expected = [path for path in whole if path > start_after]
        assert paths(many.list(prefix, start_after=start_after)) == expected, f"after {start_after!r}"


@pytest.mark.parametrize(
    "path",
    ["", "/", "/etc/passwd", "../up", "a/../../up", "a/..", "..", ".", "a/./b", "a//b", "a/", "nul\0", ".~halocline-x"],
)
def test_a_path_that_is_none_is_refused(store, path):
    operations = {"get": [], "head": [], "delete": [], "put": [b""], "put_if_absent": [b""]}
    operations |= {"put_if_match": [b"", "etag"], "get_range": [0, 1], "fetch": [], "exists": []}
    for operation, arguments in operations.items():
        with pytest.raises(InputError, match="cannot name an object") as raised:
            getattr(store, operation)(path, *arguments)
        assert raised.value.condition == "ARGUMENT_INVALID", operation
        assert raised.value.sides["given"] == repr(path), operation


@pytest.mark.parametrize("prefix", ["/", "../x", "a/../..", "a//b"])
def test_a_prefix_that_leaves_the_root_is_refused(store, prefix):
    with pytest.raises(InputError):
        list(store.list(prefix))


def test_a_store_of_the_same_root_sees_the_same_objects(store, request):
    store.put("a b/c%20d", b"x")
    again = open_store(store.root, request.getfixturevalue("s3_options") if store.root.startswith("s3:") else None)
    assert again.root == store.root
    assert again.get("a b/c%20d") == b"x"


def test_the_representation_shows_the_root_and_no_secret(store):
    assert place_name(store.root) in repr(store)
    assert "secret" not in repr(store)


def test_the_time_of_an_object_is_set_where_the_store_lets_it_be_and_kept_otherwise(store):
    store.put("a", b"x")
    before = store.head("a").modified_ms
    was_set = store.set_modified("a", 1_700_000_000_123)
    assert store.head("a").modified_ms == (1_700_000_000_123 if was_set else before)
    assert store.get("a") == b"x"
    if was_set:
        with pytest.raises(NotFoundError):
            store.set_modified("missing", 0)


def test_folders_are_those_directly_in_a_folder_sorted(store):
    for path in ("b/x/1", "a/1", "a0/1", "a-b/1", "b/y/z/1", "b/1", "top", "c%20d/e f/1"):
        store.put(path, b"1")
    assert store.folders() == ("a", "a-b", "a0", "b", "c%20d")
    assert store.folders("b") == store.folders("b/") == ("b/x", "b/y")
    assert store.folders("c%20d") == ("c%20d/e f",)
    assert store.folders("nowhere") == store.folders("a") == ()

"""Random sequences of operations: every store does what a dictionary would."""

import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halocline.errors import ConflictError, NotFoundError
from halocline.storage import AlreadyExistsError, LocalStore, MemoryStore

PATHS = st.sampled_from(["a", "b/a", "b/a b", "b/a%20b", "b-c", "b.c/d", "é/雪", "c=1/x:y", ".h/z"])
DATA = st.binary(max_size=3)
ETAGS = st.sampled_from(["current", "first", "none"])
OPERATIONS = st.one_of(
    st.tuples(st.just("put"), PATHS, DATA),
    st.tuples(st.just("put_if_absent"), PATHS, DATA),
    st.tuples(st.just("put_if_match"), PATHS, DATA, ETAGS),
    st.tuples(st.just("delete"), PATHS),
    st.tuples(st.just("list"), st.sampled_from(["", "b", "b.c", "é", "missing"]), st.none() | PATHS),
)


@pytest.mark.parametrize("kind", ["local", "memory"])
@settings(max_examples=40, deadline=None)
@given(st.lists(OPERATIONS, max_size=25))
def test_any_sequence_of_operations_does_what_a_dictionary_would(kind, operations):
    with tempfile.TemporaryDirectory() as folder:
        run(LocalStore(folder, sync=False) if kind == "local" else MemoryStore(), operations)


def run(store, operations):
    model: dict[str, bytes] = {}
    etags: dict[str, list[str]] = {}
    for name, path, *rest in operations:
        match name:
            case "put":
                etags.setdefault(path, []).append(store.put(path, rest[0]))
                model[path] = rest[0]
            case "put_if_absent" if path in model:
                with pytest.raises(AlreadyExistsError):
                    store.put_if_absent(path, rest[0])
            case "put_if_absent":
                etags.setdefault(path, []).append(store.put_if_absent(path, rest[0]))
                model[path] = rest[0]
            case "put_if_match":
                data, which = rest
                seen = etags.get(path, ["never"])
                etag = {"current": seen[-1], "first": seen[0], "none": "none"}[which]
                if path in model and etag == seen[-1]:
                    etags[path].append(store.put_if_match(path, data, etag))
                    model[path] = data
                else:
                    with pytest.raises(ConflictError):
                        store.put_if_match(path, data, etag)
            case "delete":
                store.delete(path)
                model.pop(path, None)
            case "list":
                below, after = f"{path}/" if path else "", rest[0]
                expected = sorted(key for key in model if key.startswith(below) and (after is None or key > after))
                assert [meta.path for meta in store.list(path, start_after=after)] == expected
    assert [(meta.path, meta.size) for meta in store.list()] == [(key, len(model[key])) for key in sorted(model)]
    for path in {each[1] for each in operations if each[0] != "list"}:
        if path in model:
            assert store.fetch(path) == (model[path], store.head(path))
            assert store.head(path).etag == etags[path][-1]
        else:
            with pytest.raises(NotFoundError):
                store.get(path)
    for seen in etags.values():
        assert len(set(seen)) == len(seen), "an etag came back"

"""Finding tables below a prefix."""

import os

import pytest
from tests.support.faulty_store import FaultyStore

from halocline.errors import DeniedError
from halocline.lake.discovery import find_tables
from halocline.storage import LocalStore, MemoryStore


def lake_of(*paths: str) -> MemoryStore:
    store = MemoryStore()
    for path in paths:
        store.put(path, b"")
    return store


def delta(path: str) -> str:
    return f"{path}/_delta_log/00000000000000000000.json"


def paths(found) -> list[str]:
    return ["/".join(each.path) for each in found]


def test_tables_of_every_format_are_found_by_their_log_folders():
    store = lake_of(delta("sales/orders"), "trips/.hoodie/hoodie.properties", "docs/_transaction_log/0.json", "x/y")
    assert [(*each.path, *each.formats) for each in find_tables(store)] == [
        ("docs", "index"),
        ("sales", "orders", "delta"),
        ("trips", "hudi"),
    ]


def test_a_table_that_has_two_logs_has_both_formats():
    found = list(find_tables(lake_of(delta("t"), "t/.hoodie/hoodie.properties")))
    assert [each.formats for each in found] == [("delta", "hudi")]


def test_a_prefix_that_is_a_table_is_that_table():
    assert [(each.path, each.formats) for each in find_tables(lake_of("_delta_log/0.json"))] == [((), ("delta",))]


@pytest.mark.parametrize("hidden", ["t/inner", "_staging/t", ".trash/t", "raw/day=2026-11-01/t"])
def test_tables_within_tables_hidden_folders_and_partitions_are_not_searched(hidden):
    assert paths(find_tables(lake_of(delta("t"), delta(hidden)))) == ["t"]


def test_tables_come_in_the_order_of_their_paths_however_deep():
    store = lake_of(*(delta(each) for each in ("b", "a/z/q", "a/b", "a-b", "a/z/a", "c/d/e/f")))
    assert paths(find_tables(store)) == ["a/b", "a/z/a", "a/z/q", "a-b", "b", "c/d/e/f"]


@pytest.mark.parametrize("cut", range(7))
def test_a_search_goes_on_behind_any_table(cut):
    store = lake_of(*(delta(each) for each in ("b", "a/z/q", "a/b", "a-b", "a/z/a", "c/d/e/f", "a0/x")))
    everything = list(find_tables(store))
    rest = find_tables(store, after=everything[cut].path)
    assert [*everything[: cut + 1], *rest] == everything


def test_what_is_behind_a_search_is_not_listed_again():
    store = FaultyStore(lake_of(*(delta(f"{each}/t") for each in "abcdefgh")))
    list(find_tables(store, after=("g", "t")))
    behind = store.count
    list(find_tables(store))
    assert behind * 2 < store.count - behind, "folders that lie wholly before are passed over"


def test_folders_that_lie_too_deep_are_told():
    found = list(find_tables(lake_of(delta("a/b/c"), delta("d")), depth=2))
    assert [(each.path, each.problem) for each in found] == [
        (("a", "b"), "more than 2 folders deep"),
        (("d",), ""),
    ]


def test_a_folder_that_cannot_be_listed_is_told_and_the_rest_is_found(monkeypatch):
    store = lake_of(delta("a/t"), delta("secret/t"), delta("z"))
    folders = store.folders

    def denied(prefix=""):
        if prefix == "secret":
            raise DeniedError("not for you")
        return folders(prefix)

    monkeypatch.setattr(store, "folders", denied)
    assert [(*each.path, each.problem) for each in find_tables(store)] == [
        ("a", "t", ""),
        ("secret", "not for you"),
        ("z", ""),
    ]


def test_a_root_that_cannot_be_listed_is_an_error(monkeypatch):
    store = lake_of(delta("a"))

    def denied(prefix=""):
        raise DeniedError("not for you")

    monkeypatch.setattr(store, "folders", denied)
    with pytest.raises(DeniedError):
        list(find_tables(store))


def test_links_that_lead_back_do_not_make_a_search_endless(tmp_path):
    for name in ("a", "b"):
        os.makedirs(tmp_path / name / "t" / "_delta_log")
    os.symlink(tmp_path / "a", tmp_path / "b" / "link")
    os.symlink(tmp_path / "b", tmp_path / "a" / "link")
    real = {os.path.realpath(tmp_path / each) for each in paths(find_tables(LocalStore(tmp_path)))}
    assert real == {str(tmp_path / "a" / "t"), str(tmp_path / "b" / "t")}


def test_a_search_that_is_given_up_ends_its_threads():
    import threading

    found = find_tables(lake_of(*(delta(f"{number}/t") for number in range(50))))
    next(found)
    found.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("halocline-find")]

"""Damaged splits: wherever a byte is flipped or the file ends, the answer is the right one or an error that says so."""

import os
from contextlib import suppress

import msgspec
import pytest
from tests.support.index_tables import rows_of, table_of
from tests.support.splits import row

from halocline.errors import HaloclineError, IncompatibleError, MalformedError
from halocline.formats.index.aggregate.request import Aggregation, Sum, TermBuckets
from halocline.formats.index.aggregate.run import aggregate_table
from halocline.formats.index.merge.run import merge_splits
from halocline.formats.index.relevance.best import search_best
from halocline.formats.index.search import Search, count_split, search_split, search_table
from halocline.formats.index.split import file as split_file
from halocline.formats.index.split.cache import IndexCache
from halocline.formats.index.split.library import guarded
from halocline.formats.index.split.reader import OpenedSplit

ROWS = [row(number) for number in range(40)]
QUERY = "message:request AND NOT level:WARN"
PER_REGION = 40 if os.environ.get("HALOCLINE_TEST_TABLES") == "all" else 2


@pytest.fixture(scope="module")
def table():
    return table_of(ROWS)


def regions(table):
    """The parts that a split consists of: name, beginning and end."""
    (split,) = table.files.values()
    with OpenedSplit(table.store, split.path) as opened:
        layout = opened.layout
    yield "beginning", 0, 4
    yield "rows", 4, layout.blobs[0].offset
    for blob in (*layout.blobs, layout.terms):
        yield blob.name.rpartition(".")[2] or blob.name, blob.offset, blob.offset + blob.length
    yield "footer", split.footer_start_offset, split.size - 8
    yield "end", split.size - 8, split.size


def answers(table):
    def search(**options):
        return search_table(table, Search.of(table, QUERY), columns=["id", "price"], **options).rows.to_pylist()

    asked = Aggregation.of(table.schema, {"ids": Sum("id")}, {"level": TermBuckets("level")})
    return {
        "search": search,
        "search without rebuilding": lambda: search(rebuild=False),
        "rows": lambda: rows_of(table, "id", "message", "level"),
        "aggregate": lambda: aggregate_table(table, asked, Search.of(table, QUERY)).rows.to_pylist(),
        "best": lambda: search_best(
            table, Search.of(table, "message:17 message:took"), columns=["id"]
        ).rows.to_pylist(),
    }


def test_a_flipped_byte_anywhere_is_an_error_or_changes_nothing(table):
    (path,) = table.files
    whole = table.store.get(path)
    truth = {name: ask() for name, ask in answers(table).items()}
    told: dict[str, set[str]] = {}
    for region, start, end in list(regions(table)):
        places = sorted({start + (end - start) * step // PER_REGION for step in range(PER_REGION)})
        for place in places:
            data = bytearray(whole)
            data[place] ^= 0xFF if place % 2 else 0x01
            table.store.put(path, bytes(data))
            for name, ask in answers(table).items():
                try:
                    found = ask()
                except (MalformedError, IncompatibleError):
                    told.setdefault(region, set()).add(name)
                else:
                    assert found == truth[name], (region, place, name)
    table.store.put(path, whole)
    for index in ("term", "idx", "pos", "fast", "fieldnorm"):
        assert "search without rebuilding" in told[index], index
        assert "search" not in told[index], f"{index}: the rows still answer"
        assert "rows" not in told[index], index
    assert told["footer"] >= {"search", "rows"}, "what a footer says cannot be believed once it is damaged"


def test_a_split_that_ends_too_early_is_an_error(table):
    (path,) = table.files
    whole = table.store.get(path)
    for length in (0, 3, 100, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        table.store.put(path, whole[:length])
        for ask in answers(table).values():
            with pytest.raises(MalformedError):
                ask()
    table.store.put(path, whole)


def test_a_split_in_place_of_another_is_noticed(table):
    (path,) = table.files
    whole = table.store.get(path)
    other = table_of([row(number + 1) for number in range(40)])
    table.store.put(path, other.store.get(next(iter(other.files))))
    with pytest.raises(MalformedError, match="footer"):
        rows_of(table)
    table.store.put(path, whole)


@pytest.mark.parametrize(
    "change",
    [{"index_format": 8}, {"dictionary": "sstable"}, {"analyzers": 2}, {"layout": 2}],
    ids=["a later format", "another dictionary", "later analyzers", "a later layout"],
)
def test_an_index_of_a_later_kind_is_refused_by_name_and_its_rows_still_answer(monkeypatch, change):
    encode = split_file.encode_layout
    monkeypatch.setattr(split_file, "encode_layout", lambda layout: encode(msgspec.structs.replace(layout, **change)))
    later = table_of(ROWS)
    monkeypatch.undo()
    (split,) = later.files.values()
    search = Search.of(later, QUERY)
    with pytest.raises(IncompatibleError, match="does not search"):
        search_split(later.store, split, search)
    with pytest.raises(IncompatibleError):
        count_split(later.store, split, search)
    found = search_table(later, search)
    assert found.rows["id"].to_pylist() == [each["id"] for each in ROWS if each["level"] != "WARN"]
    assert "does not search" in found.damaged[split.path]
    assert rows_of(later, "id") == list(range(40))


class PanicException(BaseException):
    """What a panic inside of the library arrives as; it is told by its name."""


def test_a_panic_of_the_library_is_damage_and_an_interrupt_is_not(table, monkeypatch):
    with pytest.raises(MalformedError, match="panicked: index out of bounds"), guarded("a.split.parquet"):
        raise PanicException("index out of bounds")
    with pytest.raises(KeyboardInterrupt), guarded("a.split.parquet"):
        raise KeyboardInterrupt

    def panicking(self):
        with guarded(self.path):
            raise PanicException("index out of bounds")

    two = table_of(ROWS[:20], ROWS[20:])
    bad = next(iter(two.files))
    original = OpenedSplit.index.func

    def index(self):
        return panicking(self) if self.path == bad else original(self)

    monkeypatch.setattr(OpenedSplit, "index", property(index))
    (split,) = table.files.values()
    found = search_table(two, Search.of(two, QUERY))
    assert (found.total, list(found.damaged)) == (27, [bad])
    report = merge_splits(two)
    assert list(report.skipped) == [bad]
    assert "panicked" in two.newest().skips[bad].reason
    assert split.num_records == 40


def test_whatever_happens_to_an_unpacked_index_no_panic_gets_out(table, tmp_path):
    """The folder of a cache is not checked again, so answers may be wrong there; but nothing dies."""
    (split,) = table.files.values()
    search = Search.of(table, "message:requ* OR message:17 OR level:E*")
    found = list(search_split(table.store, split, search, cache=IndexCache(str(tmp_path / "whole"))).rows)
    for seed in range(12):
        cache = IndexCache(str(tmp_path / str(seed)))
        search_split(table.store, split, search, cache=cache)
        (folder,) = (tmp_path / str(seed)).iterdir()
        term = next(each for each in folder.iterdir() if each.suffix == ".term")
        data = bytearray(term.read_bytes())
        data[len(data) * seed // 12] ^= 0xFF
        # Another file takes its place: one that shrinks while it is mapped ends the process, whoever maps it.
        damaged = term.with_suffix(".damaged")
        damaged.write_bytes(bytes(data))
        os.replace(damaged, term)
        with suppress(HaloclineError):
            search_split(table.store, split, search, cache=cache)
    anew = search_split(table.store, split, search, cache=IndexCache(str(tmp_path / "anew")))
    assert list(anew.rows) == found, "a cache that is unpacked anew has what the split has"

"""Splits: any Parquet reader has the rows, the index has their numbers, and damage is an error."""

import json
import pickle
import shutil
import struct
import zlib
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tantivy
from tests.support.index_tables import table_of
from tests.support.splits import COLUMNS, batches, build, fields, row

from halocline.errors import HaloclineError, IncompatibleError, InputError, MalformedError
from halocline.formats.index.protocol import OWN, needed_by
from halocline.formats.index.split import file as split_file
from halocline.formats.index.split import layout as layouts
from halocline.formats.index.split.fields import IndexField
from halocline.formats.index.split.file import GROUP_ROWS
from halocline.formats.index.split.library import guarded
from halocline.formats.index.split.presence import TermFilter, digest
from halocline.formats.index.split.reader import OpenedSplit
from halocline.formats.index.split.values import indexed_values
from halocline.formats.index.split.writer import SplitWriter
from halocline.schema.arrow import arrow_schema
from halocline.schema.types import Struct
from halocline.storage import open_store
from halocline.storage.memory import MemoryStore

PATH = "a.split.parquet"
USER = pa.struct({"name": pa.string(), "age": pa.int32()})
LABELS = pa.map_(pa.string(), pa.string())


@pytest.fixture(scope="module")
def rows():
    return [row(number) for number in range(20_000)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory, rows):
    """A store with a split of twenty thousand rows."""
    store = open_store(str(tmp_path_factory.mktemp("lake")))
    build(store, rows)
    return store


@pytest.fixture(scope="module")
def small():
    store = MemoryStore()
    return build(store, [row(number) for number in range(40)]), store.get(PATH)


def numbers(opened, query):
    found = opened.searcher.search(
        query, limit=max(opened.layout.rows, 1), order_by_field="_row", order=tantivy.Order.Asc
    )
    return opened.row_numbers(each for each, _ in found.hits).tolist()


# ---------------------------------------------------------------- rows


def test_pyarrow_reads_the_rows(lake, rows):
    expected = pa.Table.from_batches(batches(rows))
    assert pq.read_table(lake.address(PATH)).equals(expected)


def test_duckdb_reads_the_rows(lake):
    found = duckdb.sql(
        f"select count(*), sum(id), sum(latency), count(*) filter (\"at\" >= timestamptz '2024-01-01 00:10:00+00') "
        f"from read_parquet('{lake.address(PATH)}')"
    ).fetchall()
    assert found == [(20_000, sum(range(20_000)), sum(range(20_000)) / 4, 20_000 - 6000)]


def test_polars_reads_the_rows(lake):
    polars = pytest.importorskip("polars")
    found = polars.read_parquet(lake.address(PATH), columns=["id", "message"])
    assert (found.height, found["id"].sum()) == (20_000, sum(range(20_000)))


def test_rows_come_by_number_in_order_and_with_the_columns_asked_for(lake, rows):
    asked = [0, 1, GROUP_ROWS - 1, GROUP_ROWS, 15_000, 19_999]
    with OpenedSplit(lake, PATH) as opened:
        found = opened.rows(asked, ["message", "id"])
        assert found.column_names == ["message", "id"]
        assert found.to_pylist() == [{"message": rows[each]["message"], "id": each} for each in asked]
        assert opened.rows([], ["id"]).num_rows == 0
        assert sum(len(batch) for batch in opened.batches(["id"])) == 20_000
        for wrong in ([20_000], [-1]):
            with pytest.raises(InputError):
                opened.rows(wrong)
        with pytest.raises(InputError):
            opened.rows([1], ["nothing"])


# ---------------------------------------------------------------- the index


def test_the_index_knows_the_number_of_each_row(lake):
    with OpenedSplit(lake, PATH) as opened:
        schema = opened.index.schema
        assert numbers(opened, tantivy.Query.term_query(schema, opened.fields["message"].name, "17")) == [
            number for number in range(20_000) if number == 17 or number % 97 == 17
        ]
        kind = tantivy.FieldType.Integer
        name = opened.fields["id"].name
        assert numbers(opened, tantivy.Query.range_query(schema, name, kind, 19_990, None)) == list(
            range(19_990, 20_000)
        )


def test_the_unpacked_index_is_gone_when_the_split_is_closed(lake, tmp_path):
    with OpenedSplit(lake, PATH, scratch=str(tmp_path)) as opened:
        assert opened.searcher.num_docs == 20_000
        assert len(list(tmp_path.iterdir())) == 1
    assert not list(tmp_path.iterdir())


def test_little_memory_makes_more_segments_and_the_same_answers(rows):
    store = MemoryStore()
    build(store, rows, heap_bytes=15_000_000)
    with OpenedSplit(store, PATH) as opened:
        assert opened.searcher.num_docs == 20_000
        query = tantivy.Query.term_query(opened.index.schema, opened.fields["level"].name, "WARN")
        assert numbers(opened, query) == list(range(1, 20_000, 3))


def test_a_split_without_rows_is_a_split():
    store = MemoryStore()
    built = build(store, [])
    assert (built.layout.rows, built.min_values) == (0, {})
    with OpenedSplit(store, PATH) as opened:
        assert numbers(opened, tantivy.Query.all_query()) == []
        assert opened.rows([]).num_rows == 0


def test_half_a_split_leaves_no_scratch(tmp_path):
    sink = pa.BufferOutputStream()
    with SplitWriter(sink, arrow_schema(COLUMNS.fields), fields(), scratch=str(tmp_path)) as writer:
        writer.write(batches([row(1)])[0])
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_rows_of_other_columns_are_refused():
    with (
        SplitWriter(pa.BufferOutputStream(), arrow_schema(COLUMNS.fields), fields()) as writer,
        pytest.raises(InputError),
    ):
        writer.write(pa.record_batch({"id": [1]}))


def test_what_the_log_says_of_a_split(small):
    built, data = small
    add = built.added(PATH, {"p": "1"}, 5)
    assert (add.size, add.num_records, add.footer_end_offset) == (len(data), 40, len(data))
    assert add.min_values["id"] == "0"
    assert add.max_values["message"] == max(row(number)["message"] for number in range(40))[:32]
    assert (add.min_values["at"], add.max_values["day"]) == ("1704067200000000", "19732")
    assert add.min_values["ok"] == "false"
    assert (add.min_values["price"], add.max_values["latency"]) == ("0.00", "9.75")
    assert needed_by([add]) == OWN
    # The footer is what Parquet says it is: its length stands before the last four bytes.
    assert add.footer_start_offset <= len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]


def test_a_column_with_a_nan_has_no_bounds():
    built = build(MemoryStore(), [row(1), row(2, latency=float("nan"))])
    assert "latency" not in built.min_values
    assert built.min_values["id"] == "1"


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("column", "values", "type", "expected", "dropped"),
    [
        ("latency", [-0.0, float("nan"), 1.5], pa.float64(), [0.0, None, 1.5], 0),
        ("latency", [0.5], pa.float32(), [0.5], 0),
        ("ok", [True, None, False], pa.bool_(), [1, None, 0], 0),
        ("price", ["-0.01", None, "9999999999.99"], pa.decimal128(12, 2), [-1, None, 999_999_999_999], 0),
        ("at", [1, None], pa.timestamp("us", "UTC"), [1, None], 0),
        ("client", ["10.0.0.1", "::1", "nowhere", None, "1.2.3", "fe80::1%eth0"], pa.string(),
         ["10.0.0.1", "::1", None, None, None, None], 3),
        ("level", ["x" * 65_530, "x" * 65_531, None, "é" * 40_000], pa.string(), ["x" * 65_530, None, None, None], 2),
        ("tags", [["a", None], [], None, ["b"]], pa.list_(pa.string()), [["a"], None, None, ["b"]], 0),
        ("user", [{"name": "2024-01-01T00:00:00Z", "age": None}, None], USER,
         [{"name": "2024-01-01T00:00:00Z "}, None], 0),
        ("labels", [[("a", "b"), ("c", None)], None, []], LABELS, [{"a": "b"}, None, None], 0),
    ],
)  # fmt: skip
def test_values_become_what_the_index_takes(column, values, type, expected, dropped):
    field = next(each for each in fields() if each.column == column)
    array = pa.array(values).cast(type) if pa.types.is_decimal(type) else pa.array(values, type)
    found, left_out = indexed_values(field, array)
    assert (found, left_out) == (expected, dropped)
    assert not any(str(each) == "-0.0" for each in found), "doubles have one zero"
    sliced, _ = indexed_values(field, array.slice(1))
    assert sliced == expected[1:], "a slice of a batch is no different"


def test_values_that_are_not_in_the_index_are_counted(small):
    built = build(MemoryStore(), [row(1, client="nowhere"), row(2), row(3, client="x", level="y" * 70_000)])
    assert built.layout.unindexed == {"client": 2, "level": 1}
    assert small[0].layout.unindexed == {}


# ---------------------------------------------------------------- term presence


def test_a_term_that_is_there_is_never_denied_and_few_others_are_taken_for_it():
    terms = [("f1", f"word{number}") for number in range(5000)]
    found = TermFilter(TermFilter.of(b"".join(digest(*each) for each in terms)).to_bytes())
    assert all(found.may_have(*each) for each in terms)
    others = sum(found.may_have("f1", f"other{number}") for number in range(5000))
    assert others < 150, f"{others} of 5000 terms that are not there seem to be"


def test_the_filter_of_a_split_has_its_words_and_strings(lake):
    with OpenedSplit(lake, PATH) as opened:
        assert opened.terms.may_have(opened.fields["message"].name, "19999")
        assert opened.terms.may_have(opened.fields["level"].name, "WARN")
        assert not opened.terms.may_have(opened.fields["level"].name, "warn")
        assert opened.terms.may_have(opened.fields["tags"].name, "t3")
        assert "index" not in opened.__dict__, "the index is not unpacked for it"


# ---------------------------------------------------------------- damage


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :]


def used(data: bytes) -> object:
    """All that a reader and a searcher do with a split."""
    store = MemoryStore()
    store.put(PATH, data)
    with OpenedSplit(store, PATH) as opened:
        schema = opened.index.schema
        terms = [opened.terms.may_have(opened.fields["message"].name, "17")]
        query = tantivy.Query.term_query(schema, opened.fields["message"].name, "17")
        ids = tantivy.Query.range_query(schema, opened.fields["id"].name, tantivy.FieldType.Integer, 3, 9)
        rows = pa.Table.from_batches(opened.batches()).to_pylist()
        return terms, numbers(opened, query), numbers(opened, ids), rows


def test_a_flipped_byte_anywhere_is_an_error_or_changes_nothing(small):
    _, data = small
    expected = used(data)
    wrong = []
    for place in range(0, len(data), 97):
        try:
            found = used(flipped(data, place))
        except HaloclineError:
            continue
        if found != expected:
            wrong.append(place)
    footer = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    # Parquet has no checksum of its own footer; in everything before it nothing passes unnoticed.
    assert [place for place in wrong if place < footer] == []


def test_a_split_that_is_cut_off_is_an_error(small):
    _, data = small
    for length in (0, 3, 8, 100, len(data) // 2, len(data) - 9, len(data) - 1):
        with pytest.raises(MalformedError):
            used(data[:length])


def test_a_parquet_file_without_an_index_is_no_split(tmp_path):
    store = open_store(str(tmp_path))
    pq.write_table(pa.table({"id": [1]}), tmp_path / "plain.parquet")
    with pytest.raises(MalformedError, match="says nothing of an index") as found:
        _ = OpenedSplit(store, "plain.parquet").layout
    assert found.value.condition == "MALFORMED_SPLIT"


def described(layout: dict) -> dict[bytes, bytes]:
    text = json.dumps(layout).encode()
    return {layouts.KEY: b"%08x" % zlib.crc32(text) + text}


def test_a_later_layout_is_refused_by_name():
    with pytest.raises(IncompatibleError, match="splitLayout2") as refused:
        layouts.decode_layout(described({"layout": 2, "shiny": True}), PATH)
    assert refused.value.condition == "READER_TOO_OLD"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"index_format": 8}, "tantivyFst8"),
        ({"dictionary": "sstable"}, "tantivySstable7"),
        ({"analyzers": 2}, "analyzers2"),
    ],
)
def test_an_index_of_another_kind_is_refused_by_name_and_its_rows_are_read(small, change, name):
    built, _ = small
    layout = layouts.SplitLayout(**{key: getattr(built.layout, key) for key in built.layout.__struct_fields__} | change)
    with pytest.raises(IncompatibleError, match=name):
        layouts.check_searchable(layout, PATH)
    assert layouts.decode_layout({layouts.KEY: layouts.encode_layout(layout)}, PATH) == layout


@pytest.mark.parametrize("data", [b"", b"00000000{}", b"zzzzzzzz", described({"layout": 1})[layouts.KEY]])
def test_a_layout_that_cannot_be_read_is_damage(data):
    with pytest.raises(MalformedError):
        layouts.decode_layout({layouts.KEY: data}, PATH)


class PanicException(BaseException):
    """Named as the library's own."""


def test_a_panic_of_the_library_is_an_error_and_not_the_end_of_the_process():
    with pytest.raises(MalformedError, match="panicked"), guarded(PATH):
        raise PanicException("index out of bounds")
    with pytest.raises(KeyboardInterrupt), guarded(PATH):
        raise KeyboardInterrupt


def test_a_real_panic_arrives_as_an_error(tmp_path):
    """A file of terms whose bytes are turned behind our checksums: only the library can notice, and it panics."""
    store = MemoryStore()
    build(store, [row(number) for number in range(2000)])
    caught = []
    with OpenedSplit(store, PATH) as opened:
        folder = opened.index and opened._folder
        (path,) = Path(folder).glob("*.term")
        data = path.read_bytes()
        for place in range(0, len(data), len(data) // 100):
            # A copy each: a file that the library has mapped must not be written to.
            copy = tmp_path / str(place)
            shutil.copytree(folder, copy)
            (copy / path.name).write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
            try:
                with guarded(PATH):
                    index = tantivy.Index.open(str(copy))
                    index.searcher().search(tantivy.Query.regex_query(index.schema, "f2", ".*"), limit=10)
            except MalformedError as error:
                caught.append("panicked" in error.message)
    assert True in caught, "turned bytes of a dictionary make the library panic"


def test_what_executors_need_can_be_sent_to_them(small):
    built, _ = small
    assert pickle.loads(pickle.dumps((built, fields()))) == (built, fields())
    assert isinstance(built.layout.fields[0], IndexField)
    assert np.array_equal(pickle.loads(pickle.dumps(np.arange(3))), np.arange(3))


def test_rows_of_many_groups_are_those_of_the_file_however_it_packs_its_text(monkeypatch):
    """Text that comes again and again is packed, each group with a dictionary of its own, and nulls are among it."""
    monkeypatch.setattr(split_file, "GROUP_ROWS", 50)
    levels = [None if number % 11 == 0 else f"level {number // 50}-{number % 3}" for number in range(1000)]
    rows = [{"id": n, "level": level, "message": f"request {n}"} for n, level in enumerate(levels)]
    flat = Struct([each for each in COLUMNS.fields if each.name in rows[0]])
    snapshot = table_of(rows, columns=flat, options={})
    (split,) = snapshot.files.values()
    wanted = np.array([number for number in range(1000) if number % 7 == 0 or 300 <= number < 420])
    with OpenedSplit.of(snapshot.store, split) as opened:
        assert len(opened.parquet.group_rows) == 20
        whole = pa.Table.from_batches(opened.batches())
        assert opened.rows(wanted).equals(whole.take(pa.array(wanted)))
        assert pa.types.is_dictionary(opened._packed.schema.field("level").type), "or this test shows nothing"
        some = opened.rows(wanted[:3], ["message", "level"])
    assert some.equals(whole.select(["message", "level"]).take(pa.array(wanted[:3])))

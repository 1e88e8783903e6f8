"""Rows without Spark: what is written is what every client reads, and what needs Spark says so."""

from __future__ import annotations

import datetime as dt
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import deltalake
import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.support.tables import Untouched, by_another_client, live_files

import halocline as hc
from halocline.errors import (
    ConflictError,
    ConstraintError,
    InputError,
    MalformedError,
    MissingExtraError,
    SchemaError,
    UnsupportedError,
)

DAY = dt.date(2026, 11, 1)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "country": ["at", "nz", None, "at"],
        "day": [DAY, DAY, DAY + dt.timedelta(1), None],
        "price": pa.array([Decimal("1.50"), None, Decimal("3.25"), Decimal("4.00")], pa.decimal128(8, 2)),
        "tags": [["a", None], [], None, ["b"]],
        "place": [{"x": 1, "y": "u"}, None, {"x": None, "y": "v"}, {"x": 4, "y": None}],
        "at": pa.array([dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)] * 4, pa.timestamp("us", "UTC")),
    }
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "orders"


def ids(table, **reading) -> list[int]:
    return sorted(table.to_arrow(columns=["id"], **reading).read_all()["id"].to_pylist())


def by_duckdb(path) -> pa.Table:
    files = ", ".join(f"'{path}/{each}'" for each in sorted(live_files(path)))
    return duckdb.sql(f"SELECT * FROM read_parquet([{files}], hive_partitioning = true)").to_arrow_table()


@pytest.mark.parametrize("partition_by", [(), ("country",), ("day", "country")])
@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_rows_come_back_as_they_went_in(path, partition_by, mode):
    properties = {} if mode == "none" else {"delta.columnMapping.mode": mode}
    table = hc.Table.create(path, ROWS, partition_by=partition_by, properties=properties)
    assert table.append_arrow(ROWS.slice(0, 2)) == 1
    found = table.to_arrow().read_all()
    assert found.schema.equals(ROWS.schema)
    expected = sorted([*ROWS.to_pylist(), *ROWS.slice(0, 2).to_pylist()], key=repr)
    assert sorted(found.to_pylist(), key=repr) == expected
    assert hc.Table.for_path(path).history()[0].operation == "WRITE"


@pytest.mark.parametrize("partition_by", [(), ("day", "country")])
def test_files_are_read_by_deltalake_and_duckdb(path, partition_by):
    table = hc.Table.create(path, ROWS.schema, partition_by=partition_by)
    table.append_arrow(ROWS)
    assert [row[0] for row in by_another_client(path, "id")] == [1, 2, 3, 4]
    seen = by_duckdb(path)
    assert sorted(seen["id"].to_pylist()) == [1, 2, 3, 4]
    assert sorted(map(repr, seen["place"].to_pylist())) == sorted(map(repr, ROWS["place"].to_pylist()))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id > 2", [3, 4]),
        ("country = 'at' AND id < 4", [1]),
        ("country IS NULL", [3]),
        ("NOT (country = 'at')", [2]),
        ("day = '2026-11-01'", [1, 2]),
        ("price IN (1.5, 4)", [1, 4]),
        ("place.x = 4", [4]),
        ("at >= '2026-11-01 12:00:00'", [1, 2, 3, 4]),
        ("at >= '2026-11-01 12:00:01'", []),
    ],
)
def test_condition_decides_about_rows(path, where, expected):
    hc.Table.create(path, ROWS, partition_by="country")
    assert ids(hc.Table.for_path(path), where=where) == expected


def test_condition_that_needs_an_engine_is_refused_before_a_file_is_opened(path):
    table = hc.Table.create(path, ROWS)
    for file in live_files(path):
        (path / file).unlink()
    with pytest.raises(UnsupportedError) as refused:
        table.to_arrow(where="id > 1 AND upper(country) = 'AT'")
    assert "needs Spark" in refused.value.sides


def test_deletion_vectors_are_honoured(path):
    import deltalake

    hc.Table.create(path, ROWS, properties={"delta.enableDeletionVectors": "true"})
    deltalake.DeltaTable(str(path)).delete("id = 2")
    assert ids(hc.Table.for_path(path)) == [1, 3, 4]
    assert ids(hc.Table.for_path(path), version=0) == [1, 2, 3, 4]


def test_rows_are_read_when_they_are_asked_for(path):
    table = hc.Table.create(path, ROWS)
    reader = table.to_arrow()
    for file in live_files(path):
        (path / file).unlink()
    with pytest.raises(hc.NotFoundError):
        reader.read_all()


@pytest.mark.parametrize("content", [ROWS.slice(0, 0), ROWS.slice(0, 2), None], ids=["no rows", "others", "nothing"])
def test_file_of_another_size_than_the_log_says_is_refused(path, content):
    table = hc.Table.create(path, ROWS)
    (file,) = (path / name for name in live_files(path))
    if content is None:
        file.write_bytes(b"")
    else:
        pq.write_table(content, file)
    with pytest.raises(MalformedError, match=rf"has {file.stat().st_size} bytes"):
        table.to_arrow().read_all()


def test_pandas_and_polars_get_the_same_rows(path):
    table = hc.Table.create(path, ROWS)
    assert sorted(table.to_pandas(columns=["id"], where="id < 3")["id"]) == [1, 2]
    frame = table.to_polars()
    assert sorted(frame["id"].to_list()) == [1, 2, 3, 4]
    assert table.append_arrow(frame.filter(polars.col("id") == 1)) == 1
    assert ids(table) == [1, 1, 2, 3, 4]
    with pytest.raises(InputError) as refused:
        table.to_polars(wher="id = 1")
    assert refused.value.sides["nearest"] == "where"


def test_missing_package_is_named(path, monkeypatch):
    table = hc.Table.create(path, ROWS)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match="polars"):
        table.to_polars()


def test_other_spellings_of_types_become_the_tables(path):
    table = hc.Table.create(path, pa.schema({"id": pa.int64(), "name": pa.string(), "at": pa.timestamp("us", "UTC")}))
    moment = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    rows = pa.table(
        {
            "ID": pa.array([7], pa.uint32()),
            "name": pa.array(["x"]).dictionary_encode(),
            "at": pa.array([moment], pa.timestamp("ns", "Europe/Vienna")),
        }
    )
    table.append_arrow(rows)
    assert table.to_arrow().read_all().to_pylist() == [{"id": 7, "name": "x", "at": moment}]
    with Untouched(path), pytest.raises(SchemaError, match="no place"):
        table.append_arrow(rows.set_column(2, "at", pa.array([1], pa.timestamp("ns", "UTC"))))


VIEWS = pa.array(["a", "a" * 40, None], pa.string_view())


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1]], pa.list_view(pa.int64())),
        pa.array([[1]], pa.large_list_view(pa.int64())),
        pa.array([[[1], None], None, []], pa.list_view(pa.list_view(pa.int64()))),
        pa.array([{"x": [1, None]}, None], pa.struct([("x", pa.large_list_view(pa.int32()))])),
        pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
        pa.RunEndEncodedArray.from_arrays([2, 3], ["a", None]),
        pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.uint32()), VIEWS),
    ],
    ids=lambda column: str(column.type),
)
def test_values_survive_whatever_a_column_keeps_them_in(path, column):
    table = hc.Table.create(path, pa.table({"v": column}))
    expected = [value.as_py() for value in column]
    assert table.to_arrow().read_all()["v"].to_pylist() == expected
    table.append_arrow(pa.table({"v": column}).slice(0, 1))
    assert sorted(map(repr, table.to_arrow().read_all()["v"].to_pylist())) == sorted(map(repr, expected + expected[:1]))


def test_nulls_without_a_type_have_that_of_the_table(path):
    first = {"id": 1, "name": "x", "s": {"a": 1, "b": ["y"]}, "m": [("k", 1)]}
    types = {"s": pa.struct({"a": pa.int32(), "b": pa.list_(pa.string())}), "m": pa.map_(pa.string(), pa.int32())}
    table = hc.Table.create(
        path, pa.Table.from_pylist([first], pa.schema({"id": pa.int64(), "name": pa.string(), **types}))
    )
    more = [{"id": 2, "NAME": None, "s": {"a": None, "b": [None]}, "m": None}, {"id": 3, "s": None}]
    table.append_arrow(pa.Table.from_pylist(more))
    nothing = {"id": 3, "name": None, "s": None, "m": None}
    second = {"id": 2, "name": None, "s": {"a": None, "b": [None]}, "m": None}
    found = sorted(table.to_arrow().read_all().to_pylist(), key=lambda row: row["id"])
    assert found == [first, second, nothing]
    with Untouched(path), pytest.raises(SchemaError, match="no column nane"):
        table.append_arrow(pa.table({"id": [4], "nane": [None]}))


def test_nulls_without_a_type_make_no_column(path):
    with pytest.raises(UnsupportedError, match="type null, which tables do not have"):
        hc.Table.create(path, pa.table({"id": [4], "name": [None]}))


def test_a_union_is_refused(path):
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    with pytest.raises(UnsupportedError, match="sparse_union"):
        hc.Table.create(path, pa.table({"v": union}))
    assert not path.exists()


@pytest.mark.parametrize(
    ("rows", "message", "advice"),
    [
        ({"id": ["x"]}, "another type", "Cast the column"),
        ({"id": [1], "contry": ["at"]}, "no column contry", "Did you mean country?"),
        ({"country": ["at"]}, "must not be null", "Give every row a value for id"),
    ],
)
def test_columns_that_do_not_fit_are_refused(path, rows, message, advice):
    columns = [hc.column("id", "bigint", nullable=False), hc.column("country", "string")]
    table = hc.Table.create(path, columns)
    with Untouched(path), pytest.raises(SchemaError, match=message) as refused:
        table.append_arrow(pa.table(rows))
    assert advice in refused.value.next_step


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        (pa.table([[1], [2]], names=["id", "ID"]), "id"),
        (pa.table([[1], [2]], names=["id", "id"]), "id"),
        (pa.table({"place": pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["x", "X"])}), "place.x"),
    ],
)
def test_two_columns_of_a_name_are_refused(path, rows, name):
    table = hc.Table.create(path, ROWS.schema)
    with Untouched(path), pytest.raises(SchemaError, match=f"more than one column {name}"):
        table.append_arrow(rows)


def test_check_constraint_is_kept(path):
    table = hc.Table.create(path, ROWS.schema)
    with_rule(path, "country = 'at' OR id > 2")
    table = hc.Table.for_path(path)
    table.append_arrow(ROWS.slice(2))
    table.append_arrow(ROWS.slice(0, 1))
    with Untouched(path), pytest.raises(ConstraintError, match="CHECK fair") as refused:
        table.append_arrow(ROWS)
    assert '"id":2' in refused.value.sides["row"]
    with Untouched(path), pytest.raises(ConstraintError, match="CHECK fair"):
        table.append_arrow(pa.table({"id": [None]}, pa.schema({"id": pa.int64()})))  # null is not true


def with_rule(path, condition: str) -> None:
    import deltalake

    deltalake.DeltaTable(str(path)).alter.add_constraint({"fair": condition})


def test_null_where_none_may_be_leaves_nothing_behind(path):
    table = hc.Table.create(path, [hc.column("id", "bigint", nullable=False), hc.column("part", "string")])
    batches = [pa.RecordBatch.from_pydict({"id": pa.array([each], pa.int64()), "part": ["a"]}) for each in (1, None)]
    with Untouched(path), pytest.raises(ConstraintError, match="NOT NULL id"):
        table.append_arrow(pa.RecordBatchReader.from_batches(batches[0].schema, batches))


@pytest.mark.parametrize(
    ("column", "needs"),
    [
        (lambda: hc.column("n", "bigint", identity=hc.Identity()), "identity column n"),
        (lambda: hc.column("code", "char(3)"), "length of code"),
        (lambda: hc.column("v", "variant"), "variant column v"),
    ],
)
def test_what_needs_spark_is_refused_with_the_reason(path, column, needs):
    table = hc.Table.create(path, [hc.column("id", "bigint"), column()])
    with Untouched(path), pytest.raises(UnsupportedError) as refused:
        table.append_arrow(pa.table({"id": [1]}))
    assert needs in refused.value.sides["needs Spark"]


def test_transaction_is_done_once(path):
    table = hc.Table.create(path, ROWS.schema)
    assert [table.append_arrow(ROWS, txn=("nightly", 1)) for _ in range(2)] == [1, 1]
    assert ids(table) == [1, 2, 3, 4]


def test_no_rows_are_no_version(path):
    assert hc.Table.create(path, ROWS).append_arrow(ROWS.slice(0, 0)) == 0


def test_columns_that_change_meanwhile_are_a_conflict(path):
    table = hc.Table.create(path, ROWS)

    def batches():
        yield ROWS.to_batches()[0]
        hc.Table.for_path(path).set_properties({"delta.appendOnly": "true"})

    with pytest.raises(ConflictError):
        table.append_arrow(pa.RecordBatchReader.from_batches(ROWS.schema, batches()))
    assert ids(table) == [1, 2, 3, 4]


@pytest.mark.parametrize("type", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")])
@pytest.mark.parametrize("day", [6_590_000, -800_000])
def test_partition_of_a_year_beyond_four_digits_is_refused(path, type, day):
    days = pa.array([None, day], pa.int32()).cast(pa.date32())
    moments = days if type == pa.date32() else days.cast(pa.int32()).cast(pa.int64())
    if type != pa.date32():
        moments = pc.multiply(moments, 86_400_000_000).cast(type)
    table = hc.Table.create(path, pa.schema({"id": pa.int64(), "at": type}), partition_by="at")
    with Untouched(path), pytest.raises(InputError, match="years 1 to 9999"):
        table.append_arrow(pa.table({"id": [1, 2], "at": moments}))
    table.append_arrow(pa.table({"id": [1], "at": moments.slice(0, 1)}))
    assert ids(table) == [1]


@pytest.mark.parametrize(
    ("type", "spelt"),
    [
        (pa.float64(), {1e20: "1.0E20", 1e-5: "1.0E-5", 0.1: "0.1", 1e7: "1.0E7", 9999999.0: "9999999.0"}),
        (pa.float64(), {float("inf"): "Infinity", -float("inf"): "-Infinity", 0.001: "0.001", -1.5: "-1.5"}),
        (pa.float32(), {0.1: "0.1", 1 / 3: "0.33333334", 1e10: "1.0E10"}),
        (pa.decimal128(30, 20), {Decimal("1E-20"): "0." + "0" * 19 + "1", Decimal(0): "0." + "0" * 20}),
        (pa.timestamp("us"), {dt.datetime(1970, 1, 1, 0, 0, 0, 120_000): "1970-01-01 00:00:00.12"}),
        (pa.timestamp("us"), {dt.datetime(1970, 1, 1, 10): "1970-01-01 10:00:00"}),
    ],
)
def test_partition_values_are_spelt_as_spark_spells_them(path, type, spelt):
    rows = pa.table({"id": range(len(spelt)), "part": pa.array(spelt, type)})
    table = hc.Table.create(path, rows, partition_by="part")
    values = table.snapshot().files()["partition_values"].to_pylist()
    assert {dict(each)["part"] for each in values} == set(spelt.values())
    assert table.to_arrow().read_all().sort_by("id")["part"].to_pylist() == rows["part"].to_pylist()
    read = deltalake.DeltaTable(path).to_pyarrow_table().sort_by("id")
    assert read["part"].cast(type).to_pylist() == rows["part"].to_pylist()


@pytest.mark.parametrize("partition_by", [(), ("name",)])
def test_bytes_that_are_no_text_are_refused(path, partition_by):
    offsets = pa.array([0, 2], pa.int32()).buffers()[1]
    text = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff\xfe")])
    table = hc.Table.create(path, pa.schema({"id": pa.int64(), "name": pa.string()}), partition_by=partition_by)
    with Untouched(path), pytest.raises(SchemaError, match="not in order"):
        table.append_arrow(pa.table({"id": [1], "name": text}))


def test_numbers_that_pandas_gives_to_rows_are_no_column(path):
    frame = ROWS.select(["id", "country"]).to_pandas()
    table = hc.Table.create(path, frame[frame["id"] > 2])
    assert table.to_arrow().schema.names == ["id", "country"]
    table.append_arrow(frame[frame["id"] == 2])
    assert ids(table) == [2, 3, 4]
    named = hc.Table.create(path / "named", frame.set_index("id"))
    assert sorted(named.to_arrow().schema.names) == ["country", "id"]


@pytest.mark.parametrize("read", ["to_arrow", "to_pandas", "to_polars"])
def test_column_that_is_asked_for_twice_is_refused(path, read):
    table = hc.Table.create(path, ROWS)
    with pytest.raises(InputError, match="column id is asked for twice"):
        getattr(table, read)(columns=["id", "ID"])


@pytest.mark.parametrize("given", [[{"id": 1}], "rows", None, ROWS["id"], polars.Series([1])])
def test_what_holds_no_rows_is_refused(path, given):
    with pytest.raises(InputError, match="Arrow's form"):
        hc.Table.create(path, ROWS).append_arrow(given)


def test_release_that_may_not_write_is_refused(path):
    hc.Table.create(path, ROWS, properties={"delta.enableDeletionVectors": "true"})
    with pytest.raises(hc.IncompatibleError):
        hc.Table.for_path(path, release="deltalake@0.10.0")


def test_no_part_of_spark_is_loaded(path):
    program = (
        "import sys; sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "import halocline as hc, pyarrow as pa\n"
        f"table = hc.Table.create({str(path)!r}, pa.table({{'id': [1, 2]}}))\n"
        "table.append_arrow(pa.table({'id': [3]}))\n"
        "print(sorted(table.to_arrow(where='id > 1').read_all()['id'].to_pylist()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "[2, 3]\n", done.stderr


def row_groups(path) -> list[int]:
    files = [pq.read_metadata(path / each) for each in sorted(live_files(path))]
    return [file.row_group(n).num_rows for file in files for n in range(file.num_row_groups)]


@pytest.mark.parametrize("partition_by", [(), ("part",)])
def test_batches_of_a_row_each_become_one_row_group(path, partition_by):
    schema = pa.schema({"id": pa.int64(), "part": pa.string(), "price": pa.float64()})
    table = hc.Table.create(path, schema, partition_by=partition_by)
    rows = [{"id": each, "part": "a", "price": float(each)} for each in range(5000)]
    batches = (pa.RecordBatch.from_pylist([row], schema) for row in rows)
    table.append_arrow(pa.RecordBatchReader.from_batches(schema, batches))
    assert row_groups(path) == [5000]
    assert table.to_arrow().read_all().to_pylist() == rows
    assert ids(table, where="price >= 4999") == [4999]


@pytest.mark.parametrize("size", [7_000, 70_000, 600_000, 2_100_000])
def test_row_groups_have_one_size_whatever_the_batches(path, size):
    rows = pa.table({"id": pa.array(range(2_100_000), pa.int32())})
    table = hc.Table.create(path, rows.schema)
    table.append_arrow(pa.RecordBatchReader.from_batches(rows.schema, iter(rows.to_batches(max_chunksize=size))))
    assert row_groups(path) == [1_000_000, 1_000_000, 100_000]
    assert table.to_arrow().read_all()["id"].combine_chunks().equals(rows["id"].combine_chunks())


def test_one_large_batch_becomes_row_groups_and_files_that_fit_into_memory(path):
    made = random.Random(1)
    rows = pa.table({"id": range(180), "noise": [made.randbytes(1024 * 1024) for _ in range(180)]})
    table = hc.Table.create(path, rows.schema)
    table.append_arrow(rows)
    assert len(live_files(path)) == 2
    assert max(row_groups(path)) <= 80
    assert ids(table) == list(range(180))


def test_first_block_of_the_page_needs_the_core_alone(tmp_path):
    page = Path(__file__).parents[4] / "docs" / "without-spark.md"
    block = page.read_text().split("```python\n")[1].split("```")[0]
    absent = (
        "import sys, importlib.util\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name in ('pandas', 'polars') else found(name, *more)\n"
        "sys.modules['pyspark'] = sys.modules['py4j'] = sys.modules['polars'] = None\n"
    )
    command = [sys.executable, "-c", absent + block]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


STREAMED = """
import re, sys
from pathlib import Path
import numpy as np
import pyarrow as pa
import halocline as hc

made = np.random.default_rng(1)
schema = pa.schema([(name, pa.int64()) for name in "abcd"])
rows, keys = int(sys.argv[3]), sys.argv[4:]
table = hc.Table.create(sys.argv[1], schema, partition_by=keys)
batches = (
    pa.record_batch([pa.array(made.integers(0, 8 if name in keys else 2**62, rows)) for name in schema.names], schema)
    for _ in range(int(sys.argv[2]) // rows)
)
table.append_arrow(pa.RecordBatchReader.from_batches(schema, batches))
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the most memory of a process alone is told by Linux")
@pytest.mark.parametrize("keys", [(), ("d",)])
def test_memory_of_an_append_does_not_grow_with_the_stream(tmp_path, keys):
    def taken(count: int) -> int:
        command = [sys.executable, "-c", STREAMED, str(tmp_path / str(count)), str(count), "100000", *keys]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert taken(16_000_000) < 1.5 * taken(4_000_000), "four times the rows, 512 MB of them"


@pytest.mark.skipif(sys.platform != "linux", reason="the most memory of a process alone is told by Linux")
def test_memory_of_an_append_does_not_grow_with_the_number_of_batches(tmp_path):
    def taken(count: int) -> int:
        command = [sys.executable, "-c", STREAMED, str(tmp_path / str(count)), str(count), "10", "d"]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert taken(400_000) < 1.5 * taken(50_000), "40,000 batches of ten rows"


def test_rows_of_a_commit_that_is_interrupted_when_it_is_there_stay_readable(path, monkeypatch):
    table = hc.Table.create(path, ROWS)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("halocline.formats.delta.commit.transaction.after_commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        table.append_arrow(ROWS)
    assert table.version == 1
    assert ids(table) == sorted([1, 2, 3, 4] * 2)

"""Writing through the data source, without Spark: what the rows come in place of, and what is refused."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from halocline.errors import ConstraintError, InputError, SchemaError, UnsupportedError
from halocline.formats.delta.actions.action import decode_commit
from halocline.formats.delta.snapshot.snapshot import Snapshot
from halocline.formats.log.names import DELTA
from halocline.schema.types import Field, Primitive, Struct
from halocline.source.options import SourceOptions
from halocline.source.writer import RowSink
from halocline.spark.scan.file_rows import FileRows, live_files, shown_schema
from halocline.storage import open_store

TYPES = {"id": ("long", pa.int64()), "day": ("date", pa.date32()), "note": ("string", pa.string())}
FIRST = dt.date(2026, 11, 1)
DAYS = [FIRST + dt.timedelta(number) for number in range(3)]


def rows(*values, columns=("id", "day")) -> pa.RecordBatch:
    arrays = [pa.array([row[n] for row in values], TYPES[name][1]) for n, name in enumerate(columns)]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def write(path, batch: pa.RecordBatch, *, overwrite: bool = False, tasks=None, **options) -> int:
    fields = [Field(name, Primitive(TYPES[name][0])) for name in batch.schema.names]
    asked = SourceOptions.read({"path": str(path), **{name: str(value) for name, value in options.items()}})
    sink = RowSink.open(asked, Struct(fields), overwrite=overwrite)
    files = [file for task in tasks or [batch] for file in sink.write(iter([task]))]
    return sink.commit_batch(files)


def read(path, *names: str) -> list[tuple]:
    snapshot = Snapshot.load(open_store(path))
    read = FileRows.of(snapshot, shown_schema(snapshot)).read(live_files(snapshot))
    return sorted(
        (tuple(row[name] for name in names or ("id",)) for batch in read for row in batch.to_pylist()), key=str
    )


def commit_of(path, version: int):
    return decode_commit(open_store(path).get(DELTA.commit_path(version)), str(version))


@pytest.fixture(params=["", "day"], ids=["in one place", "by day"])
def lake(request, tmp_path):
    """Thirty rows, ten on each of three days; in one file, or in one for each day."""
    values = [(number, DAYS[number % 3]) for number in range(30)]
    write(tmp_path, rows(*values), **({"partitionBy": request.param} if request.param else {}))
    return tmp_path


def test_rows_that_meet_the_condition_are_replaced_and_no_others(lake):
    write(lake, rows((100, FIRST)), overwrite=True, replaceWhere="day = '2026-11-01'")
    found = read(lake, "id", "day")
    assert len(found) == 21, "ten rows of one day became one, and twenty stayed"
    assert [row for row in found if row[1] == FIRST] == [(100, FIRST)]
    metrics = commit_of(lake, 1).commit_info.values["operationMetrics"]
    assert metrics["numDeletedRows"] == "10"


def test_a_condition_that_no_row_meets_replaces_nothing(lake):
    write(lake, rows(), overwrite=True, replaceWhere="day = '2030-01-01'")
    assert len(read(lake)) == 30


def test_a_condition_over_several_columns_replaces_what_meets_it(lake):
    write(lake, rows(), overwrite=True, replaceWhere="day = '2026-11-01' AND id < 15")
    assert [row[0] for row in read(lake, "id") if row[0] % 3 == 0] == [15, 18, 21, 24, 27]


def test_a_row_outside_of_the_condition_is_shown_and_nothing_is_written(lake):
    with pytest.raises(ConstraintError, match="does not meet the condition") as refused:
        write(lake, rows((1, FIRST), (2, DAYS[1])), overwrite=True, replaceWhere="day = '2026-11-01'")
    assert "'id': 2" in refused.value.sides["row"]
    assert len(read(lake)) == 30


def test_a_condition_that_takes_an_engine_is_refused_with_the_way(lake):
    with pytest.raises(UnsupportedError, match="cannot be decided") as refused:
        write(lake, rows(), overwrite=True, replaceWhere="year(day) = 2026")
    assert "Table.for_path" in refused.value.next_step


def test_exactly_the_partitions_of_the_new_rows_are_replaced(lake):
    if not Snapshot.load(open_store(lake)).partition_columns:
        with pytest.raises(InputError, match="not partitioned"):
            write(lake, rows((100, FIRST)), overwrite=True, partitionOverwriteMode="dynamic")
        return
    write(lake, rows((100, FIRST)), overwrite=True, partitionOverwriteMode="dynamic")
    assert len(read(lake)) == 21
    write(lake, rows((200, FIRST)), overwrite=True, partitionOverwriteMode="static")
    assert read(lake) == [(200,)]


def test_columns_come_in_by_merging_and_only_then(lake):
    more = rows((100, FIRST, "new"), columns=("id", "day", "note"))
    with pytest.raises(SchemaError, match="no column note"):
        write(lake, more)
    write(lake, more, mergeSchema="true")
    assert len(read(lake)) == 31
    assert ("new",) in read(lake, "note")


def test_columns_are_overwritten_with_the_rows(lake):
    write(lake, rows((1, "x"), columns=("id", "note")), overwrite=True, overwriteSchema="true", partitionBy="note")
    snapshot = Snapshot.load(open_store(lake))
    assert [each.name for each in snapshot.schema.fields] == ["id", "note"]
    assert (snapshot.partition_columns, read(lake, "id", "note")) == (("note",), [(1, "x")])


def test_files_have_no_more_rows_than_allowed(tmp_path):
    write(tmp_path, rows(*((number, FIRST) for number in range(25))), maxRecordsPerFile=10)
    assert [add.stats.count('"numRecords":10') for add in commit_of(tmp_path, 0).adds].count(1) == 2
    assert len(commit_of(tmp_path, 0).adds) == 3


def test_a_new_layout_of_the_same_rows_says_that_nothing_changed(lake):
    same = rows(*((number, DAYS[number % 3]) for number in range(30)))
    write(lake, same, overwrite=True, dataChange="false")
    commit = commit_of(lake, 1)
    assert {each.data_change for each in (*commit.adds, *commit.removes)} == {False}
    assert len(read(lake)) == 30


def test_the_same_transaction_is_not_done_twice(lake):
    once = {"txnAppId": "nightly", "txnVersion": 7, "userMetadata": "first"}
    assert write(lake, rows((100, FIRST)), **once) == 1
    assert write(lake, rows((100, FIRST)), **once) == 1
    assert len(read(lake)) == 31
    assert commit_of(lake, 1).commit_info.values["userMetadata"] == "first"


@pytest.mark.parametrize(
    ("options", "overwrite", "message"),
    [
        ({"replaceWhere": "id = 1"}, False, "replaceWhere replaces rows"),
        ({"overwriteSchema": "true"}, False, "overwriteSchema replaces rows"),
        ({"partitionOverwriteMode": "dynamic"}, False, "partitionOverwriteMode replaces rows"),
        ({"replaceWhere": "id = 1", "partitionOverwriteMode": "dynamic"}, True, "contradict"),
        ({"replaceWhere": "id = 1", "overwriteSchema": "true"}, True, "contradict"),
        ({"replaceWhere": ""}, True, "replaceWhere cannot be ''"),
        ({"dataChange": "false", "mergeSchema": "true"}, False, "do not change the table's columns"),
        ({"dataChange": "false", "replaceWhere": "id = 1"}, True, "replace whole partitions, not rows by their values"),
        ({"txnAppId": "nightly"}, False, "go together"),
        ({"txnAppId": "nightly", "txnVersion": "-1"}, False, "txnVersion cannot be '-1'"),
    ],
)
def test_options_that_contradict_each_other_or_the_mode_are_refused(lake, options, overwrite, message):
    with pytest.raises(InputError, match=message):
        write(lake, rows((1, FIRST)), overwrite=overwrite, **options)
    assert len(read(lake)) == 30


def test_a_new_table_has_no_rows_to_lay_out_otherwise(tmp_path):
    with pytest.raises(InputError, match="has no rows to lay out otherwise"):
        write(tmp_path, rows((1, FIRST)), dataChange="false")


def test_overwriting_the_columns_comes_before_merging_them(lake):
    both = {"overwriteSchema": "true", "mergeSchema": "true", "partitionBy": "note"}
    write(lake, rows((1, "x"), columns=("id", "note")), overwrite=True, **both)
    assert Snapshot.load(open_store(lake)).schema.names == ("id", "note")

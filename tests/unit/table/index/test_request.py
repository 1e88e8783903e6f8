"""What a write is asked to do to an index table: arguments that contradict each other, columns that come and go."""

import json
from dataclasses import replace as with_changes

import pytest
from msgspec.structs import replace
from tests.support.columns import field
from tests.support.index_tables import table_of

from halocline.errors import InputError, UnsupportedError
from halocline.formats.index.companion.identity import SOURCE_KEY
from halocline.formats.index.split.fields import OPTIONS_KEY
from halocline.formats.index.transaction import IndexTransaction
from halocline.schema import Struct
from halocline.schema.json_edge import parse
from halocline.table.index.request import SplitWrite

COLUMNS = Struct([field("id", "long"), field("message", "string"), field("p", "integer")])
MORE = Struct([field("note", "string"), *COLUMNS.fields])


@pytest.fixture
def table():
    return table_of(
        [{"id": 1, "message": "a", "p": 1}],
        [{"id": 2, "message": "b", "p": 2}],
        [{"id": 3, "message": "c", "p": None}],
        columns=COLUMNS,
        options={"message": {"type": "text"}},
        partition="p",
    )


def options(metadata):
    return json.loads(metadata.configuration[OPTIONS_KEY])


def names(metadata):
    return [each.name for each in parse(metadata.schema_string).fields]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"where": "p = 1", "dynamic": True}, "where and partitions='dynamic' contradict"),
        ({"where": "p = 1", "schema_mode": "overwrite"}, "where and schema_mode='overwrite' contradict"),
        ({"dynamic": True, "schema_mode": "overwrite"}, "contradict"),
        ({"partition_by": ["p"]}, "partition_by says nothing"),
        ({"fields": {"note": "text"}}, "fields says nothing"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        SplitWrite(True, **given)


def test_columns_that_stay_leave_the_metadata_alone(table):
    assert SplitWrite().metadata(table, MORE) is table.metadata
    assert SplitWrite(schema_mode="merge").metadata(table, COLUMNS) is table.metadata


def test_a_merge_adds_columns_at_the_end_and_keeps_how_others_are_indexed(table):
    asked = SplitWrite(schema_mode="merge", fields={"NOTE": "text"})
    after = asked.metadata(table, MORE)
    assert names(after) == ["id", "message", "p", "note"]
    assert options(after) == {"message": {"type": "text"}, "note": {"type": "text"}}
    assert after.partition_columns == ("p",)


def test_a_merge_indexes_no_column_anew_that_is_there(table):
    for rows in (MORE, COLUMNS):
        with pytest.raises(InputError, match="'message' is there already"):
            SplitWrite(schema_mode="merge", fields={"message": "string"}).metadata(table, rows)


def test_an_overwrite_gives_the_table_the_columns_of_the_rows(table):
    narrow = Struct([field("id", "string"), field("p", "integer")])
    after = SplitWrite(True, schema_mode="overwrite", fields={"id": "text"}).metadata(table, narrow)
    assert (names(after), options(after), after.partition_columns) == (["id", "p"], {"id": {"type": "text"}}, ("p",))
    other = SplitWrite(True, schema_mode="overwrite", partition_by=["ID"]).metadata(table, narrow)
    assert other.partition_columns == ("id",)


def test_an_overwrite_without_the_partition_column_is_refused(table):
    with pytest.raises(InputError, match="no column 'p'"):
        SplitWrite(True, schema_mode="overwrite").metadata(table, Struct([field("id", "long")]))


def test_a_column_that_no_split_holds_is_refused(table):
    with pytest.raises(UnsupportedError):
        SplitWrite(schema_mode="merge").metadata(table, Struct([field("v", "variant")]))


def test_dynamic_partitions_are_compared_by_value(table):
    one, two, none = table.files.values()
    asked = SplitWrite(True, dynamic=True)
    new = [replace(one, path="new", partition_values={"p": "01"}), replace(none, path="other")]
    assert [each.path for each in asked.gone(table, new, lambda _: [], 1)] == [one.path, none.path]
    assert asked.gone(table, [], lambda _: [], 1) == []
    assert [each.path for each in SplitWrite(True).gone(table, [], lambda _: [], 1)] == [one.path, two.path, none.path]


def test_partitions_of_a_table_without_any_are_not_replaced():
    plain = table_of([{"id": 1, "message": "a", "p": 1}], columns=COLUMNS, options={})
    with pytest.raises(InputError, match="is not partitioned"):
        SplitWrite(True, dynamic=True).gone(plain, [], lambda _: [], 1)


def test_a_companion_takes_no_rows(table):
    metadata = with_changes(table.metadata, configuration={SOURCE_KEY: "lake/orders"})
    IndexTransaction(table.reopened("write")).commit([metadata], "SET")
    with pytest.raises(InputError, match="is a companion"):
        SplitWrite().metadata(table.newest(), COLUMNS)

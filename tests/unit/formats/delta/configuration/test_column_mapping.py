import pytest
from tests.support.columns import array, field, schema

from halocline.errors import MalformedError
from halocline.formats.delta.actions.action import Metadata
from halocline.formats.delta.configuration.column_mapping import (
    assigned,
    field_id,
    is_mapped,
    mapped_field,
    mode_of,
    parquet_id,
    physical_field,
    physical_name,
    physical_partition_columns,
    random_name,
    same_name,
    stored_name,
    unmapped,
    with_ids_of,
)
from halocline.schema.json_edge import dump
from halocline.schema.visitor import walk

NESTED = schema("id", field("s", schema("x", field("l", array(schema("y"))))))


@pytest.mark.parametrize(("stored", "mode"), [({}, "none"), ({"delta.columnMapping.mode": " NAME "}, "name")])
def test_the_mode_is_what_the_property_says(stored, mode):
    assert mode_of(stored) == mode


def test_a_mode_that_no_reader_knows_is_damage():
    with pytest.raises(MalformedError, match="random"):
        mode_of({"delta.columnMapping.mode": "random"})


def test_ids_are_given_once_at_every_depth_and_only_grow():
    first, highest = assigned(NESTED, 4, same_name)
    assert [field_id(each) for _, each in walk(first)] == [5, 6, 7, 8, 9]
    assert highest == 9
    again, still = assigned(first, highest, random_name)
    assert again is first
    assert still == 9


def test_a_column_keeps_what_it_has_and_gets_what_it_lacks():
    half = schema(field("a", metadata={"delta.columnMapping.id": 7}), "b")
    done, highest = assigned(half, 0, same_name)
    assert [(field_id(each), stored_name(each)) for each in done.fields] == [(7, "a"), (8, "b")]
    assert highest == 8


def test_physical_names_count_only_under_mapping():
    mapped = mapped_field(field("a"), 7, "col-1")
    assert [physical_name(mapped, mode) for mode in ("none", "name", "id")] == ["a", "col-1", "col-1"]


def test_a_mapped_table_with_an_unmapped_column_is_damage():
    with pytest.raises(MalformedError, match="no physical name or no id"):
        physical_name(field("a"), "name")


def test_fields_of_files_carry_their_id_under_mapping_only():
    mapped = mapped_field(field("a", metadata={"comment": "x"}), 7, "col-1")
    assert parquet_id(physical_field(mapped, "name")) == 7
    assert physical_field(mapped, "name").name == "col-1"
    assert physical_field(mapped, "none").metadata == {}


def test_partition_values_go_by_physical_names_under_mapping():
    columns = schema("id", mapped_field(field("day", "date"), 2, "col-day"))
    plain = Metadata("1", dump(columns), partition_columns=("day",))
    assert physical_partition_columns(plain) == {"day"}
    mapped = plain.with_configuration({"delta.columnMapping.mode": "name"})
    assert physical_partition_columns(mapped) == {"col-day"}


def test_columns_of_the_same_path_keep_their_ids_in_a_new_schema():
    known, _ = assigned(NESTED, 0, random_name)
    kept = with_ids_of(schema("brand_new", "id"), known)
    assert not is_mapped(kept.fields[0])
    assert stored_name(kept.fields[1]) == stored_name(known.fields[0])


def test_taking_the_mapping_out_leaves_the_rest():
    mapped, _ = assigned(schema(field("a", metadata={"comment": "x"})), 0, random_name)
    assert unmapped(mapped) == schema(field("a", metadata={"comment": "x"}))

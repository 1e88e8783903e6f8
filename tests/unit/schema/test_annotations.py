"""The nouns whose notes Spark keeps in the metadata of fields: defaults, declared lengths, collations."""

import pytest

from halocline.schema import Array, Field, Primitive, Struct
from halocline.schema.char_types import declared_at, declared_type, is_limited, stored_field
from halocline.schema.collations import collation_of
from halocline.schema.defaults import default_of, with_default, without_existing

TEXT = Primitive("string")


def test_a_default_is_set_replaced_and_taken_away():
    field = with_default(with_default(Field("n", TEXT), "'a'"), "'b'")
    assert default_of(field) == "'b'"
    assert with_default(field, None) == Field("n", TEXT)


def test_what_old_rows_have_goes_and_the_default_stays():
    field = Field("n", TEXT, metadata={"CURRENT_DEFAULT": "'a'", "EXISTS_DEFAULT": "'a'", "comment": "x"})
    assert without_existing(field).metadata == {"CURRENT_DEFAULT": "'a'", "comment": "x"}


@pytest.mark.parametrize(
    ("type", "limited"),
    [("char(3)", True), ("varchar(20)", True), ("CHAR (3)", True), ("char", False), ("string", False)],
)
def test_text_of_limited_length_says_its_length(type, limited):
    assert is_limited(Primitive(type)) is limited


def test_a_limited_text_is_stored_as_text_that_knows_its_declared_type():
    stored = stored_field(Field("c", Primitive("varchar(20)"), False, {"comment": "x"}), "varchar(20)")
    assert stored.type == TEXT
    assert declared_type(stored).parameters == (20,)
    assert (stored.nullable, stored.metadata["comment"]) == (False, "x")


def test_limited_text_inside_of_another_type_is_found_by_its_path():
    column = Field("s", Struct([Field("a", Array(Primitive("char(3)"))), Field("n", Primitive("long"))]))
    stored = stored_field(column, "struct<`a`: array<char(3)>, `n`: bigint>")
    assert str(stored.type) == "struct<a: array<string>, n: long>"
    schema = Struct([stored])
    assert str(declared_at(schema, ("s", "a", "element"))) == "char(3)"
    assert declared_at(schema, ("s", "n")) is None
    assert declared_at(schema, ("gone",)) is None


def test_plain_text_is_stored_as_it_is():
    field = Field("c", TEXT)
    assert stored_field(field, "string") is field
    assert declared_type(field) is None
    assert declared_type(field.annotated("__CHAR_VARCHAR_TYPE_STRING", "of the future")) is None


def test_a_collation_is_found_where_it_is_noted():
    assert collation_of(Field("c", TEXT)) is None
    assert "UTF8_LCASE" in collation_of(Field("c", TEXT, metadata={"__COLLATIONS": {"c": "UTF8_LCASE"}}))

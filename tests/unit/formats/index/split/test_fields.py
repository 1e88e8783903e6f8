"""Fields: the kind that each type becomes, and options that are refused."""

import json

import pytest
from tests.support.splits import COLUMNS, fields

from halocline.errors import InputError, UnsupportedError
from halocline.formats.index.split.analyzers import words
from halocline.formats.index.split.fields import OPTIONS_KEY, FieldKind, fields_of
from halocline.schema.types import Array, Field, Primitive, Struct


def test_every_type_has_a_kind():
    assert {each.column: str(each.kind) for each in fields()} == {
        "id": "integer",
        "level": "string",
        "message": "text",
        "trace": "string",
        "client": "ip",
        "latency": "float",
        "ok": "boolean",
        "day": "date",
        "at": "timestamp",
        "price": "decimal",
        "tags": "string",
        "user": "json",
        "labels": "json",
        "raw": "stored",
        "huge": "stored",
    }
    by_name = {each.column: each for each in fields()}
    assert by_name["tags"].repeated
    assert by_name["price"].scale == 2
    assert by_name["trace"].hashed
    assert not by_name["trace"].fast
    assert by_name["at"].zoned


def test_partition_columns_have_no_field():
    assert "level" not in {each.column for each in fields_of(COLUMNS, {}, ["level"])}


@pytest.mark.parametrize("type", [Array(Array(Primitive("long"))), Primitive("shiny"), Primitive("binary")])
def test_what_no_index_takes_is_in_the_rows_only(type):
    (found,) = fields_of(Struct([Field("x", type)]))
    assert found.kind is FieldKind.STORED


def test_a_column_can_be_left_out_of_the_index():
    (found,) = fields_of(Struct([Field("x", Primitive("string"))]), {OPTIONS_KEY: '{"x": {"indexed": false}}'})
    assert found.kind is FieldKind.STORED


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"mesage": {"type": "text"}}, "message"),
        ({"message": {"typ": "text"}}, "cannot be read"),
        ({"message": {"type": "words"}}, "words"),
        ({"message": {"type": "text", "tokenizer": "klingon"}}, "klingon"),
        ({"message": {"tokenizer": "text"}}, "cannot have the option tokenizer"),
        ({"message": {"type": "text", "fast": True}}, "cannot have the option fast"),
        ({"id": {"type": "text"}}, "cannot have the option type"),
        ({"id": {"hashed": True}}, "cannot have the option hashed"),
        ({"trace": {"hashed": True, "fast": True}}, "both hashed and fast"),
        ({"level": {"positions": True}}, "cannot have the option positions"),
        ([], "no object"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, match):
    with pytest.raises(InputError, match=match) as refused:
        fields_of(COLUMNS, {OPTIONS_KEY: json.dumps(options)})
    assert refused.value.condition == "PROPERTY_INVALID"


def test_an_analyzer_of_a_later_release_is_refused_and_not_replaced_by_another():
    with pytest.raises(UnsupportedError, match="klingon"):
        words("klingon", "a b")

import pytest
from tests.support.columns import array, field, of_type
from tests.support.columns import schema as struct

from halocline.errors import ConstraintError, SchemaError
from halocline.spark.types.assignment import Assignment, always_fits, is_assignable, unfit_value


@pytest.mark.parametrize(
    ("offered", "wanted", "allowed"),
    [
        ("integer", "long", True),
        ("long", "byte", True),
        ("double", "decimal(4,1)", True),
        ("void", "date", True),
        ("date", "timestamp", True),
        ("timestamp_ntz", "date", True),
        ("boolean", "string", True),
        ("binary", "string", True),
        ("decimal(5,1)", "string", True),
        ("string", "integer", False),
        ("string", "date", False),
        ("boolean", "integer", False),
        ("integer", "boolean", False),
        ("long", "timestamp", False),
        ("variant", "string", False),
        ("integer", "variant", False),
        (array("long"), "string", False),
    ],
)
def test_assigning_follows_ansi_rules(offered, wanted, allowed):
    assert is_assignable(of_type(offered), of_type(wanted)) is allowed


@pytest.mark.parametrize(
    ("offered", "wanted", "fits"),
    [
        ("byte", "long", True),
        ("long", "long", True),
        ("long", "integer", False),
        ("long", "double", True),
        ("double", "float", True),
        ("double", "long", False),
        ("float", "decimal(38,10)", False),
        ("long", "decimal(19,0)", True),
        ("long", "decimal(19,1)", False),
        ("short", "decimal(7,2)", True),
        ("decimal(10,2)", "decimal(12,2)", True),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal(11,1)", False),
        ("decimal(10,0)", "long", False),
        ("date", "timestamp", True),
        ("double", "string", True),
    ],
)
def test_values_are_only_looked_at_where_one_may_not_fit(offered, wanted, fits):
    assert always_fits(of_type(offered), of_type(wanted)) is fits


@pytest.mark.parametrize(
    ("offered", "wanted", "sql"),
    [
        ("long", "long", "`c`"),
        ("integer", "long", "CAST(`c` AS bigint)"),
        ("void", "date", "CAST(NULL AS date)"),
        (array("long"), array("long"), "`c`"),
        (
            array("integer"),
            array("long"),
            "transform(`c`, halocline_in_1 -> CAST(halocline_in_1 AS bigint))",
        ),
        (struct(field("A", "long")), struct(field("A", "long")), "`c`"),
        (
            struct(field("b", "date"), field("A", "long")),
            struct(field("a", "long"), field("b", "date"), field("d", "string")),
            "CASE WHEN `c` IS NOT NULL THEN struct(`c`.`A` AS `a`, `c`.`b` AS `b`, CAST(NULL AS string) AS `d`) END",
        ),
        (
            {"type": "map", "keyType": "integer", "valueType": "float", "valueContainsNull": True},
            {"type": "map", "keyType": "long", "valueType": "float", "valueContainsNull": True},
            "transform_keys(`c`, (halocline_in_1, halocline_in_2) -> CAST(halocline_in_1 AS bigint))",
        ),
    ],
)
def test_nested_values_are_rebuilt_only_where_something_differs(offered, wanted, sql):
    work = Assignment()
    assert work.value("`c`", of_type(offered), of_type(wanted), "c") == sql
    assert work.problems == []


def test_everything_that_does_not_fit_is_named_at_once_with_both_sides():
    work = Assignment()
    work.value("`a`", of_type("string"), of_type("long"), "a")
    work.value("`s`", struct(field("x", "long")), struct(field("y", "date", nullable=False)), "s")
    with pytest.raises(SchemaError) as caught:
        work.check("lake/orders")
    assert caught.value.condition == "SCHEMA_MISMATCH"
    assert caught.value.sides == {
        "table": "a bigint, s.y date NOT NULL, s.x no such column",
        "rows": "a string, s.y missing, s.x bigint",
    }


def test_value_that_does_not_fit_is_found_in_sparks_error():
    error = RuntimeError(
        "[USER_RAISED_EXCEPTION] HALOCLINE_VALUE_UNFIT<a.b><int>99999999999</HALOCLINE_VALUE_UNFIT> at"
    )
    found = unfit_value(error, "lake/orders")
    assert isinstance(found, ConstraintError)
    assert found.sides == {"column": "a.b int", "value": "99999999999"}
    assert unfit_value(RuntimeError("division by zero"), "lake/orders") is None

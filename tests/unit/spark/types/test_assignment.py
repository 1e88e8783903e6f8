import pytest
from tests.support.columns import array, field, of_type
from tests.support.columns import schema as struct

from halocline.errors import SchemaError
from halocline.schema.types import Map
from halocline.spark.types.assignment import Assignment, Casting, Lacking, is_assignable

NO, ANSI, ALL = set(), {Casting.EXACT, Casting.ANSI}, set(Casting)


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [
        ("byte", "short", ALL),
        ("integer", "long", ALL),
        ("integer", "double", ALL),
        ("short", "float", ALL),
        ("float", "double", ALL),
        ("long", "decimal(19,0)", ALL),
        ("decimal(10,2)", "decimal(12,4)", ALL),
        ("date", "timestamp_ntz", ALL),
        ("void", "date", ALL),
        ("long", "long", ALL),
        ("long", "byte", ANSI),
        ("long", "double", ANSI),
        ("integer", "float", ANSI),
        ("double", "float", ANSI),
        ("double", "integer", ANSI),
        ("long", "decimal(19,1)", ANSI),
        ("decimal(10,2)", "decimal(11,1)", ANSI),
        ("decimal(10,0)", "long", ANSI),
        ("double", "decimal(4,1)", ANSI),
        ("date", "timestamp", ANSI),
        ("timestamp_ntz", "date", ANSI),
        ("boolean", "string", ANSI),
        ("binary", "string", ANSI),
        ("decimal(5,1)", "string", ANSI),
        ("string", "integer", ANSI),
        ("string", "date", ANSI),
        ("string", "boolean", ANSI),
        ("string", "decimal(4,1)", ANSI),
        ("boolean", "integer", NO),
        ("integer", "boolean", NO),
        ("long", "timestamp", NO),
        ("variant", "string", NO),
        ("integer", "variant", NO),
        (array("long"), "string", NO),
    ],
)
def test_each_way_to_assign_takes_its_types(source, target, allowed):
    taken = {casting for casting in Casting if is_assignable(of_type(source), of_type(target), casting)}
    assert taken == allowed


def condition(source, target, casting):
    work = Assignment(casting)
    work.value("c", of_type(source), of_type(target), "c")
    return work.fits[0].condition if work.fits else None


@pytest.mark.parametrize(
    ("source", "target", "exact", "ansi"),
    [
        ("integer", "long", None, None),
        ("long", "double", None, None),
        ("long", "integer", "try_cast(c AS int) IS NOT NULL", "try_cast(c AS int) IS NOT NULL"),
        ("double", "integer", "coalesce(try_cast(c AS int) = c, false)", "try_cast(c AS int) IS NOT NULL"),
        ("decimal(5,2)", "long", "coalesce(try_cast(c AS bigint) = c, false)", "try_cast(c AS bigint) IS NOT NULL"),
        ("timestamp", "date", "CAST(try_cast(c AS date) AS timestamp_ltz) = c", None),
    ],
)
def test_values_are_looked_at_where_one_may_not_fit(source, target, exact, ansi):
    whole = [None if each is None else f"c IS NULL OR {each}" for each in (exact, ansi)]
    assert [condition(source, target, casting) for casting in (Casting.EXACT, Casting.ANSI)] == whole


def test_what_elements_must_meet_is_asked_of_the_whole_value():
    work = Assignment(Casting.ANSI)
    work.value("c", Map(of_type("string"), array("long")), Map(of_type("string"), array("integer")), "c")
    assert [(fit.path, fit.value) for fit in work.fits] == [("c.value.element", "c")]
    assert work.fits[0].condition.startswith("c IS NULL OR forall(map_values(c), halocline_in_2 -> ")


@pytest.mark.parametrize(
    ("source", "target", "sql"),
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
def test_nested_values_are_rebuilt_only_where_something_differs(source, target, sql):
    work = Assignment(Casting.WIDENING)
    assert work.value("`c`", of_type(source), of_type(target), "c") == sql
    assert work.problems == []


def test_everything_that_does_not_fit_is_named_at_once_with_both_sides():
    work = Assignment(Casting.WIDENING)
    work.value("`a`", of_type("string"), of_type("long"), "a")
    work.value("`s`", struct(field("x", "long")), struct(field("y", "date", nullable=False)), "s")
    with pytest.raises(SchemaError) as caught:
        work.check("lake/orders")
    assert caught.value.condition == "SCHEMA_MISMATCH"
    assert caught.value.sides == {
        "table": "a bigint, s.y date NOT NULL, s.x no such column",
        "rows": "a string, s.y missing, s.x bigint",
    }


def test_the_refusal_of_a_narrower_type_names_the_way_to_ask_for_it():
    work = Assignment(Casting.WIDENING)
    work.value("`n`", of_type("double"), of_type("integer"), "n")
    with pytest.raises(SchemaError, match="cast='ansi'"):
        work.check("lake/orders")


@pytest.mark.parametrize(
    ("casting", "source", "target", "helps", "not_that"),
    [
        (Casting.WIDENING, "boolean", "integer", "Cast the columns", "ansi"),
        (Casting.EXACT, "boolean", "date", "Cast the values", "schema"),
        (Casting.ANSI, "boolean", "integer", "Cast the values", "schema_mode"),
    ],
)
def test_the_advice_names_nothing_that_does_not_help(casting, source, target, helps, not_that):
    work = Assignment(casting)
    work.value("`n`", of_type(source), of_type(target), "n")
    with pytest.raises(SchemaError) as refused:
        work.check("lake/orders")
    assert helps in refused.value.next_step
    assert not_that not in refused.value.next_step


def test_columns_that_are_new_are_advised_by_what_the_verb_has():
    for casting, way in ((Casting.WIDENING, "schema_mode='merge'"), (Casting.EXACT, "add_columns")):
        work = Assignment(casting)
        work.problems.append(("x", "no such column", "int"))
        with pytest.raises(SchemaError) as refused:
            work.check("lake/orders")
        assert way in refused.value.next_step
        assert "Cast" not in refused.value.next_step


def test_field_that_is_mistyped_is_answered_with_the_nearest():
    work = Assignment(Casting.WIDENING)
    work.value("`s`", struct(field("contry", "long")), struct(field("country", "long"), field("id", "long")), "s")
    with pytest.raises(SchemaError, match=r"Did you mean s\.country\?"):
        work.check("lake/orders")


WHOLE = struct(field("a", "long"), field("n", struct(field("x", "long"), field("y", "long"))))


def test_fields_that_a_struct_lacks_are_null_or_refused_or_stay():
    part = struct(field("n", struct(field("x", "long"))))
    work = Assignment(Casting.EXACT, Lacking.NULL)
    assert "CAST(NULL AS bigint) AS `a`" in work.value("s", part, WHOLE, "s")
    work = Assignment(Casting.EXACT, Lacking.REFUSED)
    work.value("s", part, WHOLE, "s")
    assert [path for path, _, found in work.problems if found == "missing"] == ["s.a", "s.n.y"]
    work = Assignment(Casting.EXACT, Lacking.REFUSED)
    kept = work.value("s", part, WHOLE, "s", ("o", WHOLE))
    assert work.problems == []
    inner = "CASE WHEN s.`n` IS NOT NULL OR o.`n` IS NOT NULL THEN struct(s.`n`.`x` AS `x`, o.`n`.`y` AS `y`) END"
    assert kept == f"CASE WHEN s IS NOT NULL OR o IS NOT NULL THEN struct(o.`a` AS `a`, {inner} AS `n`) END"
    assert work.value("s", WHOLE, WHOLE, "s", ("o", WHOLE)) == "s", "nothing is kept where nothing lacks"

import json
from decimal import Decimal

import pytest

from halocline.errors import InputError
from halocline.formats.delta.configuration.schema import Schema
from halocline.formats.delta.stats.predicate import (
    All,
    AnyOf,
    Anything,
    Comparison,
    Never,
    NullTest,
    Predicate,
    StartsWith,
)

STRUCT = {"type": "struct", "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": "string"}]}
TYPES = {
    "id": "long",
    "name": "string",
    "Active": "boolean",
    "day": "date",
    "at": "timestamp",
    "a b": "long",
    "point": STRUCT,
    "tags": {"type": "array", "elementType": "string"},
    "props": {"type": "map", "keyType": "string", "valueType": "long"},
}
SCHEMA = Schema.parse(
    json.dumps({"type": "struct", "fields": [{"name": name, "type": type} for name, type in TYPES.items()]})
)


def parsed_test(text):
    return Predicate.parse(text, SCHEMA).test


def short(test) -> str:
    """A test as one line."""
    if isinstance(test, Comparison):
        return f"{test.column.name} {test.operator} {test.literal.value}"
    if isinstance(test, NullTest):
        return f"{test.column.name} is {'' if test.is_null else 'not '}null"
    if isinstance(test, StartsWith):
        return f"{test.column.name} starts {test.prefix}"
    if isinstance(test, All | AnyOf):
        word = " and " if isinstance(test, All) else " or "
        return f"({word.join(short(part) for part in test.parts)})"
    return type(test).__name__.lower()


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("id = 5", "id = 5"),
        ("ID == 5", "id = 5"),
        ("5 < id", "id > 5"),
        ("id <> -5", "id != -5"),
        ("NOT id > 5", "id <= 5"),
        ("id = 5L", "id = 5"),
        ("id < 1.5", "id < 1.5"),
        ("id < 1e3", "id < 1000.0"),
        ("id = CAST('7' AS BIGINT)", "id = 7"),
        ("id < CAST(2.50 AS DECIMAL(10,2))", "id < 2.50"),
        ("`a b` >= 1", "a b >= 1"),
        ("name = 'it\\'s'", "name = it's"),
        ('name = "x"', "name = x"),
        ("id BETWEEN 1 AND 3", "(id >= 1 and id <= 3)"),
        ("id NOT BETWEEN 1 AND 3", "(id < 1 or id > 3)"),
        ("id IN (1, 2)", "(id = 1 or id = 2)"),
        ("id IN (1, NULL)", "id = 1"),
        ("id NOT IN (1, 2)", "(id != 1 and id != 2)"),
        ("id NOT IN (1, NULL)", "never"),
        ("id IN ('9', '-10')", "(id = 9 or id = -10)"),
        ("id IN (1, 2.5)", "(id = 1 or id = 2.5)"),
        ("id = NULL", "never"),
        ("NOT (id = NULL)", "never"),
        ("id <=> NULL", "id is null"),
        ("NOT id <=> NULL", "id is not null"),
        ("id <=> 3", "id = 3"),
        ("NOT id <=> 3", "(id != 3 or id is null)"),
        ("id IS NULL", "id is null"),
        ("id IS NOT NULL", "id is not null"),
        ("NOT id IS NOT NULL", "id is null"),
        ("name LIKE 'ab%'", "name starts ab"),
        ("name LIKE 'ab'", "name = ab"),
        ("name LIKE '%'", "name is not null"),
        ("active", "Active = True"),
        ("NOT active", "Active = False"),
        ("TRUE AND id = 1", "id = 1"),
        ("FALSE OR id = 1", "id = 1"),
        ("FALSE AND id = 1", "never"),
        ("NULL OR id = 1", "id = 1"),
        ("NOT (id = 1 AND name = 'a')", "(id != 1 or name != a)"),
        ("NOT (id = 1 OR name = 'a')", "(id != 1 and name != a)"),
        ("point.x = 1 AND Point.Y = 'a'", "(point.x = 1 and point.y = a)"),
        ("upper(name) = 'A' AND id = 1", "(anything and id = 1)"),
    ],
)
def test_a_predicate_means_what_it_says(text, meaning):
    assert short(parsed_test(text)) == meaning


@pytest.mark.parametrize(
    "text",
    [
        "upper(name) = 'A'",
        "upper(name) = 'A' OR id = 1",
        "NOT (upper(name) = 'A' AND id = 1)",
        "id = id",
        "id + 1 = 5",
        "name NOT LIKE 'ab%'",
        "NOT name LIKE 'ab%'",
        "name LIKE 'a_b%'",
        "name LIKE 'a%b%'",
        "name LIKE 'a\\\\%b%' ESCAPE '\\\\'",
        "name ILIKE 'ab%'",
        "name RLIKE 'ab'",
        "id IN (SELECT 1)",
        "id IN (9223372036854775806, 1e0)",
        "id NOT IN (9223372036854775806, 1e0)",
        "id IN ('1', 2)",
        "id NOT IN ('09')",
        "day NOT IN (' 2026-11-01')",
        "day > current_date()",
        "tags[0] = 'a'",
        "props['k'] = 1",
        "props.k = 1",
        "exists(tags, t -> t = name)",
        "_metadata.file_path = 'x'",
        "active IS TRUE",
        "CASE WHEN active THEN id = 1 ELSE id = 2 END",
        "id = CAST('x' AS BIGINT)",
        "id = CAST(1.5 AS INT)",
        "id = CAST('1.25' AS DECIMAL(2,1))",
        "day = CAST('yesterday' AS DATE)",
        "1 = 1",
        "id",
    ],
)
def test_what_is_not_understood_says_nothing(text):
    assert parsed_test(text) == Anything()


def test_a_date_is_a_number_of_days():
    assert parsed_test("day > DATE '1970-01-11'").literal.value == 10
    assert parsed_test("day > CAST('1970-01-11' AS DATE)").literal.value == 10


def test_decimals_stay_exact():
    assert parsed_test("id < 0.1").literal.value == Decimal("0.1")


@pytest.mark.parametrize(
    "text", ["nope = 1", "point.z = 1", "upper(nope) = 'A'", "id = 1 OR nope IS NULL", "id = nope"]
)
def test_a_column_that_does_not_exist_is_an_error(text):
    with pytest.raises(InputError) as caught:
        parsed_test(text)
    assert caught.value.condition == "COLUMN_NOT_FOUND"


@pytest.mark.parametrize(
    "text",
    ["", "id =", "SELECT 1", "DROP TABLE x", "id = 1; DROP TABLE x", "((id = 1", "id = 'unclosed", "x" * 1_000_001],
)
def test_what_is_no_predicate_is_an_error(text):
    with pytest.raises(InputError) as caught:
        parsed_test(text)
    assert caught.value.condition == "PREDICATE_INVALID"


@pytest.mark.parametrize("text", ["id >", "NOT", "id BETWEEN 1", "id IN (1, id +)", "CASE WHEN id"])
def test_half_a_predicate_is_told_in_words(text):
    with pytest.raises(InputError, match="an operand is missing") as caught:
        parsed_test(text)
    assert "<class" not in str(caught.value)


def test_a_very_long_list_is_fine():
    values = ", ".join(map(str, range(5000)))
    assert len(parsed_test(f"id IN ({values})").parts) == 5000


def test_a_very_long_chain_is_fine():
    assert len(parsed_test(" OR ".join(f"id = {n}" for n in range(3000))).parts) == 3000


@pytest.mark.parametrize("opening", ["(", "NOT ("])
def test_a_bottomless_predicate_is_an_error(opening):
    with pytest.raises(InputError, match="PREDICATE_INVALID"):
        parsed_test(opening * 3000 + "id = 1" + ")" * 3000)


def test_columns_are_listed_once():
    predicate = Predicate.parse("id = 1 OR (ID > 5 AND name LIKE 'a%') OR point.x IS NULL", SCHEMA)
    assert [column.name for column in predicate.columns()] == ["id", "name", "point.x"]


def test_never_is_kept_apart_from_anything():
    assert parsed_test("id = NULL AND upper(name) = 'A'") == Never()

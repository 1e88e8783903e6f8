"""Literals are taken for what they are only where their value is certain."""

from decimal import Decimal

import pytest
import sqlglot

from halocline.formats.delta.stats.literal import NULL, Literal, LiteralKind, literal_of


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("7", Literal(LiteralKind.NUMBER, 7)),
        ("-(7)", Literal(LiteralKind.NUMBER, -7)),
        ("1.50", Literal(LiteralKind.NUMBER, Decimal("1.50"))),
        ("1e3", Literal(LiteralKind.NUMBER, 1000.0)),
        ("'7'", Literal(LiteralKind.TEXT, "7")),
        ("true", Literal(LiteralKind.BOOLEAN, True)),
        ("DATE '1970-01-02'", Literal(LiteralKind.DATE, 1)),
        ("CAST(' 12 ' AS INT)", Literal(LiteralKind.NUMBER, 12)),
        ("CAST('1.5' AS DECIMAL(2, 1))", Literal(LiteralKind.NUMBER, Decimal("1.5"))),
        ("NULL", NULL),
        ("CAST(NULL AS INT)", NULL),
    ],
)
def test_a_literal_has_the_value_that_it_spells(text, literal):
    assert literal_of(sqlglot.parse_one(text, dialect="spark")) == literal


@pytest.mark.parametrize(
    "text",
    ["id", "1 + 1", "current_date()", "CAST(300 AS TINYINT)", "CAST('1.55' AS DECIMAL(2, 1))", "CAST('1_0' AS INT)"],
)
def test_what_spark_computes_or_a_cast_would_change_is_no_literal(text):
    assert literal_of(sqlglot.parse_one(text, dialect="spark")) is None

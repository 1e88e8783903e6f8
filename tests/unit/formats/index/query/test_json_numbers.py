"""Numbers inside structs and maps: each is compared in its own type, and its neighbours are not found."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.index_tables import delete, table_of

from halocline.errors import InputError
from halocline.formats.index.explain import explained, reads_rows
from halocline.formats.index.search import Search, count_split, few_in_split, search_split, search_table
from halocline.schema.types import Array, Field, Map, Primitive, Struct

KINDS = {
    "whole": "long",
    "small": "integer",
    "double": "double",
    "single": "float",
    "price": "decimal(20,2)",
    "huge": "decimal(38,0)",
    "text": "string",
}
PLACE = Struct([Field(name, Primitive(kind)) for name, kind in KINDS.items()])
COLUMNS = Struct(
    [
        Field("at", PLACE),
        Field("every", Array(PLACE)),
        Field("named", Map(Primitive("string"), Primitive("decimal(20,2)"))),
        Field("mixed", Map(Primitive("string"), PLACE)),
    ]
)
EDGES = [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 1234567890123456768, 1234567890123456789, 2**63 - 1, 2**63 - 2]
WHOLE = [*EDGES, *(-each for each in EDGES), -(2**63), 0, 1, 5, 2024]
DOUBLES = [
    *map(float, WHOLE),
    -0.0,
    0.1,
    0.30000000000000004,
    0.3,
    5e-324,
    1e300,
    1.7976931348623157e308,
    math.inf,
    -math.inf,
    math.nan,
]
PRICES = [Decimal(f"{each}.{cents:02}") for each in WHOLE if abs(each) < 10**18 for cents in (0, 1, 50)]
HUGE = [10**37, 10**37 + 1, -(10**37) - 1, 10**38 - 1, 10**38 - 2, *WHOLE]


def places() -> list[dict]:
    filled = {
        "whole": WHOLE,
        "small": [0, 1, 5, -5, 2**31 - 1, 2**31 - 2, -(2**31)],
        "double": DOUBLES,
        "single": [float(np.float32(each)) for each in (0.1, 0.3, 16777216.0, 16777217.0, 16777218.0, math.inf, 0.0)],
        "price": PRICES,
        "huge": [Decimal(each) for each in HUGE],
        "text": ["5", "0.1", "nan", "inf", str(2**53 + 1)],
    }
    return [{name: value} for name, values in filled.items() for value in values]


def rows() -> list[dict]:
    found = [{"at": each, "every": [each, {"text": "other"}], "mixed": {"a.b": each}} for each in places()]
    found += [{"named": {"x": each, "y.z": PRICES[0]}} for each in PRICES]
    return [*found, {}, {"at": {}, "every": [], "named": {}, "mixed": {}}]


ROWS = rows()
TABLE = table_of(ROWS, columns=COLUMNS, options={})
SPLIT = next(iter(TABLE.files.values()))
TEXTS = sorted({str(value) for place in places() for value in place.values() if not isinstance(value, str)})


def is_it(value, text: str, kind: str) -> bool:
    """Whether a value of a kind is the number that a text means."""
    if value is None:
        return False
    number = Decimal(text)
    if kind == "string":
        return value.lower() == text.lower()
    if not number.is_finite():
        return isinstance(value, float) and (value == float(text) or (value != value and number.is_nan()))
    if kind in ("double", "float"):
        wanted = float(np.float32(text)) if kind == "float" else float(text)
        return value == wanted
    return Decimal(value) == number


def found(query: str) -> list[int]:
    search = Search.of(TABLE, query)
    rows = search_split(TABLE.store, SPLIT, search).rows.tolist()
    assert count_split(TABLE.store, SPLIT, search) == len(rows)
    few = few_in_split(TABLE.store, SPLIT, search, 1000)
    assert few.rows.tolist() == rows
    return rows


def test_a_number_inside_a_struct_is_found_in_its_own_type_and_no_other():
    @settings(max_examples=120, deadline=None)
    @given(st.sampled_from(sorted(KINDS)), st.sampled_from(TEXTS))
    def check(name, text):
        wanted = [n for n, row in enumerate(ROWS) if is_it((row.get("at") or {}).get(name), text, KINDS[name])]
        if KINDS[name] != "string":
            assert found(f'at.{name}:"{text}"') == wanted
            assert found(f'NOT at.{name}:"{text}"') == [n for n in range(len(ROWS)) if n not in wanted]
            assert found(f'every.{name}:"{text}"') == wanted
            assert found(f'mixed.a.b.{name}:"{text}"') == wanted

    check()


@pytest.mark.parametrize("text", ["9007199254740993", "9007199254740993.00", "9007199254740993.01", "0.00", "5.50"])
def test_decimals_in_a_map_are_exact(text):
    wanted = [n for n, row in enumerate(ROWS) if (row.get("named") or {}).get("x") == Decimal(text)]
    assert found(f'named.x:"{text}"') == wanted != []
    every = [n for n, row in enumerate(ROWS) if (row.get("named") or {}).get("y.z") == Decimal(text)]
    assert found(f'named.y.z:"{text}"') == every


def test_several_numbers_at_once_and_deleted_rows():
    texts = ["9007199254740993", "9007199254740992.50"]
    wanted = [n for n, row in enumerate(ROWS) if (row.get("at") or {}).get("price") in list(map(Decimal, texts))]
    assert found(f"at.price:IN [{' '.join(texts)}]") == wanted
    assert len(wanted) == 2
    table = table_of(ROWS, columns=COLUMNS, options={})
    after = delete(table, {next(iter(table.files)): wanted[:1]})
    search = Search.of(after, f'at.price:"{texts[0]}" OR at.price:"{texts[1]}"')
    assert search_split(after.store, next(iter(after.files.values())), search).rows.tolist() == wanted[1:]


def test_text_inside_a_struct_is_still_found_as_words():
    places_of = {row["at"]["text"]: n for n, row in enumerate(ROWS) if "text" in (row.get("at") or {})}
    assert {text: found(f"at.text:{text}") for text in ("5", "nan", "inf")} == {
        text: [places_of[text]] for text in ("5", "nan", "inf")
    }
    assert found("at.whole:word") == []


def test_it_is_told_what_the_rows_are_read_for():
    def by(query):
        (part,) = explained(TABLE, Search.of(TABLE, query), None, "").parts
        return part.by, part.because

    assert by("at.whole:5") == ("index", "")
    assert by("at.double:0.5") == ("index", "")
    assert by("at.price:5") == ("index", "and the numbers are compared in the rows found")
    assert by("at.double:inf")[0] == "rows"
    assert reads_rows(Search.of(TABLE, "at.double:nan"))
    assert not reads_rows(Search.of(TABLE, "at.price:5"))


def test_infinities_of_a_column_are_no_other_number():
    table = table_of([{"d": each} for each in DOUBLES], columns=Struct([Field("d", Primitive("double"))]), options={})
    split = next(iter(table.files.values()))

    def met(query):
        return {repr(DOUBLES[n]) for n in search_split(table.store, split, Search.of(table, query)).rows.tolist()}

    assert met("d:inf") == met('d:"infinity"') == met("d:>1.7976931348623157e308") == met("d:>1e400") == {"inf"}
    assert met('d:"-inf"') == met("d:<-1.7976931348623157e308") == met("d:<-1e400") == {"-inf"}
    assert met("d:>=1e308") == {"inf", "1.7976931348623157e+308"}
    assert "inf" not in met("d:<=1e400")
    assert met("d:<1e400") == {repr(each) for each in DOUBLES if each < math.inf}
    with pytest.raises(InputError, match="1e400"):
        met("d:1e400")


def test_a_decimal_that_differs_in_a_digit_far_behind_is_not_found():
    columns = Struct([Field("price", Primitive("decimal(12,2)"))])
    table = table_of([{"price": Decimal("12.34")}], columns=columns, options={})
    split = next(iter(table.files.values()))

    def met(query):
        return search_split(table.store, split, Search.of(table, query)).rows.tolist()

    far = "0" * 30 + "1"
    assert met("price:12.34") == met(f"price:<12.34{far}") == met("price:12.340") == [0]
    assert met(f"price:>=12.34{far}") == []
    with pytest.raises(InputError, match="is no value of column 'price'"):
        met(f"price:12.34{far}")


@pytest.mark.parametrize("partition", [None, "f"])
def test_a_column_of_single_numbers_is_compared_in_their_type(partition):
    columns = Struct([Field("f", Primitive("float")), Field("id", Primitive("long"))])
    values = (
        [0.1, 0.3, 16777216.0] if partition else [float(np.float32(each)) for each in (0.1, 0.3, 16777216.0, math.inf)]
    )
    splits = [[{"f": value, "id": number}] for number, value in enumerate(values)]
    table = table_of(*splits, columns=columns, options={}, partition=partition)

    def met(query):
        return sorted(search_table(table, Search.of(table, query)).rows["id"].to_pylist())

    assert (met("f:0.1"), met("f:IN [0.1 0.3]"), met("f:16777216"), met("f:0.2")) == ([0], [0, 1], [2], [])
    assert met("f:1e39") == met("f:3.5e38") == []

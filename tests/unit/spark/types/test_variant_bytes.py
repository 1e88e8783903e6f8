"""Two variants have one spelling if and only if they hold the same value."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import VariantVal

from halocline.spark.types.variant_bytes import spelt, spelt_variant

EMPTY = bytes([1, 0, 0])
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=80)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


def of(text: str) -> bytes:
    found = spelt(VariantVal.parseJson(text))
    assert found is not None
    return found


def typed(value):
    """A value whose booleans are no numbers."""
    if isinstance(value, dict):
        return {key: typed(each) for key, each in value.items()}
    return [typed(each) for each in value] if isinstance(value, list) else (type(value), value)


def test_spellings_are_the_same_where_values_are():
    @settings(max_examples=300, deadline=None)
    @given(VALUES, VALUES)
    def check(one, other):
        assert (of(json.dumps(one)) == of(json.dumps(other))) == (typed(one) == typed(other))

    check()


def test_the_order_of_keys_and_the_width_of_numbers_do_not_matter():
    assert of('{"b": [1, {"x": 2.50}], "a": 300}') == of('{"a": 300, "b": [1.0, {"x": 2.5}]}')
    assert len({spelt_variant(bytes([kind << 2]) + (7).to_bytes(size, "little"), EMPTY) for kind, size in WIDTHS}) == 1


WIDTHS = [(3, 1), (4, 2), (5, 4), (6, 8)]
FIXED = {7: 8, 9: 9, 11: 4, 12: 8, 13: 8, 14: 4, 17: 8, 18: 8, 19: 8, 20: 16}


@pytest.mark.parametrize("kind", FIXED)
def test_a_bit_of_any_value_of_fixed_size_makes_another_spelling(kind):
    size = FIXED[kind]
    plain = bytes(1 if kind == 9 else 0 for _ in range(size))
    found = {spelt_variant(bytes([kind << 2]) + plain, EMPTY)}
    for bit in range(8 if kind == 9 else 0, size * 8):
        changed = (int.from_bytes(plain, "little") ^ 1 << bit).to_bytes(size, "little")
        found.add(spelt_variant(bytes([kind << 2]) + changed, EMPTY))
    assert len(found) == 1 + size * 8 - (8 if kind == 9 else 0)


def test_not_a_number_is_one_value_and_the_zeros_are_two():
    def double(bits: int) -> bytes:
        return spelt_variant(bytes([7 << 2]) + struct.pack("<Q", bits), EMPTY)

    assert double(0x7FF8000000000000) == double(0xFFF0000000000001)
    assert len({double(0), double(1 << 63), double(0x7FF0000000000000), double(0x7FF8000000000000)}) == 4


def test_text_and_bytes_and_null_are_three_kinds_and_what_is_not_known_is_refused():
    text = bytes([16 << 2, 2, 0, 0, 0]) + b"\xc3\x28"
    binary = bytes([15 << 2, 2, 0, 0, 0]) + b"\xc3\x28"
    assert spelt_variant(text, EMPTY) == spelt_variant(bytes([2 << 2 | 1]) + b"\xc3\x28", EMPTY)
    assert len({spelt_variant(text, EMPTY), spelt_variant(binary, EMPTY), spelt_variant(b"\0", EMPTY)}) == 3
    assert spelt(None) is None
    with pytest.raises(ValueError, match="kind 40"):
        spelt_variant(bytes([40 << 2]), EMPTY)

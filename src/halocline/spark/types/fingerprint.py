"""The fingerprint of a row: 64 bits that tell it from a row that differs in any bit of any value.

Spark hashes the values as it has them, so nothing is spelt as text in between: all digits of a timestamp count, and the
bytes of text, whether or not they are valid. Where Spark's own hash calls two values the same, they are told apart
here: null from what is empty or zero, the two zeros of floating-point numbers, texts that a collation calls equal, and
values that a neighbour in the same row or the same array would swallow. NaN is one value. The entries of a map have no
order. A variant is spelt by a Python worker, since the same value can be packed in several ways.

The limit: values of other types (places on the earth, types of users), and variants inside arrays and maps, where no
Python worker is asked, have no fingerprint; `is_comparable` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from halocline.spark.types.variant_bytes import spelt

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_NUMBERS: Final = ("boolean", "byte", "short", "integer", "long", "decimal")
_TIMES: Final = ("date", "timestamp", "timestamp_ntz", "time", "daytimeinterval", "yearmonthinterval", "interval")
_EXACT: Final = frozenset((*_NUMBERS, *_TIMES, "binary"))
"""The types whose values Spark hashes bit by bit."""


def row_fingerprint(schema: StructType, names: Sequence[str]) -> Column:
    """Return the fingerprint of some columns of each row, as a number of 64 bits.

    Args:
        schema: The columns of the rows.
        names: Those that count; all of them must be comparable.
    """
    from pyspark.sql import functions as F

    types = {field.name: field.dataType for field in schema.fields}
    columns = [_hashed(F.col(f"`{name.replace('`', '``')}`"), types[name]) for name in names]
    return F.xxhash64(F.lit(len(columns)), *columns)


def is_comparable(type: DataType, *, repeated: bool = False) -> bool:
    """Return whether values of a type have a fingerprint, inside arrays and maps if they are repeated."""
    from pyspark.sql import types as T

    if isinstance(type, T.StructType):
        return all(is_comparable(field.dataType, repeated=repeated) for field in type.fields)
    if isinstance(type, T.ArrayType):
        return is_comparable(type.elementType, repeated=True)
    if isinstance(type, T.MapType):
        return all(is_comparable(each, repeated=True) for each in (type.keyType, type.valueType))
    kind = _kind(type)
    return kind in _EXACT or kind in ("string", "float", "double", "void") or (kind == "variant" and not repeated)


def _kind(type: DataType) -> str:
    from pyspark.sql import types as T

    if isinstance(type, T.StringType | T.CharType | T.VarcharType):
        return "string"
    return str(type.typeName())


def _hashed(value: Column, type: DataType) -> Column:
    """The hash of a value, which is never null."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    parts: list[Column] = [value]
    match _kind(type):
        case "struct":
            parts = [_hashed(value.getField(field.name), field.dataType) for field in _as(T.StructType, type).fields]
        case "array":
            element = _as(T.ArrayType, type).elementType
            parts = [F.size(value), F.transform(value, lambda each: _hashed(each, element))]
        case "map":
            of = _as(T.MapType, type)
            entries = F.transform(
                F.map_entries(value),
                lambda each: F.xxhash64(
                    _hashed(each.getField("key"), of.keyType), _hashed(each.getField("value"), of.valueType)
                ),
            )
            parts = [F.size(value), F.array_sort(entries)]
        case "string":
            parts = [value.cast("binary")]
        case "float" | "double":
            # Both zeros have one hash, and text that tells them apart.
            parts = [value, F.when(value == 0, value.cast("string"))]
        case "variant":
            # Without a lambda, Spark would ask the annotations what kind of function it is.
            parts = [F.udf(lambda variant: spelt(variant), "binary")(value)]
        case "void":
            parts = []
    return F.xxhash64(F.isnull(value), *parts)


def _as(kind: Any, type: DataType) -> Any:
    assert isinstance(type, kind)
    return type

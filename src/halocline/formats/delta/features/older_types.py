"""Which data files hold a column in an older type than the table has.

Under type widening a file keeps the type it was written with, and readers cast. Before the feature can go, such files
are written again. What a file holds stands in its footer; a column that is missing from the file is no older type,
since readers fill it with nulls whatever its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from halocline.formats.delta.actions.locations import locate
from halocline.formats.delta.configuration.schema import PHYSICAL_NAME, JsonType, Schema, decimal_of
from halocline.formats.log.parquet_object import ParquetObject
from halocline.storage.base import Store

_EXACT: Final[Mapping[str, pa.DataType]] = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}


def holds_older_types(store: Store, schema: Schema, path: str) -> bool:
    """Whether a data file holds a column in another type than the schema gives it.

    Args:
        store: Where the table lies.
        schema: The schema of the table.
        path: The decoded path of the file.

    Raises:
        NotFoundError: The file does not exist.
        MalformedError: It is no Parquet file.
    """
    home, name = locate(store, path)
    found = ParquetObject(home, name).schema
    return _fields_differ(list(found), schema.json, schema.mode)


def differs(found: pa.DataType, type: JsonType, mode: str = "none") -> bool:
    """Whether a type in a file is an older one of the type that the table has now.

    Example:
        >>> differs(pa.int32(), "long"), differs(pa.list_(pa.int64()), {"type": "array", "elementType": "long"})
        (True, False)
    """
    if isinstance(type, str):
        return _primitive_differs(found, type)
    if type.get("type") == "struct":
        return pa.types.is_struct(found) and _fields_differ(list(found), type, mode)
    if type.get("type") == "array" and (pa.types.is_list(found) or pa.types.is_large_list(found)):
        return differs(found.value_type, type["elementType"], mode)
    if type.get("type") == "map" and pa.types.is_map(found):
        return differs(found.key_type, type["keyType"], mode) or differs(found.item_type, type["valueType"], mode)
    return False


def _primitive_differs(found: pa.DataType, type: str) -> bool:
    if type in _EXACT:
        return bool(found != _EXACT[type])
    if type == "timestamp_ntz":
        return bool(pa.types.is_date(found))
    decimal = decimal_of(type)
    if decimal is None:
        return False
    return not pa.types.is_decimal(found) or (found.precision, found.scale) != decimal


def _fields_differ(found: list[pa.Field], struct: Mapping[str, Any], mode: str) -> bool:
    present = {field.name.lower(): field.type for field in found}
    for field in struct.get("fields") or ():
        name = field["name"] if mode == "none" else (field.get("metadata") or {}).get(PHYSICAL_NAME, field["name"])
        if name.lower() in present and differs(present[name.lower()], field["type"], mode):
            return True
    return False

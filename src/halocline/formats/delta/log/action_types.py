"""Arrow types of actions, made from the actions themselves."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import pyarrow as pa
from msgspec import Struct, inspect

TEXT_MAP: Final = pa.map_(pa.string(), pa.string())
_PLAIN: Final = {inspect.IntType: pa.int64(), inspect.StrType: pa.string(), inspect.BoolType: pa.bool_()}


def struct_type(kind: type[Struct], *, on_disk: bool = True, without: Collection[str] = ()) -> Any:
    """The type of an action as checkpoints have it, or as it is held in memory.

    Args:
        kind: The action.
        on_disk: Whether fields have the names and the widths that they have in checkpoints.
        without: Fields that are left out.

    Example:
        >>> from halocline.formats.delta.actions.action import Txn
        >>> struct_type(Txn).field(0)
        pyarrow.Field<appId: string>
    """
    fields: Any = inspect.type_info(kind)
    return pa.struct(
        [
            (field.encode_name if on_disk else field.name, _type(field.type, on_disk))
            for field in fields.fields
            if field.name not in without
        ]
    )


def _type(info: inspect.Type, on_disk: bool) -> pa.DataType:
    match info:
        case inspect.UnionType():
            return _type(next(each for each in info.types if not isinstance(each, inspect.NoneType)), on_disk)
        case inspect.Metadata(extra={"bits": 32}) if on_disk:
            return pa.int32()
        case inspect.Metadata():
            return _type(info.type, on_disk)
        case inspect.StructType():
            return struct_type(info.cls, on_disk=on_disk)
        case inspect.DictType():
            return TEXT_MAP
        case inspect.ListType() | inspect.VarTupleType():
            return pa.list_(pa.string())
    return _PLAIN[type(info)]

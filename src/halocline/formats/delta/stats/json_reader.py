"""Statistics out of JSON text, only the columns that are asked for.

The text of one file is decoded into a struct that has exactly the asked-for columns; everything else is passed over
without becoming a value. Text that cannot be read says nothing about its file, which is then kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa

from halocline.formats.delta.configuration.schema import Column
from halocline.formats.delta.stats.bounds import Bounds, Family, family_of, from_json

_MOST: Final = 2**63 - 1
_SECTIONS: Final = ("minValues", "maxValues", "nullCount")
_Tree = dict[str, Any]


class StatsReader:
    """Reads the statistics of some columns.

    Example:
        >>> from halocline.formats.delta.configuration.schema import Schema
        >>> schema = Schema.parse('{"type": "struct", "fields": [{"name": "id", "type": "long"}]}')
        >>> reader = StatsReader([schema.find("id")])
        >>> reader.read(['{"numRecords":3,"minValues":{"id":1},"maxValues":{"id":9}}', None])[0].high.to_pylist()
        [9, None]
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = list(columns)
        # A struct has no count of its own, only its fields have.
        self._counted = [column for column in columns if not _is_struct(column)]
        self._decode = msgspec.json.Decoder(self._struct()).decode

    def _struct(self) -> type[msgspec.Struct]:
        fields: list[tuple[str, Any, Any]] = [("rows", int | None, None)]
        rename = {"rows": "numRecords"}
        for section in _SECTIONS:
            tree: _Tree = {}
            counts = section == "nullCount"
            for column in self._counted:
                if counts or family_of(column) is not None:
                    _insert(tree, column.physical, int if counts else _json_type(column))
            fields.append((section, _struct_of(tree) | None, None))
        return msgspec.defstruct("Stats", fields, rename=rename, gc=False)

    def read(self, texts: Sequence[str | None]) -> list[Bounds | None]:
        """The bounds of each column, in their order; None for a struct, of which nothing is known as a whole."""
        decoded = [self._decoded(text) for text in texts]
        rows = _counts([each and each.rows for each in decoded])
        result: list[Bounds | None] = []
        for column in self._columns:
            if _is_struct(column):
                result.append(None)
                continue
            low, high, nulls = (_getter(section, column.physical) for section in _SECTIONS)
            counts = _counts([_number(nulls(each)) for each in decoded])
            bounds = from_json(column, [low(each) for each in decoded], [high(each) for each in decoded], counts, rows)
            result.append(bounds)
        return result

    def _decoded(self, text: str | None) -> Any:
        if not text:
            return None
        try:
            return self._decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None


def _is_struct(column: Column) -> bool:
    return column.field.struct is not None


def _json_type(column: Column) -> Any:
    """What JSON may hold for a bound of this column; text stands for what numbers cannot say."""
    family = family_of(column)
    if family is Family.DECIMAL:
        return Decimal
    if family is Family.FLOATING:
        return float | int | str
    return {Family.WHOLE: int | str, Family.BOOLEAN: bool}.get(family, str) if family else str


def _insert(tree: _Tree, path: tuple[str, ...], leaf: Any) -> None:
    for step in path[:-1]:
        tree = tree.setdefault(step, {})
    tree.setdefault(path[-1], leaf)


def _struct_of(tree: _Tree) -> Any:
    fields, rename = [], {}
    for position, (name, below) in enumerate(tree.items()):
        label = f"f{position}"
        rename[label] = name
        fields.append((label, (_struct_of(below) if isinstance(below, dict) else below) | None, None))
    return msgspec.defstruct(
        "Section", fields, rename=rename, gc=False, namespace={"positions": {n: k for k, n in rename.items()}}
    )


def _getter(section: str, path: tuple[str, ...]) -> Callable[[Any], Any]:
    def get(decoded: Any) -> Any:
        node = None if decoded is None else getattr(decoded, section)
        for step in path:
            if node is None or not isinstance(node, msgspec.Struct):
                return None
            label = node.positions.get(step)  # type: ignore[attr-defined]
            node = None if label is None else getattr(node, label)
        return None if isinstance(node, msgspec.Struct) else node

    return get


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _counts(values: Sequence[Any]) -> pa.Array:
    return pa.array([value if value is not None and 0 <= value <= _MOST else None for value in values], pa.int64())

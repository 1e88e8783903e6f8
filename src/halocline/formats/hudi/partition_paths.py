"""Partition paths: where rows lie, made from their partition fields.

Values are joined by `/`, as `name=value` where the table is partitioned in Hive's style. Null and empty text have
Hive's name for it. Where the table escapes values, characters that mean something in paths become `%XX`; where it does
not, a value with a slash makes folders inside each other. Values whose folder clients would take for something else are
refused (`halocline.formats.hudi.partition_folders`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from halocline.errors import UnsupportedError
from halocline.formats.hudi.configuration import HudiTableConfig, KeyGeneratorType, PartitionField
from halocline.formats.hudi.partition_folders import DEFAULT_PARTITION, check_folder
from halocline.formats.hudi.timestamp_paths import path_of_time

_ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(1, 0x20)}
_MADE_OF_VALUES: Final = frozenset({KeyGeneratorType.SIMPLE, KeyGeneratorType.COMPLEX, KeyGeneratorType.NON_PARTITION})


def partition_paths(rows: pa.Table, config: HudiTableConfig, *, checked: bool = True) -> list[str]:
    """The partition path of each row.

    Args:
        rows: The rows.
        config: What the table is.
        checked: Whether values are refused that no partition can be made of. Rows that are to be deleted are where
            they are.

    Raises:
        ConstraintError: The folder of a value would be taken for something else.
        UnsupportedError: The paths are made by a key generator, or of a column, that this release does not write with.

    Example:
        >>> pairs = {"hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "8"}
        >>> pairs |= {"hoodie.table.partition.fields": "d", "hoodie.table.keygenerator.type": "SIMPLE"}
        >>> partition_paths(pa.table({"d": ["a", None]}), HudiTableConfig.parse(pairs, "t"))
        ['a', '__HIVE_DEFAULT_PARTITION__']
    """
    if not config.partition_fields:
        return [""] * rows.num_rows
    columns = []
    for number, field in enumerate(config.partition_fields):
        piece_of, column = _pieces(field, config, rows), rows[field.name]
        pieces = {value: piece_of(value) for value in pc.unique(column).to_pylist()}
        for value, piece in pieces.items() if checked else ():
            check_folder(value, piece, number, config)
        columns.append([pieces[value] for value in column.to_pylist()])
    return ["/".join(row) for row in zip(*columns, strict=True)]


def check_partition_type(name: str, type: pa.DataType) -> None:
    """Refuses a column whose values are not put into paths as they are.

    Raises:
        UnsupportedError: Apache Hudi writes such a value in its own way, and would look for rows in other partitions.
    """
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date)
    if not any(each(type) for each in kinds):
        raise UnsupportedError(
            f"partition paths are not made here of {name}, a column of type {type}",
            sides={"partition column": str(type), "halocline writes": "text, whole numbers, booleans and dates"},
            next_step="Choose another column, cast it to text, or use the key generator TIMESTAMP for times.",
        )


def _pieces(field: PartitionField, config: HudiTableConfig, rows: pa.Table) -> Callable[[Any], str]:
    """What makes a field's part of a path."""
    generator = config.key_generator
    kind = field.kind if generator is KeyGeneratorType.CUSTOM else None
    if generator in _MADE_OF_VALUES or kind == "SIMPLE":
        check_partition_type(field.name, rows.schema.field(field.name).type)
        return lambda value: _shown(field.name, value, config)
    if generator is KeyGeneratorType.TIMESTAMP or kind == "TIMESTAMP":
        path = path_of_time(config.pairs, config.name)

        def piece_of(value: Any) -> str:
            # Slashes of a format make folders, except in a table that escapes: there Apache Hudi escapes them too.
            text = escaped_value(path(value)) if config.url_encoded else path(value)
            return f"{field.name}={text}" if config.hive_style else text

        return piece_of
    known = sorted([*_MADE_OF_VALUES, KeyGeneratorType.TIMESTAMP, KeyGeneratorType.CUSTOM])
    raise UnsupportedError(
        f"partition paths of {config.name} are made by a key generator that this release does not write with",
        sides={"table": f"{generator} {field.kind or ''}".strip(), "halocline writes with": ", ".join(known)},
        next_step="Write with the writer that made the table.",
    )


def partition_values(path: str, config: HudiTableConfig) -> dict[str, str]:
    """The values that a partition path tells for certain, by field: those of fields that stand in it as they are.

    A value that is null or empty is told apart by the row alone, and a key generator may have changed what it was made
    of; such fields are left out.

    Example:
        >>> pairs = {"hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "8"}
        >>> pairs |= {"hoodie.table.partition.fields": "d,e", "hoodie.table.keygenerator.type": "COMPLEX"}
        >>> partition_values("a/__HIVE_DEFAULT_PARTITION__", HudiTableConfig.parse(pairs, "t"))
        {'d': 'a'}
    """
    fields = config.partition_fields
    pieces = path.split("/") if len(fields) > 1 else [path]
    custom = config.key_generator is KeyGeneratorType.CUSTOM
    if len(pieces) != len(fields) or not (custom or config.key_generator in _MADE_OF_VALUES):
        return {}
    found = {}
    for field, piece in zip(fields, pieces, strict=True):
        named = f"{field.name}="
        if config.hive_style and not piece.startswith(named):
            return {}
        text = piece.removeprefix(named) if config.hive_style else piece
        if text != DEFAULT_PARTITION and (not custom or field.kind == "SIMPLE"):
            found[field.name] = unquote(text) if config.url_encoded else text
    return found


def escaped_value(text: str) -> str:
    """A value as it stands in a path that is escaped.

    Example:
        >>> escaped_value("2025/01/01 10:00")
        '2025%2F01%2F01 10%3A00'
    """
    return "".join(f"%{ord(each):02X}" if each in _ESCAPED else each for each in text)


def _shown(name: str, value: Any, config: HudiTableConfig) -> str:
    text = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
    shown = (escaped_value(text) if config.url_encoded else text) or DEFAULT_PARTITION
    return f"{name}={shown}" if config.hive_style else shown

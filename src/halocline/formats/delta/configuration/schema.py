"""The schema of a Delta table, for those who read it.

A *column* is one field of a struct, at any depth. It has a *logical* path, the names people use, and a *physical* one,
the names in data files, statistics and partition values. The two differ under column mapping only, and only fields of
structs are renamed. Inside arrays and maps the steps are `element`, `key` and `value`, the same in both.

Names are found without regard to case, as engines do. A schema that parses is one that can be read: types are known,
names are unique, mapped columns have their physical names, and every recorded change of type is one that readers
must understand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from halocline.errors import UnsupportedError
from halocline.formats.delta.actions.action import repeated
from halocline.formats.delta.configuration.column_mapping import mode_of, physical_name
from halocline.formats.delta.configuration.type_widening import check_type_changes
from halocline.schema.char_types import declared_at
from halocline.schema.json_edge import malformed, parse
from halocline.schema.types import DataType, Field, Opaque, Path, Primitive, Struct, decimal_of
from halocline.schema.visitor import types, walk

_NUMBERS: Final = ("byte", "short", "integer", "long", "float", "double")
_TIMES: Final = ("date", "timestamp", "timestamp_ntz")
PRIMITIVES: Final = frozenset({*_NUMBERS, *_TIMES, "binary", "boolean", "string", "variant", "void"})
"""The types without parameters."""


@dataclass(frozen=True, slots=True)
class Column:
    """One field of the schema.

    Attributes:
        path: The logical names from the top.
        physical: The names in files and statistics.
        field: The field itself.
        declared: The char or varchar that the text was declared as; None if it may have any length.
    """

    path: Path
    physical: Path
    field: Field
    declared: DataType | None = None

    @property
    def name(self) -> str:
        """The logical path as one text, for messages."""
        return ".".join(self.path)

    @property
    def type(self) -> DataType:
        """The type of the field."""
        return self.field.type


class Schema:
    """A schema that can be read, with the names that files go by. Made by `Schema.parse` or `Schema.of`.

    Attributes:
        struct: The schema itself.
        mode: How columns are mapped: `none`, `name` or `id`.
    """

    def __init__(self, struct: Struct, mode: str) -> None:
        _check_readable(struct)
        self.struct: Final = struct
        self.mode: Final = mode
        self._columns: Final[dict[Path, Column]] = {}
        for path, field in walk(struct):
            check_type_changes(path, field)
            physical = (*self._physical(path[:-1]), physical_name(field, mode))
            self._columns[path] = Column(path, physical, field, declared_at(struct, path))

    @staticmethod
    def parse(text: str, configuration: Mapping[str, str] | None = None) -> Schema:
        """Reads the schema of a `metaData` action; empty text is a table without columns."""
        return Schema.of(parse(text), "none" if configuration is None else mode_of(configuration))

    @staticmethod
    @lru_cache(maxsize=16)
    def of(struct: Struct, mode: str = "none") -> Schema:
        """The schema of a table whose columns are mapped in that way. The same one gives the same object."""
        return Schema(struct, mode)

    def walk(self) -> Iterator[Column]:
        """Every field at every depth, outer ones first."""
        return iter(self._columns.values())

    @property
    def zoneless(self) -> frozenset[Path]:
        """The physical paths of columns whose timestamps have no zone."""
        return frozenset(column.physical for column in self.walk() if column.type.name == "timestamp_ntz")

    def find(self, *path: str) -> Column:
        """The column of that logical path, whatever the case of its letters."""
        return self._columns[self.struct.find(path)[0]]

    def partition_columns(self, names: Sequence[str]) -> tuple[Column, ...]:
        """The columns by which the table is partitioned, in order."""
        found = []
        for name in names:
            field = self.struct.get(name)
            if field is None:
                raise malformed(f"partition column {name!r} is not in the schema", ", ".join(self.struct.names))
            found.append(self._columns[(field.name,)])
        return tuple(found)

    def _physical(self, path: Path) -> Path:
        """What leads to the fields of a struct, which may stand in arrays and maps of the column that holds it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._columns:
                return (*self._columns[path[:length]].physical, *path[length:])
        return ()


def _check_readable(struct: Struct) -> None:
    for path, type in types(struct):
        if isinstance(type, Struct):
            if twice := repeated(map(str.lower, type.names)):
                raise malformed(f"the schema has two columns {twice!r}", ".".join((*path, twice)))
        elif isinstance(type, Opaque) or (
            isinstance(type, Primitive) and type.name not in {*PRIMITIVES, "null"} and decimal_of(type) is None
        ):
            name = ".".join(path)
            raise UnsupportedError(
                f"column {name} has type {str(type)!r}, which this release does not read",
                sides={"column": f"{name} {type}", "known": "Delta's primitive types, struct, array and map"},
                next_step="Upgrade Halocline, or leave the column out of the table.",
            )

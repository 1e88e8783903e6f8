"""Columns declared all over again: the schema that comes of it, by the rules of `ALTER TABLE … REPLACE COLUMNS`.

A declared column that the table has stays what it is: its data, its name as it was spelt, and what is noted of it. It
takes the place, the comment and the wider type that are declared, and allows nulls where they are declared allowed. One
that the table lacks comes in. One that is not declared is dropped, which takes column mapping. Fields of structs go the
same way at any depth.

Where one struct would both lose and gain fields, nobody can tell a new column from a renamed one, so that is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from halocline.errors import SchemaError
from halocline.formats.delta.configuration import alter, column_mapping, properties, type_widening
from halocline.formats.delta.configuration.identity import identity_columns
from halocline.formats.delta.configuration.table_configuration import TableConfiguration
from halocline.schema.char_types import DECLARED
from halocline.schema.defaults import default_of
from halocline.schema.types import DataType, Field, Path, Struct, is_void
from halocline.schema.visitor import paired, with_parts


def replace_columns(state: TableConfiguration, columns: Struct, *, version: int) -> TableConfiguration:
    """The state with its columns declared anew; under the preview of type widening, changes note the version."""
    numbered = [each.name for each in identity_columns(state.schema)]
    if numbered:
        raise SchemaError(
            "columns of a table with an identity column cannot be declared anew",
            sides={"identity": ", ".join(numbered), "declared": ", ".join(columns.names)},
            next_step="Add, drop, move or widen columns one by one.",
        )
    work = _Declared(state, version)
    schema = work.struct(state.schema, columns, ())
    for path in work.dropped:
        alter.check_droppable(state, path)
    for path in work.widened:
        alter.check_unreferenced(state, path, "changed")
    schema, configuration = column_mapping.mapped(schema, state.metadata.configuration, column_mapping.random_name)
    return state.evolved(schema=schema, configuration=configuration)


@dataclass
class _Declared:
    """A declaration that is being compared with a table, and what it drops and widens."""

    state: TableConfiguration
    version: int
    dropped: list[Path] = field(default_factory=list)
    widened: list[Path] = field(default_factory=list)

    def struct(self, known: Struct, new: Struct, path: Path) -> Struct:
        fields, added = list[Field](), list[Field]()
        for each in new.fields:
            present = known.get(each.name)
            if present is None:
                added.append(each)
            fields.append(each if present is None else self._field(present, each, (*path, present.name)))
        gone = [each for each in known.fields if new.get(each.name) is None]
        if gone and added:
            raise SchemaError(
                f"columns are dropped and added at once, and one may be meant to become the other{_below(path)}",
                sides={"dropped": ", ".join(f.name for f in gone), "added": ", ".join(f.name for f in added)},
                next_step="Rename columns by RENAME COLUMN; drop and add others one after the other.",
            )
        alter.check_new(added)
        self.dropped += [(*path, each.name) for each in gone]
        return known.with_fields(fields)

    def _field(self, known: Field, new: Field, path: Path) -> Field:
        if known.nullable and not new.nullable:
            raise SchemaError(
                f"column {'.'.join(path)} cannot become NOT NULL: rows may lack a value for it",
                sides={"table": "nullable", "declared": "NOT NULL"},
            )
        if default_of(new) not in (None, default_of(known)):
            raise SchemaError(
                f"column {'.'.join(path)} cannot get another default this way",
                sides={"table": str(default_of(known)), "declared": str(default_of(new))},
                next_step="Leave it out, and change it by set_default, or SET DEFAULT.",
            )
        length = known.metadata.get(DECLARED)
        if new.metadata.get(DECLARED, length) != length:
            raise SchemaError(
                f"column {'.'.join(path)} cannot get another length this way",
                sides={"table": str(length or known.type), "declared": str(new.metadata[DECLARED])},
            )
        before, after = self._type(known.type, new.type, path)
        found = replace(known, type=before, nullable=new.nullable)
        if comment := new.metadata.get("comment"):
            found = found.annotated("comment", comment)
        if after == before:
            return found
        if is_void(known.type):
            return replace(found, type=after)
        if not properties.flag(self.state.metadata.configuration, type_widening.ENABLED):
            raise SchemaError(
                f"column {'.'.join(path)} cannot change its type",
                sides={"table": str(known.type)[:80], "declared": str(new.type)[:80]},
                next_step=f"Set {type_widening.ENABLED}=true on the table first, and declare a wider type.",
            )
        self.widened.append(path)
        return type_widening.widened(found, after, path, type_widening.noted_version(self.state.protocol, self.version))

    def _type(self, known: DataType, new: DataType, path: Path) -> tuple[DataType, DataType]:
        """A type whose structs are declared anew, with the plain types that it had, and with those that it gets."""
        if isinstance(known, Struct) and isinstance(new, Struct):
            found = self.struct(known, new, path)
            return found, found
        inner = paired(known, new)
        if inner is None:
            return known, new
        both = [self._type(one, other, (*path, step)) for step, one, other in inner]
        return with_parts(known, *(before for before, _ in both)), with_parts(known, *(after for _, after in both))


def _below(path: Path) -> str:
    return f" in {'.'.join(path)}" if path else ""

"""A schema that has grown by the columns of rows that are offered.

New columns, and new fields of structs at any depth, come in at the end and allow nulls, since existing rows lack them.
A column without a type (void) takes the type that is offered. Nothing is taken away, and no other type changes.
"""

from __future__ import annotations

from halocline.schema.types import DataType, Field, Struct, is_void
from halocline.schema.visitor import nullable, paired, with_parts, with_type


def grown_by(known: Struct, rows: Struct) -> Struct:
    """A struct grown by the fields of another; the same object where nothing is new.

    Example:
        >>> from halocline.schema.types import Primitive
        >>> id, note = Field("id", Primitive("long")), Field("note", Primitive("string"), nullable=False)
        >>> print(grown_by(Struct([id]), Struct([note, id])))
        struct<id: long, note: string>
    """
    fields = []
    for field in known.fields:
        found = rows.get(field.name)
        fields.append(field if found is None else with_type(field, _with_new_fields(field.type, found.type)))
    new = nullable(Struct([field for field in rows.fields if known.get(field.name) is None]))
    same = not new.fields and all(after is before for after, before in zip(fields, known.fields, strict=True))
    return known if same else known.with_fields([*fields, *new.fields])


def _with_new_fields(known: DataType, rows: DataType) -> DataType:
    """One type grown by the fields of another; the same object where nothing is new."""
    if is_void(known) and not is_void(rows):
        return nullable(Struct([Field("x", rows)])).fields[0].type
    if isinstance(known, Struct) and isinstance(rows, Struct):
        return grown_by(known, rows)
    inner = paired(known, rows)
    return known if inner is None else with_parts(known, *(_with_new_fields(one, other) for _, one, other in inner))

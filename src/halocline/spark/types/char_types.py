"""Text of limited length on its way into a table.

Values of `char(n)` are padded with blanks to n characters. Blanks at the end that are too many are cut off, as SQL
asks; any other character too many breaks the rule that `halocline.spark.write.rules` makes of the declared type.

The limit: only columns at the top of the schema can be declared so.
"""

from __future__ import annotations

from halocline.errors import SchemaError
from halocline.schema.char_types import declared_type, is_limited, stored_field
from halocline.schema.types import Field, Path, Struct
from halocline.schema.visitor import map_fields, types


def stored(schema: Struct) -> Struct:
    """The schema as a table stores it: text instead of char and varchar, the declared type in the metadata.

    Raises:
        SchemaError: A type of limited length stands inside another type.
    """

    def changed(path: Path, field: Field) -> Field:
        if len(path) == 1 and is_limited(field.type):
            return stored_field(field)
        if (found := next((each for _, each in types(field.type) if is_limited(each)), None)) is not None:
            raise SchemaError(
                f"column {'.'.join(path)} holds {found}, and text of limited length cannot stand inside another type",
                sides={"given": str(found), "possible": "string, or a column of its own"},
                next_step="Declare it as string.",
            )
        return field

    return map_fields(schema, changed)


def fitted(sql: str, field: Field) -> str:
    """SQL for a text as its column keeps it: padded, or without blanks too many at the end.

    Example:
        >>> from halocline.schema import Primitive
        >>> fitted("`n`", Field("n", Primitive("string")))
        '`n`'
    """
    declared = declared_type(field)
    if declared is None:
        return sql
    length = declared.parameters[0]
    if declared.name.lower() == "varchar":
        return f"CASE WHEN length(rtrim({sql})) <= {length} THEN left({sql}, {length}) ELSE {sql} END"
    # Longer text stays as it is, for the rule on its length to find.
    return f"CASE WHEN length(rtrim({sql})) <= {length} THEN rpad({sql}, {length}, ' ') ELSE {sql} END"
